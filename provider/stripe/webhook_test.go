package stripe

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85/webhook"

	"fusebox/provider"
)

var eventTime = time.Unix(1_770_000_000, 0)

func verifier(t *testing.T, secrets ...string) *Adapter {
	t.Helper()
	a, err := New(provider.Settings{Name: "s", BaseURL: "http://stripe.test", APIKey: testKey, WebhookSecrets: secrets}, Options{})
	require.NoError(t, err)
	return a
}

func header(text ...string) http.Header { return http.Header{SignatureHeader: text} }

func TestW08_Timestamps(t *testing.T) {
	t.Parallel()
	a := verifier(t, "s")
	raw := []byte(`{"id":"evt_1"}`)
	for age, want := range map[time.Duration]string{
		0: provider.SignatureValid, 299 * time.Second: provider.SignatureValid, 300 * time.Second: provider.SignatureValid,
		301 * time.Second: provider.SignatureTooOld, -299 * time.Second: provider.SignatureValid,
		-300 * time.Second: provider.SignatureValid, -301 * time.Second: provider.SignatureInFuture, -time.Hour: provider.SignatureInFuture,
	} {
		v := a.Verify(header(signature(raw, eventTime, "s")), raw, eventTime.Add(age))
		require.Equal(t, want, v.Verdict, age)
		require.Equal(t, want != provider.SignatureValid, v.TimeReject, age)
		require.Equal(t, "1", v.SecretLabel)
	}
	// A stranger's timestamp says nothing about our clock.
	v := a.Verify(header(signature(raw, eventTime, "other")), raw, eventTime.Add(time.Hour))
	require.Equal(t, provider.Verification{Verdict: provider.SignatureInvalid}, v)
}

