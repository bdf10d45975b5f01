//go:build failpoint

package main

import (
	"os"
	"strings"
	"syscall"
)

// failpoint kills the process, as kill -9 does, at the charge point named by
// FUSEBOX_FAILPOINT ("after_send"). With FUSEBOX_FAILPOINT_ONCE naming a file it
// kills once: the file marks that it did, for the process started afterwards.
var failpoint = func(point, paymentID string) {
	if os.Getenv("FUSEBOX_FAILPOINT") != point {
		return
	}
	if once := os.Getenv("FUSEBOX_FAILPOINT_ONCE"); once != "" {
		f, err := os.OpenFile(once, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return // killed before
		}
		_, _ = f.WriteString(strings.Join([]string{point, paymentID}, " "))
		_ = f.Close()
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // nothing runs past this instruction
}
