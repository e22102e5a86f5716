-- Forget what speaks against a key; 0 where there was nothing.
local key = ARGV[1]
local known = get_known(key)
local had = known.s ~= nil
known.s, known.o, known.w = nil, nil, nil
redis.call("ZREM", P .. "o:o", key)
if not known.e then redis.call("ZREM", P .. "o:s", key) end
redis.call("DEL", P .. "d:" .. key)
local blocked = unblock(known)
put_known(known)
return (blocked or had) and 1 or 0
