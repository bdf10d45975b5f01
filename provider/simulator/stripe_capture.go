package simulator

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// intentActPath reads the intent's id and what to do out of the path of a capture or
// cancellation.
func intentActPath(path string) (id, act string, ok bool) {
	rest, ok := strings.CutPrefix(path, intentsPath+"/")
	if !ok {
		return "", "", false
	}
	id, word, ok := strings.Cut(rest, "/")
	switch {
	case !ok || id == "":
	case word == "capture":
		return id, actCapture, true
	case word == "cancel":
		return id, actVoid, true
	}
	return "", "", false
}

// readIntentAct reads the form of a capture or cancellation. Without an amount a capture
// takes all of it. What could be read is returned with the error.
func (s *Server) readIntentAct(id, act string, body []byte) (chargeRequest, *stripeError) {
	req := chargeRequest{face: FaceStripe, of: id, act: act}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return req, badParam("", "", "The form cannot be read.")
	}
	c, err := s.book.get(id)
	if err != nil || c.Face != FaceStripe {
		return req, badParam("intent", "resource_missing", "No such payment_intent: '"+id+"'")
	}
	req.Currency, req.minor = c.Currency, c.Amount
	req.Reference = form.Get("metadata[operation_id]")
	if req.Reference == "" {
		req.Reference = act + " of " + c.Reference
	}
	req = s.withPicks(req)
	if act == actVoid || !form.Has("amount_to_capture") {
		return req, nil
	}
	units, err := strconv.ParseInt(form.Get("amount_to_capture"), 10, 64)
	if err != nil || units <= 0 || units > maxAmount {
		return req, badParam("amount_to_capture", "parameter_invalid_integer", "Invalid positive integer")
	}
	minor, ok := minorOf(units, req.Currency)
	if !ok {
		return req, badParam("amount_to_capture", "parameter_invalid_integer", "Invalid amount for this currency.")
	}
	req.minor = minor
	return req, nil
}

// postIntentAct captures or cancels what an intent holds, or replays what the key's first
// call was told. An intent that never held anything is canceled as it is.
func (s *Server) postIntentAct(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil { // it was read before, see received
		panic(err)
	}
	id, act, _ := intentActPath(r.URL.Path)
	req, bad := s.readIntentAct(id, act, body)
	key := r.Header.Get(keyField)
	switch c, err := s.book.get(id); {
	case bad != nil && bad.Code == "resource_missing":
		noSuchIntent(w, id)
	case bad != nil:
		stripeFail(w, http.StatusBadRequest, *bad)
	case act == actVoid && err == nil && !c.Manual:
		s.cancelIntent(w, r)
	case key == "" || s.opts.NoKeys:
		s.execute(w, r, req, operation{free: func() {}})
	case !goodKey(key):
		stripeFail(w, http.StatusBadRequest, *badParam("", "", "Idempotency keys must have up to 255 characters."))
	default:
		s.underKey(w, r, req, key, append([]byte(r.URL.Path+"\n"), body...))
	}
}

// intentActed is the honest answer to a capture or cancellation.
func intentActed(c Charge, fault Fault, base string) (int, []byte) {
	intent := c.intent(base)
	if c.Status == StatusHeld && fault == Decline {
		return http.StatusPaymentRequired, mustJSON(map[string]stripeError{"error": {Type: stripeCard, Code: "card_declined",
			DeclineCode: "generic_decline", Message: "The bank does not pay what it held.", PaymentIntent: &intent}})
	}
	return http.StatusOK, mustJSON(intent)
}
