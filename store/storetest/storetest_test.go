package storetest_test

import (
	"context"
	"net/url"
	"os"
	"os/exec"
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

// One server can serve the test processes of all packages: a second process uses the
// same template.
func TestServerOfAnotherProcessIsShared(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	db := storetest.New(t)
	admin, err := url.Parse(db.DSN)
	require.NoError(t, err)
	admin.Path = "/postgres"
	child := exec.Command(os.Args[0], "-test.run", "^TestEveryTestHasItsOwnMigratedDatabase$", "-test.count=1") //nolint:gosec // this test binary
	child.Env = append(os.Environ(), storetest.Env+"="+admin.String())
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
	var templates int
	require.NoError(t, db.Pool.QueryRow(ctx, `SELECT count(*) FROM pg_database WHERE datname LIKE 'fusebox_template%'`).Scan(&templates))
	require.Equal(t, 1, templates)
}
