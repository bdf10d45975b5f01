package stripe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/simulator"
)

// The Stripe face holds, captures and cancels, with the simulator's faults; what the
// adapter believes is never more than the ledger holds.
func TestCapturesAtTheSimulatorsStripeFace(t *testing.T) {
	t.Parallel()
	a, sim := simulated(t, simulator.Options{Faults: simulator.Faults{Timing: simulator.Timing{Async: time.Hour, Slow: time.Minute}}})
	money, part := provider.Money{Amount: 4900, Currency: "EUR"}, provider.Money{Amount: 1900, Currency: "EUR"}
	for fault, want := range map[simulator.Fault]provider.Outcome{
		"none":                      provider.Succeeded,
		simulator.ChargedThenCut:    provider.Unknown,
		simulator.ChargedThen502:    provider.Unknown,
		simulator.Error500Charged:   provider.Unknown,
		simulator.Error500:          provider.Unknown,
		simulator.Throttle429:       provider.NotExecuted,
		simulator.Decline:           provider.Failed,
		simulator.AmountAltered:     provider.Unknown,
		simulator.AmountMisreported: provider.Unknown,
	} {
		for _, kind := range []provider.OperationKind{provider.OpCapture, provider.OpVoid} {
			if kind == provider.OpVoid && (fault == simulator.AmountAltered || fault == simulator.AmountMisreported) {
				continue // a void has no amount of its own
			}
			t.Run(string(kind)+" "+string(fault), func(t *testing.T) {
				t.Parallel()
				ref := string(kind) + "-" + string(fault)
				body, err := a.Freeze(provider.ChargeRequest{PaymentID: ref, OrderRef: "fault:none captures:" + string(fault), Money: money, ManualCapture: true})
				require.NoError(t, err)
				charged := a.Charge(t.Context(), "charge-"+ref, body, money)
				require.Equal(t, provider.Processing, charged.Outcome, "%+v", charged.Classification)
				require.Equal(t, provider.ReasonAuthorised, charged.Object.Reason)
				r := provider.OperationRequest{OperationID: "op-" + ref, Kind: kind, PaymentID: ref, ProviderPaymentID: charged.Object.ID, Charged: money, Money: money}
				if kind == provider.OpCapture {
					r.Money = part
				}
				body, err = a.FreezeOperation(r)
				require.NoError(t, err)
				call := provider.OperationCall{Kind: kind, OperationID: r.OperationID, ProviderPaymentID: r.ProviderPaymentID, Key: "k-" + ref, Body: body, Want: r.Money}
				got := a.Operate(t.Context(), call)
				require.Equal(t, want, got.Outcome, "%+v", got.Classification)
				require.Equal(t, 1, got.Exchange.WireSends)
				requireActionTruth(t, a, sim, call, got)
			})
		}
	}
}

func requireActionTruth(t *testing.T, a *Adapter, sim *simulator.Server, c provider.OperationCall, got provider.Charged) {
	t.Helper()
	all, err := sim.Charges()
	require.NoError(t, err)
	var truth simulator.Charge
	for _, x := range all {
		if x.ID == c.ProviderPaymentID {
			truth = x
		}
	}
	l := a.LookupOperation(t.Context(), provider.OperationQuery{Kind: c.Kind, OperationID: c.OperationID, ProviderPaymentID: c.ProviderPaymentID, Want: c.Want})
	if truth.Status == simulator.StatusHeld {
		require.NotEqual(t, provider.Succeeded, got.Outcome)
		require.Equal(t, provider.LookupAbsent, l.Verdict, "%+v", l)
		return
	}
	require.Equal(t, provider.LookupFound, l.Verdict, "%+v", l)
	require.Equal(t, provider.Succeeded, l.Objects[0].Outcome)
	if c.Kind == provider.OpCapture {
		require.Equal(t, truth.Captured, l.Objects[0].Money.Amount)
	} else {
		require.Equal(t, provider.ReasonVoided, l.Objects[0].Child.Charge.Reason)
	}
	c.Key = "another-" + c.Key
	require.Equal(t, provider.ReasonAlreadyDone, a.Operate(t.Context(), c).Reason, "a second one is evidence of the first")
}

// TestACaptureAcknowledgedAndRefused: the intent fails with it, and says so to whoever asks.
func TestACaptureAcknowledgedAndRefused(t *testing.T) {
	t.Parallel()
	a, sim := simulated(t, simulator.Options{Faults: simulator.Faults{Timing: simulator.Timing{Async: time.Hour}}})
	money := provider.Money{Amount: 4900, Currency: "EUR"}
	body, err := a.Freeze(provider.ChargeRequest{PaymentID: "p-refused", OrderRef: "fault:none captures:async_202_failed", Money: money, ManualCapture: true})
	require.NoError(t, err)
	charged := a.Charge(t.Context(), "charge-p-refused", body, money)
	require.Equal(t, provider.Processing, charged.Outcome, "%+v", charged.Classification)
	r := provider.OperationRequest{OperationID: "op-refused", Kind: provider.OpCapture, PaymentID: "p-refused", ProviderPaymentID: charged.Object.ID, Charged: money, Money: money}
	body, err = a.FreezeOperation(r)
	require.NoError(t, err)
	got := a.Operate(t.Context(), provider.OperationCall{Kind: r.Kind, OperationID: r.OperationID, ProviderPaymentID: r.ProviderPaymentID, Key: "k-refused", Body: body, Want: money})
	require.Equal(t, provider.Processing, got.Outcome, "%+v", got.Classification)
	_, err = sim.Complete(charged.Object.ID, simulator.StatusFailed)
	require.NoError(t, err)
	l := a.LookupOperation(t.Context(), provider.OperationQuery{Kind: r.Kind, OperationID: r.OperationID, OperationKey: "k-refused",
		PaymentID: "p-refused", ProviderPaymentID: r.ProviderPaymentID, Want: money})
	require.Equal(t, provider.LookupFound, l.Verdict, "%+v", l)
	require.Equal(t, provider.Failed, l.Objects[0].Outcome)
	require.Equal(t, provider.Failed, l.Objects[0].Child.Charge.Outcome)
}
