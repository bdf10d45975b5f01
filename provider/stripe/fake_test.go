package stripe

import (
	"context"
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
	testKey    = "sk_test_4eC39HqLyjWDarjtT1zdp7dc"
	testSecret = "whsec_test"
)

// fake is Stripe under the conformance suite's control. It is written from Stripe's
// documentation and shares no code with the adapter.
type fake struct {
	url string

	mu        sync.Mutex
	next      []providertest.Behaviour
	ask       providertest.AskBehaviour
	received  []providertest.Received
	headers   []http.Header
	asked     []*url.URL
	booked    []provider.Object
	byKey     map[string]int // key → index in booked
	unindexed bool           // the search index knows nothing yet
	refunds   fakeRefunds
	actions   fakeActions
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{byKey: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/payment_intents", f.charge)
	mux.HandleFunc("GET /v1/payment_intents", f.list)
	mux.HandleFunc("GET /v1/balance", f.balance)
	mux.HandleFunc("GET /v1/payment_intents/search", f.search)
	mux.HandleFunc("GET /v1/payment_intents/{id}", f.get)
	f.refundRoutes(mux)
	mux.HandleFunc("POST /v1/payment_intents/{id}/capture", f.act)
	mux.HandleFunc("POST /v1/payment_intents/{id}/cancel", f.act)
	srv := httptest.NewServer(f.leaks(mux))
	t.Cleanup(srv.Close)
	f.url = srv.URL
	return f
}

func (f *fake) settings() provider.Settings {
	return provider.Settings{
		Name: "stripe-eu", BaseURL: f.url, APIKey: testKey, WebhookSecrets: []string{testSecret},
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

// wireAmounts is what Stripe would be told, by hand and not by our table.
func wireAmount(m provider.Money) int64 {
	switch m.Currency {
	case "UGX", "ISK":
		return m.Amount * 100
	}
	return m.Amount
}

// rendered is a PaymentIntent of Stripe's.
func rendered(o provider.Object) map[string]any {
	words := map[provider.Outcome]string{
		provider.Succeeded: "succeeded", provider.Processing: "processing",
		provider.RequiresAction: "requires_action", provider.Failed: "requires_payment_method",
	}
	status := o.Status
	if status == "" {
		status = words[o.Outcome]
	}
	pi := map[string]any{
		"id": o.ID, "object": "payment_intent", "status": status, "livemode": false,
		"amount": wireAmount(o.Money), "amount_received": 0, "currency": strings.ToLower(o.Money.Currency),
		"created": o.CreatedAt.Unix(), "metadata": map[string]string{"payment_id": o.Reference},
		"client_secret": o.ID + "_secret_abcdef", "last_payment_error": nil, "latest_charge": "ch_1",
	}
	switch o.Outcome {
	case provider.Succeeded:
		pi["amount_received"] = pi["amount"]
	case provider.Failed:
		pi["last_payment_error"] = map[string]any{"type": "card_error", "code": "card_declined", "decline_code": "generic_decline", "message": "Your card was declined."}
	}
	if o.Totals != nil { // held, or once held
		pi["capture_method"], pi["last_payment_error"], pi["amount_received"] = "manual", nil, o.Totals.Captured
		pi["cancellation_reason"] = o.Reason
	}
	return pi
}

func (f *fake) Event(id string, about provider.Object, at time.Time) (http.Header, []byte) {
	kinds := map[provider.Outcome]string{
		provider.Succeeded: "payment_intent.succeeded", provider.Failed: "payment_intent.payment_failed",
		provider.Processing: "payment_intent.processing", provider.RequiresAction: "payment_intent.requires_action",
	}
	return signedEvent(id, kinds[about.Outcome], rendered(about), at)
}

func (f *fake) Unrelated(id string, at time.Time) (http.Header, []byte) {
	return signedEvent(id, "invoice.created", map[string]any{"id": "in_1", "object": "invoice"}, at)
}

func signedEvent(id, kind string, object any, at time.Time) (http.Header, []byte) {
	return signed(map[string]any{
		"id": id, "object": "event", "api_version": "2019-02-11", "created": at.Unix(), "type": kind,
		"livemode": false, "pending_webhooks": 1, "request": map[string]any{"id": "req_1", "idempotency_key": "k1"},
		"data": map[string]any{"object": object},
	}, at)
}

func signed(event map[string]any, at time.Time) (http.Header, []byte) {
	raw, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	return http.Header{SignatureHeader: {signature(raw, at, testSecret)}}, raw
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Request-Id", "req_1")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// fail answers with Stripe's error object. Extra members come in pairs.
func fail(w http.ResponseWriter, status int, kind, code string, extra ...any) {
	e := map[string]any{"type": kind, "message": "no: " + code, "doc_url": "https://stripe.com/docs"}
	if code != "" {
		e["code"] = code
	}
	for i := 0; i+1 < len(extra); i += 2 {
		e[extra[i].(string)] = extra[i+1]
	}
	reply(w, status, map[string]any{"error": e})
}

func page(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<html><h1>"+http.StatusText(status)+"</h1></html>")
}

// take notes a charge call and says what to do with it.
func (f *fake) take(r *http.Request, body []byte) providertest.Behaviour {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.received = append(f.received, providertest.Received{Key: r.Header.Get("Idempotency-Key"), Body: body})
	f.headers = append(f.headers, r.Header.Clone())
	if len(f.next) == 0 {
		return providertest.Succeed
	}
	b := f.next[0]
	f.next = f.next[1:]
	return b
}

// book makes the charge once per key, and says whether it was there.
func (f *fake) book(key string, body []byte) (provider.Object, bool) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		panic(err)
	}
	amount, err := strconv.ParseInt(form.Get("amount"), 10, 64)
	if err != nil {
		panic(err)
	}
	currency := strings.ToUpper(form.Get("currency"))
	if currency == "UGX" || currency == "ISK" {
		amount /= 100
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if i, ok := f.byKey[key]; ok {
		return f.booked[i], true
	}
	o := provider.Object{
		ID: "pi_" + strconv.Itoa(len(f.booked)+1), Reference: form.Get("metadata[payment_id]"), Outcome: provider.Succeeded,
		Money: provider.Money{Amount: amount, Currency: currency}, CreatedAt: time.Now(),
	}
	if form.Get("capture_method") == "manual" {
		o.Status, o.Outcome, o.Totals = "requires_capture", provider.Processing, &provider.Totals{}
	}
	f.byKey[key] = len(f.booked)
	f.booked = append(f.booked, o)
	return o, false
}

func (f *fake) charge(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+testKey {
		fail(w, http.StatusUnauthorized, "invalid_request_error", "")
		return
	}
	b := f.take(r, body)
	if !refuse(w, b) {
		o, replayed := f.book(r.Header.Get("Idempotency-Key"), body)
		if replayed {
			w.Header().Set("Idempotent-Replayed", "true")
		}
		respond(w, r, b, o)
	}
}

// refuse answers the behaviours that book nothing.
func refuse(w http.ResponseWriter, b providertest.Behaviour) bool {
	switch b {
	case providertest.Decline:
		fail(w, http.StatusPaymentRequired, "card_error", "card_declined", "decline_code", "insufficient_funds",
			"payment_intent", rendered(provider.Object{ID: "pi_no", Outcome: provider.Failed, Money: provider.Money{Amount: 4900, Currency: "EUR"}}))
	case providertest.Reject:
		fail(w, http.StatusBadRequest, "invalid_request_error", "parameter_invalid_integer", "param", "amount")
	case providertest.Unauthorized:
		fail(w, http.StatusUnauthorized, "invalid_request_error", "api_key_expired")
	case providertest.Throttle:
		w.Header().Set("Retry-After", "7")
		w.Header().Set("Stripe-Should-Retry", "true")
		fail(w, http.StatusTooManyRequests, "invalid_request_error", "rate_limit")
	case providertest.KeyInUse:
		w.Header().Set("Stripe-Should-Retry", "true")
		fail(w, http.StatusConflict, "idempotency_error", "idempotency_key_in_use")
	case providertest.KeyReused:
		w.Header().Set("Stripe-Should-Retry", "false")
		fail(w, http.StatusBadRequest, "idempotency_error", "")
	case providertest.ServerError:
		fail(w, http.StatusInternalServerError, "api_error", "")
	case providertest.Redirect:
		w.Header().Set("Location", "/v2/payment_intents")
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
		reply(w, http.StatusOK, rendered(o))
	case providertest.AskCustomer:
		o.Outcome = provider.RequiresAction
		reply(w, http.StatusOK, rendered(o))
	case providertest.ChargeBadProxy:
		page(w, http.StatusBadGateway)
	case providertest.ChargeHTML:
		page(w, http.StatusOK)
	case providertest.ChargeCut:
		panic(http.ErrAbortHandler)
	case providertest.ChargeTruncate:
		w.Header().Set("Content-Length", "400")
		_, _ = io.WriteString(w, `{"id":"`+o.ID+`","status":"succ`)
	case providertest.ChargeHang:
		<-r.Context().Done()
	case providertest.ChargeOtherSum:
		o.Money.Amount++
		reply(w, http.StatusOK, rendered(o))
	case providertest.ChargeOddStatus:
		o.Status = "settling"
		reply(w, http.StatusOK, rendered(o))
	default:
		reply(w, http.StatusOK, rendered(o))
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
		fail(w, http.StatusForbidden, "invalid_request_error", "more_permissions_required_for_application")
	case providertest.AskDown:
		fail(w, http.StatusServiceUnavailable, "api_error", "")
	case providertest.AskHTML:
		page(w, http.StatusOK)
	case providertest.AskCut:
		panic(http.ErrAbortHandler)
	default:
		return false
	}
	return true
}

func (f *fake) get(w http.ResponseWriter, r *http.Request) {
	if f.misbehave(w, r) {
		return
	}
	for _, o := range f.Booked() {
		if o.ID == r.PathValue("id") {
			reply(w, http.StatusOK, rendered(o))
			return
		}
	}
	fail(w, http.StatusNotFound, "invalid_request_error", "resource_missing")
}

func (f *fake) balance(w http.ResponseWriter, r *http.Request) {
	if !f.misbehave(w, r) {
		reply(w, http.StatusOK, map[string]any{"object": "balance", "livemode": false, "available": []any{}})
	}
}

// list answers newest first, as Stripe does. Told to ignore the filter it lists
// everything the account ever charged, which began long ago.
func (f *fake) list(w http.ResponseWriter, r *http.Request) {
	if f.misbehave(w, r) {
		return
	}
	q := r.URL.Query()
	all := f.Booked()
	if f.behaves() == providertest.AskAll {
		q = url.Values{}
		all = append(all, provider.Object{ID: "pi_old", Outcome: provider.Succeeded, Money: provider.Money{Amount: 1, Currency: "EUR"}, CreatedAt: time.Unix(1_400_000_000, 0)})
	}
	slices.SortStableFunc(all, func(a, b provider.Object) int { return int(b.CreatedAt.Unix() - a.CreatedAt.Unix()) })
	var hits []map[string]any
	past := q.Get("starting_after") == ""
	for _, o := range all {
		if past && within(q, o.CreatedAt.Unix()) {
			hits = append(hits, rendered(o))
		}
		past = past || o.ID == q.Get("starting_after")
	}
	answerList(w, q, hits)
}

func answerList(w http.ResponseWriter, q url.Values, hits []map[string]any) {
	limit, _ := strconv.Atoi(q.Get("limit"))
	if limit == 0 {
		limit = 10
	}
	more := len(hits) > limit
	reply(w, http.StatusOK, map[string]any{
		"object": "list", "url": "/v1/payment_intents", "has_more": more,
		"data": append([]map[string]any{}, hits[:min(limit, len(hits))]...),
	})
}

func within(q url.Values, created int64) bool {
	bound := func(name string) (int64, bool) {
		n, err := strconv.ParseInt(q.Get("created["+name+"]"), 10, 64)
		return n, err == nil
	}
	gte, a := bound("gte")
	lt, b := bound("lt")
	lte, c := bound("lte")
	return (!a || created >= gte) && (!b || created < lt) && (!c || created <= lte)
}

func (f *fake) behaves() providertest.AskBehaviour {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ask
}

// search is Stripe's index: it answers from metadata, when it knows.
func (f *fake) search(w http.ResponseWriter, r *http.Request) {
	if f.misbehave(w, r) {
		return
	}
	f.mu.Lock()
	unindexed := f.unindexed
	f.mu.Unlock()
	var hits []map[string]any
	for _, o := range f.Booked() {
		if !unindexed && r.URL.Query().Get("query") == "metadata['payment_id']:'"+o.Reference+"'" {
			o.Outcome = provider.Processing // the index is behind
			hits = append(hits, rendered(o))
		}
	}
	answerList(w, r.URL.Query(), hits)
}
