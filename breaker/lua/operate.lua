-- operate(action, expected epoch, actor, reason, duration us, seen epoch, view): a
-- person changes the circuit, if it is still the one they looked at.
local action, expected, actor, note = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local duration, seen, view = tonumber(ARGV[9]), ARGV[10], ARGV[11]

local c = load_circuit()
adopt(c, seen, view)
if c.epoch ~= expected then return answer('epoch', c, '', 0) end
expire(c)

local function override(to)
  c.mode, c.mode_til = action, 0
  if duration > 0 then c.mode_til = now + duration end
  if action == 'forced_open' then c.til = c.mode_til end
  move(c, to, action, actor, note, '')
end

if action == 'reset' then
  c.mode, c.mode_til = '', 0
  move(c, 'closed', 'reset', actor, note, '')
elseif action == 'forced_open' then override('open')
elseif action == 'forced_closed' then override('closed')
elseif action == 'metrics_only' then override(c.state)
elseif action == 'probe_once' then
  if c.state ~= 'open' or c.mode ~= '' then return answer('refused', c, '', 0) end
  move(c, 'half_open', 'probe_once', actor, note, '')
else
  return redis.error_reply('ERR unknown action ' .. action)
end
return answer('done', c, '', 0)
