-- calls(cap, lease, seen epoch, remembered view, rate window, operations, plain,
-- permits, good reports, neutral reports): what the calls of one process ask for and
-- report, in the order they came. Callers that come while a trip is under way share
-- the next one. An operation is a line:
--   P <tab> token
--   R <tab> token <tab> epoch <tab> verdict <tab> slow <tab> probe <tab> failure entry
-- plain: nothing but permits, and good or neutral reports of the seen epoch that were
-- neither slow nor probes. The counts tell how many of each.
--
-- Answers {operations, now, failures in a row, epoch, and the rest of the circuit if its
-- epoch is not the seen one}. Of each operation "code retry epoch"; an empty list says
-- that every permit is admitted and every report counted, in the seen epoch.
local cap, lease = tonumber(ARGV[5]), tonumber(ARGV[6])
local seen, view = ARGV[7], ARGV[8]
-- width of the rate window and so of the ring of buckets, seconds.
local width = tonumber(ARGV[9])

-- five reads a bucket "second ok fail neutral slow" or the total "ok fail neutral slow
-- fenced".
local function five(s)
  local a, b, c, d, e = string.match(s or '0 0 0 0 0', '^(%d+) (%d+) (%d+) (%d+) (%d+)')
  return tonumber(a), tonumber(b), tonumber(c), tonumber(d), tonumber(e)
end

-- tally counts calls that ended: the total always, their second's bucket only in their
-- own era.
local function tally(counted, oks, fails, neutrals, slows)
  local slot, mine = string.format('%d', sec % width), 'w:' .. WORKER
  local b = redis.call('HMGET', K_BUCKETS, slot, 'total', mine)
  local at, ok, fail, neutral, slow = five(b[1])
  local all_ok, all_fail, all_neutral, all_slow, fenced = five(b[2])
  if at ~= sec then ok, fail, neutral, slow = 0, 0, 0, 0 end
  all_ok, all_fail, all_neutral = all_ok + oks, all_fail + fails, all_neutral + neutrals
  all_slow = all_slow + slows
  if not counted then fenced = fenced + oks + fails + neutrals end
  local total = string.format('%d %d %d %d %d', all_ok, all_fail, all_neutral, all_slow, fenced)
  if counted then
    redis.call('HSET', K_BUCKETS, 'total', total, slot,
      string.format('%d %d %d %d %d', sec, ok + oks, fail + fails, neutral + neutrals, slow + slows))
  else
    redis.call('HSET', K_BUCKETS, 'total', total)
  end
  if b[3] ~= clock[1] then redis.call('HSET', K_BUCKETS, mine, clock[1]) end
  if slows > 0 then redis.call('HSET', K_BUCKETS, 's:' .. WORKER, clock[1]) end
end

-- lend gives every permit of a plain batch its slot of the bulkhead and takes back
-- those of its reports; false: not all fit.
local function lend(asked)
  if redis.call('ZCARD', K_LEASES) + asked > cap then return false end
  local gone, given = {}, {}
  for kind, token in string.gmatch(ARGV[10], '([PR])\t([^\t\n]*)') do
    if kind == 'R' then gone[#gone + 1] = token
    else given[#given + 1], given[#given + 2] = us(now + lease), token end
  end
  if #given > 0 then redis.call('ZADD', K_LEASES, unpack(given)) end
  if #gone > 0 then redis.call('ZREM', K_LEASES, unpack(gone)) end
  return true
end

-- The common case first: closed, nothing restored, overridden or ramping, no failure to
-- forget, and room in the bulkhead. It touches nothing the general case below needs.
if ARGV[11] == '1' then
  local asked, oks, neutrals = tonumber(ARGV[12]), tonumber(ARGV[13]), tonumber(ARGV[14])
  local h = redis.call('HMGET', K_STATE, 'epoch', 'state', 'fails', 'mode', 'ramp_from')
  local calm = h[1] == seen and h[2] == 'closed' and (oks == 0 or h[3] == '0') and
    (asked == 0 or (h[4] == '' and h[5] == '0'))
  if (calm or (not h[1] and seen == '0' and view == '')) and (cap == 0 or lend(asked)) then
    if oks + neutrals > 0 then tally(true, oks, 0, neutrals, 0) end
    return { {}, us(now), h[3] or '0', seen }
  end
end

