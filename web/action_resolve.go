package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
)

// Bounds of what a person gives with a decision, in characters.
const (
	minResolveReason = 10
	maxEvidence      = 200
)

// resolveForm is the decision as typed.
type resolveForm struct {
	actionForm
	to       store.Status
	reason   string
	evidence string
	stated   string            // the contradicting object's id, typed to say it was seen
	errors   map[string]string // field → translated
	problem  string            // conflict or refusal of the last try
}

// confirmResolve shows what marking a payment would do.
func (s *Server) confirmResolve(c echo.Context) error {
	d, err := s.resolveDossier(c)
	if err != nil {
		return err
	}
	to, err := resolveTarget(d.Payment.Status, c.QueryParam("to"))
	if err != nil {
		return err
	}
	return s.renderResolve(c, http.StatusOK, d, resolveForm{to: to})
}

func (s *Server) resolveDossier(c echo.Context) (store.Dossier, error) {
	id, err := idParam(c)
	if err != nil {
		return store.Dossier{}, err
	}
	return s.cfg.Store.Dossier(c.Request().Context(), id)
}

// resolveTarget reads the wanted status: paid, failed, or the present one, which only
// clears the review reasons.
func resolveTarget(now store.Status, to string) (store.Status, error) {
	switch st := store.Status(to); st {
	case store.Succeeded, store.Failed, now:
		return st, nil
	}
	return "", invalid("to", "must be succeeded, failed or the present status")
}

// readDecision reads a decision about something whose status is now.
func readDecision(c echo.Context, now store.Status) (f resolveForm, err error) {
	f = resolveForm{reason: strings.TrimSpace(c.FormValue("reason")), evidence: strings.TrimSpace(c.FormValue("evidence")),
		stated: strings.TrimSpace(c.FormValue("stated"))}
	if f.actionForm, err = readActionForm(c); err == nil {
		f.to, err = resolveTarget(now, c.FormValue("to"))
	}
	return f, err
}

// postResolve decides a payment on a person's word, once per action id.
func (s *Server) postResolve(c echo.Context) error {
	d, err := s.resolveDossier(c)
	if err != nil {
		return err
	}
	f, err := readDecision(c, d.Payment.Status)
	if err != nil {
		return err
	}
	ctx := s.viewContext(c)
	// The version is looked at first: what somebody else did meanwhile matters more
	// than a field left empty. A repeat of a done action passes, as the store knows it.
	if f.check(ctx, d); len(f.errors) > 0 && f.version == d.Payment.Version {
		if err := s.cfg.Store.Renew(ctx, d.Payment.ID, s.actor(c)); err != nil { // they are at it
			return err
		}
		return s.renderResolve(c, http.StatusUnprocessableEntity, d, f)
	}
	proposed, err := s.decide(ctx, d.Payment, store.ResolveParams{ActionID: f.actionID, PaymentID: d.Payment.ID, Version: f.version,
		To: f.to, Reason: f.reason, Evidence: f.evidence, By: s.actor(c)})
	var conflict *store.ConflictError
	var held *store.HeldError
	switch {
	case errors.As(err, &conflict):
		f.problem = conflictWords(ctx, conflict)
	case errors.As(err, &held):
		f.problem = heldWords(ctx, held.Lease)
	case errors.Is(err, store.ErrSecondPerson):
		f.problem = views.T(ctx, "approval.waits")
	case errors.Is(err, store.ErrNotAllowed):
		f.problem = views.T(ctx, "act.resolve.not_open", "Status", views.Opt(ctx, "status.", string(d.Payment.Status)))
	case err != nil:
		return err
	case proposed:
		s.flash(c, "ok", views.T(ctx, "approval.proposed"))
		return c.Redirect(http.StatusSeeOther, views.AnswerPath(d.Payment.ID.String()))
	default:
		s.flash(c, "ok", views.T(ctx, resolveDone(f.to)))
		return c.Redirect(http.StatusSeeOther, views.PaymentPath(d.Payment.ID.String()))
	}
	if fresh, err := s.cfg.Store.Dossier(ctx, d.Payment.ID); err == nil {
		d = fresh
	}
	f.errors = nil
	return s.renderResolve(c, http.StatusConflict, d, f)
}

func resolveDone(to store.Status) string {
	switch to {
	case store.Succeeded:
		return "act.resolve.done.succeeded"
	case store.Failed:
		return "act.resolve.done.failed"
	}
	return "act.resolve.done.settled"
}

