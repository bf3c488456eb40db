-- Everything in this folder is one script: state.lua, token_bucket.lua, sliding_window.lua, fixed_window.lua, sliding_log.lua,
-- concurrency.lua and driver.lua, in this order. It is the only code that changes a counter in Redis or Valkey. core/src/algorithm holds the same arithmetic in Rust; where a
-- step is in doubles here it is in f64 there, in the same order, and the conformance tests compare the two.
--
-- Rules that hold throughout: the clock is read once; every key comes from KEYS; no random numbers; every write sets a TTL; a call
-- that only looks writes nothing at all. Lua has only doubles, which hold whole numbers up to 2^53: microseconds since the epoch and unit
-- counts fit. A server prints a number argument with 17 digits, slowly, and some print large ones as 1e+15: numbers are formatted here.
--
-- Speed matters: a server runs this once per batch, on its only thread, and makes every function, table and string of it anew. So an
-- algorithm is a function that makes its functions when a batch first needs them, and tables are indexed by the place of a call within
-- its request, not within the batch: they stay small.
--
-- This first part is what the algorithms share: the batch at hand, and the care for keys whose state is not their own.

local call, try = redis.call, redis.pcall
local pack, unpick = struct.pack, struct.unpack
local floor, ceil = math.floor, math.ceil
local format, byte, char, sub, concat = string.format, string.byte, string.char, string.sub, table.concat

-- 2^53: whole numbers below it are exact.
local EXACT = 9007199254740992

-- The shard's clock, in microseconds since the epoch.
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- The bounds that this batch uses. A rate is what a token bucket drains in a step of 16 µs, in 1/65536 units times the window.
local limits, capacities, windows, rates = {}, {}, {}, {}

-- For bounds that follow a calendar: when the current window begins and ends, and when the next ends.
local calendars = {}

-- The shapes of its calls: a bound, a cost, and the number of the algorithm that may answer such a call in one piece (see driver.lua), or
-- false; for those whether no counter may be created. And by place in the batch: the shape of a call.
local shape_bounds, shape_costs, creates_nothing, runs, shapes = {}, {}, {}, {}, nil

-- By place in the batch: what is answered, and in which form.
local marks, out = {}, {}
local STATE = '\4'

-- By place in the request: units to take; the lease to acquire; microseconds until the cost would pass where it does not (-1: never), else
-- false; 2 where foreign state was replaced, else 0.
local costs, leases, retries, replaced = {}, {}, {}, {}

-- Of the call at hand: whether it may write, and its lease or false.
local writes, lease

-- What lies under each key of the batch as a string, or false; and whether the others are known not to exist (nil: nobody asked yet).
local found, none_exists

-- The algorithm of a number (fixed_window is 3), made on first use; driver.lua says how.
local algorithm

-- Whether `n` is a number of units: whole, and within what a double holds exactly. (Not a number is neither above nor below.)
local function is_count(n)
  return n ~= nil and n >= 0 and n <= EXACT and n % 1 == 0
end

-- A second of the shard's clock as milliseconds. A server formats numbers slowly, and many counters of a batch need one of few seconds: so
-- their texts are kept, and put together from parts.
local prefixes, texts = {}, {}
local function milliseconds(second)
  local text = texts[second]
  if not text then
    local high = floor(second / 1000)
    local prefix = prefixes[high]
    if not prefix then
      prefix = format('%.0f', high)
      prefixes[high] = prefix
    end
    local low = second - high * 1000
    local hundreds = floor(low / 100)
    local rest = low - hundreds * 100
    local tens = floor(rest / 10)
    text = prefix .. char(48 + hundreds, 48 + tens, 48 + rest - tens * 10, 48, 48, 48)
    texts[second] = text
  end
  return text
end

-- The millisecond of the shard's clock through which state must live that counts for `us` more microseconds: a whole second, at least one
-- more than that. State says itself when it stops counting; the second on top keeps the server's own expiry out of that.
local function expiry(us)
  return milliseconds(ceil((now + us) / 1000000) + 1)
end

-- Whether there is anything under a key that holds no string. Most such keys are new, so the first question is about all at once.
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

-- Removes state that nobody can read, which starts empty and is reported. A look leaves it for the first real call.
local function discard(i, key)
  if writes then
    call('DEL', key)
    replaced[i] = 2
  end
end

-- Takes over the units that another algorithm counted under `key`: returns them, and the latest time stored with them or now. All of
-- them count as consumed at that time, whenever they really were. Afterwards the key is gone (except for a look), so a caller that gets
-- units must write them at once: converted again by each call, they would be put at "now" for ever. Who is in flight (`concurrency`) says nothing
-- about what was consumed: such state is no units, and takes over none.
local function adopt(i, key, text, b)
  local units, time
  if text then
    units, time = algorithm(#text == 20 and 3 or 1).units(text)
  elseif not exists(key) then
    return 0, now
  else
    local kind = call('TYPE', key).ok
    if kind == 'hash' or kind == 'zset' then
      units, time = algorithm(kind == 'hash' and 2 or 4).units(key, b)
    end
  end
  if not units or time > now + windows[b] or (units > capacities[b] and call('PTTL', key) == -1) then
    discard(i, key)
    return 0, now
  end
  if writes then
    call('DEL', key)
  end
  return units, time > now and time or now
end

-- Gives a key that lost its TTL one that fits its state, which counts for `us` more microseconds. Only another hand takes a TTL away.
local function heal(key, us)
  if writes and call('PTTL', key) == -1 then
    call('PEXPIREAT', key, expiry(us))
  end
end

-- What algorithms share whose state is a sorted set with times as scores; made when a batch first needs it.
local scores
local function sorted_sets()
  if scores then
    return scores
  end
  scores = {}

  -- By bound: up to which score members have left, to be excluded, and to be removed.
  local open, closed = {}, {}
  local function left(b)
    if not open[b] then
      local time = now - windows[b]
      closed[b] = format('%.0f', time > 0 and time or 0)
      open[b] = '(' .. closed[b]
    end
  end

  function scores.live(b)
    left(b)
    return open[b]
  end

  function scores.gone(b)
    left(b)
    return closed[b]
  end

  -- A time as a score.
  local now_text
  function scores.of(time)
    if time ~= now then
      return format('%.0f', time)
    end
    now_text = now_text or format('%.0f', now)
    return now_text
  end

  -- State that counts for `us` more microseconds has a TTL that fits. It does not say under which window it was written, so its TTL follows the
  -- window also where that was changed.
  function scores.expire(key, us)
    if writes then
      local at = expiry(us)
      local off = call('PTTL', key) - (at - floor(now / 1000))
      -- A server whose clock runs on during a script may be a millisecond further.
      if off < -2 or off > 2 then
        call('PEXPIREAT', key, at)
      end
    end
  end

  return scores
end
