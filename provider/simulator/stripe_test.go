package simulator

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// intentForm is a request of 49.00 EUR.
func intentForm(reference, orderRef string, changes ...string) string {
	form := url.Values{
		"amount": {"4900"}, "currency": {"eur"}, "confirm": {"true"}, "off_session": {"true"}, "payment_method": {"pm_card_visa"},
		"metadata[payment_id]": {reference}, "metadata[order_ref]": {orderRef},
	}
	for i := 0; i+1 < len(changes); i += 2 {
		form.Set(changes[i], changes[i+1])
		if changes[i+1] == "" {
			form.Del(changes[i])
		}
	}
	return form.Encode()
}

// intend posts an intent.
func (b *bench) intend(key, form string) answer {
	b.t.Helper()
	a, err := b.send(b.t.Context(), http.MethodPost, intentsPath, key, "application/x-www-form-urlencoded", []byte(form))
	require.NoError(b.t, err)
	return a
}

// told is what an answer says, as an intent, an error or a list.
type told struct {
	stripeIntent
	Error   *stripeError
	Data    []json.RawMessage
	HasMore bool `json:"has_more"`
}

func (a answer) stripe(t *testing.T) told {
	t.Helper()
	var got told
	require.NoError(t, json.Unmarshal(a.body, &got), "%s", a.body)
	return got
}

// ids of a list, in its order.
func (g told) ids(t *testing.T) []string {
	t.Helper()
	ids := []string{}
	for _, raw := range g.Data {
		var o struct{ ID string }
		require.NoError(t, json.Unmarshal(raw, &o))
		ids = append(ids, o.ID)
	}
	return ids
}

// clock is a time that a test sets.
type clock struct{ at atomic.Int64 }

func newClock(t time.Time) *clock {
	c := &clock{}
	c.at.Store(t.UnixNano())
	return c
}

func (c *clock) now() time.Time      { return time.Unix(0, c.at.Load()) }
func (c *clock) add(d time.Duration) { c.at.Add(int64(d)) }

func TestStripeIntent(t *testing.T) {
	t.Parallel()
	b := start(t)
	a := b.intend("k1", intentForm("p1", "order-1"))
	require.Equal(t, http.StatusOK, a.status)
	pi := a.stripe(t)
	require.True(t, strings.HasPrefix(pi.ID, "pi_"))
	require.Equal(t, "payment_intent", pi.Object)
	require.Equal(t, "succeeded", pi.Status)
	require.EqualValues(t, 4900, pi.Amount)
	require.EqualValues(t, 4900, pi.AmountReceived)
	require.Equal(t, "eur", pi.Currency)
	require.Equal(t, map[string]string{"payment_id": "p1", "order_ref": "order-1"}, pi.Metadata)
	require.False(t, pi.Livemode)

	booked := b.ledger("p1")
	require.Len(t, booked, 1)
	require.Equal(t, Charge{ID: pi.ID, Reference: "p1", Key: "k1", Amount: 4900, Currency: "EUR", Status: StatusSucceeded,
		CreatedAt: booked[0].CreatedAt, UpdatedAt: booked[0].UpdatedAt, OrderRef: "order-1", Face: FaceStripe}, booked[0])
	require.Equal(t, 1, b.Stats().ByKey["k1"])
	require.Equal(t, 1, b.Stats().ByReference["p1"])
	require.JSONEq(t, string(a.body), string(b.get(intentsPath+"/"+pi.ID).body))
}

func TestStripeAuthentication(t *testing.T) {
	t.Parallel()
	b := start(t)
	for authorization, status := range map[string]int{
		"Bearer sk": http.StatusOK,
		"Basic " + base64.StdEncoding.EncodeToString([]byte("sk:")): http.StatusOK,
		"Bearer wrong": http.StatusUnauthorized,
		"Basic " + base64.StdEncoding.EncodeToString([]byte("wrong:sk")): http.StatusUnauthorized,
		"": http.StatusUnauthorized,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.URL()+"/v1/balance", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", authorization)
		a, err := b.do(req)
		require.NoError(t, err)
		require.Equal(t, status, a.status, authorization)
		if status != http.StatusOK {
			require.Equal(t, stripeInvalid, a.stripe(t).Error.Type)
		}
	}
	require.Equal(t, http.StatusNotFound, b.get("/v1/charges").status)
}

