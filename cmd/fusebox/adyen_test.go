package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

const (
	adyenHMAC    = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
	adyenAccount = "ShopECOM"
)

// adyenStand stands in for Adyen: it books a payment once per key, forgets none, and
// misbehaves as the order's reference says.
type adyenStand struct {
	url, hook string

	mu       sync.Mutex
	made     map[string]string   // key → pspReference
	booked   map[string][]string // payment id → pspReferences
	arrivals map[string]int      // payment id → calls
	bodies   map[string]string   // key → the first body
	changed  []string            // keys that came with other bytes
	accepted []string            // what our side answered to each event
}

func newAdyenStand(t *testing.T, hook string) *adyenStand {
	t.Helper()
	a := &adyenStand{hook: hook, made: map[string]string{}, booked: map[string][]string{}, arrivals: map[string]int{}, bodies: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v71/payments", a.pay)
	for _, kind := range []string{"refunds", "captures", "cancels"} {
		mux.HandleFunc("POST /v71/payments/{psp}/"+kind, a.modify)
	}
	mux.HandleFunc("POST /v71/paymentMethods", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"paymentMethods":[]}`) })
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	a.url = srv.URL
	return a
}

// arrive notes a call under a key and says the how-manieth about its subject it is.
func (a *adyenStand) arrive(key, subject, body string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if first, ok := a.bodies[key]; ok && first != body {
		a.changed = append(a.changed, key)
	}
	a.bodies[key] = body
	a.arrivals[subject]++
	return a.arrivals[subject]
}

// book makes the payment of a key once.
func (a *adyenStand) book(key, id string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if psp, ok := a.made[key]; ok {
		return psp
	}
	psp := fmt.Sprintf("PSP%013d", len(a.made)+1)
	a.made[key] = psp
	a.booked[id] = append(a.booked[id], psp)
	return psp
}

type adyenAsk struct {
	Reference              string
	MerchantOrderReference string
	Amount                 json.RawMessage
}

// pay serves one charge. The order's reference is "FAULT-number".
func (a *adyenStand) pay(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var q adyenAsk
	if err := json.Unmarshal(raw, &q); err != nil {
		panic(err)
	}
	key := r.Header.Get("Idempotency-Key")
	nth := a.arrive(key, q.Reference, string(raw))
	fault, _, _ := strings.Cut(q.MerchantOrderReference, "-")
	w.Header().Set("Content-Type", "application/json")
	switch {
	case fault == "lost" && nth == 1:
		panic(http.ErrAbortHandler)
	case fault == "declined":
		_, _ = fmt.Fprintf(w, `{"pspReference":"NO%014d","resultCode":"Refused","refusalReason":"Refused","refusalReasonCode":"2","merchantReference":%q}`, nth, q.Reference)
		return
	case fault == "busy" && nth == 2:
		w.Header().Set("transient-error", "true")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"status":422,"errorCode":"704","message":"request already processed or in progress","errorType":"validation"}`)
		return
	}
	psp := a.book(key, q.Reference)
	switch {
	case (fault == "cut" || fault == "busy") && nth == 1:
		panic(http.ErrAbortHandler)
	case fault == "proxy" && nth == 1:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, "<html>502</html>")
	case fault == "silent":
		panic(http.ErrAbortHandler)
	case fault == "later":
		_, _ = fmt.Fprintf(w, `{"pspReference":%q,"resultCode":"Received","merchantReference":%q}`, psp, q.Reference)
	default:
		_, _ = fmt.Fprintf(w, `{"pspReference":%q,"resultCode":"Authorised","amount":%s,"merchantReference":%q}`, psp, q.Amount, q.Reference)
	}
}

// modify receives a refund, capture or cancellation; what became of it is told by event.
func (a *adyenStand) modify(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var q adyenAsk
	if err := json.Unmarshal(raw, &q); err != nil {
		panic(err)
	}
	psp := r.PathValue("psp")
	a.arrive(r.Header.Get("Idempotency-Key"), q.Reference, string(raw))
	ref := a.book(r.Header.Get("Idempotency-Key"), q.Reference)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	if q.Amount == nil {
		q.Amount = json.RawMessage("null")
	}
	_, _ = fmt.Fprintf(w, `{"merchantAccount":%q,"paymentPspReference":%q,"pspReference":%q,"reference":%q,"status":"received","amount":%s}`,
		adyenAccount, psp, ref, q.Reference, q.Amount)
}

// tell delivers an event, signed, and keeps what was answered.
func (a *adyenStand) tell(t *testing.T, code, psp, original, reference string, value int64) {
	t.Helper()
	secret, err := hex.DecodeString(adyenHMAC)
	require.NoError(t, err)
	mac := hmac.New(sha256.New, secret)
	_, _ = fmt.Fprintf(mac, "%s:%s:%s:%s:%d:EUR:%s:true", psp, original, adyenAccount, reference, value, code)
	raw, err := json.Marshal(map[string]any{"live": "false", "notificationItems": []any{map[string]any{"NotificationRequestItem": map[string]any{
		"pspReference": psp, "originalReference": original, "merchantAccountCode": adyenAccount, "merchantReference": reference,
		"amount": map[string]any{"currency": "EUR", "value": value}, "eventCode": code, "success": "true", "eventDate": time.Now().Format(time.RFC3339),
		"additionalData": map[string]string{"hmacSignature": base64.StdEncoding.EncodeToString(mac.Sum(nil))},
	}}}})
	require.NoError(t, err)
	resp, err := http.Post(a.hook, "application/json", bytes.NewReader(raw))
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(body))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.accepted = append(a.accepted, string(body))
}

