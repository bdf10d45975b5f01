// Package breaker is a circuit breaker and bulkhead shared by processes through
// Redis, with a local fallback for the time Redis is gone. It serves any third-party
// call and imports nothing of the rest of Fusebox.
//
// # States
//
//	           failures in a row, failures in a window,
//	           failure rate, slow calls; seen by a quorum of workers
//	┌────────┐ ───────────────────────────────────────────▶ ┌────────┐
//	│ closed │                                              │  open  │
//	└────────┘ ◀── reset ────────────────────────────────── └────────┘
//	     ▲                                                    │    ▲
//	     │                                open time over,     │    │ a probe failed:
//	     │                                probe once          │    │ open again, longer
//	     │                                                    ▼    │
//	     │        enough probes succeeded                  ┌───────────┐
//	     └──────────────────────────────────────────────── │ half-open │ ↺ time limit
//	              then a ramp of growing rate              └───────────┘
//
// A call asks for a Permit and reports its verdict once: OK, Fail, or Neutral for
// what says nothing about the third party's health (declines of our own making,
// cancellations, throttling). Each is one script in Redis and one round trip, which
// callers of one process that come at the same time share; a plain success keeps nobody
// waiting. The server's clock decides, so a worker's
// wrong clock changes nothing.
//
// Every transition starts a new epoch, and a report belongs to the epoch its permit
// was given in: a success of the closed era that arrives in half-open is fenced. A
// half-open probe and a slot of the bulkhead are leases: the process that dies with
// one gives it back at the lease's end. The script that makes a transition, and only
// it, writes the event with its evidence to a stream; see Redis.Next.
//
// # When Redis is gone
//
// After one timeout the process decides by itself, starting from what it saw last: a
// remembered open stays open. It looks for Redis again with jitter; Degraded tells
// since when. If Redis comes back without its keys, the first call restores them from
// memory in the same trip. A trouble with Redis never replaces the result of a call.
//
// # Use
//
// Do makes one call under a circuit, DoOr has a fallback. Callers that need the permit
// itself, because verdicts arrive later, use Permit and Report.
package breaker
