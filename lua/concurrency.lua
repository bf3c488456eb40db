
-- concurrency: at most `limit` leases in flight. A lease is given back, or expires once it is a window old.
--
-- State: a sorted set. Score: when a lease was acquired, in µs. Member: the 16 bytes that name it. The time of acquiring is stored and not that
-- of expiring, so a changed window applies to leases that live.
local function concurrency()
  local sets = sorted_sets()
  local live, gone_score, score, expire = sets.live, sets.gone, sets.of, sets.expire
  -- By place in the request: leases in flight, when the newest was acquired, whether the one asked for is among them.
  local counts, times, held = {}, {}, {}

  local function start(i, count, time, has)
    counts[i], times[i], held[i] = count, time, has
  end

  -- Our own state; returns whether there is any.
  local function own(i, key, b)
    local newest = try('ZRANGE', key, -1, -1, 'WITHSCORES')
    local time = newest[1] and #newest[1] == 16 and tonumber(newest[2])
    if not time then
      return false
    end
    if time < 0 or time % 1 > 0 or time > now + windows[b] then
      discard(i, key)
      start(i, 0, now, false)
    elseif time <= now - windows[b] then
      start(i, 0, time, false)
    else
      local since = lease and call('ZSCORE', key, lease)
      start(i, call('ZCOUNT', key, live(b), '+inf'), time, since and tonumber(since) > now - windows[b])
    end
    return true
  end

  -- Leases that may still be acquired. Sets retries[i] if that is less than the cost.
  local function read(i, key, text, b, cost)
    if text or not own(i, key, b) then
      -- What another algorithm counted says nothing about what is in flight.
      adopt(i, key, text, b)
      start(i, 0, now, false)
    end
    local limit, count = limits[b], counts[i]
    if held[i] then
      costs[i] = 0
    elseif cost > limit - count then
      expire(key, times[i] + windows[b] - now)
      local first = call('ZRANGEBYSCORE', key, live(b), '+inf', 'WITHSCORES', 'LIMIT', count - limit, 1)
      retries[i] = tonumber(first[2]) + windows[b] - now
    end
    return limit - count
  end

  -- Microseconds until all have expired.
  local function reset(i, b)
    return counts[i] > 0 and times[i] + windows[b] - now or 0
  end

  -- Acquires. Returns the microseconds until all have expired.
  local function take(i, key, b)
    local time = times[i]
    if time < now then
      time = now
    end
    call('ZREMRANGEBYSCORE', key, '-inf', gone_score(b))
    call('ZADD', key, score(time), leases[i])
    local us = time + windows[b] - now
    call('PEXPIREAT', key, expiry(us))
    return us
  end

  -- Ends a lease; returns 1 if it was there.
  local function give(key, _, _, _, lease)
    local ended = try('ZREM', key, lease)
    return ended == 1 and 1 or 0
  end

  return { read = read, reset = reset, take = take, give = give }
end
