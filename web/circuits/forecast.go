package circuits

import (
	"math"
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
	return rampReaches(s, rampAdmits(s, closed)+float64(n)) - closed, true
}

// rampAdmits is how many calls a ramp admits within t of its begin: the rate grows
// evenly from RampStart to RampFull.
func rampAdmits(s breaker.Settings, t time.Duration) float64 {
	x := t.Seconds()
	return s.RampStart*x + (s.RampFull-s.RampStart)*x*x/(2*s.RampFor.Seconds())
}

// rampReaches is when n calls have been admitted, RampFull a second beyond the ramp.
func rampReaches(s breaker.Settings, n float64) time.Duration {
	s = s.WithDefaults()
	if s.RampFor <= 0 {
		return inSeconds(n / returnRate)
	}
	if whole := rampAdmits(s, s.RampFor); n > whole {
		return s.RampFor + inSeconds((n-whole)/s.RampFull)
	}
	slope := (s.RampFull - s.RampStart) / s.RampFor.Seconds()
	if slope == 0 {
		return inSeconds(n / s.RampStart)
	}
	return inSeconds((math.Sqrt(s.RampStart*s.RampStart+2*slope*n) - s.RampStart) / slope)
}

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
