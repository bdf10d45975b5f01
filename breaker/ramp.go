package breaker

import (
	"math"
	"time"
)

// RampAdmits is how many calls a ramp admits within t of the closing: the rate grows
// evenly from RampStart to RampFull, and stays there. Without a ramp it is 0: nothing
// is held back, so there is nothing to count.
func (s Settings) RampAdmits(t time.Duration) float64 {
	s = s.WithDefaults()
	if s.RampFor <= 0 {
		return 0
	}
	within := min(max(t, 0), s.RampFor).Seconds()
	n := s.RampStart*within + (s.RampFull-s.RampStart)*within*within/(2*s.RampFor.Seconds())
	return n + s.RampFull*max(t-s.RampFor, 0).Seconds()
}

// RampReaches is how long after the closing a circuit has admitted n calls, the inverse
// of RampAdmits; false without a ramp.
func (s Settings) RampReaches(n float64) (time.Duration, bool) {
	s = s.WithDefaults()
	if s.RampFor <= 0 {
		return 0, false
	}
	if whole := s.RampAdmits(s.RampFor); n > whole {
		return inSeconds(s.RampFor.Seconds() + (n-whole)/s.RampFull), true
	}
	growth := (s.RampFull - s.RampStart) / s.RampFor.Seconds()
	return inSeconds(2 * n / (s.RampStart + math.Sqrt(s.RampStart*s.RampStart+2*growth*n))), true
}

// inSeconds converts, and keeps within what a duration can hold.
func inSeconds(s float64) time.Duration {
	return time.Duration(min(s*float64(time.Second), math.MaxInt64/2))
}
