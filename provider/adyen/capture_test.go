package adyen

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

var (
	_ providertest.ActionFake      = (*fake)(nil)
	_ providertest.ActionEventFake = (*fake)(nil)
	_ providertest.RefusalFake     = (*fake)(nil)
)

func (f *fake) NextAction(bs ...providertest.Behaviour) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.actions.next = append(f.actions.next, bs...)
}

func (f *fake) ReceivedActions() []providertest.ReceivedOperation {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.actions.received)
}

// Lapse does nothing: Adyen can be asked about no payment, so nobody could see it.
func (f *fake) Lapse(string) {}

func (f *fake) ActionEvent(id string, kind provider.OperationKind, charge provider.Object, money provider.Money, at time.Time) (http.Header, []byte) {
	code := map[provider.OperationKind]string{provider.OpCapture: "CAPTURE", provider.OpVoid: "CANCELLATION"}[kind]
	return http.Header{}, notify(testHMAC, note{psp: id, original: charge.ID, account: testAccount, reference: "op-op1",
		code: code, success: "true", money: money, at: at})
}

func (f *fake) ActionRefusal(id string, kind provider.OperationKind, operation string, charge provider.Object, money provider.Money, at time.Time) (http.Header, []byte) {
	code := map[provider.OperationKind]string{provider.OpCapture: "CAPTURE", provider.OpVoid: "CANCELLATION"}[kind]
	return http.Header{}, notify(testHMAC, note{psp: id, original: charge.ID, account: testAccount, reference: "op-" + operation,
		code: code, success: "false", reason: "Transaction hasn't been authorised", money: money, at: at})
}

// The bytes of a hold, a capture and a cancellation, to the letter.
func TestCaptureOnTheWire(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	r := order
	r.ManualCapture = true
	body, err := a.Freeze(r)
	require.NoError(t, err)
	require.Contains(t, string(body), `"reference":"hold-`+order.PaymentID+`"`)
	require.True(t, strings.HasSuffix(string(body), `,"additionalData":{"manualCapture":"true"}}`), "%s", body)
	r.PaymentID = "hold-1"
	_, err = a.Freeze(r)
	require.ErrorContains(t, err, "reference", "it would read as held")

	op := giveBack
	op.Kind, op.Charged, op.Money = provider.OpCapture, provider.Money{Amount: 4900, Currency: "ISK"}, provider.Money{Amount: 2790, Currency: "ISK"}
	body, err = a.FreezeOperation(op)
	require.NoError(t, err)
	require.JSONEq(t, `{"merchantAccount":"ShopECOM","amount":{"currency":"ISK","value":279000},"reference":"op-0198f3a2-6000-7d11-8a44-0d6a3c1f2b90"}`, string(body))
	op.Kind = provider.OpVoid
	body, err = a.FreezeOperation(op)
	require.NoError(t, err)
	require.JSONEq(t, `{"merchantAccount":"ShopECOM","reference":"op-0198f3a2-6000-7d11-8a44-0d6a3c1f2b90"}`, string(body))
}

// What a held payment's answer means: authorised, and never paid.
func TestAnswersToAHold(t *testing.T) {
	t.Parallel()
	r := order
	r.ManualCapture = true
	for body, want := range map[string]provider.Outcome{
		`{"pspReference":"P","resultCode":"Authorised","amount":{"currency":"EUR","value":4900},"merchantReference":"hold-` + order.PaymentID + `"}`: provider.Processing,
		`{"pspReference":"P","resultCode":"Authorised","amount":{"currency":"EUR","value":4900}}`:                                                    provider.Processing,
		`{"pspReference":"P","resultCode":"Authorised","merchantReference":"hold-` + order.PaymentID + `"}`:                                          provider.Unknown,
		`{"pspReference":"P","resultCode":"Authorised","amount":{"currency":"EUR","value":4900},"merchantReference":"` + order.PaymentID + `"}`:      provider.Unknown,
		`{"pspReference":"P","resultCode":"Refused","refusalReason":"x","merchantReference":"hold-` + order.PaymentID + `"}`:                         provider.Failed,
	} {
		a := answering(t, http.StatusOK, nil, body)
		frozen, err := a.Freeze(r)
		require.NoError(t, err)
		got := a.Charge(t.Context(), "charge-1", frozen, euros)
		require.Equal(t, want, got.Outcome, "%s: %+v", body, got.Classification)
		if want == provider.Processing {
			require.Equal(t, provider.ReasonAuthorised, got.Object.Reason)
			require.Equal(t, &provider.Totals{Authorised: 4900}, got.Object.Totals)
		}
	}
}

