-- Counts one coupon. All keys have the coupon's hash tag, so that they lie on one node.
-- KEYS: 1 epoch, 2 stock, 3 what is counted and not settled, 4 the log; then those of each user coupon.
-- The epoch is a number, and has a 'b' before it while somebody counts anew.

local op = ARGV[1]

local function marker()
  local text = redis.call('GET', KEYS[1])
  if not text then return nil, false end
  if string.sub(text, 1, 1) == 'b' then return string.sub(text, 2), true end
  return text, false
end

-- One user's wish: what became of it, and under which id.
local function take(epoch, left, log, limit, forget, now, claim, processed, id, user, key, at)
  -- With a log the key tells as much, and an id is new nearly always.
  local seen = not log and redis.call('GET', processed)
  if seen then
    local of, result = string.match(seen, '^(%d+)#([A-Z_]+)#')
    -- Of one that was given back since, whoever asks late counts nothing.
    if of == epoch then return result == 'RETURNED' and 'ISSUED' or result, id, left end
  end
  local known = redis.call('HMGET', claim, 'e', 'n', 'k:' .. key)
  local current = known[1] == epoch
  local count = current and tonumber(known[2]) or 0
  if current and key ~= '' and known[3] and known[3] ~= id then return 'ISSUED', known[3], left end
  local result
  if current and key ~= '' and known[3] == id then
    result = 'ISSUED'
  elseif count >= limit then
    result = 'DUPLICATE'
  elseif left <= 0 then
    result = 'OUT_OF_STOCK'
  else
    result = 'ISSUED'
    left = left - 1
    if not current then redis.call('DEL', claim) end
    if key ~= '' then
      redis.call('HSET', claim, 'e', epoch, 'n', count + 1, 'i:' .. id, '1', 'k:' .. key, id)
    else
      redis.call('HSET', claim, 'e', epoch, 'n', count + 1, 'i:' .. id, '1')
    end
    if not current then redis.call('PEXPIREAT', claim, forget) end
    if log then redis.call('XADD', KEYS[4], '*', 'id', id, 'user', user, 'key', key, 'at', at, 'epoch', epoch) end
  end
  -- Whoever is refused at once, with a log, is nowhere written down and may come again.
  if result == 'ISSUED' or not log then
    redis.call('SET', processed, epoch .. '#' .. result .. '#' .. at .. '#' .. user .. '#' .. key)
    redis.call('ZADD', KEYS[3], now, id)
  end
  return result, id, left
end

if op == 'meet' then
  return { redis.call('INFO', 'server'), redis.call('INFO', 'memory') }

