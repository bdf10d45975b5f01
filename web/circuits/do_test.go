package circuits_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/breaker/breakertest"
	"fusebox/provider"
	"fusebox/store"
	"fusebox/web/circuits"
)

func TestEachActionMovesTheSharedCircuit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		action circuits.Action
		state  breaker.State
		mode   breaker.Mode
		woken  int
	}{
		{circuits.ProbeOnce, breaker.HalfOpen, "", 1},
		{circuits.Reset, breaker.Closed, "", 4},
		{circuits.ForcedOpen, breaker.Open, breaker.ForcedOpen, 0},
		{circuits.ForcedClosed, breaker.Closed, breaker.ForcedClosed, 4},
		{circuits.MetricsOnly, breaker.Open, breaker.MetricsOnly, 4},
	} {
		t.Run(string(tc.action), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			open := r.trip(charge)
			r.waiting(4, store.Pending)
			r.waiting(2, store.Unknown) // wait for the other circuit
			q := r.request(tc.action, open.Epoch)
			res, err := r.Do(t.Context(), q)
			require.NoError(t, err)
			require.False(t, res.Repeated)
			require.Equal(t, open.Epoch, res.Before.Epoch)
			require.Equal(t, tc.state, res.After.State)
			require.Equal(t, tc.mode, res.After.Mode)
			require.Equal(t, res.After.Epoch, r.snap(charge).Epoch)
			require.Equal(t, tc.woken, res.Woken)
			require.Equal(t, tc.woken, r.awake())
			require.Equal(t, tc.woken, r.jobs.Live(t, "charge"))

			list := r.audits()
			require.Len(t, list, 1)
			require.Equal(t, "circuit."+string(tc.action), list[0].Action)
			require.Equal(t, olena.String(), list[0].Actor)
			require.Equal(t, "they are working on it", list[0].Reason)
			require.Equal(t, "r-1", list[0].RequestID)
			require.Equal(t, "open", list[0].Before["state"])
			require.Equal(t, string(tc.state), list[0].After["state"])
			require.Equal(t, res.After.Epoch, list[0].After["epoch"])

			again, err := r.Do(t.Context(), q)
			require.NoError(t, err)
			require.True(t, again.Repeated)
			require.Equal(t, res.After.Epoch, again.After.Epoch)
			require.Equal(t, tc.woken, r.awake(), "a repeat adds no probe")
			require.Len(t, r.audits(), 1)

			// The circuit's own event tells the same, for the transitions strip.
			events, _, err := r.cb.Next(t.Context(), "")
			require.NoError(t, err)
			last := events[len(events)-1]
			require.Equal(t, string(tc.action), last.Reason)
			require.Equal(t, "Olena", last.Actor)
			require.Equal(t, "they are working on it", last.Note)
			require.Equal(t, res.After.Epoch, last.Epoch)
		})
	}
}

func TestAnOverrideEndsByResetAndByItsTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	res, err := r.Do(t.Context(), r.request(circuits.ForcedOpen, "0"))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(time.Hour), res.After.ModeUntil, time.Minute)
	r.waiting(1, store.Pending)
	_, err = r.cb.Permit(t.Context(), charge)
	var denied *breaker.Denied
	require.ErrorAs(t, err, &denied)
	require.Equal(t, breaker.DeniedForcedOpen, denied.Reason)

	res, err = r.Do(t.Context(), r.request(circuits.Reset, res.After.Epoch))
	require.NoError(t, err)
	require.Empty(t, res.After.Mode)
	require.Equal(t, 1, res.Woken)
	require.Equal(t, "forced_open", r.audits()[0].Before["override"])
	require.NotContains(t, r.audits()[0].After, "override")
	_, err = r.cb.Permit(t.Context(), charge)
	require.NoError(t, err)
}

func TestLookupsOfTheStatusCircuitAreWoken(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	open := r.trip(status)
	r.waiting(3, store.Pending)
	r.waiting(2, store.Unknown)
	q := r.request(circuits.Reset, open.Epoch)
	q.Key = status
	res, err := r.Do(t.Context(), q)
	require.NoError(t, err)
	require.Equal(t, 2, res.Woken)
	require.Equal(t, 2, r.jobs.Live(t, "reconcile"))
}

// The circuit of a provider's tokens: what waits for it are the charges that did not go out
// without one.
func TestChargesWithoutATokenAreWoken(t *testing.T) {
	t.Parallel()
	for action, woken := range map[circuits.Action]int{circuits.ProbeOnce: 1, circuits.Reset: 3, circuits.ForcedClosed: 3, circuits.ForcedOpen: 0} {
		t.Run(string(action), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			token := breaker.Key{Name: "atlas", Class: provider.ClassToken}
			open := r.trip(token)
			r.waiting(2, store.Pending) // for the circuit of charges
			r.waiting(2, store.Unknown)
			due := r.store.Now().Add(time.Hour)
			for range 3 {
				r.db.SeedPayment(t, func(p *store.Payment) {
					p.Status, p.StatusReason, p.NextCheckAt, p.NextCheckWhy = store.Pending, provider.ReasonNoToken, &due, "throttled"
				})
			}
			q := r.request(action, open.Epoch)
			q.Key = token
			res, err := r.Do(t.Context(), q)
			require.NoError(t, err)
			require.Equal(t, woken, res.Woken)
			require.Equal(t, woken, r.jobs.Live(t, "charge"))
			require.Zero(t, r.jobs.Live(t, "reconcile"))
		})
	}
}

