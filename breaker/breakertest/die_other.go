//go:build !linux

package breakertest

import "os/exec"

// dieWithParent has no counterpart here: a killed test leaves its server behind.
func dieWithParent(*exec.Cmd) {}
