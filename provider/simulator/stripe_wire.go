package simulator

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// stripeAPIVersion is what events say they were rendered in.
const stripeAPIVersion = "2026-03-25.dahlia"

// stripeIntent is a PaymentIntent on the wire.
type stripeIntent struct {
	ID               string            `json:"id"`
	Object           string            `json:"object"`
	Amount           int64             `json:"amount"`
	AmountCapturable int64             `json:"amount_capturable"`
	AmountReceived   int64             `json:"amount_received"`
	CanceledAt       *int64            `json:"canceled_at"`
	Cancellation     *string           `json:"cancellation_reason"`
	CaptureMethod    string            `json:"capture_method"`
	ClientSecret     string            `json:"client_secret"`
	Created          int64             `json:"created"`
	Currency         string            `json:"currency"`
	LastPaymentError *stripeError      `json:"last_payment_error"`
	LatestCharge     *string           `json:"latest_charge"`
	Livemode         bool              `json:"livemode"`
	Metadata         map[string]string `json:"metadata"`
	NextAction       *stripeAction     `json:"next_action"`
	PaymentMethod    *string           `json:"payment_method"`
	Types            []string          `json:"payment_method_types"`
	Status           string            `json:"status"`
}

// stripeAction says what the customer has to do.
type stripeAction struct {
	Type          string            `json:"type"`
	RedirectToURL map[string]string `json:"redirect_to_url"`
}

// intent renders a charge as Stripe would; base is the provider's URL.
func (c Charge) intent(base string) stripeIntent {
	method, charge := "pm_card_visa", "ch_"+strings.TrimPrefix(c.ID, "pi_")
	pi := stripeIntent{
		ID: c.ID, Object: "payment_intent", Amount: unitsOf(c.Amount, c.Currency), CaptureMethod: "automatic",
		ClientSecret: c.ID + "_secret_" + strings.TrimPrefix(c.ID, "pi_"), Created: c.CreatedAt.Unix(),
		Currency: strings.ToLower(c.Currency), Metadata: map[string]string{}, PaymentMethod: &method,
		Types: []string{"card"}, Status: c.Status,
	}
	if c.Reference != "" {
		pi.Metadata["payment_id"] = c.Reference
	}
	if c.OrderRef != "" {
		pi.Metadata["order_ref"] = c.OrderRef
	}
	if c.Manual {
		pi.CaptureMethod = "manual"
	}
	switch {
	case c.Status == StatusSucceeded:
		pi.AmountReceived, pi.LatestCharge = unitsOf(c.taken(), c.Currency), &charge
	case c.Status == StatusHeld:
		pi.AmountCapturable, pi.LatestCharge = pi.Amount, &charge
	case c.Status == StatusCanceled:
		at, why := c.UpdatedAt.Unix(), "requested_by_customer"
		if c.Code == codeExpired {
			why = "automatic"
		}
		pi.CanceledAt, pi.Cancellation = &at, &why
	case c.Status == StatusFailed, c.absent():
		e := c.failure()
		pi.Status, pi.PaymentMethod, pi.LastPaymentError, pi.LatestCharge = "requires_payment_method", nil, &e, &charge
	case c.Status == StatusRequiresAction:
		pi.NextAction = &stripeAction{Type: "redirect_to_url", RedirectToURL: map[string]string{"url": base + "/actions/" + c.ID}}
	}
	return pi
}

// absent reports whether a charge that waits for its customer is told as a failed
// attempt of an absent one.
func (c Charge) absent() bool {
	return c.Status == StatusRequiresAction && mix(0, "absent customer", c.Reference)%2 == 0
}

// failure is why the last attempt failed, in Stripe's two codes.
func (c Charge) failure() stripeError {
	if c.Status == StatusRequiresAction {
		return stripeError{Type: stripeCard, Code: "authentication_required", DeclineCode: "authentication_required",
			Message: "Your card was declined. This transaction requires authentication."}
	}
	e := stripeError{Type: stripeCard, Code: "card_declined", DeclineCode: c.Code, Message: c.Message}
	switch c.Code {
	case "expired_card":
		e.Code = c.Code
	case "card_declined", "":
		e.DeclineCode = "generic_decline"
	case "limit_exceeded":
		e.DeclineCode = "withdrawal_count_limit_exceeded"
	}
	return e
}

// Stripe's minor units where they are not ISO's: so many of them make one of ISO's.
var (
	stripeTimes   = map[string]int64{"ISK": 100, "UGX": 100}
	stripeDivides = map[string]int64{"MGA": 100}
	// stripeSteps are multiples that an amount must be of.
	stripeSteps = map[string]int64{"ISK": 100, "UGX": 100, "BHD": 10, "JOD": 10, "KWD": 10, "OMR": 10, "TND": 10}
)

