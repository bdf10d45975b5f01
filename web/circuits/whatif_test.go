package circuits_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/store"
	"fusebox/store/storetest"
	"fusebox/views/messages"
	"fusebox/web/circuits"
)

var atlas = breaker.Key{Name: "atlas", Class: "charge"}

// record is a history of calls and transitions in a database of its own.
type record struct {
	t     *testing.T
	store *store.Store
	begin time.Time
}

func newRecord(t *testing.T) record {
	t.Helper()
	db := storetest.New(t)
	return record{t: t, store: store.New(db.Pool, store.Options{Enqueuer: storetest.NewJobs(t, db)}), begin: storetest.Epoch}
}

// calls records one call a second from the given second on.
func (r record) calls(from, n int, verdict string) {
	r.t.Helper()
	for i := range n {
		c := store.CallOutcome{At: r.at(from + i), Provider: "atlas", Class: "charge", Verdict: verdict, Outcome: "x", Latency: 100 * time.Millisecond, Worker: "w1"}
		if verdict == "fail" {
			c.ErrorClass = "timeout"
		}
		require.NoError(r.t, r.store.RecordCall(r.t.Context(), nil, c))
	}
}

func (r record) at(second int) time.Time { return r.begin.Add(time.Duration(second) * time.Second) }

func (r record) moved(second int, from, to, reason string) {
	r.t.Helper()
	_, err := r.store.RecordBreakerEvent(r.t.Context(), store.BreakerEvent{Provider: "atlas", Class: "charge",
		Epoch: r.at(second).Format(time.RFC3339Nano) + to, From: from, To: to, Reason: reason, At: r.at(second),
		Evidence: map[string]any{"failures": 5.0, "workers": []any{"w1", "w2"}}})
	require.NoError(r.t, err)
}

func (r record) whatIf(s breaker.Settings) circuits.Report {
	r.t.Helper()
	rep, err := circuits.WhatIf(r.t.Context(), r.store, atlas, breaker.Settings{OpenFor: s.OpenFor}, s, r.begin, r.at(1800))
	require.NoError(r.t, err)
	return rep
}

func words() context.Context {
	return messages.With(context.Background(), messages.Locale{Lang: messages.English, Now: storetest.Epoch})
}

// sickly is ten minutes in which half the calls fail, then a real opening, three
// failed probes, a good one, and health.
func sickly(t *testing.T) record {
	r := newRecord(t)
	r.calls(0, 60, "ok")
	for s := 60; s < 420; s += 2 {
		r.calls(s, 1, "fail")
		r.calls(s+1, 1, "ok")
	}
	r.calls(420, 5, "fail")
	r.moved(424, "closed", "open", breaker.ReasonConsecutive)
	for _, s := range []int{455, 486, 517} {
		r.moved(s-1, "open", "half_open", breaker.ReasonOpenTimeOver)
		r.calls(s, 1, "fail")
		r.moved(s, "half_open", "open", breaker.ReasonProbeFailed)
	}
	r.moved(547, "open", "half_open", breaker.ReasonOpenTimeOver)
	r.calls(548, 1, "ok")
	r.moved(548, "half_open", "closed", breaker.ReasonProbesSucceeded)
	r.calls(549, 200, "ok")
	return r
}

func TestStricterSettingsWouldHaveOpenedEarlier(t *testing.T) {
	t.Parallel()
	r := sickly(t)
	rep := r.whatIf(breaker.Settings{Failures: 8, Window: time.Minute, OpenFor: 10 * time.Minute})
	require.Len(t, rep.Replayed, 1)
	o := rep.Replayed[0]
	require.Equal(t, circuits.Earlier, o.Compared)
	require.True(t, o.Sound())
	require.WithinDuration(t, r.at(74), o.At, 0, "the eighth failure within a minute")
	require.Equal(t, 350*time.Second, o.Earlier)
	require.Len(t, rep.Real, 1, "probes that failed do not make new openings")
	require.False(t, rep.Real[0].Missed)
	require.WithinDuration(t, r.at(548), rep.Real[0].Until, 0)
	require.Equal(t, 5, rep.Real[0].Failures)
	require.Equal(t, rep.Calls, rep.Made+rep.Spared+rep.Lost)
	require.Equal(t, []string{"With 8 failures in 1\u00a0min it would have opened at 14:03:25, 5\u00a0min earlier.",
		"180 failed calls saved.", "300 good calls would not have been made either."}, circuits.Headline(words(), rep))
}

