package adyen

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
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
	testKey     = "AQEyhmfxK4zJa0xGe1Pk-test-key"
	testHMAC    = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
	testAccount = "ShopECOM"
)

// fake is Adyen under the conformance suite's control. It is written from Adyen's
// documentation and shares no code with the adapter.
type fake struct {
	url string

	mu        sync.Mutex
	next      []providertest.Behaviour
	ask       providertest.AskBehaviour
	received  []providertest.Received
	headers   []http.Header
	booked    []provider.Object
	byKey     map[string]int // key → index in booked
	questions int
	leak      string
	refunds   fakeRefunds
	actions   fakeRefunds // captures and cancellations
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{byKey: map[string]int{}, refunds: fakeRefunds{byKey: map[string]int{}}, actions: fakeRefunds{byKey: map[string]int{}}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v71/payments", f.charge)
	mux.HandleFunc("POST /v71/payments/{psp}/refunds", f.modify(&f.refunds, "REF"))
	mux.HandleFunc("POST /v71/payments/{psp}/captures", f.modify(&f.actions, "CAP"))
	mux.HandleFunc("POST /v71/payments/{psp}/cancels", f.modify(&f.actions, "CAN"))
	mux.HandleFunc("POST /v71/paymentMethods", f.methods)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	f.url = srv.URL
	return f
}

func (f *fake) settings() provider.Settings {
	return provider.Settings{
		Name: "adyen-nl", BaseURL: f.url, APIKey: testKey, WebhookSecrets: []string{testHMAC}, Account: testAccount,
		ConnectTimeout: 2 * time.Second, AnswerTimeout: 4 * time.Second,
	}
}

func (f *fake) adapter(t *testing.T, edits ...func(*provider.Settings)) *Adapter {
	t.Helper()
	s := f.settings()
	for _, edit := range edits {
		edit(&s)
	}
	a, err := New(s, Options{Sleep: func(context.Context, time.Duration) error { return nil }})
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

func (f *fake) Leak(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leak = text
}

func (f *fake) Received() []providertest.Received {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.received)
}

func (f *fake) Questions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.questions
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

// wireValue is Adyen's number for an amount, by hand and not by our table.
func wireValue(m provider.Money) int64 {
	switch m.Currency {
	case "ISK", "CLP":
		return m.Amount * 100
	case "IDR", "CVE":
		return m.Amount / 100
	}
	return m.Amount
}

func wireAmount(m provider.Money) map[string]any {
	return map[string]any{"currency": m.Currency, "value": wireValue(m)}
}

// rendered is the answer to a charge.
func rendered(o provider.Object) map[string]any {
	result := o.Status
	if result == "" {
		result = map[provider.Outcome]string{
			provider.Succeeded: "Authorised", provider.Processing: "Received",
			provider.RequiresAction: "ChallengeShopper", provider.Failed: "Refused",
		}[o.Outcome]
	}
	p := map[string]any{
		"pspReference": o.ID, "resultCode": result, "merchantReference": o.Reference,
		"additionalData": map[string]any{"cardSummary": "1111", "expiryDate": "3/2030", "cardHolderName": "Zoë O'Neill"},
	}
	switch o.Outcome {
	case provider.Succeeded:
		p["amount"] = wireAmount(o.Money)
	case provider.RequiresAction:
		p["action"] = map[string]any{"type": "threeDS2", "token": "eyJ0aHJlZURTTWV0aG9k"}
	case provider.Failed:
		p["refusalReason"], p["refusalReasonCode"] = "NOT_ENOUGH_BALANCE", "12"
	}
	return p
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	w.Header().Set("pspReference", "8535296650153317")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// fail answers with Adyen's error object.
func fail(w http.ResponseWriter, status int, code, words, kind string) {
	reply(w, status, map[string]any{"status": status, "errorCode": code, "message": words, "errorType": kind, "pspReference": "8835511210681324"})
}

func htmlPage(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<html><h1>"+http.StatusText(status)+"</h1></html>")
}

// take notes a charge call and says what to do with it.
func (f *fake) take(r *http.Request, body []byte) (providertest.Behaviour, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.received = append(f.received, providertest.Received{Key: r.Header.Get("Idempotency-Key"), Body: body})
	f.headers = append(f.headers, r.Header.Clone())
	if len(f.next) == 0 {
		return providertest.Succeed, f.leak
	}
	b := f.next[0]
	f.next = f.next[1:]
	return b, f.leak
}

// minor is the amount behind Adyen's number, by hand.
func minor(currency string, n int64) provider.Money {
	switch currency {
	case "ISK", "CLP":
		n /= 100
	case "IDR", "CVE":
		n *= 100
	}
	return provider.Money{Amount: n, Currency: currency}
}

// asked reads the request for a payment.
func asked(body []byte) provider.Object {
	var c struct {
		MerchantAccount, Reference, ShopperInteraction string
		Amount                                         struct {
			Currency string
			Value    int64
		}
		PaymentMethod map[string]string
	}
	if err := json.Unmarshal(body, &c); err != nil || c.MerchantAccount != testAccount || c.ShopperInteraction != "ContAuth" || c.PaymentMethod["storedPaymentMethodId"] == "" {
		panic("not a request for a payment: " + string(body))
	}
	return provider.Object{Reference: c.Reference, Outcome: provider.Succeeded, Money: minor(c.Amount.Currency, c.Amount.Value), CreatedAt: time.Now()}
}

// book makes the charge once per key. A key used with other parameters brings the first
// one's back.
func (f *fake) book(key string, o provider.Object) provider.Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i, ok := f.byKey[key]; ok && key != "" {
		return f.booked[i]
	}
	o.ID = "PSP" + strconv.Itoa(len(f.booked)+1)
	f.byKey[key] = len(f.booked)
	f.booked = append(f.booked, o)
	return o
}

func (f *fake) charge(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.Header.Get("X-API-Key") != testKey {
		fail(w, http.StatusUnauthorized, "000", "HTTP Status Response - Unauthorized", "security")
		return
	}
	b, leak := f.take(r, body)
	if leak != "" {
		reply(w, http.StatusUnprocessableEntity, map[string]any{"status": 422, "errorCode": "130", "message": leak, "debug": leak})
		return
	}
	if o := asked(body); !refuse(w, b, o) {
		respond(w, r, b, f.book(r.Header.Get("Idempotency-Key"), o))
	}
}

// refuse answers the behaviours that book nothing.
func refuse(w http.ResponseWriter, b providertest.Behaviour, o provider.Object) bool {
	switch b {
	case providertest.Decline:
		o.ID, o.Outcome = "PSPNO", provider.Failed
		reply(w, http.StatusOK, rendered(o))
	case providertest.Reject:
		fail(w, http.StatusUnprocessableEntity, "130", "Required field 'reference' is not provided.", "validation")
	case providertest.Unauthorized:
		fail(w, http.StatusForbidden, "901", "Invalid Merchant Account", "security")
	case providertest.Throttle:
		w.Header().Set("Retry-After", "7")
		fail(w, http.StatusTooManyRequests, "029", "Too many requests", "security")
	case providertest.KeyInUse:
		w.Header().Set("transient-error", "true")
		fail(w, http.StatusUnprocessableEntity, "704", "request already processed or in progress", "validation")
	case providertest.KeyReused:
		reply(w, http.StatusOK, rendered(provider.Object{ID: "PSPOTHER", Reference: "another-payment", Outcome: provider.Succeeded, Money: o.Money}))
	case providertest.ServerError:
		fail(w, http.StatusInternalServerError, "000", "Unexpected error", "internal")
	case providertest.Redirect:
		w.Header().Set("Location", "/v72/payments")
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
		htmlPage(w, http.StatusBadGateway)
	case providertest.ChargeHTML:
		htmlPage(w, http.StatusOK)
	case providertest.ChargeCut:
		panic(http.ErrAbortHandler)
	case providertest.ChargeTruncate:
		w.Header().Set("Content-Length", "400")
		_, _ = io.WriteString(w, `{"pspReference":"`+o.ID+`","resultCode":"Auth`)
	case providertest.ChargeHang:
		<-r.Context().Done()
	case providertest.ChargeOtherSum:
		o.Money.Amount += 100
		reply(w, http.StatusOK, rendered(o))
	case providertest.ChargeOddStatus:
		o.Status = "PartiallyAuthorised"
		reply(w, http.StatusOK, rendered(o))
	default:
		reply(w, http.StatusOK, rendered(o))
	}
}

// methods is the read of the payment methods.
func (f *fake) methods(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.questions++
	b := f.ask
	f.mu.Unlock()
	var q map[string]string
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q["merchantAccount"] != testAccount {
		fail(w, http.StatusForbidden, "901", "Invalid Merchant Account", "security")
		return
	}
	switch b {
	case providertest.AskForbidden:
		fail(w, http.StatusForbidden, "010", "Not allowed", "security")
	case providertest.AskDown:
		fail(w, http.StatusServiceUnavailable, "000", "Service unavailable", "internal")
	case providertest.AskHTML:
		htmlPage(w, http.StatusOK)
	case providertest.AskCut:
		panic(http.ErrAbortHandler)
	default:
		reply(w, http.StatusOK, map[string]any{"paymentMethods": []any{map[string]string{"type": "scheme", "name": "Cards"}}})
	}
}

// note is an item of a notification.
type note struct {
	psp, original, account, reference, code, success, reason string
	money                                                    provider.Money
	extra                                                    map[string]string
	at                                                       time.Time
}

// signature is an item's, by hand: the eight fields, colons between them.
func (n note) signature(key string) string {
	secret, err := hex.DecodeString(key)
	if err != nil {
		panic(err)
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(strings.Join([]string{n.psp, n.original, n.account, n.reference,
		strconv.FormatInt(wireValue(n.money), 10), n.money.Currency, n.code, n.success}, ":")))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func (n note) item(key string) map[string]any {
	extra := map[string]any{"hmacSignature": n.signature(key), "cardSummary": "1111"}
	for k, v := range n.extra {
		extra[k] = v
	}
	it := map[string]any{
		"pspReference": n.psp, "merchantAccountCode": n.account, "merchantReference": n.reference, "amount": wireAmount(n.money),
		"eventCode": n.code, "success": n.success, "eventDate": n.at.Format("2006-01-02T15:04:05-07:00"),
		"reason": n.reason, "paymentMethod": "visa", "additionalData": extra,
	}
	if n.original != "" {
		it["originalReference"] = n.original
	}
	return map[string]any{"NotificationRequestItem": it}
}

// notify renders a notification of items signed with a key.
func notify(key string, notes ...note) []byte {
	items := []any{}
	for _, n := range notes {
		items = append(items, n.item(key))
	}
	raw, err := json.Marshal(map[string]any{"live": "false", "notificationItems": items})
	if err != nil {
		panic(err)
	}
	return raw
}

// Event: the first is the authorisation, any other one a capture with an id of its own.
func (f *fake) Event(id string, about provider.Object, at time.Time) (http.Header, []byte) {
	n := note{psp: about.ID, account: testAccount, reference: about.Reference, code: "AUTHORISATION", success: "true",
		reason: "033899:1111:03/2030", money: about.Money, at: at}
	if id != "evt_1" {
		n.psp, n.original, n.code, n.reason = id, about.ID, "CAPTURE", ""
	}
	return http.Header{}, notify(testHMAC, n)
}

func (f *fake) Unrelated(id string, at time.Time) (http.Header, []byte) {
	return http.Header{}, notify(testHMAC, note{psp: id, account: testAccount, code: "REPORT_AVAILABLE", success: "true",
		reason: "https://ca-test.adyen.com/reports/x.csv", money: provider.Money{Currency: "EUR"}, at: at})
}

// edited returns a delivery whose one item was changed.
func edited(raw []byte, change func(it map[string]any)) []byte {
	var n map[string]any
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	if err := dec.Decode(&n); err != nil {
		panic(err)
	}
	change(n["notificationItems"].([]any)[0].(map[string]any)["NotificationRequestItem"].(map[string]any))
	out, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	return out
}

func (f *fake) Tampered(raw []byte) (out [][]byte) {
	for _, name := range []string{"pspReference", "originalReference", "merchantAccountCode", "merchantReference", "eventCode"} {
		out = append(out, edited(raw, func(it map[string]any) { it[name] = "another" }))
	}
	return append(out,
		edited(raw, func(it map[string]any) { it["success"] = "false" }),
		edited(raw, func(it map[string]any) { it["amount"].(map[string]any)["value"] = 1 }),
		edited(raw, func(it map[string]any) { it["amount"].(map[string]any)["currency"] = "USD" }),
		edited(raw, func(it map[string]any) { it["additionalData"].(map[string]any)["hmacSignature"] = "AAAA" }))
}

func (f *fake) Unsigned(raw []byte) []byte {
	return edited(raw, func(it map[string]any) { delete(it, "additionalData") })
}

// DisputeEvent renders an event about a dispute.
func (f *fake) DisputeEvent(_ string, about provider.Object, at time.Time) (http.Header, []byte) {
	code := map[string]string{
		provider.DisputeOpened: "NOTIFICATION_OF_CHARGEBACK", provider.DisputeWon: "CHARGEBACK_REVERSED", provider.DisputeLost: "SECOND_CHARGEBACK",
	}[about.Status]
	return http.Header{}, notify(testHMAC, note{psp: about.ID, original: about.Child.ChargeID, account: testAccount,
		reference: about.Child.PaymentID, code: code, success: "true", reason: about.Reason, money: about.Money, at: at,
		extra: map[string]string{"defensePeriodEndsAt": about.Child.DueBy.Format(time.RFC3339)}})
}
