package circuits

import (
	"slices"
	"time"

	"fusebox/breaker"
)

// Bucket counts the calls that ended in a stretch of time, for the chart.
type Bucket struct {
	At                time.Time
	OK, Fail, Neutral int
	P95               time.Duration // of all of them; zero without any
}

// Calls is how many calls ended in it.
func (b Bucket) Calls() int { return b.OK + b.Fail + b.Neutral }

// maxBuckets is how many columns a chart can show on a small screen.
const maxBuckets = 96

// bucketSteps are lengths people read easily on an axis.
var bucketSteps = []time.Duration{5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute,
	5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour}

// BucketStep is the length of the buckets of a range.
func BucketStep(from, to time.Time) time.Duration {
	for _, step := range bucketSteps {
		if to.Sub(from) <= maxBuckets*step {
			return step
		}
	}
	return to.Sub(from)/maxBuckets + 1
}

// bucketed counts calls, oldest first, in equal steps that cover [from, to).
func bucketed(calls []breaker.Call, from, to time.Time) []Bucket {
	if len(calls) == 0 || !from.Before(to) {
		return nil
	}
	step := BucketStep(from, to)
	var out []Bucket
	next := 0
	for at := from.Truncate(step); at.Before(to); at = at.Add(step) {
		b := Bucket{At: at}
		var latencies []time.Duration
		for ; next < len(calls) && calls[next].At.Before(at.Add(step)); next++ {
			b.count(calls[next].Verdict)
			latencies = append(latencies, calls[next].Latency)
		}
		b.P95 = percentile95(latencies)
		out = append(out, b)
	}
	return out
}

func (b *Bucket) count(v breaker.Verdict) {
	switch v {
	case breaker.OK:
		b.OK++
	case breaker.Fail:
		b.Fail++
	default:
		b.Neutral++
	}
}

// percentile95 is the value that 95 % do not exceed; it sorts its argument.
func percentile95(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[(len(d)*95+99)/100-1]
}
