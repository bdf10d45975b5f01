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
	"fusebox/views/messages"
)

// registerRefunds adds the console's refund pages; operator is for those who may.
func (s *Server) registerRefunds(operator *echo.Group) {
	operator.GET(views.PathPayments+"/:id/refund", s.confirmRefund)
	operator.POST(views.PathPayments+"/:id/refund", s.postRefund)
	operator.GET(views.PathPayments+"/:id/refund/duplicate", s.confirmDuplicate)
	operator.POST(views.PathPayments+"/:id/refund/duplicate", s.postDuplicate)
	s.console.GET("/refunds/:id", s.toRefund)
	s.console.GET("/refunds/:id/lookup", s.confirmRefundLookup)
	s.console.POST("/refunds/:id/lookup", s.postRefundLookup)
	operator.GET("/refunds/:id/resolve", s.confirmRefundResolve)
	operator.POST("/refunds/:id/resolve", s.postRefundResolve)
}

// refundForm is a refund as typed. amount is what it means, once it could be read.
type refundForm struct {
	actionID uuid.UUID
	expected int64 // the refundable amount the person was shown
	typed    string
	amount   int64
	reason   string
	errors   map[string]string // field → translated
	problem  string            // conflict or refusal of the last try
}

// confirmRefund shows what a refund would do, in numbers.
func (s *Server) confirmRefund(c echo.Context) error {
	d, err := s.resolveDossier(c)
	if err != nil {
		return err
	}
	f := refundForm{amount: d.Refundable.Refundable}
	if f.amount > 0 {
		f.typed = provider.FormatMinor(f.amount, d.Payment.Currency)
	}
	return s.renderRefund(c, http.StatusOK, d, f)
}

// readRefundForm reads the one-time id and the figure the person was shown. A form
// without them was not made by us: 400.
func readRefundForm(c echo.Context) (f refundForm, err error) {
	if f.actionID, err = uuid.Parse(c.FormValue("action_id")); err != nil {
		return f, &badRequest{"action_id", "is missing; open the action again"}
	}
	if f.expected, err = strconv.ParseInt(c.FormValue("expected_refundable"), 10, 64); err != nil {
		return f, &badRequest{"expected_refundable", "is missing; open the action again"}
	}
	f.typed, f.reason = strings.TrimSpace(c.FormValue("amount")), strings.TrimSpace(c.FormValue("reason"))
	return f, nil
}

// postRefund asks for a refund, once per action id: whoever sends the same form again,
// by a second click, from a second tab or after Back, gets to the first one's refund.
func (s *Server) postRefund(c echo.Context) error {
	d, err := s.resolveDossier(c)
	if err != nil {
		return err
	}
	f, err := readRefundForm(c)
	if err != nil {
		return err
	}
	ctx, p, by := s.viewContext(c), d.Payment, s.actor(c)
	f.check(ctx, p)
	known, err := s.cfg.Store.OperationByKey(ctx, by.String(), f.actionID.String())
	repeat := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	switch {
	case repeat && (len(f.errors) > 0 || known.PaymentID != p.ID):
		return s.refundConflict(c, f, p.ID, views.T(ctx, "refund.conflict.form_used"))
	case repeat: // the store knows whether it is the same
	case f.expected != d.Refundable.Refundable: // what somebody else did matters more than a field left empty
		return s.refundConflict(c, f, p.ID, s.refundChanged(ctx, d, d.Refundable, f.expected))
	case s.refundBlocked(ctx, d) != "":
		return s.renderRefund(c, http.StatusConflict, d, f) // which says why
	default:
		s.checkRefundAmount(ctx, p, &f)
	}
	if len(f.errors) > 0 {
		return s.renderRefund(c, http.StatusUnprocessableEntity, d, f)
	}
	made, err := s.cfg.Store.CreateRefund(ctx, store.NewRefund{PaymentID: p.ID, Origin: store.OriginConsole, ClientID: by.String(),
		IdempotencyKey: f.actionID.String(), Amount: f.amount, ExpectedRefundable: &f.expected, Reason: f.reason}, by)
	if err != nil {
		return s.refundRefused(c, d, f, err)
	}
	s.flash(c, "ok", views.T(ctx, "refund.new.queued", "Money", views.Money(ctx, made.Operation.Amount, made.Operation.Currency)))
	return c.Redirect(http.StatusSeeOther, views.PaymentPath(p.ID.String()))
}

// refundRefused answers what the store refused: nothing was stored, nothing is sent.
func (s *Server) refundRefused(c echo.Context, d store.Dossier, f refundForm, err error) error {
	ctx, id := s.viewContext(c), d.Payment.ID
	var (
		changed *store.RefundableChangedError
		refused *store.NotRefundableError
	)
	switch {
	case errors.As(err, &changed):
		if fresh, err := s.cfg.Store.Dossier(ctx, id); err == nil {
			d = fresh
		}
		return s.refundConflict(c, f, id, s.refundChanged(ctx, d, d.Refundable, f.expected))
	case errors.Is(err, store.ErrKeyReused):
		return s.refundConflict(c, f, id, views.T(ctx, "refund.conflict.form_used"))
	case errors.As(err, &refused) && refused.Why == store.RefusedTooMuch:
		f.errors["amount"] = views.T(ctx, "refund.bad.too_much", "Most", views.Money(ctx, refused.Figures.Refundable, refused.Figures.Currency))
		return s.renderRefund(c, http.StatusUnprocessableEntity, d, f)
	case errors.As(err, &refused):
		return s.renderRefund(c, http.StatusConflict, d, f) // which says why
	}
	return err
}

