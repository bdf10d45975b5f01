package localpg_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fusebox/store/localpg"
)

// TestPromotedStandbyHasWhatWasCommitted: a commit waits for the standby, and whoever
// names both servers finds the one that takes writes.
func TestPromotedStandbyHasWhatWasCommitted(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := start(t, localpg.Options{TCP: true})
	sb, err := s.Standby(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sb.Stop()) })
	both := s.PairDSN(sb, "postgres")
	execute := func(sql string) error {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		c, err := pgx.Connect(ctx, both)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close(ctx) }()
		_, err = c.Exec(ctx, sql)
		return err
	}
	require.NoError(t, execute(`CREATE TABLE kept AS SELECT 1 AS n`))

	require.NoError(t, sb.Kill())
	short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	c, err := pgx.Connect(ctx, s.DSN("postgres"))
	require.NoError(t, err)
	_, err = c.Exec(short, `INSERT INTO kept VALUES (2)`)
	require.ErrorIs(t, err, context.DeadlineExceeded, "no commit without the standby")
	require.NoError(t, sb.Restart(ctx))
	require.NoError(t, s.AwaitStandby(ctx))
	require.NoError(t, execute(`INSERT INTO kept VALUES (3)`))

	require.NoError(t, s.Kill())
	require.Error(t, execute(`INSERT INTO kept VALUES (4)`), "a standby takes no writes")
	require.NoError(t, sb.Promote(ctx))
	require.NoError(t, execute(`INSERT INTO kept VALUES (5)`))
	c, err = pgx.Connect(ctx, sb.DSN("postgres"))
	require.NoError(t, err)
	defer func() { _ = c.Close(ctx) }()
	var found bool
	require.NoError(t, c.QueryRow(ctx, `SELECT array_agg(n) @> '{1,3,5}' AND NOT array_agg(n) @> '{4}' FROM kept`).Scan(&found))
	require.True(t, found)
}

func TestStandbyNeedsTCP(t *testing.T) {
	t.Parallel()
	_, err := start(t, localpg.Options{Fast: true}).Standby(context.Background())
	require.ErrorContains(t, err, "TCP")
}
