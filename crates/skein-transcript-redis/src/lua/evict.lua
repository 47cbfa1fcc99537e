#!lua
-- Removes everything of a transcript, if its head is at the version given or there is none.
--
-- KEYS: main, stages, was. ARGV: expected version.
local main, stages, was = KEYS[1], KEYS[2], KEYS[3]
local actual = redis.call('HGET', main, 'v')
if actual and actual ~= ARGV[1] then
  return { 'stale', actual }
end
for _, token in ipairs(redis.call('SMEMBERS', stages)) do
  redis.call('UNLINK', main .. ':stage:' .. token)
end
redis.call('UNLINK', main, stages, was)
return { 'done', '' }
