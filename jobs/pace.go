package jobs

import (
	"math/rand/v2"
	"time"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

const (
	// jitterShare is how far a retry pause strays from its nominal length, each way.
	jitterShare = 0.2
	// returnRate is how many snoozed jobs per second, over the whole fleet, come back to
	// a circuit without a ramp, or to a full bulkhead. Each return that is denied again
	// costs a few statements, so a backlog is spread out rather than woken at once.
	returnRate = 100.0
	// longestWait bounds a wait computed from a backlog.
	longestWait = 24 * time.Hour
)

// jitter returns d ± jitterShare.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - jitterShare + 2*jitterShare*rand.Float64()))
}

// at returns the i-th pause; the last one repeats for ever.
func at(pauses []time.Duration, i int) time.Duration {
	return pauses[min(max(i, 0), len(pauses)-1)]
}

// retryPause is the wait after the given number of tries that provably did not
// leave us (1: the first). After the last listed pause it repeats: the payment is
// provably not executed and must neither be lost nor failed by a timer.
func retryPause(s provider.Settings, tries int) time.Duration {
	return jitter(at(s.RetryPauses, tries-1))
}

// maxTries is the number of tries after which people are told (5 by default: one
// more than there are pauses).
func maxTries(s provider.Settings) int { return len(s.RetryPauses) + 1 }

// reconcilePause is the wait before the lookup after the done-th one.
func reconcilePause(s provider.Settings, done int) time.Duration {
	return jitter(at(s.ReconcilePauses, done))
}

// firstLookup is the wait before the first lookup after a charge call.
func firstLookup(s provider.Settings, quick bool) time.Duration {
	if quick {
		return s.QuickReconcile
	}
	return s.ReconcilePauses[0]
}

// returnAfter is a moment in a window after a wait, drawn evenly.
func returnAfter(wait, width time.Duration) time.Duration {
	return max(wait, 0) + time.Duration(rand.Float64()*float64(width))
}

// rampTime is how long after its closing a circuit has admitted n calls. Without a ramp,
// returnRate a second.
func rampTime(set breaker.Settings, n float64) time.Duration {
	if at, ok := set.RampReaches(n); ok {
		return min(at, longestWait)
	}
	return time.Duration(min(n/returnRate, longestWait.Seconds()) * float64(time.Second))
}

// WakeAt is when the i-th of the payments that waited for a circuit goes on after its
// closing: as soon as the ramp admits it, and not sooner.
func WakeAt(set breaker.Settings, i int) time.Duration {
	if set.RampFor <= 0 {
		return time.Duration(i) * time.Second / store.WakePace
	}
	return rampTime(set, float64(i))
}

// spread is when a denied job comes back, as a wait after the moment the circuit may
// admit again; u is drawn from [0, 1). The jobs of a backlog return over
// max(floor, the time the ramp takes to admit them), distributed as the ramp admits:
// few at first, more and more later. So at no moment more than the ramp lets through
// have come back, however large the backlog, and it is not slower than the ramp either.
func spread(set breaker.Settings, floor time.Duration, backlog int, u float64) time.Duration {
	n := float64(max(backlog, 1))
	whole := rampTime(set, n)
	stretch := max(float64(floor)/float64(whole), 1)
	return time.Duration(stretch * float64(rampTime(set, u*n)))
}
