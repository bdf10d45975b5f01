package adyen

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

const otherHMAC = "DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00"

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("", 3600))

// about is an event about a payment of ours.
func about(code, success string) note {
	return note{psp: "PSP1", account: testAccount, reference: order.PaymentID, code: code, success: success, money: euros, at: noon}
}

// The example in Adyen's own test suites: an independent check of what is signed.
func TestTheSignatureIsAdyens(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t, func(s *provider.Settings) { s.WebhookSecrets = []string{otherHMAC} })
	raw := `{"live":"false","notificationItems":[{"NotificationRequestItem":{"pspReference":"pspReference","originalReference":"originalReference",
		"merchantAccountCode":"merchantAccount","merchantReference":"reference","amount":{"currency":"EUR","value":1000},"eventCode":"EVENT",
		"success":"true","additionalData":{"hmacSignature":"ipnxGCaUZ4l8TUW75a71/ghd2Fe5ffvX0pV4TLTntIc="}}}]}`
	require.Equal(t, provider.SignatureValid, a.Verify(nil, []byte(raw), noon).Verdict)
	require.Equal(t, provider.SignatureInvalid, a.Verify(nil, []byte(strings.Replace(raw, "1000", "1001", 1)), noon).Verdict)
}

// W-09: every active key is tried, and which one it was is kept.
func TestW09_KeysAreRotated(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	both := f.adapter(t, func(s *provider.Settings) { s.WebhookSecrets = []string{otherHMAC, testHMAC} })
	only := f.adapter(t, func(s *provider.Settings) { s.WebhookSecrets = []string{otherHMAC} })
	old := notify(testHMAC, about("AUTHORISATION", "true"))
	require.Equal(t, provider.Verification{Verdict: provider.SignatureValid, SecretLabel: "2"}, both.Verify(nil, old, noon))
	require.Equal(t, provider.Verification{Verdict: provider.SignatureValid, SecretLabel: "1"}, both.Verify(nil, notify(otherHMAC, about("AUTHORISATION", "true")), noon))
	require.Equal(t, provider.SignatureInvalid, only.Verify(nil, old, noon).Verdict)
	require.Equal(t, provider.SignatureValid, both.Verify(nil, old, noon.AddDate(1, 0, 0)).Verdict, "there is no time in the signature")
}

// Every item of a batch has to be signed; what is signed is what is applied.
func TestABatchIsTakenWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	second := about("AUTHORISATION", "false")
	second.psp = "PSP2"
	raw := notify(testHMAC, about("AUTHORISATION", "true"), second)
	require.Equal(t, provider.SignatureValid, a.Verify(nil, raw, noon).Verdict)
	events, err := a.Parse(raw)
	require.NoError(t, err)
	require.Len(t, events, 2)
	require.Equal(t, "AUTHORISATION:PSP1:true", events[0].Key)
	require.Equal(t, "AUTHORISATION:PSP2:false", events[1].Key)
	require.Equal(t, provider.Failed, events[1].Object.Outcome)

	require.Equal(t, provider.SignatureInvalid, a.Verify(nil, []byte(strings.Replace(string(raw), "PSP2", "PSP3", 1)), noon).Verdict)
	forged := strings.Replace(string(raw), `"notificationItems":[`, `"notificationItems":[{"NotificationRequestItem":{"pspReference":"X","eventCode":"AUTHORISATION","success":"true"}},`, 1)
	require.Equal(t, provider.SignatureMissing, a.Verify(nil, []byte(forged), noon).Verdict)
	for _, bad := range []string{``, `null`, `[]`, `{}`, `{"notificationItems":[]}`, `{"notificationItems":[{}]}`, `{"notificationItems":[{"NotificationRequestItem":null}]}`,
		`{"notificationItems":[` + strings.Repeat(`{"NotificationRequestItem":{}},`, 60) + `{}]}`} {
		require.Equal(t, provider.SignatureMissing, a.Verify(nil, []byte(bad), noon).Verdict, bad)
		_, err := a.Parse([]byte(bad))
		require.Error(t, err, bad)
	}
}

