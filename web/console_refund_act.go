package web

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
)

// refundOf reads the refund of the path.
func (s *Server) refundOf(c echo.Context) (store.Operation, error) {
	id, err := idParam(c)
	if err != nil {
		return store.Operation{}, err
	}
	o, err := s.cfg.Store.Operation(c.Request().Context(), id)
	if err == nil && o.Kind != provider.OpRefund {
		err = store.ErrNotFound
	}
	return o, err
}

// refundPlace is where a refund is shown.
func refundPlace(o store.Operation) string {
	return views.PaymentPath(o.PaymentID.String()) + "#refund-" + o.ID.String()
}

// toRefund leads to the payment's page, at the refund.
func (s *Server) toRefund(c echo.Context) error {
	o, err := s.refundOf(c)
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, refundPlace(o))
}

// refundConflictWords says who was first.
func refundConflictWords(ctx context.Context, e *store.ConflictError) string {
	return firstWords(ctx, e, e.What == "refund_operator", views.Opt(ctx, "refund.status.", string(e.Status)))
}

// freshRefund reads the refund again after a refusal; the old reading is better than none.
func (s *Server) freshRefund(ctx context.Context, o store.Operation) store.Operation {
	if now, err := s.cfg.Store.Operation(ctx, o.ID); err == nil {
		return now
	}
	return o
}

// refundActFacts say which refund an action is about.
func refundActFacts(ctx context.Context, o store.Operation) []components.Term {
	return []components.Term{
		{Label: views.T(ctx, "refund.n", "N", o.Seq), Value: views.Money(ctx, o.Amount, o.Currency)},
		{Label: views.T(ctx, "act.now"), Body: views.RefundBadge(string(o.Status))},
		{Label: views.T(ctx, "fact.provider"), Value: o.Provider},
	}
}

// confirmRefundLookup asks before the provider is asked.
func (s *Server) confirmRefundLookup(c echo.Context) error {
	o, err := s.refundOf(c)
	if err != nil {
		return err
	}
	return s.renderRefundLookup(c, http.StatusOK, o, "")
}

func (s *Server) renderRefundLookup(c echo.Context, status int, o store.Operation, problem string) error {
	ctx := s.viewContext(c)
	props := operationForm(o, refundPath(o)+"/lookup", refundPlace(o))
	props.Title, props.Submit = views.T(ctx, "refund.ask.title"), views.T(ctx, "act.reconcile.submit", "Provider", o.Provider)
	props.Problem, props.Facts = problem, refundActFacts(ctx, o)
	if s.mayAskRefund(o) {
		props.Lead = views.T(ctx, "refund.ask.lead", "Provider", o.Provider, "N", o.Seq, "Money", views.Money(ctx, o.Amount, o.Currency))
		props.Consequences = []components.Consequence{s.lookupCalls(ctx, o, o.ProviderObjectID),
			{Text: views.T(ctx, "refund.ask.zero")}, {Text: views.T(ctx, "refund.ask.may_settle")}}
	} else {
		props.Blocked = views.T(ctx, "refund.ask.none")
	}
	return s.renderConfirm(c, status, "payments", props.Title, props)
}

// postRefundLookup queues the lookup, once per action id.
func (s *Server) postRefundLookup(c echo.Context) error {
	o, err := s.refundOf(c)
	if err != nil {
		return err
	}
	return s.askOperation(c, o, refundPlace(o), func(refused bool, conflict *store.ConflictError) error {
		problem, ctx := "", s.viewContext(c)
		if conflict != nil {
			problem = refundConflictWords(ctx, conflict)
		}
		if refused {
			o = s.freshRefund(ctx, o)
		}
		return s.renderRefundLookup(c, http.StatusConflict, o, problem)
	})
}

// refundCase is a refund with what a decision about it has to look at.
type refundCase struct {
	refund  store.Operation
	dossier store.Dossier // Objects are the refund's, not the charge's
}

