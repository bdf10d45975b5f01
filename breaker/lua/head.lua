-- Head of every script: keys, arguments and the clock. machine.go is the same machine
-- in Go; a test drives both with the same calls and compares every answer.
--
-- KEYS: state hash, one-second buckets hash, probe leases, in-flight leases,
--       latest failures, events. All carry the hash tag {name}.
-- ARGV: class, settings, worker, random number in [0,1), then the script's own.
local K_STATE, K_BUCKETS, K_PROBES = KEYS[1], KEYS[2], KEYS[3]
local K_LEASES, K_FAILS, K_EVENTS = KEYS[4], KEYS[5], KEYS[6]
local WORKER, RANDOM = ARGV[3], tonumber(ARGV[4])

-- The server's clock decides everything, so a worker's wrong clock decides nothing.
-- Times are microseconds: exact in a double until the year 2255.
local clock = redis.call('TIME')
local sec = tonumber(clock[1])
local now = sec * 1000000 + tonumber(clock[2])

-- tostring would print 1.79e+15 and lose digits.
local function us(n) return string.format('%.0f', n) end