// check says what is wrong with the fields, in the reader's words.
func (f *resolveForm) check(ctx context.Context, d store.Dossier) {
	f.errors = map[string]string{}
	switch n := utf8.RuneCountInString(f.reason); {
	case n == 0:
		f.errors["reason"] = views.T(ctx, "act.bad.required")
	case n < minResolveReason:
		f.errors["reason"] = views.T(ctx, "act.bad.short", "N", minResolveReason)
	case n > maxReason:
		f.errors["reason"] = views.T(ctx, "act.bad.long", "N", maxReason)
	}
	switch n := utf8.RuneCountInString(f.evidence); {
	case n == 0:
		f.errors["evidence"] = views.T(ctx, "act.bad.required")
	case n > maxEvidence:
		f.errors["evidence"] = views.T(ctx, "act.bad.long", "N", maxEvidence)
	}
	if o := against(d, f.to); o != nil && f.stated != o.ObjectID {
		f.errors["stated"] = views.T(ctx, "act.bad.stated", "Object", o.ObjectID)
	}
}

// against finds the provider's evidence that contradicts marking the payment so: an
// object that succeeded against "failed", one that failed against "paid" while none
// succeeded.
func against(d store.Dossier, to store.Status) *store.ProviderObject {
	var succeeded, failed *store.ProviderObject
	for i, o := range d.Objects {
		switch provider.Outcome(o.Outcome) {
		case provider.Succeeded:
			succeeded = &d.Objects[i]
		case provider.Failed:
			failed = &d.Objects[i]
		}
	}
	switch {
	case to == store.Failed:
		return succeeded
	case to == store.Succeeded && succeeded == nil:
		return failed
	}
	return nil
}

func (s *Server) renderResolve(c echo.Context, status int, d store.Dossier, f resolveForm) error {
	ctx, p := s.viewContext(c), d.Payment
	path := views.PaymentPath(p.ID.String())
	money, words := views.Money(ctx, p.Amount, p.Currency), resolveWords(p, f.to)
	lease, live, err := s.cfg.Store.LeaseOf(ctx, p.ID)
	if err != nil {
		return err
	}
	held := live && lease.Holder != s.user(c).ID
	props := components.ConfirmProps{
		Title: views.T(ctx, words.title), Lead: views.T(ctx, words.lead, "Money", money, "Order", p.OrderRef),
		Problem: f.problem, Facts: actionFacts(ctx, p), Consequences: s.resolveConsequences(ctx, d, f.to),
		Action: templ.SafeURL(path + "/resolve"), Cancel: templ.SafeURL(path), ActionID: f.action(),
		Hidden: []components.HiddenField{{Name: "version", Value: strconv.FormatInt(p.Version, 10)}, {Name: "to", Value: string(f.to)}},
		Fields: f.fields(ctx, d),
		Reason: &components.Field{ID: "reason", Label: views.T(ctx, "ui.reason"), Hint: views.T(ctx, "act.resolve.reason_hint"),
			Value: f.reason, Error: f.errors["reason"], Required: true, Max: maxReason},
		Submit: views.T(ctx, words.submit), Danger: true, Errors: f.summary(ctx),
	}
	if s.needsSecond(p, f.to) {
		props.Submit = views.T(ctx, "approval.propose")
		props.Consequences = append([]components.Consequence{{Text: views.T(ctx, "approval.two"), Tone: components.ToneWarn}}, props.Consequences...)
	}
	prop, err := s.cfg.Store.ProposalOn(ctx, p.ID)
	if err != nil {
		return err
	}
	waits := s.proposalView(p, prop, s.user(c).ID)
	switch undecided := p.Status == store.Unknown || len(p.NeedsReview) > 0; {
	case !undecided || (f.to != p.Status && p.Status != store.Unknown):
		props.Blocked = views.T(ctx, "act.resolve.not_open", "Status", views.Opt(ctx, "status.", string(p.Status)))
		props.Consequences, props.Fields, props.Reason, props.Lead = nil, nil, nil, ""
	case waits != nil:
		props.Blocked = views.T(ctx, "approval.waits")
		props.Facts = append(props.Facts, components.Term{Label: views.T(ctx, "approval.title"), Body: views.Proposal(*waits, "")})
		props.Consequences, props.Fields, props.Reason, props.Lead = nil, nil, nil, ""
	case held:
		props.Problem, props.Blocked = heldWords(ctx, lease), views.T(ctx, "answer.held.look")
		props.Facts = append(props.Facts, components.Term{Label: views.T(ctx, "answer.col.lease"),
			Body: views.TakeOver(p.ID.String(), *holderView(&lease, s.user(c).ID))})
		props.Consequences, props.Fields, props.Reason, props.Lead = nil, nil, nil, ""
	case f.problem != "": // the person decided on something else: look again first
		props.Blocked = views.T(ctx, "conflict.look")
		props.Consequences, props.Fields, props.Reason, props.Lead = nil, nil, nil, ""
	}
	return s.renderConfirm(c, status, "payments", props.Title, props)
}

