package mollie

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

var eventTime = time.Unix(1_770_000_000, 0).UTC()

func verifier(t testing.TB, secrets ...string) *Adapter {
	t.Helper()
	a, err := New(provider.Settings{Name: "m", BaseURL: "http://mollie.test", APIKey: testKey, WebhookSecrets: secrets}, Options{})
	require.NoError(t, err)
	return a
}

func header(text ...string) http.Header { return http.Header{SignatureHeader: text} }

func TestW09_Rotation(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"id":"event_1"}`)
	sig := func(secret string) string { return signature(raw, secret) }
	for name, tt := range map[string]struct {
		secrets []string
		header  string
		label   string // empty: not valid
	}{
		"one":                   {[]string{"new"}, sig("new"), "1"},
		"the old one":           {[]string{"new", "old"}, sig("old"), "2"},
		"an old one, gone":      {[]string{"new"}, sig("old"), ""},
		"both":                  {[]string{"new"}, sig("old") + ", " + sig("new"), "1"},
		"both, swapped":         {[]string{"old"}, sig("old") + "," + sig("new"), "1"},
		"an address among them": {[]string{"https://pay.example/w", "new"}, sig("new"), "1"},
		"without its name":      {[]string{"new"}, strings.TrimPrefix(sig("new"), "sha256="), "1"},
		"upper case":            {[]string{"new"}, "sha256=" + strings.ToUpper(strings.TrimPrefix(sig("new"), "sha256=")), "1"},
		"short":                 {[]string{"new"}, sig("new")[:20], ""},
		"another algorithm":     {[]string{"new"}, "sha1=00", ""},
		"more than we look at":  {[]string{"new"}, strings.Repeat(sig("x")+",", maxSignatures) + sig("new"), ""},
		"as many as we look at": {[]string{"new"}, strings.Repeat(sig("x")+",", maxSignatures-1) + sig("new"), "1"},
		"an address alone":      {[]string{"https://pay.example/w"}, sig("https://pay.example/w"), ""},
	} {
		v := verifier(t, tt.secrets...).Verify(header(tt.header), raw, eventTime)
		require.Equal(t, tt.label, v.SecretLabel, name)
		require.Equal(t, tt.label != "", v.Verdict == provider.SignatureValid, name)
		require.NotEqual(t, provider.SignatureMissing, v.Verdict, name)
	}
	v := verifier(t, "new").Verify(header(sig("old"), sig("new")), raw, eventTime)
	require.Equal(t, provider.SignatureValid, v.Verdict, "a header may come twice")
	for _, empty := range []http.Header{nil, header(""), header(" , ")} {
		require.Equal(t, provider.SignatureMissing, verifier(t, "new").Verify(empty, raw, eventTime).Verdict)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	a := verifier(t, "s")
	event := func(kind string, changes ...any) []byte {
		_, raw := signedEvent("event_1", kind, "tr_1", json.RawMessage(said(changes...)), eventTime)
		return raw
	}
	for name, tt := range map[string]struct {
		raw         []byte
		interesting bool
		outcome     provider.Outcome
	}{
		"paid":                   {event("payment.paid"), true, provider.Succeeded},
		"pending":                {event("payment.pending", "status", "pending"), true, provider.Processing},
		"authorized":             {event("payment.authorized", "status", "authorized"), true, provider.Processing},
		"failed":                 {event("payment.failed", "status", "failed"), true, provider.Failed},
		"canceled":               {event("payment.canceled", "status", "canceled"), true, provider.Failed},
		"expired":                {event("payment.expired", "status", "expired"), true, provider.Failed},
		"contradiction":          {event("payment.paid", "status", "open"), true, ""},
		"an unknown word":        {event("payment.paid", "status", "settled"), true, ""},
		"an amount nobody reads": {event("payment.paid", "amount", map[string]string{"currency": "EUR", "value": "1e3"}), true, ""},
		// W-13: signed, and none of our business.
		"the other mode":    {event("payment.paid", "mode", "live"), false, ""},
		"a link":            {event("payment-link.paid"), false, ""},
		"not known yet":     {event("payment.levitated"), false, ""},
		"without an entity": {event("profile.verified", "id", nil), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := a.Parse(tt.raw)
			require.NoError(t, err)
			require.Len(t, got, 1)
			require.Equal(t, "event_1", got[0].Key)
			require.Equal(t, tt.interesting, got[0].Interesting)
			require.Equal(t, tt.outcome, got[0].Object.Outcome)
			require.Equal(t, eventTime, got[0].OccurredAt)
			if tt.interesting {
				require.Equal(t, "tr_1", got[0].Object.ID)
				require.Equal(t, "p1", got[0].Object.Reference)
			}
		})
	}
	for _, raw := range []string{
		`{}`, `{"id":"event_1"}`, `{"type":"payment.paid"}`, `{"id":1,"type":"x"}`, `{"id":"e","type":"x","resource":"payment"}`,
		`{"id":"` + strings.Repeat("e", 101) + `","type":"x"}`, `{"id":"e","type":"payment.paid"}`,
		`{"id":"e","type":"payment.paid","_embedded":{"entity":{}}}`, string(event("payment.paid", "id", "tr_2")),
		string(event("payment.paid", "resource", "order")), string(event("payment.paid", "amount", 1)), "id=tr_1",
	} {
		_, err := a.Parse([]byte(raw))
		require.Error(t, err, "%.80s", raw)
	}
}

func TestHints(t *testing.T) {
	t.Parallel()
	a := verifier(t, "s")
	_, full := signedEvent("event_1", "payment.paid", "tr_1", json.RawMessage(said()), eventTime)
	_, bare := signedEvent("event_1", "payment.paid", "tr_2", nil, eventTime)
	_, link := signedEvent("event_1", "payment-link.paid", "pl_1", nil, eventTime)
	for raw, want := range map[string]string{
		"id=tr_5B8cwPMGnU":                  "tr_5B8cwPMGnU",
		"id=tr_1&testmode=":                 "tr_1",
		string(bare):                        "tr_2",
		string(full):                        "", // says what happened
		string(link):                        "",
		"":                                  "",
		"id=":                               "",
		"id=tr_":                            "",
		"id=tr_1&id=tr_2":                   "",
		"id=ord_1":                          "",
		"id=tr_../balance":                  "",
		"id=tr_1%2F..":                      "",
		"id=tr_%00":                         "",
		"id=tr_é":                           "",
		"testByMollie=1":                    "",
		"id=tr_" + strings.Repeat("a", 200): "",
		"id=tr_1&x=" + strings.Repeat("a", maxForm): "",
		"{}": "",
	} {
		id, ok := a.Hint(nil, []byte(raw))
		require.Equal(t, want != "", ok, "%.80s", raw)
		if ok {
			require.Equal(t, want, id)
		}
	}
}

func TestFetch(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	f.ours("tr_1", noon)
	got := a.Fetch(t.Context(), "tr_1")
	require.Equal(t, provider.LookupFound, got.Verdict, "%+v", got)
	require.Equal(t, "tr_1:paid", got.Event.Key)
	require.Equal(t, "payment.paid", got.Event.Type)
	require.True(t, got.Event.Interesting)
	require.Equal(t, "p1", got.Event.Object.Reference)
	require.Equal(t, provider.Succeeded, got.Event.Object.Outcome)

	got = a.Fetch(t.Context(), "tr_none")
	require.Equal(t, provider.LookupAbsent, got.Verdict, "Mollie's own word: there is no such payment")
	require.Equal(t, provider.HealthOK, got.Health)
	require.Empty(t, got.Event.Key)

	for b, health := range map[providertest.AskBehaviour]provider.Verdict{
		providertest.AskForbidden: provider.HealthNeutral, providertest.AskDown: provider.HealthFail, providertest.AskHTML: provider.HealthFail,
	} {
		f.Ask(b)
		got = a.Fetch(t.Context(), "tr_1")
		require.Equal(t, provider.LookupNoAnswer, got.Verdict, b)
		require.Equal(t, health, got.Health, b)
		require.Empty(t, got.Event.Key)
		require.LessOrEqual(t, got.Requests, provider.AskTries)
	}
	before := f.Questions()
	require.Equal(t, provider.LookupNoAnswer, a.Fetch(t.Context(), "tr_../../balance").Verdict)
	require.Equal(t, before, f.Questions(), "nobody's text becomes a path")

	// The key tells states apart, refunds included.
	refunded := answering(t, http.StatusOK, said("amountRefunded", map[string]string{"currency": "EUR", "value": "10.00"}))
	got = refunded.Fetch(t.Context(), "tr_1")
	require.Equal(t, "tr_1:paid:refunded=1000", got.Event.Key)
	require.Equal(t, &provider.Totals{Captured: 4900, Refunded: 1000}, got.Event.Object.Totals)
	// Another payment than asked for is no answer.
	require.Equal(t, provider.LookupNoAnswer, refunded.Fetch(t.Context(), "tr_2").Verdict)
}

func FuzzSignatureHeader(f *testing.F) {
	raw := []byte(`{"id":"event_1"}`)
	good := signature(raw, "s")
	for _, seed := range []string{good, "", "sha256=", "sha256=00", good + "," + good, strings.ToUpper(good), ",,,", "sha1=00", strings.Repeat("sha256=00,", 100) + good} {
		f.Add(seed)
	}
	a := verifier(f, "s")
	want := strings.TrimPrefix(good, "sha256=")
	f.Fuzz(func(t *testing.T, text string) {
		v := a.Verify(header(text), raw, eventTime)
		if v.Verdict == provider.SignatureValid && (!strings.Contains(strings.ToLower(text), want) || v.SecretLabel != "1") {
			t.Fatalf("%q: %+v", text, v)
		}
		if v.Verdict != provider.SignatureValid && v.SecretLabel != "" {
			t.Fatalf("%q: %+v", text, v)
		}
	})
}

func FuzzEvents(f *testing.F) {
	_, full := signedEvent("event_1", "payment.paid", "tr_1", json.RawMessage(said()), eventTime)
	_, bare := signedEvent("event_1", "payment.paid", "tr_1", nil, eventTime)
	for _, seed := range []string{
		string(full), string(bare), `{}`, `null`, `[]`, ``, "id=tr_1", "id=tr_1;id=tr_2", "id=%zz",
		`{"id":"e","type":"payment.paid","_embedded":{"entity":{"id":"tr_1","status":"paid","amount":{"currency":"EUR","value":"1e3"}}}}`,
		`{"id":"e","type":"capture.succeeded","_embedded":{"entity":{"id":"cpt_1","status":"succeeded","paymentId":"tr_1","amount":{"currency":"EUR","value":"1.00"}}}}`,
		`{"id":"e","type":"capture.failed","_embedded":{"entity":{"id":"cpt_1","status":"failed","paymentId":"tr_1","metadata":{"operation_id":"op1"},"amount":{"currency":"EUR","value":"1.00"}}}}`,
		`{"id":"e","type":"chargeback.reversed","_embedded":{"entity":{"id":"chb_1","paymentId":"tr_1","amount":{"currency":"EUR","value":"1.00"},"reversedAt":"2026-01-02T03:04:05Z"}}}`,
	} {
		f.Add([]byte(seed))
	}
	a := verifier(f, "s")
	f.Fuzz(func(t *testing.T, raw []byte) {
		if id, ok := a.Hint(nil, raw); ok && (!isPaymentID(id) || !pathSafe(id)) {
			t.Fatalf("a hint at %q", id)
		}
		events, err := a.Parse(raw)
		if err != nil {
			return
		}
		for _, e := range events {
			if e.Key == "" || len(e.Key) > maxID || e.Type == "" {
				t.Fatalf("an event without a usable key: %+v", e)
			}
			if e.Interesting && (e.Object.ID == "" || !json.Valid(e.Object.Raw)) {
				t.Fatalf("an event about no payment: %+v", e)
			}
			if o := e.Object; o.Kind == provider.ObjectCapture && (o.Reference == "" || o.Outcome == provider.Succeeded || o.Child.Charge != nil) {
				t.Fatalf("a capture that says more than that it failed: %+v", o)
			}
			if o := e.Object; o.Outcome == provider.Succeeded && o.Money.Validate() != nil {
				t.Fatalf("a success over %+v", o.Money)
			}
		}
	})
}
