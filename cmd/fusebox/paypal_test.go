package main

import (
	"bytes"
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

// paypalStand stands in for PayPal: it makes an order once per request id, and
// misbehaves as the order's description says ("FAULT-number").
type paypalStand struct {
	url string

	mu       sync.Mutex
	orders   map[string]map[string]any // request id → the order
	posts    map[string]int            // payment id → orders asked for
	noTokens int                       // requests for a token still to fail
	tokens   int
	asks     int // requests for a token
}

func newPayPalStand(t *testing.T) *paypalStand {
	t.Helper()
	p := &paypalStand{orders: map[string]map[string]any{}, posts: map[string]int{}, noTokens: 2}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/oauth2/token", p.token)
	mux.HandleFunc("POST /v2/checkout/orders", p.create)
	mux.HandleFunc("GET /v2/checkout/orders/{id}", p.get)
	mux.HandleFunc("GET /v1/reporting/transactions", func(w http.ResponseWriter, _ *http.Request) { // it lags
		p.reply(w, http.StatusOK, map[string]any{"transaction_details": []any{}, "total_pages": 0})
	})
	mux.HandleFunc("POST /v1/notifications/verify-webhook-signature", p.verify)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	p.url = srv.URL
	return p
}

func (p *paypalStand) reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (p *paypalStand) token(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asks++
	if p.noTokens > 0 {
		p.noTokens--
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	p.tokens++
	p.reply(w, http.StatusOK, map[string]any{"access_token": "token1", "token_type": "Bearer", "expires_in": 32400})
}

func (p *paypalStand) create(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Units []map[string]any `json:"purchase_units"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.Header.Get("Authorization") != "Bearer token1" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	u, key := q.Units[0], r.Header.Get("PayPal-Request-Id")
	fault, _, _ := strings.Cut(u["description"].(string), "-")
	p.mu.Lock()
	p.posts[u["custom_id"].(string)]++
	order, again := p.orders[key]
	if !again && fault != "declined" {
		id := fmt.Sprintf("ORDER%d", len(p.orders)+1)
		order = map[string]any{"id": id, "intent": "CAPTURE", "status": "COMPLETED", "purchase_units": []any{map[string]any{
			"custom_id": u["custom_id"], "amount": u["amount"], "payments": map[string]any{"captures": []any{capturedOf(id, u)}},
		}}}
		p.orders[key] = order
	}
	p.mu.Unlock()
	switch {
	case fault == "declined":
		p.reply(w, http.StatusUnprocessableEntity, map[string]any{"name": "UNPROCESSABLE_ENTITY", "details": []any{map[string]string{"issue": "INSTRUMENT_DECLINED"}}})
	case fault == "cut" && !again:
		panic(http.ErrAbortHandler)
	default:
		p.reply(w, http.StatusCreated, order)
	}
}

func capturedOf(orderID string, u map[string]any) map[string]any {
	return map[string]any{
		"id": "C" + orderID, "status": "COMPLETED", "amount": u["amount"], "custom_id": u["custom_id"],
		"supplementary_data": map[string]any{"related_ids": map[string]string{"order_id": orderID}},
	}
}

func (p *paypalStand) get(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.orders {
		if o["id"] == r.PathValue("id") {
			p.reply(w, http.StatusOK, o)
			return
		}
	}
	p.reply(w, http.StatusNotFound, map[string]string{"name": "RESOURCE_NOT_FOUND"})
}

// verify believes deliveries with the transmission id "genuine".
func (p *paypalStand) verify(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	status := "FAILURE"
	if err == nil && bytes.Contains(body, []byte(`"transmission_id":"genuine"`)) && bytes.Contains(body, []byte(`"webhook_id":"HOOK1"`)) {
		status = "SUCCESS"
	}
	p.reply(w, http.StatusOK, map[string]string{"verification_status": status})
}

// capture is the capture of a payment, as an event tells of it.
func (p *paypalStand) capture(paymentID uuid.UUID) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.orders {
		u := o["purchase_units"].([]any)[0].(map[string]any)
		if u["custom_id"] == paymentID.String() {
			return u["payments"].(map[string]any)["captures"].([]any)[0]
		}
	}
	return nil
}

// tell delivers an event.
func (p *paypalStand) tell(t *testing.T, hook, transmission, id string, resource any) int {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"id": id, "event_type": "PAYMENT.CAPTURE.COMPLETED", "resource": resource})
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hook, bytes.NewReader(raw))
	require.NoError(t, err)
	req.Header.Set("Paypal-Transmission-Id", transmission)
	req.Header.Set("Paypal-Transmission-Time", time.Now().UTC().Format(time.RFC3339))
	req.Header.Set("Paypal-Transmission-Sig", "c2lnbmF0dXJl")
	req.Header.Set("Paypal-Cert-Url", "https://api.paypal.com/v1/notifications/certs/CERT-1")
	req.Header.Set("Paypal-Auth-Algo", "SHA256withRSA")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

// orderPayPal stores a payment on a vaulted card.
func (w *world) orderPayPal(ref string) store.Payment {
	w.t.Helper()
	c, err := w.store.CreatePayment(w.t.Context(), store.NewPayment{
		ClientID: "test", IdempotencyKey: uuid.NewString(), OrderRef: ref, Description: ref, Provider: "paypal-eu", Amount: 4900, Currency: "EUR",
		Metadata: map[string]string{provider.MetaPaymentMethod: "card:8kk8451t"},
	}, store.Actor{Kind: "client", ID: "test", Name: "test"})
	require.NoError(w.t, err)
	return c.Payment
}

// payPal configures the stand-in as the only provider.
func (w *world) payPal(stand *paypalStand) {
	prefix := providerPrefix("paypal-eu")
	w.env = append(w.env, "FUSEBOX_PROVIDERS=paypal-eu", prefix+"KIND=paypal", prefix+"BASE_URL="+stand.url, prefix+"API_KEY=id4711:secret4711",
		prefix+"WEBHOOK_SECRETS=api:HOOK1", prefix+"KEY_LIFE=6h", prefix+"CONNECT_TIMEOUT=1s", prefix+"ANSWER_TIMEOUT=2s",
		prefix+"RECONCILE_PAUSES=1s", prefix+"QUICK_RECONCILE=500ms", prefix+"RETRY_PAUSES=1s", prefix+"ABSENT_HORIZON=1s", prefix+"SYNC_EVERY=1h")
}

// TestPayPal: a token that is late sends nothing, one token serves all, and what the
// search does not know yet is never taken for absent.
func TestPayPal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{})
	stand := newPayPalStand(t)
	hook := w.url + "/webhooks/paypal-eu"
	w.payPal(stand)
	w.serve()
	w.work()
	paid, declined, cut := w.orderPayPal("none-1"), w.orderPayPal("declined-1"), w.orderPayPal("cut-1")
	require.Equal(t, store.Succeeded, w.settled(paid.ID, 60*time.Second).Status)
	require.Equal(t, store.Failed, w.settled(declined.ID, 30*time.Second).Status)
	require.NotZero(t, w.scalar(`SELECT count(*) FROM attempts WHERE outcome = 'not_sent' AND wire_sends = 0`), "two tokens failed first")
	require.Equal(t, 1, stand.tokens, "one token for all")

	w.eventually(30*time.Second, "the answer is lost", func() bool { return w.payment(cut.ID).Status != store.Pending })
	require.Equal(t, http.StatusBadRequest, stand.tell(t, hook, "forged", "WH-0", stand.capture(cut.ID)))
	require.Equal(t, http.StatusOK, stand.tell(t, hook, "genuine", "WH-1", stand.capture(cut.ID)))
	require.Equal(t, store.Succeeded, w.settled(cut.ID, 30*time.Second).Status)
	require.Len(t, stand.orders, 2)
	require.Equal(t, 1, w.scalar(`SELECT max(wire_sends) FROM attempts`))
	require.Zero(t, w.scalar(`SELECT count(*) FROM payments WHERE status_reason = 'not_received'`))
}

// TestPayPalTokenCircuit: no token is to be had. Its own circuit opens and no other; the
// charges wait, provably not sent, without a request more than the circuit admits; and
// with the first token they all go on.
func TestPayPalTokenCircuit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{})
	stand := newPayPalStand(t)
	stand.noTokens = 1 << 30
	w.payPal(stand)
	w.env = append(w.env, "FUSEBOX_CIRCUIT_OPEN_FOR=3s")
	w.serve()
	w.work("FUSEBOX_WORKER=one")
	var all []store.Payment
	for i := range 10 {
		all = append(all, w.orderPayPal(fmt.Sprintf("none-%d", i)))
	}
	opened := func(class string) int {
		return w.scalar(`SELECT count(*) FROM breaker_events WHERE class = $1 AND to_state = 'open'`, class)
	}
	w.eventually(60*time.Second, "the circuit of tokens opened", func() bool { return opened("token") > 0 })
	require.Zero(t, opened("charge"))
	require.Zero(t, opened("status"))
	require.Zero(t, w.scalar(`SELECT count(*) FROM attempts WHERE wire_sends > 0`))
	require.Zero(t, w.scalar(`SELECT count(*) FROM attempts WHERE outcome <> 'not_sent'`))
	require.Equal(t, len(all), w.count("paypal-eu", store.Pending))
	list := w.start(nil, "breaker", "list")
	require.NoError(t, list.exited(30*time.Second))
	require.Regexp(t, `(?m)^paypal-eu/token +(open|half_open) `, list.log.String())
	require.Regexp(t, `(?m)^paypal-eu/charge +closed `, list.log.String())

	stand.mu.Lock()
	stand.noTokens = 0
	failed := stand.asks
	stand.mu.Unlock()
	for _, p := range all {
		require.Equal(t, store.Succeeded, w.settled(p.ID, 60*time.Second).Status)
	}
	stand.mu.Lock()
	defer stand.mu.Unlock()
	require.Less(t, failed, 5+len(all), "five that opened it, and a probe now and then")
	require.Equal(t, 1, stand.tokens)
	require.Len(t, stand.orders, len(all))
	require.Zero(t, opened("charge"))
	w.eventually(30*time.Second, "the circuit of tokens closed", func() bool {
		return w.scalar(`SELECT count(*) FROM breaker_events WHERE class = 'token' AND to_state = 'closed'`) > 0
	})
}
