package chaos

import (
	"context"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// TestQuestionsFindWhatIsWrong: each invariant holds for sound books, and finds the
// defect it is for.
func TestQuestionsFindWhatIsWrong(t *testing.T) {
	t.Parallel()
	defects := map[string][]string{
		"no_status_regressed": {
			`INSERT INTO payment_events (payment_id, at, kind, source, actor, from_status, to_status) VALUES
				($1, now(), 'lookup', 'job', 'system:x', 'pending', 'succeeded'), ($1, now(), 'lookup', 'job', 'system:x', 'succeeded', 'failed')`},
		"status_is_the_timelines_last": {`UPDATE payments SET status = 'failed' WHERE id = $1`},
		"every_change_has_its_evidence": {
			`INSERT INTO payment_events (payment_id, at, kind, source, actor, from_status, to_status) VALUES ($1, now(), 'lookup', 'job', 'system:x', 'pending', 'succeeded')`},
		"audit_is_complete": {
			`INSERT INTO payment_events (payment_id, at, kind, source, actor, from_status, to_status) VALUES ($1, now(), 'lookup', 'job', 'system:x', 'pending', 'failed')`},
		"wallets_are_the_sum_of_their_entries": {`UPDATE wallets SET balance = balance + 1 WHERE $1::uuid IS NOT NULL`},
		"no_attempt_is_left_without_outcome": {
			`INSERT INTO attempts (id, payment_id, seq, operation_key, request, request_hash, marked_at, first_sent_at, replay_until, deadline)
				VALUES (gen_random_uuid(), $1, 1, 'k', '', '', now(), now(), now(), now())`},
	}
	for _, q := range questions {
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			w := bookedWorld(t)
			c, err := w.check(t.Context(), q)
			require.NoError(t, err)
			require.Empty(t, c.Broken)
			for _, statement := range defects[q.name] {
				_, err := w.pool.Exec(t.Context(), statement, w.payment(t))
				require.NoError(t, err)
			}
			c, err = w.check(t.Context(), q)
			require.NoError(t, err)
			if len(defects[q.name]) > 0 {
				require.NotEmpty(t, c.Broken)
				require.NotZero(t, c.Checked)
			}
		})
	}
}

// bookedWorld has books with a payment and a wallet, and nothing that runs.
func bookedWorld(t *testing.T) *world {
	t.Helper()
	db := storetest.New(t)
	s := store.New(db.Pool, store.Options{Enqueuer: storetest.NewJobs(t, db)})
	by := store.Actor{Kind: "client", ID: "test"}
	_, err := s.CreatePayment(t.Context(), store.NewPayment{ClientID: "test", IdempotencyKey: uuid.NewString(), OrderRef: "one", Provider: "steady", Amount: 100, Currency: "EUR"}, by)
	require.NoError(t, err)
	wallet, _, err := s.CreateWallet(t.Context(), "one", "EUR", by)
	require.NoError(t, err)
	_, _, err = s.Move(t.Context(), wallet.ID, "start", 100, "", by)
	require.NoError(t, err)
	return &world{pool: db.Pool, store: s}
}

func (w *world) payment(t *testing.T) (id uuid.UUID) {
	t.Helper()
	require.NoError(t, w.pool.QueryRow(context.Background(), `SELECT id FROM payments`).Scan(&id))
	return id
}

func TestLedgersAreCompared(t *testing.T) {
	t.Parallel()
	rows := map[string]ours{"p": {status: "succeeded", object: "c1", took: 100}, "open": {status: "unknown"}, "held": {status: "succeeded", object: "c4", took: 60}}
	for _, c := range []struct {
		name        string
		theirs      map[string][]row
		once, known int // broken
	}{
		{"they agree", map[string][]row{"p": {{ID: "c1", Amount: 100}}}, 0, 0},
		{"a capture took a part", map[string][]row{"held": {{ID: "c4", Amount: 100, Captured: 60, Manual: true}}}, 0, 0},
		{"charged twice", map[string][]row{"p": {{ID: "c1", Amount: 100}, {ID: "c2", Amount: 100}}}, 1, 0},
		{"nobody's", map[string][]row{"x": {{ID: "c9", Amount: 100}}}, 0, 1},
		{"not known as paid", map[string][]row{"open": {{ID: "c3", Amount: 100}}}, 0, 1},
		{"other money", map[string][]row{"p": {{ID: "c1", Amount: 99}}}, 0, 1},
		{"another charge", map[string][]row{"p": {{ID: "c7", Amount: 100}}}, 0, 1},
	} {
		var once, known Check
		compare("steady", "charge", c.theirs, rows, &once, &known)
		require.Len(t, once.Broken, c.once, c.name)
		require.Len(t, known.Broken, c.known, c.name)
		require.NotZero(t, once.Checked, c.name)
	}
}
