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

// registerCaptures adds the console's capture and void pages; operator is for those who may.
func (s *Server) registerCaptures(operator *echo.Group) {
	for _, kind := range []provider.OperationKind{provider.OpCapture, provider.OpVoid} {
		operator.GET(views.PathPayments+"/:id/"+string(kind), s.confirmAction(kind))
		operator.POST(views.PathPayments+"/:id/"+string(kind), s.postAction(kind))
	}
	s.registerCaptureActs(operator)
}

// actionKind is the kind of a capture or void, and nothing of a refund.
func actionKind(o store.Operation) string {
	if o.Kind == provider.OpRefund {
		return ""
	}
	return string(o.Kind)
}

// captureView is the part of the payment's page about what is held.
func (s *Server) captureView(d store.Dossier, needs string) views.CaptureView {
	p := d.Payment
	v := views.CaptureView{Currency: p.Currency, Authorised: p.AuthorisedAmount, Captured: p.CapturedAmount, Until: p.AuthorisedUntil, Open: p.Authorised()}
	for _, o := range d.Operations {
		if actionKind(o) != "" {
			row := captureRow(d, o)
			row.Actions = s.captureActions(o, needs)
			v.Rows = append(v.Rows, row)
		}
	}
	if live(d) == nil && p.Authorised() && s.canCapture(p.Provider) {
		path := views.PaymentPath(p.ID.String())
		v.Actions = []views.ActionLink{
			{Label: "hold.act.capture", Href: path + "/capture", Kind: "primary", Needs: needs},
			{Label: "hold.act.void", Href: path + "/void", Needs: needs},
		}
	}
	return v
}

// captureRow is one capture or void with its evidence.
func captureRow(d store.Dossier, o store.Operation) views.CaptureRow {
	r := views.CaptureRow{ID: o.ID.String(), Kind: string(o.Kind), Provider: o.Provider, Seq: o.Seq, Status: string(o.Status), Reason: o.StatusReason,
		Why: o.Reason, Review: o.NeedsReview, Amount: o.Amount, Currency: o.Currency, Who: d.Names[o.RequestedBy], Words: o.ProviderMessage,
		CreatedAt: o.CreatedAt, NextAt: o.NextCheckAt, NextWhy: o.NextCheckWhy}
	r.WhoKind, _, _ = strings.Cut(o.RequestedBy, ":")
	for _, a := range d.OperationAttempts[o.ID] {
		r.Attempts = append(r.Attempts, attemptView(a))
	}
	return r
}

// live is the capture or void that has not failed; nil: there is none.
func live(d store.Dossier) *store.Operation {
	for i, o := range d.Operations {
		if actionKind(o) != "" && o.Status != store.Failed {
			return &d.Operations[i]
		}
	}
	return nil
}

// held is what may be captured now, and what a void would let go.
func held(d store.Dossier) int64 {
	if live(d) != nil || !d.Payment.Authorised() {
		return 0
	}
	return min(d.Payment.AuthorisedAmount, d.Payment.Amount)
}

// actForm is a capture or void as typed. amount is what it means, once it could be read.
type actForm struct {
	kind     provider.OperationKind
	actionID uuid.UUID
	expected int64 // the capturable amount the person was shown
	typed    string
	amount   int64
	reason   string
	errors   map[string]string // field → translated
	problem  string            // conflict of the last try
}

// confirmAction shows what a capture or void would do, in numbers.
func (s *Server) confirmAction(kind provider.OperationKind) echo.HandlerFunc {
	return func(c echo.Context) error {
		d, err := s.resolveDossier(c)
		if err != nil {
			return err
		}
		f := actForm{kind: kind, amount: held(d)}
		if f.amount > 0 {
			f.typed = provider.FormatMinor(f.amount, d.Payment.Currency)
		}
		return s.renderAction(c, http.StatusOK, d, f)
	}
}

// readActForm reads the one-time id and the figure the person was shown. A form without
// them was not made by us: 400.
func readActForm(c echo.Context, kind provider.OperationKind) (f actForm, err error) {
	f.kind = kind
	if f.actionID, err = uuid.Parse(c.FormValue("action_id")); err != nil {
		return f, &badRequest{"action_id", "is missing; open the action again"}
	}
	if f.expected, err = strconv.ParseInt(c.FormValue("expected_capturable"), 10, 64); err != nil {
		return f, &badRequest{"expected_capturable", "is missing; open the action again"}
	}
	f.typed, f.reason = strings.TrimSpace(c.FormValue("amount")), strings.TrimSpace(c.FormValue("reason"))
	return f, nil
}

