package provider

import "errors"

// ErrShutdown is the cause a process gives the contexts of its running calls when it
// stops: context.WithCancelCause(…)(provider.ErrShutdown). A call cut short by it says
// nothing about the provider.
var ErrShutdown = errors.New("provider: shutting down")

// errAnswerDeadline is the cause of our own whole-answer deadline.
var errAnswerDeadline = errors.New("provider: no whole answer within the deadline")

// errSealed is what a connection answers when a request may no longer write to it:
// the call has ended, or it has been sent once already.
var errSealed = errors.New("provider: the one wire send of this call is spent or over")

// ConnectError is a failure before a connection could carry a request, so provably
// nothing was sent. Phase is one of ReasonDNS, ReasonDial, ReasonTLS,
// ReasonConnectTimeout.
type ConnectError struct {
	Phase string
	Err   error
}

// Error implements error.
func (e *ConnectError) Error() string { return e.Phase + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ConnectError) Unwrap() error { return e.Err }

// LocalError is a request we could not even build: our own fault or configuration.
type LocalError struct{ Err error }

// Error implements error.
func (e *LocalError) Error() string { return "request not built: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *LocalError) Unwrap() error { return e.Err }

// FieldError is a refusal that names the field and the reason.
type FieldError struct {
	Field  string
	Reason string
}

// Error implements error.
func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }
