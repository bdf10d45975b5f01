-- answer is short while the caller already knows this epoch.
local function answer(code, c, seen, retry)
  local a = { code, us(retry), us(c.fails), us(now), c.epoch }
  if c.epoch ~= seen then
    a[6], a[7], a[8], a[9] = c.state, us(c.since), us(c.til), us(c.reopens)
    a[10], a[11], a[12] = c.mode, us(c.mode_til), c.why
  end
  return a
end