// check says what is wrong with the fields, in the reader's words, and reads the amount.
func (f *actForm) check(ctx context.Context, p store.Payment) {
	f.errors = map[string]string{}
	if f.kind == provider.OpCapture {
		var why string
		if f.amount, why = readRefundAmount(ctx, f.typed, p.Currency); why != "" {
			f.errors["amount"] = why
		}
	}
	switch n := utf8.RuneCountInString(f.reason); {
	case n == 0:
		f.errors["reason"] = views.T(ctx, "act.bad.required")
	case n > maxReason:
		f.errors["reason"] = views.T(ctx, "act.bad.long", "N", maxReason)
	}
}

// postAction asks for a capture or void, once per action id: whoever sends the same form
// again, by a second click, from a second tab or after Back, gets to the first one.
func (s *Server) postAction(kind provider.OperationKind) echo.HandlerFunc {
	return func(c echo.Context) error {
		d, err := s.resolveDossier(c)
		if err != nil {
			return err
		}
		f, err := readActForm(c, kind)
		if err != nil {
			return err
		}
		ctx, p, by := s.viewContext(c), d.Payment, s.actor(c)
		f.check(ctx, p)
		n := store.NewAction{PaymentID: p.ID, Kind: kind, Origin: store.OriginConsole, ClientID: by.String(), IdempotencyKey: f.actionID.String(),
			Amount: f.amount, ExpectedCapturable: &f.expected, Reason: f.reason}
		_, err = s.cfg.Store.OperationByKey(ctx, n.ClientID, n.IdempotencyKey)
		switch repeat := err == nil; {
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return err
		case !repeat && f.expected != held(d):
			return s.actionConflict(c, d, f)
		case !repeat && s.actionBlocked(ctx, d) != "":
			return s.renderAction(c, http.StatusConflict, d, f) // which says why
		case !repeat && f.errors["amount"] == "":
			s.checkActionAmount(ctx, d, n, &f)
		}
		if len(f.errors) > 0 {
			return s.renderAction(c, http.StatusUnprocessableEntity, d, f)
		}
		made, err := s.requestAction(ctx, n, by)
		if err != nil {
			return s.actionRefused(c, f, p.ID, err)
		}
		s.flash(c, "ok", views.T(ctx, "hold.new.queued", "What", actionWords(ctx, made.Operation)))
		return c.Redirect(http.StatusSeeOther, views.PaymentPath(p.ID.String()))
	}
}

// checkActionAmount refuses more than is held, and what the provider cannot be asked for.
func (s *Server) checkActionAmount(ctx context.Context, d store.Dossier, n store.NewAction, f *actForm) {
	var refused *provider.FieldError
	switch {
	case f.amount > held(d):
		f.errors["amount"] = views.T(ctx, "hold.bad.too_much", "Most", views.Money(ctx, held(d), d.Payment.Currency))
	case errors.As(s.checkAction(d.Payment, n), &refused):
		f.errors["amount"] = views.T(ctx, "refund.bad.provider", "Provider", d.Payment.Provider, "Why", refused.Reason)
	}
}

// actionRefused answers what the store refused: nothing was stored, nothing is sent.
func (s *Server) actionRefused(c echo.Context, f actForm, id uuid.UUID, err error) error {
	var (
		changed *store.CapturableChangedError
		refused *store.NotCapturableError
	)
	if !errors.As(err, &changed) && !errors.As(err, &refused) && !errors.Is(err, store.ErrKeyReused) {
		return err
	}
	d, readErr := s.cfg.Store.Dossier(c.Request().Context(), id)
	if readErr != nil {
		return readErr
	}
	if errors.Is(err, store.ErrKeyReused) {
		f.problem, f.errors = views.T(s.viewContext(c), "refund.conflict.form_used"), nil
		return s.renderAction(c, http.StatusConflict, d, f)
	}
	return s.actionConflict(c, d, f)
}

// actionConflict answers 409 with the figures as they are now.
func (s *Server) actionConflict(c echo.Context, d store.Dossier, f actForm) error {
	ctx := s.viewContext(c)
	now, then := views.Money(ctx, held(d), d.Payment.Currency), views.Money(ctx, f.expected, d.Payment.Currency)
	f.errors, f.problem = nil, views.T(ctx, "hold.conflict_figures", "Now", now, "Then", then)
	if o := live(d); o != nil {
		f.problem = views.T(ctx, "hold.conflict", "What", actionWords(ctx, *o), "Now", now, "Then", then)
	}
	return s.renderAction(c, http.StatusConflict, d, f)
}

// actionWords name a capture or void with its amount.
func actionWords(ctx context.Context, o store.Operation) string {
	return views.HoldName(ctx, string(o.Kind), o.Seq) + " (" + views.Money(ctx, o.Amount, o.Currency) + ")"
}

