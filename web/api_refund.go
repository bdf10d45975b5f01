package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/provider"
	"fusebox/store"
)

// refundJSON is a refund as the API shows it. The amount is in minor units.
type refundJSON struct {
	ID               uuid.UUID    `json:"id"`
	PaymentID        uuid.UUID    `json:"payment_id"`
	Provider         string       `json:"provider"`
	ChargeID         string       `json:"charge_id"` // the provider's; a duplicate has another one than the payment
	Amount           int64        `json:"amount"`
	Currency         string       `json:"currency"`
	Status           store.Status `json:"status"`
	StatusReason     string       `json:"status_reason"`
	NeedsReview      []string     `json:"needs_review"`
	Reason           string       `json:"reason"`
	Origin           string       `json:"origin"`
	ProviderRefundID *string      `json:"provider_refund_id"`
	NextCheckAt      *string      `json:"next_check_at"`
	CreatedAt        string       `json:"created_at"`
	UpdatedAt        string       `json:"updated_at"`
	SettledAt        *string      `json:"settled_at"`
	PaymentURL       string       `json:"payment_url"`
}

func (s *Server) refundJSON(o store.Operation) refundJSON {
	out := refundJSON{
		ID: o.ID, PaymentID: o.PaymentID, Provider: o.Provider, ChargeID: o.ProviderPaymentID, Amount: o.Amount, Currency: o.Currency,
		Status: o.Status, StatusReason: o.StatusReason, NeedsReview: o.NeedsReview, Reason: o.Reason, Origin: o.Origin,
		NextCheckAt: apiTimePtr(o.NextCheckAt), CreatedAt: apiTime(o.CreatedAt), UpdatedAt: apiTime(o.UpdatedAt),
		SettledAt: apiTimePtr(o.SettledAt), PaymentURL: s.apiURL("/payments/" + o.PaymentID.String()),
	}
	if o.ProviderObjectID != "" {
		out.ProviderRefundID = &o.ProviderObjectID
	}
	if out.NeedsReview == nil {
		out.NeedsReview = []string{}
	}
	return out
}

// figuresJSON are the amounts of refunds on a payment's charge, in minor units: captured
// is refunded, pending, unknown and refundable together, unless the provider gave back
// more than it took.
type figuresJSON struct {
	Currency   string `json:"currency"`
	Captured   int64  `json:"captured"`
	Refunded   int64  `json:"refunded"`
	Pending    int64  `json:"pending"`
	Unknown    int64  `json:"unknown"`
	Refundable int64  `json:"refundable"`
}

func newFigures(f store.Refundable) figuresJSON {
	return figuresJSON{f.Currency, f.Captured, f.Refunded, f.Pending, f.Unknown, f.Refundable}
}

// refundProblem is a refusal with the figures as they are now, so that a program can
// decide again without another request.
type refundProblem struct {
	problem
	Refunds figuresJSON `json:"refunds"`
}

// registerRefundAPI adds refunds and disputes to the API. Making payments gives no right
// to give money back; either right lets a client read.
func (s *Server) registerRefundAPI(v1 *echo.Group) {
	read := requireScope(store.ScopePayments, store.ScopeRefunds)
	v1.POST("/payments/:id/refunds", s.createRefund, requireScope(store.ScopeRefunds))
	v1.GET("/payments/:id/refunds", s.listRefunds, read)
	v1.GET("/payments/:id/disputes", s.listDisputes, read)
	v1.GET("/refunds/:id", s.getRefund, read)
}

// maxChargeID is more than any provider's id of a charge.
const maxChargeID = 255

// refundBody is the content of a refund request.
type refundBody struct {
	amount   *int64 // nil: all that is refundable
	charge   string // empty: the payment's own; else a duplicate of it
	reason   string
	expected *int64 // the refundable amount the client was shown
}

func readRefund(body *jsonObject) (refundBody, error) {
	f := newForm(body)
	var r refundBody
	if f.has("amount") {
		n := f.amount("amount")
		r.amount = &n
	}
	r.charge = f.text("charge_id", 0, maxChargeID)
	r.reason = f.text("reason", 1, maxReason)
	if raw, ok := f.member("expected_refundable", false); ok {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil || n < 0 || string(raw) != strconv.FormatInt(n, 10) {
			f.refuse("expected_refundable", "must be an integer in minor units, zero or more")
		}
		r.expected = &n
	}
	return r, f.finish()
}

// has reports whether an optional member was sent; null counts as absent.
func (f *form) has(name string) bool {
	_, ok := f.member(name, false)
	return ok
}

