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
	"time"
)

const stripeRefundsPath = "/v1/refunds"

// refundParams are the parameters that are taken; Stripe, too, refuses one it does not know.
var refundParams = []string{"payment_intent", "amount", "reason"}

// readStripeRefund reads the form of POST /v1/refunds. A non-nil error says what is wrong
// with it; what could be read is returned all the same.
func (s *Server) readStripeRefund(body []byte) (chargeRequest, *stripeError) {
	req := chargeRequest{face: FaceStripe}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return req, badParam("", "", "The form cannot be read.")
	}
	req.of, req.Reference = form.Get("payment_intent"), form.Get("metadata[operation_id]")
	for name := range form {
		if !slices.Contains(refundParams, name) && !strings.HasPrefix(name, "metadata[") {
			return req, badParam(name, "parameter_unknown", "Received unknown parameter: "+name)
		}
	}
	if req.of == "" {
		return req, badParam("payment_intent", "parameter_missing", "One of the following params should be provided for this request: payment_intent or charge.")
	}
	req = s.withPicks(req)
	parent, err := s.book.get(req.of)
	if err != nil || parent.Face != FaceStripe {
		return req, badParam("payment_intent", "resource_missing", "No such payment_intent: '"+req.of+"'")
	}
	req.Currency = parent.Currency
	return req, s.readRefundAmount(form, &req, parent)
}

// readRefundAmount reads the amount; without one, everything that is left is refunded.
func (s *Server) readRefundAmount(form url.Values, req *chargeRequest, parent Charge) *stripeError {
	if !form.Has("amount") {
		s.book.mu.Lock()
		defer s.book.mu.Unlock()
		_, left, _ := s.book.refundable(parent.ID) // what is not refundable is refused later
		req.minor = max(left, 1)
		return nil
	}
	units, err := strconv.ParseInt(form.Get("amount"), 10, 64)
	if err != nil || units <= 0 || units > maxAmount {
		return badParam("amount", "parameter_invalid_integer", "Invalid positive integer")
	}
	minor, ok := minorOf(units, parent.Currency)
	if !ok {
		return badParam("amount", "parameter_invalid_integer", "Invalid amount for this currency.")
	}
	req.minor = minor
	return nil
}

// postStripeRefund refunds an intent, or replays what the key's first call was told.
func (s *Server) postStripeRefund(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil { // it was read before, see received
		panic(err)
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		stripeFail(w, http.StatusBadRequest, *badParam("", "", "The Content-Type must be application/x-www-form-urlencoded."))
		return
	}
	req, bad := s.readStripeRefund(body)
	key := r.Header.Get(keyField)
	switch {
	case bad != nil && bad.Code == "resource_missing":
		stripeFail(w, http.StatusNotFound, *bad)
	case bad != nil:
		stripeFail(w, http.StatusBadRequest, *bad)
	case key == "" || s.opts.NoKeys:
		s.execute(w, r, req, operation{free: func() {}})
	case !goodKey(key):
		stripeFail(w, http.StatusBadRequest, *badParam("", "", "Idempotency keys must have up to 255 characters."))
	default:
		s.underKey(w, r, req, key, append([]byte(r.URL.Path+"\n"), body...))
	}
}

// getStripeRefund answers about one id.
func (s *Server) getStripeRefund(w http.ResponseWriter, r *http.Request) {
	if s.noStatus(w) {
		return
	}
	id := r.PathValue("id")
	c, err := s.book.copyOf(id, true)
	if err != nil && !errors.Is(err, errNoCharge) {
		s.stripeBroken(w, err)
		return
	}
	if s.lookupFails(w, "refund id "+id, c.subject()) {
		return
	}
	if err != nil || s.hidden(c) || s.gone(c) {
		stripeFail(w, http.StatusNotFound, *badParam("id", "resource_missing", "No such refund: '"+id+"'"))
		return
	}
	writeJSON(w, http.StatusOK, c.stripeRefund())
}

