package simulator

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// intentParams are the parameters that are taken; Stripe, too, refuses one it does not
// know.
var intentParams = []string{
	"amount", "currency", "confirm", "off_session", "payment_method", "customer", "description",
	"capture_method", "confirmation_method", "return_url",
	"automatic_payment_methods[enabled]", "automatic_payment_methods[allow_redirects]",
}

// readIntent reads the form of POST /v1/payment_intents. A non-nil error says what is
// wrong with it; what could be read is returned all the same.
func readIntent(body []byte) (chargeRequest, *stripeError) {
	req := chargeRequest{face: FaceStripe}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return req, badParam("", "", "The form cannot be read.")
	}
	req.Reference, req.OrderRef = form.Get("metadata[payment_id]"), form.Get("metadata[order_ref]")
	req.Capture = form.Get("capture_method")
	req.Description, req.Currency = form.Get("description"), strings.ToUpper(form.Get("currency"))
	for name := range form {
		if !slices.Contains(intentParams, name) && !strings.HasPrefix(name, "metadata[") {
			return req, badParam(name, "parameter_unknown", "Received unknown parameter: "+name)
		}
	}
	return req, checkIntent(form, &req)
}

// checkIntent checks what an intent must have, and reads its amount.
func checkIntent(form url.Values, req *chargeRequest) *stripeError {
	units, err := strconv.ParseInt(form.Get("amount"), 10, 64)
	switch {
	case !form.Has("amount"):
		return badParam("amount", "parameter_missing", "Missing required param: amount.")
	case err != nil || units <= 0 || units > maxAmount:
		return badParam("amount", "parameter_invalid_integer", "Invalid positive integer")
	case form.Get("currency") != strings.ToLower(req.Currency) || !known(req.Currency):
		return badParam("currency", "", "Invalid currency: "+form.Get("currency")+".")
	case form.Get("confirm") != "true":
		return badParam("confirm", "parameter_missing", "This simulator only takes intents that are confirmed as they are created.")
	case form.Get("payment_method") == "":
		return badParam("payment_method", "parameter_missing", "You cannot confirm this PaymentIntent because it's missing a payment method.")
	}
	for name, values := range form {
		if strings.HasPrefix(name, "metadata[") && (len(values[0]) > 500 || len(name) > 40+len("metadata[]")) {
			return badParam(name, "", "Metadata values can have up to 500 characters.")
		}
	}
	minor, ok := minorOf(units, req.Currency)
	if !ok {
		return badParam("amount", "parameter_invalid_integer", "Invalid amount for this currency.")
	}
	req.minor = minor
	return nil
}

// postIntent makes a charge, or replays what the key's first call was told. Without a key
// nothing is kept.
func (s *Server) postIntent(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil { // it was read before, see received
		panic(err)
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		stripeFail(w, http.StatusBadRequest, *badParam("", "", "The Content-Type must be application/x-www-form-urlencoded."))
		return
	}
	req, bad := readIntent(body)
	key := r.Header.Get(keyField)
	switch {
	case bad != nil:
		stripeFail(w, http.StatusBadRequest, *bad)
	case key == "" || s.opts.NoKeys:
		s.execute(w, r, req, operation{free: func() {}})
	case !goodKey(key):
		stripeFail(w, http.StatusBadRequest, *badParam("", "", "Idempotency keys must have up to 255 characters."))
	default:
		s.underKey(w, r, req, key, body)
	}
}

// stripeRefusals are the faults that book nothing, in Stripe's words.
var stripeRefusals = map[Fault]refusal{
	Hang: refusals[Hang],
	Throttle429: func(s *Server, w http.ResponseWriter, _ *http.Request, t Timing, req chargeRequest) {
		w.Header().Set("Retry-After", s.retryAfter(req.Reference, t.RetryAfter))
		stripeFail(w, http.StatusTooManyRequests, stripeError{Type: stripeInvalid, Code: "rate_limit", Message: "Request rate limit exceeded."})
	},
	Rejected422: func(_ *Server, w http.ResponseWriter, _ *http.Request, _ Timing, _ chargeRequest) {
		stripeFail(w, http.StatusBadRequest, *badParam("description", "parameter_invalid_string_blank", "This account cannot take this description."))
	},
	Unauthorized401: func(_ *Server, w http.ResponseWriter, _ *http.Request, _ Timing, _ chargeRequest) {
		stripeFail(w, http.StatusUnauthorized, stripeError{Type: stripeInvalid, Code: "api_key_expired", Message: "Expired API Key provided."})
	},
	Forbidden403: func(_ *Server, w http.ResponseWriter, _ *http.Request, _ Timing, _ chargeRequest) {
		stripeFail(w, http.StatusForbidden, stripeError{Type: stripeInvalid, Code: "account_invalid", Message: "The account may not take payments."})
	},
}

// cancelIntent ends an intent that is still undecided.
func (s *Server) cancelIntent(w http.ResponseWriter, r *http.Request) {
	c, err := s.Complete(r.PathValue("id"), StatusCanceled)
	switch {
	case err == nil:
		writeJSON(w, http.StatusOK, c.intent(s.publicURL()))
	case errors.Is(err, errDecided):
		s.unexpectedState(w, r.PathValue("id"))
	case errors.Is(err, errNoCharge):
		noSuchIntent(w, r.PathValue("id"))
	default:
		s.stripeBroken(w, err)
	}
}

// unexpectedState refuses to change an intent that is decided.
func (s *Server) unexpectedState(w http.ResponseWriter, id string) {
	c, err := s.book.get(id)
	if err != nil {
		s.stripeBroken(w, err)
		return
	}
	intent := c.intent(s.publicURL())
	stripeFail(w, http.StatusBadRequest, stripeError{
		Type: stripeInvalid, Code: "payment_intent_unexpected_state", PaymentIntent: &intent,
		Message: "You cannot capture or cancel this PaymentIntent because it has a status of " + intent.Status + ".",
	})
}

func noSuchIntent(w http.ResponseWriter, id string) {
	stripeFail(w, http.StatusNotFound, *badParam("intent", "resource_missing", "No such payment_intent: '"+id+"'"))
}

// stripeBroken answers when the ledger cannot be written.
func (s *Server) stripeBroken(w http.ResponseWriter, err error) {
	s.opts.Log.Error("ledger failed", "error", err)
	stripeFail(w, http.StatusInternalServerError, stripeError{Type: stripeAPI, Message: "The ledger cannot be written."})
}
