package mollie

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

func refundOf(m provider.Money) provider.OperationRequest {
	return provider.OperationRequest{OperationID: "op1", Kind: provider.OpRefund, PaymentID: "p1", ProviderPaymentID: "tr_1", Charged: asked49, Money: m}
}

var back10 = provider.Money{Amount: 1000, Currency: "EUR"}

// saidRefund is a refund as an answer, with changes.
func saidRefund(changes ...any) string {
	r := renderedRefund(provider.Object{ID: "re_1", Reference: "op1", Outcome: provider.Succeeded, Money: back10, CreatedAt: eventTime,
		Child: provider.Child{ChargeID: "tr_1", PaymentID: "p1"}})
	for i := 0; i+1 < len(changes); i += 2 {
		r[changes[i].(string)] = changes[i+1]
	}
	raw, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func TestFrozenRefund(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	body, err := a.FreezeOperation(refundOf(back10))
	require.NoError(t, err)
	require.JSONEq(t, `{"amount":{"currency":"EUR","value":"10.00"},"description":"Refund op1","metadata":{"operation_id":"op1","payment_id":"p1"}}`, string(body))
	for field, m := range map[string]provider.Money{"amount": {Amount: 4901, Currency: "EUR"}, "currency": {Amount: 1, Currency: "QQQ"}} {
		r := refundOf(m)
		if field == "currency" {
			r.Charged = provider.Money{}
		}
		_, err := a.FreezeOperation(r)
		var refused *provider.FieldError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, field, refused.Field)
	}
	r := refundOf(back10)
	r.Kind = "gift"
	_, err = a.FreezeOperation(r)
	require.ErrorContains(t, err, "kind")
}

func TestRefundAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status  int
		body    string
		outcome provider.Outcome
		reason  string
		review  bool
	}{
		"refunded":           {201, saidRefund(), provider.Succeeded, provider.ReasonSucceeded, false},
		"queued":             {201, saidRefund("status", "queued"), provider.Processing, provider.ReasonProcessing, false},
		"pending":            {201, saidRefund("status", "pending"), provider.Processing, provider.ReasonProcessing, false},
		"processing":         {201, saidRefund("status", "processing"), provider.Processing, provider.ReasonProcessing, false},
		"canceled":           {201, saidRefund("status", "canceled"), provider.Failed, provider.ReasonDeclined, false},
		"unlisted":           {201, saidRefund("status", "levitating"), provider.Unknown, provider.ReasonUnmapped, true},
		"of another payment": {201, saidRefund("paymentId", "tr_2"), provider.Unknown, provider.ReasonContradiction, true},
		"the other mode":     {201, saidRefund("mode", "live"), provider.Unknown, provider.ReasonContradiction, true},
		"a payment":          {201, said(), provider.Unknown, provider.ReasonContract, false},
		"a number":           {201, saidRefund("amount", map[string]any{"currency": "EUR", "value": 10}), provider.Unknown, provider.ReasonContract, false},
		"too much":           {422, `{"status":422,"title":"Unprocessable Entity","detail":"The amount is higher","field":"amount"}`, provider.Failed, provider.ReasonRejected, false},
		"a duplicate":        {409, `{"status":409,"title":"Conflict"}`, provider.Unknown, provider.ReasonKeyInUse, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := answering(t, tt.status, tt.body).Operate(t.Context(), provider.OperationCall{
				Kind: provider.OpRefund, OperationID: "op1", ProviderPaymentID: "tr_1", Key: "k1", Body: []byte(`{}`), Want: back10})
			require.Equal(t, tt.outcome, got.Outcome, "%+v", got.Classification)
			require.Equal(t, tt.reason, got.Reason)
			require.Equal(t, tt.review, got.Review != "")
		})
	}
	a := newFake(t).adapter(t)
	for _, c := range []provider.OperationCall{
		{Kind: "gift", ProviderPaymentID: "tr_1", Key: "k"}, {Kind: provider.OpRefund, ProviderPaymentID: "../x", Key: "k"},
		{Kind: provider.OpRefund, ProviderPaymentID: "tr_1"},
	} {
		got := a.Operate(t.Context(), c)
		require.Equal(t, provider.NotSent, got.Outcome)
		require.Equal(t, provider.ReasonLocal, got.Reason)
	}
}

