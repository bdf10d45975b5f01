package web

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"fusebox/breaker"
	"fusebox/store"
	"fusebox/views"
	"fusebox/web/circuits"
)

// queuesPage answers the bulkheads' depth; all of it is live.
func (s *Server) queuesPage(c echo.Context) error {
	title, needs := views.T(s.viewContext(c), "queues.title"), s.needsOperator(c)
	jobs := s.cfg.JobPages != nil && s.user(c).Role.AtLeast(store.RoleAdmin)
	return s.livePage(c, "queues", title, topicQueues, func(ctx context.Context, rev string) (templ.Component, error) {
		v, err := s.queuesView(ctx)
		v.Live, v.Needs, v.Jobs = region(c, "queues", topicQueues, rev), needs, jobs
		return views.Queues(v), err
	})
}

func (s *Server) queuesView(ctx context.Context) (views.QueuesView, error) {
	var v views.QueuesView
	queues, err := s.cfg.Store.Queues(ctx)
	if err != nil {
		return v, err
	}
	waits, err := s.cfg.Store.WaitReasons(ctx)
	if err != nil {
		return v, err
	}
	paused, err := s.cfg.Store.PausedProviders(ctx)
	if err != nil {
		return v, err
	}
	r, err := s.a.now.get(ctx)
	if err != nil {
		return v, err
	}
	for _, q := range queues {
		if now := s.cfg.Now(); q.Oldest != nil && q.Oldest.After(now) {
			q.Oldest = &now // River makes a job ready a moment early
		}
		row := s.queueRow(q)
		for _, p := range r.pauses {
			if p.Queue == q.Queue {
				row.Paused, row.PausedBy, row.PausedAt, row.PausedUntil = true, p.ByName, p.At, p.Until
			}
		}
		s.forecast(&row, q.Queue, r, waits)
		v.Rows = append(v.Rows, row)
	}
	for _, w := range waits {
		row := views.WaitRow{Provider: w.Provider, Status: string(w.Status), Why: w.Why, Payments: int64(w.Payments), Next: w.Next,
			Href: string(address(views.PathPayments, url.Values{"provider": {w.Provider}, "status": {string(w.Status)}}))}
		if snap := r.circuits[waitsFor(w).String()]; snap.State == breaker.Open && blocks(snap) {
			row.OpenUntil = snap.OpenUntil
		}
		v.Waits = append(v.Waits, row)
	}
	for _, p := range paused {
		row := views.PausedProvider{Provider: p.Provider, Why: p.Reason}
		if p.At != nil {
			row.At = *p.At
		}
		v.Paused = append(v.Paused, row)
	}
	return v, nil
}

func (s *Server) queueRow(q store.QueueDepth) views.QueueDepthRow {
	drain, known := q.Drain()
	r := views.QueueDepthRow{Queue: q.Queue, Ready: q.Available, Running: q.Running, Scheduled: q.Scheduled + q.Retryable,
		NextDue: q.NextDue, Oldest: q.Oldest, Arrived: q.Arrived, Completed: q.Completed, Discarded: q.Discarded,
		Drain: drain, DrainOK: known, Paused: q.PausedAt != nil, Known: q.Queue == "default"}
	kind, name, _ := strings.Cut(q.Queue, "_")
	if p, ok := s.settings(name); ok {
		switch kind {
		case "charge":
			r.Known, r.Limit = true, p.ChargeWorkers
		case "status":
			r.Known, r.Limit = true, p.StatusWorkers
		}
	}
	if known && r.Ready <= r.Limit-r.Running {
		r.Drain = 0 // they fit into idle workers, however little came through lately
	}
	return r
}

// waitsFor is the circuit that payments with this reason wait for: the one of charges
// while nothing was sent, else the one of lookups.
func waitsFor(w store.WaitReason) breaker.Key {
	if w.Status == store.Pending {
		return breaker.Key{Name: w.Provider, Class: "charge"}
	}
	return breaker.Key{Name: w.Provider, Class: "status"}
}

// forecast says what an open circuit, or one that closed lately, means for a queue.
// Work that waits for it is counted by its payments: most snoozed lookups are planned
// for later anyway.
func (s *Server) forecast(row *views.QueueDepthRow, queue string, r *reading, waits []store.WaitReason) {
	class, name, _ := strings.Cut(queue, "_")
	key := breaker.Key{Name: name, Class: class}
	p, known := s.settings(name)
	snap, read := r.circuits[key.String()]
	if !known || !read {
		return
	}
	row.Everywhere, row.InFlight = snap.Settings.MaxInFlight, snap.InFlight
	n := row.Ready
	for _, w := range waits {
		if w.Why == "circuit_open" && waitsFor(w) == key {
			n += w.Payments
		}
	}
	if blocks(snap) {
		row.Circuit, row.OpenUntil = string(snap.State), snap.OpenUntil
		row.Behind, row.AfterClosing = n, circuits.AfterClosing(snap.Settings, n, first(p.RetryPauses))
		return
	}
	if left, ramping := circuits.InRamp(snap.Settings, s.cfg.Now().Sub(snap.Since), n); ramping && n > 0 && !snap.Since.IsZero() {
		row.Ramp, row.Behind, row.AfterClosing = true, n, max(left, row.Drain)
	}
}

// first is the shortest time over which denied work comes back.
func first(pauses []time.Duration) time.Duration {
	if len(pauses) == 0 {
		return 0
	}
	return pauses[0]
}
