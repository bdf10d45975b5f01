package web

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
)

// This file is what a person may do about a capture or void that has no answer to trust:
// ask the provider, or say what became of it. Both show in the charge, so the evidence
// beside a decision is the charge's own.

// registerCaptureActs adds the pages; operator is for those who may.
func (s *Server) registerCaptureActs(operator *echo.Group) {
	s.console.GET("/captures/:id", s.toCapture)
	s.console.GET("/captures/:id/lookup", s.confirmCaptureLookup)
	s.console.POST("/captures/:id/lookup", s.postCaptureLookup)
	operator.GET("/captures/:id/resolve", s.confirmCaptureResolve)
	operator.POST("/captures/:id/resolve", s.postCaptureResolve)
}

func capturePath(o store.Operation) string { return "/captures/" + o.ID.String() }

// capturePlace is where a capture or void is shown.
func capturePlace(o store.Operation) string {
	return views.PaymentPath(o.PaymentID.String()) + "#hold-" + o.ID.String()
}

// captureActions lists what may be done about a capture or void now; never "send it again".
func (s *Server) captureActions(o store.Operation, needs string) []views.ActionLink {
	var out []views.ActionLink
	path := capturePath(o)
	if s.mayAskRefund(o) {
		out = append(out, views.ActionLink{Label: "refund.act.ask", Href: path + "/lookup", Kind: "primary", Icon: "refresh"})
	}
	switch {
	case mayDecide(o):
		out = append(out,
			views.ActionLink{Label: "hold.act.done", Href: path + "/resolve?to=succeeded", Needs: needs},
			views.ActionLink{Label: "refund.act.failed", Href: path + "/resolve?to=failed", Needs: needs})
	case len(o.NeedsReview) > 0:
		out = append(out, views.ActionLink{Label: "refund.act.settle", Href: path + "/resolve?to=" + string(o.Status), Needs: needs})
	}
	return out
}

// captureCase is a capture or void with what a decision about it has to look at: its
// payment, and as objects the charge it was done to.
type captureCase struct {
	op      store.Operation
	dossier store.Dossier
}

func (s *Server) captureCase(c echo.Context) (k captureCase, err error) {
	id, err := idParam(c)
	if err != nil {
		return k, err
	}
	ctx := c.Request().Context()
	if k.op, err = s.cfg.Store.Operation(ctx, id); err == nil && actionKind(k.op) == "" {
		err = store.ErrNotFound
	}
	if err != nil {
		return k, err
	}
	return k, s.readCapture(ctx, &k)
}

func (s *Server) readCapture(ctx context.Context, k *captureCase) (err error) {
	k.dossier, err = s.cfg.Store.Dossier(ctx, k.op.PaymentID)
	for _, o := range k.dossier.Operations { // of one snapshot with the rest
		if o.ID == k.op.ID {
			k.op = o
		}
	}
	return err
}

// toCapture leads to the payment's page, at the capture or void.
func (s *Server) toCapture(c echo.Context) error {
	k, err := s.captureCase(c)
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, capturePlace(k.op))
}

func captureActFacts(ctx context.Context, k captureCase) []components.Term {
	o := k.op
	return append([]components.Term{
		{Label: views.HoldName(ctx, string(o.Kind), o.Seq), Value: views.Money(ctx, o.Amount, o.Currency)},
		{Label: views.T(ctx, "hold.act.state"), Value: views.HoldStatus(ctx, string(o.Kind), string(o.Status))},
	}, actionFacts(ctx, k.dossier.Payment)...)
}

// captureConflictWords says who was first.
func captureConflictWords(ctx context.Context, o store.Operation, e *store.ConflictError) string {
	return firstWords(ctx, e, strings.HasSuffix(e.What, "_operator"), views.HoldStatus(ctx, string(o.Kind), string(e.Status)))
}

// confirmCaptureLookup asks before the provider is asked.
func (s *Server) confirmCaptureLookup(c echo.Context) error {
	k, err := s.captureCase(c)
	if err != nil {
		return err
	}
	return s.renderCaptureLookup(c, http.StatusOK, k, "")
}

