package paypal

import (
	"context"
	"crypto/tls"
	"encoding/base64"
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
	testID     = "AZDxjDScFpQtjWTOUtWKbyN"
	testSecret = "EGnHDxD-qRPOmeKm9x1"
	testHook   = "1JE4291016473214C"
	certName   = "/v1/notifications/certs/CERT-360caa42-fca2a594"
)

// fake is PayPal under the conformance suite's control. It is written from PayPal's
// documentation and shares no code with the adapter.
type fake struct {
	url string

	mu         sync.Mutex
	next       []providertest.Behaviour
	ask        providertest.AskBehaviour
	received   []providertest.Received
	headers    []http.Header
	asked      []*url.URL
	booked     []provider.Object
	byKey      map[string]int // request id → index in booked
	unindexed  bool           // the search knows nothing yet
	pageSize   int            // of the search; 0: as asked for
	tokens     int            // tokens given out
	tokenAsked int            // requests for one
	tokenLife  int            // seconds
	tokenFails func(w http.ResponseWriter, n int) bool
	revoked    map[string]bool
	certs      int // requests for the certificate
	certFails  bool
	verifies   []map[string]json.RawMessage // of the verify call
	refunds    refundBooks
	actions    actionBooks
}

func newFake(t testing.TB) *fake {
	t.Helper()
	f := &fake{byKey: map[string]int{}, revoked: map[string]bool{}, tokenLife: 32400}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/oauth2/token", f.token)
	mux.HandleFunc("POST /v2/checkout/orders", f.charge)
	mux.HandleFunc("GET /v2/checkout/orders/{id}", f.order)
	mux.HandleFunc("GET /v2/payments/captures/{id}", f.capture)
	mux.HandleFunc("GET /v1/reporting/transactions", f.search)
	mux.HandleFunc("POST /v2/payments/captures/{id}/refund", f.refund)
	mux.HandleFunc("GET /v2/payments/refunds/{id}", f.getRefund)
	mux.HandleFunc("POST /v2/payments/authorizations/{id}/capture", f.act)
	mux.HandleFunc("POST /v2/payments/authorizations/{id}/void", f.act)
	mux.HandleFunc("GET /v2/payments/authorizations/{id}", f.authorization)
	mux.HandleFunc("GET /v1/notifications/webhooks", f.webhooks)
	mux.HandleFunc("GET "+certName, f.cert)
	mux.HandleFunc("POST /v1/notifications/verify-webhook-signature", f.verify)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	f.url = srv.URL
	return f
}

func (f *fake) settings() provider.Settings {
	return provider.Settings{
		Name: "paypal-eu", BaseURL: f.url, APIKey: testID + ":" + testSecret, WebhookSecrets: []string{testHook},
		ConnectTimeout: 2 * time.Second, AnswerTimeout: 4 * time.Second,
	}
}

// noSleep lets a lookup's retries follow at once.
func noSleep(context.Context, time.Duration) error { return nil }

func (f *fake) adapter(t testing.TB, edits ...func(*provider.Settings, *Options)) *Adapter {
	t.Helper()
	s, o := f.settings(), Options{CallerOptions: provider.CallerOptions{Sleep: noSleep, TLS: &tls.Config{RootCAs: pki().roots}}}
	for _, edit := range edits {
		edit(&s, &o)
	}
	a, err := New(s, o)
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a
}

// set changes the fake under its lock.
func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) Next(bs ...providertest.Behaviour) { f.set(func() { f.next = append(f.next, bs...) }) }
func (f *fake) Ask(b providertest.AskBehaviour)   { f.set(func() { f.ask = b }) }
func (f *fake) Book(o provider.Object)            { f.set(func() { f.booked = append(f.booked, o) }) }

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

// decimals are PayPal's, by hand and not by our table.
func decimals(currency string) (wire, minor int) {
	switch currency {
	case "JPY":
		return 0, 0
	case "HUF", "TWD":
		return 0, 2
	}
	return 2, 2
}

func wireMoney(m provider.Money) map[string]string {
	wire, minor := decimals(m.Currency)
	text := strconv.FormatInt(m.Amount, 10)
	for len(text) <= minor {
		text = "0" + text
	}
	whole, frac := text[:len(text)-minor], text[len(text)-minor:]
	if wire > 0 {
		whole += "." + frac
	}
	return map[string]string{"currency_code": m.Currency, "value": whole}
}