// createRefund stores a refund and its job and answers 202: the refund itself happens in
// a job. The same key and content answer with the stored refund.
func (s *Server) createRefund(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	key, err := idempotencyKey(c)
	if err != nil {
		return err
	}
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	r, err := readRefund(body)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	pay, err := s.cfg.Store.Payment(ctx, id)
	if err != nil {
		return err
	}
	n := store.NewRefund{PaymentID: id, Origin: store.OriginAPI, ClientID: client(c).ID.String(), IdempotencyKey: key,
		ChargeID: r.charge, Reason: r.reason, ExpectedRefundable: r.expected}
	made, err := s.requestRefund(ctx, pay, n, r.amount, s.actor(c))
	if err != nil {
		return s.refundProblem(c, err)
	}
	if made.Replayed {
		c.Response().Header().Set("Idempotent-Replayed", "true")
	}
	c.Response().Header().Set(echo.HeaderLocation, s.apiURL("/refunds/"+made.Operation.ID.String()))
	return answer(c, http.StatusAccepted, s.refundJSON(made.Operation))
}

// refundTries is how often "all that is refundable" is read again when it changed
// between reading and asking.
const refundTries = 4

// requestRefund asks for a refund of amount, or of all that is refundable with nil.
// A request without an amount means the same when it is repeated, although less is
// refundable by then: the stored refund says how much.
func (s *Server) requestRefund(ctx context.Context, pay store.Payment, n store.NewRefund, amount *int64, by store.Actor) (made store.Refund, err error) {
	for range refundTries {
		known, err := s.cfg.Store.OperationByKey(ctx, n.ClientID, n.IdempotencyKey)
		repeat := err == nil
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return store.Refund{}, err
		}
		switch {
		case amount != nil:
			n.Amount = *amount
		case repeat:
			n.Amount = known.Amount
		default:
			f, err := s.cfg.Store.RefundableCharge(ctx, pay.ID, n.ChargeID)
			if err != nil {
				return store.Refund{}, err
			}
			n.Amount = max(f.Refundable, 1) // nothing left: refused with the figures
		}
		if !repeat {
			if err := s.checkRefund(pay, n.ChargeID, n.Amount); err != nil {
				return store.Refund{}, err
			}
		}
		made, err = s.cfg.Store.CreateRefund(ctx, n, by)
		if err == nil || amount != nil || repeat || !overtaken(err, n) {
			return made, err
		}
	}
	return made, err
}

// overtaken reports whether a request for everything was refused only because another
// one came between reading what is refundable and asking for it; maybe its own repeat.
func overtaken(err error, n store.NewRefund) bool {
	var refused *store.NotRefundableError
	return errors.Is(err, store.ErrKeyReused) ||
		n.ExpectedRefundable == nil && errors.As(err, &refused) && refused.Why == store.RefusedTooMuch && refused.Figures.Refundable > 0
}

// canRefund reports whether a provider can give money back.
func (s *Server) canRefund(name string) bool {
	a, ok := s.cfg.Registry.Get(name)
	return ok && a.Capabilities().Can(provider.OpRefund)
}

// checkRefund refuses what the provider could never be asked for: better now, with a
// field, than as a failed refund later. charge is a duplicate's id, or empty.
func (s *Server) checkRefund(pay store.Payment, charge string, amount int64) error {
	if !s.canRefund(pay.Provider) {
		return invalid("payment", "is at "+pay.Provider+", which cannot refund")
	}
	a, _ := s.cfg.Registry.Get(pay.Provider)
	op, ok := a.(provider.Operator)
	if !ok || pay.Status != store.Succeeded || pay.ProviderPaymentID == "" {
		return nil // refused by the store, with the figures
	}
	_, err := op.FreezeOperation(provider.OperationRequest{OperationID: uuid.Nil.String(), Kind: provider.OpRefund, PaymentID: pay.ID.String(),
		ProviderPaymentID: cmp.Or(charge, pay.ProviderPaymentID), Charged: pay.Money(), Money: provider.Money{Amount: amount, Currency: pay.Currency}})
	var refused *provider.FieldError
	if errors.As(err, &refused) {
		return err
	}
	return nil
}

// refundProblem answers a refusal with the figures as they are now.
func (s *Server) refundProblem(c echo.Context, err error) error {
	var (
		changed *store.RefundableChangedError
		refused *store.NotRefundableError
		p       problem
		now     store.Refundable
	)
	switch {
	case errors.As(err, &changed):
		now = changed.Figures
		p = newProblem(http.StatusConflict, "refundable-changed", "Changed meanwhile",
			fmt.Sprintf("Refundable is %d now, not %d. Nothing was stored and nothing was sent.", now.Refundable, changed.Expected),
			fieldError{"expected_refundable", "is not what is refundable now"})
	case errors.As(err, &refused):
		now = refused.Figures
		p = newProblem(http.StatusConflict, "not-refundable", "Not refundable", refusalText(refused)+" Nothing was stored and nothing was sent.")
		p.Errors = refusedField(refused)
	default:
		return err
	}
	c.Response().Header().Set(echo.HeaderContentType, "application/problem+json")
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	c.Response().WriteHeader(p.Status)
	return c.Echo().JSONSerializer.Serialize(c, refundProblem{p, newFigures(now)}, "")
}

