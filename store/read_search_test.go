package store_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

func TestSearchTellsByWhichField(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), context.Background()
	p := r.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef, p.ProviderPaymentID = "Ord-1", "pay_1" })
	r.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef = "ORD-10" })
	r.db.SeedAttempt(t, p, func(a *store.Attempt) { a.ProviderRequestID = "req_1" })
	eur := []provider.Money{{Amount: 4900, Currency: "EUR"}}
	for text, want := range map[string]string{p.ID.String(): store.ByID, p.ID.String()[:20]: store.ByIDPrefix, "Ord-1": store.ByOrder, "ORD-10": store.ByOrder,
		"pay_1": store.ByProviderID, "charge-" + p.ID.String(): store.ByKey, p.IdempotencyKey: store.ByID, "req_1": store.ByRequestID} {
		f, err := r.Search(ctx, text, nil)
		require.NoError(t, err, text)
		require.Len(t, f.Payments, 1, text)
		require.Equal(t, want, f.Fields[f.Payments[0].ID][0], text)
	}
	f, err := r.Search(ctx, "ord", nil)
	require.NoError(t, err)
	require.Len(t, f.Payments, 2, "both begin so")
	f, err = r.Search(ctx, "4900", nil, eur...)
	require.NoError(t, err)
	require.Equal(t, []string{store.ByMinor}, f.Fields[p.ID])
	f, err = r.Search(ctx, "49", eur)
	require.NoError(t, err)
	require.Equal(t, []string{store.ByAmount}, f.Fields[p.ID])
	for _, text := range []string{p.ID.String()[:7], "ord%", "o_d", "\x00", strings.Repeat("x", 300), uuid.Nil.String(), "-1", "charge-x"} {
		f, err := r.Search(ctx, text, nil)
		require.NoError(t, err, "%q", text)
		require.Zero(t, f.Total(), "%q", text)
	}
}

// A search that scans a table would be fast here and slow in large books, so the plans
// are looked at: with sequential scans priced out, none may be left.
func TestSearchIsMadeOfIndexProbes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.db.SeedPayment(t, nil)
	w.db.Exec(t, `INSERT INTO payment_events (payment_id, at, kind, source, actor) SELECT $1, now(), 'lookup', 'job', 'system:x' FROM generate_series(1, 2000)`, p.ID)
	w.db.Exec(t, `ANALYZE`)
	args := map[string][]any{"webhooks": {"x", 1, 51}, "payments": {p.ID, "x", "x", "y", 51, p.ID, p.ID, p.ID,
		[]int64{1}, []string{"EUR"}, []int64{1}, []string{"EUR"}}}
	for name, sql := range store.SearchPlans() {
		var plan strings.Builder
		err := pgx.BeginFunc(ctx, w.db.Pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SET LOCAL enable_seqscan = off`); err != nil {
				return err
			}
			rows, err := tx.Query(ctx, "EXPLAIN "+sql, args[name]...)
			if err != nil {
				return err
			}
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			plan.WriteString(strings.Join(lines, "\n"))
			return err
		})
		require.NoError(t, err, name)
		require.NotContains(t, plan.String(), "Seq Scan", "%s:\n%s", name, plan.String())
	}
}
