package gateway

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

var part = provider.Money{Amount: 1000, Currency: "EUR"}

func refundRequest() provider.OperationRequest {
	return provider.OperationRequest{
		OperationID: "op1", Kind: provider.OpRefund, PaymentID: "p1", ProviderPaymentID: "pay_1", Charged: asked, Money: part,
	}
}

func refundCall(t *testing.T, a *Adapter) provider.OperationCall {
	t.Helper()
	body, err := a.FreezeOperation(refundRequest())
	require.NoError(t, err)
	return provider.OperationCall{Kind: provider.OpRefund, OperationID: "op1", ProviderPaymentID: "pay_1", Key: "k1", Body: body, Want: part}
}

// operated makes one refund against a fixed answer.
func operated(t *testing.T, status int, contentType, body string) provider.Charged {
	t.Helper()
	a, n := answering(t, status, contentType, body)
	got := a.Operate(t.Context(), refundCall(t, a))
	require.EqualValues(t, 1, n.Load())
	require.Equal(t, 1, got.Exchange.WireSends)
	return got
}

func TestFrozenRefund(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	body, err := a.FreezeOperation(refundRequest())
	require.NoError(t, err)
	require.Equal(t, `{"reference":"op1","amount":1000,"currency":"EUR"}`, string(body))
	for field, edit := range map[string]func(*provider.OperationRequest){
		"kind":                func(r *provider.OperationRequest) { r.Kind = "gift" },
		"reference":           func(r *provider.OperationRequest) { r.OperationID = strings.Repeat("x", 256) },
		"provider_payment_id": func(r *provider.OperationRequest) { r.ProviderPaymentID = "pay/1" },
		"amount":              func(r *provider.OperationRequest) { r.Money.Amount = asked.Amount + 1 },
		"currency":            func(r *provider.OperationRequest) { r.Charged, r.Money.Currency = provider.Money{}, "XQQ" },
	} {
		r := refundRequest()
		edit(&r)
		_, err := a.FreezeOperation(r)
		var fe *provider.FieldError
		require.ErrorAs(t, err, &fe, field)
		require.Equal(t, field, fe.Field)
	}
}

// Nothing that could go to another place, or without a key, leaves at all.
func TestRefundsThatCannotBeSent(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*provider.OperationCall){
		"kind":   func(c *provider.OperationCall) { c.Kind = "gift" },
		"charge": func(c *provider.OperationCall) { c.ProviderPaymentID = "../health" },
		"key":    func(c *provider.OperationCall) { c.Key = "" },
		"odd":    func(c *provider.OperationCall) { c.Key = "k 1" },
	} {
		a, n := answering(t, http.StatusOK, jsonType, `{}`)
		c := refundCall(t, a)
		edit(&c)
		got := a.Operate(t.Context(), c)
		require.Equal(t, provider.NotSent, got.Outcome, name)
		require.Equal(t, provider.ReasonLocal, got.Reason, name)
		require.Zero(t, n.Load(), name)
	}
}

const aRefund = `{"id":"ref_1","payment_id":"pay_1","payment_reference":"p1","reference":"op1","status":"succeeded","amount":1000,"currency":"EUR","idempotency_key":"k1","created_at":"2026-03-01T12:00:00Z"}`

func TestRefundAnswers(t *testing.T) {
	t.Parallel()
	with := func(from, to string) string { return strings.Replace(aRefund, from, to, 1) }
	for name, tt := range map[string]struct {
		status  int
		body    string
		outcome provider.Outcome
		reason  string
		review  string
	}{
		"yes":                 {200, aRefund, provider.Succeeded, provider.ReasonSucceeded, ""},
		"later":               {202, with("succeeded", "processing"), provider.Processing, provider.ReasonProcessing, ""},
		"failed under a 200":  {200, with("succeeded", "failed"), provider.Failed, provider.ReasonDeclined, ""},
		"declined":            {402, `{"error":{"code":"refund_declined"}}`, provider.Failed, provider.ReasonDeclined, ""},
		"no balance, any 4xx": {403, `{"error":{"code":"insufficient_balance"}}`, provider.Failed, provider.ReasonDeclined, ""},
		"too much":            {422, `{"error":{"code":"exceeds_refundable","field":"amount","message":"is more"}}`, provider.Failed, provider.ReasonRejected, ""},
		"was there before":    {422, `{"error":{"code":"already_refunded"}}`, provider.Unknown, provider.ReasonAlreadyDone, ""},
		"key reused":          {422, `{"error":{"code":"idempotency_key_reused"}}`, provider.Unknown, provider.ReasonKeyReused, provider.ReviewKeyReused},
		"a charge's word":     {200, with("succeeded", "requires_action"), provider.Unknown, provider.ReasonUnmapped, provider.ReviewUnmapped},
		"another operation":   {200, with(`"op1"`, `"op2"`), provider.Unknown, provider.ReasonContradiction, provider.ReviewKeyReused},
		"another charge":      {200, with(`"pay_1"`, `"pay_2"`), provider.Unknown, provider.ReasonContradiction, provider.ReviewKeyReused},
		"another key":         {200, with(`"k1"`, `"k2"`), provider.Unknown, provider.ReasonContradiction, provider.ReviewKeyReused},
		"another sum":         {200, with("1000", "999"), provider.Unknown, provider.ReasonAmount, provider.ReviewAmountMismatch},
		"another shape":       {200, with("1000", `"1000"`), provider.Unknown, provider.ReasonContract, ""},
		"no id":               {200, with(`"ref_1"`, `""`), provider.Unknown, provider.ReasonNoObject, provider.ReviewUnmapped},
		"nothing":             {200, ``, provider.Unknown, provider.ReasonNotJSON, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := operated(t, tt.status, jsonType, tt.body)
			require.Equal(t, tt.outcome, got.Outcome, "%+v", got.Classification)
			require.Equal(t, tt.reason, got.Reason)
			require.Equal(t, tt.review, got.Review)
		})
	}
	got := operated(t, 200, jsonType, with("1000", `{"value":1000}`))
	require.Equal(t, "ref_1", got.Object.ID, "a hint for the lookup")
	require.Equal(t, provider.ObjectRefund, got.Object.Kind)
}