// captured is a capture of PayPal's, of an order.
func captured(o provider.Object) map[string]any {
	status := map[provider.Outcome]string{
		provider.Succeeded: "COMPLETED", provider.Processing: "PENDING", provider.Failed: "DECLINED",
	}[o.Outcome]
	return map[string]any{
		"id": "CAP-" + o.ID, "status": status, "amount": wireMoney(o.Money), "custom_id": o.Reference, "invoice_id": o.Reference,
		"final_capture": true, "create_time": o.CreatedAt.UTC().Format(time.RFC3339),
		"supplementary_data": map[string]any{"related_ids": map[string]string{"order_id": o.ID}},
	}
}

// rendered is an order of PayPal's.
func rendered(o provider.Object) map[string]any {
	if o.Totals != nil {
		return renderedHold(o)
	}
	u := map[string]any{
		"reference_id": "default", "custom_id": o.Reference, "invoice_id": o.Reference, "amount": wireMoney(o.Money),
	}
	status := "COMPLETED"
	if o.Outcome == provider.RequiresAction {
		status = "PAYER_ACTION_REQUIRED"
	} else {
		u["payments"] = map[string]any{"captures": []any{captured(o)}}
	}
	if o.Status != "" {
		status = o.Status
	}
	return map[string]any{
		"id": o.ID, "intent": "CAPTURE", "status": status, "create_time": o.CreatedAt.UTC().Format(time.RFC3339),
		"purchase_units": []any{u}, "payment_source": map[string]any{"card": map[string]string{"last_digits": "4242", "brand": "VISA"}},
	}
}

func (f *fake) Event(id string, about provider.Object, at time.Time) (http.Header, []byte) {
	kinds := map[provider.Outcome]string{
		provider.Succeeded: "PAYMENT.CAPTURE.COMPLETED", provider.Failed: "PAYMENT.CAPTURE.DECLINED", provider.Processing: "PAYMENT.CAPTURE.PENDING",
	}
	return f.signedEvent(id, kinds[about.Outcome], captured(about), at)
}

func (f *fake) Unrelated(id string, at time.Time) (http.Header, []byte) {
	return f.signedEvent(id, "BILLING.SUBSCRIPTION.CREATED", map[string]any{"id": "I-1"}, at)
}

