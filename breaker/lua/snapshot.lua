-- snapshot(): the circuit as it is; "lost" when there is none. Writes nothing; an EVALSHA
-- all the same, because TIME is refused in read-only scripts by some servers.
local c = load_circuit()
local live = us(now + 1)
return {
  answer(c.lost and 'lost' or 'snapshot', c, '', 0),
  redis.call('ZRANGEBYSCORE', K_PROBES, live, '+inf', 'WITHSCORES'),
  redis.call('ZCOUNT', K_LEASES, live, '+inf'),
  redis.call('LRANGE', K_FAILS, 0, 19),
  redis.call('HGETALL', K_BUCKETS),
}