func TestStripeRefusesWhatItCannotTake(t *testing.T) {
	t.Parallel()
	b := start(t)
	for param, changes := range map[string][]string{
		"amount":               {"amount", ""},
		"currency":             {"currency", "EUR"}, // lower case only
		"confirm":              {"confirm", "false"},
		"payment_method":       {"payment_method", ""},
		"metadata[payment_id]": {"metadata[payment_id]", strings.Repeat("x", 501)},
		"reference":            {"reference", "p1"},
	} {
		a := b.intend("k-"+param, intentForm("p1", "", changes...))
		require.Equal(t, http.StatusBadRequest, a.status, param)
		require.Equal(t, param, a.stripe(t).Error.Param)
		require.Equal(t, "false", a.header.Get("Stripe-Should-Retry"))
	}
	for _, amount := range []string{"0", "-1", "49.00", "4.9e3", "１"} {
		require.Equal(t, "amount", b.intend("k", intentForm("p1", "", "amount", amount)).stripe(t).Error.Param, amount)
	}
	require.Empty(t, b.ledger("p1"))
	a, err := b.send(t.Context(), http.MethodPost, intentsPath, "k", "application/json", []byte("{}"))
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, a.status)
}

// The literals are Stripe's own examples, not values converted back by us.
func TestStripeUnits(t *testing.T) {
	t.Parallel()
	b := start(t)
	for _, tt := range []struct {
		currency, units string
		minor           int64 // 0: refused
	}{
		{"eur", "1000", 1000}, {"jpy", "500", 500}, {"isk", "500", 5}, {"ugx", "500", 5}, {"huf", "1045", 1045},
		{"kwd", "5120", 5120}, {"mga", "15", 1500}, {"kwd", "5124", 0}, {"ugx", "550", 0}, {"isk", "5", 0},
	} {
		ref := tt.currency + tt.units
		a := b.intend("k-"+ref, intentForm(ref, "", "currency", tt.currency, "amount", tt.units))
		if tt.minor == 0 {
			require.Equal(t, http.StatusBadRequest, a.status, ref)
			continue
		}
		require.Equal(t, tt.minor, b.ledger(ref)[0].Amount, ref)
		require.Equal(t, tt.units, fmt.Sprint(a.stripe(t).Amount))
	}
}

func TestStripeDeclines(t *testing.T) {
	t.Parallel()
	b := start(t)
	codes := map[string]string{}
	for i := range 40 {
		a := b.intend(fmt.Sprint("k", i), intentForm(fmt.Sprint("p", i), "fault:decline"))
		require.Equal(t, http.StatusPaymentRequired, a.status)
		e := a.stripe(t).Error
		require.Equal(t, stripeCard, e.Type)
		require.Equal(t, "requires_payment_method", e.PaymentIntent.Status)
		require.Equal(t, e.Code, e.PaymentIntent.LastPaymentError.Code)
		require.Equal(t, e.DeclineCode, e.PaymentIntent.LastPaymentError.DeclineCode)
		require.Zero(t, e.PaymentIntent.AmountReceived)
		codes[e.DeclineCode] = e.Code
	}
	require.Equal(t, map[string]string{
		"generic_decline": "card_declined", "insufficient_funds": "card_declined", "expired_card": "expired_card",
		"lost_card": "card_declined", "withdrawal_count_limit_exceeded": "card_declined",
	}, codes)
}

func TestStripeKeys(t *testing.T) {
	t.Parallel()
	b := start(t, func(o *Options) { o.Faults.Timing.InProgress = time.Minute })
	first := b.intend("k1", intentForm("p1", ""))
	again := b.intend("k1", intentForm("p1", ""))
	require.Equal(t, first.body, again.body)
	require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))

	other := b.intend("k1", intentForm("p1", "", "amount", "5000"))
	require.Equal(t, http.StatusBadRequest, other.status)
	require.Equal(t, stripeIdempotency, other.stripe(t).Error.Type)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = b.send(ctx, http.MethodPost, intentsPath, "k2", "application/x-www-form-urlencoded", []byte(intentForm("p2", "fault:in_progress_409")))
	}()
	require.Eventually(t, func() bool { return b.Stats().Faults[InProgress409] == 1 }, patience, glance)
	busy := b.intend("k2", intentForm("p2", "fault:in_progress_409"))
	require.Equal(t, http.StatusConflict, busy.status)
	require.Equal(t, "idempotency_key_in_use", busy.stripe(t).Error.Code)
	require.Equal(t, "true", busy.header.Get("Stripe-Should-Retry"))
	cancel()
	<-gone

	require.Equal(t, http.StatusOK, b.intend("", intentForm("p3", "")).status, "a key is optional at Stripe")
	require.Equal(t, http.StatusOK, b.intend("", intentForm("p3", "")).status)
	require.Len(t, b.ledger("p3"), 2)
}