// refundConflict answers 409 with the figures as they are now.
func (s *Server) refundConflict(c echo.Context, f refundForm, id uuid.UUID, problem string) error {
	d, err := s.cfg.Store.Dossier(c.Request().Context(), id)
	if err != nil {
		return err
	}
	f.problem, f.errors = problem, nil
	return s.renderRefund(c, http.StatusConflict, d, f)
}

// refundChanged says what changed the refundable amount of a charge, and who did it if a
// person did.
func (s *Server) refundChanged(ctx context.Context, d store.Dossier, is store.Refundable, then int64) string {
	money := func(n int64) string { return views.Money(ctx, n, d.Payment.Currency) }
	now := views.T(ctx, "refund.conflict.now", "Now", money(is.Refundable), "Then", money(then))
	o, ok := latestRefund(d, is.ChargeID)
	if !ok {
		return now
	}
	at := messages.Clock(ctx, o.UpdatedAt)
	switch {
	case o.Status == store.Failed:
		return views.T(ctx, "refund.conflict.failed", "Money", money(o.Amount), "Time", at) + " " + now
	case o.Origin == store.OriginExternal:
		return views.T(ctx, "refund.conflict.external", "Money", money(o.Amount), "Time", messages.Clock(ctx, o.CreatedAt)) + " " + now
	}
	return views.T(ctx, "refund.conflict.by", "By", d.Names[o.RequestedBy], "Money", money(o.Amount), "Time", messages.Clock(ctx, o.CreatedAt)) + " " + now
}

// check says what is wrong with the fields, in the reader's words, and reads the amount.
func (f *refundForm) check(ctx context.Context, p store.Payment) {
	f.errors = map[string]string{}
	var why string
	if f.amount, why = readRefundAmount(ctx, f.typed, p.Currency); why != "" {
		f.errors["amount"] = why
	}
	switch n := utf8.RuneCountInString(f.reason); {
	case n == 0:
		f.errors["reason"] = views.T(ctx, "act.bad.required")
	case n > maxReason:
		f.errors["reason"] = views.T(ctx, "act.bad.long", "N", maxReason)
	}
}

// readRefundAmount reads a typed amount by its digits, or says why it cannot be read.
func readRefundAmount(ctx context.Context, typed, code string) (amount int64, why string) {
	exponent, _ := provider.Exponent(code)
	number := decimalPoint(typed)
	amount, err := provider.DecimalToMinor(number, code)
	whole, fraction, _ := strings.Cut(number, ".")
	switch {
	case err == nil:
		return amount, ""
	case typed == "":
		return 0, views.T(ctx, "act.bad.required")
	case digits(whole) && digits(fraction) && len(fraction) > exponent:
		return 0, views.T(ctx, "refund.bad.decimals", "Currency", code, "N", exponent)
	case strings.Trim(number, "0.") == "":
		return 0, views.T(ctx, "refund.bad.zero")
	}
	return 0, views.T(ctx, "refund.bad.amount", "Example", provider.FormatMinor(1900, code))
}

