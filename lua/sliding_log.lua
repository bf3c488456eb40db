
-- sliding_log: at most `limit` units in every window that ends now, exactly: each consume is remembered until it is a window old.
--
-- State: a sorted set. Score: the time of a consume in µs. Member: all units up to and with this consume (7), its own units (2, or 7 where that
-- is not enough). So the units between two members are known without those in between, and no member occurs twice. Consumes at one
-- microsecond are one member.
local function sliding_log()
  local sets = sorted_sets()
  local live, gone_score, score, expire = sets.live, sets.gone, sets.of, sets.expire
  local MOST_ADOPTED = 1125899906842624 -- 2^50, far above every limit of a log

  -- By place in the request: units that count, the newest member as stored (false: none), all units up to it, its own, its time, and whether
  -- older members have left.
  local sums, newest, totals, tops, times, stale = {}, {}, {}, {}, {}, {}

  local function parse(member)
    local total, units
    if #member == 9 then
      total, units = unpick('<I7I2', member)
    elseif #member == 14 then
      total, units = unpick('<I7I7', member)
    else
      return nil
    end
    if total <= EXACT and units > 0 and units <= total then
      return total, units
    end
  end

  local function member(total, units)
    return pack(units < 65536 and '<I7I2' or '<I7I7', total, units)
  end

  -- The newest member, all units up to it, its own, its time; nil if there is none of ours.
  local function last(key)
    local found = try('ZRANGE', key, -1, -1, 'WITHSCORES')
    local text = found[1]
    if text then
      local total, units = parse(text)
      local time = tonumber(found[2])
      if total and time and time >= 0 and time <= EXACT then
        return text, total, units, time
      end
    end
  end

  -- Units that count under a bound up to the newest member, and whether older members have left; nil if they are unreadable.
  local function count(key, b, total, time)
    local since = now - windows[b]
    if time <= since then
      return 0, true
    end
    local found = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    local gone = tonumber(found[2]) <= since
    if gone then
      found = call('ZRANGEBYSCORE', key, live(b), '+inf', 'LIMIT', 0, 1)
    end
    local first, units = parse(found[1])
    if first and first - units < total then
      return total - first + units, gone
    end
  end

  -- Units as another algorithm takes them over, and the latest time stored with them. Leases of `concurrency` are no units.
  local function units(key, b)
    local found = call('ZRANGE', key, -1, -1)
    if found[1] and #found[1] == 16 then
      return 0, now
    end
    local text, total, _, time = last(key)
    local sum = text and count(key, b, total, time)
    if sum then
      return sum, time
    end
  end

  local function start(i, sum, text, total, units, time, gone)
    sums[i], newest[i], totals[i], tops[i], times[i], stale[i] = sum, text, total, units, time, gone
  end

  -- Nothing of ours under the key: takes over what another algorithm left, if any.
  local function convert(i, key, text, b)
    local units, time = adopt(i, key, text, b)
    if units > MOST_ADOPTED then
      units = MOST_ADOPTED
    end
    if units == 0 then
      start(i, 0, false, 0, 0, now, false)
      return
    end
    local first = member(units, units)
    if writes then
      call('ZADD', key, score(time), first)
      call('PEXPIREAT', key, expiry(time + windows[b] - now))
    end
    start(i, units, writes and first, units, units, time, false)
  end

  -- Our own state; returns whether there is any that can be read.
  local function own(i, key, b)
    local text, total, units, time = last(key)
    if not text then
      return false
    end
    local sum, gone
    if time <= now + windows[b] then
      sum, gone = count(key, b, total, time)
    end
    if not sum then
      discard(i, key)
      start(i, 0, false, 0, 0, now, false)
    else
      start(i, sum, text, total, units, time, gone)
    end
    return true
  end

  -- The first member among those of these ranks up to which all units are more than `total`: it, all units up to it, its own, its time. Looked
  -- for by halves, since units up to a member only grow; mostly the first is it.
  local function first_above(key, low, high, total)
    local text, all, units, time
    local at = low
    while low <= high do
      local found = call('ZRANGE', key, at, at, 'WITHSCORES')
      local here, own = parse(found[1])
      if here and here > total then
        text, all, units, time = found[1], here, own, tonumber(found[2])
        high = at - 1
      else
        low = at + 1
      end
      at = floor((low + high) / 2)
    end
    return text, all, units, time
  end

  -- How many members have left.
  local function gone_count(key, b)
    return call('ZCOUNT', key, '-inf', gone_score(b))
  end

  -- Microseconds until so many of the oldest units have left.
  local function wait(i, key, b, units)
    local first = stale[i] and gone_count(key, b) or 0
    local before = totals[i] - sums[i]
    local _, _, _, time = first_above(key, first, call('ZCARD', key) - 1, before + units - 1)
    return (time or times[i]) + windows[b] - now
  end

  -- Units that may still pass. Sets retries[i] if that is less than the cost.
  local function read(i, key, text, b, cost)
    if text or not own(i, key, b) then
      convert(i, key, text, b)
    end
    local capacity, sum = capacities[b], sums[i]
    if cost > capacity - sum then
      local us = times[i] + windows[b] - now
      if sum > 0 then
        expire(key, us)
      end
      if cost > capacity then
        retries[i] = -1
      elseif newest[i] then
        retries[i] = wait(i, key, b, sum - (capacity - cost))
      else
        retries[i] = us
      end
    end
    return capacity - sum
  end

  -- Microseconds until the newest consume has left.
  local function reset(i, b)
    return sums[i] > 0 and times[i] + windows[b] - now or 0
  end

  -- Consumes, and forgets what no longer counts. Returns the microseconds until nothing is consumed any more.
  local function take(i, key, b, cost)
    local old, total, time = newest[i], totals[i] + cost, times[i]
    if stale[i] then
      call('ZREMRANGEBYSCORE', key, '-inf', gone_score(b))
      if sums[i] == 0 then
        old, total = false, cost
      end
    end
    if old and time >= now then
      call('ZADD', key, score(time), member(total, tops[i] + cost))
      call('ZREM', key, old)
    else
      time = now
      call('ZADD', key, score(now), member(total, cost))
    end
    local us = time + windows[b] - now
    call('PEXPIREAT', key, expiry(us))
    return us
  end

  -- Gives units back, from the newest consume backwards; returns how many.
  local function give(key, b, units)
    local newest_text, total, _, newest_time = last(key)
    if not newest_text or newest_time > now + windows[b] then
      return 0
    end
    local sum = count(key, b, total, newest_time)
    local given = sum and (units < sum and units or sum) or 0
    if given == 0 then
      return 0
    end
    local kept = total - given
    local text, all, own_units, time = first_above(key, gone_count(key, b), call('ZCARD', key) - 1, kept)
    if not text then
      return 0
    end
    local since = score(time)
    local left_here = kept - (all - own_units)
    if left_here > 0 then
      -- First the new, so that the key is never without members and keeps its TTL.
      call('ZREMRANGEBYSCORE', key, '(' .. since, '+inf')
      call('ZADD', key, since, member(kept, left_here))
      call('ZREM', key, text)
    else
      call('ZREMRANGEBYSCORE', key, since, '+inf')
    end
    return given
  end

  return { read = read, reset = reset, take = take, give = give, units = units }
end
