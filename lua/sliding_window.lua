
-- sliding_window: at most `limit` units in every window that ends now, counted in slots of a sixtieth of the window.
--
-- State: a hash. Field "m": running sum (7), newest slot (7), width of a slot in µs (6), length of the window in µs (6). Fields "0" to
-- "60": units of the slot whose number leaves that rest by 61. Slot j is the time [j * width, (j + 1) * width) and counts until
-- (j + 61) * width: the current slot and the 60 before it cover a whole window, and at most one slot more.
--
-- The running sum spares a passing check from reading the slots: it reads those that have left since the last write, mostly one or none.
local function sliding_window()
  local SLOTS = 61

  -- By place in the request: units that count, the sum and the newest slot as stored, the current slot, units in that, and what must go from
  -- the hash on the next write: positions of slots that have left, or true for all of it.
  local sums, totals, newest, slots_now, current, stale = {}, {}, {}, {}, {}, {}

  -- Reads field "m": sum, newest slot, width, window; nil if it is not that.
  local function parse(text)
    if #text == 26 then
      local sum, last, width, window = unpick('<I7I7I6I6', text)
      if sum <= EXACT and window > 0 and width == ceil(window / 60) and last * width <= EXACT then
        return sum, last, width, window
      end
    end
  end

  -- All slots of a hash as slot number -> units; nil if they are unreadable or are not what the sum says.
  local function slots_of(key, sum, last)
    local flat = call('HGETALL', key)
    local slots, total = {}, 0
    for k = 1, #flat, 2 do
      if flat[k] ~= 'm' then
        local position, units = tonumber(flat[k]), tonumber(flat[k + 1])
        if not is_count(position) or position >= SLOTS or not is_count(units) then
          return nil
        end
        slots[last - (last - position) % SLOTS] = units
        total = total + units
      end
    end
    if total == sum then
      return slots
    end
  end

  -- Writes a whole hash: `slots` as slot number -> units, none of which has left.
  local function store(key, slots, sum, last, width, window)
    local fields = { 'm', pack('<I7I7I6I6', sum, last, width, window) }
    for slot, units in pairs(slots) do
      fields[#fields + 1] = slot % SLOTS
      fields[#fields + 1] = format('%.0f', units)
    end
    call('DEL', key)
    call('HSET', key, unpack(fields))
    call('PEXPIREAT', key, expiry((last + SLOTS) * width - now))
  end

  -- Units that still count under the window they were written under, as slots, with the latest time stored; nil if unreadable.
  local function live_slots(key, sum, last, width)
    local slots = slots_of(key, sum, last)
    if slots then
      local present = floor(now / width)
      if last > present then
        present = last
      end
      for slot in pairs(slots) do
        if slot + SLOTS <= present then
          slots[slot] = nil
        end
      end
    end
    return slots
  end

  -- Units as another algorithm takes them over, and the latest time stored with them.
  local function units(key)
    local head = try('HGET', key, 'm')
    if type(head) ~= 'string' then
      return nil
    end
    local sum, last, width = parse(head)
    local slots = sum and live_slots(key, sum, last, width)
    if slots then
      local units = 0
      for _, n in pairs(slots) do
        units = units + n
      end
      return units, last * width
    end
  end

  -- Sorts slots of another width into ours, each at its very end, so that none leaves early. Returns new slots, their sum, the newest, and
  -- the current one.
  local function rebin(old, old_last, old_width, width)
    local time = old_last * old_width
    if now > time then
      time = now
    end
    local slots, sum, present = {}, 0, floor(time / width)
    local function slot_of(slot)
      local ends = (slot + 1) * old_width - 1
      return floor((ends < time and ends or time) / width)
    end
    for slot, units in pairs(old) do
      local at = slot_of(slot)
      if at + SLOTS > present then
        slots[at] = (slots[at] or 0) + units
        sum = sum + units
      end
    end
    return slots, sum, slot_of(old_last), present
  end

  -- Moves the window on from slot `last` to slot `slot`: what is left of the sum once the slots in between have gone; nil if they are
  -- unreadable. `here` is what the hash holds at the place of `slot`.
  local function advance(i, key, sum, last, slot, here)
    local gone = slot - last
    if gone >= SLOTS then
      stale[i] = true
      return 0
    end
    local left = { here }
    if gone > 1 then
      local positions = {}
      for k = 1, gone - 1 do
        positions[k] = (last + k) % SLOTS
      end
      left = call('HMGET', key, unpack(positions))
      stale[i] = positions
      left[gone] = here
    end
    for k = 1, gone do
      if left[k] then
        local units = tonumber(left[k])
        if not is_count(units) then
          return nil
        end
        sum = sum - units
      end
    end
    return sum >= 0 and sum or nil
  end

  -- Reads our own state under another window, which is rewritten. Returns the slots; nil if it is unreadable.
  local function change(i, key, sum, last, old_width, b)
    local window = windows[b]
    local width = ceil(window / 60)
    local old = live_slots(key, sum, last, old_width)
    if not old then
      return nil
    end
    local slots, present
    slots, sum, last, present = rebin(old, last, old_width, width)
    if writes and sum > 0 then
      store(key, slots, sum, last, width, window)
    elseif writes then
      call('DEL', key)
    end
    sums[i], newest[i], slots_now[i], current[i] = sum, last, present, slots[present] or 0
    return slots
  end

  -- Reads our own state; returns whether it is readable, and the slots where they had to be read. `here` is what the hash holds at the
  -- place of the current slot.
  local function own(i, key, text, here, b)
    local width = ceil(windows[b] / 60)
    local sum, last, old_width, old_window = parse(text)
    if not sum or last * old_width > now + windows[b] then
      return false
    end
    if old_window ~= windows[b] then
      local slots = change(i, key, sum, last, old_width, b)
      return slots ~= nil, slots
    end
    local slot, units = floor(now / width), 0
    totals[i] = sum
    if slot > last then
      sum = advance(i, key, sum, last, slot, here)
    else
      if last > slot then
        slot, here = last, call('HGET', key, last % SLOTS)
      end
      units = tonumber(here or 0)
    end
    sums[i], newest[i], slots_now[i], current[i] = sum, last, slot, units
    return sum ~= nil and is_count(units)
  end

  -- Microseconds until so many of the oldest slots have left that at most `room` units count; nil if the slots are not what the sum says.
  local function wait(slots, sum, last, width, room)
    for slot = last - SLOTS + 1, last do
      local units = slots[slot] or 0
      if units > 0 and (slot + SLOTS) * width > now then
        sum = sum - units
        if sum <= room then
          return (slot + SLOTS) * width - now
        end
      end
    end
  end

  -- Refused: reads the slots, to say when the cost would pass. Returns false if they are unreadable.
  local function refuse(i, key, b, cost, slots)
    local width = ceil(windows[b] / 60)
    if not slots then
      slots = slots_of(key, totals[i], newest[i])
      if not slots then
        return false
      end
    end
    heal(key, (newest[i] + SLOTS) * width - now)
    retries[i] = cost <= capacities[b] and wait(slots, sums[i], newest[i], width, capacities[b] - cost) or -1
    return true
  end

  local function start_empty(i, b)
    local slot = floor(now / ceil(windows[b] / 60))
    sums[i], newest[i], slots_now[i], current[i], stale[i] = 0, slot, slot, 0, nil
  end

  -- Nothing of ours under the key: takes over what another algorithm left, if any. Returns the slots.
  local function convert(i, key, text, b)
    local width = ceil(windows[b] / 60)
    local units, time = adopt(i, key, text, b)
    local last = floor(time / width)
    local slots = {}
    sums[i], newest[i], slots_now[i], current[i] = units, last, last, units
    if units > 0 then
      slots[last] = units
      if writes then
        store(key, slots, units, last, width, windows[b])
      end
    end
    return slots
  end

  -- Units that may still pass. Sets retries[i] if that is less than the cost.
  local function read(i, key, text, b, cost)
    local capacity = capacities[b]
    local got = text and {} or try('HMGET', key, 'm', floor(now / ceil(windows[b] / 60)) % SLOTS)
    local slots
    stale[i] = nil
    if got[1] then
      local readable
      readable, slots = own(i, key, got[1], got[2], b)
      if not readable then
        discard(i, key)
        start_empty(i, b)
        slots = {}
      end
    else
      slots = convert(i, key, text, b)
    end
    if cost > capacity - sums[i] and not refuse(i, key, b, cost, slots) then
      discard(i, key)
      start_empty(i, b)
      retries[i] = cost > capacity and -1
    end
    return capacity - sums[i]
  end

  -- Microseconds until the newest slot has left.
  local function reset(i, b)
    return sums[i] > 0 and (newest[i] + SLOTS) * ceil(windows[b] / 60) - now or 0
  end

  -- Consumes. Returns the microseconds until nothing is consumed any more.
  local function take(i, key, b, cost)
    local window, slot = windows[b], slots_now[i]
    local width = ceil(window / 60)
    local us = (slot + SLOTS) * width - now
    if stale[i] == true then
      call('DEL', key)
    elseif stale[i] then
      call('HDEL', key, unpack(stale[i]))
    end
    local head = pack('<I7I7I6I6', sums[i] + cost, slot, width, window)
    call('HSET', key, 'm', head, slot % SLOTS, format('%.0f', current[i] + cost))
    call('PEXPIREAT', key, expiry(us))
    return us
  end

  -- Gives units back, from the newest slot backwards; returns how many.
  local function give(key, b, units)
    local head = try('HGET', key, 'm')
    if type(head) ~= 'string' then
      return 0
    end
    local sum, last, width, window = parse(head)
    local slots = sum and last * width <= now + windows[b] and live_slots(key, sum, last, width)
    if not slots then
      return 0
    end
    local given, left = 0, 0
    for slot = last, last - SLOTS + 1, -1 do
      local here = slots[slot] or 0
      local part = units - given < here and units - given or here
      slots[slot] = here > part and here - part or nil
      given, left = given + part, left + here - part
    end
    if given > 0 then
      store(key, slots, left, last, width, window)
    end
    return given
  end

  return { read = read, reset = reset, take = take, give = give, units = units }
end
