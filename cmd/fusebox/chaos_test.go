package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/cmd/fusebox/chaos"
)

// TestChaosShort breaks the whole system for a while, under the race detector, and finds
// nothing wrong with the books. `make chaos` is the long version.
func TestChaosShort(t *testing.T) {
	t.Parallel()
	log := &lockedBuffer{}
	r, err := chaos.Run(t.Context(), chaos.Options{
		Binary: builtBinary(t), For: 20 * time.Second, Settle: 4 * time.Minute, Seed: 1, Rate: 5,
		Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	if t.Failed() || err != nil || len(r.Findings) > 0 {
		t.Log(log.String())
	}
	require.NoError(t, err)
	require.Empty(t, r.Findings)
	require.Equal(t, len(r.Schedule), r.Faults, "every fault was carried out")
	require.Greater(t, r.Operations, 50)
}

// TestChaosLeavesNothingBehind: everything a run starts ends with it, also when it is
// killed in the middle.
func TestChaosLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	require.FileExists(t, "/proc/self/stat", "needs Linux: only there do processes end with the one that started them")
	log := &lockedBuffer{}
	cmd := exec.Command(builtBinary(t), "chaos", "--for", "60s", "--rate", "1", "--report", filepath.Join(t.TempDir(), "report"))
	cmd.Stderr = log
	done, err := chaos.StartChild(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
	eventually(t, 2*time.Minute, "everything runs", func() bool { return strings.Contains(log.String(), "everything runs") })
	family := descendants(cmd.Process.Pid)
	require.Greater(t, len(family), 9, "Postgres, Redis, three simulators, five of ours")
	require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
	eventually(t, time.Minute, "all of them have ended", func() bool {
		for _, pid := range family {
			if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(stat), ") Z ") {
				return false
			}
		}
		return true
	})
}

// descendants are the processes below one.
func descendants(pid int) (out []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is ours
	for _, list := range lists {
		b, err := os.ReadFile(list)
		if err != nil {
			continue // a thread that ended
		}
		for _, field := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(field); err == nil {
				out = append(append(out, child), descendants(child)...)
			}
		}
	}
	return out
}
