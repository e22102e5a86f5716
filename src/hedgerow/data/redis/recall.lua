-- One visit: count it and say what is remembered about its makers, in one step.
--
-- The lines before this one set P (the prefix of all keys), WINDOWS ({by, {series...}, seconds}...), KEEP, MOST,
-- SERIES (which are counted) and TTL (of counters, in milliseconds).
--
-- The answer is the block in force, as it was committed; or else the counts; or else, where more is known, one text in
-- an array: MessagePack of strikes, requests of the day, counts, standing, entries, offences.
local at, series, dropped = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local visitor, prefix, network = ARGV[4], ARGV[5], ARGV[6]
local counted, day, more = ARGV[7] == "1", tonumber(ARGV[8]), tonumber(ARGV[9])
local everyone = prefix .. "/*"
local other = visitor ~= prefix

local asked = { P .. "c:" .. visitor, P .. "m:" .. visitor, P .. "c:" .. everyone, P .. "m:" .. everyone }
if other then asked[5] = P .. "c:" .. prefix else asked[5] = P .. "-" end
if network ~= "" then
  asked[6] = P .. "c:" .. network
  asked[7] = P .. "m:" .. network
end
local got = redis.call("MGET", unpack(asked))

-- Sorted times in a text: how many of each of the four series, and then the times, eight bytes each.
local unpack_text, pack_text = struct.unpack, struct.pack
local HEAD = "<I4I4I4I4"

local function bisect(blob, start, size, x) -- How many of the times are at most x.
  local low, high = 0, size
  while low < high do
    local middle = math.floor((low + high) / 2)
    if unpack_text("<d", blob, start + 8 * middle) <= x then low = middle + 1 else high = middle end
  end
  return low
end

local function place(blob, which) -- Where a series starts, and how many times it has.
  local sizes = { unpack_text(HEAD, blob) }
  local start = 17
  for n = 1, which do start = start + 8 * sizes[n] end
  return start, sizes[which + 1], sizes
end

local function with_time(blob, which)
  if not blob then
    local sizes = { 0, 0, 0, 0 }
    sizes[which + 1] = 1
    return pack_text(HEAD .. "d", sizes[1], sizes[2], sizes[3], sizes[4], at)
  end
  local start, size, sizes = place(blob, which)
  local newest = size > 0 and unpack_text("<d", blob, start + 8 * (size - 1)) or at
  local here = at >= newest and size or bisect(blob, start, size, at)
  if at > newest then newest = at end
  local times = blob:sub(start, start + 8 * here - 1) .. pack_text("<d", at) .. blob:sub(start + 8 * here, start + 8 * size - 1)
  local length = size + 1
  local first = length > MOST and length - MOST or 0
  if unpack_text("<d", times, 8 * first + 1) <= newest - KEEP then first = bisect(times, 1, length, newest - KEEP) end
  if first > 0 then times = times:sub(8 * first + 1) end
  local after = blob:sub(start + 8 * size)
  sizes[which + 1] = length - first
  return pack_text(HEAD, sizes[1], sizes[2], sizes[3], sizes[4]) .. blob:sub(17, start - 1) .. times .. after
end

local function without_time(blob, which)
  local start, size, sizes = place(blob, which)
  local here = bisect(blob, start, size, at)
  if here == 0 or unpack_text("<d", blob, start + 8 * (here - 1)) ~= at then return blob end
  sizes[which + 1] = size - 1
  return pack_text(HEAD, sizes[1], sizes[2], sizes[3], sizes[4]) .. blob:sub(17, start + 8 * (here - 1) - 1)
    .. blob:sub(start + 8 * here)
end

if dropped >= 0 then
  for _, n in ipairs(network ~= "" and { 1, 3, 6 } or { 1, 3 }) do
    if got[n] and (n ~= 3 or other) then
      got[n] = without_time(got[n], dropped)
      redis.call("SET", asked[n], got[n], "PX", TTL)
    end
  end
end

local today = 0
if day > 0 and counted then
  local key = P .. "d:" .. visitor
  local known, count = (redis.call("GET", key) or "0:0"):match("(%d+):(-?%d+)")
  known, count = tonumber(known), tonumber(count)
  if day > known then known, count = day, 0 end
  if day == known then
    count = count + more
    redis.call("SET", key, known .. ":" .. count, "PX", 172800000)
  end
  today = count
end

-- What is known: of the visitor, of everyone at its address, of its network. What is over is removed on the way.
local own, offences = nil, nil
for _, n in ipairs(network ~= "" and { 2, 4, 7 } or { 2, 4 }) do
  if got[n] then
    local known = cmsgpack.unpack(got[n])
    if n == 2 then own = known end
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
        redis.call("SET", asked[n], cmsgpack.pack(known), "KEEPTTL")
      else
        redis.call("DEL", asked[n])
      end
    end
  end
end

local strikes = 0
if other then
  strikes = redis.call("ZCOUNT", P .. "x:" .. prefix, "(" .. ARGV[1], "+inf")
end

local counts = {}
if counted and SERIES[series] then
  got[1] = with_time(got[1], series)
  redis.call("SET", asked[1], got[1], "PX", TTL)
  if other then
    got[3] = with_time(got[3], series)
    redis.call("SET", asked[3], got[3], "PX", TTL)
  end
  if network ~= "" then
    got[6] = with_time(got[6], series)
    redis.call("SET", asked[6], got[6], "PX", TTL)
  end
  local first = got[1]
  if other then first = got[5] end
  local whose = { visitor = { got[1] }, prefix = { first, got[3] }, network = { got[6] } }
  for n = 1, #WINDOWS do
    local window, total = WINDOWS[n], 0
    for index = 1, 2 do
      local blob = whose[window[1]][index]
      if blob then
        for _, which in ipairs(window[2]) do
          local start, size = place(blob, which)
          if size > 0 then
            local upto = unpack_text("<d", blob, start + 8 * (size - 1)) <= at and size or bisect(blob, start, size, at)
            total = total + upto - bisect(blob, start, size, at - window[3])
          end
        end
      end
    end
    counts[n] = total
  end
end

if own == nil and offences == nil and strikes == 0 and today == 0 then return counts end
return {
  cmsgpack.pack({ strikes, today, counts, own and own.s or false, own and own.e or {}, offences or {} }),
}
