package paypal

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

var someEvent = []byte(`{"id":"WH-1","event_type":"PAYMENT.CAPTURE.COMPLETED"}`)

func hooks(ids ...string) func(*provider.Settings, *Options) {
	return func(s *provider.Settings, _ *Options) { s.WebhookSecrets = ids }
}

func TestW08_Times(t *testing.T) {
	t.Parallel()
	f, now := newFake(t), time.Now().Truncate(time.Second)
	a := f.adapter(t)
	for age, want := range map[time.Duration]string{
		0: provider.SignatureValid, 299 * time.Second: provider.SignatureValid, 300 * time.Second: provider.SignatureValid,
		301 * time.Second: provider.SignatureTooOld, -300 * time.Second: provider.SignatureValid, -301 * time.Second: provider.SignatureInFuture,
		time.Hour: provider.SignatureTooOld, -time.Hour: provider.SignatureInFuture,
	} {
		v := a.Verify(f.sign(someEvent, testHook, now.Add(-age)), someEvent, now)
		require.Equal(t, want, v.Verdict, age)
		require.Equal(t, want != provider.SignatureValid, v.TimeReject)
		require.Equal(t, "1", v.SecretLabel)
	}
	// Of a stranger's delivery the time says nothing.
	v := a.Verify(f.sign(someEvent, "OTHER", now.Add(-time.Hour)), someEvent, now)
	require.Equal(t, provider.Verification{Verdict: provider.SignatureInvalid}, v)
}

func TestW09_Rotation(t *testing.T) {
	t.Parallel()
	f, now := newFake(t), time.Now()
	for name, tt := range map[string]struct {
		hooks  []string
		signed string
		label  string
	}{
		"one":              {[]string{"NEW"}, "NEW", "1"},
		"the old one":      {[]string{"NEW", "OLD"}, "OLD", "2"},
		"an old one, gone": {[]string{"NEW"}, "OLD", ""},
	} {
		v := f.adapter(t, hooks(tt.hooks...)).Verify(f.sign(someEvent, tt.signed, now), someEvent, now)
		require.Equal(t, tt.label, v.SecretLabel, name)
		require.Equal(t, tt.label != "", v.Verdict == provider.SignatureValid, name)
	}
}

func TestHeadersThatAreNone(t *testing.T) {
	t.Parallel()
	f, now := newFake(t), time.Now()
	a := f.adapter(t)
	for name, edit := range map[string]func(http.Header){
		"no id":             func(h http.Header) { h.Del("PAYPAL-TRANSMISSION-ID") },
		"another id":        func(h http.Header) { h.Set("PAYPAL-TRANSMISSION-ID", "x") },
		"no time":           func(h http.Header) { h.Del("PAYPAL-TRANSMISSION-TIME") },
		"an odd time":       func(h http.Header) { h.Set("PAYPAL-TRANSMISSION-TIME", "yesterday") },
		"no certificate":    func(h http.Header) { h.Del("PAYPAL-CERT-URL") },
		"another algorithm": func(h http.Header) { h.Set("PAYPAL-AUTH-ALGO", "MD5withRSA") },
		"no base64":         func(h http.Header) { h.Set("PAYPAL-TRANSMISSION-SIG", "%%") },
		"a long one":        func(h http.Header) { h.Set("PAYPAL-TRANSMISSION-SIG", strings.Repeat("A", maxHeader+1)) },
		"a bar in the id":   func(h http.Header) { h.Set("PAYPAL-TRANSMISSION-ID", "a|b") },
	} {
		h := f.sign(someEvent, testHook, now)
		edit(h)
		require.Equal(t, provider.SignatureInvalid, a.Verify(h, someEvent, now).Verdict, name)
	}
	h := f.sign(someEvent, testHook, now)
	h.Del("PAYPAL-TRANSMISSION-SIG")
	require.Equal(t, provider.SignatureMissing, a.Verify(h, someEvent, now).Verdict)
}