// listStripeRefunds answers with a page of the refunds, newest first.
func (s *Server) listStripeRefunds(w http.ResponseWriter, r *http.Request) {
	if s.noStatus(w) {
		return
	}
	of := r.URL.Query().Get("payment_intent")
	q, bad := readStripeList(withoutParam(r.URL.RawQuery, "payment_intent"))
	if bad != nil {
		stripeFail(w, http.StatusBadRequest, *bad)
		return
	}
	if s.lookupFails(w, "refunds of "+of, subject{reference: "refunds of " + of}) {
		return
	}
	sp := q.span()
	sp.refunds = true
	found, err := s.book.between(sp, func(c Charge) bool {
		return (of == "" || c.Of == of) && !s.hidden(c) && !s.gone(c)
	})
	if err != nil {
		s.stripeBroken(w, err)
		return
	}
	var items []stripeItem
	for _, c := range slices.Backward(found) {
		items = append(items, stripeItem{c.ID, c.stripeRefund()})
	}
	q.answer(w, stripeRefundsPath, items)
}

// withoutParam takes one parameter out of a query.
func withoutParam(raw, name string) string {
	q, err := url.ParseQuery(raw)
	if err != nil {
		return raw // for the reader to refuse
	}
	q.Del(name)
	return q.Encode()
}

// stripeRefundWords are Stripe's words for the statuses of a refund.
var stripeRefundWords = map[string]string{StatusProcessing: "pending", StatusRequiresAction: "requires_action"}

// stripeRefund renders a refund as Stripe would.
func (c Charge) stripeRefund() map[string]any {
	o := map[string]any{
		"id": c.ID, "object": "refund", "amount": unitsOf(c.Amount, c.Currency), "currency": strings.ToLower(c.Currency),
		"created": c.CreatedAt.Unix(), "payment_intent": c.Of, "charge": "ch_" + strings.TrimPrefix(c.Of, "pi_"),
		"reason": nil, "status": c.Status, "metadata": map[string]string{},
	}
	if word, ok := stripeRefundWords[c.Status]; ok {
		o["status"] = word
	}
	if c.Reference != "" {
		o["metadata"] = map[string]string{"operation_id": c.Reference, "payment_id": c.OfRef}
	}
	if c.Status == StatusFailed {
		o["failure_reason"] = "declined"
	}
	return o
}

// stripeCharge renders the charge behind an intent, as far as refunds concern it.
func (c Charge) stripeCharge() map[string]any {
	return map[string]any{
		"id": "ch_" + strings.TrimPrefix(c.ID, "pi_"), "object": "charge", "payment_intent": c.ID, "status": "succeeded",
		"amount": unitsOf(c.Amount, c.Currency), "amount_captured": unitsOf(c.taken(), c.Currency),
		"amount_refunded": unitsOf(c.Refunded, c.Currency), "refunded": c.Refunded == c.taken(),
		"currency": strings.ToLower(c.Currency), "created": c.CreatedAt.Unix(),
		"metadata": map[string]string{"payment_id": c.Reference},
	}
}

func (stripeFace) refundPrefix() string { return "re" }

func (stripeFace) refundedType() string { return eventRefunded }

func (stripeFace) noRefund(w http.ResponseWriter, why *notRefundable) {
	if why.status == http.StatusNotFound {
		stripeFail(w, why.status, *badParam("payment_intent", "resource_missing", "No such payment_intent."))
		return
	}
	code := map[string]string{"exceeds_refundable": "amount_too_large", "not_refundable": "payment_intent_unexpected_state"}[why.code]
	stripeFail(w, http.StatusBadRequest, *badParam(why.field, code, "Refund: "+why.message))
}

func (stripeFace) disputePrefix() string { return "dp" }

// stripeDisputeWords are Stripe's words for the states of a dispute.
var stripeDisputeWords = map[string]string{DisputeOpened: "needs_response", DisputeWon: "won", DisputeLost: "lost"}

func (stripeFace) disputeEvent(ev event, at time.Time, d Dispute, c Charge) (kind, body string) {
	kind = "charge.dispute.closed"
	if d.Status == DisputeOpened {
		kind = "charge.dispute.created"
	}
	return kind, stripeEvent(ev.ID, kind, at, "", map[string]any{
		"id": d.ID, "object": "dispute", "amount": unitsOf(d.Amount, d.Currency), "currency": strings.ToLower(d.Currency),
		"charge": "ch_" + strings.TrimPrefix(d.Of, "pi_"), "payment_intent": d.Of, "created": d.CreatedAt.Unix(),
		"reason": d.Reason, "status": stripeDisputeWords[d.Status],
		"evidence_details": map[string]any{"due_by": d.DueBy.Unix(), "has_evidence": false, "past_due": false, "submission_count": 0},
		"metadata":         map[string]string{},
	})
}
