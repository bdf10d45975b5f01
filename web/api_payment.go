package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/provider"
	"fusebox/store"
)

// paymentJSON is a payment as the API shows it. Amounts are in minor units.
type paymentJSON struct {
	ID                uuid.UUID    `json:"id"`
	OrderRef          string       `json:"order_ref"`
	Provider          string       `json:"provider"`
	Amount            int64        `json:"amount"`
	Currency          string       `json:"currency"`
	Status            store.Status `json:"status"`
	StatusReason      string       `json:"status_reason"`
	NeedsReview       []string     `json:"needs_review"`
	ProviderPaymentID *string      `json:"provider_payment_id"`
	NextCheckAt       *string      `json:"next_check_at"`
	CreatedAt         string       `json:"created_at"`
	UpdatedAt         string       `json:"updated_at"`
	TimelineURL       string       `json:"timeline_url"`
	Captured          int64        `json:"captured"`
	Refunded          int64        `json:"refunded"`   // given back for sure
	Refundable        int64        `json:"refundable"` // captured less all refunds that are not failed
	Capture           string       `json:"capture"`
	Authorised        int64        `json:"authorised"` // held until it is captured, by the provider's word
	AuthorisedUntil   *string      `json:"authorised_until"`
}

func (s *Server) paymentJSON(p store.Payment, f store.Refundable) paymentJSON {
	out := paymentJSON{
		ID: p.ID, OrderRef: p.OrderRef, Provider: p.Provider, Amount: p.Amount, Currency: p.Currency,
		Status: p.Status, StatusReason: p.StatusReason, NeedsReview: p.NeedsReview,
		NextCheckAt: apiTimePtr(p.NextCheckAt), CreatedAt: apiTime(p.CreatedAt), UpdatedAt: apiTime(p.UpdatedAt),
		TimelineURL: s.apiURL("/payments/" + p.ID.String() + "/timeline"),
		Captured:    f.Captured, Refunded: f.Refunded, Refundable: f.Refundable,
		Capture: p.Capture, Authorised: p.AuthorisedAmount, AuthorisedUntil: apiTimePtr(p.AuthorisedUntil),
	}
	if p.ProviderPaymentID != "" {
		out.ProviderPaymentID = &p.ProviderPaymentID
	}
	if out.NeedsReview == nil {
		out.NeedsReview = []string{}
	}
	return out
}

// apiURL is the absolute address of an API path.
func (s *Server) apiURL(path string) string { return s.base + "/api/v1" + path }

// Lengths of a payment's texts, in characters.
const (
	maxOrderRef    = 100
	maxDescription = 500
	maxCustomer    = 200
)

// createWait bounds how long a create waits for another request with the same key.
const createWait = 4 * time.Second

// createPayment stores a payment and its charge job and answers 202: the charge
// itself happens in a job, so a hanging provider never holds this request.
func (s *Server) createPayment(c echo.Context) error {
	key, err := idempotencyKey(c)
	if err != nil {
		return err
	}
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	n, err := s.readPayment(body)
	if err != nil {
		return err
	}
	n.ClientID, n.IdempotencyKey = client(c).ID.String(), key
	made, err := s.insertPayment(c.Request().Context(), n, s.actor(c))
	if errors.Is(err, store.ErrWalletNotFound) {
		return invalid("wallet_id", "names no wallet")
	}
	if err != nil {
		return err
	}
	var figures store.Refundable // of a new payment: nothing yet
	if made.Replayed {
		c.Response().Header().Set("Idempotent-Replayed", "true")
		if figures, err = s.cfg.Store.Refundable(c.Request().Context(), made.Payment.ID); err != nil {
			return err
		}
	}
	c.Response().Header().Set(echo.HeaderLocation, s.apiURL("/payments/"+made.Payment.ID.String()))
	return answer(c, http.StatusAccepted, s.paymentJSON(made.Payment, figures))
}

// insertPayment creates n. When another request is creating a payment under the same
// key and does not get done, the answer is ErrInFlight: come back, 409.
func (s *Server) insertPayment(ctx context.Context, n store.NewPayment, by store.Actor) (store.Created, error) {
	waiting, cancel := context.WithTimeout(ctx, createWait)
	defer cancel()
	made, err := s.cfg.Store.CreatePayment(waiting, n, by)
	if err == nil || ctx.Err() != nil {
		return made, err
	}
	busy := store.IsContention(err) || (waiting.Err() != nil && s.cfg.Store.Ready(ctx) == nil)
	if busy {
		return made, errors.Join(store.ErrInFlight, err)
	}
	return made, err
}

