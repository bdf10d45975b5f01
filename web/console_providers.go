package web

import (
	"context"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
	"fusebox/views/messages"
)

// How much of a circuit's past the page lists, and how much is read to find out why
// it opened in the first place.
const (
	shownErrors      = 5
	shownTransitions = 6
	keptTransitions  = 24
)

// providersPage shows every provider's circuits and bulkheads.
func (s *Server) providersPage(c echo.Context) error {
	mayAct := s.user(c).Role.AtLeast(store.RoleOperator)
	return s.livePage(c, "providers", views.T(s.viewContext(c), "nav.providers"), store.TopicProviders,
		func(ctx context.Context, rev string) (templ.Component, error) {
			r, err := s.a.now.get(ctx)
			if err != nil {
				return nil, err
			}
			v := views.ProvidersView{Live: components.LiveRegion{ID: "providers", Topic: store.TopicProviders, URL: views.PathProviders, Rev: rev}}
			for _, p := range s.cfg.Providers {
				v.Cards = append(v.Cards, s.providerCard(ctx, r, p, mayAct))
			}
			return views.Providers(v), nil
		})
}

func (s *Server) providerCard(ctx context.Context, r *reading, p provider.Settings, mayAct bool) views.ProviderCard {
	sw := r.switches[p.Name]
	card := views.ProviderCard{Name: p.Name, Paused: sw.Paused, PausedReason: sw.PausedReason, PausedAt: sw.PausedAt,
		LastWebhook: sw.LastWebhookAt, Synced: sw.SyncWatermark, NoStatusAPI: p.NoStatusAPI, MayAct: mayAct}
	if a, ok := s.cfg.Registry.Get(p.Name); ok {
		c := a.Capabilities()
		card.NoStatusAPI, card.Replays = card.NoStatusAPI || !c.CanAsk(), c.CanReplay() && !c.CanAsk()
	}
	if !p.NoKeys {
		card.KeyLife = p.KeyLife
	}
	limits := map[string]int{"charge": p.ChargeWorkers, "status": p.StatusWorkers}
	for _, class := range s.cfg.classesOf(p.Name) {
		key := breaker.Key{Name: p.Name, Class: class}
		v := circuitView(ctx, r, key, limits[class])
		r.past.show(&v, r, key)
		card.Circuits = append(card.Circuits, v)
	}
	return card
}

// circuitView joins what the breaker, the queue and the call records say of a circuit.
func circuitView(ctx context.Context, r *reading, k breaker.Key, limit int) views.CircuitView {
	snap := r.circuits[k.String()]
	q, h := r.queues[k.Class+"_"+k.Name], r.health[k.String()]
	v := views.CircuitView{
		Provider: k.Name, Class: k.Class, State: r.state(k.Name, k.Class), Epoch: snap.Epoch, Since: snap.Since,
		OpenUntil: snap.OpenUntil, Consecutive: snap.Consecutive, Threshold: snap.Settings.Failures,
		OpenReason: snap.OpenReason, Mode: string(snap.Mode), ModeUntil: snap.ModeUntil, Local: snap.Degraded,
		Calls: h.Calls(), Ready: q.Available, Running: q.Running, Snoozed: q.Scheduled + q.Retryable, Oldest: q.Oldest,
		Limit: limit, Processes: max(q.Workers, 1), InFlight: snap.InFlight, MaxInFlight: snap.Settings.MaxInFlight,
		Window: views.WindowView{Span: snap.Settings.RateWindow, OK: snap.Window.OK, Fail: snap.Window.Fail, Neutral: snap.Window.Neutral, Slow: snap.Window.Slow},
	}
	v.Rate, v.RateLow = rateOf(ctx, h)
	if h.Calls() > 0 {
		v.P95 = messages.Latency(ctx, h.P95)
	}
	for _, p := range snap.Probes {
		v.Probes = append(v.Probes, views.LeaseView{Worker: p.Token, Until: p.Until})
	}
	for _, f := range snap.Recent[:min(shownErrors, len(snap.Recent))] {
		v.Errors = append(v.Errors, views.ErrorRow{At: f.At, Class: f.Class, Worker: f.Worker, PaymentID: f.Sample})
	}
	for _, e := range r.history {
		if e.Provider != k.Name || e.Class != k.Class {
			continue
		}
		if len(v.History) < shownTransitions {
			v.History = append(v.History, views.TransitionRow{ID: e.ID, At: e.At, From: e.From, To: e.To, Reason: e.Reason, Actor: textOf(e.Evidence, "actor")})
		}
	}
	v.Evidence = openingOf(r.history, k)
	if v.Evidence == nil && snap.OpenReason != "" {
		v.Evidence = liveEvidence(snap)
	}
	return v
}

// openingOf finds why a circuit opened: the latest opening that was not a failed
// probe, with the failed probes since then counted.
func openingOf(history []store.BreakerEvent, k breaker.Key) *views.EvidenceView {
	var found *views.EvidenceView
	reopened := 0
	for _, e := range history { // newest first
		if e.Provider != k.Name || e.Class != k.Class {
			continue
		}
		if e.To == string(breaker.Closed) {
			break // what came before is another story
		}
		if e.To != string(breaker.Open) {
			continue
		}
		found = evidenceView(e)
		if e.From == string(breaker.Closed) {
			break
		}
		reopened++
	}
	if found != nil {
		found.Reopened = reopened
	}
	return found
}

// evidenceView reads the stored evidence of an opening; it is JSON of breaker.Evidence.
func evidenceView(e store.BreakerEvent) *views.EvidenceView {
	v := &views.EvidenceView{At: e.At, Reason: e.Reason, Actor: textOf(e.Evidence, "actor"), Settings: textOf(e.Evidence, "settings")}
	if n, ok := e.Evidence["failures"].(float64); ok {
		v.Failures = int(n)
	}
	if classes, ok := e.Evidence["error_classes"].(map[string]any); ok {
		counts := map[string]int{}
		for c, n := range classes {
			f, _ := n.(float64)
			counts[c] = int(f)
		}
		v.Classes = views.SortClasses(counts)
	}
	v.Workers = len(listOf(e.Evidence, "workers"))
	v.Samples = listOf(e.Evidence, "samples")
	v.Samples = v.Samples[:min(3, len(v.Samples))]
	return v
}

// liveEvidence stands in until the event of an opening has been stored.
func liveEvidence(snap breaker.Snapshot) *views.EvidenceView {
	v := &views.EvidenceView{At: snap.Since, Reason: snap.OpenReason}
	counts, workers := map[string]int{}, map[string]bool{}
	for _, f := range snap.Recent {
		if f.At.After(snap.Since.Add(time.Second)) {
			continue // failed after it opened
		}
		counts[f.Class]++
		workers[f.Worker] = true
		v.Failures++
	}
	v.Classes, v.Workers = views.SortClasses(counts), len(workers)
	return v
}

func textOf(m map[string]any, key string) string {
	v, _ := m[key].(string)
	return v
}

func listOf(m map[string]any, key string) []string {
	items, _ := m[key].([]any)
	out := make([]string, 0, len(items))
	for _, i := range items {
		if text, ok := i.(string); ok {
			out = append(out, text)
		}
	}
	return out
}