// A page for people that says "method not allowed" is the word of whoever stands in
// front: the refund was not executed, and somebody has to hear that none will be.
func TestC08_405HTMLToARefund(t *testing.T) {
	t.Parallel()
	got := operated(t, http.StatusMethodNotAllowed, htmlType, "<html>Method Not Allowed</html>")
	require.Equal(t, provider.Failed, got.Outcome)
	require.Equal(t, provider.ReasonRejected, got.Reason)
	require.Equal(t, provider.HealthNeutral, got.Health)
	require.NotEmpty(t, got.Alert)
}

// Which charge is refunded stands in the path, whatever its id looks like.
func TestTheChargesIDIsOnePathSegment(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	c := refundCall(t, a)
	c.ProviderPaymentID = "pay_ü-1"
	require.Equal(t, provider.NotSent, a.Operate(t.Context(), c).Outcome)
	c.ProviderPaymentID = "pay_1;v=2"
	a.Operate(t.Context(), c)
	require.Equal(t, "pay_1;v=2", f.ReceivedOperations()[0].ChargeID)
}

// Totals of a replayed answer are those of its first time: no figure to compare with.
func TestAReplayedAnswerHasNoTotals(t *testing.T) {
	t.Parallel()
	const body = `{"id":"pay_1","reference":"p1","status":"succeeded","amount":4900,"currency":"EUR","totals":{"captured":4900,"refunded":100}}`
	p, err := readPayment([]byte(body))
	require.NoError(t, err)
	require.Equal(t, &provider.Totals{Captured: 4900, Refunded: 100}, p.Totals)
	a := newFake(t).adapter(t)
	ex := provider.Exchange{Status: 200, Body: []byte(body), BodyComplete: true}
	require.NotNil(t, a.read(ex, "k1", frozen(t, a)).Object.Totals)
	ex.Replayed = true
	require.Nil(t, a.read(ex, "k1", frozen(t, a)).Object.Totals)
}

func refundQuery() provider.OperationQuery {
	return provider.OperationQuery{
		Kind: provider.OpRefund, OperationID: "op1", OperationKey: "k1", PaymentID: "p1", ProviderPaymentID: "pay_1", Want: part,
	}
}

// What answers about a refund of another charge, or under another reference, is not
// about ours, and so its silence is no absence.
func TestRefundLookupsBelieveOnlyWhatIsAboutThem(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][2]string{
		"another charge":    {`"pay_1"`, `"pay_2"`},
		"another reference": {`"op1"`, `"op2"`},
	} {
		a, _ := answering(t, http.StatusOK, jsonType, `{"data":[`+strings.Replace(aRefund, change[0], change[1], 1)+`]}`)
		got := a.LookupOperation(t.Context(), refundQuery())
		require.Equal(t, provider.LookupNoAnswer, got.Verdict, name)
		require.Equal(t, provider.ReasonFilterIgnored, got.Reason, name)
	}
	a, n := answering(t, http.StatusOK, jsonType, `{"data":[`+strings.Replace(aRefund, "1000", "null", 1)+`]}`)
	got := a.LookupOperation(t.Context(), refundQuery())
	require.Equal(t, provider.LookupFound, got.Verdict, "%+v", got)
	require.EqualValues(t, 2, n.Load(), "by key, and by reference for duplicates")

	q := refundQuery()
	q.Kind = provider.OpCapture
	require.Equal(t, provider.LookupNoAnswer, a.LookupOperation(t.Context(), q).Verdict, "a list of refunds is no charge")
	require.EqualValues(t, 3, n.Load())
}

