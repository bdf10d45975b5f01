-- The circuit's hash and its transitions, for every script.

-- Settings come as "name=number ..." and are read on the rare paths only.
local parsed
local function S(name)
  if not parsed then
    parsed = {}
    for k, v in string.gmatch(ARGV[2], '([%w_]+)=([%d%.]+)') do parsed[k] = tonumber(v) end
  end
  return parsed[name] or 0
end

-- Epochs are compared as strings of digits.
local function older(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

local function next_epoch(e)
  local n = tonumber(e) + 1
  if now > n then n = now end
  return us(n)
end

local function load_circuit()
  local h = redis.call('HMGET', K_STATE, 'state', 'epoch', 'since', 'til', 'fails',
    'reopens', 'mode', 'mode_til', 'why', 'wins', 'ramp_from', 'tokens', 'refilled', 'blamed')
  return {
    lost = not h[2],
    state = h[1] or 'closed', epoch = h[2] or '0',
    since = tonumber(h[3] or 0), til = tonumber(h[4] or 0), fails = tonumber(h[5] or 0),
    reopens = tonumber(h[6] or 0), mode = h[7] or '', mode_til = tonumber(h[8] or 0),
    why = h[9] or '', wins = tonumber(h[10] or 0), ramp_from = tonumber(h[11] or 0),
    tokens = tonumber(h[12] or 0), refilled = tonumber(h[13] or 0), blamed = h[14] or '',
  }
end

local function save(c)
  c.lost = false
  redis.call('HSET', K_STATE, 'state', c.state, 'epoch', c.epoch, 'since', us(c.since),
    'til', us(c.til), 'fails', us(c.fails), 'reopens', us(c.reopens), 'mode', c.mode,
    'mode_til', us(c.mode_til), 'why', c.why, 'wins', us(c.wins),
    'ramp_from', us(c.ramp_from), 'tokens', string.format('%.6f', c.tokens),
    'refilled', us(c.refilled), 'blamed', c.blamed)
end

local function emit(kind, from, c, epoch, reason, actor, note, run)
  redis.call('XADD', K_EVENTS, 'MAXLEN', '~', '1000', '*', 'class', ARGV[1], 'kind', kind,
    'from', from, 'to', c.state, 'epoch', epoch, 'reason', reason, 'actor', actor,
    'note', note, 'run', run, 'settings', ARGV[2], 'at', us(now))
end

-- move makes a transition: a new epoch fences every call admitted before it.
local function move(c, to, reason, actor, note, run)
  local from = c.state
  c.state, c.epoch, c.since, c.wins, c.blamed = to, next_epoch(c.epoch), now, 0, ''
  redis.call('DEL', K_PROBES)
  local same = reason == 'metrics_only' or reason == 'override_expired'
  if to == 'open' and not same then
    c.why = reason
  elseif to == 'closed' and not same then
    c.fails, c.til, c.reopens = 0, 0, 0
    c.ramp_from, c.tokens, c.refilled = 0, 0, now
    if S('ramp_for') > 0 then c.ramp_from, c.tokens = now, 1 end
    -- A bucket of this very second may hold calls of the era that ends now.
    redis.call('HDEL', K_BUCKETS, string.format('%d', sec % S('rate_window')))
  end
  save(c)
  emit('transition', from, c, c.epoch, reason, actor, note, run)
end

-- reopen_after is the open time with backoff and jitter.
local function reopen_after(reopens)
  local d = S('open_for') * S('backoff') ^ reopens
  if d > S('open_max') then d = S('open_max') end
  return math.floor(d * (1 + S('jitter') * (2 * RANDOM - 1)))
end

-- latest_open is the end of the longest opening that could begin now.
local function latest_open() return now + math.floor(S('open_max') * (1 + S('jitter'))) end

-- prune drops leases that ended, and those a server with a faster clock gave (before a
-- failover): nothing given by this clock ends later than ttl from now.
local function prune(key, ttl)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', us(now))
  redis.call('ZREMRANGEBYSCORE', key, '(' .. us(now + ttl), '+inf')
end

-- adopt restores what a worker remembers when the store lost it: keys deleted, an
-- empty restart, or a failover that dropped the latest writes.
local function adopt(c, seen, view)
  if view == '' or not (c.lost or older(c.epoch, seen)) then return end
  local p = {}
  for field in string.gmatch(view, '([^|]*)|') do p[#p + 1] = field end
  c.epoch, c.state, c.since, c.til = p[1], p[2], tonumber(p[3]), tonumber(p[4])
  c.fails, c.reopens, c.mode, c.mode_til = tonumber(p[5]), tonumber(p[6]), p[7], tonumber(p[8])
  c.why = p[9]
  -- A wrong clock of the rememberer must not keep it open longer than a fresh opening.
  if c.mode ~= 'forced_open' then c.til = math.min(c.til, latest_open()) end
  save(c)
  if c.state == 'open' then emit('transition', 'closed', c, c.epoch, c.why, '', 'restored', '') end
end

-- expire ends an override whose time is over.
local function expire(c)
  if c.mode == '' or c.mode_til == 0 or now < c.mode_til then return end
  local was = c.mode
  c.mode, c.mode_til = '', 0
  -- forced_open ends as an open circuit whose time is over: the next call is a probe.
  if was == 'forced_open' then return save(c) end
  if was == 'forced_closed' then c.fails = 0 end
  move(c, c.state, 'override_expired', '', was, '')
end