func TestOfManyAtOnceOneWins(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	open := r.trip(charge)
	var won, lost atomic.Int32
	together(8, func(int) {
		res, err := r.Do(t.Context(), r.request(circuits.Reset, open.Epoch))
		switch {
		case err == nil:
			won.Add(1)
		case errors.Is(err, breaker.ErrEpoch) && res.After.State == breaker.Closed:
			lost.Add(1)
		}
	})
	require.EqualValues(t, 1, won.Load())
	require.EqualValues(t, 7, lost.Load(), "each learns what the circuit is now")
	require.Len(t, r.audits(), 1)
	last, ok, err := r.LastChange(t.Context(), r.snap(charge))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, olena.String(), last.Actor)
}

func TestOneIdSentAtOnceIsOneAction(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	q := r.request(circuits.ForcedOpen, r.trip(charge).Epoch)
	var done, repeated atomic.Int32
	together(6, func(int) {
		res, err := r.Do(t.Context(), q)
		if err == nil {
			done.Add(1)
		}
		if res.Repeated {
			repeated.Add(1)
		}
	})
	require.EqualValues(t, 6, done.Load())
	require.EqualValues(t, 5, repeated.Load())
	require.Len(t, r.audits(), 1)
}

func TestAnIdIsForOneThing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	open := r.trip(charge)
	q := r.request(circuits.ForcedOpen, open.Epoch)
	_, err := r.Do(t.Context(), q)
	require.NoError(t, err)
	for _, change := range []func(*circuits.Request){
		func(q *circuits.Request) { q.For = 2 * time.Hour },
		func(q *circuits.Request) { q.Reason = "another" },
		func(q *circuits.Request) { q.Key = status },
		func(q *circuits.Request) { q.Action, q.For = circuits.Reset, 0 },
		func(q *circuits.Request) { q.Epoch += "1" },
	} {
		other := q
		change(&other)
		_, err := r.Do(t.Context(), other)
		require.ErrorIs(t, err, store.ErrKeyReused)
	}
	require.Len(t, r.audits(), 1)
}

func TestARefusalLeavesTheIdFree(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	q := r.request(circuits.ProbeOnce, "0")
	res, err := r.Do(t.Context(), q)
	require.ErrorIs(t, err, breaker.ErrNotOpen)
	require.Equal(t, breaker.Closed, res.After.State)
	q.Epoch = r.trip(charge).Epoch
	_, err = r.Do(t.Context(), q)
	require.NoError(t, err)
	require.Len(t, r.audits(), 1)
}

func TestTheActionIsFinishedForAPersonWhoLeft(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Do(gone, r.request(circuits.Reset, r.trip(charge).Epoch))
	require.NoError(t, err)
	require.Len(t, r.audits(), 1)
}

func TestWithoutRedisNothingIsDone(t *testing.T) {
	t.Parallel()
	r := newRig(t, breakertest.Start(t))
	open := r.trip(charge)
	r.redis.Stop()
	for _, a := range circuits.Actions {
		_, err := r.Do(t.Context(), r.request(a, open.Epoch))
		require.ErrorIs(t, err, breaker.ErrUnavailable, a)
	}
	require.Empty(t, r.audits())
}

func TestALaterChangeIsNobodys(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	_, ok, err := r.LastChange(t.Context(), r.snap(charge))
	require.NoError(t, err)
	require.False(t, ok, "never touched")
	_, err = r.Do(t.Context(), r.request(circuits.Reset, r.trip(charge).Epoch))
	require.NoError(t, err)
	_, ok, err = r.LastChange(t.Context(), r.trip(charge)) // by itself
	require.NoError(t, err)
	require.False(t, ok)
}

func TestRequestsNameWhatIsWrong(t *testing.T) {
	t.Parallel()
	good := (&rig{}).request(circuits.ForcedOpen, "7")
	require.Empty(t, good.Problems())
	for _, tc := range []struct {
		field  string
		change func(*circuits.Request)
	}{
		{"action", func(q *circuits.Request) { q.Action, q.For = "explode", 0 }},
		{"action_id", func(q *circuits.Request) { q.ActionID = uuid.Nil }},
		{"epoch", func(q *circuits.Request) { q.Epoch = "" }},
		{"reason", func(q *circuits.Request) { q.Reason = " \n" }},
		{"reason", func(q *circuits.Request) { q.Reason = "\xff" }},
		{"reason", func(q *circuits.Request) { q.Reason = strings.Repeat("я", circuits.MaxReason+1) }},
		{"for", func(q *circuits.Request) { q.For = 0 }},
		{"for", func(q *circuits.Request) { q.For = -time.Hour }},
		{"for", func(q *circuits.Request) { q.For = circuits.MinFor - 1 }},
		{"for", func(q *circuits.Request) { q.For = circuits.MaxFor + 1 }},
		{"for", func(q *circuits.Request) { q.Action = circuits.Reset }},
		{"for", func(q *circuits.Request) { q.Action = circuits.ProbeOnce }},
	} {
		q := good
		tc.change(&q)
		problems := q.Problems()
		require.Len(t, problems, 1, "%s: %+v", tc.field, q)
		require.Equal(t, tc.field, problems[0].Field)
		_, err := circuits.Operations{}.Do(t.Context(), q)
		var field *provider.FieldError
		require.ErrorAs(t, err, &field)
		require.Equal(t, tc.field, field.Field)
	}
	for _, a := range []circuits.Action{circuits.ForcedClosed, circuits.MetricsOnly} {
		q := good
		q.Action, q.For = a, 0
		require.Empty(t, q.Problems(), "until reset")
	}
}

func TestVerbs(t *testing.T) {
	t.Parallel()
	for _, a := range circuits.Actions {
		got, ok := circuits.ByVerb(a.Verb())
		require.True(t, ok)
		require.Equal(t, a, got)
	}
	_, ok := circuits.ByVerb("")
	require.False(t, ok)
}
