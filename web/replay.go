package web

import (
	"context"
	"slices"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
)

// canAsk reports whether a person can have a payment checked: there is something to
// ask, or the same key and bytes can go out again.
func (s *Server) canAsk(p store.Payment) bool {
	a, ok := s.cfg.Registry.Get(p.Provider)
	return ok && asks(a.Capabilities(), p.ProviderPaymentID) || s.replays(p)
}

// asks reports whether there is a question to put: by our own reference or key, or by the
// provider's id once it is known.
func asks(c provider.Capabilities, theirID string) bool {
	return c.Has(provider.ByReference) || c.Has(provider.ByKey) || c.Has(provider.ByID) && theirID != ""
}

// replays reports whether checking a payment means to send its own key and bytes again,
// which is a money call: it is unknown, no way of asking comes before that one, and another
// answer than last time can come of it.
func (s *Server) replays(p store.Payment) bool {
	a, ok := s.cfg.Registry.Get(p.Provider)
	if !ok || p.Status != store.Unknown || replaysOver(p.NeedsReview, p.StatusReason) {
		return false
	}
	for _, w := range a.Capabilities().Ways {
		switch {
		case w == provider.ReplayKey:
			return a.Capabilities().CanReplay()
		case w != provider.WebhookOnly && (w != provider.ByID || p.ProviderPaymentID != ""):
			return false
		}
	}
	return false
}

// replaysOver reports that nothing can be learnt from a further replay: the key is past its
// life, or one was rejected, and what is refused now will be refused again. It says nothing
// of the first send, so a person has to find out.
func replaysOver(reviews []string, reason string) bool {
	return reason == provider.ReasonReplayRejected || slices.Contains(reviews, store.ReviewKeyExpired)
}

// asReplay puts a confirm page for asking into the words of a replay.
func asReplay(ctx context.Context, p store.Payment, props components.ConfirmProps) components.ConfirmProps {
	props.Title = views.T(ctx, "act.replay.title")
	props.Lead = views.T(ctx, "act.replay.lead", "Provider", p.Provider)
	props.Submit = views.T(ctx, "act.replay.submit", "Provider", p.Provider)
	props.Consequences = []components.Consequence{
		{Text: views.T(ctx, "act.replay.one_request", "Provider", p.Provider)},
		{Text: views.T(ctx, "act.replay.one_charge")},
		{Text: views.T(ctx, "act.reconcile.may_settle")},
	}
	return props
}

// askable is how many of a provider's payments a bulk can ask about, and why not the
// others: nobody can be asked, or only by sending a charge's own bytes again.
func (s *Server) askable(f store.BulkForecast) (n int, why string) {
	a, ok := s.cfg.Registry.Get(f.Provider)
	if _, configured := s.settings(f.Provider); !ok || !configured {
		return 0, store.SkipNoProvider
	}
	caps := a.Capabilities()
	n = f.WithID
	if caps.Has(provider.ByReference) || caps.Has(provider.ByKey) {
		n = f.Rest
	}
	if !caps.CanAsk() {
		n = 0
	}
	if caps.CanReplay() {
		return n, store.SkipResend
	}
	return n, store.SkipNoWay
}

// bulkRequests is the most requests a bulk makes at a provider for n payments.
func (s *Server) bulkRequests(f store.BulkForecast, n int) int {
	a, ok := s.cfg.Registry.Get(f.Provider)
	if !ok || n == 0 {
		return 0
	}
	requests, caps := 0, a.Capabilities()
	for _, w := range []provider.Way{provider.ByReference, provider.ByKey} {
		if caps.Has(w) {
			requests += triesPerWay * n
		}
	}
	if caps.Has(provider.ByID) {
		requests += triesPerWay * min(f.WithID, n)
	}
	return requests
}

// statusKey is the circuit of a provider's lookups.
func statusKey(name string) breaker.Key { return breaker.Key{Name: name, Class: "status"} }
