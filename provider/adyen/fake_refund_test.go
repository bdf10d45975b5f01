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

// fakeRefunds is a part of the fake that modifies payments; the fake's mutex guards it.
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

func (f *fake) takeModification(m *fakeRefunds, r *http.Request, body []byte) (providertest.Behaviour, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m.received = append(m.received, providertest.ReceivedOperation{
		ChargeID: r.PathValue("psp"), Key: r.Header.Get("Idempotency-Key"), Body: body,
	})
	if len(m.next) == 0 {
		return providertest.Succeed, f.leak
	}
	b := m.next[0]
	m.next = m.next[1:]
	return b, f.leak
}

// bookModification makes the modification once per key.
func (f *fake) bookModification(m *fakeRefunds, prefix, psp, key string, body []byte) provider.Object {
	var c struct {
		MerchantAccount, Reference string
		Amount                     struct {
			Currency string
			Value    int64
		}
	}
	if err := json.Unmarshal(body, &c); err != nil || c.MerchantAccount != testAccount || !strings.HasPrefix(c.Reference, "op-") {
		panic("not a request for a modification: " + string(body))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if i, ok := m.byKey[key]; ok {
		return m.booked[i]
	}
	o := provider.Object{
		ID: prefix + strconv.Itoa(len(m.booked)+1), Reference: strings.TrimPrefix(c.Reference, "op-"), Status: "received",
		Money: minor(c.Amount.Currency, c.Amount.Value), Kind: provider.ObjectRefund, Child: provider.Child{ChargeID: psp},
	}
	m.byKey[key] = len(m.booked)
	m.booked = append(m.booked, o)
	return o
}

// renderedRefund is the answer to a modification. That to a cancellation has no amount.
func renderedRefund(o provider.Object) map[string]any {
	m := map[string]any{
		"merchantAccount": testAccount, "paymentPspReference": o.Child.ChargeID, "pspReference": o.ID,
		"reference": "op-" + o.Reference, "status": o.Status,
	}
	if o.Money.Amount != 0 {
		m["amount"] = wireAmount(o.Money)
	}
	return m
}

// modify serves one kind of modification.
func (f *fake) modify(m *fakeRefunds, prefix string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		b, leak := f.takeModification(m, r, body)
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
		if !refuse(w, b, provider.Object{}) {
			respondRefund(w, r, b, f.bookModification(m, prefix, r.PathValue("psp"), r.Header.Get("Idempotency-Key"), body))
		}
	}
}

func respondRefund(w http.ResponseWriter, r *http.Request, b providertest.Behaviour, o provider.Object) {
	switch b {
	case providertest.ChargeJunk:
		_, _ = io.WriteString(w, "OK, refunded")
		return
	case providertest.ChargeOther:
		o.Reference = "another"
	case providertest.ChargeOtherSum:
		o.Money = provider.Money{Amount: o.Money.Amount + 100, Currency: "EUR"}
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
