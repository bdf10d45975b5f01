package mollie

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

const (
	testKey    = "test_dHar4XY7LxsDOtmnkVtjNVWXLSlXsM"
	testSecret = "signing-secret-of-a-test"
)

// fake is Mollie under the conformance suite's control. It is written from Mollie's
// documentation and shares no code with the adapter.
type fake struct {
	url string

	mu       sync.Mutex
	next     []providertest.Behaviour
	ask      providertest.AskBehaviour
	received []providertest.Received
	bodies   []map[string]any
	asked    []*url.URL
	booked   []provider.Object
	byKey    map[string]int // key → index in booked
	page     int            // most payments on a page, whatever was asked for; 0: 250
	refunds  refundBooks
	actions  actionBooks
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{byKey: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v2/payments", f.charge)
	mux.HandleFunc("GET /v2/payments", f.list)
	mux.HandleFunc("GET /v2/payments/{id}", f.get)
	mux.HandleFunc("GET /v2/methods", f.methods)
	mux.HandleFunc("POST /v2/payments/{id}/captures", f.capture)
	mux.HandleFunc("POST /v2/payments/{id}/release-authorization", f.release)
	mux.HandleFunc("POST /v2/payments/{id}/refunds", f.refund)
	mux.HandleFunc("GET /v2/payments/{id}/refunds", f.listRefunds)
	mux.HandleFunc("GET /v2/payments/{id}/refunds/{refund}", f.getRefund)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	f.url = srv.URL
	return f
}

func (f *fake) settings() provider.Settings {
	return provider.Settings{
		Name: "mollie-nl", BaseURL: f.url + "/v2", APIKey: testKey, WebhookSecrets: []string{testSecret},
		ConnectTimeout: 2 * time.Second, AnswerTimeout: 4 * time.Second,
	}
}

// noSleep lets a lookup's retries follow at once.
func noSleep(context.Context, time.Duration) error { return nil }

func (f *fake) adapter(t *testing.T, edits ...func(*provider.Settings)) *Adapter {
	t.Helper()
	s := f.settings()
	for _, edit := range edits {
		edit(&s)
	}
	a, err := New(s, Options{Sleep: noSleep})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a
}

func (f *fake) Next(bs ...providertest.Behaviour) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = append(f.next, bs...)
}

func (f *fake) Ask(b providertest.AskBehaviour) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ask = b
}

func (f *fake) Received() []providertest.Received {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.received)
}

func (f *fake) Questions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked)
}

func (f *fake) Booked() []provider.Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.booked)
}

func (f *fake) Book(o provider.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.booked = append(f.booked, o)
}

// decimals are Mollie's, by hand and not by our table.
func decimals(currency string) int {
	switch currency {
	case "JPY":
		return 0
	case "KWD":
		return 3
	}
	return 2
}

func wireAmount(m provider.Money) map[string]string {
	n := decimals(m.Currency)
	text := strconv.FormatInt(m.Amount, 10)
	for len(text) <= n {
		text = "0" + text
	}
	if n > 0 {
		text = text[:len(text)-n] + "." + text[len(text)-n:]
	}
	return map[string]string{"currency": m.Currency, "value": text}
}

// rendered is a payment of Mollie's.
func rendered(o provider.Object) map[string]any {
	status := o.Status
	if status == "" {
		status = map[provider.Outcome]string{
			provider.Succeeded: "paid", provider.Processing: "pending",
			provider.RequiresAction: "open", provider.Failed: "failed",
		}[o.Outcome]
	}
	p := map[string]any{
		"resource": "payment", "id": o.ID, "mode": "test", "createdAt": o.CreatedAt.UTC().Format("2006-01-02T15:04:05+00:00"),
		"amount": wireAmount(o.Money), "description": "Two tickets", "method": "creditcard", "sequenceType": "recurring",
		"metadata": map[string]string{"payment_id": o.Reference}, "status": status, "profileId": "pfl_1", "customerId": "cst_1",
		"details": nil, "_links": map[string]any{"self": map[string]string{"href": "https://api.mollie.com/v2/payments/" + o.ID}},
	}
	if t := o.Totals; t != nil && t.Authorised > 0 {
		p["captureMode"], p["captureBefore"] = "manual", "2027-01-31"
		p["amountCaptured"] = wireAmount(provider.Money{Amount: t.Captured, Currency: o.Money.Currency})
		return p
	}
	if o.Outcome == provider.Failed {
		p["details"] = map[string]any{"cardNumber": "6787", "failureReason": "insufficient_funds", "failureMessage": "The card has insufficient funds."}
	}
	return p
}

func (f *fake) Event(id string, about provider.Object, at time.Time) (http.Header, []byte) {
	kinds := map[provider.Outcome]string{
		provider.Succeeded: "payment.paid", provider.Failed: "payment.failed", provider.Processing: "payment.pending",
	}
	return signedEvent(id, kinds[about.Outcome], about.ID, rendered(about), at)
}

