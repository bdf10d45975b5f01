package adyen

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// fakeRefunds is the part of the fake that refunds; the fake's mutex guards it.
type fakeRefunds struct {
	next     []providertest.Behaviour
	received []providertest.ReceivedOperation
	booked   []provider.Object
	byKey    map[string]int // key → index in booked
}

var (
	_ providertest.OperationFake = (*fake)(nil)
	_ providertest.DisputeFake   = (*fake)(nil)
	_ providertest.LeakyFake     = (*fake)(nil)
	_ providertest.BodySigner    = (*fake)(nil)
)

func (f *fake) NextOperation(bs ...providertest.Behaviour) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refunds.next = append(f.refunds.next, bs...)
}

func (f *fake) ReceivedOperations() []providertest.ReceivedOperation {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.refunds.received)
}

func (f *fake) BookedOperations() []provider.Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.refunds.booked)
}

func (f *fake) BookOperation(o provider.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refunds.booked = append(f.refunds.booked, o)
}

// OperationEvent renders an event about a refund. One made in the Customer Area carries
// the payment's reference.
func (f *fake) OperationEvent(_ string, about provider.Object, at time.Time) (http.Header, []byte) {
	n := note{psp: about.ID, original: about.Child.ChargeID, account: testAccount, reference: about.Child.PaymentID,
		code: "REFUND", success: "true", money: about.Money, at: at}
	if about.Reference != "" {
		n.reference = "op-" + about.Reference
	}
	switch about.Outcome {
	case provider.Processing:
		n.code = "POSTPONED_REFUND"
	case provider.Failed:
		n.success, n.reason = "false", "Insufficient balance on payment"
	}
	return http.Header{}, notify(testHMAC, n)
}

func (f *fake) takeRefund(r *http.Request, body []byte) (providertest.Behaviour, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refunds.received = append(f.refunds.received, providertest.ReceivedOperation{
		ChargeID: r.PathValue("psp"), Key: r.Header.Get("Idempotency-Key"), Body: body,
	})
	if len(f.refunds.next) == 0 {
		return providertest.Succeed, f.leak
	}
	b := f.refunds.next[0]
	f.refunds.next = f.refunds.next[1:]
	return b, f.leak
}

// bookRefund makes the refund once per key.
func (f *fake) bookRefund(psp, key string, body []byte) provider.Object {
	var c struct {
		MerchantAccount, Reference string
		Amount                     struct {
			Currency string
			Value    int64
		}
	}
	if err := json.Unmarshal(body, &c); err != nil || c.MerchantAccount != testAccount || !strings.HasPrefix(c.Reference, "op-") {
		panic("not a request for a refund: " + string(body))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if i, ok := f.refunds.byKey[key]; ok {
		return f.refunds.booked[i]
	}
	o := provider.Object{
		ID: "REF" + strconv.Itoa(len(f.refunds.booked)+1), Reference: strings.TrimPrefix(c.Reference, "op-"), Status: "received",
		Money: minor(c.Amount.Currency, c.Amount.Value), Kind: provider.ObjectRefund, Child: provider.Child{ChargeID: psp},
	}
	f.refunds.byKey[key] = len(f.refunds.booked)
	f.refunds.booked = append(f.refunds.booked, o)
	return o
}

func renderedRefund(o provider.Object) map[string]any {
	return map[string]any{
		"merchantAccount": testAccount, "paymentPspReference": o.Child.ChargeID, "pspReference": o.ID,
		"reference": "op-" + o.Reference, "status": o.Status, "amount": wireAmount(o.Money),
	}
}

func (f *fake) refund(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	b, leak := f.takeRefund(r, body)
	if leak != "" {
		reply(w, http.StatusUnprocessableEntity, map[string]any{"status": 422, "errorCode": "167", "message": leak, "debug": leak})
		return
	}
	switch b {
	case providertest.Decline:
		fail(w, http.StatusUnprocessableEntity, "137", "Invalid amount specified", "validation")
		return
	case providertest.NotAllowed:
		htmlPage(w, http.StatusMethodNotAllowed)
		return
	case providertest.KeyReused:
		reply(w, http.StatusCreated, renderedRefund(provider.Object{ID: "REFX", Reference: "another", Status: "received", Child: provider.Child{ChargeID: r.PathValue("psp")}, Money: provider.Money{Amount: 100, Currency: "EUR"}}))
		return
	}
	if refuse(w, b, provider.Object{}) {
		return
	}
	respondRefund(w, r, b, f.bookRefund(r.PathValue("psp"), r.Header.Get("Idempotency-Key"), body))
}

func respondRefund(w http.ResponseWriter, r *http.Request, b providertest.Behaviour, o provider.Object) {
	switch b {
	case providertest.ChargeJunk:
		_, _ = io.WriteString(w, "OK, refunded")
		return
	case providertest.ChargeOther:
		o.Reference = "another"
	case providertest.ChargeOtherSum:
		o.Money.Amount += 100
	case providertest.ChargeOddStatus:
		o.Status = "queued"
	case providertest.ChargeTruncate:
		w.Header().Set("Content-Length", "400")
		_, _ = io.WriteString(w, `{"pspReference":"`+o.ID+`","status":"rec`)
		return
	case providertest.ChargeBadProxy, providertest.ChargeHTML, providertest.ChargeCut, providertest.ChargeHang:
		respond(w, r, b, o)
		return
	}
	reply(w, http.StatusCreated, renderedRefund(o))
}