func TestEventsOfRefundsAndDisputes(t *testing.T) {
	t.Parallel()
	a := verifier(t, "s")
	event := func(kind, data string) []byte {
		return []byte(`{"id":"evt_1","type":"` + kind + `","created_at":"2026-03-01T12:00:00.9Z","data":` + data + `}`)
	}
	const charge = `{"id":"pay_1","reference":"p1","status":"succeeded","amount":4900,"currency":"EUR","totals":{"captured":4900,"refunded":1000}}`
	const dispute = `{"id":"dsp_1","payment_id":"pay_1","payment_reference":"p1","status":"opened","amount":900,"currency":"EUR","reason":"fraudulent","due_by":"2026-03-08T00:00:00+02:00","created_at":"2026-03-01T12:00:00Z"}`
	for name, tt := range map[string]struct {
		raw  []byte
		want provider.Object
	}{
		"refund": {event("refund.updated", aRefund), provider.Object{
			ID: "ref_1", Reference: "op1", OperationKey: "k1", Status: "succeeded", Outcome: provider.Succeeded, Money: part,
			Kind: provider.ObjectRefund, Child: provider.Child{ChargeID: "pay_1", PaymentID: "p1"},
		}},
		"totals": {event("charge.refunded", charge), provider.Object{
			ID: "pay_1", Reference: "p1", Status: "succeeded", Outcome: provider.Succeeded, Money: asked,
			Totals: &provider.Totals{Captured: 4900, Refunded: 1000},
		}},
		"totals of what never succeeded": {event("charge.refunded", strings.Replace(charge, "succeeded", "failed", 1)), provider.Object{
			ID: "pay_1", Reference: "p1", Status: "failed", Money: asked, Totals: &provider.Totals{Captured: 4900, Refunded: 1000},
		}},
		"dispute": {event("dispute.opened", dispute), provider.Object{
			ID: "dsp_1", Status: "opened", Reason: "fraudulent", Money: provider.Money{Amount: 900, Currency: "EUR"}, Kind: provider.ObjectDispute,
			Child: provider.Child{ChargeID: "pay_1", PaymentID: "p1", DueBy: time.Date(2026, 3, 7, 22, 0, 0, 0, time.UTC)},
		}},
	} {
		got, err := a.Parse(tt.raw)
		require.NoError(t, err, name)
		require.Len(t, got, 1)
		require.True(t, got[0].Interesting)
		o := got[0].Object
		require.NotEmpty(t, o.Raw)
		require.True(t, tt.want.Child.DueBy.Equal(o.Child.DueBy))
		o.Raw, o.CreatedAt, o.Child.DueBy = nil, time.Time{}, tt.want.Child.DueBy
		require.Equal(t, tt.want, o, name)
	}
	for name, raw := range map[string][]byte{
		"two words":    event("dispute.won", dispute),
		"no id":        event("refund.updated", `{"status":"succeeded"}`),
		"no dispute":   event("dispute.opened", `{"status":"opened"}`),
		"no object":    event("refund.updated", `[]`),
		"amount":       event("dispute.opened", strings.Replace(dispute, "900", "9.5", 1)),
		"a long id":    event("refund.updated", `{"id":"`+strings.Repeat("x", 300)+`"}`),
		"no data":      event("charge.refunded", `null`),
		"other totals": event("charge.refunded", strings.Replace(charge, "1000", "1e3", 1)),
	} {
		_, err := a.Parse(raw)
		require.Error(t, err, name)
	}
	other, err := a.Parse(event("dispute.escalated", dispute))
	require.NoError(t, err)
	require.False(t, other[0].Interesting, "a state we do not know is none of the contract's")
}

// FuzzParseChildren: whatever a signed body holds, an event about a refund or dispute is
// refused or says what it is, and never becomes one about a charge.
func FuzzParseChildren(f *testing.F) {
	for _, kind := range []string{"refund.updated", "dispute.opened", "charge.refunded"} {
		f.Add(kind, []byte(aRefund))
	}
	a := verifier(f, "s")
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		var raw bytes.Buffer
		raw.WriteString(`{"id":"evt_1","type":"` + kind + `","data":`)
		raw.Write(data)
		raw.WriteString(`}`)
		events, err := a.Parse(raw.Bytes())
		if err != nil {
			return
		}
		for _, e := range events {
			o := e.Object
			switch {
			case !e.Interesting:
			case o.ID == "" || len(o.ID) > maxID || len(o.Child.ChargeID) > maxID:
				t.Fatalf("an id of %d bytes", len(o.ID))
			case e.Type == "refund.updated" && o.Kind != provider.ObjectRefund, strings.HasPrefix(e.Type, "dispute.") && o.Kind != provider.ObjectDispute:
				t.Fatalf("%s became a %q", e.Type, o.Kind)
			}
		}
	})
}
