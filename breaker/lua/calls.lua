-- The general case: one operation after the other, as if each came alone.
local c = load_circuit()
adopt(c, seen, view)
local out = {}
for line in string.gmatch(ARGV[10], '[^\n]+') do
  local part = {}
  for field in string.gmatch(line .. '\t', '([^\t]*)\t') do part[#part + 1] = field end
  local code, retry = nil, 0
  if part[1] == 'P' then
    code, retry = permit(c, part[2])
  else
    code = report(c, part[2], part[3], part[4], part[5] == '1', part[6] == '1', part[7])
  end
  out[#out + 1] = code .. ' ' .. us(retry) .. ' ' .. c.epoch
end
local a = { out, us(now), us(c.fails), c.epoch }
if c.epoch ~= seen then
  a[5], a[6], a[7], a[8] = c.state, us(c.since), us(c.til), us(c.reopens)
  a[9], a[10], a[11] = c.mode, us(c.mode_til), c.why
end
return a
