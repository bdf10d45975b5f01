//go:build !linux

package chaos

import "syscall"

// dieWithParent has no counterpart here: a killed run leaves its processes behind.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
