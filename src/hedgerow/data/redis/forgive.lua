-- Remove the block, score and offences of a key. Return 0 if there were none. ARGV: key, time.
-- A server that could not reach Redis may still send a block from before: `commit` ignores it.
local key = ARGV[1]
redis.call("SET", P .. "f:" .. key, ARGV[2], "PX", 86400000)
local known = get_known(key)
local had = known.s ~= nil
known.s, known.o, known.w = nil, nil, nil
redis.call("ZREM", P .. "o:o", key)
if not known.e then redis.call("ZREM", P .. "o:s", key) end
redis.call("DEL", P .. "d:" .. key)
local blocked = unblock(known)
put_known(known)
return (blocked or had) and 1 or 0
