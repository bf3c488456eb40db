
-- The driver: reads the packed batch, decides each request, answers packed.
--
-- KEYS: one per limit. ARGV[1], little-endian: operation (1: check, 2: refund, 3: reset, 4: release; one byte), number of bounds (1), then
--   per bound: algorithm (1), limit (double), capacity (double), window in µs (double)
--   check: number of shapes (1); per shape: flags (1: shadow, 2: last limit of its request, 4: the key occurred before; one byte), bound
--     (1), cost (double); per key: its shape (1)
--   refund: per key: bound (1), units (double), time of the consume in µs (double), lease (16)
--   reset: nothing more; release: per key the lease (16)
-- Reply to a check: time (double); per key a mark (1); then per key what the mark announces:
--   0 to 3: flags (1: passes, 2: foreign state was replaced); remaining, reset and retry-after in µs (doubles; retry-after -1: never)
--   4: passes; the state written under the key, from which the reader works out the rest
-- Reply to a refund: units given back per key (doubles).
-- Reply to a reset or release: per key whether there was one (1).

-- A limit of 0 lets nothing pass and keeps no state.
local function blocked()
  local function nothing()
    return 0
  end
  local function read(i, _, _, _, cost)
    retries[i] = cost > 0 and -1
    return 0
  end
  return { read = read, reset = nothing, give = nothing }
end

local makers = { [0] = blocked, token_bucket, sliding_window, fixed_window }
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

local function read_bounds(packed, count, position)
  for b = 1, count do
    local number
    number, limits[b], capacities[b], windows[b], position = unpick('<Bddd', packed, position)
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

local function read_shapes(packed, position)
  local count, flags, b, cost
  count, position = unpick('<B', packed, position)
  local shape_flags = {}
  for s = 1, count do
    flags, b, cost, position = unpick('<BBd', packed, position)
    shape_flags[s], shape_bounds[s], shape_costs[s] = flags, b, cost
    runs[s] = flags == 2 and cost > 0 and cost <= capacities[b] and is_ordinary(b) and numbers[b]
  end
  return shape_flags, position
end

-- By place in the request: its bound, its cost, and the units that may still pass.
local bounds, costs, rooms = {}, {}, {}
local FLAGS = { [0] = '\0', '\1', '\2', '\3' }

-- Answers the `size` calls of a request, the last of which is call `last` of the batch, and consumes if it is admitted.
local function settle(size, last, admitted)
  for i = 1, size do
    local b, cost, room, retry, flags = bounds[i], costs[i], rooms[i], retries[i], replaced[i]
    local key, reset = last - size + i, nil
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

-- What an earlier request of the batch left under a key: a string, or false for nothing or a hash.
local function again(key)
  none_exists = false
  local text = try('GET', key)
  return type(text) == 'string' and text
end

local function check(packed, position)
  local keys, count = KEYS, #KEYS
  local shape_flags
  shape_flags, position = read_shapes(packed, position)
  shapes = { byte(packed, position, position + count - 1) }
  found = call('MGET', unpack(keys))
  local k, i, admitted = 1, 0, true
  while k <= count do
    local shape = shapes[k]
    local usual = i == 0 and runs[shape]
    local next = usual and made[usual].run(k, count) or k
    if next > k then
      k = next
    else
      local key, text, flags, b, cost = keys[k], found[k], shape_flags[shape], shape_bounds[shape], shape_costs[shape]
      if flags >= 4 then
        text, flags = again(key), flags - 4
      end
      i = i + 1
      retries[i], replaced[i], bounds[i], costs[i] = false, 0, b, cost
      rooms[i] = algorithms[b].read(i, key, text, b, cost)
      if retries[i] and flags % 2 == 0 then
        admitted = false
      end
      if flags >= 2 then
        settle(i, k, admitted)
        i, admitted = 0, true
      end
      k = k + 1
    end
  end
  return pack('<d', now) .. concat(marks) .. concat(out)
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

local function release(packed, position)
  local done = {}
  for k, key in ipairs(KEYS) do
    done[k] = try('ZREM', key, sub(packed, position, position + 15)) == 1 and FLAGS[1] or FLAGS[0]
    position = position + 16
  end
  return concat(done)
end

local operation, bound_count, position = unpick('<BB', ARGV[1])
position = read_bounds(ARGV[1], bound_count, position)
if operation == 1 then
  return check(ARGV[1], position)
elseif operation == 2 then
  return refund(ARGV[1], position)
elseif operation == 3 then
  return clear()
end
return release(ARGV[1], position)