// refusedField names the member of the request that the refusal is about, if any is.
func refusedField(e *store.NotRefundableError) fieldErrors {
	switch e.Why {
	case store.RefusedTooMuch:
		return fieldErrors{{"amount", "is more than is refundable"}}
	case store.RefusedPart:
		return fieldErrors{{"amount", "must be all that is left of the duplicate; leave it out"}}
	case store.RefusedOwnCharge:
		return fieldErrors{{"charge_id", "is the payment's own charge; leave it out to refund that"}}
	case store.RefusedNoDuplicate:
		return fieldErrors{{"charge_id", "is not a second successful charge of this payment"}}
	}
	return nil
}

func refusalText(e *store.NotRefundableError) string {
	switch e.Why {
	case store.RefusedNotSucceeded:
		return fmt.Sprintf("The payment is %s: it took no money that could be given back.", e.Status)
	case store.RefusedNoCharge:
		return "The provider's id of the charge is not known."
	case store.RefusedTooMuch:
		return fmt.Sprintf("Of %d captured, %d is refundable.", e.Figures.Captured, e.Figures.Refundable)
	case store.RefusedOwnCharge:
		return "With charge_id only a charge beside the payment's own is refunded."
	case store.RefusedNoDuplicate:
		return "Nothing proves that this charge took the money a second time."
	case store.RefusedPart:
		return fmt.Sprintf("A duplicate goes back whole: %d.", e.Figures.Refundable)
	}
	return "This cannot be refunded."
}

// duplicateJSON is a charge that took a payment's money once more, and what became of it.
type duplicateJSON struct {
	ChargeID  string `json:"charge_id"`
	CreatedAt string `json:"created_at"`
	figuresJSON
}

func newDuplicates(list []store.TakenCharge) []duplicateJSON {
	out := make([]duplicateJSON, len(list))
	for i, c := range list {
		out[i] = duplicateJSON{c.ID, apiTime(c.MadeAt), newFigures(c.Figures)}
	}
	return out
}

// listRefunds answers with a payment's refunds, oldest first, their figures, and the
// charges that took its money once more.
func (s *Server) listRefunds(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	f, err := s.cfg.Store.Refundable(ctx, id)
	if err != nil {
		return err
	}
	ops, err := s.cfg.Store.OperationsOfPayment(ctx, id)
	if err != nil {
		return err
	}
	extra, err := s.cfg.Store.Duplicates(ctx, id)
	if err != nil {
		return err
	}
	out := struct {
		PaymentID uuid.UUID `json:"payment_id"`
		figuresJSON
		Duplicates []duplicateJSON `json:"duplicates"`
		Data       []refundJSON    `json:"data"`
	}{id, newFigures(f), newDuplicates(extra), []refundJSON{}}
	for _, o := range ops {
		if o.Kind == provider.OpRefund {
			out.Data = append(out.Data, s.refundJSON(o))
		}
	}
	return answer(c, http.StatusOK, out)
}

// getRefund answers with one refund as it is now.
func (s *Server) getRefund(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	o, err := s.cfg.Store.Operation(c.Request().Context(), id)
	if err == nil && o.Kind != provider.OpRefund {
		err = store.ErrNotFound
	}
	if err != nil {
		return err
	}
	return answer(c, http.StatusOK, s.refundJSON(o))
}

// disputeJSON is a dispute as the API shows it. The amount is in minor units; null: the
// provider did not say.
type disputeJSON struct {
	ID        string  `json:"id"` // the provider's
	Provider  string  `json:"provider"`
	ChargeID  string  `json:"charge_id"`
	State     string  `json:"state"`
	Amount    *int64  `json:"amount"`
	Currency  *string `json:"currency"`
	Reason    string  `json:"reason"`
	DueBy     *string `json:"due_by"`
	OpenedAt  *string `json:"opened_at"`
	UpdatedAt string  `json:"updated_at"`
}

// listDisputes answers with a payment's disputes, oldest first.
func (s *Server) listDisputes(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	if _, err := s.cfg.Store.Payment(ctx, id); err != nil {
		return err
	}
	list, err := s.cfg.Store.DisputesOfPayment(ctx, id)
	if err != nil {
		return err
	}
	out := make([]disputeJSON, len(list))
	for i, d := range list {
		out[i] = disputeJSON{ID: d.DisputeID, Provider: d.Provider, ChargeID: d.ChargeID, State: d.State, Reason: d.Reason,
			DueBy: apiTimePtr(d.DueBy), OpenedAt: apiTimePtr(d.OpenedAt), UpdatedAt: apiTime(d.UpdatedAt)}
		if d.Amount > 0 {
			out[i].Amount, out[i].Currency = &d.Amount, &d.Currency
		}
	}
	return answer(c, http.StatusOK, map[string]any{"payment_id": id, "data": out})
}
