
-- fixed_window: at most `limit` units in each window, windows aligned to the epoch.
--
-- State: a string of 20 bytes: count (7), start of the window in µs (7), length of the window in µs (6).
local function fixed_window()
  -- By place in the request: units in the window, and its start.
  local counts, starts = {}, {}

  local function parse(text)
    if #text == 20 then
      local count, start, length = unpick('<I7I7I6', text)
      if count <= EXACT and start <= EXACT and length > 0 then
        return count, start, length
      end
    end
  end

  local function store(key, count, start, window)
    local text = pack('<I7I7I6', count, start, window)
    call('SET', key, text, 'PXAT', expiry(start + window - now))
  end

  -- The usual calls in one piece, for speed: requests of one limit that pass, in the window that is stored. Answers calls from `k` on with
  -- the new state, up to the first that is not usual, which has changed nothing; returns the place of that.
  local function run(k, last)
    while k <= last do
      local key, shape, text = KEYS[k], shapes[k], found[k]
      local b = runs[shape] == 3 and shape_bounds[shape]
      if not b or not text or #text ~= 20 then
        return k
      end
      local count, start, length = unpick('<I7I7I6', text)
      local cost = shape_costs[shape]
      if length ~= windows[b] or start > now or start + length <= now or start % length ~= 0 or cost > capacities[b] - count then
        return k
      end
      text = pack('<I7', count + cost) .. sub(text, 8)
      call('SET', key, text, 'PXAT', expiry(start + length - now))
      marks[k], out[k] = STATE, text
      k = k + 1
    end
    return k
  end

  -- Units as another algorithm takes them over, and their time.
  local function units(text)
    local count, start, length = parse(text)
    if count then
      return start + length > now and count or 0, start
    end
  end

  -- The window that `time` lies in.
  local function start_of(time, window)
    return floor(time / window) * window
  end

  -- Count and start of the current window, which is never one before the stored one. Units of a window of another length count whole if
  -- that window reaches into this one: when in it they were consumed is not known.
  local function view(i, key, text, b, cost)
    local window = windows[b]
    local count, start, length
    if text then
      count, start, length = parse(text)
    end
    if count and start <= now + window then
      local current = start_of(start > now and start or now, window)
      if start + length <= current then
        return 0, current
      end
      if length ~= window and cost > 0 then
        store(key, count, current, window)
      end
      return count, current
    end
    if text and #text == 20 then
      discard(i, key, cost)
      return 0, start_of(now, window)
    end
    local units, time = adopt(i, key, text, b, cost)
    local current = start_of(time, window)
    if units > 0 and cost > 0 then
      store(key, units, current, window)
    end
    return units, current
  end

  -- Units that may still pass. Sets retries[i] if that is less than the cost.
  local function read(i, key, text, b, cost)
    local count, start = view(i, key, text, b, cost)
    counts[i], starts[i] = count, start
    local room = capacities[b] - count
    if cost > room then
      local left = start + windows[b] - now
      heal(key, cost, left)
      retries[i] = cost <= capacities[b] and left or -1
    end
    return room
  end

  local function reset(i, b)
    return counts[i] > 0 and starts[i] + windows[b] - now or 0
  end

  local function take(i, key, b, cost)
    store(key, counts[i] + cost, starts[i], windows[b])
    return starts[i] + windows[b] - now
  end

  -- Gives units back that were consumed at `time`, if their window is still the one that counts; returns how many.
  local function give(key, b, units, time)
    local text = try('GET', key)
    if type(text) ~= 'string' then
      return 0
    end
    local count, start, length = parse(text)
    if not count or time < start or time >= start + length or start + length <= now or start > now + windows[b] then
      return 0
    end
    local given = units < count and units or count
    store(key, count - given, start, length)
    return given
  end

  return { run = run, read = read, reset = reset, take = take, give = give, units = units }
end
