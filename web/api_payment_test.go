package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/store"
)

// payments counts stored payments.
func (w *webtest) payments() (n int) {
	w.t.Helper()
	require.NoError(w.t, w.db.Pool.QueryRow(w.t.Context(), `SELECT count(*) FROM payments`).Scan(&n))
	return n
}

func TestCreatePaymentAnswersAtOnce(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	p := w.program()
	res := p.pay("order-1", goodPayment)
	require.Equal(t, http.StatusAccepted, res.StatusCode, res.body)
	require.Equal(t, "application/json", res.Header.Get("Content-Type"))
	require.Empty(t, res.Header.Get("Idempotent-Replayed"))

	got := decode[map[string]any](t, res)
	keys := make([]string, 0, len(got))
	for k := range got {
		keys = append(keys, k)
	}
	require.ElementsMatch(t, []string{"id", "order_ref", "provider", "amount", "currency", "status", "status_reason", "needs_review",
		"provider_payment_id", "next_check_at", "created_at", "updated_at", "timeline_url",
		"captured", "refunded", "refundable", "capture", "authorised", "authorised_until"}, keys)
	require.Equal(t, "pending", got["status"])
	require.InDelta(t, 4900, got["amount"], 0)
	require.Equal(t, []any{}, got["needs_review"])
	require.Regexp(t, regexp.MustCompile(`^2026-03-02T15:02:11(\.\d+)?Z$`), got["created_at"])
	require.Equal(t, "http://fusebox.test/api/v1/payments/"+got["id"].(string)+"/timeline", got["timeline_url"])
	require.Equal(t, "http://fusebox.test/api/v1/payments/"+got["id"].(string), res.Header.Get("Location"))
	require.Equal(t, 1, w.jobs.count("charge"))

	again := p.call(http.MethodGet, "/payments/"+got["id"].(string), "")
	require.Equal(t, http.StatusOK, again.StatusCode)
	require.JSONEq(t, res.body, again.body)

	timeline := p.call(http.MethodGet, "/payments/"+got["id"].(string)+"/timeline", "")
	require.Equal(t, http.StatusOK, timeline.StatusCode)
	require.Contains(t, timeline.body, `"kind":"created"`)
}

// The payment method to charge stands in the metadata, and is checked with the rest.
func TestCreatePaymentNamesAPaymentMethod(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	res := w.program().pay("k", `{"order_ref":"A-1","provider":"borealis","amount":1,"currency":"EUR",
		"metadata":{"payment_method":"pm_gone","customer_id":"cus_1"}}`)
	require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode, res.body)
	require.Contains(t, res.body, "metadata.payment_method")
	require.Contains(t, res.body, "is gone")
}

func TestCreatePaymentKeepsAllItWasTold(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	wallet := w.db.SeedWallet(t, "cust-1", "EUR")
	res := w.program().pay("k", `{"order_ref":"A-1","provider":"borealis","amount":1,"currency":"EUR","description":"Взуття",
		"customer":{"name":"Олена","email":"olena@example.org"},"wallet_id":"`+wallet.String()+`","metadata":{"cart":"7"}}`)
	require.Equal(t, http.StatusAccepted, res.StatusCode, res.body)
	id := uuid.MustParse(decode[map[string]any](t, res)["id"].(string))
	p, err := w.store.Payment(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "Взуття", p.Description)
	require.Equal(t, "Олена", p.CustomerName)
	require.Equal(t, "olena@example.org", p.CustomerEmail)
	require.Equal(t, wallet, *p.WalletID)
	require.Equal(t, map[string]string{"cart": "7"}, p.Metadata)
}

// Item 5 of the first issue: one key, one payment, however many ask at once.
func TestIdempotencyTwentyParallelIdenticalPostsAreOnePayment(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	p := w.program()
	replies := make([]reply, 20)
	var wg sync.WaitGroup
	for i := range replies {
		wg.Go(func() { replies[i] = p.pay("order-1", goodPayment) })
	}
	wg.Wait()
	ids, replayed := map[string]bool{}, 0
	for _, res := range replies {
		require.Equal(t, http.StatusAccepted, res.StatusCode, res.body)
		ids[decode[map[string]any](t, res)["id"].(string)] = true
		if res.Header.Get("Idempotent-Replayed") == "true" {
			replayed++
		}
	}
	require.Len(t, ids, 1)
	require.Equal(t, 19, replayed)
	require.Equal(t, 1, w.payments())
	require.Equal(t, 1, w.jobs.count("charge"))
}

func TestIdempotencyComparesContentNotBytes(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	p := w.program()
	first := p.pay("k", goodPayment)
	same := p.pay("k", `{ "currency":"EUR", "amount":4900, "provider":"atlas", "order_ref":"\u0041-1", "description":null }`)
	require.Equal(t, http.StatusAccepted, same.StatusCode)
	require.Equal(t, "true", same.Header.Get("Idempotent-Replayed"))
	require.JSONEq(t, first.body, same.body)
	problemField(t, p.pay("k", strings.Replace(goodPayment, "4900", "4901", 1)), http.StatusUnprocessableEntity, "Idempotency-Key")
	require.Equal(t, 1, w.payments())
}

func TestIdempotencyKeysBelongToTheirClient(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	require.Equal(t, http.StatusAccepted, w.program().pay("k", goodPayment).StatusCode)
	other := w.program().pay("k", strings.Replace(goodPayment, "A-1", "A-2", 1))
	require.Equal(t, http.StatusAccepted, other.StatusCode)
	require.Empty(t, other.Header.Get("Idempotent-Replayed"))
	require.Equal(t, 2, w.payments())
}

