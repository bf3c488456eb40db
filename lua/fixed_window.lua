
-- fixed_window: at most `limit` units in each window, windows aligned to the epoch, or as a calendar has them.
--
-- State: a string of 20 bytes: count (7), start of the window in µs (7), length of the window in µs (6).
local function fixed_window()
  -- By place in the request: units in the window, its start and its length.
  local counts, starts, lengths = {}, {}, {}

  local function parse(text)
    if #text == 20 then
      local count, start, length = unpick('<I7I7I6', text)
      if count <= EXACT and start <= EXACT and length > 0 then
        return count, start, length
      end
    end
  end

  local function store(key, count, start, length)
    local text = pack('<I7I7I6', count, start, length)
    call('SET', key, text, 'PXAT', expiry(start + length - now))
  end

  -- Start and length of the window that `time` lies in, which is now or later; none after the next of a calendar.
  local function window_of(b, time)
    local calendar = calendars[b]
    if calendar and time < calendar.ends then
      return calendar.starts, calendar.ends - calendar.starts
    elseif calendar then
      return calendar.ends, calendar.next_ends - calendar.ends
    end
    local window = windows[b]
    return floor(time / window) * window, window
  end

  -- Units as another algorithm takes them over, and their time.
  local function units(text)
    local count, start, length = parse(text)
    if count then
      return start + length > now and count or 0, start
    end
  end

  -- Whether a window that begins then lies too far ahead to be true.
  local function is_garbage(b, start)
    local calendar = calendars[b]
    if calendar then
      return start >= calendar.next_ends
    end
    return start > now + windows[b]
  end

  -- Count, start and length of the current window, which is never one before the stored one. Units of a window of other edges count whole if
  -- that window reaches into this one: when in it they were consumed is not known.
  local function view(i, key, text, b)
    local count, start, length
    if text then
      count, start, length = parse(text)
    end
    if count and not is_garbage(b, start) then
      local current, window = window_of(b, start > now and start or now)
      if start + length <= current then
        return 0, current, window
      end
      if writes and (start ~= current or length ~= window) then
        store(key, count, current, window)
      end
      return count, current, window
    end
    if text and #text == 20 then
      discard(i, key)
      return 0, window_of(b, now)
    end
    local units, time = adopt(i, key, text, b)
    local current, window = window_of(b, time)
    if units > 0 and writes then
      store(key, units, current, window)
    end
    return units, current, window
  end

  -- Units that may still pass. Sets retries[i] if that is less than the cost.
  local function read(i, key, text, b, cost)
    local count, start, length = view(i, key, text, b)
    counts[i], starts[i], lengths[i] = count, start, length
    local room = capacities[b] - count
    if cost > room then
      local left = start + length - now
      heal(key, left)
      retries[i] = cost <= capacities[b] and left or -1
    end
    return room
  end

  local function reset(i)
    return counts[i] > 0 and starts[i] + lengths[i] - now or 0
  end

  local function take(i, key, _, cost)
    store(key, counts[i] + cost, starts[i], lengths[i])
    return starts[i] + lengths[i] - now
  end

  -- Gives units back that were consumed at `time` (0: now), if their window is still the one that counts; returns how many.
  local function give(key, b, units, time)
    local text = try('GET', key)
    if type(text) ~= 'string' then
      return 0
    end
    local count, start, length = parse(text)
    if not count or time ~= 0 and (time < start or time >= start + length) or start + length <= now or start > now + windows[b] then
      return 0
    end
    local given = units < count and units or count
    store(key, count - given, start, length)
    return given
  end

  return { read = read, reset = reset, take = take, give = give, units = units }
end