func TestRefundLookupsThatProveNothing(t *testing.T) {
	t.Parallel()
	q := provider.OperationQuery{Kind: provider.OpRefund, OperationID: "op1", ProviderPaymentID: "tr_1", Want: back10}
	list := func(entries, links string) string {
		return `{"_embedded":{"refunds":[` + entries + `]},"_links":{` + links + `}}`
	}
	for name, tt := range map[string]struct {
		status int
		body   string
		reason string
	}{
		"more than a page":     {200, list("", `"next":{"href":"x"}`), provider.ReasonFilterIgnored},
		"of another payment":   {200, list(saidRefund("paymentId", "tr_2"), ""), provider.ReasonFilterIgnored},
		"one that is odd":      {200, list(saidRefund("amount", 1), ""), provider.ReasonContract},
		"no list":              {200, `{}`, provider.ReasonContract},
		"not JSON":             {200, `<html>`, provider.ReasonNotJSON},
		"the payment is gone":  {404, `{"status":404}`, provider.ReasonNotFound},
		"nobody is allowed to": {403, `{"status":403}`, provider.ReasonForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := answering(t, tt.status, tt.body).LookupOperation(t.Context(), q)
			require.Equal(t, provider.LookupNoAnswer, got.Verdict, "%+v", got)
			require.Equal(t, tt.reason, got.Reason)
		})
	}
	a := newFake(t).adapter(t)
	for _, bad := range []provider.OperationQuery{{Kind: "gift", ProviderPaymentID: "tr_1"}, {Kind: provider.OpRefund, OperationID: "op1"}} {
		got := a.LookupOperation(t.Context(), bad)
		require.Equal(t, provider.LookupNoAnswer, got.Verdict)
		require.Zero(t, got.Requests)
	}
}

func TestRefundEventsAreRead(t *testing.T) {
	t.Parallel()
	a := verifier(t, "s")
	parse := func(kind, entity string) ([]provider.Event, error) {
		_, raw := signedEvent("event_1", kind, "re_1", json.RawMessage(entity), eventTime)
		return a.Parse(raw)
	}
	got, err := parse("refund.refunded", saidRefund())
	require.NoError(t, err)
	require.Equal(t, provider.Succeeded, got[0].Object.Outcome)
	require.Equal(t, provider.Child{ChargeID: "tr_1", PaymentID: "p1"}, got[0].Object.Child)
	got, err = parse("refund.refunded", saidRefund("status", "failed"))
	require.NoError(t, err)
	require.Empty(t, got[0].Object.Outcome, "a contradiction")
	got, err = parse("refund.refunded", saidRefund("mode", "live"))
	require.NoError(t, err)
	require.False(t, got[0].Interesting)
	got, err = parse("refund.refunded", saidRefund("metadata", strings.Repeat("x", 2000)))
	require.NoError(t, err)
	require.Empty(t, got[0].Object.Reference, "somebody else's metadata")
	for _, entity := range []string{`{}`, said(), saidRefund("id", "re_2"), saidRefund("amount", 1)} {
		_, err = parse("refund.refunded", entity)
		require.Error(t, err, entity)
	}
	_, raw := signedEvent("event_1", "refund.refunded", "re_1", nil, eventTime)
	got, err = a.Parse(raw)
	require.NoError(t, err)
	require.False(t, got[0].Interesting, "without a snapshot there is nothing to apply")
}

func TestRefundHints(t *testing.T) {
	t.Parallel()
	got := answering(t, http.StatusCreated, `{"id":"re_7","amount":1}`).Operate(t.Context(), provider.OperationCall{
		Kind: provider.OpRefund, OperationID: "op1", ProviderPaymentID: "tr_1", Key: "k1", Body: []byte(`{}`), Want: back10})
	require.Equal(t, provider.Unknown, got.Outcome)
	require.Equal(t, &provider.Object{ID: "re_7", Kind: provider.ObjectRefund}, got.Object)
	require.Nil(t, refundHint([]byte(`{"id":"tr_7"}`)))
}
