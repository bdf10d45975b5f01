package web

import (
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

// actionJSON is a capture or void as the API shows it. The amount is in minor units; of a
// void, what it lets go.
type actionJSON struct {
	ID           uuid.UUID              `json:"id"`
	Kind         provider.OperationKind `json:"kind"`
	PaymentID    uuid.UUID              `json:"payment_id"`
	Provider     string                 `json:"provider"`
	Amount       int64                  `json:"amount"`
	Currency     string                 `json:"currency"`
	Status       store.Status           `json:"status"`
	StatusReason string                 `json:"status_reason"`
	NeedsReview  []string               `json:"needs_review"`
	Reason       string                 `json:"reason"`
	Origin       string                 `json:"origin"`
	NextCheckAt  *string                `json:"next_check_at"`
	CreatedAt    string                 `json:"created_at"`
	UpdatedAt    string                 `json:"updated_at"`
	SettledAt    *string                `json:"settled_at"`
	PaymentURL   string                 `json:"payment_url"`
}

func (s *Server) actionJSON(o store.Operation) actionJSON {
	return actionJSON{
		ID: o.ID, Kind: o.Kind, PaymentID: o.PaymentID, Provider: o.Provider, Amount: o.Amount, Currency: o.Currency,
		Status: o.Status, StatusReason: o.StatusReason, NeedsReview: append([]string{}, o.NeedsReview...), Reason: o.Reason, Origin: o.Origin,
		NextCheckAt: apiTimePtr(o.NextCheckAt), CreatedAt: apiTime(o.CreatedAt), UpdatedAt: apiTime(o.UpdatedAt),
		SettledAt: apiTimePtr(o.SettledAt), PaymentURL: s.apiURL("/payments/" + o.PaymentID.String()),
	}
}

// heldJSON are the figures of a payment that is held until it is captured, in minor units.
type heldJSON struct {
	Currency        string  `json:"currency"`
	Authorised      int64   `json:"authorised"`
	AuthorisedUntil *string `json:"authorised_until"` // when the provider lets go by itself; null: not said
	Captured        int64   `json:"captured"`
	Capturable      int64   `json:"capturable"` // now: 0 while a capture or void is under way, or after it
}

func newHeld(f store.Capturable) heldJSON {
	return heldJSON{f.Currency, f.Authorised, apiTimePtr(f.Until), f.Captured, f.Capturable}
}

// captureProblem is a refusal with the figures as they are now.
type captureProblem struct {
	problem
	Held heldJSON `json:"held"`
}

// registerCaptureAPI adds captures and voids to the API. Who may make a payment may take
// what it holds, and let it go.
func (s *Server) registerCaptureAPI(v1 *echo.Group) {
	write := requireScope(store.ScopePayments)
	v1.POST("/payments/:id/capture", s.createAction(provider.OpCapture), write)
	v1.POST("/payments/:id/void", s.createAction(provider.OpVoid), write)
	v1.GET("/payments/:id/captures", s.listActions, requireScope(store.ScopePayments, store.ScopeRefunds))
	v1.GET("/captures/:id", s.getAction, requireScope(store.ScopePayments, store.ScopeRefunds))
}

func readAction(body *jsonObject, kind provider.OperationKind) (n store.NewAction, err error) {
	f := newForm(body)
	if kind == provider.OpCapture && f.has("amount") {
		n.Amount = f.amount("amount")
	}
	n.Reason = f.text("reason", 0, maxReason)
	if raw, ok := f.member("expected_capturable", false); ok {
		v, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil || v < 0 || string(raw) != strconv.FormatInt(v, 10) {
			f.refuse("expected_capturable", "must be an integer in minor units, zero or more")
		}
		n.ExpectedCapturable = &v
	}
	return n, f.finish()
}

// createAction stores a capture or void and its job and answers 202: the call itself
// happens in a job. The same key and content answer with the stored one.
func (s *Server) createAction(kind provider.OperationKind) echo.HandlerFunc {
	return func(c echo.Context) error {
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
		n, err := readAction(body, kind)
		if err != nil {
			return err
		}
		ctx := c.Request().Context()
		n.PaymentID, n.Kind, n.Origin, n.ClientID, n.IdempotencyKey = id, kind, store.OriginAPI, client(c).ID.String(), key
		pay, err := s.cfg.Store.Payment(ctx, id)
		if err != nil {
			return err
		}
		if err := s.checkAction(pay, n); err != nil {
			return err
		}
		made, err := s.requestAction(ctx, n, s.actor(c))
		if err != nil {
			return captureRefused(c, err)
		}
		if made.Replayed {
			c.Response().Header().Set("Idempotent-Replayed", "true")
		}
		c.Response().Header().Set(echo.HeaderLocation, s.apiURL("/captures/"+made.Operation.ID.String()))
		return answer(c, http.StatusAccepted, s.actionJSON(made.Operation))
	}
}

func (s *Server) requestAction(ctx context.Context, n store.NewAction, by store.Actor) (store.Action, error) {
	if n.Kind == provider.OpVoid {
		return s.cfg.Store.CreateVoid(ctx, n, by)
	}
	return s.cfg.Store.CreateCapture(ctx, n, by)
}

// canCapture reports whether a provider can hold money until it is captured.
func (s *Server) canCapture(name string) bool {
	a, ok := s.cfg.Registry.Get(name)
	return ok && a.Capabilities().Can(provider.OpCapture) && a.Capabilities().Can(provider.OpVoid)
}

// checkAction refuses what the provider could never be asked for: better now, with a
// field, than as a failed capture later.
func (s *Server) checkAction(pay store.Payment, n store.NewAction) error {
	if !s.canCapture(pay.Provider) {
		return invalid("payment", "is at "+pay.Provider+", which holds no money")
	}
	a, _ := s.cfg.Registry.Get(pay.Provider)
	op, ok := a.(provider.Operator)
	if !ok || !pay.Authorised() || pay.ProviderPaymentID == "" || n.Amount == 0 || n.Amount > pay.Amount {
		return nil // refused by the store, with the figures
	}
	_, err := op.FreezeOperation(provider.OperationRequest{OperationID: uuid.Nil.String(), Kind: n.Kind, PaymentID: pay.ID.String(),
		ProviderPaymentID: pay.ProviderPaymentID, Charged: pay.Money(), Money: provider.Money{Amount: n.Amount, Currency: pay.Currency}})
	var refused *provider.FieldError
	if errors.As(err, &refused) {
		return err
	}
	return nil
}

// captureRefused answers a refusal with the figures as they are now.
func captureRefused(c echo.Context, err error) error {
	var (
		changed *store.CapturableChangedError
		refused *store.NotCapturableError
		p       problem
		now     store.Capturable
	)
	const nothing = " Nothing was stored and nothing was sent."
	switch {
	case errors.As(err, &changed):
		now = changed.Figures
		p = newProblem(http.StatusConflict, "capturable-changed", "Changed meanwhile", fmt.Sprintf("Capturable is %d now, not %d.", now.Capturable, changed.Expected)+nothing)
		p.Errors = fieldErrors{{"expected_capturable", "is not what is capturable now"}}
	case errors.As(err, &refused):
		now = refused.Figures
		p = newProblem(http.StatusConflict, "not-capturable", "Not possible", captureRefusal(refused)+nothing)
		if refused.Why == store.RefusedTooMuch {
			p.Errors = fieldErrors{{"amount", "is more than is capturable"}}
		}
	default:
		return err
	}
	c.Response().Header().Set(echo.HeaderContentType, "application/problem+json")
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	c.Response().WriteHeader(p.Status)
	return c.Echo().JSONSerializer.Serialize(c, captureProblem{p, newHeld(now)}, "")
}

func captureRefusal(e *store.NotCapturableError) string {
	switch e.Why {
	case store.RefusedAutomatic:
		return "The money of this payment is taken with the charge."
	case store.RefusedNotAuthorised:
		return fmt.Sprintf("The payment is %s: nothing is held that could be taken or let go.", e.Status)
	case store.RefusedUnderWay:
		return fmt.Sprintf("A %s of %d is %s.", e.Figures.Live.Kind, e.Figures.Live.Amount, e.Figures.Live.Status)
	case store.RefusedTooMuch:
		return fmt.Sprintf("Of %d held, %d is capturable.", e.Figures.Authorised, e.Figures.Capturable)
	}
	return "This cannot be done."
}

// listActions answers with a payment's captures and voids, oldest first, and the figures.
func (s *Server) listActions(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	f, err := s.cfg.Store.Capturable(ctx, id)
	if err != nil {
		return err
	}
	ops, err := s.cfg.Store.OperationsOfPayment(ctx, id)
	if err != nil {
		return err
	}
	out := struct {
		PaymentID uuid.UUID `json:"payment_id"`
		heldJSON
		Data []actionJSON `json:"data"`
	}{id, newHeld(f), []actionJSON{}}
	for _, o := range ops {
		if o.Kind != provider.OpRefund {
			out.Data = append(out.Data, s.actionJSON(o))
		}
	}
	return answer(c, http.StatusOK, out)
}

// getAction answers with one capture or void as it is now.
func (s *Server) getAction(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	o, err := s.cfg.Store.Operation(c.Request().Context(), id)
	if err == nil && o.Kind == provider.OpRefund {
		err = store.ErrNotFound
	}
	if err != nil {
		return err
	}
	return answer(c, http.StatusOK, s.actionJSON(o))
}
