package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
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

// duplicatePath is where one extra charge of a payment is refunded.
func duplicatePath(p store.Payment) string {
	return views.PaymentPath(p.ID.String()) + "/refund/duplicate"
}

// extraCharges are the charges that took a payment's money once more.
func (s *Server) extraCharges(d store.Dossier, needs string) []views.ExtraCharge {
	list := d.Duplicates()
	out := make([]views.ExtraCharge, len(list))
	for i, c := range list {
		f := c.Figures
		out[i] = views.ExtraCharge{ID: c.ID, Provider: d.Payment.Provider, Currency: f.Currency, Captured: f.Captured, Refunded: f.Refunded,
			Open: f.Pending + f.Unknown, Left: f.Refundable, MadeAt: c.MadeAt}
		if f.Refundable > 0 && s.canRefund(d.Payment.Provider) {
			label := "duplicate.act"
			if len(list) > 1 {
				label = "duplicate.act.extra"
			}
			out[i].Action = &views.ActionLink{Label: label, Kind: "primary", Needs: needs,
				Href: duplicatePath(d.Payment) + "?" + url.Values{"charge": {c.ID}}.Encode()}
		}
	}
	return out
}

// extraActions are what may be done about the extra charges of a payment now.
func extraActions(list []views.ExtraCharge) []views.ActionLink {
	var out []views.ActionLink
	for _, c := range list {
		if c.Action != nil {
			out = append(out, *c.Action)
		}
	}
	return out
}

// duplicateCase is a payment and the charge of it that somebody takes for one too many.
type duplicateCase struct {
	dossier store.Dossier
	charge  string            // as asked for
	extra   store.TakenCharge // zero when charge is no duplicate
}

func (s *Server) duplicateCase(ctx context.Context, id uuid.UUID, charge string) (duplicateCase, error) {
	d, err := s.cfg.Store.Dossier(ctx, id)
	k := duplicateCase{dossier: d, charge: charge}
	for _, c := range d.Duplicates() {
		if c.ID == charge {
			k.extra = c
		}
	}
	return k, err
}

// duplicateForm is what was typed; actionID and expected come with the page.
type duplicateForm struct {
	actionID      uuid.UUID
	expected      int64
	reason, wrong string // wrong: what is the matter with the reason, translated
	problem       string // conflict or refusal of the last try
}

// confirmDuplicate shows both charges: the one that stays and the one that goes back.
func (s *Server) confirmDuplicate(c echo.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	k, err := s.duplicateCase(c.Request().Context(), id, c.QueryParam("charge"))
	if err != nil {
		return err
	}
	return s.renderDuplicate(c, http.StatusOK, k, duplicateForm{})
}

func readDuplicateForm(c echo.Context) (f duplicateForm, err error) {
	if f.actionID, err = uuid.Parse(c.FormValue("action_id")); err != nil {
		return f, &badRequest{"action_id", "is missing; open the action again"}
	}
	if f.expected, err = strconv.ParseInt(c.FormValue("expected_refundable"), 10, 64); err != nil {
		return f, &badRequest{"expected_refundable", "is missing; open the action again"}
	}
	f.reason = strings.TrimSpace(c.FormValue("reason"))
	return f, nil
}

func (f *duplicateForm) check(ctx context.Context) {
	switch n := utf8.RuneCountInString(f.reason); {
	case n == 0:
		f.wrong = views.T(ctx, "act.bad.required")
	case n > maxReason:
		f.wrong = views.T(ctx, "act.bad.long", "N", maxReason)
	}
}

