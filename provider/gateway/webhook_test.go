package gateway

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

var eventTime = time.Date(2026, 3, 1, 12, 0, 0, 900e6, time.UTC)

// verifier returns an adapter with signing secrets, newest first.
func verifier(t testing.TB, secrets ...string) *Adapter {
	t.Helper()
	a, err := New(provider.Settings{Name: "atlas", BaseURL: "http://provider.test", APIKey: "k", WebhookSecrets: secrets}, Options{})
	require.NoError(t, err)
	return a
}

func signed(value string) http.Header { return http.Header{SignatureHeader: {value}} }

func TestW08_ToleranceIsThreeHundredSecondsBothWays(t *testing.T) {
	t.Parallel()
	a := verifier(t, "s")
	raw := []byte(`{}`)
	for seconds, want := range map[int]string{
		0: provider.SignatureValid, -299: provider.SignatureValid, -300: provider.SignatureValid, -301: provider.SignatureTooOld,
		299: provider.SignatureValid, 300: provider.SignatureValid, 301: provider.SignatureInFuture, 3600: provider.SignatureInFuture,
		-360: provider.SignatureTooOld, // our clock six minutes ahead
	} {
		at := eventTime.Add(time.Duration(seconds) * time.Second)
		got := a.Verify(signed(Sign(raw, at, "s")), raw, eventTime)
		require.Equal(t, want, got.Verdict, seconds)
		require.Equal(t, want != provider.SignatureValid, got.TimeReject, "the HMAC was right: check the clock")
		require.Equal(t, "1", got.SecretLabel)
		forged := a.Verify(signed(Sign(raw, at, "guess")), raw, eventTime)
		require.Equal(t, provider.Verification{Verdict: provider.SignatureInvalid}, forged, "a stranger's time says nothing about our clock")
	}
}

