package web

import (
	"context"
	"time"

	"fusebox/breaker"
	"fusebox/store"
	"fusebox/views"
	"fusebox/web/circuits"
)

// stripSpan is how far back a circuit's strip of time reaches.
const stripSpan = 24 * time.Hour

// circuitPast is what the provider page says of circuits beyond their present state.
// It is part of a reading, so it costs the same for one viewer and for a hundred.
type circuitPast struct {
	changes []store.BreakerEvent // of the last stripSpan, oldest first
	whole   bool                 // false: changes begin later than that
	settled map[string]settled   // by provider, while its charges are blocked
	acts    map[string]store.CircuitAct
}

// settled is what lookups settled while charges are blocked.
type settled struct {
	Payments int
	Since    time.Time
}

func (s *Server) readPast(ctx context.Context, r *reading) (circuitPast, error) {
	p := circuitPast{settled: map[string]settled{}, acts: map[string]store.CircuitAct{}}
	var err error
	if p.changes, p.whole, err = s.cfg.Store.RecentChanges(ctx, r.at.Add(-stripSpan)); err != nil {
		return p, err
	}
	var targets []string
	for _, provider := range s.cfg.Providers {
		for _, class := range s.cfg.classesOf(provider.Name) {
			targets = append(targets, circuits.Target(breaker.Key{Name: provider.Name, Class: class}))
		}
		since, blocked := blockedSince(r, breaker.Key{Name: provider.Name, Class: "charge"})
		if !blocked {
			continue
		}
		n, err := s.cfg.Store.SettledMeanwhile(ctx, provider.Name, since)
		if err != nil {
			return p, err
		}
		p.settled[provider.Name] = settled{n, since}
	}
	acts, err := s.cfg.Store.LastCircuitActs(ctx, targets)
	for _, a := range acts {
		p.acts[a.Target] = a
	}
	return p, err
}

// blocks reports whether a circuit refuses calls: with an override that admits every
// call, an open one does not.
func blocks(s breaker.Snapshot) bool {
	return s.State != breaker.Closed && s.Mode != breaker.ForcedClosed && s.Mode != breaker.MetricsOnly
}

// blockedSince is when a circuit opened that is not closed now: its failed probes since
// then did not let calls through.
func blockedSince(r *reading, k breaker.Key) (time.Time, bool) {
	snap, ok := r.circuits[k.String()]
	if !ok || !blocks(snap) {
		return time.Time{}, false
	}
	since := snap.Since
	for _, e := range r.history { // newest first
		if e.Provider != k.Name || e.Class != k.Class || e.From == e.To {
			continue
		}
		if e.To == string(breaker.Closed) {
			break
		}
		if e.At.Before(since) {
			since = e.At
		}
	}
	return since, true
}

// show adds the past to a circuit's view.
func (p circuitPast) show(v *views.CircuitView, r *reading, k breaker.Key) {
	v.Strip = p.strip(r, k)
	if done, ok := p.settled[k.Name]; ok && k.Class == "charge" {
		status := r.circuits[breaker.Key{Name: k.Name, Class: "status"}.String()]
		v.Settled = &views.SettledView{Payments: done.Payments, Since: done.Since, Blocked: status.State == breaker.Open && blocks(status), Cap: store.CountCap}
	}
	if a, ok := p.acts[circuits.Target(k)]; ok {
		v.LastAct = &views.CircuitActView{Who: a.Who, Action: a.Action, Reason: a.Reason, At: a.At}
		if until, err := time.Parse(time.RFC3339, textOf(a.After, "override_until")); err == nil {
			v.LastAct.Until = until
		}
	}
}

// strip turns changes into the stretches in which the circuit was not closed.
func (p circuitPast) strip(r *reading, k breaker.Key) views.StripView {
	v := views.StripView{ID: "strip-" + k.Name + "-" + k.Class, From: r.at.Add(-stripSpan), To: r.at}
	state, since, seen := string(r.circuits[k.String()].State), v.From, false
	if !p.whole && len(p.changes) > 0 {
		v.Unknown = p.changes[0].At
	}
	add := func(until time.Time) {
		if state != string(breaker.Open) && state != string(breaker.HalfOpen) {
			return
		}
		if n := len(v.Pieces); n == 0 || v.Pieces[n-1].Until.Before(since) {
			v.Times++ // closed before it
		}
		v.Pieces = append(v.Pieces, views.StripPiece{State: state, At: since, Until: until})
	}
	for _, e := range p.changes {
		if e.Provider != k.Name || e.Class != k.Class {
			continue
		}
		if !seen {
			state, seen = e.From, true
		}
		add(e.At)
		state, since = e.To, e.At
	}
	if !seen {
		if at := r.circuits[k.String()].Since; at.After(since) {
			since = at // the event is not stored yet
		}
	}
	add(v.To)
	return v
}
