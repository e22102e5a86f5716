-- Update a score, as `policy.score.updated_score` does. ARGV: key, at, day, half-life, weight, suspicious, challenged,
-- cleared, identity, entry, and then the codes.
local key, at, day, half_life, weight = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local suspicious, challenged, cleared, identity, entry = tonumber(ARGV[6]), ARGV[7] == "1", ARGV[8] == "1", ARGV[9], ARGV[10]
local known = get_known(key)
if entry ~= "" then
  local entries = known.e or {}
  entries[#entries + 1] = entry
  if #entries > 8 then table.remove(entries, 1) end
  known.e = entries
end
-- A score from a clock that was ahead is forgotten.
if known.s and known.s[3] - at > DAY then known.s = nil end
local before = known.s or { "person", 0, 0, 0, 0, 0, {} }
-- Cleared just now.
local fresh = before[1] == "person" and before[2] == 0 and before[6] > 0 and before[6] <= 2 and #before[7] == 0
if fresh and challenged and identity ~= "" and at - before[3] < 2 then
  if entry == "" then return 1 end
elseif weight ~= 0 or identity ~= "" or cleared or #ARGV > 10 then
  local now, left = math.max(before[3], at), 0
  if before[2] ~= 0 then
    left = before[2] * 0.5 ^ (math.max(0, now - before[3]) / half_life)
    if left <= 1e-6 then left = 0 end
  end
  -- The day of a browser that was challenged a moment ago does not end at midnight, unless it has answered an image.
  local is_browser = string.sub(key, 1, 10) == "clearance:" or string.sub(key, 1, 8) == "account:"
  local has_answered = before[6] >= 5 and before[1] == "person" and #before[7] == 0
  if before[6] > 0 and before[4] == day - 1 and is_browser and at - before[3] < NIGHT and not has_answered then
    day = before[4]
  end
  local today = math.max(before[4], day)
  local same = before[4] == today
  local reasons = before[7]
  for n = 11, #ARGV do
    local found = 0
    for index, reason in ipairs(reasons) do
      if reason[1] == ARGV[n] then
        found = reason[2]
        table.remove(reasons, index)
        break
      end
    end
    reasons[#reasons + 1] = { ARGV[n], found + 1 }
  end
  while #reasons > 8 do table.remove(reasons, 1) end
  local named = before[1]
  if identity ~= "" and not (identity == "suspect" and named ~= "person") then named = identity end
  local total = left + weight
  if identity ~= "" and identity ~= "person" and before[1] ~= "person" then total = math.max(left, weight) end
  known.s = {
    cleared and "person" or named,
    cleared and 0 or total,
    now,
    today,
    cleared and 0 or (same and before[5] or 0) + suspicious,
    (same and before[6] or 0) + ((challenged and before[1] == "person") and 1 or 0),
    cleared and {} or reasons,
  }
end
if known.s or known.e then
  number("s", key, WEEK)
  put_known(known, at)
  keep_within("s", MOST_KNOWN)
end
return 1
