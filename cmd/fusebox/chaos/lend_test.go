package chaos

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// childOf makes this test binary start a child, print its process id, and wait.
const childOf = "CHAOS_TEST_STARTS_A_CHILD"

func TestChildrenEndWithAKilledTest(t *testing.T) {
	t.Parallel()
	parent := exec.Command(os.Args[0], "-test.run=^TestHelperStartsAChild$")
	parent.Env = append(os.Environ(), childOf+"=1")
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	require.FileExists(t, fmt.Sprintf("/proc/%d/stat", pid), "needs Linux: only there do processes end with the one that started them")
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		require.True(t, time.Now().Before(deadline), "the child outlived its parent")
	}
}

// TestHelperStartsAChild is the process that gets killed; by itself it does nothing.
func TestHelperStartsAChild(t *testing.T) {
	if os.Getenv(childOf) == "" {
		return
	}
	child := exec.Command("sleep", "600")
	_, err := StartChild(child)
	require.NoError(t, err)
	fmt.Println(child.Process.Pid)
	select {}
}