func TestTheSettingsInForceReplayAsThemselves(t *testing.T) {
	t.Parallel()
	rep := sickly(t).whatIf(breaker.Settings{Failures: 5})
	require.Len(t, rep.Replayed, 1)
	require.Equal(t, circuits.Same, rep.Replayed[0].Compared)
	require.Zero(t, rep.Spared, "the same circuit makes the same calls")
}

func TestGentlerSettingsMissAnOpeningAndSayWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	rep := sickly(t).whatIf(breaker.Settings{Failures: 20})
	require.Empty(t, rep.Replayed)
	require.True(t, rep.Real[0].Missed)
	require.Equal(t, []string{"With 20 failures in a row it would not have opened; really it opened once."}, circuits.Headline(words(), rep))
	require.Contains(t, circuits.Cannot(words(), rep)[1], "1 real opening has no counterpart")
}

func TestAnOpeningThatRestsOnBlockedTimeIsAGuess(t *testing.T) {
	t.Parallel()
	rep := sickly(t).whatIf(breaker.Settings{Failures: 7})
	require.Len(t, rep.Replayed, 1, "five failures and two failed probes")
	require.Equal(t, circuits.Blind, rep.Replayed[0].Compared)
	require.False(t, rep.Replayed[0].Sound())
	require.Equal(t, 1, rep.Blind())
	require.Contains(t, circuits.Cannot(words(), rep)[1], "1 replayed opening is a guess")
}

func TestAnOpeningWhereTheRealOneStayedClosed(t *testing.T) {
	t.Parallel()
	r := newRecord(t)
	r.calls(0, 10, "ok")
	r.calls(10, 4, "fail")
	r.calls(14, 100, "ok")
	rep := r.whatIf(breaker.Settings{Failures: 3, OpenFor: 20 * time.Second})
	require.Len(t, rep.Replayed, 1)
	require.Equal(t, circuits.Extra, rep.Replayed[0].Compared)
	require.Empty(t, rep.Real)
	require.Equal(t, 1, rep.Spared)
	require.NotZero(t, rep.Lost)
}

func TestForcedOpeningsAreNoBusinessOfSettings(t *testing.T) {
	t.Parallel()
	r := newRecord(t)
	r.calls(0, 30, "ok")
	r.moved(31, "closed", "open", breaker.ReasonForcedOpen)
	r.moved(300, "open", "closed", breaker.ReasonReset)
	r.calls(301, 30, "ok")
	rep := r.whatIf(breaker.Settings{})
	require.True(t, rep.Real[0].ByHand)
	require.False(t, rep.Real[0].Missed)
	require.Zero(t, rep.OpenedByItself())
}

func TestAnOpeningFromBeforeTheRange(t *testing.T) {
	t.Parallel()
	r := newRecord(t)
	r.moved(-400, "closed", "open", breaker.ReasonConsecutive)
	r.moved(-100, "half_open", "closed", breaker.ReasonProbesSucceeded)
	r.moved(-60, "closed", "open", breaker.ReasonConsecutive)
	r.calls(10, 1, "fail")
	r.calls(40, 30, "ok")
	r.moved(40, "half_open", "closed", breaker.ReasonProbesSucceeded)
	rep := r.whatIf(breaker.Settings{})
	require.Len(t, rep.Real, 1)
	require.WithinDuration(t, r.at(-60), rep.Real[0].At, 0)
	require.False(t, rep.Real[0].Missed, "no call from before the range was replayed")
	require.Contains(t, circuits.Cannot(words(), rep), "The replay begins with a closed circuit; the real one was open at 14:02:11.")
}

func TestNothingRecorded(t *testing.T) {
	t.Parallel()
	rep := newRecord(t).whatIf(breaker.Settings{})
	require.Empty(t, rep.Buckets)
	require.Equal(t, []string{"No call was recorded in this time."}, circuits.Headline(words(), rep))
}

