package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

const (
	testKey    = "test-key"
	testSecret = "whsec-test"
)

// fake is a provider that speaks the contract and misbehaves on command.
type fake struct {
	url    string
	noKeys bool
	noAsk  bool

	mu        sync.Mutex
	next      []providertest.Behaviour
	ask       providertest.AskBehaviour
	received  []providertest.Received
	questions int
	booked    []provider.Object
	byKey     map[string]int // key → index in booked
	refunds   fakeRefunds
	actions   fakeActions
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{byKey: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/payments", f.charge)
	mux.HandleFunc("GET /v1/payments", f.list)
	mux.HandleFunc("GET /v1/payments/{id}", f.get)
	mux.HandleFunc("POST /v1/payments/{id}/refunds", f.refund)
	mux.HandleFunc("POST /v1/payments/{id}/capture", f.act)
	mux.HandleFunc("POST /v1/payments/{id}/void", f.act)
	mux.HandleFunc("GET /v1/refunds", f.listRefunds)
	mux.HandleFunc("GET /v1/refunds/{id}", f.getRefund)
	mux.HandleFunc("GET /v1/health", f.health)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	f.url = srv.URL + "/v1"
	return f
}

func (f *fake) settings() provider.Settings {
	return provider.Settings{
		Name: "atlas", Kind: Kind, BaseURL: f.url, APIKey: testKey, WebhookSecrets: []string{testSecret},
		NoKeys: f.noKeys, NoStatusAPI: f.noAsk, ConnectTimeout: 2 * time.Second, AnswerTimeout: 4 * time.Second,
	}
}

// noSleep lets a lookup's retries follow at once.
func noSleep(context.Context, time.Duration) error { return nil }

func (f *fake) adapter(t *testing.T) *Adapter {
	t.Helper()
	a, err := New(f.settings(), Options{Sleep: noSleep})
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
	return append([]providertest.Received(nil), f.received...)
}

func (f *fake) Questions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.questions
}

func (f *fake) Booked() []provider.Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]provider.Object(nil), f.booked...)
}

func (f *fake) Book(o provider.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.booked = append(f.booked, o)
}

// wire renders a payment object.
func wire(o provider.Object) map[string]any {
	status := o.Status
	for word, outcome := range outcomes {
		if status == "" && outcome == o.Outcome && word != "canceled" {
			status = word
		}
	}
	shown := map[string]any{
		"id": o.ID, "reference": o.Reference, "status": status, "amount": o.Money.Amount, "currency": o.Money.Currency,
		"idempotency_key": o.OperationKey, "created_at": o.CreatedAt.Format(time.RFC3339Nano),
	}
	if o.Totals != nil {
		shown["authorised_until"] = o.Totals.AuthorisedUntil.Format(time.RFC3339Nano)
		shown["totals"] = map[string]any{"authorised": o.Totals.Authorised, "captured": o.Totals.Captured, "refunded": 0}
	}
	if o.Reason != "" {
		shown["error"] = map[string]any{"code": o.Reason}
	}
	return shown
}

func (f *fake) Event(id string, about provider.Object, at time.Time) (http.Header, []byte) {
	return f.event(id, "payment."+string(about.Outcome), wire(about), at)
}

func (f *fake) Unrelated(id string, at time.Time) (http.Header, []byte) {
	return f.event(id, "invoice.created", map[string]any{"id": "in_1"}, at)
}

func (f *fake) event(id, kind string, data any, at time.Time) (http.Header, []byte) {
	raw, err := json.Marshal(map[string]any{"id": id, "type": kind, "created_at": at.Format(time.RFC3339Nano), "live": false, "data": data})
	if err != nil {
		panic(err)
	}
	return http.Header{SignatureHeader: {Sign(raw, at, testSecret)}}, raw
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Request-Id", "req_1")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func fail(w http.ResponseWriter, status int, code string) {
	reply(w, status, map[string]any{"error": map[string]any{"code": code, "message": "no: " + code}})
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
	if len(f.next) == 0 {
		return providertest.Succeed
	}
	b := f.next[0]
	f.next = f.next[1:]
	return b
}

