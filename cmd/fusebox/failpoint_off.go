//go:build !failpoint

package main

// failpoint is nil in every build that is not made for crash tests.
var failpoint func(point, paymentID string)
