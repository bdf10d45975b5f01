package breaker

import "errors"

var (
	// ErrEpoch is returned when the circuit changed since the caller looked at it.
	ErrEpoch = errors.New("breaker: the circuit changed meanwhile")
	// ErrUnavailable is returned by operator actions when Redis cannot be reached:
	// a reset that only one process knows of would be a lie.
	ErrUnavailable = errors.New("breaker: shared state is not reachable")
)
