package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdk "github.com/stripe/stripe-go/v85"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// answering returns an adapter on a Stripe that gives every charge the same answer.
func answering(t *testing.T, status int, body string, header ...string) *Adapter {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	a, err := New(provider.Settings{Name: "s", BaseURL: srv.URL, APIKey: testKey, WebhookSecrets: []string{testSecret}}, Options{Sleep: noSleep})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a
}

// said is a PaymentIntent of ours over 49.00 EUR with changes, in JSON.
func said(changes ...any) string {
	o := provider.Object{ID: "pi_1", Reference: "p1", Outcome: provider.Succeeded, Money: asked, CreatedAt: time.Unix(1_770_000_000, 0)}
	pi := rendered(o)
	for i := 0; i+1 < len(changes); i += 2 {
		pi[changes[i].(string)] = changes[i+1]
	}
	b, err := json.Marshal(pi)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	auth := `"last_payment_error":{"type":"card_error","code":"authentication_required","message":"Authenticate."}`
	required := strings.Replace(said("status", "requires_payment_method", "amount_received", 0), `"last_payment_error":null`, auth, 1)
	for name, tt := range map[string]struct {
		status  int
		body    string
		header  []string
		outcome provider.Outcome
		health  provider.Verdict
		reason  string
		review  string
	}{
		"C-17 requires_action": {200, said("status", "requires_action", "amount_received", 0), nil,
			provider.RequiresAction, provider.HealthOK, provider.ReasonAction, ""},
		"C-17 402 with an intent that wants authentication": {402,
			`{"error":{"type":"card_error","code":"authentication_required","message":"m","payment_intent":` + required + `}}`, nil,
			provider.RequiresAction, provider.HealthOK, provider.ReasonAction, ""},
		"C-17 the same, the intent silent about it": {402,
			`{"error":{"type":"card_error","code":"card_declined","decline_code":"authentication_required","payment_intent":` +
				said("status", "requires_payment_method", "amount_received", 0) + `}}`, nil,
			provider.RequiresAction, provider.HealthOK, provider.ReasonAction, ""},
		"402 without an intent": {402, `{"error":{"type":"card_error","code":"authentication_required"}}`, nil,
			provider.Failed, provider.HealthOK, provider.ReasonDeclined, ""},
		"402 with an intent that succeeded": {402, `{"error":{"type":"card_error","code":"card_declined","payment_intent":` + said() + `}}`, nil,
			provider.Unknown, provider.HealthNeutral, provider.ReasonContradiction, provider.ReviewKeyReused},
		"a listed decline under 400": {400, `{"error":{"type":"card_error","code":"expired_card"}}`, nil,
			provider.Failed, provider.HealthOK, provider.ReasonDeclined, ""},
		"requires_capture": {200, said("status", "requires_capture", "amount_received", 0), nil,
			provider.Processing, provider.HealthOK, provider.ReasonProcessing, ""},
		"requires_confirmation": {200, said("status", "requires_confirmation", "amount_received", 0), nil,
			provider.RequiresAction, provider.HealthOK, provider.ReasonAction, ""},
		"canceled": {200, said("status", "canceled", "amount_received", 0), nil,
			provider.Failed, provider.HealthOK, provider.ReasonDeclined, ""},
		"requires_payment_method without an attempt": {200, said("status", "requires_payment_method", "amount_received", 0), nil,
			provider.Unknown, provider.HealthNeutral, provider.ReasonUnmapped, provider.ReviewUnmapped},
		"W-15 received less": {200, said("amount_received", 100), nil,
			provider.Unknown, provider.HealthNeutral, provider.ReasonAmount, provider.ReviewAmountMismatch},
		"W-15 received more than it was made for": {200, said("amount", 100), nil,
			provider.Unknown, provider.HealthNeutral, provider.ReasonUnmapped, provider.ReviewUnmapped},
		"W-15 another currency": {200, said("currency", "jpy"), nil,
			provider.Unknown, provider.HealthNeutral, provider.ReasonAmount, provider.ReviewAmountMismatch},
		"W-15 no amount": {200, `{"id":"pi_1","object":"payment_intent","status":"succeeded","currency":"eur"}`, nil,
			provider.Unknown, provider.HealthNeutral, provider.ReasonAmount, provider.ReviewAmountMismatch},
		"W-15 a fraction": {200, said("amount", 4900.5), nil,
			provider.Unknown, provider.HealthNeutral, provider.ReasonContract, ""},
		"W-15 negative": {200, said("amount", -4900, "amount_received", -4900), nil,
			provider.Unknown, provider.HealthNeutral, provider.ReasonUnmapped, provider.ReviewUnmapped},
		"an older API version without amount_received": {200, said("amount_received", nil), nil,
			provider.Succeeded, provider.HealthOK, provider.ReasonSucceeded, ""},
		"another object": {200, said("object", "charge"), nil,
			provider.Unknown, provider.HealthNeutral, provider.ReasonContract, ""},
		"another payment's": {200, said("metadata", map[string]string{"payment_id": "p2"}), nil,
			provider.Unknown, provider.HealthNeutral, provider.ReasonContradiction, provider.ReviewKeyReused},
		"of the other mode": {200, said("livemode", true), nil,
			provider.Unknown, provider.HealthNeutral, provider.ReasonContradiction, provider.ReviewKeyReused},
		"C-09 in use": {409, `{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}`, nil,
			provider.Unknown, provider.HealthNeutral, provider.ReasonKeyInUse, ""},
		"C-09 in use, without a code": {409, `{"error":{"type":"idempotency_error","message":"in progress"}}`, nil,
			provider.Unknown, provider.HealthNeutral, provider.ReasonKeyInUse, ""},
		"another 409": {409, `{"error":{"type":"invalid_request_error","code":"resource_already_exists"}}`, nil,
			provider.Unknown, provider.HealthNeutral, provider.ReasonUnlisted, provider.ReviewUnmapped},
		"C-11 reused": {400, `{"error":{"type":"idempotency_error","message":"Keys for idempotent requests…"}}`, nil,
			provider.Unknown, provider.HealthNeutral, provider.ReasonKeyReused, provider.ReviewKeyReused},
		"refused, but not for good": {400, `{"error":{"type":"invalid_request_error"}}`, []string{shouldRetryHeader, "true"},
			provider.Unknown, provider.HealthNeutral, provider.ReasonKeyInUse, ""},
		"refused for good": {400, `{"error":{"type":"invalid_request_error"}}`, []string{shouldRetryHeader, "false"},
			provider.Failed, provider.HealthNeutral, provider.ReasonRejected, ""},
		"declined, whatever the header": {402, `{"error":{"type":"card_error","code":"card_declined"}}`, []string{shouldRetryHeader, "true"},
			provider.Failed, provider.HealthOK, provider.ReasonDeclined, ""},
		"lock_timeout": {429, `{"error":{"type":"invalid_request_error","code":"lock_timeout"}}`, []string{shouldRetryHeader, "true"},
			provider.NotExecuted, provider.HealthNeutral, provider.ReasonThrottled, ""},
		"a 500, whatever the header": {500, `{"error":{"type":"api_error"}}`, []string{shouldRetryHeader, "false"},
			provider.Unknown, provider.HealthFail, "provider_500", ""},
		"a replayed 500": {500, `{"error":{"type":"api_error"}}`, []string{"Idempotent-Replayed", "true"},
			provider.Unknown, provider.HealthNeutral, "provider_500", ""},
		"C-06 empty": {200, "", nil, provider.Unknown, provider.HealthFail, provider.ReasonNotJSON, ""},
		"error of another shape": {400, `{"error":"no"}`, nil,
			provider.Failed, provider.HealthNeutral, provider.ReasonRejected, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := answering(t, tt.status, tt.body, tt.header...).charged(t, "p1", "", asked)
			require.Equal(t, tt.outcome, got.Outcome, "%+v", got.Classification)
			require.Equal(t, tt.health, got.Health)
			require.Equal(t, tt.reason, got.Reason)
			require.Equal(t, tt.review, got.Review)
		})
	}
}

