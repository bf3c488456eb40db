
-- The short ways: calls of one kind in one piece, for speed. They take requests of one limit of ordinary size that pass, answer calls from `k` on
-- with the new state, up to the first that is not usual, which has changed nothing, and return the place of that. The numbers are those of
-- the long way, which the algorithms have; a remainder costs less than a call of floor or ceil.
local short = {}

-- By shape: the number of the algorithm whose short way may take such a call, or false.
local runs = {}
for s, b in ipairs(shape_bounds) do
  local flags, cost, capacity, number = shape_flags[s], shape_costs[s], capacities[b], numbers[b]
  runs[s] = (flags == 2 or flags == 34)
    and not stale_bounds
    and cost > 0
    and cost <= capacity
    -- A bucket with state of 12 bytes that drains within eight years.
    and (
      number == 3
      or number == 1 and capacity < 4294967296 and capacity * 65536 * windows[b] < limits[b] * 18446744073709551616
    )
    and number
end

-- Token buckets with state of 12 bytes or none (see token_bucket.lua). A rate is what a bucket drains in a step of 16 µs, in 1/65536 units times
-- the window.
short[1] = function(k, last)
  local keys, found, shapes, marks, out, texts = KEYS, found, shapes, marks, out, texts
  local present = (now - now % 16) / 16
  local shape, rate, window, capacity, cost, creates_nothing
  while k <= last do
    if shapes[k] ~= shape then
      shape = shapes[k]
      if runs[shape] ~= 1 then
        return k
      end
      local b = shape_bounds[shape]
      rate, window, capacity, cost = limits[b] * 1048576, windows[b], capacities[b] * 65536, shape_costs[shape] * 65536
      creates_nothing = shape_flags[shape] == 34
    end
    local text, used, step = found[k], 0, present
    if text then
      if #text ~= 12 then
        return k
      end
      used, step = unpick('<I6I6', text)
      local product = (present - step) * rate
      if product < 0 then
        return k
      elseif product < EXACT then
        local drains = product / window
        used = used - (drains - drains % 1)
      elseif product / window > used + 1 then
        used = 0
      else
        return k
      end
      if used < 0 then
        used = 0
      end
    elseif creates_nothing or exists(keys[k]) then
      return k
    end
    if cost > capacity - used then
      return k
    end
    used = used + cost
    local steps = used * window / rate
    local part = steps % 1
    if part > 0 then
      steps = steps - part + 1
    end
    if steps * rate >= EXACT then
      steps = steps + 1
    end
    local second = (present + steps) * 16 / 1000000
    part = second % 1
    second = part > 0 and second - part + 2 or second + 1
    text = pack('<I6I6', used, present)
    call('SET', keys[k], text, 'PXAT', texts[second] or milliseconds(second))
    marks[k], out[k] = STATE, text
    k = k + 1
  end
  return k
end

-- Fixed windows with state of the current window, of one before it, or none (see fixed_window.lua).
short[3] = function(k, last)
  local shape, capacity, cost, current, window, rest, ends, creates_nothing
  while k <= last do
    if shapes[k] ~= shape then
      shape = shapes[k]
      if runs[shape] ~= 3 then
        return k
      end
      local b = shape_bounds[shape]
      local calendar = calendars[b]
      if calendar then
        current, window = calendar.starts, calendar.ends - calendar.starts
      else
        window = windows[b]
        current = now - now % window
      end
      capacity, cost, creates_nothing = capacities[b], shape_costs[shape], shape_flags[shape] == 34
      rest = pack('<I7I6', current, window)
      ends = milliseconds(math.ceil((current + window) / 1000000) + 1)
    end
    local key, text, count = KEYS[k], found[k], 0
    if text then
      if #text ~= 20 then
        return k
      end
      local start, length
      count, start, length = unpick('<I7I7I6', text)
      if length ~= window or start > current or count > EXACT then
        return k
      elseif start < current then
        if start + length > current then
          return k
        end
        count = 0
      end
    elseif creates_nothing or exists(key) then
      return k
    end
    if cost > capacity - count then
      return k
    end
    text = pack('<I7', count + cost) .. rest
    call('SET', key, text, 'PXAT', ends)
    marks[k], out[k] = STATE, text
    k = k + 1
  end
  return k
end

-- The first call that is left to the long way.
local first_left = 1
if operation == 1 then
  local count = #KEYS
  while first_left <= count do
    local way = short[runs[shapes[first_left]]]
    local next = way and way(first_left, count) or first_left
    if next == first_left then
      break
    end
    first_left = next
  end
  if first_left > count then
    return pack('<d', now) .. concat(marks) .. concat(out)
  end
end