// postDuplicate asks for the whole of an extra charge back, once per action id. The
// amount is what the person was shown; the store refuses it when that is not the whole.
func (s *Server) postDuplicate(c echo.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	f, err := readDuplicateForm(c)
	if err != nil {
		return err
	}
	ctx, by := s.viewContext(c), s.actor(c)
	k, err := s.duplicateCase(ctx, id, c.FormValue("charge"))
	if err != nil {
		return err
	}
	f.check(ctx)
	_, err = s.cfg.Store.OperationByKey(ctx, by.String(), f.actionID.String())
	repeat := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if !repeat {
		if f.problem = s.duplicateChanged(ctx, k, f.expected); f.problem != "" {
			return s.renderDuplicate(c, http.StatusConflict, k, f)
		}
		if f.wrong != "" {
			return s.renderDuplicate(c, http.StatusUnprocessableEntity, k, f)
		}
		if f.problem = s.refusedByAdapter(ctx, k); f.problem != "" {
			return s.renderDuplicate(c, http.StatusUnprocessableEntity, k, f)
		}
	}
	made, err := s.cfg.Store.CreateRefund(ctx, store.NewRefund{PaymentID: id, Origin: store.OriginConsole, ClientID: by.String(),
		IdempotencyKey: f.actionID.String(), ChargeID: k.charge, Amount: f.expected, ExpectedRefundable: &f.expected, Reason: f.reason}, by)
	if err != nil {
		return s.duplicateRefused(c, k, f, err)
	}
	s.flash(c, "ok", views.T(ctx, "duplicate.queued", "Money", views.Money(ctx, made.Operation.Amount, made.Operation.Currency), "Provider", made.Operation.Provider))
	return c.Redirect(http.StatusSeeOther, refundPlace(made.Operation))
}

// refusedByAdapter says why the provider cannot be asked for this, or "".
func (s *Server) refusedByAdapter(ctx context.Context, k duplicateCase) string {
	var refused *provider.FieldError
	if errors.As(s.checkRefund(k.dossier.Payment, k.charge, k.extra.Figures.Refundable), &refused) {
		return views.T(ctx, "refund.bad.provider", "Provider", k.dossier.Payment.Provider, "Why", refused.Reason)
	}
	return ""
}

// duplicateRefused answers what the store refused: nothing was stored, nothing is sent.
func (s *Server) duplicateRefused(c echo.Context, k duplicateCase, f duplicateForm, err error) error {
	ctx := s.viewContext(c)
	var (
		changed *store.RefundableChangedError
		refused *store.NotRefundableError
	)
	reused := errors.Is(err, store.ErrKeyReused)
	if !reused && !errors.As(err, &changed) && !errors.As(err, &refused) {
		return err
	}
	if k, err = s.duplicateCase(ctx, k.dossier.Payment.ID, k.charge); err != nil {
		return err
	}
	f.problem = s.duplicateChanged(ctx, k, f.expected)
	if reused {
		f.problem = views.T(ctx, "refund.conflict.form_used")
	}
	if f.problem == "" {
		f.problem = views.T(ctx, "conflict.look")
	}
	return s.renderDuplicate(c, http.StatusConflict, k, f)
}

// duplicateChanged says what is not as it was when the form was opened, or "".
func (s *Server) duplicateChanged(ctx context.Context, k duplicateCase, then int64) string {
	if k.extra.ID != "" && k.extra.Figures.Refundable != then {
		return s.refundChanged(ctx, k.dossier, k.extra.Figures, then)
	}
	return s.duplicateBlocked(ctx, k)
}

// duplicateBlocked says why the charge cannot be refunded this way now, or "".
func (s *Server) duplicateBlocked(ctx context.Context, k duplicateCase) string {
	p := k.dossier.Payment
	switch {
	case !s.canRefund(p.Provider):
		return views.T(ctx, "refund.no.cannot", "Provider", p.Provider)
	case p.Status != store.Succeeded:
		return views.T(ctx, "refund.no.status", "Status", views.Opt(ctx, "status.", string(p.Status)))
	case k.charge == p.ProviderPaymentID:
		return views.T(ctx, "duplicate.no.own")
	case k.extra.ID == "":
		return views.T(ctx, "duplicate.no.proof", "Provider", p.Provider)
	case k.extra.Figures.Refundable == 0:
		return s.refundChanged(ctx, k.dossier, k.extra.Figures, k.extra.Figures.Captured)
	}
	return ""
}

func (s *Server) renderDuplicate(c echo.Context, status int, k duplicateCase, f duplicateForm) error {
	ctx, p := s.viewContext(c), k.dossier.Payment
	props := components.ConfirmProps{
		Title: views.T(ctx, "duplicate.title"), Problem: f.problem, Facts: actionFacts(ctx, p), ActionID: newActionID(),
		Action: templ.SafeURL(duplicatePath(p)), Cancel: templ.SafeURL(views.PaymentPath(p.ID.String())),
		Hidden: []components.HiddenField{{Name: "charge", Value: k.charge},
			{Name: "expected_refundable", Value: strconv.FormatInt(k.extra.Figures.Refundable, 10)}},
		Submit: views.T(ctx, "duplicate.submit", "Money", views.Money(ctx, k.extra.Figures.Refundable, p.Currency)), Danger: true,
		Blocked: s.duplicateBlocked(ctx, k),
	}
	if f.problem != "" { // decided on other figures: look again first
		props.Blocked = views.T(ctx, "conflict.look")
	}
	if props.Blocked != "" {
		return s.renderConfirm(c, status, "payments", props.Title, props)
	}
	if f.actionID != uuid.Nil { // no effect happened under it
		props.ActionID = f.actionID.String()
	}
	props.Lead = views.T(ctx, "duplicate.lead", "Order", p.OrderRef, "Provider", p.Provider)
	props.Consequences = duplicateConsequences(ctx, k)
	props.Reason = &components.Field{ID: "reason", Label: views.T(ctx, "ui.reason"), Hint: views.T(ctx, "refund.new.reason_hint"),
		Value: f.reason, Error: f.wrong, Required: true, Max: maxReason}
	if f.wrong != "" {
		props.Errors = []components.FieldError{{FieldID: "reason", Text: props.Reason.Label + ": " + f.wrong}}
	}
	own := k.dossier.Charges[0]
	return s.renderFramed(c, status, "payments", props.Title, views.DuplicateConfirm(props, chargeSide(own), chargeSide(k.extra)))
}

func chargeSide(c store.TakenCharge) views.ChargeSide {
	return views.ChargeSide{ID: c.ID, Currency: c.Figures.Currency, MadeAt: c.MadeAt, Captured: c.Figures.Captured,
		Refunded: c.Figures.Refunded, Open: c.Figures.Pending + c.Figures.Unknown, Left: c.Figures.Refundable}
}

// duplicateConsequences says in numbers what the refund does, and what it leaves alone.
func duplicateConsequences(ctx context.Context, k duplicateCase) []components.Consequence {
	var out []components.Consequence
	add := func(tone components.Tone, text string) {
		out = append(out, components.Consequence{Text: text, Tone: tone})
	}
	p := k.dossier.Payment
	money := func(n int64) string { return views.Money(ctx, n, p.Currency) }
	var kept, others int64
	for _, c := range k.dossier.Charges {
		kept += c.Figures.Captured - c.Figures.Refunded
		if !c.Own && c.ID != k.extra.ID && c.Figures.Refundable > 0 {
			others++
		}
	}
	back := k.extra.Figures.Refundable
	add("", views.T(ctx, "duplicate.goes_back", "Money", money(back)))
	add("", views.T(ctx, "duplicate.stays", "Money", money(k.dossier.Charges[0].Figures.Refundable)))
	add("", views.T(ctx, "duplicate.customer", "Before", money(kept), "After", money(kept-back)))
	if w := k.dossier.Wallet; w != nil {
		add("", views.T(ctx, "duplicate.wallet", "Owner", w.OwnerRef, "Balance", money(w.Balance)))
	}
	add("", views.T(ctx, "refund.new.call", "Provider", p.Provider))
	if others == 0 {
		add("", views.T(ctx, "duplicate.settles", "Provider", p.Provider))
	} else {
		add("", views.N(ctx, "duplicate.remain", others))
	}
	add(components.ToneWarn, views.T(ctx, "refund.new.final"))
	return out
}
