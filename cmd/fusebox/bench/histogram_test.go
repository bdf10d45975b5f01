package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestQuantilesAreWithinTwoPercent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, int64(time.Hour)), 1, 200).Draw(t, "values")
		var a, b histogram
		for i, v := range values {
			if i%2 == 0 {
				a.add(time.Duration(v))
			} else {
				b.add(time.Duration(v))
			}
		}
		a.merge(&b)
		slices.Sort(values)
		for _, q := range []float64{0, 0.5, 0.99, 1} {
			want := float64(values[int(q*float64(len(values)-1))])
			require.InDelta(t, want, float64(a.quantile(q)), want*0.02)
		}
	})
	var none histogram
	require.Zero(t, none.quantile(0.99))
}