// readPayment reads a create request's content, or says all that is wrong with it.
func (s *Server) readPayment(body *jsonObject) (store.NewPayment, error) {
	f := newForm(body)
	n := store.NewPayment{
		OrderRef:        f.text("order_ref", 1, maxOrderRef),
		Provider:        f.text("provider", 1, maxOrderRef),
		Amount:          f.amount("amount"),
		Currency:        f.text("currency", 1, 3),
		Description:     f.text("description", 0, maxDescription),
		Metadata:        f.texts("metadata"),
		WalletID:        f.id("wallet_id"),
		Capture:         f.text("capture", 0, maxOrderRef),
		AllowConcurrent: f.boolean("allow_concurrent"),
	}
	f.object("customer", func(f *form) {
		n.CustomerName = f.text("name", 0, maxCustomer)
		if n.CustomerEmail = f.text("email", 0, maxCustomer); n.CustomerEmail != "" && store.CheckEmail(n.CustomerEmail) != nil {
			f.refuse("email", "is not an email address")
		}
	})
	s.checkCharge(f, n)
	return n, f.finish()
}

// checkCharge refuses what the named provider could never be asked to charge: better
// now, with a field, than as a failed payment later.
func (s *Server) checkCharge(f *form, n store.NewPayment) {
	adapter, known := s.cfg.Registry.Get(n.Provider)
	if n.Provider != "" && !known {
		f.refuse("provider", "is not configured")
	}
	if n.Currency != "" && !knownCurrency(n.Currency) {
		f.refuse("currency", "is not a known ISO 4217 currency")
	}
	switch n.Capture {
	case "", store.CaptureAutomatic:
	case store.CaptureManual:
		if known && !s.canCapture(n.Provider) {
			f.refuse("capture", "must be automatic: "+n.Provider+" holds no money")
		}
	default:
		f.refuse("capture", "must be automatic or manual")
	}
	if len(*f.errors) > 0 {
		return
	}
	_, err := adapter.Freeze(provider.ChargeRequest{
		PaymentID: uuid.Nil.String(), OrderRef: n.OrderRef, Money: provider.Money{Amount: n.Amount, Currency: n.Currency},
		Description: n.Description, CustomerName: n.CustomerName, CustomerEmail: n.CustomerEmail,
		ManualCapture: n.Capture == store.CaptureManual,
		PaymentMethod: n.Metadata[provider.MetaPaymentMethod], CustomerID: n.Metadata[provider.MetaCustomerID],
	})
	var refused *provider.FieldError
	if errors.As(err, &refused) {
		f.refuse(refused.Field, refused.Reason)
	}
}

// knownCurrency reports whether code is an ISO 4217 currency in use, in upper case.
func knownCurrency(code string) bool {
	_, known := provider.Exponent(code)
	return known
}

// id reads an optional UUID.
func (f *form) id(name string) *uuid.UUID {
	text := f.text(name, 0, maxKey)
	if text == "" {
		return nil
	}
	id, err := uuid.Parse(text)
	if err != nil {
		f.refuse(name, "is not an id")
		return nil
	}
	return &id
}

// getPayment answers with one payment as it is now.
func (s *Server) getPayment(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	p, err := s.cfg.Store.Payment(c.Request().Context(), id)
	if err != nil {
		return err
	}
	f, err := s.cfg.Store.Refundable(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return answer(c, http.StatusOK, s.paymentJSON(p, f))
}

// eventJSON is one entry of a payment's timeline.
type eventJSON struct {
	At     string         `json:"at"`
	Kind   string         `json:"kind"`
	Source string         `json:"source"`
	From   store.Status   `json:"from_status"`
	To     store.Status   `json:"to_status"`
	Reason string         `json:"reason"`
	Detail map[string]any `json:"evidence"`
}

// getTimeline answers with everything that happened to a payment, oldest first.
func (s *Server) getTimeline(c echo.Context) error {
	id, err := pathID(c)
	if err != nil {
		return err
	}
	events, err := s.cfg.Store.Timeline(c.Request().Context(), id)
	if err != nil {
		return err
	}
	out := make([]eventJSON, len(events))
	for i, e := range events {
		out[i] = eventJSON{apiTime(e.At), e.Kind, e.Source, e.FromStatus, e.ToStatus, e.Reason, e.Evidence}
	}
	return answer(c, http.StatusOK, map[string]any{"payment_id": id, "data": out})
}
