package localpg_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fusebox/store/localpg"
)

// childEnv makes this test binary start a server, print its process id, and wait.
const childEnv = "LOCALPG_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
	}
	os.Exit(m.Run())
}

func child() {
	s, err := localpg.Start(context.Background(), localpg.Options{Fast: true})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(s.PID())
	select {}
}

func start(t *testing.T, o localpg.Options) *localpg.Server {
	t.Helper()
	s, err := localpg.Start(context.Background(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	return s
}

func one(t *testing.T, dsn string) int {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, dsn)
	require.NoError(t, err)
	defer func() { _ = c.Close(ctx) }()
	var n int
	require.NoError(t, c.QueryRow(ctx, `SELECT 1`).Scan(&n))
	return n
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestServerAnswersOnASocketAndOnTCP(t *testing.T) {
	t.Parallel()
	for _, tcp := range []bool{false, true} {
		t.Run(fmt.Sprintf("tcp=%v", tcp), func(t *testing.T) {
			t.Parallel()
			s := start(t, localpg.Options{Fast: true, TCP: tcp})
			require.Equal(t, 1, one(t, s.DSN("postgres")))
			require.Equal(t, tcp, strings.Contains(s.DSN("x"), "127.0.0.1"))
			pid := s.PID()
			require.NoError(t, s.Stop())
			require.False(t, alive(pid))
			require.NoError(t, s.Stop(), "stopping twice is fine")
		})
	}
}

func TestRestartKeepsTheDSNAndCommittedRows(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := start(t, localpg.Options{}) // durable: a crash loses nothing committed
	c, err := pgx.Connect(ctx, s.DSN("postgres"))
	require.NoError(t, err)
	_, err = c.Exec(ctx, `CREATE TABLE kept AS SELECT 1 AS n`)
	require.NoError(t, err)
	require.NoError(t, s.Restart(ctx))
	_, err = c.Exec(ctx, `SELECT 1`)
	require.Error(t, err, "the old connection is cut")
	c, err = pgx.Connect(ctx, s.DSN("postgres"))
	require.NoError(t, err)
	defer func() { _ = c.Close(ctx) }()
	var n int
	require.NoError(t, c.QueryRow(ctx, `SELECT n FROM kept`).Scan(&n))
	require.Equal(t, 1, n)
}

func TestDirectoryIsKeptAndReused(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "localpg-test-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // the server's user passes through
	s := start(t, localpg.Options{Dir: filepath.Join(dir, "pg"), Fast: true})
	require.NoError(t, s.Stop())
	again := start(t, localpg.Options{Dir: filepath.Join(dir, "pg"), Fast: true, TCP: true})
	require.Equal(t, 1, one(t, again.DSN("postgres")), "the password of the first run still works")
}

func TestServerDiesWithAKilledParent(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0]) //nolint:gosec // this test binary
	cmd.Env = append(os.Environ(), childEnv+"=1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	var pid int
	_, err = fmt.Sscan(line, &pid)
	require.NoError(t, err, line)
	require.True(t, alive(pid))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Eventually(t, func() bool { return !alive(pid) }, 15*time.Second, 20*time.Millisecond)
}

func TestServerOutlivesTheThreadThatAskedForIt(t *testing.T) {
	t.Parallel()
	var s *localpg.Server
	done := make(chan struct{})
	go func() { // the goroutine's locked thread ends with it
		defer close(done)
		lockThread()
		s, _ = localpg.Start(context.Background(), localpg.Options{Fast: true})
	}()
	<-done
	require.NotNil(t, s)
	t.Cleanup(func() { _ = s.Stop() })
	for range 20 {
		require.Equal(t, 1, one(t, s.DSN("postgres")))
		time.Sleep(10 * time.Millisecond) // give a wrong signal time to arrive
	}
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := localpg.Start(context.Background(), localpg.Options{Dir: filepath.Join(file, "pg")})
	require.ErrorContains(t, err, "not a directory")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = localpg.Start(ctx, localpg.Options{})
	require.ErrorIs(t, err, context.Canceled)
}