elseif op == 'take' then
  local epoch, building = marker()
  if building then return { 'BUILDING' } end
  local stock = tonumber(redis.call('GET', KEYS[2]) or '')
  if not epoch or not stock then return { 'EMPTY' } end
  local log, limit, forget, now = ARGV[2] == '1', tonumber(ARGV[3]), ARGV[4], ARGV[5]
  local told, left = { epoch }, stock
  for i = 1, (#KEYS - 4) / 2 do
    local a = 2 + 4 * i
    local result, id
    result, id, left = take(epoch, left, log, limit, forget, now, KEYS[3 + 2 * i], KEYS[4 + 2 * i],
      ARGV[a], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3])
    told[#told + 1] = result
    told[#told + 1] = id
  end
  if left < stock then redis.call('SET', KEYS[2], left) end
  return told

elseif op == 'give_back' then
  local epoch, building = marker()
  if building then return { 'BUILDING' } end
  -- One of a later epoch than this is yet to be counted anew.
  if not epoch or tonumber(epoch) < tonumber(ARGV[2]) then return { 'EMPTY' } end
  local claim, processed = KEYS[5], KEYS[6]
  local seen = redis.call('GET', processed)
  -- One of an earlier epoch was not counted in this one.
  if epoch == ARGV[2] and not (seen and string.match(seen, '^%d+#RETURNED#')) then
    redis.call('INCR', KEYS[2])
    if redis.call('HGET', claim, 'e') == epoch and redis.call('HDEL', claim, 'i:' .. ARGV[3]) == 1 then
      redis.call('HINCRBY', claim, 'n', -1)
    end
    redis.call('SET', processed, epoch .. '#RETURNED###')
    redis.call('ZADD', KEYS[3], ARGV[4], ARGV[3])
  end
  return { epoch }

elseif op == 'settle' then
  -- Whoever was given up for dead may come back with a message that is settled: for a while it is still known.
  for i = 5, #KEYS do
    local a = 3 + 2 * (i - 5)
    redis.call('ZREM', KEYS[3], ARGV[a])
    if ARGV[2] == '0' then redis.call('UNLINK', KEYS[i]) else redis.call('PEXPIRE', KEYS[i], ARGV[2]) end
    if ARGV[a + 1] ~= '' then
      redis.call('XACK', KEYS[4], 'guerdon', ARGV[a + 1])
      redis.call('XDEL', KEYS[4], ARGV[a + 1])
    end
  end
  return 1

elseif op == 'begin' then
  local epoch = marker()
  if epoch and tonumber(epoch) > tonumber(ARGV[2]) then return 0 end
  redis.call('SET', KEYS[1], 'b' .. ARGV[2])
  return 1

elseif op == 'learn' then
  local epoch, building = marker()
  if not building or epoch ~= ARGV[2] then return 0 end
  for i = 5, #KEYS do
    local a = 4 + 3 * (i - 5)
    local key, id, counts = ARGV[a], ARGV[a + 1], ARGV[a + 2] == '1'
    if redis.call('HGET', KEYS[i], 'e') ~= epoch then
      redis.call('DEL', KEYS[i])
      redis.call('HSET', KEYS[i], 'e', epoch, 'n', 0)
    end
    -- Each once, however often it is told.
    if counts and redis.call('HSETNX', KEYS[i], 'i:' .. id, '1') == 1 then redis.call('HINCRBY', KEYS[i], 'n', 1) end
    if key ~= '' then redis.call('HSET', KEYS[i], 'k:' .. key, id) end
    redis.call('PEXPIREAT', KEYS[i], ARGV[3])
  end
  return 1

elseif op == 'publish' then
  local epoch, building = marker()
  if epoch ~= ARGV[2] then return 0 end
  if building then
    redis.call('SET', KEYS[2], ARGV[3])
    redis.call('SET', KEYS[1], epoch)
  end
  return 1

elseif op == 'forget' then
  -- As one who counts anew and does not come to the end: whoever is next begins a later epoch.
  local epoch, building = marker()
  if epoch == ARGV[2] and not building then redis.call('SET', KEYS[1], 'b' .. epoch) end
  return 1

elseif op == 'look' then
  return { redis.call('GET', KEYS[1]) or '', redis.call('GET', KEYS[2]) or '', tostring(redis.call('ZCARD', KEYS[3])) }

elseif op == 'read' then
  if redis.call('EXISTS', KEYS[4]) == 0 then return {} end
  local read = redis.pcall('XREADGROUP', 'GROUP', 'guerdon', ARGV[2], 'COUNT', ARGV[3], 'STREAMS', KEYS[4], '>')
  if read and read.err then
    redis.call('XGROUP', 'CREATE', KEYS[4], 'guerdon', '0')
    read = redis.call('XREADGROUP', 'GROUP', 'guerdon', ARGV[2], 'COUNT', ARGV[3], 'STREAMS', KEYS[4], '>')
  end
  return read and read[1] and read[1][2] or {}

elseif op == 'take_over' then
  local groups = redis.pcall('XINFO', 'GROUPS', KEYS[4])
  if groups.err or #groups == 0 then return {} end
  local taken = redis.call('XAUTOCLAIM', KEYS[4], 'guerdon', ARGV[2], ARGV[4], '0', 'COUNT', ARGV[3])
  -- Workers that are long gone and have nothing left.
  for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[4], 'guerdon')) do
    local fields = {}
    for i = 1, #consumer, 2 do fields[consumer[i]] = consumer[i + 1] end
    if fields.name ~= ARGV[2] and fields.pending == 0 and fields.idle > 10 * tonumber(ARGV[4]) then
      redis.call('XGROUP', 'DELCONSUMER', KEYS[4], 'guerdon', fields.name)
    end
  end
  return taken[2]

elseif op == 'log' then
  return redis.call('XRANGE', KEYS[4], '-', '+', 'COUNT', ARGV[2])

elseif op == 'waiting' then
  return redis.call('GET', KEYS[5]) or ''

elseif op == 'known' then
  local epoch, building = marker()
  if not epoch or building then return { 'BUILDING' } end
  local known = redis.call('HMGET', KEYS[5], 'e', 'k:' .. ARGV[2])
  return { epoch, known[1] == epoch and known[2] or '' }

elseif op == 'unsettled' then
  return redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', ARGV[2], 'LIMIT', 0, ARGV[3])
end

return redis.error_reply('no such operation')