func TestW09_SecretRotation(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"id":"evt_1"}`)
	sig := func(secret string) string {
		return hex.EncodeToString(webhook.ComputeSignature(eventTime, raw, secret))
	}
	stamp := fmt.Sprintf("t=%d", eventTime.Unix())
	for name, tt := range map[string]struct {
		secrets []string
		header  string
		label   string
	}{
		"one":                    {[]string{"new"}, stamp + ",v1=" + sig("new"), "1"},
		"both sign":              {[]string{"new"}, stamp + ",v1=" + sig("old") + ",v1=" + sig("new"), "1"},
		"both sign, other order": {[]string{"new"}, "v1=" + sig("new") + "," + stamp + ",v1=" + sig("old"), "1"},
		"old one still active":   {[]string{"new", "old"}, stamp + ",v1=" + sig("old"), "2"},
		"old one expired":        {[]string{"new"}, stamp + ",v1=" + sig("old"), ""},
		"upper-case hex":         {[]string{"new"}, stamp + ",v1=" + strings.ToUpper(sig("new")), "1"},
		"v0 beside it":           {[]string{"new"}, stamp + ",v0=" + sig("x") + ",v1=" + sig("new"), "1"},
		"v0 only":                {[]string{"new"}, stamp + ",v0=" + sig("new"), ""},
		"junk beside it":         {[]string{"new"}, stamp + ",v1=zz,v1=,v1=abcd,,=,v1=" + sig("new"), "1"},
		"spaces":                 {[]string{"new"}, stamp + ", v1=" + sig("new"), "1"},
		"two times":              {[]string{"new"}, stamp + "," + stamp + ",v1=" + sig("new"), ""},
		"no time":                {[]string{"new"}, "v1=" + sig("new"), ""},
		"time with a sign":       {[]string{"new"}, "t=+1770000000,v1=" + sig("new"), ""},
		"time with a zero":       {[]string{"new"}, "t=01770000000,v1=" + sig("new"), ""},
		"a thousand":             {[]string{"new"}, stamp + strings.Repeat(",v1="+sig("x"), 1000) + ",v1=" + sig("new"), ""},
		"more than we look at":   {[]string{"new"}, stamp + strings.Repeat(",v1="+sig("x"), maxSignatures) + ",v1=" + sig("new"), ""},
		"as many as we look at":  {[]string{"new"}, stamp + strings.Repeat(",v1="+sig("x"), maxSignatures-1) + ",v1=" + sig("new"), "1"},
	} {
		v := verifier(t, tt.secrets...).Verify(header(tt.header), raw, eventTime)
		require.Equal(t, tt.label, v.SecretLabel, name)
		require.Equal(t, tt.label != "", v.Verdict == provider.SignatureValid, name)
	}
	v := verifier(t, "new").Verify(header(stamp, "v1="+sig("new")), raw, eventTime)
	require.Equal(t, provider.SignatureValid, v.Verdict, "a header may come in two lines")
	for _, empty := range []string{"", "  ", stamp, "t=x,v0=1"} {
		require.NotEqual(t, provider.SignatureValid, verifier(t, "new").Verify(header(empty), raw, eventTime).Verdict)
	}
}

func TestW09_AnEmptySecretDoesNotStart(t *testing.T) {
	t.Parallel()
	for _, secrets := range [][]string{nil, {""}, {"a", " "}} {
		_, err := New(provider.Settings{Name: "s", BaseURL: "http://stripe.test", APIKey: testKey, WebhookSecrets: secrets}, Options{})
		require.ErrorContains(t, err, "webhook_secrets")
	}
}

// event renders an event about an intent with changes.
func event(kind string, intent string, changes ...any) []byte {
	e := map[string]any{"id": "evt_1", "object": "event", "type": kind, "created": eventTime.Unix(), "livemode": false,
		"data": map[string]any{"object": json.RawMessage(intent)}}
	for i := 0; i+1 < len(changes); i += 2 {
		e[changes[i].(string)] = changes[i+1]
	}
	raw, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return raw
}

func TestEvents(t *testing.T) {
	t.Parallel()
	a := verifier(t, "s")
	failed := `{"type":"card_error","code":"card_declined","decline_code":"lost_card","message":"No."}`
	auth := `{"type":"card_error","code":"authentication_required"}`
	failing := func(why string) string {
		return said("status", "requires_payment_method", "amount_received", 0, "last_payment_error", json.RawMessage(why))
	}
	for name, tt := range map[string]struct {
		raw         []byte
		interesting bool
		outcome     provider.Outcome
	}{
		"succeeded":          {event("payment_intent.succeeded", said()), true, provider.Succeeded},
		"failed":             {event("payment_intent.payment_failed", failing(failed)), true, provider.Failed},
		"absent customer":    {event("payment_intent.payment_failed", failing(auth)), true, provider.RequiresAction},
		"processing":         {event("payment_intent.processing", said("status", "processing", "amount_received", 0)), true, provider.Processing},
		"requires action":    {event("payment_intent.requires_action", said("status", "requires_action", "amount_received", 0)), true, provider.RequiresAction},
		"capturable":         {event("payment_intent.amount_capturable_updated", said("status", "requires_capture", "amount_received", 0)), true, provider.Processing},
		"canceled":           {event("payment_intent.canceled", said("status", "canceled", "amount_received", 0)), true, provider.Failed},
		"contradiction":      {event("payment_intent.succeeded", said("status", "canceled")), true, ""},
		"unknown status":     {event("payment_intent.processing", said("status", "settling")), true, ""},
		"old API version":    {event("payment_intent.requires_action", said("status", "requires_source_action", "amount_received", 0), "api_version", "2018-11-08"), true, provider.RequiresAction},
		"old version, newer": {event("payment_intent.succeeded", said("charges", map[string]any{"data": 7}, "latest_charge", []int{1}), "api_version", "2030-01-01.elm"), true, provider.Succeeded},
		"no version":         {event("payment_intent.succeeded", said(), "api_version", nil), true, provider.Succeeded},
		// W-13: signed, and none of our business.
		"created":               {event("payment_intent.created", said("status", "requires_payment_method")), false, ""},
		"a charge":              {event("charge.succeeded", `{"id":"ch_1"}`), false, ""},
		"of the other mode":     {event("payment_intent.succeeded", said("livemode", true), "livemode", true), false, ""},
		"of another account":    {event("payment_intent.succeeded", said(), "account", "acct_1"), false, ""},
		"a thin one of API v2":  {event("v2.core.account.updated", `null`, "object", "v2.core.event"), false, ""},
		"a type not known yet":  {event("payment_intent.levitated", said()), false, ""},
		"an invoice, data null": {event("invoice.created", `null`), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := a.Parse(tt.raw)
			require.NoError(t, err)
			require.Len(t, got, 1)
			require.Equal(t, "evt_1", got[0].Key)
			require.Equal(t, tt.interesting, got[0].Interesting)
			require.Equal(t, tt.outcome, got[0].Object.Outcome)
			if tt.interesting {
				require.Equal(t, "pi_1", got[0].Object.ID)
				require.Equal(t, "p1", got[0].Object.Reference)
				require.NotContains(t, string(got[0].Object.Raw), "_secret_")
			}
			require.Equal(t, eventTime.UTC(), got[0].OccurredAt)
		})
	}
	got, err := a.Parse(event("payment_intent.payment_failed", failing(failed)))
	require.NoError(t, err)
	require.Equal(t, "lost_card", got[0].Object.Reason)
	require.Equal(t, "No.", got[0].Object.Message)
	require.Equal(t, asked, got[0].Object.Money)
}

// What is not what Stripe documents is an error, so that it comes again or is looked at.
func TestEventsThatAreNone(t *testing.T) {
	t.Parallel()
	a := verifier(t, "s")
	for _, raw := range []string{
		`{}`, `{"id":"evt_1"}`, `{"type":"payment_intent.succeeded"}`, `{"id":1,"type":"x"}`,
		`{"id":"` + strings.Repeat("e", 256) + `","type":"x"}`, `{"id":"e","type":"` + strings.Repeat("x", 256) + `"}`,
		string(event("payment_intent.succeeded", `null`)), string(event("payment_intent.succeeded", `{}`)),
		string(event("payment_intent.succeeded", said("object", "charge"))), string(event("payment_intent.succeeded", said("amount", "4900"))),
		string(event("payment_intent.succeeded", said("id", strings.Repeat("p", 256)))),
	} {
		_, err := a.Parse([]byte(raw))
		require.Error(t, err, "%.80s", raw)
	}
}

func FuzzSignatureHeader(f *testing.F) {
	raw := []byte(`{"id":"evt_1"}`)
	good := signature(raw, eventTime, "s")
	for _, seed := range []string{
		good, "", "t=1", "t=1,v1=", "v1=00", "t=1,t=2,v1=00", good + "," + good, "t=-1,v1=00", "t=99999999999999999999,v1=00",
		strings.ToUpper(good), "t = 1 , v1 = 0", ",,,", "t=1770000000,v0=00", strings.Repeat("v1=00,", 100) + good,
	} {
		f.Add(seed)
	}
	a, err := New(provider.Settings{Name: "s", BaseURL: "http://stripe.test", APIKey: testKey, WebhookSecrets: []string{"s"}}, Options{})
	require.NoError(f, err)
	want := hex.EncodeToString(webhook.ComputeSignature(eventTime, raw, "s"))
	f.Fuzz(func(t *testing.T, text string) {
		v := a.Verify(header(text), raw, eventTime)
		if v.Verdict == provider.SignatureValid && !strings.Contains(strings.ToLower(text), want) {
			t.Fatalf("%q was accepted without the signature", text)
		}
		if v.Verdict == provider.SignatureValid && v.SecretLabel != "1" {
			t.Fatalf("%q: %+v", text, v)
		}
		at, cleaned, verdict := parseSignature(text)
		if verdict != "" {
			return
		}
		again, same, verdict := parseSignature(cleaned)
		if again != at || same != cleaned || verdict != "" {
			t.Fatalf("%q is read as %q and that as %q", text, cleaned, same)
		}
	})
}

func FuzzEvents(f *testing.F) {
	for _, seed := range []string{
		string(event("payment_intent.succeeded", said())), string(event("payment_intent.payment_failed", said("status", "requires_payment_method"))),
		string(event("charge.refunded", `{"id":"ch_1"}`)), string(event("refund.updated", refunded())),
		string(event("charge.dispute.closed", `{"id":"dp_1","status":"won","payment_intent":{"id":"pi_1"},"evidence_details":null}`)), string(event("payment_intent.canceled", `null`)), `{}`, `null`, `[]`, ``,
		`{"id":"e","type":"payment_intent.succeeded","data":{"object":{"id":"pi_1","status":"succeeded","amount":1e3}}}`,
		`{"id":"e","type":"payment_intent.succeeded","data":{"object":{"id":"pi_1","status":"succeeded","amount":9223372036854775807,"currency":"mga"}}}`,
	} {
		f.Add([]byte(seed))
	}
	a, err := New(provider.Settings{Name: "s", BaseURL: "http://stripe.test", APIKey: testKey, WebhookSecrets: []string{"s"}}, Options{})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, raw []byte) {
		events, err := a.Parse(raw)
		if err != nil {
			return
		}
		for _, e := range events {
			if e.Key == "" || len(e.Key) > maxID || e.Type == "" {
				t.Fatalf("an event without a usable key: %+v", e)
			}
			if e.Interesting && e.Object.ID == "" {
				t.Fatalf("an event about no charge: %+v", e)
			}
			if e.Interesting && !json.Valid(e.Object.Raw) {
				t.Fatalf("evidence that is no JSON: %s", e.Object.Raw)
			}
			if o := e.Object; o.Outcome == provider.Succeeded && (o.Money.Validate() != nil && o.Money.Amount != 0) {
				t.Fatalf("a success over %+v", o.Money)
			}
		}
	})
}