func TestWhatEventsSay(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	for _, c := range []struct {
		code, success string
		kind          provider.ObjectKind
		id            string
		outcome       provider.Outcome
		status        string
	}{
		{"AUTHORISATION", "true", provider.ObjectCharge, "PSP1", provider.Succeeded, "AUTHORISATION"},
		{"AUTHORISATION", "false", provider.ObjectCharge, "PSP1", provider.Failed, "AUTHORISATION failed"},
		{"PENDING", "true", provider.ObjectCharge, "PSP1", provider.Processing, "PENDING"},
		{"OFFER_CLOSED", "true", provider.ObjectCharge, "PSP1", provider.Failed, "OFFER_CLOSED"},
		{"CAPTURE", "true", provider.ObjectCharge, "ORIG", provider.Succeeded, "CAPTURE"},
		{"CAPTURE", "false", provider.ObjectCharge, "ORIG", provider.Failed, "CAPTURE failed"},
		{"CAPTURE_FAILED", "true", provider.ObjectCharge, "ORIG", provider.Failed, "CAPTURE_FAILED"},
		{"CANCELLATION", "true", provider.ObjectCharge, "ORIG", provider.Failed, "CANCELLATION"},
		{"TECHNICAL_CANCEL", "true", provider.ObjectCharge, "ORIG", provider.Failed, "TECHNICAL_CANCEL"},
		{"CANCEL_OR_REFUND", "true", provider.ObjectCharge, "ORIG", "", "CANCEL_OR_REFUND"},
		{"REFUND", "true", provider.ObjectRefund, "PSP1", provider.Succeeded, "REFUND"},
		{"POSTPONED_REFUND", "true", provider.ObjectRefund, "PSP1", provider.Processing, "POSTPONED_REFUND"},
		{"REFUND", "false", provider.ObjectRefund, "PSP1", provider.Failed, "REFUND failed"},
		{"REFUND_FAILED", "true", provider.ObjectRefund, "PSP1", provider.Failed, "REFUND_FAILED"},
		{"REFUNDED_REVERSED", "true", provider.ObjectRefund, "PSP1", provider.Failed, "REFUNDED_REVERSED"},
		{"CHARGEBACK", "true", provider.ObjectDispute, "PSP1", "", provider.DisputeOpened},
		{"REQUEST_FOR_INFORMATION", "true", provider.ObjectDispute, "PSP1", "", provider.DisputeOpened},
		{"CHARGEBACK_REVERSED", "true", provider.ObjectDispute, "PSP1", "", provider.DisputeWon},
		{"SECOND_CHARGEBACK", "true", provider.ObjectDispute, "PSP1", "", provider.DisputeLost},
		{"PREARBITRATION_LOST", "true", provider.ObjectDispute, "PSP1", "", provider.DisputeLost},
	} {
		n := about(c.code, c.success)
		n.original, n.reason = "ORIG", "Refused"
		raw := notify(testHMAC, n)
		require.Equal(t, provider.SignatureValid, a.Verify(nil, raw, noon).Verdict)
		events, err := a.Parse(raw)
		require.NoError(t, err)
		e := events[0]
		require.True(t, e.Interesting, c.code)
		require.Equal(t, c.code+":PSP1:"+c.success, e.Key)
		require.Equal(t, c.code, e.Type)
		require.True(t, e.OccurredAt.Equal(noon))
		o := e.Object
		require.Equal(t, c.kind, o.Kind, c.code)
		require.Equal(t, c.id, o.ID, c.code)
		require.Equal(t, c.outcome, o.Outcome, "%s %s", c.code, c.success)
		require.Equal(t, c.status, o.Status)
		require.Equal(t, euros, o.Money)
		if c.kind != provider.ObjectCharge {
			require.Equal(t, "ORIG", o.Child.ChargeID)
			require.Equal(t, order.PaymentID, o.Child.PaymentID)
		}
	}
}