func (s *Server) refundCase(c echo.Context) (k refundCase, err error) {
	if k.refund, err = s.refundOf(c); err != nil {
		return k, err
	}
	return k, s.readCase(c.Request().Context(), &k)
}

func (s *Server) readCase(ctx context.Context, k *refundCase) (err error) {
	if k.dossier, err = s.cfg.Store.Dossier(ctx, k.refund.PaymentID); err != nil {
		return err
	}
	objects, err := s.cfg.Store.OperationObjects(ctx, k.refund.PaymentID)
	k.dossier.Objects = objects[k.refund.ID]
	for _, o := range k.dossier.Operations { // of one snapshot with the rest
		if o.ID == k.refund.ID {
			k.refund = o
		}
	}
	return err
}

// confirmRefundResolve shows what marking a refund would do.
func (s *Server) confirmRefundResolve(c echo.Context) error {
	k, err := s.refundCase(c)
	if err != nil {
		return err
	}
	to, err := resolveTarget(k.refund.Status, c.QueryParam("to"))
	if err != nil {
		return err
	}
	return s.renderRefundResolve(c, http.StatusOK, k, refundDecision{resolveForm: resolveForm{to: to}})
}

// refundDecision is a decision about a refund as typed.
type refundDecision struct {
	resolveForm
	wallet string // "waive": the wallet keeps what it cannot give back
}

// postRefundResolve decides a refund on a person's word, once per action id.
func (s *Server) postRefundResolve(c echo.Context) error {
	k, err := s.refundCase(c)
	if err != nil {
		return err
	}
	f := refundDecision{wallet: c.FormValue("wallet")}
	if f.resolveForm, err = readDecision(c, k.refund.Status); err != nil {
		return err
	}
	ctx := s.viewContext(c)
	if f.check(ctx, k.dossier); len(f.errors) > 0 && f.version == k.refund.Version {
		return s.renderRefundResolve(c, http.StatusUnprocessableEntity, k, f)
	}
	o, err := s.cfg.Store.ResolveOperation(ctx, store.ResolveOperationParams{ActionID: f.actionID, OperationID: k.refund.ID, Version: f.version,
		To: f.to, Reason: f.reason, Evidence: f.evidence, WaiveWallet: f.wallet == "waive", By: s.actor(c)})
	var conflict *store.ConflictError
	switch {
	case errors.Is(err, store.ErrInsufficient):
		f.errors = map[string]string{"wallet": views.T(ctx, "refund.wallet.short", "Money", views.Money(ctx, k.refund.Amount, k.refund.Currency))}
		return s.renderRefundResolve(c, http.StatusUnprocessableEntity, k, f)
	case errors.As(err, &conflict):
		f.problem = refundConflictWords(ctx, conflict)
	case errors.Is(err, store.ErrNotAllowed):
		f.problem = views.T(ctx, "refund.resolve.not_open", "Status", views.Opt(ctx, "refund.status.", string(k.refund.Status)))
	case err != nil:
		return err
	default:
		s.flash(c, "ok", views.T(ctx, "refund.resolve.done"))
		return c.Redirect(http.StatusSeeOther, refundPlace(o))
	}
	if err := s.readCase(ctx, &k); err != nil {
		return err
	}
	f.errors = nil
	return s.renderRefundResolve(c, http.StatusConflict, k, f)
}

