package localpg

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// tempPrefix starts the name of a temporary server directory; the process id of its
// maker follows.
const tempPrefix = "fusebox-pg-"

// removeOrphans deletes the temporary directories of processes that were killed: their
// servers die with them, their files do not. A directory whose maker or server still
// lives is left alone.
func removeOrphans(root string) {
	dirs, err := filepath.Glob(filepath.Join(root, tempPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		var maker int
		name := strings.TrimPrefix(filepath.Base(dir), tempPrefix)
		if _, err := fmt.Sscanf(name, "%d-", &maker); err != nil || running(maker) || running(serverPID(dir)) {
			continue
		}
		_ = os.RemoveAll(dir)
	}
}

// serverPID reads the first line of postmaster.pid; 0 if there is none.
func serverPID(dir string) (pid int) {
	b, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid")) //nolint:gosec // below our own prefix
	if err == nil {
		_, _ = fmt.Sscan(string(b), &pid)
	}
	return pid
}

// running reports whether a process exists, whoever owns it.
func running(pid int) bool {
	if pid <= 0 {
		return false
	}
	err := syscall.Kill(pid, 0)
	return err == nil || err == syscall.EPERM
}
