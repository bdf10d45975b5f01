-- report(token, epoch, verdict, slow, failure entry, seen epoch, view, probe, leased):
-- a call admitted in that epoch ended so. Answers what became of the report:
-- counted, fenced (another epoch by now), late (the probe's lease ended).
local token, epoch, verdict, slow, entry = ARGV[5], ARGV[6], ARGV[7], ARGV[8] == '1', ARGV[9]
local seen, view, probing, leased = ARGV[10], ARGV[11], ARGV[12] == '1', ARGV[13] == '1'
local COLUMN = { ok = 1, fail = 2, neutral = 3 }

local function split(s)
  local r = {}
  for n in string.gmatch(s or '', '%S+') do r[#r + 1] = tonumber(n) end
  return r
end

local c = load_circuit()
adopt(c, seen, view)
if leased then redis.call('ZREM', K_LEASES, token) end
local outcome = 'counted'
if epoch ~= c.epoch then
  outcome = 'fenced'
elseif probing then
  local deadline = redis.call('ZSCORE', K_PROBES, token)
  redis.call('ZREM', K_PROBES, token)
  if not deadline or tonumber(deadline) <= now then outcome = 'late' end
end

-- Count the call: the total always, its second's bucket only in its own era.
local width = S('rate_window')
local slot, mine = string.format('%d', sec % width), 'w:' .. WORKER
local b = redis.call('HMGET', K_BUCKETS, slot, 'total', mine)
local total, bucket = split(b[2] or '0 0 0 0 0'), split(b[1] or '0 0 0 0 0')
if bucket[1] ~= sec then bucket = { sec, 0, 0, 0, 0 } end
local column = COLUMN[verdict]
total[column] = total[column] + 1
if slow then total[4] = total[4] + 1 end
if outcome == 'counted' then
  bucket[column + 1] = bucket[column + 1] + 1
  if slow then bucket[5] = bucket[5] + 1 end
else
  total[5] = total[5] + 1
end
redis.call('HSET', K_BUCKETS, slot, table.concat(bucket, ' '), 'total', table.concat(total, ' '), mine, clock[1])
if slow then redis.call('HSET', K_BUCKETS, 's:' .. WORKER, clock[1]) end

local function remember_failure()
  local keep = math.max(S('failures'), 20)
  redis.call('LPUSH', K_FAILS, us(now) .. '|' .. WORKER .. '|' .. entry)
  redis.call('LTRIM', K_FAILS, 0, keep - 1)
end

-- recent returns the latest failures of this era, newest first: n of them, or those
-- after a time.
local function recent(n, after)
  local run = {}
  for _, f in ipairs(redis.call('LRANGE', K_FAILS, 0, n - 1)) do
    local at = tonumber(string.match(f, '^(%d+)|'))
    if at >= after and at >= c.since then run[#run + 1] = f end
  end
  return run
end

-- sums adds up the buckets of the window that belong to this era.
local function sums(all)
  local calls, fails, slows = 0, 0, 0
  for i = 1, #all, 2 do
    if string.match(all[i], '^%d+$') then
      local v = split(all[i + 1])
      if v[1] > sec - width and v[1] <= sec and v[1] >= math.floor(c.since / 1000000) then
        calls, fails, slows = calls + v[2] + v[3], fails + v[3], slows + v[5]
      end
    end
  end
  return calls, fails, slows
end

-- sluggish lists the workers that saw slow calls in the window, as evidence.
local function sluggish(all)
  local run = {}
  for i = 1, #all, 2 do
    local w = string.match(all[i], '^s:(.*)$')
    if w and sec - tonumber(all[i + 1]) < width then
      run[#run + 1] = all[i + 1] .. '000000|' .. w .. '|slow|'
    end
  end
  table.sort(run)
  return run
end

-- lone returns the worker that alone sees failures while others are active.
local function lone(run, all)
  local seen_workers, n, last = {}, 0, nil
  for _, f in ipairs(run) do
    local w = string.match(f, '^%d+|([^|]*)|')
    if not seen_workers[w] then seen_workers[w], n = true, n + 1 end
    last = last or w
  end
  local active = 0
  for i = 1, #all, 2 do
    local kind = string.sub(all[i], 1, 2)
    local age = (kind == 'w:' or kind == 's:') and sec - tonumber(all[i + 1]) or 0
    if age > 3600 then redis.call('HDEL', K_BUCKETS, all[i])
    elseif kind == 'w:' and age * 1000000 <= S('active_for') then active = active + 1 end
  end
  if n >= S('quorum') or n >= active then return nil end
  return last or WORKER
end

-- rule returns the opening rule that holds now and the failures behind it.
local function rule(all)
  local keep = math.max(S('failures'), 20)
  if S('failures') > 0 then
    if S('window') > 0 then
      local run = recent(keep, now - S('window'))
      if #run >= S('failures') then return 'failures_in_window', run end
    elseif c.fails >= S('failures') then
      return 'consecutive_failures', recent(math.min(c.fails, keep), 0)
    end
  end
  if S('rate') == 0 and S('slow_rate') == 0 then return nil end
  local calls, fails, slows = sums(all)
  if calls == 0 or calls < S('min_calls') then return nil end
  local run = recent(keep, now - width * 1000000)
  if S('rate') > 0 and fails / calls >= S('rate') then return 'failure_rate', run end
  if S('slow_rate') > 0 and slows / calls >= S('slow_rate') then return 'slow_calls', sluggish(all) end
  return nil
end

local function open(reason, run)
  c.til = now + reopen_after(c.reopens)
  move(c, 'open', reason, '', '', table.concat(run, '\n'))
end

local function judge()
  local all = redis.call('HGETALL', K_BUCKETS)
  local reason, run = rule(all)
  if not reason then return end
  local bad = lone(run, all)
  if not bad then return open(reason, run) end
  -- Once per worker and era: blamed is "|w1|w2|".
  if not string.find(c.blamed, '|' .. bad .. '|', 1, true) then
    if c.blamed == '' then c.blamed = '|' end
    c.blamed = c.blamed .. bad .. '|'
    redis.call('HSET', K_STATE, 'blamed', c.blamed)
    emit('bad_worker', c.state, c, c.epoch .. '/' .. bad, 'bad_worker', '', bad, table.concat(run, '\n'))
  end
end

local function closed()
  if verdict == 'fail' then
    c.fails = c.fails + 1
    if c.lost then save(c) else redis.call('HSET', K_STATE, 'fails', us(c.fails)) end
    remember_failure()
  elseif verdict == 'ok' and c.fails > 0 then
    c.fails = 0
    redis.call('HSET', K_STATE, 'fails', '0')
  end
  if c.mode ~= 'forced_closed' and (verdict == 'fail' or slow) then judge() end
end

-- half_open: only a probe whose lease still holds moves the circuit. The lease of a
-- neutral one is free again already.
local function half_open()
  if verdict == 'fail' or (verdict == 'ok' and slow and S('slow_rate') > 0) then
    if verdict == 'fail' then remember_failure() end
    c.reopens = c.reopens + 1
    return open('probe_failed', recent(1, 0))
  end
  if verdict ~= 'ok' then return end
  c.wins = c.wins + 1
  if c.wins >= S('successes') then return move(c, 'closed', 'probes_succeeded', '', '', '') end
  redis.call('HSET', K_STATE, 'wins', us(c.wins))
end

if outcome == 'counted' then
  if c.state == 'closed' then closed()
  elseif c.state == 'half_open' and probing then half_open() end
end
return answer(outcome, c, seen, 0)
