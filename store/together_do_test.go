package store

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Who loses patience takes back what still waits, and hears of what has begun.
func TestTogetherIsLeftOnlyBeforeItBegins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var ran []int
		g := together[int, int]{run: func(_ context.Context, in []int) ([]int, []bool, error) {
			<-release
			ran = append(ran, in...)
			did := make([]bool, len(in))
			for i := range did {
				did[i] = true
			}
			return in, did, nil
		}}
		type answer struct {
			out int
			did bool
		}
		ctx, impatient := context.WithCancel(t.Context())
		begun, waiting, patient := make(chan answer, 1), make(chan answer, 1), make(chan answer, 1)
		call := func(ctx context.Context, n int, to chan answer) {
			go func() {
				out, did := g.do(ctx, n)
				to <- answer{out, did}
			}()
			synctest.Wait()
		}
		call(ctx, 1, begun)
		call(ctx, 2, waiting)
		call(t.Context(), 3, patient)
		impatient()
		synctest.Wait()
		require.Equal(t, answer{}, <-waiting, "it goes alone")
		require.Empty(t, begun, "what became of it is not known yet")
		close(release)
		require.Equal(t, answer{1, true}, <-begun)
		require.Equal(t, answer{3, true}, <-patient)
		require.Equal(t, []int{1, 3}, ran)
	})
}

// A batch that hangs does not stop those who come after it, nor those who wait already.
func TestTogetherGoesOnBesideABatchThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var batches [][]int
		g := together[int, int]{run: func(_ context.Context, in []int) ([]int, []bool, error) {
			batches = append(batches, in)
			if in[0] == 1 {
				<-release
			}
			did := make([]bool, len(in))
			for i := range did {
				did[i] = true
			}
			return in, did, nil
		}}
		done := make(chan int, 4)
		call := func(n int) {
			go func() {
				out, did := g.do(t.Context(), n)
				require.True(t, did)
				done <- out
			}()
			synctest.Wait()
		}
		call(1)
		time.Sleep(togetherTurn / 2)
		call(2)
		require.Empty(t, done, "one after another")
		time.Sleep(togetherTurn)
		require.Equal(t, 2, <-done, "though nobody else came")
		call(3)
		time.Sleep(togetherTurn)
		require.Equal(t, 3, <-done)
		require.Equal(t, [][]int{{1}, {2}, {3}}, batches)
		close(release)
		require.Equal(t, 1, <-done)
	})
}

// Beside a batch the next begins after half of what batches take, and where nobody waits
// for the answer after all of it.
func TestTogetherTakesLongerTurnsWhereNobodyWaits(t *testing.T) {
	t.Parallel()
	for _, patient := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const usual = 5 * togetherTurn
			var begun atomic.Int64
			g := together[int, int]{patient: patient, usual: usual, run: func(_ context.Context, in []int) ([]int, []bool, error) {
				begun.Add(1)
				time.Sleep(2 * usual)
				return in, make([]bool, len(in)), nil
			}}
			pass := func(d time.Duration) {
				time.Sleep(d)
				synctest.Wait()
			}
			for n := range 2 {
				go g.do(t.Context(), n)
				synctest.Wait()
			}
			turn := time.Duration(usual / 2)
			if patient {
				turn = usual
			}
			pass(turn - time.Millisecond)
			require.EqualValues(t, 1, begun.Load())
			pass(2 * time.Millisecond)
			require.EqualValues(t, 2, begun.Load())
			pass(4 * usual)
		})
	}
}

// A call alone never waits. After a batch the next one waits for as many, but not for long.
func TestTogetherWaitsForCompanyItExpects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var batches [][]int
		g := together[int, int]{run: func(_ context.Context, in []int) ([]int, []bool, error) {
			batches = append(batches, in)
			time.Sleep(togetherTurn / 4)
			return in, make([]bool, len(in)), nil
		}}
		pause := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		call := func(n ...int) {
			for _, n := range n {
				go g.do(t.Context(), n)
				synctest.Wait()
			}
		}
		call(1)
		require.Len(t, batches, 1, "alone, at once")
		call(2, 3, 4)
		pause(togetherTurn)
		require.Equal(t, [][]int{{1}, {2, 3, 4}}, batches, "what came while it was at work")
		call(5, 6)
		require.Len(t, batches, 2, "three are expected")
		call(7)
		require.Equal(t, []int{5, 6, 7}, batches[2], "and begin as soon as they are there")
		pause(togetherTurn)
		call(8)
		require.Len(t, batches, 3)
		pause(togetherLinger)
		require.Equal(t, []int{8}, batches[3], "nobody came")
		pause(togetherTurn)
		call(9)
		require.Equal(t, []int{9}, batches[4], "nobody is expected any more")
		pause(togetherTurn)
	})
}
