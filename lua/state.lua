
-- What the algorithms share: the request at hand, and the care for keys whose state is not their own.

local try = redis.pcall
local floor, ceil, format, sub = math.floor, math.ceil, string.format, string.sub

-- By place in the request: units to take; the lease to acquire; microseconds until the cost would pass where it does not (-1: never), else
-- false; 2 where foreign state was replaced, else 0.
local costs, leases, retries, replaced = {}, {}, {}, {}

-- Of the call at hand: whether it may write, and its lease or false.
local writes, lease

-- The algorithm of a number (fixed_window is 3), made on first use; driver.lua says how.
local algorithm

-- Whether `n` is a number of units: whole, and within what a double holds exactly. (Not a number is neither above nor below.)
local function is_count(n)
  return n ~= nil and n >= 0 and n <= EXACT and n % 1 == 0
end

-- The millisecond of the shard's clock through which state must live that counts for `us` more microseconds: a whole second, at least one
-- more than that. State says itself when it stops counting; the second on top keeps the server's own expiry out of that.
local function expiry(us)
  return milliseconds(ceil((now + us) / 1000000) + 1)
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
