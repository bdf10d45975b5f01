package jobs

import (
	"math/rand/v2"
	"time"

	"fusebox/provider"
)

const (
	// jitterShare is how far a retry pause strays from its nominal length, each way.
	jitterShare = 0.2
	// returnRate is how many snoozed jobs per second, over the whole fleet, come back
	// after a circuit's open time. Each return that is denied again costs a few
	// statements, so a backlog is spread out rather than woken at once.
	returnRate = 100.0
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

// spread is the width over which jobs return after a denial: at least the first
// retry pause (10 s unless configured), since River's scheduler ticks every 5 s and
// less would collapse into one tick, and more with a backlog.
func spread(s provider.Settings, backlog int) time.Duration {
	drain := time.Duration(float64(backlog) / returnRate * float64(time.Second))
	return max(s.RetryPauses[0], drain)
}

// returnAfter is when a denied job comes back: the circuit's own time plus a
// uniform share of the spread.
func returnAfter(retryAfter, width time.Duration) time.Duration {
	return max(retryAfter, 0) + time.Duration(rand.Float64()*float64(width))
}