func TestDeclineKeepsStripesWords(t *testing.T) {
	t.Parallel()
	a := answering(t, 402, `{"error":{"type":"card_error","code":"card_declined","decline_code":"insufficient_funds","message":"Your card has insufficient funds.",
		"payment_intent":{"id":"pi_1","object":"payment_intent","status":"requires_payment_method","amount":4900,"currency":"eur","created":1770000000,
		"client_secret":"pi_1_secret_x","last_payment_error":{"type":"card_error","code":"card_declined","decline_code":"insufficient_funds","message":"Your card 4242 4242 4242 4242 has insufficient funds."}}}}`)
	got := a.charged(t, "p1", "", asked)
	require.Equal(t, provider.Failed, got.Outcome)
	require.Equal(t, "Your card has insufficient funds.", got.Message)
	require.Equal(t, "insufficient_funds", got.Object.Reason)
	require.Equal(t, "Your card [card 4242] has insufficient funds.", got.Object.Message)
	require.Equal(t, int64(1770000000), got.Object.CreatedAt.Unix())
	for _, text := range []string{string(got.Exchange.Body), string(got.Object.Raw)} {
		require.NotContains(t, text, "4242 4242")
		require.NotContains(t, text, "pi_1_secret")
	}
}

// What goes out: one set of headers, and nothing about this machine.
func TestHeaders(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	require.Equal(t, provider.Succeeded, a.charged(t, "p1", "", asked).Outcome)
	h := f.headers[0]
	require.Equal(t, "Bearer "+testKey, h.Get("Authorization"))
	require.Equal(t, "k-p1", h.Get("Idempotency-Key"))
	require.Equal(t, sdk.APIVersion, h.Get("Stripe-Version"))
	require.Equal(t, "application/x-www-form-urlencoded", h.Get("Content-Type"))
	require.Equal(t, "fusebox stripe-go/"+sdk.ClientVersion, h.Get("User-Agent"))
	for name := range h {
		require.False(t, strings.HasPrefix(name, "X-Stripe"), name)
	}
	require.Len(t, h, 7, "%v", h) // with Accept and Content-Length
}

