package circuits

import (
	"time"

	"fusebox/breaker"
)

// returnRate is how many waiting jobs a second come back to a circuit without a ramp.
const returnRate = 100

// AfterClosing forecasts how long after its closing a circuit has let n waiting calls
// go. They come back over at least floor: the queue wakes jobs in steps, and they are
// spread on purpose.
func AfterClosing(s breaker.Settings, n int, floor time.Duration) time.Duration {
	if n <= 0 {
		return 0
	}
	return max(floor, rampReaches(s, float64(n)))
}

// InRamp forecasts how long n calls take from now on in a circuit that closed some time
// ago; false when its ramp is over or it has none.
func InRamp(s breaker.Settings, closed time.Duration, n int) (time.Duration, bool) {
	s = s.WithDefaults()
	if s.RampFor <= 0 || closed < 0 || closed >= s.RampFor {
		return 0, false
	}
	return rampReaches(s, s.RampAdmits(closed)+float64(n)) - closed, true
}

// rampReaches is when n calls have been admitted; without a ramp, returnRate a second.
func rampReaches(s breaker.Settings, n float64) time.Duration {
	if at, ok := s.RampReaches(n); ok {
		return at
	}
	return time.Duration(n / returnRate * float64(time.Second))
}
