-- For tests, in front of the script: a shard whose clock is the last argument, in microseconds. Expiry follows that clock too, so TTLs
-- are kept in a hash of their own and carried out here.
local redis = (function()
  local server = redis
  local now = tonumber(ARGV[#ARGV])
  local ms = math.floor(now / 1000)
  -- In the slot of the key.
  local function deadlines(key)
    return string.sub(key, 1, 18) .. 'deadlines'
  end

  local function deadline(key)
    return tonumber(server.call('HGET', deadlines(key), key) or nil)
  end

  for _, key in ipairs(KEYS) do
    local last = deadline(key)
    if last and ms > last then
      server.call('DEL', key)
      server.call('HDEL', deadlines(key), key)
    end
  end

  local commands = {
    TIME = function()
      return { string.format('%.0f', math.floor(now / 1000000)), string.format('%.0f', now % 1000000) }
    end,
    SET = function(key, text, option, at)
      assert(option == 'PXAT', 'a write without a TTL')
      server.call('HSET', deadlines(key), key, at)
      return server.call('SET', key, text)
    end,
    PEXPIREAT = function(key, at)
      server.call('HSET', deadlines(key), key, at)
      return 1
    end,
    PTTL = function(key)
      if server.call('EXISTS', key) == 0 then
        return -2
      end
      local last = deadline(key)
      return last and last - ms or -1
    end,
    DEL = function(key)
      server.call('HDEL', deadlines(key), key)
      return server.call('DEL', key)
    end,
  }

  local function call(name, ...)
    return (commands[name] or function(...)
      return server.call(name, ...)
    end)(...)
  end
  return { call = call, pcall = server.pcall }
end)()
