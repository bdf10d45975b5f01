package breaker

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func (r *rig) override(o Override) Snapshot {
	r.t.Helper()
	o.Actor, o.Reason = "ana", "their maintenance"
	s, err := r.workers[0].(Operator).Override(context.Background(), charge, r.snap().Epoch, o)
	require.NoError(r.t, err)
	require.Equal(r.t, o.Mode, s.Mode)
	return s
}

func TestForcedOpenDeniesUntilItExpiresThenProbes(t *testing.T) {
	onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
		s := r.override(Override{Mode: ForcedOpen, For: time.Hour})
		require.Equal(t, Open, s.State)
		require.Equal(t, time.Hour, s.ModeUntil.Sub(s.Since))
		_, d := r.permit(0)
		require.Equal(t, DeniedForcedOpen, d.Reason)
		require.Equal(t, time.Hour, d.RetryAfter)
		r.advance(time.Hour)
		require.Empty(t, r.snap().Mode)
		p, d := r.permit(0)
		require.Nil(t, d)
		require.True(t, p.Probe(), "an expiry is no proof of health")
		e := r.events()[0]
		require.Equal(t, "forced open by ana: their maintenance", e.Evidence.Description)
	})
}

func TestForcedOpenNeedsAnExpiry(t *testing.T) {
	onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
		op := r.workers[0].(Operator)
		_, err := op.Override(context.Background(), charge, "0", Override{Mode: ForcedOpen})
		require.ErrorIs(t, err, ErrExpiry)
		_, err = op.Override(context.Background(), charge, "0", Override{Mode: ForcedClosed, For: -1})
		require.ErrorIs(t, err, ErrExpiry)
		_, err = op.Override(context.Background(), charge, "0", Override{Mode: "reset"})
		require.ErrorIs(t, err, ErrMode)
		require.Empty(t, r.events())
	})
}

func TestForcedClosedAdmitsWhateverHappens(t *testing.T) {
	onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
		r.trip(5)
		r.override(Override{Mode: ForcedClosed, For: time.Hour})
		for range 50 {
			require.Nil(t, r.call(0, Fail))
		}
		r.requireState(Closed)
		r.advance(time.Hour)
		for range 5 {
			require.Nil(t, r.call(0, Fail), "failures from before do not count")
		}
		r.requireState(Open)
	})
}

func TestMetricsOnlyMovesButAdmits(t *testing.T) {
	onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
		r.override(Override{Mode: MetricsOnly})
		for range 50 {
			require.Nil(t, r.call(0, Fail))
		}
		require.Equal(t, Open, r.requireState(Open).State)
		r.advance(30 * time.Second)
		require.Nil(t, r.call(0, OK))
		r.requireState(Closed)
	})
}

func TestOverridesDoNotLiftTheBulkhead(t *testing.T) {
	onEach(t, rigOptions{settings: Settings{MaxInFlight: 1}}, func(t *testing.T, r *rig) {
		for _, m := range []Mode{ForcedClosed, MetricsOnly} {
			r.override(Override{Mode: m, For: time.Hour})
			p, _ := r.permit(0)
			_, d := r.permit(0)
			require.Equal(t, DeniedSaturated, d.Reason)
			report(p, OK)
		}
	})
}

func TestProbeOnce(t *testing.T) {
	onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
		ctx, op := context.Background(), r.workers[0].(Operator)
		_, err := op.ProbeOnce(ctx, charge, "0", "ana", "try")
		require.ErrorIs(t, err, ErrNotOpen)
		open := r.trip(5)
		s, err := op.ProbeOnce(ctx, charge, open.Epoch, "ana", "they say it works")
		require.NoError(t, err)
		require.Equal(t, HalfOpen, s.State)
		_, err = op.ProbeOnce(ctx, charge, open.Epoch, "ben", "me too")
		require.ErrorIs(t, err, ErrEpoch)
		p, _ := r.permit(0)
		require.True(t, p.Probe())
		_, d := r.permit(0)
		require.Equal(t, DeniedProbing, d.Reason, "one probe, not the flood")
		report(p, Fail)
		r.requireState(Open)
	})
}

func TestProbeOnceDoesNotEndAForcedOpen(t *testing.T) {
	onEach(t, rigOptions{}, func(t *testing.T, r *rig) {
		s := r.override(Override{Mode: ForcedOpen, For: time.Hour})
		_, err := r.workers[0].(Operator).ProbeOnce(context.Background(), charge, s.Epoch, "ana", "try")
		require.ErrorIs(t, err, ErrNotOpen)
	})
}

func TestResetEndsAnOverride(t *testing.T) {
	onEach(t, rigOptions{settings: Settings{RampFor: time.Minute}}, func(t *testing.T, r *rig) {
		s := r.override(Override{Mode: ForcedOpen, For: time.Hour})
		s, err := r.workers[0].Reset(context.Background(), charge, s.Epoch, "ana", "over")
		require.NoError(t, err)
		require.Empty(t, s.Mode)
		require.Nil(t, r.call(0, OK))
		require.Equal(t, DeniedRamp, r.call(0, OK).Reason, "queued work returns by the ramp")
	})
}

func TestForcedOpenIsRememberedWhenKeysAreLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, "redis", rigOptions{})
	was := r.override(Override{Mode: ForcedOpen, For: 48 * time.Hour})
	require.NoError(t, r.client.FlushDB(context.Background()).Err())
	r.advance(0) // the tests' clock was flushed too
	_, d := r.permit(0)
	require.Equal(t, DeniedForcedOpen, d.Reason)
	require.Equal(t, was.ModeUntil, r.snap().ModeUntil)
}
