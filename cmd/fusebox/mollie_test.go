package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

// mollieStand stands in for Mollie: it books a payment once per key and misbehaves as the
// order's reference says ("FAULT-number").
type mollieStand struct {
	url string

	mu       sync.Mutex
	payments map[string]map[string]any // id → the payment
	byKey    map[string]string         // key → id
	posts    int
}

func newMollieStand(t *testing.T) *mollieStand {
	t.Helper()
	m := &mollieStand{payments: map[string]map[string]any{}, byKey: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v2/payments", m.create)
	mux.HandleFunc("GET /v2/payments/{id}", m.get)
	mux.HandleFunc("POST /v2/payments/{id}/captures", m.capture)
	mux.HandleFunc("POST /v2/payments/{id}/release-authorization", func(w http.ResponseWriter, _ *http.Request) {
		m.reply(w, http.StatusAccepted, map[string]any{}) // to be carried out, perhaps
	})
	mux.HandleFunc("GET /v2/payments", func(w http.ResponseWriter, _ *http.Request) {
		m.reply(w, http.StatusOK, map[string]any{"_embedded": map[string]any{"payments": []any{}}, "_links": map[string]any{"next": nil}})
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	m.url = srv.URL
	return m
}

func (m *mollieStand) reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/hal+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (m *mollieStand) create(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var q map[string]any
	if err := json.Unmarshal(raw, &q); err != nil {
		panic(err)
	}
	fault, _, _ := strings.Cut(q["metadata"].(map[string]any)["order_ref"].(string), "-")
	status := "paid"
	switch {
	case q["captureMode"] == "manual":
		status = "authorized"
	case fault == "later":
		status = "pending"
	}
	m.mu.Lock()
	m.posts++
	id, again := m.byKey[r.Header.Get("Idempotency-Key")]
	if !again {
		id = fmt.Sprintf("tr_%d", len(m.payments)+1)
		m.byKey[r.Header.Get("Idempotency-Key")] = id
		m.payments[id] = map[string]any{
			"resource": "payment", "id": id, "mode": "test", "status": status, "amount": q["amount"], "metadata": q["metadata"],
			"createdAt": time.Now().UTC().Format(time.RFC3339), "captureMode": q["captureMode"],
		}
	}
	p := m.payments[id]
	m.mu.Unlock()
	if fault == "cut" && !again {
		panic(http.ErrAbortHandler)
	}
	m.reply(w, http.StatusCreated, p)
}

func (m *mollieStand) get(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	p, ok := m.payments[r.PathValue("id")]
	m.mu.Unlock()
	if !ok {
		m.reply(w, http.StatusNotFound, map[string]any{"status": 404, "title": "Not Found", "detail": "No payment exists with this token."})
		return
	}
	m.reply(w, http.StatusOK, p)
}

// capture takes what a payment holds, or a part.
func (m *mollieStand) capture(w http.ResponseWriter, r *http.Request) {
	var q map[string]any
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		panic(err)
	}
	id := r.PathValue("id")
	m.set(id, map[string]any{"status": "paid", "amountCaptured": q["amount"]})
	m.reply(w, http.StatusCreated, map[string]any{"resource": "capture", "id": "cpt_1", "mode": "test", "status": "succeeded", "amount": q["amount"],
		"paymentId": id, "metadata": q["metadata"]})
}

// set changes members of a payment.
func (m *mollieStand) set(id string, members map[string]any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := map[string]any{}
	for _, from := range []map[string]any{m.payments[id], members} {
		for k, v := range from {
			changed[k] = v
		}
	}
	m.payments[id] = changed
}

// book puts a payment of somebody else's into the books.
func (m *mollieStand) book(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.payments[id] = map[string]any{"resource": "payment", "id": id, "mode": "test", "status": "paid", "amount": map[string]string{"currency": "EUR", "value": "49.00"}}
}

// becomes changes a payment's status and returns its id.
func (m *mollieStand) becomes(paymentID uuid.UUID, status string) (id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, p := range m.payments {
		if meta, ok := p["metadata"].(map[string]any); ok && meta["payment_id"] == paymentID.String() {
			changed := map[string]any{}
			for k, v := range p {
				changed[k] = v
			}
			changed["status"] = status
			m.payments[key], id = changed, key
		}
	}
	return id
}

// orderMollie stores a payment on a stored mandate.
func (w *world) orderMollie(ref string, capture ...string) store.Payment {
	w.t.Helper()
	c, err := w.store.CreatePayment(w.t.Context(), store.NewPayment{
		ClientID: "test", IdempotencyKey: uuid.NewString(), OrderRef: ref, Provider: "mollie-nl", Amount: 4900, Currency: "EUR",
		Capture: strings.Join(capture, ""), Metadata: map[string]string{provider.MetaPaymentMethod: "mdt_1", provider.MetaCustomerID: "cst_1"},
	}, store.Actor{Kind: "client", ID: "test", Name: "test"})
	require.NoError(w.t, err)
	return c.Payment
}

// hint delivers Mollie's classic webhook: an unsigned id.
func (w *world) hint(body string) int {
	w.t.Helper()
	resp, err := http.Post(w.url+"/webhooks/mollie-nl", "application/x-www-form-urlencoded", strings.NewReader(body))
	require.NoError(w.t, err)
	require.NoError(w.t, resp.Body.Close())
	return resp.StatusCode
}

// TestMollieHints: a webhook that is a bare id is fetched, and what it claims is never
// believed. Lookups are an hour away: only hints can settle anything here.
func TestMollieHints(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{})
	stand := newMollieStand(t)
	prefix := providerPrefix("mollie-nl")
	w.env = append(w.env, "FUSEBOX_PROVIDERS=mollie-nl", prefix+"KIND=mollie", prefix+"BASE_URL="+stand.url, prefix+"API_KEY=test_4711",
		prefix+"WEBHOOK_SECRETS=https://pay.example/webhooks/mollie-nl", prefix+"KEY_LIFE=1h", prefix+"CONNECT_TIMEOUT=1s", prefix+"ANSWER_TIMEOUT=2s",
		prefix+"RECONCILE_PAUSES=1h", prefix+"QUICK_RECONCILE=1h", prefix+"SYNC_EVERY=1h")
	w.serve()
	w.work()
	becomes := func(p store.Payment, want store.Status) {
		w.eventually(30*time.Second, string(want), func() bool { return w.payment(p.ID).Status == want })
	}
	require.Equal(t, store.Succeeded, w.settled(w.orderMollie("none-1").ID, 60*time.Second).Status)
	cut, later := w.orderMollie("cut-1"), w.orderMollie("later-1")
	becomes(cut, store.Unknown)
	becomes(later, store.Processing)
	stand.book("tr_stranger")

	for _, body := range []string{"id=tr_junk", "id=tr_stranger", "id=" + stand.becomes(later.ID, "pending")} {
		require.Equal(t, http.StatusOK, w.hint(body), body)
	}
	for _, forged := range []string{"", "id=", "id=" + url.QueryEscape("../balance"), `{"id":"event_1","type":"payment.paid","entityId":"tr_1"}x`} {
		require.Equal(t, http.StatusBadRequest, w.hint(forged), "%q is no hint, and unsigned", forged)
	}
	w.eventually(30*time.Second, "the hints are settled", func() bool {
		return w.scalar(`SELECT count(*) FROM webhook_events WHERE state IN ('ignored', 'unmatched', 'applied')`) == 3
	})
	require.Equal(t, 1, w.scalar(`SELECT count(*) FROM webhook_events WHERE state = 'ignored' AND provider_object_id = 'tr_junk'`))
	require.Equal(t, 1, w.scalar(`SELECT count(*) FROM webhook_events WHERE state = 'unmatched' AND provider_object_id = 'tr_stranger'`))
	require.Equal(t, store.Unknown, w.payment(cut.ID).Status)
	require.Equal(t, store.Processing, w.payment(later.ID).Status)

	for _, p := range []store.Payment{cut, later} {
		id := stand.becomes(p.ID, "paid")
		for range 3 {
			require.Equal(t, http.StatusOK, w.hint("id="+id))
		}
		require.Equal(t, store.Succeeded, w.settled(p.ID, 30*time.Second).Status)
	}
	require.Equal(t, 3, stand.posts, "one send each")

	// A chargeback stands in the payment that is fetched, and so does its end.
	id := stand.becomes(cut.ID, "paid")
	back := map[string]any{"resource": "chargeback", "id": "chb_1", "paymentId": id, "amount": map[string]string{"currency": "EUR", "value": "49.00"},
		"createdAt": time.Now().UTC().Add(-time.Hour).Format(time.RFC3339), "reversedAt": nil}
	for _, word := range []string{"opened", "won"} {
		if word == "won" {
			back["reversedAt"] = time.Now().UTC().Format(time.RFC3339)
		}
		stand.set(id, map[string]any{"_embedded": map[string]any{"chargebacks": []any{back}}})
		require.Equal(t, http.StatusOK, w.hint("id="+id))
		w.eventually(30*time.Second, "the chargeback is "+word, func() bool {
			return w.scalar(`SELECT count(*) FROM disputes WHERE dispute_id = 'chb_1' AND state = '`+word+`'`) == 1
		})
	}
	require.Equal(t, store.Succeeded, w.payment(cut.ID).Status, "a dispute is a matter of its own")

	// Money that is held: a part is taken, and all of another payment is let go.
	taken, freed := w.orderMollie("held-1", store.CaptureManual), w.orderMollie("held-2", store.CaptureManual)
	for _, p := range []store.Payment{taken, freed} {
		w.eventually(30*time.Second, "held", func() bool { return w.payment(p.ID).AuthorisedAmount == 4900 })
		require.Equal(t, store.Processing, w.payment(p.ID).Status)
	}
	require.Equal(t, store.Succeeded, w.refundSettled(w.act(taken, 1000).ID, 30*time.Second).Status)
	require.Equal(t, store.Succeeded, w.settled(taken.ID, 30*time.Second).Status)
	void := w.act(freed, 0)
	w.eventually(30*time.Second, "the release is accepted", func() bool {
		op, err := w.store.Operation(t.Context(), void.ID)
		return err == nil && op.Status == store.Processing
	})
	require.Equal(t, store.Processing, w.payment(freed.ID).Status, "accepted is not done")
	require.Equal(t, http.StatusOK, w.hint("id="+stand.becomes(freed.ID, "canceled")))
	require.Equal(t, store.Succeeded, w.refundSettled(void.ID, 30*time.Second).Status)
	require.Equal(t, store.Failed, w.settled(freed.ID, 30*time.Second).Status)
	require.Zero(t, w.scalar(`SELECT count(*) FROM payments WHERE needs_review <> '{}'`))
	require.Equal(t, 1, w.scalar(`SELECT max(wire_sends) FROM attempts`))
	require.Equal(t, 1, w.scalar(`SELECT max(n) FROM (SELECT count(*) AS n FROM payment_events
		WHERE to_status = 'succeeded' AND from_status <> to_status GROUP BY payment_id) x`))
}
