-- The records of keys, for the scripts that change them. The lines before this one set P (the prefix of all keys),
-- MOST_BLOCKS, MOST_KNOWN and REMEMBER (seconds).
--
-- A record has k: the key; b: a block as JSON, u: its end, p: its prefix; s: a score {identity, total, at, day,
-- suspicious visits, challenges, reasons}; e: entries; o: the number of offences, w: until when they are remembered.
local WEEK, DAY, NIGHT, SLACK = 604800, 86400, 21600, 60

local function get_known(key)
  local data = redis.call("GET", P .. "m:" .. key)
  return data and cmsgpack.unpack(data) or { k = key }
end

local function at_least(key, milliseconds) -- Raise the time to live of a key to this.
  if redis.call("PTTL", key) < milliseconds then redis.call("PEXPIRE", key, milliseconds) end
end

local function put_known(known, at) -- at: the current time, or nil to keep the time to live.
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

local function number(part, key, seconds) -- Make this key the one whose part changed last.
  local name = P .. "o:" .. part
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

local function keep_within(part, most) -- Of too many keys, clear the part of those that changed first.
  while redis.call("ZCARD", P .. "o:" .. part) > most do
    local key = redis.call("ZPOPMIN", P .. "o:" .. part)[1]
    local known = get_known(key)
    if part == "b" then
      unblock(known)
    elseif part == "o" then
      known.o, known.w = nil, nil
    else
      known.s, known.e = nil, nil
    end
    put_known(known)
  end
end