// The URL of the certificate comes from the delivery, so it is followed to PayPal only.
func TestCertificatesComeFromPayPalOnly(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	for raw, want := range map[string]bool{
		f.url + certName: true,
		"https://api.paypal.com/v1/notifications/certs/CERT-1":                true,
		"https://api-m.sandbox.paypal.com/v1/notifications/certs/CERT-1":      true,
		"http://api.paypal.com/v1/notifications/certs/CERT-1":                 false,
		"https://api.paypal.com:8443/v1/notifications/certs/CERT-1":           false,
		"https://api.paypal.com.evil.example/v1/notifications/certs/CERT-1":   false,
		"https://evil.example/v1/notifications/certs/CERT-1":                  false,
		"https://www.paypal.com/v1/notifications/certs/CERT-1":                false,
		"https://api.paypal.com@evil.example/v1/notifications/certs/CERT-1":   false,
		"https://evil@api.paypal.com/v1/notifications/certs/CERT-1":           false,
		"https://api.paypal.com/v1/notifications/certs/":                      false,
		"https://api.paypal.com/v1/notifications/certs/../../oauth2/token":    false,
		"https://api.paypal.com/v1/notifications/certs/a/b":                   false,
		"https://api.paypal.com/v1/notifications/certs/%2e%2e":                false,
		"https://api.paypal.com/v1/notifications/certs/CERT-1?x=1":            false,
		"https://api.paypal.com/v1/notifications/certs/CERT-1#x":              false,
		"https://api.paypal.com/redirect?to=/v1/notifications/certs/CERT-1":   false,
		"file:///v1/notifications/certs/CERT-1":                               false,
		"//api.paypal.com/v1/notifications/certs/CERT-1":                      false,
		"https://api.paypal.com\\@evil.example/v1/notifications/certs/CERT-1": false,
	} {
		require.Equal(t, want, a.certs.trusted(raw), raw)
	}
	h := f.sign(someEvent, testHook, time.Now())
	h.Set("PAYPAL-CERT-URL", "https://evil.example/v1/notifications/certs/CERT-1")
	require.Equal(t, provider.SignatureInvalid, a.Verify(h, someEvent, time.Now()).Verdict)
	require.Zero(t, f.certs)
}

func TestTheCertificateIsKept(t *testing.T) {
	t.Parallel()
	f, now := newFake(t), time.Now()
	a := f.adapter(t)
	for range 5 {
		require.Equal(t, provider.SignatureValid, a.Verify(f.sign(someEvent, testHook, now), someEvent, now).Verdict)
	}
	require.Equal(t, 1, f.certs)
	later := now.Add(certLife)
	require.Equal(t, provider.SignatureValid, a.Verify(f.sign(someEvent, testHook, later), someEvent, later).Verdict)
	require.Equal(t, 2, f.certs, "not for ever")
}

// While the certificate cannot be had, nothing is known: neither accepted nor called false.
func TestACertificateThatCannotBeFetched(t *testing.T) {
	t.Parallel()
	f, now := newFake(t), time.Now()
	f.set(func() { f.certFails = true })
	a := f.adapter(t)
	for range 3 {
		require.Equal(t, provider.SignatureUnchecked, a.Verify(f.sign(someEvent, testHook, now), someEvent, now).Verdict)
	}
	require.Equal(t, 1, f.certs, "it is not asked for with every delivery")
	f.set(func() { f.certFails = false })
	now = now.Add(certRetry)
	require.Equal(t, provider.SignatureValid, a.Verify(f.sign(someEvent, testHook, now), someEvent, now).Verdict)
}

