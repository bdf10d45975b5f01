package store_test

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fusebox/store"
)

// A list that looks at many rows for the few it shows would be fast here and slow in large
// books, so it is counted what it looks at.
func TestListsOfAStatusLookAtFewRows(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), context.Background()
	r.db.Exec(t, `INSERT INTO payments (id, client_id, idempotency_key, request_hash, order_ref, provider, amount, currency, status, created_at, updated_at)
		SELECT lpad(to_hex(n), 32, '0')::uuid, 'test', n::text, '', 'o' || n, CASE WHEN n % 50 = 0 THEN 'borealis' ELSE 'atlas' END, n, 'EUR',
			CASE WHEN n % 500 = 0 THEN 'unknown' WHEN n % 501 = 0 THEN 'pending' WHEN n % 60 = 1 THEN 'failed' ELSE 'succeeded' END, now(), now()
		FROM generate_series(1, 20000) n`)
	r.db.Exec(t, `VACUUM ANALYZE payments`)
	removed := regexp.MustCompile(`Rows Removed by Filter: (\d+)`)
	for _, provider := range []string{"", "atlas", "borealis"} {
		for _, status := range append([]store.Status{""}, store.Statuses...) {
			sql, args := store.ListPlan(store.PaymentFilter{Provider: provider, Status: status})
			rows, err := r.db.Pool.Query(ctx, `EXPLAIN (ANALYZE, TIMING OFF) `+sql, args...)
			require.NoError(t, err)
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err)
			plan := strings.Join(lines, "\n")
			require.NotContains(t, plan, "Seq Scan", "%s %s:\n%s", provider, status, plan)
			for _, m := range removed.FindAllStringSubmatch(plan, -1) {
				n, err := strconv.Atoi(m[1])
				require.NoError(t, err)
				require.Less(t, n, 100, "%s %s:\n%s", provider, status, plan)
			}
		}
	}
}
