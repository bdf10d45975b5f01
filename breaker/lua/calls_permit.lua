-- What the general case knows about permits.

-- full returns when the earliest in-flight lease ends, if the bulkhead is full.
local function full()
  if cap == 0 or redis.call('ZCARD', K_LEASES) < cap then return nil end
  prune(K_LEASES, lease)
  if redis.call('ZCARD', K_LEASES) < cap then return nil end
  return tonumber(redis.call('ZRANGE', K_LEASES, 0, 0, 'WITHSCORES')[2])
end

-- ramp takes a token of the growing rate after a closing; nil: admitted, else the wait.
local function ramp(c)
  if c.ramp_from == 0 then return nil end
  local age, dur = now - c.ramp_from, S('ramp_for')
  if age >= dur then
    c.ramp_from = 0
    redis.call('HSET', K_STATE, 'ramp_from', '0')
    return nil
  end
  local rate = S('ramp_start') + (S('ramp_full') - S('ramp_start')) * age / dur
  local tokens = c.tokens + (now - c.refilled) * rate / 1000000
  if tokens > math.max(1, rate) then tokens = math.max(1, rate) end
  local wait = nil
  if tokens >= 1 then tokens = tokens - 1 else wait = math.ceil((1 - tokens) * 1000000 / rate) end
  local rest = string.format('%.6f', tokens)
  c.tokens, c.refilled = tonumber(rest), now
  redis.call('HSET', K_STATE, 'tokens', rest, 'refilled', us(now))
  return wait
end

-- probe reserves a half-open slot; nil, or when the earliest holder's lease ends.
local function probe(c, token)
  prune(K_PROBES, S('probe_ttl'))
  local held = redis.call('ZCARD', K_PROBES)
  if held == 0 and now - c.since >= S('half_open_for') then
    -- Successes of long ago prove nothing: start the half-open time again.
    move(c, 'half_open', 'half_open_over', '', '', '')
  end
  if held >= S('probes') then
    return tonumber(redis.call('ZRANGE', K_PROBES, 0, 0, 'WITHSCORES')[2])
  end
  redis.call('ZADD', K_PROBES, us(now + S('probe_ttl')), token)
  return nil
end

-- decide returns the code and how long to wait (us).
local function decide(c, token)
  if c.state == 'open' and now < c.til then
    if c.mode ~= 'forced_open' and c.til > latest_open() then
      c.til = latest_open() -- the clock went back
      redis.call('HSET', K_STATE, 'til', us(c.til))
    end
    return c.mode == 'forced_open' and 'forced_open' or 'open', c.til - now
  end
  local busy = full()
  if busy then return 'saturated', math.min(math.max(busy - now, 1), 1000000) end
  if c.state == 'closed' then
    local wait = ramp(c)
    if wait then return 'ramp', wait end
    return 'admit', 0
  end
  if c.state == 'open' then move(c, 'half_open', 'open_time_over', '', '', '') end
  local deadline = probe(c, token)
  if deadline then return 'probing', math.min(math.max(deadline - now, 1), 2000000) end
  return 'probe', 0
end

-- permit decides about one call: the code and how long to wait (us).
local function permit(c, token)
  expire(c)
  local code, retry = decide(c, token)
  -- Forced closed and metrics only overrule the circuit, never the bulkhead.
  if (c.mode == 'forced_closed' or c.mode == 'metrics_only')
    and code ~= 'admit' and code ~= 'probe' and code ~= 'saturated' then
    code, retry = 'admit', 0
    if full() then code, retry = 'saturated', 1000000 end
  end
  if cap > 0 and (code == 'admit' or code == 'probe') then
    redis.call('ZADD', K_LEASES, us(now + lease), token)
  end
  return code, retry
end

