package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/store/storetest"
)

// seedItems gives a run n items of each of some findings; some share an object, and some
// of those a payment.
func seedItems(t *testing.T, db *storetest.DB, run uuid.UUID, n int) {
	t.Helper()
	for i := range n {
		for _, f := range []string{"matched", "ours_only", "theirs_only", "duplicate"} {
			object, payment := fmt.Sprintf("pay_%d", i/2), &uuid.UUID{}
			*payment = uuid.New()
			switch f {
			case "ours_only":
				object = ""
			case "theirs_only":
				object, payment = fmt.Sprintf("Theirs %d", i), nil
			}
			db.Exec(t, `INSERT INTO reconciliation_items (run_id, finding, payment_id, object_id, at) VALUES ($1, $2, $3, $4, $5)`,
				run, f, payment, object, storetest.Epoch.Add(time.Duration(i%3)*time.Second))
		}
	}
}

func TestRunItemsPageThereAndBack(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), t.Context()
	run := r.db.SeedRun(t, nil)
	seedItems(t, r.db, run.ID, 6)
	seedItems(t, r.db, r.db.SeedRun(t, nil).ID, 2) // of another run
	for finding, want := range map[string]int{"": 24, "matched": 6, "ours_only": 6, "theirs_only": 6, "duplicate": 6, "amount_differs": 0} {
		var all []store.RunItem
		require.NoError(t, r.StreamRunItems(ctx, run.ID, finding, func(i store.RunItem) error { all = append(all, i); return nil }))
		require.Len(t, all, want, finding)
		require.True(t, slices.IsSortedFunc(all, func(a, b store.RunItem) int {
			return strings.Compare(fmt.Sprint(a.Place().Matched), fmt.Sprint(b.Place().Matched))
		}), "exceptions come first")

		var there []store.RunItem
		q := store.ItemQuery{Finding: finding, Limit: 5}
		for {
			page, err := r.RunItems(ctx, run.ID, q)
			require.NoError(t, err)
			require.Equal(t, q.After != nil, page.Newer)
			there = append(there, page.Items...)
			if !page.Older {
				break
			}
			place := page.Items[4].Place()
			q.After = &place
		}
		require.Equal(t, all, there)
		if want == 0 {
			continue
		}
		last := all[want-1].Place()
		page, err := r.RunItems(ctx, run.ID, store.ItemQuery{Finding: finding, Limit: 3, Before: &last})
		require.NoError(t, err)
		require.Equal(t, all[want-4:want-1], page.Items, "back, in the same order")
		require.True(t, page.Newer)
		require.True(t, page.Older)
		first := all[0].Place()
		page, err = r.RunItems(ctx, run.ID, store.ItemQuery{Finding: finding, Limit: 3, Before: &first})
		require.NoError(t, err)
		require.Empty(t, page.Items)
	}
	_, err := r.RunItems(ctx, uuid.New(), store.ItemQuery{Limit: 1})
	require.ErrorIs(t, err, store.ErrNotFound)
}