// A flood of made-up certificates costs PayPal little and never the one in use.
func TestMadeUpCertificates(t *testing.T) {
	t.Parallel()
	f, now := newFake(t), time.Now()
	a := f.adapter(t)
	require.Equal(t, provider.SignatureValid, a.Verify(f.sign(someEvent, testHook, now), someEvent, now).Verdict)
	for i := range 100 {
		h := f.sign(someEvent, testHook, now)
		h.Set("PAYPAL-CERT-URL", f.url+certPath+"CERT-"+strings.Repeat("x", i+1))
		require.NotEqual(t, provider.SignatureValid, a.Verify(h, someEvent, now).Verdict)
	}
	require.LessOrEqual(t, len(a.certs.kept), maxCerts)
	require.Equal(t, provider.SignatureValid, a.Verify(f.sign(someEvent, testHook, now), someEvent, now).Verdict)
	require.Equal(t, 1, f.certs)
}

func TestOnlyPayPalsCertificates(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := &certs{roots: pki().roots}
	_, err := c.check(pki().leaf, now)
	require.NoError(t, err)
	bySAN := certificate("x")
	bySAN.DNSNames = []string{"messageverificationcerts.sandbox.paypal.com"}
	_, err = c.check(pki().issue(bySAN), now)
	require.NoError(t, err)
	expired := certificate("messageverificationcerts.paypal.com")
	expired.NotAfter = now.Add(-time.Hour)
	for name, body := range map[string][]byte{
		"another name":   pki().issue(certificate("messageverificationcerts.paypal.com.evil.example")),
		"the shop's":     pki().issue(certificate("www.paypal.com")),
		"an expired one": pki().issue(expired),
		"no certificate": []byte("<html>"),
		"nothing":        nil,
		"half of one":    pki().leaf[:len(pki().leaf)/2],
		"a key":          bytes.ReplaceAll(pki().leaf, []byte("CERTIFICATE"), []byte("PRIVATE KEY")),
	} {
		_, err := c.check(body, now)
		require.ErrorIs(t, err, errCert, name)
	}
	c.roots = x509.NewCertPool()
	_, err = c.check(pki().leaf, now)
	require.ErrorIs(t, err, errCert, "a chain that leads to no root of ours")

	f := newFake(t)
	stranger := f.adapter(t, func(_ *provider.Settings, o *Options) { o.TLS = &tls.Config{RootCAs: x509.NewCertPool()} })
	require.Equal(t, provider.SignatureInvalid, stranger.Verify(f.sign(someEvent, testHook, now), someEvent, now).Verdict)
}

// The verify call gets the event byte for byte.
func TestPayPalVerifies(t *testing.T) {
	t.Parallel()
	f, now := newFake(t), time.Now()
	a := f.adapter(t, hooks("NEW", "api:"+testHook))
	raw := []byte(verifiable)
	v := a.Verify(f.sign(raw, testHook, now), raw, now)
	require.Equal(t, provider.Verification{Verdict: provider.SignatureValid, SecretLabel: "2"}, v)
	sent := f.verifies[0]
	require.Equal(t, `"SHA256withRSA"`, string(sent["auth_algo"]))
	require.Equal(t, `"b2f1-transmission"`, string(sent["transmission_id"]))
	require.Equal(t, verifiable, string(sent["webhook_event"]))

	other := []byte(`{"id":"WH-2"}`)
	require.Equal(t, provider.SignatureInvalid, a.Verify(f.sign(other, testHook, now), other, now).Verdict)
	require.Equal(t, provider.SignatureInvalid, a.Verify(f.sign([]byte("{"), testHook, now), []byte("{"), now).Verdict, "nothing to pass on")
	require.Equal(t, provider.SignatureTooOld, a.Verify(f.sign(raw, testHook, now), raw, now.Add(time.Hour)).Verdict)
	only := f.adapter(t, hooks("api:"+testHook))
	f.set(func() { f.certFails = true })
	require.Equal(t, provider.SignatureUnchecked, only.Verify(f.sign(raw, testHook, now), raw, now).Verdict)
	f.tokenFails = func(w http.ResponseWriter, _ int) bool { page(w, 503); return true }
	require.Equal(t, provider.SignatureUnchecked, f.adapter(t, hooks("api:"+testHook)).Verify(f.sign(raw, testHook, now), raw, now).Verdict)
	for status, want := range map[int]string{200: provider.SignatureUnchecked, 400: provider.SignatureInvalid, 401: provider.SignatureUnchecked, 429: provider.SignatureUnchecked} {
		require.Equal(t, want, readVerdict(provider.Exchange{Status: status, Body: []byte("<html>")}), status)
	}
}

