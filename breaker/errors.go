package breaker

import "errors"

var (
	// ErrEpoch is returned when the circuit changed since the caller looked at it.
	ErrEpoch = errors.New("breaker: the circuit changed meanwhile")
	// ErrUnavailable is returned by operator actions when Redis cannot be reached:
	// a reset that only one process knows of would be a lie.
	ErrUnavailable = errors.New("breaker: shared state is not reachable")
	// ErrNotOpen is returned by ProbeOnce when the circuit is not open, or is forced open.
	ErrNotOpen = errors.New("breaker: the circuit is not open")
	// ErrExpiry is returned when ForcedOpen comes without an end.
	ErrExpiry = errors.New("breaker: forced open needs an expiry")
	// ErrMode is returned for an override of no known mode.
	ErrMode = errors.New("breaker: unknown override")
	// ErrServer is returned by CheckServer for a Redis that may lose circuits.
	ErrServer = errors.New("breaker: this Redis is not safe for circuits")
)