func (s *Server) renderCaptureLookup(c echo.Context, status int, k captureCase, problem string) error {
	ctx, o := s.viewContext(c), k.op
	what := views.HoldName(ctx, string(o.Kind), o.Seq)
	props := operationForm(o, capturePath(o)+"/lookup", capturePlace(o))
	props.Title, props.Submit = views.T(ctx, "hold.ask.title", "What", what), views.T(ctx, "act.reconcile.submit", "Provider", o.Provider)
	props.Problem, props.Facts = problem, captureActFacts(ctx, k)
	if s.mayAskRefund(o) {
		props.Lead = views.T(ctx, "hold.ask.lead", "Provider", o.Provider, "What", what, "Money", views.Money(ctx, o.Amount, o.Currency))
		props.Consequences = []components.Consequence{s.lookupCalls(ctx, o, o.ProviderPaymentID),
			{Text: views.T(ctx, "hold.ask.zero")}, {Text: views.T(ctx, "hold.ask.may_settle")}}
	} else {
		props.Blocked = views.T(ctx, "hold.ask.none")
	}
	return s.renderConfirm(c, status, "payments", props.Title, props)
}

// postCaptureLookup queues the lookup, once per action id.
func (s *Server) postCaptureLookup(c echo.Context) error {
	k, err := s.captureCase(c)
	if err != nil {
		return err
	}
	return s.askOperation(c, k.op, capturePlace(k.op), func(refused bool, conflict *store.ConflictError) error {
		problem, ctx := "", s.viewContext(c)
		if conflict != nil {
			problem = captureConflictWords(ctx, k.op, conflict)
		}
		if refused {
			if err := s.readCapture(ctx, &k); err != nil {
				return err
			}
		}
		return s.renderCaptureLookup(c, http.StatusConflict, k, problem)
	})
}

// confirmCaptureResolve shows what a decision about a capture or void would do.
func (s *Server) confirmCaptureResolve(c echo.Context) error {
	k, err := s.captureCase(c)
	if err != nil {
		return err
	}
	to, err := resolveTarget(k.op.Status, c.QueryParam("to"))
	if err != nil {
		return err
	}
	return s.renderCaptureResolve(c, http.StatusOK, k, resolveForm{to: to})
}

// postCaptureResolve decides on a person's word, once per action id.
func (s *Server) postCaptureResolve(c echo.Context) error {
	k, err := s.captureCase(c)
	if err != nil {
		return err
	}
	f, err := readDecision(c, k.op.Status)
	if err != nil {
		return err
	}
	ctx := s.viewContext(c)
	if s.capturePaysAlone(k, f.to) {
		return s.renderCaptureResolve(c, http.StatusConflict, k, f) // which says why
	}
	about := f.ofCharge(k.op)
	if about.check(ctx, chargeCase(k)); len(about.errors) > 0 && f.version == k.op.Version {
		f.errors = about.errors
		return s.renderCaptureResolve(c, http.StatusUnprocessableEntity, k, f)
	}
	o, err := s.cfg.Store.ResolveOperation(ctx, store.ResolveOperationParams{ActionID: f.actionID, OperationID: k.op.ID, Version: f.version,
		To: f.to, Reason: f.reason, Evidence: f.evidence, By: s.actor(c)})
	var conflict *store.ConflictError
	switch {
	case errors.As(err, &conflict):
		f.problem = captureConflictWords(ctx, k.op, conflict)
	case errors.Is(err, store.ErrNotAllowed):
		f.problem = views.T(ctx, "hold.resolve.not_open", "Status", views.HoldStatus(ctx, string(k.op.Kind), string(k.op.Status)))
	case err != nil:
		return err
	default:
		s.flash(c, "ok", views.T(ctx, "refund.resolve.done"))
		return c.Redirect(http.StatusSeeOther, capturePlace(o))
	}
	if err := s.readCapture(ctx, &k); err != nil {
		return err
	}
	f.errors = nil
	return s.renderCaptureResolve(c, http.StatusConflict, k, f)
}

// chargeCase is the payment's file with only the charge that was captured or let go, by
// which a decision is judged. A charge that is still held says nothing against either.
func chargeCase(k captureCase) store.Dossier {
	d := k.dossier
	d.Objects = nil
	for _, o := range k.dossier.Objects {
		if o.ObjectID == k.op.ProviderPaymentID && o.Outcome != string(provider.Processing) {
			d.Objects = append(d.Objects, o)
		}
	}
	return d
}

// ofCharge is the decision as one about the charge: a void that was made is a charge that
// took nothing.
func (f resolveForm) ofCharge(o store.Operation) resolveForm {
	switch {
	case o.Kind == provider.OpVoid && f.to == store.Succeeded:
		f.to = store.Failed
	case o.Kind == provider.OpVoid && f.to == store.Failed:
		f.to = store.Succeeded
	}
	return f
}

