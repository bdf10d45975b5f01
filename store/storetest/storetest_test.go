package storetest_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

func TestEveryTestHasItsOwnMigratedDatabase(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	a, b := storetest.New(t), storetest.New(t)
	require.NotEqual(t, a.Name, b.Name)
	require.NoError(t, store.CheckSchema(ctx, a.Pool))
	_, err := a.Pool.Exec(ctx, `INSERT INTO provider_state (provider) VALUES ('atlas')`)
	require.NoError(t, err)
	var n int
	require.NoError(t, b.Pool.QueryRow(ctx, `SELECT count(*) FROM provider_state`).Scan(&n))
	require.Zero(t, n)
	require.NoError(t, b.Pool.QueryRow(ctx, `SELECT count(*) FROM river_job`).Scan(&n))
	require.Zero(t, n)
}
