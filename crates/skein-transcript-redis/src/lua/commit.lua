#!lua
-- One change of one transcript. Everything is checked before anything is written.
--
-- KEYS: main, stages, was (see keys.rs).
-- ARGV: expected version or '', expected body, version, touched_at, body, ttl in ms or 0,
--   '1' if ids must be new (then 'known' is answered when one is not) or '',
--   token to adopt, number of strands it must hold or -1, then for each: number, entries;
--   number of new strands, for each: number, body;
--   strand of the entries, position of the first, number of entries, for each: bytes, id or ''.
--
-- Fields of main:
--   v, t, b      version, time and body of the head
--   s:N, top     body of strand N, and one more than the highest N
--   f:N, n:N     position of the first entry of strand N, and how many there are
--   e:N:P        entry at position P of strand N
--   i:ID         where an id was written: 'N P', or 'N P N P ...' when that was in several strands
-- A stage has e, f, n and i too, so that adopting it is renaming it, at any length.
local main, stages, was = KEYS[1], KEYS[2], KEYS[3]
local at = 0
local function take()
  at = at + 1
  return ARGV[at]
end
-- Lua would write large numbers with an exponent.
local function text(number)
  return string.format('%.0f', number)
end

local expected, seen = take(), take()
local version, touched, body, ttl, unseen = take(), take(), take(), take(), take()
local head = redis.call('HMGET', main, 'v', 'b')
if (head[1] or '') ~= expected or (head[2] or '') ~= seen then
  return { 'stale', head[1] or '' }
end
local begins = expected == ''
if begins then
  local gone = redis.call('GET', was)
  if gone and tonumber(gone) > tonumber(version) then
    return { 'lapsed', gone }
  end
end

local token, adopted = take(), tonumber(take())
local stage = main .. ':stage:' .. token
if adopted >= 0 then
  if not begins then
    return { 'bug', 'a stage was adopted over a living transcript' }
  end
  if tonumber(redis.call('HGET', stage, 'strands') or 0) ~= adopted then
    return { 'unstaged', '' }
  end
  for _ = 1, adopted do
    local number, count = take(), tonumber(take())
    local held = redis.call('HMGET', stage, 'n:' .. number, 'f:' .. number, 'l:' .. number)
    if tonumber(held[1] or -1) ~= count or tonumber(held[3]) - tonumber(held[2]) + 1 ~= count then
      return { 'unstaged', '' }
    end
  end
end

local fields = { 'v', version, 't', touched, 'b', body }
local function put(field, value)
  fields[#fields + 1] = field
  fields[#fields + 1] = value
end

local known, top = {}, tonumber((not begins) and redis.call('HGET', main, 'top') or 0)
for _ = 1, tonumber(take()) do
  local number, strand = take(), take()
  if known[number] or (not begins and redis.call('HEXISTS', main, 's:' .. number) == 1) then
    return { 'bug', 'a strand was begun twice' }
  end
  known[number] = true
  top = math.max(top, tonumber(number) + 1)
  put('s:' .. number, strand)
end
put('top', text(top))

local strand, position, count = take(), tonumber(take()), tonumber(take())
if count > 0 then
  local own = { false, false }
  if not begins then
    own = redis.call('HMGET', main, 'f:' .. strand, 'n:' .. strand)
  elseif adopted >= 0 then
    own = redis.call('HMGET', stage, 'f:' .. strand, 'n:' .. strand)
  end
  if not known[strand] and (begins or redis.call('HEXISTS', main, 's:' .. strand) == 0) then
    return { 'bug', 'entries belong to no strand' }
  end
  if own[1] and tonumber(own[1]) + tonumber(own[2]) ~= position then
    return { 'bug', 'entries are not consecutive' }
  end
  if not own[1] then
    put('f:' .. strand, text(position))
  end
  put('n:' .. strand, text(tonumber(own[2] or 0) + count))
end

for n = 1, count do
  local bytes, id = take(), take()
  local p = text(position + n - 1)
  put('e:' .. strand .. ':' .. p, bytes)
  if id ~= '' then
    local spots = (not begins) and redis.call('HGET', main, 'i:' .. id)
    if spots and unseen == '1' then
      return { 'known', '' }
    end
    put('i:' .. id, (spots and spots .. ' ' or '') .. strand .. ' ' .. p)
  end
end

-- From here on things are written.
if begins then
  redis.call('UNLINK', main)
  if adopted > 0 then
    redis.call('RENAME', stage, main)
    redis.call('HDEL', main, 'strands')
  end
end
-- In parts: the stack of Lua is not endless.
for first = 1, #fields, 4000 do
  redis.call('HSET', main, unpack(fields, first, math.min(first + 3999, #fields)))
end

for _, other in ipairs(redis.call('SMEMBERS', stages)) do
  redis.call('UNLINK', main .. ':stage:' .. other)
end
redis.call('UNLINK', stages)
if ttl == '0' then
  redis.call('PERSIST', main)
  redis.call('UNLINK', was)
else
  redis.call('PEXPIRE', main, ttl)
  redis.call('SET', was, version)
end
return { 'done', '' }
