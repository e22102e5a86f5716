-- Record one visit, and return what is known about its visitor, in one step.
--
-- The lines before this one set P (the prefix of all keys), KEEP (seconds), LONGEST (bytes), TTL (of counters, in
-- milliseconds), and RATE_HALF_LIFE and RATE_PER_VISIT (see `core.rate_limit.updated_rate`). KEYS are the records of
-- the visitor, of everyone at its address and of its network, and then all counters that are needed. ARGV: the time as
-- text and as eight bytes; the key of strikes or ""; the key of the day's count or ""; the day; requests to count for
-- it; which KEYS are counters of this visit (three numbers, 0 for none); from which KEYS to take it back (likewise);
-- visits to add to the rate of the whole site, or -1 if that is not needed.
--
-- A counter is a string of times, eight bytes each, in the order of the visits. The caller counts them, which costs
-- Redis nothing. The reply is the block in force, as it was committed, or an array: further details (MessagePack of
-- strikes, requests of the day, score, entries, offences, rate of the site) or nil, two more nils, and the counters.
local at, time = tonumber(ARGV[1]), ARGV[2]
local got = redis.call("MGET", unpack(KEYS))

local today = 0
if ARGV[4] ~= "" then
  local day = tonumber(ARGV[5])
  local known, count = (redis.call("GET", ARGV[4]) or "0:0"):match("(%d+):(-?%d+)")
  known, count = tonumber(known), tonumber(count)
  -- Another day, or a clock that was ahead has been set right.
  if day > known or day < known - 1 then known, count = day, 0 end
  if day == known then
    count = count + tonumber(ARGV[6])
    redis.call("SET", ARGV[4], known .. ":" .. count, "PX", 172800000)
  end
  today = count
end

for n = 10, 12 do
  local which = ARGV[n]
  if which == "0" then break end
  which = tonumber(which)
  local times = got[which]
  for start = times and #times - 7 or 0, 1, -8 do
    if times:sub(start, start + 7) == time then
      times = times:sub(1, start - 1) .. times:sub(start + 8)
      got[which] = times
      redis.call("SET", KEYS[which], times, "PX", TTL)
      break
    end
  end
end

-- Blocks and offences that have ended are removed.
local me, offences = nil, nil
for n = 1, 3 do
  if got[n] then
    local known = cmsgpack.unpack(got[n])
    if n == 1 then me = known end
    local over = false
    if known.b then
      if known.u > at then return known.b end
      redis.call("ZREM", P .. "o:b", known.k)
      redis.call("ZREM", P .. "x:" .. known.p, known.k)
      known.b, known.u, known.p, over = nil, nil, nil, true
    end
    if known.o then
      if known.w > at then
        offences = offences or {}
        offences[#offences + 1] = { known.k, known.o }
      else
        redis.call("ZREM", P .. "o:o", known.k)
        known.o, known.w, over = nil, nil, true
      end
    end
    if over then
      if known.s or known.e or known.o then
        redis.call("SET", KEYS[n], cmsgpack.pack(known), "KEEPTTL")
      else
        redis.call("DEL", KEYS[n])
      end
    end
  end
end

local strikes = 0
if ARGV[3] ~= "" then strikes = redis.call("ZCOUNT", ARGV[3], "(" .. ARGV[1], "+inf") end

for n = 7, 9 do
  local which = ARGV[n]
  if which == "0" then break end
  which = tonumber(which)
  local times = got[which]
  if not times then
    times = time
  else
    local first, oldest = 1, at - KEEP
    while first < #times and struct.unpack("<d", times, first) <= oldest do first = first + 8 end
    times = (first > 1 and times:sub(first) or times) .. time
    if #times > LONGEST then times = times:sub(-LONGEST) end
  end
  got[which] = times
  redis.call("SET", KEYS[which], times, "PX", TTL)
end

local rate = 0
if ARGV[13] ~= "-1" then
  local key = P .. "rate"
  local known = redis.call("GET", key)
  local since = at
  if known then
    rate, since = struct.unpack("<dd", known)
    if since < at then rate, since = rate * 0.5 ^ ((at - since) / RATE_HALF_LIFE), at end
  end
  rate = rate + tonumber(ARGV[13]) * RATE_PER_VISIT
  redis.call("SET", key, struct.pack("<dd", rate, since), "PX", RATE_HALF_LIFE * 100000)
end

got[1], got[2], got[3] = false, false, false
if me or offences or strikes > 0 or today > 0 or rate > 0 then
  got[1] = cmsgpack.pack({ strikes, today, me and me.s or false, me and me.e or {}, offences or {}, rate })
end
return got
