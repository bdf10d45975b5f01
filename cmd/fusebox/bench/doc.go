// Package bench measures Fusebox against its floor, the least that any solution has to
// do, and against a peer, what people use instead, in the same run and in turns. It
// talks to loopback only and ends by itself.
package bench