func TestStripeRefusals(t *testing.T) {
	t.Parallel()
	b := start(t)
	for fault, status := range map[Fault]int{
		Throttle429: 429, Rejected422: 400, Unauthorized401: 401, Forbidden403: 403,
	} {
		ref := string(fault)
		a := b.intend("k-"+ref, intentForm(ref, "fault:"+ref))
		require.Equal(t, status, a.status)
		require.Equal(t, stripeInvalid, a.stripe(t).Error.Type)
		require.Empty(t, b.ledger(ref))
		require.Equal(t, http.StatusOK, b.intend("k-"+ref, intentForm(ref, "fault:"+ref)).status, "the key is free again")
	}
	a := b.intend("k", intentForm("p500", "fault:error_500"))
	require.Equal(t, http.StatusInternalServerError, a.status)
	require.Equal(t, stripeAPI, a.stripe(t).Error.Type)
}

func TestStripeList(t *testing.T) {
	t.Parallel()
	clock := newClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	b := start(t, func(o *Options) { o.Now = clock.now })
	var ids []string // newest first
	for i := range 5 {
		pi := b.intend(fmt.Sprint("k", i), intentForm(fmt.Sprint("p", i), "")).stripe(t)
		ids = append([]string{pi.ID}, ids...)
		clock.add(time.Minute)
	}
	at := func(minute int) string {
		return fmt.Sprint(time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC).Unix())
	}
	for query, want := range map[string][]string{
		"":                                      ids,
		"limit=2":                               ids[:2],
		"limit=2&starting_after=" + ids[1]:      ids[2:4],
		"limit=2&starting_after=" + ids[3]:      ids[4:],
		"limit=2&ending_before=" + ids[3]:       ids[1:3],
		"created[gte]=" + at(1):                 ids[:4],
		"created[gt]=" + at(1):                  ids[:3],
		"created[lt]=" + at(1):                  ids[4:],
		"created[lte]=" + at(1):                 ids[3:],
		"created=" + at(2):                      ids[2:3],
		"created[gte]=" + at(9) + "&limit=100":  {},
		"created[gte]=4000000000&created[lt]=1": {},
	} {
		a := b.get(intentsPath + "?" + query)
		if strings.Contains(query, "4000000000") {
			require.Equal(t, http.StatusBadRequest, a.status, "beyond what Stripe takes")
			continue
		}
		require.Equal(t, http.StatusOK, a.status, "%s: %s", query, a.body)
		require.Equal(t, want, a.stripe(t).ids(t), query)
		require.Equal(t, strings.HasPrefix(query, "limit=2") && len(want) == 2, a.stripe(t).HasMore, query)
	}
	for _, query := range []string{"limit=0", "limit=101", "limit=x", "created[ge]=1", "customer=c", "starting_after=pi_none", "a=%zz"} {
		require.Equal(t, http.StatusBadRequest, b.get(intentsPath+"?"+query).status, query)
	}
	require.Equal(t, http.StatusNotFound, b.get(intentsPath+"/pi_none").status)
}

func TestStripeSearchIsBehind(t *testing.T) {
	t.Parallel()
	clock := newClock(time.Now())
	b := start(t, func(o *Options) { o.Now = clock.now })
	pi := b.intend("k", intentForm("p1", "o1")).stripe(t)
	b.intend("k2", intentForm("p2", "o2"))
	search := func(query string) answer {
		return b.get(intentsPath + "/search?query=" + url.QueryEscape(query))
	}
	require.Empty(t, search("metadata['payment_id']:'p1'").stripe(t).Data)
	clock.add(2 * time.Second)
	require.Equal(t, []string{pi.ID}, search("metadata['payment_id']:'p1'").stripe(t).ids(t))
	require.Equal(t, []string{pi.ID}, search("metadata['order_ref']:'o1'").stripe(t).ids(t))
	require.Equal(t, http.StatusBadRequest, search("status:'succeeded'").status)
}