// What is said of captures and cancellations, and of the payments they are made to. That
// a payment is held is in its signed reference and nowhere else.
func TestEventsOfHolds(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	for _, c := range []struct {
		code, success, reference string
		interesting              bool
		outcome                  provider.Outcome
		reason                   string
	}{
		{"AUTHORISATION", "true", "hold-" + order.PaymentID, true, provider.Processing, provider.ReasonAuthorised},
		{"AUTHORISATION", "true", order.PaymentID, true, provider.Succeeded, ""},
		{"AUTHORISATION", "false", "hold-" + order.PaymentID, true, provider.Failed, "refused"},
		{"CAPTURE", "true", "op-1", true, provider.Succeeded, ""},
		{"CAPTURE", "false", "hold-" + order.PaymentID, true, provider.Processing, provider.ReasonAuthorised},
		{"CAPTURE", "false", order.PaymentID, true, provider.Failed, "capture_refused"},
		{"CAPTURE", "false", "op-", true, provider.Processing, provider.ReasonAuthorised},
		{"CAPTURE_FAILED", "true", order.PaymentID, true, provider.Failed, "capture_failed"},
		{"CAPTURE_FAILED", "false", "op-1", false, "", ""},
		{"CANCELLATION", "true", "op-1", true, provider.Failed, provider.ReasonVoided},
		{"CANCELLATION", "false", order.PaymentID, false, "", ""},
		{"TECHNICAL_CANCEL", "true", "hold-" + order.PaymentID, true, provider.Failed, provider.ReasonVoided},
	} {
		n := about(c.code, c.success)
		n.reference = c.reference
		if c.code != "AUTHORISATION" {
			n.psp, n.original = "MOD1", "PSP1"
		}
		events, err := a.Parse(notify(testHMAC, n))
		require.NoError(t, err)
		require.Equal(t, c.interesting, events[0].Interesting, "%+v", c)
		if !c.interesting {
			continue
		}
		o := events[0].Object
		require.Equal(t, provider.ObjectCharge, o.Kind)
		require.Equal(t, "PSP1", o.ID, "%+v", c)
		require.Equal(t, c.outcome, o.Outcome, "%+v", c)
		require.Equal(t, c.reason, o.Reason, "%+v", c)
		if c.code == "AUTHORISATION" {
			require.Equal(t, order.PaymentID, o.Reference)
		}
		if c.reason == provider.ReasonAuthorised && c.code == "AUTHORISATION" {
			require.Equal(t, &provider.Totals{Authorised: 4900}, o.Totals)
		}
	}
	// What belongs to a held payment names the payment all the same.
	for _, code := range []string{"REFUND", "CHARGEBACK"} {
		n := about(code, "true")
		n.original, n.reference = "ORIG", "hold-"+order.PaymentID
		events, err := a.Parse(notify(testHMAC, n))
		require.NoError(t, err)
		require.Equal(t, order.PaymentID, events[0].Object.Child.PaymentID)
	}
}

// A capture or cancellation of ours that was refused, or failed later, is told by its own
// reference: the payment is as it was.
func TestRefusedCapturesAndCancellations(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	seen := map[string]bool{}
	for _, c := range []struct {
		code, success string
		kind          provider.ObjectKind
		reason        string
	}{
		{"CAPTURE", "false", provider.ObjectCapture, "capture_refused"},
		{"CAPTURE_FAILED", "true", provider.ObjectCapture, "capture_failed"},
		{"CANCELLATION", "false", provider.ObjectVoid, "cancellation_refused"},
		{"TECHNICAL_CANCEL", "false", provider.ObjectVoid, "cancellation_refused"},
	} {
		n := about(c.code, c.success)
		n.psp, n.original, n.reference, n.reason = "MOD1", "PSP1", "op-"+giveBack.OperationID, "Insufficient balance on payment"
		events, err := a.Parse(notify(testHMAC, n))
		require.NoError(t, err)
		require.True(t, events[0].Interesting, "%+v", c)
		require.False(t, seen[events[0].Key], "each is an event of its own")
		seen[events[0].Key] = true
		o := events[0].Object
		require.Equal(t, c.kind, o.Kind)
		require.Equal(t, "MOD1", o.ID, "its own id: a charge may have several")
		require.Equal(t, giveBack.OperationID, o.Reference)
		require.Equal(t, provider.Failed, o.Outcome)
		require.Equal(t, c.reason, o.Reason)
		require.Equal(t, "Insufficient balance on payment", o.Message)
		require.Equal(t, provider.Child{ChargeID: "PSP1"}, o.Child, "the charge says nothing here")
	}
}

// An id that only the request has must not pass for one of the charge's.
func TestAnswersToACaptureNameTheCharge(t *testing.T) {
	t.Parallel()
	for body, id := range map[string]string{
		`{"pspReference":"MOD1","paymentPspReference":"PSP1","status":"received","reference":"op-1"}`: "PSP1",
		`{"pspReference":"MOD1","status":"received"}`:                                                 "PSP1",
		`{"pspReference":"MOD1","status":`:                                                            "",
		`{"pspReference":"MOD1","status":7`:                                                           "",
	} {
		a := answering(t, http.StatusCreated, nil, body)
		got := a.Operate(t.Context(), provider.OperationCall{Kind: provider.OpVoid, OperationID: "1", ProviderPaymentID: "PSP1", Key: "k1", Body: []byte(`{}`), Want: euros})
		if id == "" {
			require.Equal(t, provider.Unknown, got.Outcome)
			require.Nil(t, got.Object)
			continue
		}
		require.Equal(t, provider.Processing, got.Outcome, "%+v", got.Classification)
		require.Equal(t, id, got.Object.ID)
		require.Equal(t, provider.ObjectVoid, got.Object.Kind)
	}
}
