#!lua flags=no-writes
-- Strands by number: false without a head, else number, body, number, body, ...
--
-- KEYS: main. ARGV: from, limit.
local main, number, limit = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local held = redis.call('HMGET', main, 'v', 'top')
if not held[1] then
  return false
end
local found, top = {}, tonumber(held[2])
while number < top and #found < limit * 2 do
  local name = string.format('%.0f', number)
  local body = redis.call('HGET', main, 's:' .. name)
  if body then
    found[#found + 1] = name
    found[#found + 1] = body
  end
  number = number + 1
end
return found
