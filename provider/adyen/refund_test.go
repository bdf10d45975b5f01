package adyen

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

var giveBack = provider.OperationRequest{
	OperationID: "0198f3a2-6000-7d11-8a44-0d6a3c1f2b90", Kind: provider.OpRefund, PaymentID: order.PaymentID,
	ProviderPaymentID: "PSP1", Charged: euros, Money: provider.Money{Amount: 900, Currency: "EUR"},
}

func TestTheRequestForARefundIsAdyens(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	body, err := a.FreezeOperation(giveBack)
	require.NoError(t, err)
	require.JSONEq(t, `{"merchantAccount":"ShopECOM","amount":{"currency":"EUR","value":900},"reference":"op-0198f3a2-6000-7d11-8a44-0d6a3c1f2b90"}`, string(body))
	isk := giveBack
	isk.Money, isk.Charged = provider.Money{Amount: 2790, Currency: "ISK"}, provider.Money{Amount: 4900, Currency: "ISK"}
	body, err = a.FreezeOperation(isk)
	require.NoError(t, err)
	require.Contains(t, string(body), `"value":279000`)
	for _, kind := range []provider.OperationKind{"", "gift"} {
		other := giveBack
		other.Kind = kind
		_, err := a.FreezeOperation(other)
		require.Error(t, err, kind)
		require.Equal(t, provider.NotSent, a.Operate(t.Context(), provider.OperationCall{Kind: kind, ProviderPaymentID: "PSP1", Key: "k"}).Outcome)
	}
}

// A refund is received and no more, whatever comes with it.
func TestAnswersToARefund(t *testing.T) {
	t.Parallel()
	const op = `"reference":"op-0198f3a2-6000-7d11-8a44-0d6a3c1f2b90"`
	for name, c := range map[string]struct {
		status  int
		body    string
		outcome provider.Outcome
		reason  string
	}{
		"received":           {201, `{"pspReference":"R","paymentPspReference":"PSP1","status":"received","amount":{"currency":"EUR","value":900},` + op + `}`, provider.Processing, "processing"},
		"without its amount": {201, `{"pspReference":"R","paymentPspReference":"PSP1","status":"received",` + op + `}`, provider.Processing, "processing"},
		"of another payment": {201, `{"pspReference":"R","paymentPspReference":"PSP2","status":"received",` + op + `}`, provider.Unknown, "contradiction"},
		"of another refund":  {201, `{"pspReference":"R","paymentPspReference":"PSP1","status":"received","reference":"op-x"}`, provider.Unknown, "contradiction"},
		"another word":       {201, `{"pspReference":"R","paymentPspReference":"PSP1","status":"done",` + op + `}`, provider.Unknown, "unmapped_status"},
		"another amount":     {201, `{"pspReference":"R","paymentPspReference":"PSP1","status":"received","amount":{"currency":"EUR","value":90},` + op + `}`, provider.Unknown, "amount_mismatch"},
		"no id":              {201, `{"status":"received"}`, provider.Unknown, "no_object"},
		"nothing":            {201, `{}`, provider.Unknown, "no_object"},
		"another shape":      {201, `{"pspReference":7}`, provider.Unknown, "contract_changed"},
		"too much":           {422, `{"status":422,"errorCode":"137","message":"Invalid amount specified"}`, provider.Failed, "declined"},
		"no such payment":    {422, `{"status":422,"errorCode":"167","message":"Original pspReference required for this operation"}`, provider.Failed, "rejected"},
		"in progress":        {422, `{"status":422,"errorCode":"704","message":"x"}`, provider.Unknown, "key_in_use"},
		"amount, not by 422": {500, `{"status":500,"errorCode":"137","message":"x"}`, provider.Unknown, "provider_500"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := answering(t, c.status, nil, c.body)
			body, err := a.FreezeOperation(giveBack)
			require.NoError(t, err)
			got := a.Operate(t.Context(), provider.OperationCall{Kind: provider.OpRefund, OperationID: giveBack.OperationID,
				ProviderPaymentID: "PSP1", Key: "refund-1", Body: body, Want: giveBack.Money})
			require.Equal(t, c.outcome, got.Outcome, "%+v", got.Classification)
			require.Equal(t, c.reason, got.Reason)
		})
	}
}

// One made in the Customer Area has the payment's reference, or any other: it is no
// operation of ours.
func TestARefundMadeElsewhereIsNoneOfOurs(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	n := about("REFUND", "true")
	n.psp, n.original = "REF1", "PSP1"
	for reference, ours := range map[string]string{order.PaymentID: "", "op-" + giveBack.OperationID: giveBack.OperationID} {
		n.reference = reference
		events, err := a.Parse(notify(testHMAC, n))
		require.NoError(t, err)
		o := events[0].Object
		require.Equal(t, ours, o.Reference)
		require.Equal(t, "PSP1", o.Child.ChargeID)
		require.Equal(t, ours == "", o.Child.PaymentID != "")
	}
}