// digits reports whether text is ASCII digits only.
func digits(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

// checkRefundAmount asks the adapter whether its provider can be asked for this amount.
func (s *Server) checkRefundAmount(ctx context.Context, p store.Payment, f *refundForm) {
	var refused *provider.FieldError
	if f.errors["amount"] == "" && errors.As(s.checkRefund(p, "", f.amount), &refused) {
		f.errors["amount"] = views.T(ctx, "refund.bad.provider", "Provider", p.Provider, "Why", refused.Reason)
	}
}

// refundBlocked says why a payment cannot be refunded now, or "".
func (s *Server) refundBlocked(ctx context.Context, d store.Dossier) string {
	p := d.Payment
	switch {
	case !s.canRefund(p.Provider):
		return views.T(ctx, "refund.no.cannot", "Provider", p.Provider)
	case p.Status != store.Succeeded:
		return views.T(ctx, "refund.no.status", "Status", views.Opt(ctx, "status.", string(p.Status)))
	case p.ProviderPaymentID == "":
		return views.T(ctx, "refund.no.charge")
	case d.Refundable.Refundable == 0:
		return views.T(ctx, "refund.no.nothing_left")
	}
	return ""
}

func (s *Server) renderRefund(c echo.Context, status int, d store.Dossier, f refundForm) error {
	ctx, p := s.viewContext(c), d.Payment
	path, most := views.PaymentPath(p.ID.String()), d.Refundable.Refundable
	props := components.ConfirmProps{
		Title: views.T(ctx, "refund.new.title"), Problem: f.problem, Facts: refundConfirmFacts(ctx, d),
		Action: templ.SafeURL(path + "/refund"), Cancel: templ.SafeURL(path), ActionID: f.action(),
		Hidden: []components.HiddenField{{Name: "expected_refundable", Value: strconv.FormatInt(most, 10)}},
		Submit: views.T(ctx, "refund.new.submit"), Danger: true, Blocked: s.refundBlocked(ctx, d),
	}
	if f.problem != "" { // decided on other figures: look again first
		props.Blocked = views.T(ctx, "conflict.look")
	}
	if props.Blocked == "" {
		props.Lead = views.T(ctx, "refund.new.lead", "Order", p.OrderRef)
		props.Consequences = refundConsequences(ctx, d, f)
		props.Errors = f.summary(ctx, p.Currency)
		props.Fields = []components.Field{{ID: "amount", Label: views.T(ctx, "refund.new.amount", "Currency", p.Currency),
			Hint:  views.T(ctx, "refund.new.amount_hint", "Most", views.Money(ctx, most, p.Currency), "Example", provider.FormatMinor(most, p.Currency)),
			Value: f.typed, Error: f.errors["amount"], Required: true, Max: 32, InputMode: "decimal", Autocomplete: "off"}}
		props.Reason = &components.Field{ID: "reason", Label: views.T(ctx, "ui.reason"), Hint: views.T(ctx, "refund.new.reason_hint"),
			Value: f.reason, Error: f.errors["reason"], Required: true, Max: maxReason}
	}
	return s.renderConfirm(c, status, "payments", props.Title, props)
}

// action keeps the one-time id while a form is corrected: no effect happened under it.
func (f refundForm) action() string {
	if f.actionID == uuid.Nil || f.problem != "" {
		return newActionID()
	}
	return f.actionID.String()
}

func (f refundForm) summary(ctx context.Context, currency string) []components.FieldError {
	var out []components.FieldError
	for _, field := range []struct{ id, label string }{
		{"amount", views.T(ctx, "refund.new.amount", "Currency", currency)}, {"reason", views.T(ctx, "ui.reason")}} {
		if msg := f.errors[field.id]; msg != "" {
			out = append(out, components.FieldError{FieldID: field.id, Text: field.label + ": " + msg})
		}
	}
	return out
}

// refundConfirmFacts are the payment and its figures as they are now.
func refundConfirmFacts(ctx context.Context, d store.Dossier) []components.Term {
	facts, f := actionFacts(ctx, d.Payment), d.Refundable
	for _, figure := range []struct {
		label  string
		amount int64
		always bool
	}{
		{views.T(ctx, "refund.fig.captured"), f.Captured, true}, {views.T(ctx, "refund.fig.refunded"), f.Refunded, true},
		{views.T(ctx, "refund.fig.waiting"), f.Pending, false}, {views.T(ctx, "refund.fig.unknown"), f.Unknown, false},
		{views.T(ctx, "refund.fig.refundable"), f.Refundable, true},
	} {
		if figure.always || figure.amount > 0 {
			facts = append(facts, components.Term{Label: figure.label, Value: views.Money(ctx, figure.amount, d.Payment.Currency)})
		}
	}
	return facts
}

// refundConsequences says in numbers what the refund does, with the amount as typed; one
// that cannot be read, or is too much, counts as all that is refundable.
func refundConsequences(ctx context.Context, d store.Dossier, f refundForm) []components.Consequence {
	var out []components.Consequence
	add := func(tone components.Tone, text string) {
		out = append(out, components.Consequence{Text: text, Tone: tone})
	}
	most := d.Refundable.Refundable
	amount := f.amount
	if amount <= 0 || amount > most {
		amount = most
	}
	money := func(n int64) string { return views.Money(ctx, n, d.Payment.Currency) }
	add("", views.T(ctx, "refund.new.goes_back", "Refund", money(amount), "Captured", money(d.Refundable.Captured)))
	add("", views.T(ctx, "refund.new.stays_paid", "Left", money(most-amount)))
	switch w := d.Wallet; {
	case w == nil:
		add("", views.T(ctx, "act.resolve.no_wallet"))
	case w.Balance-w.Held < amount:
		add(components.ToneWarn, views.T(ctx, "refund.new.wallet_short", "Owner", w.OwnerRef, "Available", money(w.Balance-w.Held)))
	default:
		add("", views.T(ctx, "refund.new.wallet", "Owner", w.OwnerRef, "Before", money(w.Balance), "After", money(w.Balance-amount)))
	}
	add("", views.T(ctx, "refund.new.call", "Provider", d.Payment.Provider))
	if d.Refundable.Unknown > 0 {
		add(components.ToneWarn, views.T(ctx, "refund.new.unknown", "Unknown", money(d.Refundable.Unknown)))
	}
	for _, x := range d.Disputes {
		if x.State == provider.DisputeOpened || x.State == provider.DisputeLost {
			add(components.ToneBad, views.Opt(ctx, "dispute.", x.State))
			break
		}
	}
	add(components.ToneWarn, views.T(ctx, "refund.new.final"))
	return out
}