func TestBucketsCountEveryCall(t *testing.T) {
	t.Parallel()
	rep := sickly(t).whatIf(breaker.Settings{})
	sum := 0
	for i, b := range rep.Buckets {
		sum += b.Calls()
		if b.Calls() > 0 {
			require.Equal(t, 100*time.Millisecond, b.P95)
		}
		if i > 0 {
			require.Equal(t, circuits.BucketStep(rep.From, rep.To), b.At.Sub(rep.Buckets[i-1].At))
		}
	}
	require.Equal(t, rep.Calls, sum)
	require.LessOrEqual(t, len(rep.Buckets), 97)
}

func TestProposals(t *testing.T) {
	t.Parallel()
	base := breaker.Recommended(5 * time.Second)
	p := circuits.ProposalOf(base)
	s, bad := p.Settings(base)
	require.Empty(t, bad)
	require.Equal(t, base.WithDefaults(), s, "what is in force, unchanged")
	require.NoError(t, s.Validate())

	for field, change := range map[string]func(*circuits.Proposal){
		"failures": func(p *circuits.Proposal) { p.Failures = 1001 }, "window": func(p *circuits.Proposal) { p.Window = -1 },
		"rate": func(p *circuits.Proposal) { p.Rate = 1.1 }, "min_calls": func(p *circuits.Proposal) { p.MinCalls = 0 },
		"slow": func(p *circuits.Proposal) { p.Slow = time.Hour }, "open_for": func(p *circuits.Proposal) { p.OpenFor = 0 },
	} {
		q := p
		change(&q)
		_, bad := q.Settings(base)
		require.Len(t, bad, 1, field)
		require.Equal(t, field, bad[0].Field)
		require.Contains(t, circuits.BadWords(words(), bad[0]), "must be")
	}
	_, bad = circuits.Proposal{MinCalls: 1, OpenFor: time.Second}.Settings(base)
	require.Equal(t, []circuits.Bad{{Field: "failures", Why: circuits.BadNoRule}}, bad)

	off, bad := circuits.Proposal{Rate: 0.5, MinCalls: 10, Slow: 2 * time.Second, OpenFor: time.Hour}.Settings(breaker.Settings{})
	require.Empty(t, bad)
	require.NoError(t, off.Validate())
	require.Equal(t, "50\u00a0% failures of at least 10 calls in 1\u00a0min or 80\u00a0% of at least 10 calls slower than 2\u00a0s", circuits.Rules(words(), off))
}

func TestSpansOfSettingsAreNotRounded(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{0: "0\u00a0s", 90 * time.Second: "90\u00a0s", 2 * time.Minute: "2\u00a0min",
		90 * time.Minute: "90\u00a0min", 1500 * time.Millisecond: "1.5\u00a0s", 3 * time.Hour: "3\u00a0h"} {
		require.Equal(t, want, circuits.Span(words(), d))
	}
}

func TestTheDifferenceFromWhatIsInForce(t *testing.T) {
	t.Parallel()
	inForce := breaker.Recommended(5 * time.Second)
	for want, change := range map[string]func(*breaker.Settings){
		"the settings in force":                                 func(*breaker.Settings) {},
		"8 failures in 1\u00a0min":                              func(s *breaker.Settings) { s.Failures, s.Window = 8, time.Minute },
		"no count of failures and an open time of 1\u00a0h":     func(s *breaker.Settings) { s.Failures, s.OpenFor = -1, time.Hour },
		"no failure rate and no rule for slow calls":            func(s *breaker.Settings) { s.Rate, s.SlowCall, s.SlowRate = 0, 0, 0 },
		"25\u00a0% failures of at least 20 calls in 1\u00a0min": func(s *breaker.Settings) { s.Rate = 0.25 },
		"80\u00a0% of at least 20 calls slower than 2\u00a0s":   func(s *breaker.Settings) { s.SlowCall = 2 * time.Second },
	} {
		s := inForce
		change(&s)
		require.Equal(t, want, circuits.Difference(words(), inForce, s))
	}
}

func TestATruncatedReplaySaysSo(t *testing.T) {
	t.Parallel()
	r := circuits.Report{Calls: store.MaxReplayCalls, Truncated: true, From: storetest.Epoch}
	require.Contains(t, circuits.Cannot(words(), r), "The time has more calls than are replayed: only the latest 100,000, since 14:02:11.")
	r.Truncated = false
	require.Len(t, circuits.Cannot(words(), r), 3, "blocked calls, later tries, limits: always")
}
