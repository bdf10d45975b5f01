//go:build !linux

package localpg

import "syscall"

// dieWithParent does nothing: only Linux can tell a child of its parent's death.
func dieWithParent(*syscall.SysProcAttr) {}