// book makes the charge once per key, and says whether it was there.
func (f *fake) book(key string, body []byte) (provider.Object, bool) {
	var c chargeBody
	if err := json.Unmarshal(body, &c); err != nil {
		panic(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if i, ok := f.byKey[key]; ok && !f.noKeys {
		return f.booked[i], true
	}
	o := provider.Object{
		ID: "pay_" + strconv.Itoa(len(f.booked)+1), Reference: c.Reference, Outcome: provider.Succeeded,
		Money: provider.Money{Amount: c.Amount, Currency: c.Currency}, CreatedAt: time.Now(),
	}
	if c.Capture == "manual" {
		o.Outcome, o.Status = provider.Processing, statusHeld
		o.Totals = &provider.Totals{Authorised: c.Amount, AuthorisedUntil: time.Now().Add(time.Hour)}
	}
	if !f.noKeys {
		o.OperationKey = key
		f.byKey[key] = len(f.booked)
	}
	f.booked = append(f.booked, o)
	return o, false
}

func (f *fake) charge(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || f.leaks(w) {
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+testKey {
		fail(w, http.StatusUnauthorized, "unauthorized")
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
		fail(w, http.StatusPaymentRequired, "card_declined")
	case providertest.Reject:
		fail(w, http.StatusUnprocessableEntity, "invalid_request")
	case providertest.Unauthorized:
		fail(w, http.StatusUnauthorized, "unauthorized")
	case providertest.Throttle:
		w.Header().Set("Retry-After", "7")
		fail(w, http.StatusTooManyRequests, "rate_limited")
	case providertest.KeyInUse:
		fail(w, http.StatusConflict, "idempotency_key_in_use")
	case providertest.KeyReused:
		fail(w, http.StatusBadRequest, "idempotency_key_reused")
	case providertest.ServerError:
		fail(w, http.StatusInternalServerError, "internal")
	case providertest.Redirect:
		w.Header().Set("Location", "/v2/payments")
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
		reply(w, http.StatusAccepted, wire(o))
	case providertest.AskCustomer:
		o.Outcome = provider.RequiresAction
		reply(w, http.StatusOK, wire(o))
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
		reply(w, http.StatusOK, wire(o))
	case providertest.ChargeOddStatus:
		o.Status = "settling"
		reply(w, http.StatusOK, wire(o))
	default:
		reply(w, http.StatusOK, wire(o))
	}
}

// misbehave counts a question and answers it wrongly if told so.
func (f *fake) misbehave(w http.ResponseWriter, answers bool) bool {
	f.mu.Lock()
	f.questions++
	b := f.ask
	f.mu.Unlock()
	switch {
	case !answers:
		fail(w, http.StatusMethodNotAllowed, "not_allowed")
	case b == providertest.AskForbidden:
		fail(w, http.StatusForbidden, "forbidden")
	case b == providertest.AskDown:
		fail(w, http.StatusServiceUnavailable, "down")
	case b == providertest.AskHTML:
		page(w, http.StatusOK)
	case b == providertest.AskCut:
		panic(http.ErrAbortHandler)
	default:
		return false
	}
	return true
}

// health answers without a status API too.
func (f *fake) health(w http.ResponseWriter, _ *http.Request) {
	if !f.misbehave(w, true) {
		reply(w, http.StatusOK, map[string]any{"status": "ok"})
	}
}

func (f *fake) get(w http.ResponseWriter, r *http.Request) {
	if f.misbehave(w, !f.noAsk) || f.leaks(w) {
		return
	}
	for _, o := range f.Booked() {
		if o.ID == r.PathValue("id") {
			shown := wire(o)
			if o.Totals == nil {
				shown["totals"] = f.totals(o)
			}
			reply(w, http.StatusOK, shown)
			return
		}
	}
	fail(w, http.StatusNotFound, "not_found")
}

func (f *fake) list(w http.ResponseWriter, r *http.Request) {
	if f.misbehave(w, !f.noAsk) || f.leaks(w) {
		return
	}
	q := r.URL.Query()
	f.mu.Lock()
	all := f.ask == providertest.AskAll
	f.mu.Unlock()
	var hits []map[string]any
	for _, o := range f.Booked() {
		if all || matches(q.Get, o) {
			hits = append(hits, wire(o))
		}
	}
	replyPage(w, r, hits)
}

func replyPage(w http.ResponseWriter, r *http.Request, hits []map[string]any) {
	q := r.URL.Query()
	limit, _ := strconv.Atoi(q.Get("limit"))
	from, _ := strconv.Atoi(q.Get("cursor"))
	next := ""
	if limit > 0 && from+limit < len(hits) {
		next = strconv.Itoa(from + limit)
		hits = hits[:from+limit]
	}
	reply(w, http.StatusOK, map[string]any{"data": append([]map[string]any{}, hits[min(from, len(hits)):]...), "next": next})
}

func matches(q func(string) string, o provider.Object) bool {
	from, _ := time.Parse(time.RFC3339Nano, q("created_from"))
	to, err := time.Parse(time.RFC3339Nano, q("created_to"))
	return (q("idempotency_key") == "" || q("idempotency_key") == o.OperationKey) &&
		(q("reference") == "" || q("reference") == o.Reference) &&
		!o.CreatedAt.Before(from) && (err != nil || o.CreatedAt.Before(to))
}
