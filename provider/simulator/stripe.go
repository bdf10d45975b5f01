package simulator

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// FaceStripe names the face that speaks Stripe's API: what Manual.Face and Charge.Face
// say of charges made through it.
//
//	POST /v1/payment_intents              create and confirm in one; nothing else is taken
//	GET  /v1/payment_intents/{id}
//	GET  /v1/payment_intents              newest first: limit, starting_after, ending_before, created[…]
//	GET  /v1/payment_intents/search       query=metadata['payment_id']:'…'; a second behind
//	POST /v1/payment_intents/{id}/cancel
//	POST /v1/refunds                      payment_intent, amount, metadata[operation_id]
//	GET  /v1/refunds/{id}
//	GET  /v1/refunds                      newest first: payment_intent and what lists take
//	GET  /v1/events, /v1/events/{id}      everything told, delivered or not
//	GET  /v1/balance
//
// The key comes as a bearer token or as the user of basic authentication. The simulator
// is always in test mode (livemode false), so its key should begin with sk_test_.
// metadata[payment_id] is the reference, metadata[order_ref] picks faults. Amounts are in
// Stripe's units and stand in the ledger in ISO minor units.
//
// Half of the payments that wait for their customer are told as Stripe tells it of an
// absent customer: 402 authentication_required around an intent that asks for another
// payment method.
const FaceStripe = "stripe"

const intentsPath = "/v1/payment_intents"

// stripeHandler serves the Stripe face.
func (s *Server) stripeHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+intentsPath, s.postIntent)
	mux.HandleFunc("GET "+intentsPath, s.listIntents)
	mux.HandleFunc("GET "+intentsPath+"/search", s.searchIntents)
	mux.HandleFunc("GET "+intentsPath+"/{id}", s.getIntent)
	mux.HandleFunc("POST "+intentsPath+"/{id}/capture", s.postIntentAct)
	mux.HandleFunc("POST "+intentsPath+"/{id}/cancel", s.postIntentAct)
	mux.HandleFunc("POST "+stripeRefundsPath, s.postStripeRefund)
	mux.HandleFunc("GET "+stripeRefundsPath, s.listStripeRefunds)
	mux.HandleFunc("GET "+stripeRefundsPath+"/{id}", s.getStripeRefund)
	mux.HandleFunc("GET /v1/events", s.listStripeEvents)
	mux.HandleFunc("GET /v1/events/{id}", s.getStripeEvent)
	mux.HandleFunc("GET /v1/balance", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"object": "balance", "livemode": false, "available": []any{}, "pending": []any{}})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		stripeFail(w, http.StatusNotFound, stripeError{Type: stripeInvalid, Message: "Unrecognized request URL (" + r.Method + ": " + r.URL.Path + ")."})
	})
	return s.stripeSignedIn(mux)
}

// stripeSignedIn demands the account's key.
func (s *Server) stripeSignedIn(next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(s.opts.APIKey))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, _, basic := r.BasicAuth()
		if !basic {
			scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			if strings.EqualFold(scheme, "Bearer") {
				key = strings.TrimSpace(token)
			}
		}
		got := sha256.Sum256([]byte(key))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="Stripe"`)
			stripeFail(w, http.StatusUnauthorized, stripeError{Type: stripeInvalid, Message: "Invalid API Key provided."})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Types of a Stripe error.
const (
	stripeInvalid     = "invalid_request_error"
	stripeCard        = "card_error"
	stripeIdempotency = "idempotency_error"
	stripeAPI         = "api_error"
)

// stripeError is Stripe's error object.
type stripeError struct {
	Type          string        `json:"type"`
	Code          string        `json:"code,omitempty"`
	DeclineCode   string        `json:"decline_code,omitempty"`
	Message       string        `json:"message"`
	Param         string        `json:"param,omitempty"`
	PaymentIntent *stripeIntent `json:"payment_intent,omitempty"`
}

// stripeFail answers with an error. Stripe-Should-Retry says whether the same request
// may come again.
func stripeFail(w http.ResponseWriter, status int, e stripeError) {
	retry := "false"
	if status == http.StatusConflict || status == http.StatusTooManyRequests {
		retry = "true"
	}
	w.Header().Set("Stripe-Should-Retry", retry)
	writeJSON(w, status, map[string]stripeError{"error": e})
}

// badParam is a request that names something wrong.
func badParam(param, code, message string) *stripeError {
	return &stripeError{Type: stripeInvalid, Code: code, Param: param, Message: message}
}
