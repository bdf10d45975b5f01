package breakertest

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestSharedGivesEachTestADatabase(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	a, b := Shared(t).Client(), Shared(t).Client()
	require.NoError(t, a.Set(ctx, "k", "a", 0).Err())
	require.ErrorIs(t, b.Get(ctx, "k").Err(), redis.Nil)
}

func TestStopRestartPauseResume(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := Start(t)
	url := s.URL()
	c := s.Client()
	require.NoError(t, c.Set(ctx, "k", "v", 0).Err())
	s.Pause()
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	require.Error(t, c.Ping(short).Err(), "frozen: nothing answers")
	s.Resume()
	require.NoError(t, c.Ping(ctx).Err())
	s.Stop()
	s.Stop()
	require.Error(t, c.Ping(ctx).Err())
	s.Restart()
	require.Equal(t, url, s.URL(), "the same port")
	require.NoError(t, c.Ping(ctx).Err())
	require.ErrorIs(t, c.Get(ctx, "k").Err(), redis.Nil, "empty: nothing is persisted")
}

func TestMissingServerSaysWhatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	require.ErrorContains(t, (&Server{}).launch(), "redis-server is not installed")
}

func TestExternalRedisGivesEachTestADatabase(t *testing.T) {
	s := Start(t, "--databases", "16")
	t.Setenv(EnvURL, "redis://"+s.Addr())
	ctx := context.Background()
	t.Run("two at once", func(t *testing.T) {
		a, b := Shared(t), Shared(t)
		require.NotEqual(t, a.URL(), b.URL())
		require.NoError(t, a.Client().Set(ctx, "k", "a", 0).Err())
		require.ErrorIs(t, b.Client().Get(ctx, "k").Err(), redis.Nil)
	})
	keys, err := s.Client().Info(ctx, "keyspace").Result()
	require.NoError(t, err)
	require.NotContains(t, keys, "db1:", "emptied after the test")
}

// The server dies with a test process that is killed.
func TestServerDiesWithItsParent(t *testing.T) {
	t.Parallel()
	child := exec.Command(os.Args[0], "-test.run=^TestHelperStartsAServer$")
	child.Env = append(os.Environ(), "BREAKERTEST_HELPER=1", EnvURL+"=")
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	line := make([]byte, 32)
	n, err := out.Read(line)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, 0), "it runs")
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	for deadline := time.Now().Add(10 * time.Second); running(pid); time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "redis-server outlived its parent")
	}
}

// running is false for a process that is gone or a zombie.
func running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// TestHelperStartsAServer is the process that gets killed; by itself it does nothing.
func TestHelperStartsAServer(t *testing.T) {
	if os.Getenv("BREAKERTEST_HELPER") == "" {
		return
	}
	s := Start(t)
	_, _ = os.Stdout.WriteString(strconv.Itoa(s.proc.pid()) + "\n")
	select {}
}
