package chaos

import "syscall"

// dieWithParent makes the kernel kill the child when the thread that started it ends.
func dieWithParent() *syscall.SysProcAttr {
	// A group of its own: Ctrl-C reaches us, and we end the children in order.
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