// W-13: signed and uninteresting is stored and answered 2xx, never refused.
func TestW13_WhatIsNotOursIsIgnored(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	notes := map[string]note{}
	for _, code := range []string{"REPORT_AVAILABLE", "NOTIFICATION_OF_FRAUD", "AUTHORISATION_ADJUSTMENT", "RECURRING_CONTRACT", "SOMETHING_NEW", "CAPTURE", "REFUND", "CHARGEBACK"} {
		notes[code+" without a payment"] = about(code, "true")
	}
	for _, code := range []string{"CANCELLATION", "PENDING", "OFFER_CLOSED", "REFUND_FAILED", "CHARGEBACK", "CANCEL_OR_REFUND", "CAPTURE_FAILED"} {
		n := about(code, "false")
		n.original = "ORIG"
		notes[code+" that was not done"] = n
	}
	other := about("AUTHORISATION", "true")
	other.account = "AnotherShop"
	notes["another account"] = other
	for name, n := range notes {
		raw := notify(testHMAC, n)
		require.Equal(t, provider.SignatureValid, a.Verify(nil, raw, noon).Verdict, name)
		events, err := a.Parse(raw)
		require.NoError(t, err, name)
		require.False(t, events[0].Interesting, name)
		require.NotEmpty(t, events[0].Key)
	}
}

// Joined without escapes, a reference with colons in it gives two different items one
// signature: such an item is taken, and nothing in it is believed.
func TestFieldsThatCanBeCutInTwoWaysAreNotBelieved(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	real := about("AUTHORISATION", "true")
	real.reference = "shop-7:x:" + testAccount + ":" + order.PaymentID
	raw := notify(testHMAC, real)
	require.Equal(t, provider.SignatureValid, a.Verify(nil, raw, noon).Verdict, "another shop's references may have colons")
	forged := edited(raw, func(it map[string]any) {
		it["pspReference"] = "PSP1::" + testAccount + ":shop-7"
		it["originalReference"], it["merchantReference"] = "x", order.PaymentID
	})
	require.Equal(t, provider.SignatureValid, a.Verify(nil, forged, noon).Verdict, "the very same signed text")
	for _, body := range [][]byte{raw, forged} {
		events, err := a.Parse(body)
		require.NoError(t, err)
		require.False(t, events[0].Interesting)
	}

	escaped := about("AUTHORISATION", "true")
	escaped.reference = `shop:7`
	words := strings.Join([]string{"PSP1", "", testAccount, `shop\:7`, "4900", "EUR", "AUTHORISATION", "true"}, ":")
	body := edited(notify(testHMAC, escaped), func(it map[string]any) {
		it["additionalData"].(map[string]any)["hmacSignature"] = encoded(a, words)
	})
	require.Equal(t, provider.SignatureValid, a.Verify(nil, body, noon).Verdict, "as the documentation escaped them")
}

// live is part of the match where our endpoint says which world it is of.
func TestLiveAndTestAreKeptApart(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	raw := string(notify(testHMAC, about("AUTHORISATION", "true")))
	live := strings.Replace(raw, `"live":"false"`, `"live":"true"`, 1)
	for base, want := range map[string][2]bool{
		"https://checkout-test.adyen.com":                      {true, false},
		"https://abc-checkout-live.adyenpayments.com/checkout": {false, true},
		f.url: {true, true},
	} {
		a := f.adapter(t, func(s *provider.Settings) { s.BaseURL = base })
		for i, body := range []string{raw, live} {
			events, err := a.Parse([]byte(body))
			require.NoError(t, err)
			require.Equal(t, want[i], events[0].Interesting, "%s %d", base, i)
		}
	}
}

// W-15: an amount that is not what we can hold has no outcome.
func TestW15_AmountsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	for _, amount := range []string{`{"currency":"EUR","value":1000.5}`, `{"currency":"EUR","value":-1000}`, `{"currency":"EUR"}`, `{"currency":"ISK","value":1}`, `null`} {
		raw := edited(notify(testHMAC, about("AUTHORISATION", "true")), func(it map[string]any) { it["amount"] = json.RawMessage(amount) })
		events, err := a.Parse(raw)
		require.NoError(t, err, amount)
		require.True(t, events[0].Interesting)
		require.Empty(t, events[0].Object.Outcome, amount)
	}
}

// Of a success the reason is an authorisation code with the card's last digits.
func TestNoCardDataIsKeptOfAnEvent(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	_, raw := f.Event("evt_1", provider.Object{ID: "PSP1", Reference: order.PaymentID, Money: euros}, noon)
	events, err := a.Parse(raw)
	require.NoError(t, err)
	require.NotContains(t, fmt.Sprintf("%+v %s", events[0], events[0].Object.Raw), "1111")
}
