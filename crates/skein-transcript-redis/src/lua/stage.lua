#!lua
-- Puts entries of one strand aside. An entry that is there already stays.
--
-- KEYS: main, stages.
-- ARGV: token, how long it stays in ms, strand, number of entries, for each: position, bytes, id or ''.
-- Fields of a stage: those of main (see commit.lua), and
--   strands    how many strands have entries here
--   l:N        position of the last entry of strand N
local main, stages, token, stay, strand = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local stage = main .. ':stage:' .. token
local held = redis.call('HMGET', stage, 'f:' .. strand, 'l:' .. strand, 'n:' .. strand)
local first, last, count = tonumber(held[1] or nil), tonumber(held[2] or nil), tonumber(held[3] or 0)
if tonumber(ARGV[4]) == 0 then
  return { 'done', '' }
end
if not held[1] then
  redis.call('HINCRBY', stage, 'strands', 1)
end
for n = 0, tonumber(ARGV[4]) - 1 do
  local p, bytes, id = ARGV[5 + n * 3], ARGV[6 + n * 3], ARGV[7 + n * 3]
  local position = tonumber(p)
  if redis.call('HSETNX', stage, 'e:' .. strand .. ':' .. p, bytes) == 1 then
    count = count + 1
    first, last = math.min(first or position, position), math.max(last or position, position)
    if id ~= '' then
      local spots = redis.call('HGET', stage, 'i:' .. id)
      redis.call('HSET', stage, 'i:' .. id, (spots and spots .. ' ' or '') .. strand .. ' ' .. p)
    end
  end
end
local function text(number)
  return string.format('%.0f', number)
end
redis.call('HSET', stage, 'f:' .. strand, text(first), 'l:' .. strand, text(last), 'n:' .. strand, text(count))
redis.call('SADD', stages, token)
-- The caller that staged it may never adopt it.
redis.call('PEXPIRE', stage, stay)
redis.call('PEXPIRE', stages, stay)
return { 'done', '' }
