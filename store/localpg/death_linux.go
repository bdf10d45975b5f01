package localpg

import "syscall"

// dieWithParent asks the kernel to send the child SIGINT (for PostgreSQL: shut down
// now, cleanly) when the thread that forked it ends; see spawn.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGINT }
