package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Result is what one arm did, the median of its rounds; counts are their sums.
type Result struct {
	CallsPerS float64 `json:"calls_per_s"`
	MeanUs    float64 `json:"mean_us"` // of one call with its work, microseconds
	P50us     float64 `json:"p50_us"`
	P99us     float64 `json:"p99_us"`
	Maxus     float64 `json:"max_us"`
	Errors    int     `json:"errors"`
	Recorded  int     `json:"recorded"` // calls the breaker counted; -1: it counts none
	Made      int     `json:"made"`     // calls whose work was done
}

// lap is one arm's turn in one round.
type lap struct {
	perSecond     float64
	mean          time.Duration
	p50, p99, max time.Duration
	errors        int
	recorded      int
	made          int
}

// race runs one arm for d with that many goroutines.
func race(ctx context.Context, a arm, name string, goroutines int, d time.Duration, work func()) (lap, error) {
	r, err := a.open(ctx, name, goroutines)
	if err != nil {
		return lap{}, fmt.Errorf("%s: %w", a.name, err)
	}
	defer r.close()
	runners := make([]*runner, goroutines)
	for i := range runners {
		call, err := r.caller(i)
		if err != nil {
			return lap{}, fmt.Errorf("%s: %w", a.name, err)
		}
		runners[i] = &runner{call: call, work: work}
		// Connections and scripts are there before the time begins; this call is made and
		// recorded, and not timed.
		if err := call(func() { runners[i].made++ }); err != nil {
			return lap{}, fmt.Errorf("%s: %w", a.name, err)
		}
	}
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for _, w := range runners {
		wg.Go(func() { w.until(ctx, end) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return lap{}, ctx.Err()
	}
	out := collect(runners, d)
	out.recorded, err = r.recorded(ctx)
	if err != nil {
		return out, fmt.Errorf("%s: %w", a.name, err)
	}
	return out, nil
}

// runner is one goroutine's calls.
type runner struct {
	call   func(work func()) error
	work   func()
	times  histogram
	total  time.Duration
	slow   time.Duration
	inTime int // calls that ended before the time was over
	made   int // calls whose work was done
	errors int
}

func (w *runner) until(ctx context.Context, end time.Time) {
	counted := func() { w.work(); w.made++ }
	for now := time.Now(); now.Before(end) && ctx.Err() == nil; {
		err := w.call(counted)
		after := time.Now()
		w.times.add(after.Sub(now))
		w.total += after.Sub(now)
		w.slow = max(w.slow, after.Sub(now))
		if err != nil {
			w.errors++
		} else if after.Before(end) {
			w.inTime++
		}
		now = after
	}
}

func collect(runners []*runner, d time.Duration) lap {
	var out lap
	var all histogram
	inTime, total := 0, time.Duration(0)
	for _, w := range runners {
		total += w.total
		all.merge(&w.times)
		inTime += w.inTime
		out.made += w.made
		out.errors += w.errors
		out.max = max(out.max, w.slow)
	}
	out.perSecond = float64(inTime) / d.Seconds()
	if all.n > 0 {
		out.mean = total / time.Duration(all.n)
	}
	out.p50, out.p99 = all.quantile(0.5), all.quantile(0.99)
	return out
}

// sum makes a result of an arm's rounds.
func sum(laps []lap) Result {
	pick := func(f func(lap) float64) float64 {
		values := make([]float64, len(laps))
		for i, l := range laps {
			values[i] = f(l)
		}
		return median(values)
	}
	micro := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	out := Result{
		CallsPerS: pick(func(l lap) float64 { return l.perSecond }),
		MeanUs:    pick(func(l lap) float64 { return micro(l.mean) }),
		P50us:     pick(func(l lap) float64 { return micro(l.p50) }),
		P99us:     pick(func(l lap) float64 { return micro(l.p99) }),
		Maxus:     pick(func(l lap) float64 { return micro(l.max) }),
	}
	for _, l := range laps {
		out.Errors += l.errors
		out.Made += l.made
		if l.recorded < 0 {
			out.Recorded = -1
		} else {
			out.Recorded += l.recorded
		}
	}
	return out
}

// median of values; 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	values = slices.Sorted(slices.Values(values))
	mid := len(values) / 2
	if len(values)%2 == 1 {
		return values[mid]
	}
	return (values[mid-1] + values[mid]) / 2
}
