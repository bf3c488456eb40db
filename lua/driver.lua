
-- The driver: decides each request that the short ways left, and answers packed; gives units back; resets.

-- A limit of 0 lets nothing pass and keeps no state.
local function blocked()
  local function nothing()
    return 0
  end
  local function read(i, _, _, _, cost)
    retries[i] = cost > 0 and -1
    costs[i] = 0
    return 0
  end
  return { read = read, reset = nothing, give = nothing }
end

local makers = { [0] = blocked, token_bucket, sliding_window, fixed_window, sliding_log, concurrency }
local made = {}

function algorithm(number)
  local known = made[number]
  if not known then
    known = makers[number]()
    made[number] = known
  end
  return known
end

local algorithms = {}
for b, number in ipairs(numbers) do
  algorithms[b] = algorithm(number)
end

local FLAGS = { [0] = '\0', '\1', '\2', '\3' }
local STALE, UNCOUNTED = '\5', '\6'

-- Decides from call `first` on, which begins a request: one by one but for what has a short way.
local function check(first)
  -- By place in the request: its bound, the units that may still pass, and whether there is no counter and may be none.
  local bounds, rooms, uncounted = {}, {}, {}

  -- What the flags of a shape say, worked out when a call of it is first looked at.
  local traits = {}
  local function traits_of(shape)
    local known = traits[shape]
    if not known then
      local flags = shape_flags[shape]
      known = {
        plain = flags < 16,
        shadow = flags % 2 == 1,
        last = floor(flags / 2) % 2 == 1,
        again = floor(flags / 4) % 2 == 1,
        writes = floor(flags / 8) % 2 == 0,
        records = floor(flags / 16) % 2 == 1,
        creates_nothing = floor(flags / 32) % 2 == 1,
        lease = flags >= 64,
      }
      traits[shape] = known
    end
    return known
  end

  -- Answers the `size` calls of a request, the last of which is call `last` of the batch, and consumes if it is admitted.
  local function settle(size, last, admitted)
    for i = 1, size do
      local b, cost, room, retry, flags = bounds[i], costs[i], rooms[i], retries[i], replaced[i]
      local key, reset = last - size + i, nil
      if uncounted[i] then
        marks[key], out[key] = UNCOUNTED, ''
      else
        if not retry then
          flags, retry = flags + 1, 0
          if admitted and cost > 0 then
            reset = algorithms[b].take(i, KEYS[key], b, cost)
            room = room - cost
          end
        end
        marks[key] = FLAGS[flags]
        out[key] = pack('<ddd', room > 0 and floor(room) or 0, reset or algorithms[b].reset(i, b), retry)
      end
    end
  end

  -- What an earlier request of the batch left under a key: a string, or false for nothing or something else.
  local function again(key)
    none_exists = false
    local text = try('GET', key)
    return type(text) == 'string' and text
  end

  -- Of units that are consumed without deciding, those that count: to one further capacity past the limit, or to 2^53 in all.
  local function recorded(units, room, capacity)
    local most, exact = room + capacity, EXACT - (capacity - room)
    if most > exact then
      most = exact
    end
    most = most > 0 and floor(most) or 0
    return units < most and units or most
  end

  -- Reads a limit that is more than checked or looked at.
  local function read_special(i, key, text, b, cost, trait)
    if trait.creates_nothing and not text and not exists(key) then
      uncounted[i] = true
      return
    end
    lease = trait.lease and leases[i]
    local room = algorithms[b].read(i, key, text, b, trait.records and 0 or cost)
    rooms[i] = room
    if trait.records then
      retries[i] = false
      costs[i] = costs[i] > 0 and recorded(cost, room, capacities[b]) or 0
    end
  end

  -- Marks the requests that have a limit with stale edges; returns their calls as a set.
  local function find_stale()
    local skipped, first = {}, 1
    for k, shape in ipairs(shapes) do
      if stale_bounds[shape_bounds[shape]] then
        skipped[first] = true
      end
      if traits_of(shape).last then
        for other = first, k do
          skipped[other] = skipped[first]
        end
        first = k + 1
      end
    end
    return skipped
  end

  -- The leases that follow the shapes of the calls, by place in the batch.
  local function read_leases(from)
    local given = {}
    for k, shape in ipairs(shapes) do
      if traits_of(shape).lease then
        given[k] = sub(packed, from, from + 15)
        from = from + 16
      end
    end
    return given
  end

  local place, admitted = 0, true

  -- Takes call `k`, whose lease comes with it; returns whether its request goes on.
  local function take(k, given)
    local key, text, shape = KEYS[k], found[k], shapes[k]
    local trait, b, cost, i = traits[shape] or traits_of(shape), shape_bounds[shape], shape_costs[shape], place + 1
    if trait.again then
      text = again(key)
    end
    place = i
    retries[i], replaced[i], bounds[i], uncounted[i], leases[i] = false, 0, b, false, given
    writes, lease = trait.writes, false
    costs[i] = writes and cost or 0
    if trait.plain then
      rooms[i] = algorithms[b].read(i, key, text, b, cost)
    else
      read_special(i, key, text, b, cost, trait)
    end
    if retries[i] and not trait.shadow then
      admitted = false
    end
    if trait.last then
      settle(i, k, admitted)
      place, admitted = 0, true
      return false
    end
    return true
  end

  local given
  for _, flags in ipairs(shape_flags) do
    if flags >= 64 and not given then
      given = read_leases(position + #KEYS)
    end
  end
  local skipped = stale_bounds and find_stale()
  local k, within = first, false
  while k <= #KEYS do
    local way = not within and short[runs[shapes[k]]]
    local next = way and way(k, #KEYS) or k
    if next == k then
      if skipped and skipped[k] then
        marks[k], out[k] = STALE, ''
      else
        within = take(k, given and given[k])
      end
      next = k + 1
    end
    k = next
  end
  return pack('<d', now) .. concat(marks) .. concat(out)
end

if operation == 1 then
  return check(first_left)
end

local function refund()
  local given = {}
  for k = 1, #KEYS do
    local b, units, time, lease
    b, units, time, lease, position = unpick('<Bddc16', packed, position)
    given[k] = units > 0 and algorithms[b].give(KEYS[k], b, units, time, lease) or 0
  end
  return pack('<' .. string.rep('d', #KEYS), unpack(given))
end

local function clear()
  local done = {}
  for k, key in ipairs(KEYS) do
    done[k] = FLAGS[call('DEL', key)]
  end
  return concat(done)
end

if operation == 2 then
  return refund()
end
return clear()