func (f *fake) Unrelated(id string, at time.Time) (http.Header, []byte) {
	return signedEvent(id, "sales-invoice.paid", "invoice_1", map[string]any{"resource": "sales-invoice", "id": "invoice_1"}, at)
}

func signedEvent(id, kind, entityID string, entity any, at time.Time) (http.Header, []byte) {
	e := map[string]any{
		"resource": "event", "id": id, "type": kind, "entityId": entityID, "createdAt": at.UTC().Format(time.RFC3339),
		"_links": map[string]any{"self": map[string]string{"href": "https://api.mollie.com/v2/events/" + id}},
	}
	if entity != nil {
		e["_embedded"] = map[string]any{"entity": entity}
	}
	raw, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return http.Header{SignatureHeader: {signature(raw, testSecret)}}, raw
}

func signature(raw []byte, secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(raw)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/hal+json")
	w.Header().Set("X-Request-Id", "req_1")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// fail answers with Mollie's error object.
func fail(w http.ResponseWriter, status int, detail, field string) {
	e := map[string]any{
		"status": status, "title": http.StatusText(status), "detail": detail,
		"_links": map[string]any{"documentation": map[string]string{"href": "https://docs.mollie.com/errors", "type": "text/html"}},
	}
	if field != "" {
		e["field"] = field
	}
	reply(w, status, e)
}

func htmlPage(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<html><h1>"+http.StatusText(status)+"</h1></html>")
}

// take notes a charge call and says what to do with it.
func (f *fake) take(r *http.Request, body []byte) providertest.Behaviour {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.received = append(f.received, providertest.Received{Key: r.Header.Get("Idempotency-Key"), Body: body})
	var m map[string]any
	_ = json.Unmarshal(body, &m)
	f.bodies = append(f.bodies, m)
	if len(f.next) == 0 {
		return providertest.Succeed
	}
	b := f.next[0]
	f.next = f.next[1:]
	return b
}

// asked reads the request for a payment.
func asked(body []byte) provider.Object {
	var c struct {
		Amount      map[string]string `json:"amount"`
		Metadata    map[string]string `json:"metadata"`
		CaptureMode string            `json:"captureMode"`
	}
	if err := json.Unmarshal(body, &c); err != nil {
		panic(err)
	}
	whole, frac, _ := strings.Cut(c.Amount["value"], ".")
	n, err := strconv.ParseInt(whole+frac, 10, 64)
	if err != nil || len(frac) != decimals(c.Amount["currency"]) {
		panic("amount " + c.Amount["value"] + c.Amount["currency"])
	}
	o := provider.Object{
		Reference: c.Metadata["payment_id"], Outcome: provider.Succeeded,
		Money: provider.Money{Amount: n, Currency: c.Amount["currency"]}, CreatedAt: time.Now(),
	}
	if c.CaptureMode == "manual" {
		o.Status, o.Outcome, o.Totals = "authorized", provider.Processing, &provider.Totals{Authorised: n}
	}
	return o
}

// book makes the charge once per key.
func (f *fake) book(key string, o provider.Object) provider.Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i, ok := f.byKey[key]; ok {
		return f.booked[i]
	}
	o.ID = "tr_" + strconv.Itoa(len(f.booked)+1)
	f.byKey[key] = len(f.booked)
	f.booked = append(f.booked, o)
	return o
}