// actionBlocked says why nothing can be captured or let go now, or "".
func (s *Server) actionBlocked(ctx context.Context, d store.Dossier) string {
	p := d.Payment
	switch o := live(d); {
	case !p.Manual():
		return views.T(ctx, "hold.no.automatic")
	case !s.canCapture(p.Provider):
		return views.T(ctx, "hold.no.cannot", "Provider", p.Provider)
	case o != nil:
		return views.T(ctx, "hold.no.under_way", "What", actionWords(ctx, *o), "Status", views.HoldStatus(ctx, string(o.Kind), string(o.Status)))
	case held(d) == 0 || p.ProviderPaymentID == "":
		return views.T(ctx, "hold.no.not_held", "Status", views.Opt(ctx, "status.", string(p.Status)))
	}
	return ""
}

func (s *Server) renderAction(c echo.Context, status int, d store.Dossier, f actForm) error {
	ctx, p, most := s.viewContext(c), d.Payment, held(d)
	path, title, lead := views.PaymentPath(p.ID.String()), "hold.new.capture_title", "hold.new.capture_lead"
	if f.kind == provider.OpVoid {
		title, lead = "hold.new.void_title", "hold.new.void_lead"
	}
	action := newActionID()
	if f.actionID != uuid.Nil && f.problem == "" { // no effect happened under it
		action = f.actionID.String()
	}
	props := components.ConfirmProps{
		Title: views.T(ctx, title), Problem: f.problem, Facts: actionFacts(ctx, p), Action: templ.SafeURL(path + "/" + string(f.kind)),
		Cancel: templ.SafeURL(path), ActionID: action, Submit: views.T(ctx, title), Danger: true, Blocked: s.actionBlocked(ctx, d),
		Hidden: []components.HiddenField{{Name: "expected_capturable", Value: strconv.FormatInt(most, 10)}},
	}
	props.Facts = append(props.Facts, components.Term{Label: views.T(ctx, "hold.fig.authorised"), Value: views.Money(ctx, p.AuthorisedAmount, p.Currency)})
	if p.AuthorisedUntil != nil {
		props.Facts = append(props.Facts, components.Term{Label: views.T(ctx, "hold.until"), Body: components.Absolute(*p.AuthorisedUntil)})
	}
	if f.problem != "" { // decided on other figures: look again first
		props.Blocked = views.T(ctx, "conflict.look")
	}
	if props.Blocked == "" {
		props.Lead = views.T(ctx, lead, "Order", p.OrderRef)
		props.Consequences = actionConsequences(ctx, d, f)
		amount := views.T(ctx, "hold.new.amount", "Currency", p.Currency)
		if f.kind == provider.OpCapture {
			props.Fields = []components.Field{{ID: "amount", Label: amount,
				Hint:  views.T(ctx, "hold.new.amount_hint", "Most", views.Money(ctx, most, p.Currency), "Example", provider.FormatMinor(most, p.Currency)),
				Value: f.typed, Error: f.errors["amount"], Required: true, Max: 32, InputMode: "decimal", Autocomplete: "off"}}
		}
		props.Reason = &components.Field{ID: "reason", Label: views.T(ctx, "ui.reason"), Hint: views.T(ctx, "hold.new.reason_hint"),
			Value: f.reason, Error: f.errors["reason"], Required: true, Max: maxReason}
		for _, field := range []struct{ id, label string }{{"amount", amount}, {"reason", views.T(ctx, "ui.reason")}} {
			if msg := f.errors[field.id]; msg != "" {
				props.Errors = append(props.Errors, components.FieldError{FieldID: field.id, Text: field.label + ": " + msg})
			}
		}
	}
	return s.renderConfirm(c, status, "payments", props.Title, props)
}

// actionConsequences says in numbers what the capture or void does, with the amount as
// typed; one that cannot be read, or is too much, counts as all that is held.
func actionConsequences(ctx context.Context, d store.Dossier, f actForm) []components.Consequence {
	most, p := held(d), d.Payment
	amount := f.amount
	if amount <= 0 || amount > most {
		amount = most
	}
	money := func(n int64) string { return views.Money(ctx, n, p.Currency) }
	var out []components.Consequence
	add := func(tone components.Tone, text string) {
		out = append(out, components.Consequence{Text: text, Tone: tone})
	}
	if f.kind == provider.OpVoid {
		add("", views.T(ctx, "hold.new.lets_go", "Held", money(most)))
	} else {
		add("", views.T(ctx, "hold.new.takes", "Amount", money(amount), "Held", money(most)))
		add(components.ToneWarn, views.T(ctx, "hold.new.rest", "Rest", money(most-amount)))
		if d.Wallet != nil {
			add("", views.T(ctx, "hold.new.wallet", "Owner", d.Wallet.OwnerRef, "Amount", money(amount)))
		}
	}
	add("", views.T(ctx, "hold.new.call", "Provider", p.Provider))
	add(components.ToneWarn, views.T(ctx, "hold.new.final"))
	return out
}