// unitsOf converts ISO minor units to Stripe's.
func unitsOf(minor int64, currency string) int64 {
	return minor * max(stripeTimes[currency], 1) / max(stripeDivides[currency], 1)
}

// minorOf converts Stripe's units to ISO minor units, if Stripe takes them at all.
func minorOf(units int64, currency string) (int64, bool) {
	if units%max(stripeSteps[currency], 1) != 0 {
		return 0, false
	}
	return units * max(stripeDivides[currency], 1) / max(stripeTimes[currency], 1), true
}

// stripeFace speaks Stripe's API.
type stripeFace struct{}

func (stripeFace) idPrefix() string { return "pi" }

func (stripeFace) truth(c Charge, base string) (int, []byte) {
	if c.refund() {
		return http.StatusOK, mustJSON(c.stripeRefund())
	}
	intent := c.intent(base)
	if intent.LastPaymentError == nil {
		return http.StatusOK, mustJSON(intent)
	}
	e := *intent.LastPaymentError
	e.PaymentIntent = &intent
	return http.StatusPaymentRequired, mustJSON(map[string]stripeError{"error": e})
}

func (stripeFace) internalError() []byte {
	return mustJSON(map[string]stripeError{"error": {Type: stripeAPI, Message: "Something went wrong on Stripe's end."}})
}

func (stripeFace) refusal(fault Fault) refusal { return stripeRefusals[fault] }

func (stripeFace) lie(fault Fault, c Charge) map[string]any {
	switch fault {
	case AmountMisreported:
		if c.Manual && c.Status == StatusSucceeded {
			return map[string]any{"amount_received": unitsOf(altered(c.Captured), c.Currency)}
		}
		n := unitsOf(altered(c.Amount), c.Currency)
		return map[string]any{"amount": n, "amount_received": n}
	case WrongShape:
		return map[string]any{"amount": map[string]any{"value": c.Amount}}
	case UnmappedStatus:
		return map[string]any{"status": "settled_in_part"}
	}
	return nil
}

func (stripeFace) keyTaken(w http.ResponseWriter, reused bool) {
	if reused {
		stripeFail(w, http.StatusBadRequest, stripeError{Type: stripeIdempotency,
			Message: "Keys for idempotent requests can only be used with the same parameters they were first used with."})
		return
	}
	stripeFail(w, http.StatusConflict, stripeError{Type: stripeIdempotency, Code: "idempotency_key_in_use",
		Message: "There is currently another in-progress request using this Idempotent Key."})
}

func (stripeFace) eventType(c Charge) string {
	switch {
	case c.refund() && c.Status == StatusFailed:
		return "refund.failed"
	case c.refund():
		return eventRefund
	case c.absent(), c.Status == StatusFailed:
		return "payment_intent.payment_failed"
	case c.Status == StatusCanceled:
		return "payment_intent.canceled"
	case c.Status == StatusHeld:
		return "payment_intent.amount_capturable_updated"
	}
	return "payment_intent." + c.Status
}

func (stripeFace) decisive(kind string) bool {
	return kind == eventRefund || kind == "refund.failed" || kind == "payment_intent.succeeded" || kind == "payment_intent.payment_failed" || kind == "payment_intent.canceled"
}

func (stripeFace) eventBody(ev event, at time.Time, c Charge, base string) string {
	switch {
	case c.refund():
		return stripeEvent(ev.ID, ev.Type, at, c.Key, c.stripeRefund())
	case ev.Type == eventRefunded:
		return stripeEvent(ev.ID, ev.Type, at, "", c.stripeCharge())
	}
	return stripeEvent(ev.ID, ev.Type, at, c.Key, c.intent(base))
}

func (stripeFace) unrelated(ev event, at time.Time, account string) (kind, body string) {
	const unrelated = "customer.updated"
	return unrelated, stripeEvent(ev.ID, unrelated, at, "", map[string]any{"id": "cus_1", "object": "customer", "description": account})
}

func (stripeFace) signatureHeader() string { return "Stripe-Signature" }

func (stripeFace) keepsEvents() bool { return true }

// stripeEvent renders an event; key is the idempotency key of the request behind it.
func stripeEvent(id, kind string, at time.Time, key string, object any) string {
	request := map[string]any{"id": nil, "idempotency_key": nil}
	if key != "" {
		request["idempotency_key"] = key
	}
	return string(mustJSON(map[string]any{
		"id": id, "object": "event", "api_version": stripeAPIVersion, "created": at.Unix(), "type": kind,
		"livemode": false, "pending_webhooks": 1, "request": request, "data": map[string]any{"object": object},
	}))
}

// mustJSON marshals what always can be: types of ours.
func mustJSON(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return body
}
