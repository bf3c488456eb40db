
-- The driver: reads the packed batch, decides each request, answers packed.
--
-- KEYS: one per limit. ARGV[1], little-endian: operation (1: check, 2: refund, 3: reset; one byte), number of bounds (1), then
--   per bound: algorithm (1), limit (double), capacity (double), window in µs (double); of algorithm 6, a fixed window that follows a calendar,
--     also five ascending edges of windows in µs (doubles): the one before that of the shard's time, that, and the two after it
--   check: number of shapes (1); per shape: flags (one byte), bound (1), cost (double); per key: its shape (1); then for each key whose shape
--     has a lease, that (16)
--     flags: 1: shadow; 2: last limit of its request; 4: the key occurred before; 8: writes nothing; 16: consumes without deciding; 32: creates
--     no counter; 64: acquires a lease
--   refund: per key: bound (1), units (double), time of the consume in µs (double; 0: now), the lease that ends (16)
--   reset: nothing more
-- Reply to a check: time (double); per key a mark (1); then per key what the mark announces:
--   0 to 3: flags (1: passes, 2: foreign state was replaced); remaining, reset and retry-after in µs (doubles; retry-after -1: never)
--   4: passes; the state written under the key, from which the reader works out the rest
--   5: nothing; no limit of the request was decided, because the edges of one of them are not those around the shard's time
--   6: nothing; there is no counter, and none was created: it passed within its request
-- Reply to a refund: units given back per key (doubles).
-- Reply to a reset: per key whether there was one (1).

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

local algorithms, numbers = {}, {}

-- Reads the edges of a calendar's windows; returns whether the current one and the next are among them.
local function read_edges(b, packed, position)
  local first, second, third, fourth, fifth = unpick('<ddddd', packed, position)
  if now < first or now >= fourth then
    return false
  elseif now < second then
    calendars[b] = { starts = first, ends = second, next_ends = third }
  elseif now < third then
    calendars[b] = { starts = second, ends = third, next_ends = fourth }
  else
    calendars[b] = { starts = third, ends = fourth, next_ends = fifth }
  end
  return true
end

-- Bounds whose edges are stale; nil if none are.
local stale_bounds

local function read_bounds(packed, count, position)
  for b = 1, count do
    local number
    number, limits[b], capacities[b], windows[b], position = unpick('<Bddd', packed, position)
    if number == 6 then
      if not read_edges(b, packed, position) then
        stale_bounds = stale_bounds or {}
        stale_bounds[b] = true
      end
      number, position = 3, position + 40
    end
    algorithms[b], numbers[b] = algorithm(number), number
    rates[b] = limits[b] * 1048576
  end
  return position
end

-- Whether calls under a bound have a short way: a bucket with state of 12 bytes that drains within eight years, or a fixed window.
local function is_ordinary(b)
  local number, capacity = numbers[b], capacities[b]
  return number == 1 and capacity < 4294967296 and capacity * 65536 * windows[b] < rates[b] * 17592186044416 or number == 3
end

local shape_flags = {}
-- Whether any shape has a lease.
local any_lease = false

local function read_shapes(packed, position)
  local count, flags, b, cost
  count, position = unpick('<B', packed, position)
  for s = 1, count do
    flags, b, cost, position = unpick('<BBd', packed, position)
    shape_flags[s], shape_bounds[s], shape_costs[s], creates_nothing[s] = flags, b, cost, flags == 34
    any_lease = any_lease or flags >= 64
    runs[s] = (flags == 2 or flags == 34) and not stale_bounds and cost > 0 and cost <= capacities[b] and is_ordinary(b) and numbers[b]
  end
  return position
end

local FLAGS = { [0] = '\0', '\1', '\2', '\3' }
local STALE, UNCOUNTED = '\5', '\6'

-- Calls one by one: all that no algorithm answers in one piece. Made when a batch first needs it.
local function one_by_one()
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
  local function read_leases(packed, position)
    local found = {}
    for k, shape in ipairs(shapes) do
      if traits_of(shape).lease then
        found[k] = sub(packed, position, position + 15)
        position = position + 16
      end
    end
    return found
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

  return take, find_stale, read_leases
end

local function check(packed, position)
  local count = #KEYS
  position = read_shapes(packed, position)
  shapes = { byte(packed, position, position + count - 1) }
  local take, given, skipped
  if any_lease or stale_bounds then
    local find_stale, read_leases
    take, find_stale, read_leases = one_by_one()
    given = any_lease and read_leases(packed, position + count)
    skipped = stale_bounds and find_stale()
  end
  found = call('MGET', unpack(KEYS))
  local k, within = 1, false
  while k <= count do
    local usual = not within and runs[shapes[k]]
    local next = usual and made[usual].run(k, count) or k
    if next > k then
      k = next
    else
      if skipped and skipped[k] then
        marks[k], out[k] = STALE, ''
      else
        take = take or one_by_one()
        within = take(k, given and given[k])
      end
      k = k + 1
    end
  end
  return pack('<d', now) .. concat(marks) .. concat(out)
end

local operation, bound_count, position = unpick('<BB', ARGV[1])
position = read_bounds(ARGV[1], bound_count, position)
if operation == 1 then
  return check(ARGV[1], position)
end

local function refund(packed, position)
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
  return refund(ARGV[1], position)
end
return clear()
