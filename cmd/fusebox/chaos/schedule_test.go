package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func scheduled(seed uint64, length time.Duration) []Event {
	return Schedule(seed, Options{For: length}.lead(), length)
}

func TestScheduleFollowsFromSeedAndLength(t *testing.T) {
	t.Parallel()
	require.Equal(t, scheduled(7, time.Minute), scheduled(7, time.Minute))
	require.NotEqual(t, scheduled(7, time.Minute), scheduled(8, time.Minute))
}

// TestScheduleHitsEverything: what `make chaos` promises holds for any three seeds.
func TestScheduleHitsEverything(t *testing.T) {
	t.Parallel()
	const length = 3 * time.Minute
	for first := uint64(1); first <= 300; first += 3 {
		hits := map[Fault]int{}
		for seed := first; seed < first+3; seed++ {
			for _, e := range scheduled(seed, length) {
				hits[e.Fault]++
			}
		}
		for _, f := range Faults() {
			require.GreaterOrEqual(t, hits[f], 2, "%s with seeds from %d", f, first)
		}
	}
}

// TestScheduleBreaksNoThingTwiceAtOnce: a fault that ends must not heal another one.
func TestScheduleBreaksNoThingTwiceAtOnce(t *testing.T) {
	t.Parallel()
	known := map[Fault]spec{}
	for _, s := range specs() {
		known[s.fault] = s
	}
	for seed := range uint64(200) {
		for _, length := range []time.Duration{20 * time.Second, time.Minute, 3 * time.Minute} {
			free := map[string]time.Duration{}
			before := time.Duration(0)
			for _, e := range scheduled(seed, length) {
				s, at := known[e.Fault], fmt.Sprintf("seed %d, %s: %s", seed, length, e)
				require.Contains(t, s.targets, e.Target, at)
				require.GreaterOrEqual(t, e.At, before, at)
				require.LessOrEqual(t, e.At+e.For, length, at)
				require.True(t, e.For >= s.min && e.For <= s.max, at)
				require.Equal(t, s.draw == nil, e.Strength == 0 && s.draw == nil, at)
				for _, h := range s.held(e.Target) {
					require.LessOrEqual(t, free[h], e.At, at)
					free[h] = e.At + e.For
				}
				before = e.At
			}
			require.NotZero(t, before, "seed %d, %s: nothing happens", seed, length)
		}
	}
}

func TestOptionsNameTheFlagThatIsWrong(t *testing.T) {
	t.Parallel()
	good := Options{Binary: "fusebox", For: time.Minute, Settle: time.Minute, Rate: 1}
	require.NoError(t, good.Validate())
	for want, spoil := range map[string]func(*Options){
		"--for":    func(o *Options) { o.For = time.Second },
		"--settle": func(o *Options) { o.Settle = 0 },
		"--rate":   func(o *Options) { o.Rate = 0 },
		"program":  func(o *Options) { o.Binary = "" },
	} {
		o := good
		spoil(&o)
		require.ErrorContains(t, o.Validate(), want)
	}
}
