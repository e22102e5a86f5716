-- What is known of a key, for the scripts that change it. The lines before this one set P (the prefix of all keys),
-- MOST_BLOCKS, MOST_KNOWN and REMEMBER (seconds).
--
-- A record: k the key; b a block as it was committed, u until when, p its prefix; s a standing {identity, suspicion, at,
-- day, wrong, challenges, reasons}; e entries; o how many offences, w until when they are remembered.
local WEEK, DAY, SLACK = 604800, 86400, 60

local function get_known(key)
  local data = redis.call("GET", P .. "m:" .. key)
  return data and cmsgpack.unpack(data) or { k = key }
end

local function at_least(key, milliseconds) -- A key lives for so long, or for longer where it does already.
  if redis.call("PTTL", key) < milliseconds then redis.call("PEXPIRE", key, milliseconds) end
end

local function put_known(known, at) -- at: the time now, or nil where the record lives as long as it did.
  local key = P .. "m:" .. known.k
  if not (known.b or known.s or known.e or known.o) then
    redis.call("DEL", key)
  elseif at then
    local seconds = 0
    if known.s then seconds = WEEK end
    if known.e then seconds = math.max(seconds, DAY) end
    if known.b then seconds = math.max(seconds, known.u - at) end
    if known.o then seconds = math.max(seconds, known.w - at) end
    redis.call("SET", key, cmsgpack.pack(known), "PX", math.ceil((seconds + SLACK) * 1000))
  else
    redis.call("SET", key, cmsgpack.pack(known), "KEEPTTL")
  end
end

local function number(sort, key, seconds) -- This key is the one of its sort that has changed last.
  local name = P .. "o:" .. sort
  redis.call("ZADD", name, redis.call("INCR", P .. "n"), key)
  at_least(P .. "n", WEEK * 8000)
  at_least(name, math.ceil((seconds + SLACK) * 1000))
end

local function unblock(known)
  if not known.b then return false end
  redis.call("ZREM", P .. "o:b", known.k)
  redis.call("ZREM", P .. "x:" .. known.p, known.k)
  known.b, known.u, known.p = nil, nil, nil
  return true
end

local function keep_within(sort, most) -- Of too many the one that has changed first goes.
  while redis.call("ZCARD", P .. "o:" .. sort) > most do
    local key = redis.call("ZPOPMIN", P .. "o:" .. sort)[1]
    local known = get_known(key)
    if sort == "b" then
      unblock(known)
    elseif sort == "o" then
      known.o, known.w = nil, nil
    else
      known.s, known.e = nil, nil
    end
    put_known(known)
  end
end
