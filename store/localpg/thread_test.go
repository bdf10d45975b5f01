package localpg_test

import "runtime"

// lockThread ties the goroutine to a thread that ends with it.
func lockThread() { runtime.LockOSThread() }