// action keeps the one-time id while a form is corrected: no effect happened under it.
func (f resolveForm) action() string {
	if f.actionID == uuid.Nil || f.problem != "" {
		return newActionID()
	}
	return f.actionID.String()
}

func (f resolveForm) fields(ctx context.Context, d store.Dossier) []components.Field {
	fields := []components.Field{{ID: "evidence", Label: views.T(ctx, "act.resolve.evidence"), Hint: views.T(ctx, "act.resolve.evidence_hint"),
		Value: f.evidence, Error: f.errors["evidence"], Required: true, Max: maxEvidence, Autocomplete: "off"}}
	if o := against(d, f.to); o != nil {
		fields = append(fields, components.Field{ID: "stated", Label: views.T(ctx, "act.resolve.stated", "Object", o.ObjectID),
			Value: f.stated, Error: f.errors["stated"], Required: true, Autocomplete: "off"})
	}
	return fields
}

// summary names each refused field beside what is wrong with it.
func (f resolveForm) summary(ctx context.Context) []components.FieldError {
	var out []components.FieldError
	for _, field := range []struct{ id, label string }{
		{"evidence", views.T(ctx, "act.resolve.evidence") + ": "}, {"stated", ""}, {"reason", views.T(ctx, "ui.reason") + ": "}} {
		if msg := f.errors[field.id]; msg != "" {
			out = append(out, components.FieldError{FieldID: field.id, Text: field.label + msg})
		}
	}
	return out
}

// resolveText are the message ids of one kind of decision.
type resolveText struct{ title, lead, submit string }

func resolveWords(p store.Payment, to store.Status) resolveText {
	switch to {
	case p.Status:
		return resolveText{"act.resolve.title.settled", "act.resolve.lead.settled", "act.resolve.submit.settled"}
	case store.Succeeded:
		return resolveText{"act.resolve.title.succeeded", "act.resolve.lead.succeeded", "act.resolve.submit.succeeded"}
	}
	return resolveText{"act.resolve.title.failed", "act.resolve.lead.failed", "act.resolve.submit.failed"}
}

// resolveConsequences says in numbers what the decision does.
func (s *Server) resolveConsequences(ctx context.Context, d store.Dossier, to store.Status) []components.Consequence {
	p := d.Payment
	var out []components.Consequence
	add := func(tone components.Tone, text string) {
		out = append(out, components.Consequence{Text: text, Tone: tone})
	}
	if o := against(d, to); o != nil {
		id := "act.resolve.against.failed"
		if to == store.Succeeded {
			id = "act.resolve.against.succeeded"
		}
		add(components.ToneBad, views.T(ctx, id, "Provider", p.Provider, "Object", o.ObjectID, "Word", o.Status))
	}
	if f := s.paymentFacts(d); to == store.Succeeded && f.TheirAmount != 0 {
		add(components.ToneBad, views.T(ctx, "act.resolve.mismatch", "Provider", p.Provider,
			"Theirs", views.Money(ctx, f.TheirAmount, f.TheirCurrency), "Money", views.Money(ctx, p.Amount, p.Currency)))
	}
	if to != p.Status {
		add("", views.T(ctx, "act.resolve.moves", "From", views.Opt(ctx, "status.", string(p.Status)), "To", views.Opt(ctx, "status.", string(to))))
		add("", walletConsequence(ctx, d, to))
	}
	if n := len(p.NeedsReview); n > 0 {
		add("", views.N(ctx, "act.resolve.clears", int64(n)))
	}
	add("", views.T(ctx, "act.resolve.no_calls", "Provider", p.Provider))
	switch to {
	case p.Status: // only the review ends
	case store.Succeeded:
		add(components.ToneWarn, views.T(ctx, "act.resolve.final"))
	case store.Failed:
		add(components.ToneWarn, views.T(ctx, "act.resolve.may_pay_again"))
		add("", views.T(ctx, "act.resolve.reopen", "Provider", p.Provider))
	}
	return out
}

func walletConsequence(ctx context.Context, d store.Dossier, to store.Status) string {
	w, p := d.Wallet, d.Payment
	switch {
	case w == nil:
		return views.T(ctx, "act.resolve.no_wallet")
	case to != store.Succeeded:
		return views.T(ctx, "act.resolve.no_credit")
	case len(d.Entries) > 0:
		return views.T(ctx, "act.resolve.credited", "Owner", w.OwnerRef)
	}
	return views.T(ctx, "act.resolve.credit", "Owner", w.OwnerRef, "Money", views.Money(ctx, p.Amount, p.Currency),
		"Before", views.Money(ctx, w.Balance, w.Currency), "After", views.Money(ctx, w.Balance+p.Amount, w.Currency))
}
