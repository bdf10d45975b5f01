-- What the general case knows about reports.

local function remember_failure(entry)
  local keep = math.max(S('failures'), 20)
  redis.call('LPUSH', K_FAILS, us(now) .. '|' .. WORKER .. '|' .. entry)
  redis.call('LTRIM', K_FAILS, 0, keep - 1)
end

-- recent returns the latest failures of this era, newest first: n of them, or those
-- after a time.
local function recent(c, n, after)
  local run = {}
  for _, f in ipairs(redis.call('LRANGE', K_FAILS, 0, n - 1)) do
    local at = tonumber(string.match(f, '^(%d+)|'))
    if at >= after and at >= c.since then run[#run + 1] = f end
  end
  return run
end

-- sums adds up the buckets of the window that belong to this era.
local function sums(c, all)
  local calls, fails, slows = 0, 0, 0
  for i = 1, #all, 2 do
    if string.match(all[i], '^%d+$') then
      local at, ok, fail, _, slow_ones = five(all[i + 1])
      if at > sec - width and at <= sec and at >= math.floor(c.since / 1000000) then
        calls, fails, slows = calls + ok + fail, fails + fail, slows + slow_ones
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
local function rule(c, all)
  local keep = math.max(S('failures'), 20)
  if S('failures') > 0 then
    if S('window') > 0 then
      local run = recent(c, keep, now - S('window'))
      if #run >= S('failures') then return 'failures_in_window', run end
    elseif c.fails >= S('failures') then
      return 'consecutive_failures', recent(c, math.min(c.fails, keep), 0)
    end
  end
  if S('rate') == 0 and S('slow_rate') == 0 then return nil end
  local calls, fails, slows = sums(c, all)
  if calls == 0 or calls < S('min_calls') then return nil end
  local run = recent(c, keep, now - width * 1000000)
  if S('rate') > 0 and fails / calls >= S('rate') then return 'failure_rate', run end
  if S('slow_rate') > 0 and slows / calls >= S('slow_rate') then return 'slow_calls', sluggish(all) end
  return nil
end

local function open(c, reason, run)
  c.til = now + reopen_after(c.reopens)
  move(c, 'open', reason, '', '', table.concat(run, '\n'))
end

local function judge(c)
  local all = redis.call('HGETALL', K_BUCKETS)
  local reason, run = rule(c, all)
  if not reason then return end
  local bad = lone(run, all)
  if not bad then return open(c, reason, run) end
  -- Once per worker and era: blamed is "|w1|w2|".
  if not string.find(c.blamed, '|' .. bad .. '|', 1, true) then
    if c.blamed == '' then c.blamed = '|' end
    c.blamed = c.blamed .. bad .. '|'
    redis.call('HSET', K_STATE, 'blamed', c.blamed)
    emit('bad_worker', c.state, c, c.epoch .. '/' .. bad, 'bad_worker', '', bad, table.concat(run, '\n'))
  end
end

local function closed(c, verdict, slow, entry)
  if verdict == 'fail' then
    c.fails = c.fails + 1
    if c.lost then save(c) else redis.call('HSET', K_STATE, 'fails', us(c.fails)) end
    remember_failure(entry)
  elseif verdict == 'ok' and c.fails > 0 then
    c.fails = 0
    redis.call('HSET', K_STATE, 'fails', '0')
  end
  if c.mode ~= 'forced_closed' and (verdict == 'fail' or slow) then judge(c) end
end

-- half_open: only a probe whose lease still holds moves the circuit. The lease of a
-- neutral one is free again already.
local function half_open(c, verdict, slow, entry)
  if verdict == 'fail' or (verdict == 'ok' and slow and S('slow_rate') > 0) then
    if verdict == 'fail' then remember_failure(entry) end
    c.reopens = c.reopens + 1
    return open(c, 'probe_failed', recent(c, 1, 0))
  end
  if verdict ~= 'ok' then return end
  c.wins = c.wins + 1
  if c.wins >= S('successes') then return move(c, 'closed', 'probes_succeeded', '', '', '') end
  redis.call('HSET', K_STATE, 'wins', us(c.wins))
end

-- report takes the verdict of a call admitted in an epoch, and answers what became of
-- it: counted, fenced (another epoch by now), late (the probe's lease ended).
local function report(c, token, epoch, verdict, slow, probing, entry)
  if cap > 0 then redis.call('ZREM', K_LEASES, token) end
  local outcome = 'counted'
  if epoch ~= c.epoch then
    outcome = 'fenced'
  elseif probing then
    local deadline = redis.call('ZSCORE', K_PROBES, token)
    redis.call('ZREM', K_PROBES, token)
    if not deadline or tonumber(deadline) <= now then outcome = 'late' end
  end
  local ok, fail = verdict == 'ok' and 1 or 0, verdict == 'fail' and 1 or 0
  tally(outcome == 'counted', ok, fail, 1 - ok - fail, slow and 1 or 0)
  if outcome == 'counted' then
    if c.state == 'closed' then closed(c, verdict, slow, entry)
    elseif c.state == 'half_open' and probing then half_open(c, verdict, slow, entry) end
  end
  return outcome
end