func event(kind, resource string) []byte {
	return []byte(`{"id":"WH-1","event_type":"` + kind + `","create_time":"2026-02-02T02:40:00.000Z","resource":` + resource + `}`)
}

func TestEvents(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	cap1 := func(status string) string {
		return `{"id":"C1","status":"` + status + `","amount":{"currency_code":"EUR","value":"49.00"},"custom_id":"p1",
			"supplementary_data":{"related_ids":{"order_id":"O1"}}}`
	}
	order1 := strings.ReplaceAll(orderWith("COMPLETED", unitWith(oneCapture("COMPLETED"))), "5O190127TN364715T", "O1")
	for name, tt := range map[string]struct {
		raw         []byte
		interesting bool
		outcome     provider.Outcome
	}{
		"completed":       {event("PAYMENT.CAPTURE.COMPLETED", cap1("COMPLETED")), true, provider.Succeeded},
		"refunded since":  {event("PAYMENT.CAPTURE.COMPLETED", cap1("REFUNDED")), true, provider.Succeeded},
		"pending":         {event("PAYMENT.CAPTURE.PENDING", cap1("PENDING")), true, provider.Processing},
		"declined":        {event("PAYMENT.CAPTURE.DECLINED", cap1("DECLINED")), true, provider.Failed},
		"denied":          {event("PAYMENT.CAPTURE.DENIED", cap1("DECLINED")), true, provider.Failed},
		"order completed": {event("CHECKOUT.ORDER.COMPLETED", order1), true, provider.Succeeded},
		"order approved":  {event("CHECKOUT.ORDER.APPROVED", strings.Replace(orderWith("APPROVED", `{"custom_id":"p1","amount":{"currency_code":"EUR","value":"49.00"}}`), "5O190127TN364715T", "O1", 1)), true, provider.Processing},
		"contradiction":   {event("PAYMENT.CAPTURE.COMPLETED", cap1("PENDING")), true, ""},
		"unknown word":    {event("PAYMENT.CAPTURE.COMPLETED", cap1("SETTLING")), true, ""},
		// W-13: signed, and none of our business.
		"a subscription":     {event("BILLING.SUBSCRIPTION.CREATED", `{"id":"I-1"}`), false, ""},
		"not known yet":      {event("PAYMENT.CAPTURE.LEVITATED", cap1("COMPLETED")), false, ""},
		"a capture alone":    {event("PAYMENT.CAPTURE.COMPLETED", `{"id":"C1","status":"COMPLETED"}`), false, ""},
		"nothing to read":    {event("RISK.DISPUTE.CREATED", `null`), false, ""},
		"an old API version": {event("PAYMENT.SALE.COMPLETED", `{"id":"S1","state":"completed"}`), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := a.Parse(tt.raw)
			require.NoError(t, err)
			require.Len(t, got, 1)
			require.Equal(t, "WH-1", got[0].Key)
			require.Equal(t, tt.interesting, got[0].Interesting)
			require.Equal(t, tt.outcome, got[0].Object.Outcome)
			require.Equal(t, time.Date(2026, 2, 2, 2, 40, 0, 0, time.UTC), got[0].OccurredAt)
			if tt.interesting {
				require.Equal(t, "O1", got[0].Object.ID, "the order: what our charge made")
				require.Equal(t, "p1", got[0].Object.Reference)
				require.Equal(t, asked49, got[0].Object.Money)
			}
		})
	}
	for _, raw := range []string{
		`{}`, `{"id":"WH-1"}`, `{"event_type":"X"}`, `{"id":1,"event_type":"X"}`, `{"id":"` + strings.Repeat("e", 101) + `","event_type":"X"}`,
		string(event("PAYMENT.CAPTURE.COMPLETED", `{"id":"C1","status":"COMPLETED","custom_id":"p1"}`)),
		string(event("PAYMENT.CAPTURE.COMPLETED", `{"id":1}`)), string(event("PAYMENT.CAPTURE.COMPLETED", `{"amount":{"value":49}}`)),
		string(event("CHECKOUT.ORDER.COMPLETED", `[]`)), string(event("CHECKOUT.ORDER.COMPLETED", orderWith("COMPLETED", `{}`, `{}`))),
	} {
		_, err := a.Parse([]byte(raw))
		require.Error(t, err, "%.80s", raw)
	}
}