func (f *fake) signedEvent(id, kind string, resource any, at time.Time) (http.Header, []byte) {
	raw, err := json.Marshal(map[string]any{
		"id": id, "event_version": "1.0", "create_time": at.UTC().Format(time.RFC3339), "resource_type": "capture",
		"event_type": kind, "summary": "Something happened.", "resource": resource,
	})
	if err != nil {
		panic(err)
	}
	return f.sign(raw, testHook, at), raw
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Paypal-Debug-Id", "f1a2b3")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// fail answers with PayPal's error object.
func fail(w http.ResponseWriter, status int, name, issue string) {
	e := map[string]any{"name": name, "message": "The request was not carried out.", "debug_id": "f1a2b3", "links": []any{}}
	if issue != "" {
		e["details"] = []any{map[string]string{"issue": issue, "description": "No: " + issue}}
	}
	reply(w, status, e)
}

func page(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<html><h1>"+http.StatusText(status)+"</h1></html>")
}

func (f *fake) token(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.tokenAsked++
	n, fails, life := f.tokenAsked, f.tokenFails, f.tokenLife
	f.mu.Unlock()
	if fails != nil && fails(w, n) {
		return
	}
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(testID+":"+testSecret))
	if r.Header.Get("Authorization") != want || r.PostFormValue("grant_type") != "client_credentials" {
		reply(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client", "error_description": "Client Authentication failed"})
		return
	}
	f.mu.Lock()
	f.tokens++
	text := "A21AAtoken" + strconv.Itoa(f.tokens)
	f.mu.Unlock()
	reply(w, http.StatusOK, map[string]any{"scope": "x", "access_token": text, "token_type": "Bearer", "app_id": "APP-1", "expires_in": life})
}

// known reports whether a request carries a token that was given out.
func (f *fake) known(w http.ResponseWriter, r *http.Request) bool {
	text, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.HasPrefix(text, "A21AAtoken") && !f.revoked[text] {
		return true
	}
	reply(w, http.StatusUnauthorized, map[string]string{"error": "invalid_token", "error_description": "Token signature verification failed"})
	return false
}

// take notes a charge call and says what to do with it.
func (f *fake) take(r *http.Request, body []byte) providertest.Behaviour {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.received = append(f.received, providertest.Received{Key: r.Header.Get("PayPal-Request-Id"), Body: body})
	f.headers = append(f.headers, r.Header.Clone())
	if len(f.next) == 0 {
		return providertest.Succeed
	}
	b := f.next[0]
	f.next = f.next[1:]
	return b
}

// asked reads the request for an order.
func asked(body []byte) provider.Object {
	var c struct {
		Intent string `json:"intent"`
		Units  []struct {
			CustomID string            `json:"custom_id"`
			Amount   map[string]string `json:"amount"`
		} `json:"purchase_units"`
	}
	if err := json.Unmarshal(body, &c); err != nil || c.Intent != "CAPTURE" && c.Intent != "AUTHORIZE" || len(c.Units) != 1 {
		panic("not an order: " + string(body))
	}
	m := c.Units[0].Amount
	o := provider.Object{
		Reference: c.Units[0].CustomID, Outcome: provider.Succeeded,
		Money: provider.Money{Amount: wireMinor(m), Currency: m["currency_code"]}, CreatedAt: time.Now(),
	}
	if c.Intent == "AUTHORIZE" {
		o.Outcome = provider.Processing
		o.Totals = &provider.Totals{Authorised: o.Money.Amount, AuthorisedUntil: time.Now().Add(29 * 24 * time.Hour)}
	}
	return o
}

// book makes the order once per request id, and says whether it was there.
func (f *fake) book(key string, o provider.Object) (provider.Object, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i, ok := f.byKey[key]; ok {
		return f.booked[i], true
	}
	o.ID = "5O190127TN36471" + strconv.Itoa(len(f.booked)+10) + "T"
	f.byKey[key] = len(f.booked)
	f.booked = append(f.booked, o)
	return o, false
}

func (f *fake) charge(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || !f.known(w, r) || f.leaks(w) {
		return
	}
	b := f.take(r, body)
	o := asked(body)
	if refuse(w, b, o) {
		return
	}
	o, again := f.book(r.Header.Get("PayPal-Request-Id"), o)
	status := http.StatusCreated
	if again {
		status = http.StatusOK
	}
	respond(w, r, b, o, status)
}

// refuse answers the behaviours that book nothing.
func refuse(w http.ResponseWriter, b providertest.Behaviour, o provider.Object) bool {
	switch b {
	case providertest.Decline:
		fail(w, http.StatusUnprocessableEntity, "UNPROCESSABLE_ENTITY", "INSTRUMENT_DECLINED")
	case providertest.Reject:
		fail(w, http.StatusUnprocessableEntity, "UNPROCESSABLE_ENTITY", "DECIMAL_PRECISION")
	case providertest.Unauthorized:
		reply(w, http.StatusUnauthorized, map[string]string{"error": "invalid_token", "error_description": "The token is not valid"})
	case providertest.Throttle:
		w.Header().Set("Retry-After", "7")
		fail(w, http.StatusTooManyRequests, "RATE_LIMIT_REACHED", "")
	case providertest.KeyInUse:
		fail(w, http.StatusConflict, "RESOURCE_CONFLICT", "PREVIOUS_REQUEST_IN_PROGRESS")
	case providertest.KeyReused: // the first order under the request id, whatever was asked now
		o.ID, o.Reference = "5O190127TN364715T", "another payment"
		reply(w, http.StatusOK, rendered(o))
	case providertest.ServerError:
		fail(w, http.StatusInternalServerError, "INTERNAL_SERVER_ERROR", "")
	case providertest.Redirect:
		w.Header().Set("Location", "/v3/checkout/orders")
		w.WriteHeader(http.StatusTemporaryRedirect)
	default:
		return false
	}
	return true
}

func respond(w http.ResponseWriter, r *http.Request, b providertest.Behaviour, o provider.Object, status int) {
	switch b {
	case providertest.Accept:
		o.Outcome = provider.Processing
		reply(w, status, rendered(o))
	case providertest.AskCustomer:
		o.Outcome = provider.RequiresAction
		reply(w, status, rendered(o))
	case providertest.ChargeBadProxy:
		page(w, http.StatusBadGateway)
	case providertest.ChargeHTML:
		page(w, http.StatusOK)
	case providertest.ChargeCut:
		panic(http.ErrAbortHandler)
	case providertest.ChargeTruncate:
		w.Header().Set("Content-Length", "400")
		_, _ = io.WriteString(w, `{"id":"`+o.ID+`","status":"COMP`)
	case providertest.ChargeHang:
		<-r.Context().Done()
	case providertest.ChargeOtherSum:
		if _, minor := decimals(o.Money.Currency); o.Money.Currency == "HUF" {
			o.Money.Amount += int64(50 * minor)
		} else {
			o.Money.Amount++
		}
		reply(w, status, rendered(o))
	case providertest.ChargeOddStatus:
		o.Status = "SETTLING"
		reply(w, status, rendered(o))
	default:
		reply(w, status, rendered(o))
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
		fail(w, http.StatusForbidden, "NOT_AUTHORIZED", "PERMISSION_DENIED")
	case providertest.AskDown:
		fail(w, http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE", "")
	case providertest.AskHTML:
		page(w, http.StatusOK)
	case providertest.AskCut:
		panic(http.ErrAbortHandler)
	default:
		return !f.known(w, r) || f.leaks(w)
	}
	return true
}

func (f *fake) order(w http.ResponseWriter, r *http.Request) {
	if f.misbehave(w, r) {
		return
	}
	f.mu.Lock()
	ask := f.ask
	f.mu.Unlock()
	for _, o := range f.Booked() {
		if o.ID == r.PathValue("id") || ask == providertest.AskAll {
			if ask == providertest.AskAll {
				o.ID = "ANOTHER"
			}
			reply(w, http.StatusOK, f.withRefunds(o))
			return
		}
	}
	fail(w, http.StatusNotFound, "RESOURCE_NOT_FOUND", "INVALID_RESOURCE_ID")
}

func (f *fake) capture(w http.ResponseWriter, r *http.Request) {
	if f.misbehave(w, r) {
		return
	}
	for _, o := range f.Booked() {
		switch {
		case "CAP-"+o.ID != r.PathValue("id"):
			continue
		case o.Totals != nil:
			reply(w, http.StatusOK, taken(o, o.Outcome))
		default:
			reply(w, http.StatusOK, captured(o))
		}
		return
	}
	fail(w, http.StatusNotFound, "RESOURCE_NOT_FOUND", "INVALID_RESOURCE_ID")
}

// search is PayPal's transaction search: captures by time. Told to ignore the filter it
// tells of old times too.
func (f *fake) search(w http.ResponseWriter, r *http.Request) {
	if f.misbehave(w, r) {
		return
	}
	q := r.URL.Query()
	from, err1 := time.Parse(time.RFC3339, q.Get("start_date"))
	to, err2 := time.Parse(time.RFC3339, q.Get("end_date"))
	if err1 != nil || err2 != nil || to.Sub(from) > 31*24*time.Hour {
		fail(w, http.StatusBadRequest, "INVALID_REQUEST", "INVALID_DATE_RANGE")
		return
	}
	f.mu.Lock()
	booked, unindexed, size, ask := slices.Clone(f.booked), f.unindexed, f.pageSize, f.ask
	f.mu.Unlock()
	if ask == providertest.AskAll {
		booked = append(booked, provider.Object{ID: "OLD", CreatedAt: from.AddDate(-3, 0, 0), Money: provider.Money{Amount: 1, Currency: "EUR"}})
		from = time.Time{}
	}
	hits := []any{}
	for _, o := range booked {
		if !unindexed && !o.CreatedAt.Before(from.Truncate(time.Second)) && o.CreatedAt.Before(to) {
			hits = append(hits, transaction(o))
		}
	}
	if size == 0 {
		size, _ = strconv.Atoi(q.Get("page_size"))
	}
	n, _ := strconv.Atoi(q.Get("page"))
	start := min((n-1)*size, len(hits))
	reply(w, http.StatusOK, map[string]any{
		"transaction_details": hits[start:min(start+size, len(hits))], "account_number": "X", "page": n,
		"total_items": len(hits), "total_pages": (len(hits) + size - 1) / size, "last_refreshed_datetime": to.UTC().Format("2006-01-02T15:04:05-0700"),
	})
}

func transaction(o provider.Object) map[string]any {
	at := o.CreatedAt.UTC().Format("2006-01-02T15:04:05-0700")
	id, code := "CAP-"+o.ID, "T0006"
	if o.Totals != nil {
		id, code = "AUTH-"+o.ID, "T1300"
	}
	return map[string]any{"transaction_info": map[string]any{
		"transaction_id": id, "transaction_event_code": code, "custom_field": o.Reference, "transaction_status": "S",
		"transaction_initiation_date": at, "transaction_updated_date": at, "transaction_amount": wireMoney(o.Money),
	}}
}
