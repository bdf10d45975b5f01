package web

import (
	"context"
	"net/url"
	"strings"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
)

// queuesPage answers the bulkheads' depth; all of it is live.
func (s *Server) queuesPage(c echo.Context) error {
	title := views.T(s.viewContext(c), "queues.title")
	return s.livePage(c, "queues", title, topicQueues, func(ctx context.Context, rev string) (templ.Component, error) {
		v, err := s.queuesView(ctx)
		v.Live = region(c, "queues", topicQueues, rev)
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
	for _, q := range queues {
		if now := s.cfg.Now(); q.Oldest != nil && q.Oldest.After(now) {
			q.Oldest = &now // River makes a job ready a moment early
		}
		v.Rows = append(v.Rows, s.queueRow(q))
	}
	for _, w := range waits {
		v.Waits = append(v.Waits, views.WaitRow{Provider: w.Provider, Status: string(w.Status), Why: w.Why,
			Payments: int64(w.Payments), Next: w.Next,
			Href: string(address(views.PathPayments, url.Values{"provider": {w.Provider}, "status": {string(w.Status)}}))})
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
