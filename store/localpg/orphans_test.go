package localpg

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOrphansOfDeadProcessesAreRemoved(t *testing.T) {
	t.Parallel()
	dead := exec.Command("true")
	require.NoError(t, dead.Run())
	gone, here := dead.ProcessState.Pid(), os.Getpid()
	root := t.TempDir()
	dir := func(maker, server int) string {
		d, err := os.MkdirTemp(root, fmt.Sprintf("%s%d-", tempPrefix, maker))
		require.NoError(t, err)
		require.NoError(t, os.Mkdir(filepath.Join(d, "data"), 0o700))
		if server != 0 {
			pid := fmt.Appendf(nil, "%d\n/some/path\n", server)
			require.NoError(t, os.WriteFile(filepath.Join(d, "data", "postmaster.pid"), pid, 0o600))
		}
		return d
	}
	orphan, crashed := dir(gone, 0), dir(gone, gone)
	live, serving := dir(here, 0), dir(gone, here)
	strange := filepath.Join(root, tempPrefix+"notes")
	require.NoError(t, os.Mkdir(strange, 0o700))
	removeOrphans(root)
	require.NoDirExists(t, orphan)
	require.NoDirExists(t, crashed)
	require.DirExists(t, live)
	require.DirExists(t, serving)
	require.DirExists(t, strange)
}
