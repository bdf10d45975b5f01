package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
)

// answerPage answers one payment of the queue: what we sent, what the provider says, what
// came by itself and what the books have, side by side, and the one safe next action.
func (s *Server) answerPage(c echo.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	c.Response().Header().Add(echo.HeaderVary, "HX-Request")
	build := func(ctx context.Context, rev string) (views.AnswerDetail, error) {
		d, err := s.cfg.Store.Dossier(ctx, id)
		if err != nil {
			return views.AnswerDetail{}, err
		}
		asked, err := s.cfg.Store.AskedAbout(ctx, id)
		if err != nil {
			return views.AnswerDetail{}, err
		}
		v := s.answerDetail(ctx, d, asked, s.needsOperator(c))
		prop, err := s.cfg.Store.ProposalOn(ctx, id)
		if err != nil {
			return views.AnswerDetail{}, err
		}
		if v.Proposal = s.proposalView(d.Payment, prop, s.user(c).ID); v.Proposal != nil {
			v.Step, v.Do, v.Actions = views.NextStepOf(views.StepFacts{Proposed: true}), nil, nil
			v.Needs = s.needsOperator(c)
		}
		v.Lease = holderView(asked.Lease, s.user(c).ID)
		// The buttons are the reader's own, and so is the fragment.
		me := url.Values{paramMe: {s.user(c).ID.String()}}
		v.Live = components.LiveRegion{ID: "answer-live", Topic: store.TopicPayments, URL: string(address(views.AnswerPath(id.String()), me)), Rev: rev}
		return v, nil
	}
	if isHTMX(c) {
		if own, err := s.readMe(c); err != nil || !own {
			return invalid(paramMe, "is missing or somebody else")
		}
		return s.fragment(c, store.TopicPayments, func(ctx context.Context, rev string) (templ.Component, error) {
			v, err := build(ctx, rev)
			return views.AnswerLive(v), err
		})
	}
	ctx := s.viewContext(c)
	v, err := build(ctx, s.a.hub.rev(store.TopicPayments))
	if err != nil {
		return err
	}
	return s.render(c, http.StatusOK, views.Answer(views.AnswerView{
		Page: s.page(c, "queue", views.T(ctx, "answer.title", "Order", v.Facts.OrderRef)), Detail: v}))
}

// answerDetail turns what is known into what the page shows.
func (s *Server) answerDetail(ctx context.Context, d store.Dossier, asked store.Asked, needs string) views.AnswerDetail {
	p := d.Payment
	v := views.AnswerDetail{Facts: s.paymentFacts(d), Open: p.Status == store.Unknown || len(p.NeedsReview) > 0,
		Key: s.replayKey(d), Wallet: walletEffect(d), Step: views.NextStepOf(s.stepFacts(d, asked))}
	for _, a := range d.Attempts {
		v.Sends += a.WireSends
		if at := sentAt(a); at != nil || v.Request == nil {
			view := attemptView(a)
			view.SentAt = at
			v.Request = &view
		}
	}
	for _, o := range d.Objects {
		v.Objects = append(v.Objects, views.ObjectView{ID: o.ObjectID, Status: o.Status, Outcome: o.Outcome, Amount: o.Amount,
			Currency: o.Currency, Reference: o.Reference, Key: o.OperationKey, Source: o.Source, SeenAt: o.SeenAt})
	}
	for _, e := range d.Webhooks {
		v.Webhooks = append(v.Webhooks, webhookRow(e))
	}
	if asked.Lookup != nil {
		v.AskedAt, v.AskedSay = &asked.Lookup.At, asked.Lookup.Reason
	}
	if f := asked.Found; f != nil {
		v.Found = &views.FoundView{Finding: f.Finding, Detail: f.Detail, At: f.At}
	}
	v.Against = contradictions(ctx, d, asked)
	v.Do, v.Actions = safeFirst(v.Step.Kind, s.paymentActions(p, needs))
	return v
}

// stepFacts gathers what the next step follows from.
func (s *Server) stepFacts(d store.Dossier, asked store.Asked) views.StepFacts {
	p := d.Payment
	f := views.StepFacts{Status: string(p.Status), Review: p.NeedsReview, CanAsk: s.canAsk(p), Replays: s.replays(p),
		Absent: p.AbsentLookups, NextAt: p.NextCheckAt, Now: s.cfg.Now()}
	for _, o := range d.Objects {
		f.Objects = append(f.Objects, views.StepObject{Outcome: o.Outcome, Same: o.Amount == p.Amount && o.Currency == p.Currency})
	}
	if asked.Lookup != nil {
		f.AskedAt = &asked.Lookup.At
	}
	f.Horizon = s.absenceCounts(d)
	return f
}

// absenceCounts is when not being found at the provider begins to mean something.
func (s *Server) absenceCounts(d store.Dossier) *time.Time {
	settings, ok := s.settings(d.Payment.Provider)
	if !ok {
		return nil
	}
	var sent *time.Time
	for _, a := range d.Attempts {
		if at := sentAt(a); at != nil {
			sent = at
		}
	}
	if sent == nil {
		return nil
	}
	at := sent.Add(settings.AbsentHorizon)
	return &at
}

// safeFirst picks the button of the step out of what may be done; the others follow it.
func safeFirst(kind views.StepKind, all []views.ActionLink) (do *views.ActionLink, others []views.ActionLink) {
	ends := map[views.StepKind]string{views.StepAsk: "/reconcile", views.StepPaid: "to=succeeded", views.StepFailed: "to=failed",
		views.StepSettle: "/resolve?to="}[kind]
	for _, a := range all {
		a.Kind = ""
		if ends != "" && do == nil && (strings.HasSuffix(a.Href, ends) || kind == views.StepSettle && strings.Contains(a.Href, ends)) {
			a.Kind = "primary"
			do = &a
			continue
		}
		others = append(others, a)
	}
	return do, others
}

// contradictions says what does not fit, in words.
func contradictions(ctx context.Context, d store.Dossier, asked store.Asked) []string {
	p, paid := d.Payment, 0
	var out []string
	for _, o := range d.Objects {
		args := []any{"Provider", p.Provider, "Object", o.ObjectID}
		if o.Amount != 0 && (o.Amount != p.Took().Amount || o.Currency != p.Currency) {
			out = append(out, views.T(ctx, "answer.against.amount", append(args, "Theirs", views.Money(ctx, o.Amount, o.Currency),
				"Money", views.Money(ctx, p.Amount, p.Currency))...))
		}
		switch outcome := provider.Outcome(o.Outcome); {
		case outcome == provider.Succeeded && p.Status == store.Failed:
			out = append(out, views.T(ctx, "answer.against.paid", args...))
		case outcome == provider.Failed && p.Status == store.Succeeded:
			out = append(out, views.T(ctx, "answer.against.failed", args...))
		case o.Outcome == "":
			out = append(out, views.T(ctx, "answer.against.word", append(args, "Word", o.Status)...))
		}
		if provider.Outcome(o.Outcome) == provider.Succeeded {
			paid++
		}
	}
	if paid > 1 {
		out = append(out, views.N(ctx, "answer.against.twice", int64(paid), "Provider", p.Provider))
	}
	if f := asked.Found; f != nil && f.Finding != "matched" {
		out = append(out, views.T(ctx, "answer.against.sync", "Finding", views.Opt(ctx, "finding.", f.Finding)))
	}
	return out
}