// A page deep in a large run reads what it shows and not what stands before it.
func TestRunItemsReadOnlyTheirPage(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), t.Context()
	run := r.db.SeedRun(t, nil)
	r.db.Exec(t, `INSERT INTO reconciliation_items (run_id, finding, payment_id, object_id, at)
		SELECT $1, 'matched', gen_random_uuid(), 'pay_' || lpad(i::text, 6, '0'), now() FROM generate_series(1, 20000) i`, run.ID)
	r.db.Exec(t, `INSERT INTO reconciliation_items (run_id, finding, object_id, at) VALUES ($1, 'theirs_only', 'pay_007000x', now())`, run.ID)
	r.db.Exec(t, `ANALYZE reconciliation_items`)
	rows, err := r.db.Pool.Query(ctx, `EXPLAIN (COSTS OFF) SELECT i.* FROM reconciliation_items i WHERE run_id = $1
		AND ((i.finding = 'matched'), i.object_id, coalesce(i.payment_id, '00000000-0000-0000-0000-000000000000')) > (true, 'pay_019000', $1)
		ORDER BY (i.finding = 'matched'), i.object_id, coalesce(i.payment_id, '00000000-0000-0000-0000-000000000000') LIMIT 51`, run.ID)
	require.NoError(t, err)
	var plan strings.Builder
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		plan.WriteString(line + "\n")
	}
	require.NoError(t, rows.Err())
	require.Contains(t, plan.String(), "Index Scan using reconciliation_items_page")
	require.Contains(t, plan.String(), "Index Cond: ((run_id")
	require.Contains(t, plan.String(), "ROW(", "the place is a bound of the index: "+plan.String())
	require.NotContains(t, plan.String(), "Sort")
	after := store.ItemPlace{Matched: true, ObjectID: "pay_019990", PaymentID: uuid.Max}
	page, err := r.RunItems(ctx, run.ID, store.ItemQuery{After: &after, Limit: 50})
	require.NoError(t, err)
	require.Len(t, page.Items, 10)
	page, err = r.RunItems(ctx, run.ID, store.ItemQuery{Finding: "theirs_only", Limit: 50})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
}

func TestRunItemsSayHowBothSidesStand(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), t.Context()
	run := r.db.SeedRun(t, nil)
	p := r.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef, p.Status = "o-1", store.Unknown })
	r.db.SeedObject(t, p, func(o *store.ProviderObject) { o.ObjectID = "pay_found" }) // found later to be of p
	r.db.SeedObject(t, p, func(o *store.ProviderObject) { o.ObjectID, o.PaymentID, o.Amount = "pay_strange", nil, 77 })
	r.db.Exec(t, `INSERT INTO reconciliation_items (run_id, finding, payment_id, object_id, at) VALUES
		($1, 'ours_only', $2, '', $3), ($1, 'theirs_only', NULL, 'pay_found', $3), ($1, 'theirs_only', NULL, 'pay_strange', $3),
		($1, 'theirs_only', NULL, 'ref_1', $3)`, run.ID, p.ID, storetest.Epoch)
	page, err := r.RunItems(ctx, run.ID, store.ItemQuery{Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Items, 4)
	ours, found, strange, refund := page.Items[0], page.Items[1], page.Items[2], page.Items[3]
	require.Equal(t, "o-1", ours.Ours.OrderRef)
	require.True(t, ours.Ours.NeedsAnswer)
	require.Nil(t, ours.Theirs)
	require.Equal(t, p.ID, found.Ours.PaymentID)
	require.Nil(t, strange.Ours)
	require.EqualValues(t, 77, strange.Theirs.Money.Amount)
	require.Nil(t, refund.Ours)
	require.Nil(t, refund.Theirs)

	event := r.db.SeedWebhook(t, func(e *store.InboxEvent) { e.ObjectID, e.State = "pay_strange", "unmatched" })
	st, err := r.Stranger(ctx, "atlas", "pay_strange")
	require.NoError(t, err)
	require.EqualValues(t, 77, st.Object.Amount)
	require.Nil(t, st.Ours)
	require.Equal(t, event, st.Events[0].ID)
	require.Equal(t, run.ID, st.Seen[0].RunID)
	st, err = r.Stranger(ctx, "atlas", "pay_found")
	require.NoError(t, err)
	require.Equal(t, p.ID, st.Ours.ID)
	st, err = r.Stranger(ctx, "atlas", "ref_1")
	require.NoError(t, err)
	require.Nil(t, st.Object)
	require.Len(t, st.Seen, 1)
	for _, name := range []string{"borealis", "atlas"} {
		_, err = r.Stranger(ctx, name, "pay_never")
		require.ErrorIs(t, err, store.ErrNotFound)
	}
	_, err = r.Stranger(ctx, "borealis", "pay_strange")
	require.ErrorIs(t, err, store.ErrNotFound, "another provider's ids are others")
}