func TestIdempotencyRefusalsAreNotStored(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	p := w.program()
	require.Equal(t, http.StatusUnprocessableEntity, p.pay("k", `{"order_ref":"A-1"}`).StatusCode)
	res := p.pay("k", goodPayment)
	require.Equal(t, http.StatusAccepted, res.StatusCode)
	require.Empty(t, res.Header.Get("Idempotent-Replayed"))
}

func TestBadIdempotencyKeys(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	p := w.program()
	problemField(t, p.call(http.MethodPost, "/payments", goodPayment), http.StatusBadRequest, "Idempotency-Key")
	for _, key := range []string{"", strings.Repeat("k", 256), "a\tb", "ключ", "a\x7f"} {
		problemField(t, p.pay(key, goodPayment), http.StatusBadRequest, "Idempotency-Key")
	}
	r := httptest.NewRequest(http.MethodPost, "/api/v1/payments", strings.NewReader(goodPayment))
	r.Header = http.Header{"Authorization": {"Bearer " + p.secret}, "Content-Type": {"application/json"}, "Idempotency-Key": {"a", "b"}}
	problemField(t, w.do(r), http.StatusBadRequest, "Idempotency-Key")
	require.Zero(t, w.payments())
	require.Equal(t, http.StatusAccepted, p.pay(strings.Repeat("k", 255), goodPayment).StatusCode)
}

// A request whose key another one is just creating waits a little and is then told to
// come back; it is never a second payment.
func TestIdempotencyStillBeingCreatedIs409(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	p := w.program()
	require.Equal(t, http.StatusAccepted, p.pay("first", goodPayment).StatusCode)
	tx, err := w.db.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `INSERT INTO payments (id, client_id, idempotency_key, request_hash, order_ref, provider, amount, currency, status, created_at, updated_at)
		SELECT gen_random_uuid(), client_id, 'k', request_hash, 'A-9', provider, amount, currency, status, created_at, updated_at FROM payments`)
	require.NoError(t, err)

	start := time.Now()
	res := p.pay("k", strings.Replace(goodPayment, "A-1", "A-2", 1))
	require.Equal(t, http.StatusConflict, res.StatusCode, res.body)
	require.Equal(t, "1", res.Header.Get("Retry-After"))
	require.Less(t, time.Since(start), requestTimeout)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, http.StatusAccepted, p.pay("k", strings.Replace(goodPayment, "A-1", "A-2", 1)).StatusCode, "and then it goes through")
}

func TestAnOrderWithAnUnsettledPaymentIsBusy(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	p := w.program()
	for _, status := range []store.Status{store.Unknown, store.Processing} {
		ref := "B-" + string(status)
		open := w.db.SeedPayment(t, func(x *store.Payment) { x.OrderRef, x.Status = ref, status })
		body := strings.Replace(goodPayment, "A-1", ref, 1)
		got := problemField(t, p.pay("k-"+ref, body), http.StatusConflict, "order_ref")
		require.Contains(t, got.Detail, open.ID.String())
		require.Equal(t, "urn:fusebox:problem:order-busy", got.Type)
		allowed := strings.Replace(body, "{", `{"allow_concurrent":true,`, 1)
		require.Equal(t, http.StatusAccepted, p.pay("k2-"+ref, allowed).StatusCode)
	}
	w.db.SeedPayment(t, func(x *store.Payment) { x.OrderRef, x.Status = "C-1", store.Failed })
	require.Equal(t, http.StatusAccepted, p.pay("k3", strings.Replace(goodPayment, "A-1", "C-1", 1)).StatusCode)
}

func TestBadPaymentsAreRefusedAndNothingIsStored(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	p := w.program()
	euros := w.db.SeedWallet(t, "cust-1", "USD")
	with := func(member string) string { return strings.Replace(goodPayment, "{", "{"+member+",", 1) }
	amount := func(raw string) string { return strings.Replace(goodPayment, "4900", raw, 1) }
	for name, row := range map[string]struct {
		body   string
		status int
		field  string
	}{
		"fraction":         {amount("100.5"), 422, "amount"},
		"text":             {amount(`"100"`), 422, "amount"},
		"exponent":         {amount("1e3"), 422, "amount"},
		"negative":         {amount("-100"), 422, "amount"},
		"missing":          {strings.Replace(goodPayment, `"amount":4900,`, "", 1), 422, "amount"},
		"twice":            {with(`"amount":4900`), 422, "amount"},
		"unknown field":    {with(`"tip":1`), 422, "tip"},
		"unknown provider": {strings.Replace(goodPayment, "atlas", "zeus", 1), 422, "provider"},
		"unknown currency": {strings.Replace(goodPayment, "EUR", "XXZ", 1), 422, "currency"},
		"unknown wallet":   {with(`"wallet_id":"` + uuid.NewString() + `"`), 422, "wallet_id"},
		"foreign wallet":   {with(`"wallet_id":"` + euros.String() + `"`), 422, "currency"},
		"broken JSON":      {goodPayment[1:], 400, "body"},
		"array":            {"[" + goodPayment + "]", 400, "body"},
		"70 KB":            {with(`"description":"` + strings.Repeat("x", 70_000) + `"`), 413, "body"},
		"2 MB":             {with(`"description":"` + strings.Repeat("x", 2<<20) + `"`), 413, "body"},
	} {
		t.Log(name)
		problemField(t, p.pay("key "+name, row.body), row.status, row.field)
	}
	res := p.call(http.MethodPost, "/payments", goodPayment, "Idempotency-Key: k", "Content-Type: text/plain")
	problemField(t, res, http.StatusUnsupportedMediaType, "Content-Type")
	require.Zero(t, w.payments())
	require.Zero(t, w.jobs.count("charge"))
}
