package breaker

// Actions of operate beside the modes.
const (
	actionReset = "reset"
	actionProbe = "probe_once"
)

// operate changes the circuit for a person, if it is still the one they looked at.
func (c *circuit) operate(now int64, action, expected, actor, note string, duration int64) error {
	if c.epoch != expected {
		return ErrEpoch
	}
	c.expire(now)
	o := occurrence{reason: action, actor: actor, note: note}
	switch Mode(action) {
	case ForcedOpen:
		c.override(now, action, duration)
		c.til = c.modeTil
		c.move(now, Open, o)
		return nil
	case ForcedClosed:
		c.override(now, action, duration)
		c.move(now, Closed, o)
		return nil
	case MetricsOnly:
		c.override(now, action, duration)
		c.move(now, c.state, o)
		return nil
	}
	if action == actionProbe {
		if c.state != Open || c.mode != "" {
			return ErrNotOpen
		}
		c.move(now, HalfOpen, o)
		return nil
	}
	c.mode, c.modeTil = "", 0
	c.move(now, Closed, o)
	return nil
}

func (c *circuit) override(now int64, action string, duration int64) {
	c.mode, c.modeTil = Mode(action), 0
	if duration > 0 {
		c.modeTil = now + duration
	}
}
