
-- The driver: reads the packed batch, decides each request, answers packed.
--
-- KEYS: one per limit. ARGV[1], little-endian: operation (1: check, 2: refund; one byte), number of bounds (2), then
--   per bound: algorithm (1), limit (double), capacity (double), window in µs (double)
--   per key of a check: flags (1: shadow, 2: last limit of its request, 4: the key occurred before; one byte), bound (2), cost (double)
--   per key of a refund: bound (2), units (double), time of the consume in µs (double)
-- Reply to a check: time (double), then per key: flags (1: passes, 2: foreign state replaced; one byte), remaining, reset and retry-after
-- in µs (doubles; retry-after -1: never). Reply to a refund: units given back per key (doubles).

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

local algorithms = {}

local function read_bounds(packed, count, position)
  for b = 1, count do
    local number
    number, limits[b], capacities[b], windows[b], position = unpick('<Bddd', packed, position)
    algorithms[b] = algorithm(number)
    rates[b] = number == 1 and capacities[b] < 4294967296 and limits[b] * 1048576
  end
  return position
end

-- By place in the request: its bound, its cost, and the units that may still pass.
local bounds, costs, rooms = {}, {}, {}

-- Answers the `size` calls of a request, the last of which is call `last` of the batch, and consumes if it is admitted.
local function settle(size, last, admitted, out)
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
    local o = key * 4
    out[o - 3] = flags
    out[o - 2] = room > 0 and floor(room) or 0
    out[o - 1] = reset or algorithms[b].reset(i, b)
    out[o] = retry
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
  -- Unpacking nils makes a table that has room for all numbers of the answer at once.
  local out = { unpack(keys, 1, count * 4) }
  local i, admitted = 0, true
  found = call('MGET', unpack(keys))
  for k = 1, count do
    local key, text, flags, b, cost = keys[k], found[k], nil, nil, nil
    flags, b, cost, position = unpick('<BHd', packed, position)
    if flags >= 4 then
      text, flags = again(key), flags - 4
    end
    local usual = flags == 2 and i == 0 and rates[b] and cost > 0 and text and #text == 12
    if not (usual and algorithms[b].quick(key, text, b, cost, out, k * 4 - 4)) then
      i = i + 1
      retries[i], replaced[i], bounds[i], costs[i] = false, 0, b, cost
      rooms[i] = algorithms[b].read(i, key, text, b, cost)
      if retries[i] and flags % 2 == 0 then
        admitted = false
      end
      if flags >= 2 then
        settle(i, k, admitted, out)
        i, admitted = 0, true
      end
    end
  end
  return pack('<d' .. string.rep('Bddd', count), now, unpack(out, 1, count * 4))
end

local function refund(packed, position)
  local given = {}
  for k = 1, #KEYS do
    local b, units, time
    b, units, time, position = unpick('<Hdd', packed, position)
    given[k] = units > 0 and algorithms[b].give(KEYS[k], b, units, time) or 0
  end
  return pack('<' .. string.rep('d', #KEYS), unpack(given))
end

local operation, bound_count, position = unpick('<BH', ARGV[1])
position = read_bounds(ARGV[1], bound_count, position)
if operation == 1 then
  return check(ARGV[1], position)
end
return refund(ARGV[1], position)