// captureMeans is what a decision makes of the payment: paid, failed, or "" for as it was.
func captureMeans(o store.Operation, to store.Status) store.Status {
	switch {
	case to != store.Succeeded || o.Status == store.Succeeded:
		return ""
	case o.Kind == provider.OpCapture:
		return store.Succeeded
	}
	return store.Failed
}

func (s *Server) renderCaptureResolve(c echo.Context, status int, k captureCase, f resolveForm) error {
	ctx, o := s.viewContext(c), k.op
	what := views.HoldName(ctx, string(o.Kind), o.Seq)
	title, lead, submit := "hold.resolve.title.failed", "hold.resolve.lead.failed", "refund.act.failed"
	switch f.to {
	case o.Status:
		title, lead, submit = "hold.resolve.title.settled", "hold.resolve.lead.settled", "refund.act.settle"
	case store.Succeeded:
		title, lead, submit = "hold.resolve.title.succeeded", "hold.resolve.lead.succeeded", "hold.act.done"
	}
	props := decisionProps(ctx, operationForm(o, capturePath(o)+"/resolve", capturePlace(o)), f)
	props.Title, props.Submit = views.T(ctx, title, "What", what), views.T(ctx, submit)
	props.Lead = views.T(ctx, lead, "What", what, "Money", views.Money(ctx, o.Amount, o.Currency))
	props.Facts, props.Consequences, props.Fields = captureActFacts(ctx, k), captureResolveConsequences(ctx, k, f.to), f.ofCharge(o).fields(ctx, chargeCase(k))
	switch {
	case !undecided(o, f.to):
		props.Blocked = views.T(ctx, "hold.resolve.not_open", "Status", views.HoldStatus(ctx, string(o.Kind), string(o.Status)))
	case s.capturePaysAlone(k, f.to):
		props.Blocked = views.T(ctx, "hold.resolve.two")
	case f.problem != "":
		props.Blocked = views.T(ctx, "conflict.look")
	}
	if props.Blocked != "" {
		props.Consequences, props.Fields, props.Reason, props.Lead = nil, nil, nil, ""
	}
	return s.renderConfirm(c, status, "payments", props.Title, props)
}

// capturePaysAlone reports whether the decision would mark a payment paid or failed that
// takes two people to mark: it must not be had by way of its capture.
func (s *Server) capturePaysAlone(k captureCase, to store.Status) bool {
	means := captureMeans(k.op, to)
	return means != "" && !k.dossier.Payment.Status.Final() && s.needsSecond(k.dossier.Payment, means)
}

// captureResolveConsequences says in numbers what the decision does.
func captureResolveConsequences(ctx context.Context, k captureCase, to store.Status) []components.Consequence {
	o, p := k.op, k.dossier.Payment
	var out []components.Consequence
	add := func(tone components.Tone, text string) {
		out = append(out, components.Consequence{Text: text, Tone: tone})
	}
	if x := against(chargeCase(k), resolveForm{to: to}.ofCharge(o).to); x != nil {
		add(components.ToneBad, views.T(ctx, "hold.resolve.against", "Provider", o.Provider, "Object", x.ObjectID, "Word", x.Status))
	}
	if o.Status == store.Processing && to == store.Failed {
		add(components.ToneWarn, views.T(ctx, "hold.resolve.acknowledged", "Provider", o.Provider))
	}
	money := views.Money(ctx, o.Amount, o.Currency)
	switch captureMeans(o, to) {
	case store.Succeeded:
		add("", views.T(ctx, "hold.resolve.pays", "Money", money))
		if w := k.dossier.Wallet; w != nil {
			add("", views.T(ctx, "hold.new.wallet", "Owner", w.OwnerRef, "Amount", money))
		}
	case store.Failed:
		add("", views.T(ctx, "hold.resolve.ends"))
	default:
		if to == store.Failed && o.Status != store.Failed {
			add(components.ToneWarn, views.T(ctx, "hold.resolve.stays", "Money", views.Money(ctx, p.AuthorisedAmount, p.Currency)))
		}
	}
	if n := len(o.NeedsReview); n > 0 {
		add("", views.N(ctx, "act.resolve.clears", int64(n)))
	}
	add("", views.T(ctx, "act.resolve.no_calls", "Provider", o.Provider))
	return out
}