func (f *fake) charge(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || f.leaks(w) {
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+testKey {
		fail(w, http.StatusUnauthorized, "Missing authentication, or failed to authenticate", "")
		return
	}
	b := f.take(r, body)
	if o := asked(body); !refuse(w, b, o) {
		respond(w, r, b, f.book(r.Header.Get("Idempotency-Key"), o))
	}
}

// refuse answers the behaviours that book nothing.
func refuse(w http.ResponseWriter, b providertest.Behaviour, o provider.Object) bool {
	switch b {
	case providertest.Decline:
		o.ID, o.Outcome = "tr_no", provider.Failed
		reply(w, http.StatusCreated, rendered(o))
	case providertest.Reject:
		fail(w, http.StatusUnprocessableEntity, "The amount is higher than the maximum", "amount")
	case providertest.Unauthorized:
		fail(w, http.StatusUnauthorized, "Missing authentication, or failed to authenticate", "")
	case providertest.Throttle:
		w.Header().Set("Retry-After", "7")
		fail(w, http.StatusTooManyRequests, "Too many requests", "")
	case providertest.KeyInUse:
		fail(w, http.StatusConflict, "A request with this idempotency key is being processed", "")
	case providertest.KeyReused:
		fail(w, http.StatusBadRequest, "This idempotency key was used for another request", "")
	case providertest.ServerError:
		fail(w, http.StatusInternalServerError, "Internal error", "")
	case providertest.Redirect:
		w.Header().Set("Location", "/v3/payments")
		w.WriteHeader(http.StatusTemporaryRedirect)
	default:
		return false
	}
	return true
}

func respond(w http.ResponseWriter, r *http.Request, b providertest.Behaviour, o provider.Object) {
	switch b {
	case providertest.Accept:
		o.Outcome = provider.Processing
		reply(w, http.StatusCreated, rendered(o))
	case providertest.AskCustomer:
		o.Outcome = provider.RequiresAction
		reply(w, http.StatusCreated, rendered(o))
	case providertest.ChargeBadProxy:
		htmlPage(w, http.StatusBadGateway)
	case providertest.ChargeHTML:
		htmlPage(w, http.StatusOK)
	case providertest.ChargeCut:
		panic(http.ErrAbortHandler)
	case providertest.ChargeTruncate:
		w.Header().Set("Content-Length", "400")
		_, _ = io.WriteString(w, `{"id":"`+o.ID+`","status":"pa`)
	case providertest.ChargeHang:
		<-r.Context().Done()
	case providertest.ChargeOtherSum:
		o.Money.Amount++
		reply(w, http.StatusCreated, rendered(o))
	case providertest.ChargeOddStatus:
		o.Status = "settling"
		reply(w, http.StatusCreated, rendered(o))
	default:
		reply(w, http.StatusCreated, rendered(o))
	}
}

// misbehave counts a question and answers it wrongly if told so.
func (f *fake) misbehave(w http.ResponseWriter, r *http.Request) bool {
	f.mu.Lock()
	f.asked = append(f.asked, r.URL)
	b := f.ask
	f.mu.Unlock()
	switch b {
	case providertest.AskForbidden:
		fail(w, http.StatusForbidden, "Missing permission payments.read", "")
	case providertest.AskDown:
		fail(w, http.StatusServiceUnavailable, "The service is temporarily unavailable", "")
	case providertest.AskHTML:
		htmlPage(w, http.StatusOK)
	case providertest.AskCut:
		panic(http.ErrAbortHandler)
	default:
		return f.leaks(w)
	}
	return true
}

func (f *fake) get(w http.ResponseWriter, r *http.Request) {
	if f.misbehave(w, r) {
		return
	}
	for _, o := range f.Booked() {
		if o.ID == r.PathValue("id") {
			reply(w, http.StatusOK, f.embedded(r, f.withTotals(o)))
			return
		}
	}
	fail(w, http.StatusNotFound, "No payment exists with token "+r.PathValue("id")+".", "")
}

func (f *fake) methods(w http.ResponseWriter, r *http.Request) {
	if !f.misbehave(w, r) {
		reply(w, http.StatusOK, map[string]any{"count": 0, "_embedded": map[string]any{"methods": []any{}}})
	}
}

// list pages by the id a page begins with. Told to ignore the question it begins with
// the newest payment every time, and always promises more.
func (f *fake) list(w http.ResponseWriter, r *http.Request) {
	if f.misbehave(w, r) {
		return
	}
	q := r.URL.Query()
	f.mu.Lock()
	all, size, ignore := slices.Clone(f.booked), f.page, f.ask == providertest.AskAll
	f.mu.Unlock()
	if limit, err := strconv.Atoi(q.Get("limit")); size == 0 || err == nil && limit < size {
		size = limit
	}
	slices.SortStableFunc(all, func(a, b provider.Object) int { return a.CreatedAt.Compare(b.CreatedAt) })
	if q.Get("sort") != "asc" {
		slices.Reverse(all)
	}
	start := 0
	if from := q.Get("from"); from != "" && !ignore {
		start = slices.IndexFunc(all, func(o provider.Object) bool { return o.ID == from })
		if start < 0 {
			fail(w, http.StatusNotFound, "No payment exists with token "+from+".", "")
			return
		}
	}
	f.answerList(w, all, start, size, ignore)
}

func (f *fake) answerList(w http.ResponseWriter, all []provider.Object, start, size int, ignore bool) {
	end := min(start+size, len(all))
	hits := []map[string]any{}
	for _, o := range all[start:end] {
		hits = append(hits, f.withTotals(o))
	}
	var next any
	follow := "tr_more"
	if end < len(all) {
		follow = all[end].ID
	}
	if end < len(all) || ignore {
		next = map[string]string{"href": "https://api.mollie.com/v2/payments?from=" + follow + "&limit=" + strconv.Itoa(size), "type": "application/hal+json"}
	}
	reply(w, http.StatusOK, map[string]any{
		"count": len(hits), "_embedded": map[string]any{"payments": hits}, "_links": map[string]any{"next": next, "previous": nil},
	})
}
