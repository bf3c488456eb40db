
-- token_bucket: a bucket of `capacity` units that drains by limit/window. What is stored is what was consumed and has not drained yet.
--
-- State: a string of 12 bytes: used units in 1/65536 (48 bits), time in steps of 16 µs (48 bits). From 2^32 used units on, 16 bytes: used
-- units as a double, time, two zero bytes. Time is a count of whole steps throughout, so a second consume in the same step drains nothing.
--
-- Used units are always a whole multiple of 1/scale, where scale is 65536, or less above 2^37 units, so that used * scale stays below
-- 2^53: sums and differences are exact. Draining rounds down, against the client.
local function token_bucket()
  local STEP = 16
  local FRACTION = 65536
  local LARGE = 137438953472 -- 2^37
  local FOREVER = 562949953421312 -- 2^49 steps are 2^53 µs

  local present = floor(now / STEP)

  -- By place in the request: used units as stored, their time, used units now.
  local base, since, used_now = {}, {}, {}

  -- The finest fraction in which so many units are still exact.
  local function scale_for(units)
    local scale = FRACTION
    while units * scale > EXACT do
      scale = scale / 2
    end
    return scale
  end

  -- The scale for this state under this capacity, and the used units rounded up to it.
  local function rescale(used, capacity)
    local scale = scale_for(used > capacity and used or capacity)
    return scale, ceil(used * scale) / scale
  end

  -- What `steps` of time drain in 1/scale units, never more than the truth. Below 2^53 the quotient cannot be rounded up past a whole
  -- number; above, two roundings are off by less than the factor takes away.
  local function drained(steps, b, scale)
    local product = steps * limits[b] * (STEP * scale)
    local quotient = product / windows[b]
    if product >= EXACT then
      quotient = quotient * 0.99999999999999955591 -- 1 - 2^-51
    end
    return floor(quotient)
  end

  -- Microseconds from now until `excess` more units have drained since the step `from`: to the first step at which they have, or the one
  -- after where products are rounded.
  local function wait(excess, from, b, scale)
    local per_step = limits[b] * (STEP * scale)
    local steps = ceil(excess * scale * windows[b] / per_step)
    if steps * per_step >= EXACT then
      steps = steps + 1
    end
    if steps > FOREVER then
      steps = FOREVER
    end
    local us = (from + steps) * STEP - now
    if us >= EXACT then
      us = EXACT - 1
    end
    return us > 0 and us or 1
  end

  local function store(key, used, step, us)
    local text
    if used < 4294967296 then
      text = pack('<I6I6', used * FRACTION, step)
    else
      text = pack('<dI6H', used, step, 0)
    end
    call('SET', key, text, 'PXAT', expiry(us))
  end

  -- Reads a state: used units and their time in steps; nil if it is none.
  local function parse(text)
    if #text == 12 then
      local used, step = unpick('<I6I6', text)
      return used / FRACTION, step
    elseif #text == 16 then
      local used, step, rest = unpick('<dI6H', text)
      if used >= 0 and used <= EXACT and rest == 0 then
        return used, step
      end
    end
  end

  -- No state of ours under the key, or none that can be read. Returns used units and their time.
  local function start(i, key, text, b)
    if text and (#text == 12 or #text == 16) then
      discard(i, key)
      return 0, present
    end
    local used, time = adopt(i, key, text, b)
    local step = floor(time / STEP)
    if used > 0 and writes then
      local scale = rescale(used, capacities[b])
      store(key, used, step, wait(used, step, b, scale))
    end
    return used, step
  end

  -- Refused: says when the same cost would pass, which is when enough has drained or the key expires. State above the capacity that no
  -- TTL will ever remove is garbage (a lowered limit leaves such state, but with a TTL). Returns the room that there is after all.
  local function refuse(i, key, b, cost, scale)
    local capacity = capacities[b]
    local ttl = call('PTTL', key)
    if ttl == -1 and used_now[i] > capacity then
      discard(i, key)
      base[i], since[i], used_now[i] = 0, present, 0
    elseif ttl == -1 and writes then
      call('PEXPIREAT', key, expiry(wait(base[i], since[i], b, scale)))
    end
    if cost > capacity then
      retries[i] = -1
    elseif cost > capacity - used_now[i] then
      local us = wait(base[i] - (capacity - cost), since[i], b, scale)
      -- A key lives through the last millisecond of its TTL.
      local gone = (ttl + 1) * 1000
      retries[i] = ttl >= 0 and gone < us and gone or us
    end
    return capacity - used_now[i]
  end

  -- Units that may still pass. Sets retries[i] if that is less than the cost.
  local function read(i, key, text, b, cost)
    local used, step
    if text then
      used, step = parse(text)
    end
    if not used or step * STEP > now + windows[b] then
      used, step = start(i, key, text, b)
    end
    local capacity, scale = capacities[b], FRACTION
    if used > LARGE or capacity > LARGE then
      scale, used = rescale(used, capacity)
    end
    local left = used
    if step < present and used > 0 then
      left = used - drained(present - step, b, scale) / scale
      if left < 0 then
        left = 0
      end
    end
    base[i], since[i], used_now[i] = used, step, left
    if cost > capacity - left then
      return refuse(i, key, b, cost, scale)
    end
    return capacity - left
  end

  -- Microseconds until nothing is used any more.
  local function reset(i, b)
    if used_now[i] == 0 then
      return 0
    end
    local scale = rescale(base[i], capacities[b])
    return wait(base[i], since[i], b, scale)
  end

  -- Consumes. Returns the microseconds until nothing is used any more.
  local function take(i, key, b, cost)
    local used, step, capacity, scale = used_now[i] + cost, since[i], capacities[b], FRACTION
    if step < present then
      step = present
    end
    -- Past the capacity only where it was recorded.
    if capacity > LARGE or used > LARGE then
      scale, used = rescale(used, capacity)
    end
    local us = wait(used, step, b, scale)
    store(key, used, step, us)
    return us
  end

  -- Gives units back; returns how many, rounded up.
  local function give(key, b, units)
    local text = try('GET', key)
    local used, step, scale
    if type(text) == 'string' then
      used, step = parse(text)
    end
    if not used or step * STEP > now + windows[b] then
      return 0
    end
    scale, used = rescale(used, capacities[b])
    if step < present then
      used = used - drained(present - step, b, scale) / scale
      step = present
    end
    -- State above the capacity without a TTL is garbage, which the next check replaces: a TTL would make it credible.
    if used <= 0 or used > capacities[b] and call('PTTL', key) == -1 then
      return 0
    end
    local kept = used > units and used - units or 0
    store(key, kept, step, wait(kept, step, b, scale))
    return ceil(used - kept)
  end

  -- Used units and their time as another algorithm takes them over: rounded up, without refill.
  local function units(text)
    local used, step = parse(text)
    if used then
      return ceil(used), step * STEP
    end
  end

  return { read = read, reset = reset, take = take, give = give, units = units }
end
