#!lua flags=no-writes
-- Entries of a strand: false without a head, else the position of the first one and the entries.
--
-- KEYS: main. ARGV: strand, from, end, bytes.
local main, strand, from, stop, bytes = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local held = redis.call('HMGET', main, 'v', 'f:' .. strand, 'n:' .. strand)
if not held[1] then
  return false
end
local first, count = tonumber(held[2] or 0), tonumber(held[3] or 0)
from, stop = math.max(from, first), math.min(stop, first + count)
local found, taken = { string.format('%.0f', from) }, 0
while from < stop and (taken < bytes or #found == 1) do
  local entry = redis.call('HGET', main, string.format('e:%s:%.0f', strand, from))
  if not entry then
    return redis.error_reply(string.format('TORN entry %.0f of strand %s is gone', from, strand))
  end
  found[#found + 1] = entry
  -- Without the hash each entry begins with.
  taken, from = taken + #entry - 32, from + 1
end
return found