func (s *Server) renderRefundResolve(c echo.Context, status int, k refundCase, f refundDecision) error {
	ctx, o := s.viewContext(c), k.refund
	words := refundResolveWords(o, f.to)
	props := decisionProps(ctx, operationForm(o, refundPath(o)+"/resolve", refundPlace(o)), f.resolveForm)
	props.Title, props.Submit = views.T(ctx, words.title), views.T(ctx, words.submit)
	props.Lead = views.T(ctx, words.lead, "N", o.Seq, "Money", views.Money(ctx, o.Amount, o.Currency))
	props.Facts, props.Consequences, props.Fields = refundActFacts(ctx, o), refundResolveConsequences(ctx, k, f.to), f.fields(ctx, k.dossier)
	if msg := f.errors["wallet"]; msg != "" {
		props.Errors = append(props.Errors, components.FieldError{FieldID: "wallet", Text: msg})
	}
	switch {
	case !undecided(o, f.to):
		props.Blocked = views.T(ctx, "refund.resolve.not_open", "Status", views.Opt(ctx, "refund.status.", string(o.Status)))
	case f.problem != "":
		props.Blocked = views.T(ctx, "conflict.look")
	}
	if props.Blocked != "" {
		props.Consequences, props.Fields, props.Reason, props.Lead = nil, nil, nil, ""
		return s.renderConfirm(c, status, "payments", props.Title, props)
	}
	return s.renderFramed(c, status, "payments", props.Title, views.RefundConfirm(props, walletChoice(ctx, o, f)))
}

// walletChoice asks what becomes of a wallet that could not give the money back; nil
// when that is not the question.
func walletChoice(ctx context.Context, o store.Operation, f refundDecision) *components.Field {
	if !slices.Contains(o.NeedsReview, store.ReviewWalletShort) {
		return nil
	}
	return &components.Field{ID: "wallet", Label: views.T(ctx, "refund.wallet.label"), Value: f.wallet, Error: f.errors["wallet"],
		Options: []components.Option{{Value: "take", Label: views.T(ctx, "refund.wallet.take")}, {Value: "waive", Label: views.T(ctx, "refund.wallet.waive")}}}
}

func refundResolveWords(o store.Operation, to store.Status) resolveText {
	switch to {
	case o.Status:
		return resolveText{"refund.resolve.title.settled", "refund.resolve.lead.settled", "refund.act.settle"}
	case store.Succeeded:
		return resolveText{"refund.resolve.title.succeeded", "refund.resolve.lead.succeeded", "refund.act.done"}
	}
	return resolveText{"refund.resolve.title.failed", "refund.resolve.lead.failed", "refund.act.failed"}
}

// refundResolveConsequences says in numbers what the decision does.
func refundResolveConsequences(ctx context.Context, k refundCase, to store.Status) []components.Consequence {
	o := k.refund
	var out []components.Consequence
	add := func(tone components.Tone, text string) {
		out = append(out, components.Consequence{Text: text, Tone: tone})
	}
	if x := against(k.dossier, to); x != nil {
		id := "refund.resolve.against.failed"
		if to == store.Succeeded {
			id = "refund.resolve.against.succeeded"
		}
		add(components.ToneBad, views.T(ctx, id, "Provider", o.Provider, "Object", x.ObjectID, "Word", x.Status))
	}
	if o.Status == store.Processing && to == store.Failed {
		add(components.ToneWarn, views.T(ctx, "hold.resolve.acknowledged", "Provider", o.Provider))
	}
	money := views.Money(ctx, o.Amount, o.Currency)
	if to != o.Status {
		add("", views.T(ctx, "refund.resolve.moves", "From", views.Opt(ctx, "refund.status.", string(o.Status)), "To", views.Opt(ctx, "refund.status.", string(to))))
	}
	switch w := k.dossier.Wallet; {
	case to == o.Status:
	case to == store.Failed:
		add(components.ToneWarn, views.T(ctx, "refund.resolve.frees", "Money", money))
	case w == nil:
		add("", views.T(ctx, "act.resolve.no_wallet"))
	case w.Balance-w.Held < o.Amount:
		add(components.ToneWarn, views.T(ctx, "refund.new.wallet_short", "Owner", w.OwnerRef, "Available", views.Money(ctx, w.Balance-w.Held, w.Currency)))
	default:
		add("", views.T(ctx, "refund.resolve.debit", "Owner", w.OwnerRef, "Money", money))
	}
	if n := len(o.NeedsReview); n > 0 {
		add("", views.N(ctx, "act.resolve.clears", int64(n)))
	}
	add("", views.T(ctx, "act.resolve.no_calls", "Provider", o.Provider))
	return out
}