// A kept-alive connection that is cut after the charge: net/http would send a keyed POST
// with a replayable body again, and stripe-go gives it one.
func TestC01_OneSendOnAWarmConnection(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	require.Equal(t, provider.Succeeded, a.charged(t, "warm", "", asked).Outcome)
	f.Next(providertest.ChargeCut)
	got := a.charged(t, "p1", "", asked)
	require.Equal(t, provider.Unknown, got.Outcome)
	require.Equal(t, provider.ReasonCutAfterSend, got.Reason)
	require.Equal(t, 1, got.Exchange.WireSends)
	require.Len(t, f.Received(), 2)
}

// Even a stripe-go that retries sends once: the second request of a call is refused
// before it reaches the caller.
func TestStripeGoCannotRetry(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	a.client.backend.SetMaxNetworkRetries(3)
	for _, b := range []providertest.Behaviour{providertest.ServerError, providertest.KeyInUse, providertest.Throttle} {
		before := len(f.Received())
		f.Next(b)
		got := a.charged(t, "p-"+string(b), "", asked)
		require.Len(t, f.Received(), before+1, b)
		require.NotEqual(t, provider.Succeeded, got.Outcome)
		require.Equal(t, 1, got.Exchange.WireSends)
	}
}

func TestAKeyThatStripeWouldChangeIsNotSent(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	body, err := a.Freeze(request(asked))
	require.NoError(t, err)
	for _, key := range []string{"", " k", "k ", "k\n", "é", strings.Repeat("k", 256)} {
		got := a.Charge(t.Context(), key, body, asked)
		require.Equal(t, provider.NotSent, got.Outcome, "%q", key)
		require.Equal(t, provider.ReasonLocal, got.Reason)
		require.False(t, got.Exchange.DoneAt.IsZero())
	}
	require.Empty(t, f.Received())
	require.Equal(t, provider.Succeeded, a.Charge(t.Context(), strings.Repeat("k", 255), body, asked).Outcome)
}

// A call that stripe-go refuses to make, and a request that is none of our calls.
func TestCallsThatAreNotMade(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	ex := a.client.post(t.Context(), "/v3/payment_intents", "k", nil)
	var refused *provider.LocalError
	require.ErrorAs(t, ex.Err, &refused)
	require.False(t, ex.MaybeSent())

	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, placeholder, nil)
	_, err := roundTripper{}.RoundTrip(req) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, errTwice)

	s := send{do: func(context.Context, provider.Call) (provider.Exchange, int) {
		return provider.Exchange{Status: 200}, 1
	}}
	req = httptest.NewRequestWithContext(context.WithValue(t.Context(), sendKey{}, &s), http.MethodPost, placeholder, brokenBody{})
	_, err = roundTripper{}.RoundTrip(req) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, errBroken)
	require.False(t, s.made)
}

var errBroken = errors.New("broken")

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, errBroken }

