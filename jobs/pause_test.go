package jobs

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"

	"fusebox/store"
)

// A pause holds in processes that run, in those that start after it, and ends by itself
// when its time is over; nothing that waited is lost.
func TestAPausedQueueStandsStillEverywhere(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"), quick("borealis"))
	by, ctx := store.Actor{Kind: "user", ID: uuid.NewString()}, context.Background()
	until := time.Now().Add(time.Hour)
	paused, cancel := b.start("first", nil).client.Subscribe(river.EventKindQueuePaused)
	defer cancel()
	require.NoError(t, b.store.PauseQueue(ctx, store.QueueChange{Queue: "charge_atlas", Until: &until, Reason: "deploy", ActionID: uuid.New(), By: by}))
	select { // who starts just then may miss the news, and asks once a minute
	case e := <-paused:
		require.Equal(t, "charge_atlas", e.Queue.Name)
	case <-time.After(2 * time.Minute):
		require.Fail(t, "the first process was not told")
	}
	b.exec(`DELETE FROM river_queue WHERE name = 'charge_atlas'`) // as River does when nobody worked it for a day
	require.NoError(t, b.store.SweepPauses(ctx))
	b.start("second", nil)
	p := b.pay("atlas", nil)
	require.Equal(t, 1, b.count(`SELECT count(*) FROM river_queue WHERE name = 'charge_atlas' AND paused_at IS NOT NULL`))
	paid := func(id uuid.UUID) func() bool {
		return func() bool { return b.text(`SELECT status FROM payments WHERE id = $1`, id) == "succeeded" }
	}
	// What came later to another queue of the same processes is done.
	require.Eventually(t, paid(b.pay("borealis", nil).ID), time.Minute, 20*time.Millisecond)
	require.Equal(t, "pending", b.text(`SELECT status FROM payments WHERE id = $1`, p.ID))

	b.exec(`UPDATE queue_pauses SET until = now() - interval '1 second'`)
	require.NoError(t, b.store.SweepPauses(ctx))
	require.Eventually(t, paid(p.ID), time.Minute, 20*time.Millisecond)
	require.Equal(t, "system:sweep", b.text(`SELECT actor FROM audit_log WHERE action = 'queue.resume'`))
}