func FuzzHeaders(f *testing.F) {
	fk, now := newFake(f), time.Unix(1_770_000_000, 0)
	good := fk.sign(someEvent, testHook, now)
	add := func(h http.Header) {
		f.Add(h.Get(headerID), h.Get(headerTime), h.Get(headerSig), h.Get(headerCert), h.Get(headerAlgo))
	}
	add(good)
	add(http.Header{})
	f.Add("a|b", "2026-02-02T02:40:00Z|X", "AAAA", "https://api.paypal.com/v1/notifications/certs/%2e", "sha256withrsa")
	a := fk.adapter(f)
	// No fetches: what is not kept cannot be fetched.
	a.certs.client = &http.Client{Transport: offline{}}
	key, err := a.certs.check(pki().leaf, now)
	require.NoError(f, err)
	a.certs.kept[fk.url+certName] = &certEntry{key: key.PublicKey.(publicKey), until: now.Add(time.Hour)}
	f.Fuzz(func(t *testing.T, id, stamp, sig, certURL, algo string) {
		h := http.Header{headerID: {id}, headerTime: {stamp}, headerSig: {sig}, headerCert: {certURL}, headerAlgo: {algo}}
		v := a.Verify(h, someEvent, now)
		same := id == good.Get(headerID) && stamp == good.Get(headerTime) && certURL == good.Get(headerCert) && algo == good.Get(headerAlgo)
		if v.Verdict == provider.SignatureValid && !same {
			t.Fatalf("accepted: %v", h)
		}
	})
}

func FuzzEvents(f *testing.F) {
	for _, seed := range []string{
		string(event("PAYMENT.CAPTURE.COMPLETED", oneCapture("COMPLETED"))), string(event("CHECKOUT.ORDER.COMPLETED", orderWith("COMPLETED", unitWith(oneCapture("COMPLETED"))))),
		string(event("CHECKOUT.ORDER.APPROVED", `null`)), string(event("CHECKOUT.ORDER.COMPLETED", heldWith("CREATED", captures(partOf("PENDING", "1.00"))))),
		string(event("PAYMENT.AUTHORIZATION.VOIDED", `{"id":"A1","status":"VOIDED","custom_id":"p1","supplementary_data":{"related_ids":{"order_id":"O1"}}}`)),
		string(event("CUSTOMER.DISPUTE.RESOLVED", `{"dispute_id":"D","status":"RESOLVED","dispute_outcome":{"outcome_code":"DENIED"},"disputed_transactions":[{}]}`)), `{}`, `null`, `[]`, ``,
		`{"id":"e","event_type":"PAYMENT.CAPTURE.COMPLETED","resource":{"status":"COMPLETED","amount":{"currency_code":"JPY","value":"1.0"},"supplementary_data":{"related_ids":{"order_id":"O"}}}}`,
	} {
		f.Add([]byte(seed))
	}
	a, err := New((&fake{url: "http://paypal.test"}).settings(), Options{})
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
			if e.Interesting && (e.Object.ID == "" || !json.Valid(e.Object.Raw)) {
				t.Fatalf("an event about no order: %+v", e)
			}
			if o := e.Object; o.Outcome == provider.Succeeded && o.Money.Validate() != nil {
				t.Fatalf("a success over %+v", o.Money)
			}
		}
	})
}