// A redirect is not followed, and a Location that is no URL does not hide the answer.
func TestC04_RedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	for _, location := range []string{"/elsewhere", "http://[::1", "https://evil.example/"} {
		got := answering(t, http.StatusTemporaryRedirect, "", "Location", location).charged(t, "p1", "", asked)
		require.Equal(t, provider.ReasonRedirect, got.Reason)
		require.Equal(t, location, got.Exchange.Location)
		require.Equal(t, 1, got.Exchange.WireSends)
	}
}

// Accounts side by side: each adapter has its own key, and refuses what is not Stripe's.
func TestKeysOfAccounts(t *testing.T) {
	t.Parallel()
	for key, live := range map[string]bool{"sk_test_1": false, "rk_test_1": false, "sk_live_1": true, "rk_live_1": true, "sk_org_live_1": true} {
		got, err := mode(key)
		require.NoError(t, err)
		require.Equal(t, live, got, key)
	}
	f := newFake(t)
	for _, key := range []string{"pk_test_1", "whsec_1", "secret", "sk_1"} {
		s := f.settings()
		s.APIKey = key
		_, err := New(s, Options{})
		var refused *provider.FieldError
		require.ErrorAs(t, err, &refused, key)
		require.Equal(t, "api_key", refused.Field)
		require.NotContains(t, err.Error(), `"`+key, "a key is a secret")
	}
	for field, edit := range map[string]func(*provider.Settings){
		"webhook_secrets": func(s *provider.Settings) { s.WebhookSecrets = nil },
		"account":         func(s *provider.Settings) { s.Account = "shop" },
		"key_life":        func(s *provider.Settings) { s.KeyLife = 25 * time.Hour },
		"base_url":        func(s *provider.Settings) { s.APIKey = "sk_live_1" }, // over http
	} {
		s := f.settings()
		edit(&s)
		_, err := New(s, Options{})
		require.ErrorContains(t, err, field)
	}
}

// A connected account is part of every request and of every match.
func TestConnectedAccount(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t, func(s *provider.Settings) { s.Account = "acct_1" })
	require.Equal(t, provider.Succeeded, a.charged(t, "p1", "", asked).Outcome)
	require.Equal(t, "acct_1", f.headers[0].Get("Stripe-Account"))
	own := f.adapter(t)
	require.Equal(t, provider.Succeeded, own.charged(t, "p2", "", asked).Outcome)
	require.Empty(t, f.headers[1].Values("Stripe-Account"))
	for account, ours := range map[string]bool{"acct_1": true, "acct_2": false, "": false} {
		got, err := a.Parse(event("payment_intent.succeeded", said(), "account", account))
		require.NoError(t, err)
		require.Equal(t, ours, got[0].Interesting, account)
		got, err = own.Parse(event("payment_intent.succeeded", said(), "account", account))
		require.NoError(t, err)
		require.Equal(t, account == "", got[0].Interesting, account)
	}
}

func TestTwoAccountsKeepApart(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	account := func(name, key, secret string) *Adapter {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			if r.Header.Get("Authorization") != "Bearer "+key {
				fail(w, http.StatusUnauthorized, "invalid_request_error", "")
				return
			}
			reply(w, http.StatusOK, json.RawMessage(said("id", "pi_"+name)))
		}))
		t.Cleanup(srv.Close)
		a, err := New(provider.Settings{Name: name, BaseURL: srv.URL, APIKey: key, WebhookSecrets: []string{secret}}, Options{})
		require.NoError(t, err)
		t.Cleanup(a.Close)
		return a
	}
	eu, us := account("eu", "sk_test_eu", "whsec_eu"), account("us", "sk_test_us", "whsec_us")
	require.Equal(t, "pi_eu", eu.charged(t, "p1", "", asked).Object.ID)
	require.Equal(t, "pi_us", us.charged(t, "p1", "", asked).Object.ID)
	require.EqualValues(t, 2, calls.Load())

	now := time.Now()
	_, raw := signed(map[string]any{"id": "evt_1", "type": "payment_intent.succeeded", "data": map[string]any{"object": json.RawMessage(said())}}, now)
	header := http.Header{SignatureHeader: {signature(raw, now, "whsec_eu")}}
	require.Equal(t, provider.SignatureValid, eu.Verify(header, raw, now).Verdict)
	require.Equal(t, provider.SignatureInvalid, us.Verify(header, raw, now).Verdict, "the other account's secret")
}
