-- Set a block. The visitor starts from zero when it ends. ARGV: key, prefix, since, until, offence, block as JSON, and
-- "1" if it counts only where no block is known: a server repeats what it knows to a Redis that may have lost it.
local key, prefix, since, till = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local forgiven = redis.call("GET", P .. "f:" .. key)
if forgiven and since <= tonumber(forgiven) then return 0 end
local known = get_known(key)
if ARGV[7] == "1" and known.b then return 0 end
unblock(known)
known.b, known.u, known.p = ARGV[6], till, prefix
number("b", key, till - since)
if REMEMBER > 0 then
  known.o, known.w = tonumber(ARGV[5]), till + REMEMBER
  number("o", key, till - since + REMEMBER)
end
if known.s then known.s = { "person", 0, known.s[3], known.s[4], 0, known.s[6], {} } end
put_known(known, since)
for series = 0, 3 do
  redis.call("DEL", P .. "c" .. series .. ":" .. key)
  if key == prefix .. "/*" then redis.call("DEL", P .. "c" .. series .. ":" .. prefix) end
end
if key:sub(1, 8) == "account:" or key:sub(1, 10) == "clearance:" then
  redis.call("ZADD", P .. "x:" .. prefix, ARGV[4], key)
  at_least(P .. "x:" .. prefix, math.ceil((till - since + SLACK) * 1000))
end
keep_within("b", MOST_BLOCKS)
keep_within("o", MOST_BLOCKS)
return 1
