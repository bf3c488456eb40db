-- Everything in this folder is one script: batch.lua, short.lua, state.lua, token_bucket.lua, sliding_window.lua, fixed_window.lua,
-- sliding_log.lua, concurrency.lua and driver.lua, in this order. It is the only code that changes a counter in Redis or Valkey.
-- core/src/algorithm holds the same arithmetic in Rust; where a step is in doubles here it is in f64 there, in the same order, and the
-- conformance tests compare the two.
--
-- Rules that hold throughout: the clock is read once; every key comes from KEYS; no random numbers; every write sets a TTL; a call
-- that only looks writes nothing at all. Lua has only doubles, which hold whole numbers up to 2^53: microseconds since the epoch and unit
-- counts fit. A server prints a number argument with 17 digits, slowly, and some print large ones as 1e+15: numbers are formatted here.
--
-- Speed matters: a server runs this once per batch, on its only thread, and makes every function, table and string of it anew. So short.lua
-- returns at once where it has answered everything, before the rest is made; an algorithm is a function that makes its functions when a batch
-- first needs them; and tables are indexed by the place of a call within its request, not within the batch, where they can be: they stay
-- small.
--
-- This part reads the batch. KEYS: one per limit. ARGV[1], little-endian: operation (1: check, 2: refund, 3: reset; one byte), number of
-- bounds (1), then
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

local call, pack, unpick, concat = redis.call, struct.pack, struct.unpack, table.concat

-- 2^53: whole numbers below it are exact.
local EXACT = 9007199254740992

-- The shard's clock, in microseconds since the epoch.
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]

local packed = ARGV[1]
local operation, bound_count, position = unpick('<BB', packed)

-- The bounds that this batch uses; of those that follow a calendar, when the current window begins and ends, and when the next ends.
local numbers, limits, capacities, windows, calendars = {}, {}, {}, {}, {}
-- Bounds of which neither the current window nor the next is among their edges; nil if there are none.
local stale_bounds

for b = 1, bound_count do
  local number
  number, limits[b], capacities[b], windows[b], position = unpick('<Bddd', packed, position)
  if number == 6 then
    local first, second, third, fourth, fifth
    first, second, third, fourth, fifth, position = unpick('<ddddd', packed, position)
    if now < first or now >= fourth then
      stale_bounds = stale_bounds or {}
      stale_bounds[b] = true
    elseif now < second then
      calendars[b] = { starts = first, ends = second, next_ends = third }
    elseif now < third then
      calendars[b] = { starts = second, ends = third, next_ends = fourth }
    else
      calendars[b] = { starts = third, ends = fourth, next_ends = fifth }
    end
    number = 3
  end
  numbers[b] = number
end

-- The shapes of its calls, and by place in the batch the shape of a call.
local shape_flags, shape_bounds, shape_costs, shapes = {}, {}, {}, nil
-- What lies under each key as a string, or false.
local found
-- What is answered to each call, and in which form.
local marks, out = {}, {}
local STATE = '\4'

if operation == 1 then
  local count
  count, position = unpick('<B', packed, position)
  for s = 1, count do
    shape_flags[s], shape_bounds[s], shape_costs[s], position = unpick('<BBd', packed, position)
  end
  shapes = { string.byte(packed, position, position + #KEYS - 1) }
  found = call('MGET', unpack(KEYS))
end

-- A second of the shard's clock as milliseconds. Many counters of a batch need one of few seconds: so the texts are kept.
local texts = {}
local function milliseconds(second)
  local text = texts[second]
  if not text then
    text = second .. '000'
    texts[second] = text
  end
  return text
end

-- Whether there is anything under a key that holds no string. Most such keys are new, so the first question is about all at once.
local none_exists
local function exists(key)
  if none_exists == nil then
    local missing = {}
    for k = 1, #KEYS do
      if not found[k] then
        missing[#missing + 1] = KEYS[k]
      end
    end
    none_exists = call('EXISTS', unpack(missing)) == 0
  end
  return not none_exists and call('EXISTS', key) == 1
end