func TestStripeCancel(t *testing.T) {
	t.Parallel()
	b := start(t, func(o *Options) { o.Faults.Timing.Async = time.Hour })
	pi := b.intend("k1", intentForm("p1", "fault:async_202")).stripe(t)
	require.Equal(t, "processing", pi.Status)
	cancel := func(id string) answer {
		a, err := b.send(t.Context(), http.MethodPost, intentsPath+"/"+id+"/cancel", "", "application/x-www-form-urlencoded", nil)
		require.NoError(t, err)
		return a
	}
	require.Equal(t, "canceled", cancel(pi.ID).stripe(t).Status)
	again := cancel(pi.ID)
	require.Equal(t, http.StatusBadRequest, again.status)
	require.Equal(t, "payment_intent_unexpected_state", again.stripe(t).Error.Code)
	require.Equal(t, "canceled", again.stripe(t).Error.PaymentIntent.Status)
	require.Equal(t, http.StatusNotFound, cancel("pi_none").status)
}

// Events are signed in Stripe's header, and can be asked for whether they were delivered
// or not, also after a restart.
func TestStripeEvents(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	b := start(t, into(in), func(o *Options) { o.LedgerPath = path })
	b.intend("k1", intentForm("p1", ""))
	got := in.wait(1)[0]
	require.Equal(t, "payment_intent.succeeded", got.Type)
	require.NotEmpty(t, got.header.Get("Stripe-Signature"))
	require.Empty(t, got.header.Get("Fusebox-Signature"))
	b.intend("k2", intentForm("p2", "fault:webhook_missing"))
	b.charge("k3", one("p3", "")) // the gateway's events are nobody's business here
	in.wait(2)
	b.quiet()

	events := b.get("/v1/events").stripe(t)
	require.Len(t, events.Data, 2, "the missing one is here")
	require.JSONEq(t, string(got.body), string(events.Data[1]))
	require.JSONEq(t, string(got.body), string(b.get("/v1/events/"+got.ID).body))
	require.Equal(t, events.ids(t)[1:], b.get("/v1/events?limit=1&starting_after="+events.ids(t)[0]).stripe(t).ids(t))
	require.Empty(t, b.get("/v1/events?type=payment_intent.canceled").stripe(t).Data)
	require.Equal(t, http.StatusNotFound, b.get("/v1/events/evt_none").status)
	require.NoError(t, b.Close())

	again := start(t, func(o *Options) { o.LedgerPath = path })
	require.Equal(t, events.ids(t), again.get("/v1/events").stripe(t).ids(t))
	require.Equal(t, "true", again.intend("k1", intentForm("p1", "")).header.Get("Idempotent-Replayed"))
	require.Len(t, in.all(), 2, "what was never to be delivered is not delivered after a restart")
}

// A charge nobody asked for is told in the dialect of its face.
func TestStripeManualCharge(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t, into(in))
	a := b.ctl(http.MethodPost, "/_sim/payments", `{"reference":"p1","amount":100,"currency":"EUR","face":"stripe"}`)
	require.Equal(t, http.StatusCreated, a.status, "%s", a.body)
	require.Equal(t, "payment_intent.succeeded", in.wait(1)[0].Type)
	require.Len(t, b.get(intentsPath).stripe(t).Data, 1)
	require.Equal(t, http.StatusBadRequest, b.ctl(http.MethodPost, "/_sim/payments", `{"reference":"p1","amount":100,"currency":"EUR","face":"other"}`).status)
}

// With its charges down the provider books half of them and answers questions.
func TestStripeChargesDown(t *testing.T) {
	t.Parallel()
	b := start(t, func(o *Options) { o.Faults.Outage = OutageCharges })
	for i := range 20 {
		require.Equal(t, http.StatusServiceUnavailable, b.intend(fmt.Sprint("k", i), intentForm(fmt.Sprint("p", i), "")).status)
	}
	booked := len(b.get(intentsPath + "?limit=100").stripe(t).Data)
	require.Greater(t, booked, 3)
	require.Less(t, booked, 17)
}