func TestW09_SecretRotation(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"id":"evt_1"}`)
	only := func(secret string) string {
		return strings.TrimPrefix(Sign(raw, eventTime, secret), stampOf(eventTime)+",")
	}
	both := stampOf(eventTime) + "," + only("old") + "," + only("new")
	swapped := only("new") + "," + only("old") + "," + stampOf(eventTime)
	flood := stampOf(eventTime) + strings.Repeat(",v1="+strings.Repeat("00", 32), 1000)
	upper := stampOf(eventTime) + ",v1=" + strings.ToUpper(strings.TrimPrefix(only("new"), "v1="))
	for _, tt := range []struct {
		name    string
		secrets []string
		header  string
		verdict string
		label   string
	}{
		{"both signed, new active", []string{"new"}, both, provider.SignatureValid, "1"},
		{"both signed, both active", []string{"new", "old"}, both, provider.SignatureValid, "1"},
		{"order swapped", []string{"new", "old"}, swapped, provider.SignatureValid, "1"},
		{"still signed with the old one", []string{"new", "old"}, Sign(raw, eventTime, "old"), provider.SignatureValid, "2"},
		{"only the old one active", []string{"old"}, both, provider.SignatureValid, "1"},
		{"old one expired here", []string{"new"}, Sign(raw, eventTime, "old"), provider.SignatureInvalid, ""},
		{"a thousand signatures", []string{"new"}, flood, provider.SignatureInvalid, ""},
		{"a thousand and then the right one", []string{"new"}, flood + "," + only("new"), provider.SignatureInvalid, ""},
		{"the right one first", []string{"new"}, strings.Replace(flood, ",", ","+only("new")+",", 1), provider.SignatureValid, "1"},
		{"upper-case hex", []string{"new"}, upper, provider.SignatureValid, "1"},
		{"v0 only", []string{"new"}, strings.ReplaceAll(Sign(raw, eventTime, "new"), "v1=", "v0="), provider.SignatureMissing, ""},
		{"spaces", []string{"new"}, strings.ReplaceAll(both, ",", " , "), provider.SignatureValid, "1"},
		{"no time", []string{"new"}, only("new"), provider.SignatureInvalid, ""},
		{"two times", []string{"new"}, stampOf(eventTime) + "," + both, provider.SignatureInvalid, ""},
		{"junk time", []string{"new"}, "t=now," + only("new"), provider.SignatureInvalid, ""},
		{"signed time", []string{"new"}, "t=+1," + only("new"), provider.SignatureInvalid, ""},
		{"short signature", []string{"new"}, stampOf(eventTime) + ",v1=abcd", provider.SignatureInvalid, ""},
		{"no hex", []string{"new"}, stampOf(eventTime) + ",v1=" + strings.Repeat("zz", 32), provider.SignatureInvalid, ""},
		{"empty", []string{"new"}, " ", provider.SignatureMissing, ""},
		{"no name", []string{"new"}, ",,,=,", provider.SignatureMissing, ""},
		{"signed with the empty secret", []string{"new"}, Sign(raw, eventTime, ""), provider.SignatureInvalid, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := verifier(t, tt.secrets...).Verify(signed(tt.header), raw, eventTime)
			require.Equal(t, provider.Verification{Verdict: tt.verdict, SecretLabel: tt.label}, got)
		})
	}
}

func TestW09_AnEmptySecretDoesNotStart(t *testing.T) {
	t.Parallel()
	for _, secrets := range [][]string{nil, {}, {""}, {"new", ""}, {" "}} {
		_, err := New(provider.Settings{Name: "atlas", BaseURL: "http://provider.test", APIKey: "k", WebhookSecrets: secrets}, Options{})
		var fe *provider.FieldError
		require.ErrorAs(t, err, &fe)
		require.Equal(t, "webhook_secrets", fe.Field)
	}
	// And were it ever to get past the door, it would match nothing.
	require.Empty(t, match([]string{""}, "1", [][]byte{mac("", "1", nil)}, nil))
}

// A signature header sent as two header lines is one list.
func TestSignatureOverTwoHeaderLines(t *testing.T) {
	t.Parallel()
	raw := []byte(`{}`)
	stamp, sig, _ := strings.Cut(Sign(raw, eventTime, "s"), ",")
	got := verifier(t, "s").Verify(http.Header{SignatureHeader: {stamp, sig}}, raw, eventTime)
	require.Equal(t, provider.SignatureValid, got.Verdict)
}

// The documented construction, from first principles.
func TestSignIsTheDocumentedConstruction(t *testing.T) {
	t.Parallel()
	// printf '1772366400.{"a":1}' | openssl dgst -sha256 -hmac secret
	require.Equal(t, signVector, Sign([]byte(`{"a":1}`), time.Unix(1772366400, 0), "secret"))
}

func stampOf(at time.Time) string { return fmt.Sprintf("t=%d", at.Unix()) }

func TestParseEvents(t *testing.T) {
	t.Parallel()
	a := verifier(t, "s")
	event := func(kind, data string) string {
		return `{"id":"evt_1","type":"` + kind + `","created_at":"2026-03-01T12:00:00Z","live":false,"data":` + data + `}`
	}
	for _, tt := range []struct {
		name, raw   string
		interesting bool
		outcome     provider.Outcome
	}{
		{"succeeded", event("payment.succeeded", pay1), true, provider.Succeeded},
		{"canceled is failed", event("payment.failed", strings.Replace(pay1, "succeeded", "canceled", 1)), true, provider.Failed},
		{"processing", event("payment.processing", strings.Replace(pay1, "succeeded", "processing", 1)), true, provider.Processing},
		{"requires action", event("payment.requires_action", strings.Replace(pay1, "succeeded", "requires_action", 1)), true, provider.RequiresAction},
		{"type and object contradict", event("payment.succeeded", strings.Replace(pay1, "succeeded", "failed", 1)), true, ""},
		{"a word we do not know", event("payment.succeeded", strings.Replace(pay1, "succeeded", "settled", 1)), true, ""},
		{"not about a charge", event("invoice.created", `{"id":7}`), false, ""},
		{"not about a charge, no data", `{"id":"evt_1","type":"ping"}`, false, ""},
	} {
		got, err := a.Parse([]byte(tt.raw))
		require.NoError(t, err, tt.name)
		require.Len(t, got, 1)
		require.Equal(t, "evt_1", got[0].Key)
		require.Equal(t, tt.interesting, got[0].Interesting, tt.name)
		require.Equal(t, tt.outcome, got[0].Object.Outcome, tt.name)
		if tt.interesting {
			require.Equal(t, "pay_1", got[0].Object.ID)
			require.Equal(t, asked, got[0].Object.Money)
			require.Equal(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), got[0].OccurredAt)
		}
	}
	for _, bad := range []string{
		``, `null`, `[]`, `{}`, `{"id":"evt_1"}`, `{"type":"payment.succeeded"}`, `{"id":7,"type":"x"}`,
		event("payment.succeeded", `null`), event("payment.succeeded", `{}`), event("payment.succeeded", `{"id":"pay_1","amount":"4900"}`),
		`{"id":"evt_1","type":"payment.succeeded"}`, `{"id":"` + strings.Repeat("e", 256) + `","type":"x"}`,
	} {
		_, err := a.Parse([]byte(bad))
		require.Error(t, err, bad)
	}
}

func FuzzVerify(f *testing.F) {
	raw := []byte(`{"id":"evt_1"}`)
	f.Add(Sign(raw, eventTime, "secret"), raw)
	f.Add("t=1,v1="+strings.Repeat("0", 64), raw)
	f.Add("v0=ab,t=,=,,v1=zz", []byte{})
	a := verifier(f, "secret", "older")
	f.Fuzz(func(t *testing.T, header string, raw []byte) {
		v := a.Verify(signed(header), raw, eventTime)
		if v.Verdict != provider.SignatureValid {
			require.True(t, v.SecretLabel == "" || v.TimeReject)
			return
		}
		// Valid only with the very HMAC in the header.
		stamp, sigs, verdict := parseSignature(header)
		require.Empty(t, verdict)
		found := false
		for _, s := range sigs {
			for _, secret := range []string{"secret", "older"} {
				found = found || hex.EncodeToString(s) == hex.EncodeToString(mac(secret, stamp, raw))
			}
		}
		require.True(t, found)
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"id":"evt_1","type":"payment.succeeded","data":` + pay1 + `}`))
	f.Add([]byte(`{"id":"evt_1","type":"ping"}`))
	f.Add([]byte(`{"id":"evt_1","type":"payment.failed","data":{"id":"a","amount":1e3}}`))
	a := verifier(f, "secret")
	f.Fuzz(func(t *testing.T, raw []byte) {
		events, err := a.Parse(raw)
		if err != nil {
			require.Empty(t, events)
			return
		}
		for _, e := range events {
			require.NotEmpty(t, e.Key)
			require.NotEmpty(t, e.Type)
			require.Equal(t, e.Interesting, e.Object.ID != "")
		}
	})
}

// signVector is the header openssl gives for the test above.
const signVector = "t=1772366400,v1=d8672815ca4380560f22aa75717125a02bb80047d106e2eba68339fe06346243"