// psps are the payments in the books for an id.
func (a *adyenStand) psps(id string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.booked[id]...)
}

// orderAdyen stores a payment on a stored token.
func (w *world) orderAdyen(ref string, capture ...string) store.Payment {
	w.t.Helper()
	c, err := w.store.CreatePayment(w.t.Context(), store.NewPayment{
		ClientID: "test", IdempotencyKey: uuid.NewString(), OrderRef: ref, Provider: "adyen-nl", Amount: 4900, Currency: "EUR",
		Capture: strings.Join(capture, ""), Metadata: map[string]string{provider.MetaPaymentMethod: "8415718415172204", provider.MetaCustomerID: "shopper_1"},
	}, store.Actor{Kind: "client", ID: "test", Name: "test"})
	require.NoError(w.t, err)
	return c.Payment
}

// TestAdyen: a provider that answers no question. Lost answers are settled by the same
// key and bytes, or by an event, with one payment each at most.
func TestAdyen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{})
	stand := newAdyenStand(t, w.url+"/webhooks/adyen-nl")
	prefix := providerPrefix("adyen-nl")
	w.env = append(w.env, "FUSEBOX_PROVIDERS=adyen-nl", prefix+"KIND=adyen", prefix+"BASE_URL="+stand.url, prefix+"API_KEY=AQEtest",
		prefix+"WEBHOOK_SECRETS="+adyenHMAC, prefix+"ACCOUNT="+adyenAccount, prefix+"KEY_LIFE=168h", prefix+"CONNECT_TIMEOUT=1s", prefix+"ANSWER_TIMEOUT=2s",
		prefix+"RECONCILE_PAUSES=1s", prefix+"QUICK_RECONCILE=500ms", prefix+"RETRY_PAUSES=500ms")
	w.serve()
	w.work()

	want := map[string]store.Status{
		"none-1": store.Succeeded, "cut-1": store.Succeeded, "cut-2": store.Succeeded, "lost-1": store.Succeeded, "proxy-1": store.Succeeded,
		"busy-1": store.Succeeded, "declined-1": store.Failed, "silent-1": store.Succeeded, "later-1": store.Succeeded,
	}
	payments := map[string]store.Payment{}
	for ref := range want {
		payments[ref] = w.orderAdyen(ref)
	}
	for _, ref := range []string{"silent-1", "later-1"} { // only an event tells
		id := payments[ref].ID.String()
		w.eventually(20*time.Second, ref+" arrived", func() bool { return len(stand.psps(id)) > 0 })
		for range 2 {
			stand.tell(t, "AUTHORISATION", stand.psps(id)[0], "", id, 4900)
		}
	}
	for ref, status := range want {
		p := w.settled(payments[ref].ID, 60*time.Second)
		require.Equal(t, status, p.Status, ref)
		require.Empty(t, p.NeedsReview, ref)
		made := 1
		if status == store.Failed {
			made = 0
		}
		require.Len(t, stand.psps(p.ID.String()), made, ref)
	}
	require.Equal(t, 1, w.scalar(`SELECT max(wire_sends) FROM attempts`))
	require.Zero(t, w.scalar(`SELECT count(*) FROM payment_events WHERE kind = 'lookup'`))

	paid := w.payment(payments["cut-1"].ID)
	refund := w.refund(paid, 900)
	reference := "op-" + refund.ID.String()
	w.eventually(20*time.Second, "the refund arrived", func() bool { return len(stand.psps(reference)) > 0 })
	stand.tell(t, "REFUND", stand.psps(reference)[0], stand.psps(paid.ID.String())[0], reference, 900)
	require.Equal(t, store.Succeeded, w.refundSettled(refund.ID, 30*time.Second).Status)

	for ref, amount := range map[string]int64{"held-1": 1000, "held-2": 0} { // a part is taken, and all is let go
		p := w.orderAdyen(ref, store.CaptureManual)
		w.eventually(30*time.Second, ref+" is held", func() bool { return w.payment(p.ID).AuthorisedAmount == 4900 })
		held := "hold-" + p.ID.String()
		charge := stand.psps(held)[0]
		stand.tell(t, "AUTHORISATION", charge, "", held, 4900)
		op := w.act(p, amount)
		reference := "op-" + op.ID.String()
		w.eventually(20*time.Second, "the request of "+ref+" arrived", func() bool { return len(stand.psps(reference)) > 0 })
		w.eventually(20*time.Second, "it is acknowledged", func() bool {
			now, err := w.store.Operation(t.Context(), op.ID)
			return err == nil && now.Status == store.Processing
		})
		require.Equal(t, store.Processing, w.payment(p.ID).Status, "received is not done, and authorised is not paid")
		code, value, want := "CAPTURE", amount, store.Succeeded
		if amount == 0 {
			code, value, want = "CANCELLATION", 4900, store.Failed
		}
		stand.tell(t, code, stand.psps(reference)[0], charge, reference, value)
		require.Equal(t, store.Succeeded, w.refundSettled(op.ID, 30*time.Second).Status, ref)
		after := w.settled(p.ID, 30*time.Second)
		require.Equal(t, want, after.Status, ref)
		require.Empty(t, after.NeedsReview, ref)
	}

	stand.mu.Lock()
	defer stand.mu.Unlock()
	require.Empty(t, stand.changed, "a key never carries other bytes")
	for _, answer := range stand.accepted {
		require.Equal(t, "[accepted]", answer)
	}
}
