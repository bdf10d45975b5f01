package jobs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
)

// TestOverridesAreEventsWithTheirActor: what a person does to a circuit is stored with
// who and why; it is news only where the circuit opened or closed by it.
func TestOverridesAreEventsWithTheirActor(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	by := func(epoch string, from, to breaker.State, reason string) breaker.Event {
		e := transition(epoch, from, to)
		e.Reason, e.Actor, e.Note = reason, "Olena", "ticket 12"
		return e
	}
	s := newStream(
		by("1", breaker.Closed, breaker.Closed, breaker.ReasonMetricsOnly),
		by("2", breaker.Closed, breaker.Open, breaker.ReasonForcedOpen),
		by("3", breaker.Open, breaker.Open, breaker.ReasonForcedOpen), // another end
		by("4", breaker.Open, breaker.Closed, breaker.ReasonReset),
		by("5", breaker.Closed, breaker.Closed, breaker.ReasonForcedClosed),
		by("6", breaker.Closed, breaker.Closed, breaker.ReasonReset),
		by("7", breaker.Open, breaker.HalfOpen, breaker.ReasonProbeOnce),
	)
	b.start("w1", func(c *Config) { c.Events = s })
	b.stored(7)
	require.Equal(t, 7, b.count(`SELECT count(*) FROM breaker_events WHERE evidence ->> 'actor' = 'Olena' AND evidence ->> 'note' = 'ticket 12'`))
	require.Equal(t, "forced_open", b.text(`SELECT reason FROM breaker_events WHERE epoch = '2'`))
	require.Equal(t, 1, b.count(`SELECT count(*) FROM alerts WHERE kind = 'circuit_opened'`))
	require.Equal(t, 1, b.count(`SELECT count(*) FROM alerts WHERE kind = 'circuit_closed'`))
	require.Equal(t, 2, b.count(`SELECT count(*) FROM alerts`))
	require.Equal(t, "Circuit atlas/charge opened by Olena", b.text(`SELECT title FROM alerts WHERE kind = 'circuit_opened'`))
}
