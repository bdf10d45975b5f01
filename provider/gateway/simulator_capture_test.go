package gateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/simulator"
)

// heldAt holds money at the simulator and returns the charge's id.
func heldAt(t *testing.T, a *Adapter, ref string) string {
	t.Helper()
	body, err := a.Freeze(provider.ChargeRequest{PaymentID: ref, OrderRef: "fault:none", Money: asked, ManualCapture: true})
	require.NoError(t, err)
	got := a.Charge(t.Context(), "charge-"+ref, body, asked)
	require.Equal(t, provider.Processing, got.Outcome, "%+v", got.Classification)
	require.Equal(t, provider.ReasonAuthorised, got.Object.Reason)
	require.Equal(t, asked.Amount, got.Object.Totals.Authorised)
	require.False(t, got.Object.Totals.AuthorisedUntil.IsZero())
	return got.Object.ID
}

func actionRequest(kind provider.OperationKind, charge, op string) provider.OperationRequest {
	r := provider.OperationRequest{OperationID: op, Kind: kind, PaymentID: "p1", ProviderPaymentID: charge, Charged: asked, Money: part}
	if kind == provider.OpVoid {
		r.Money = asked
	}
	return r
}

func actAt(t *testing.T, a *Adapter, kind provider.OperationKind, charge, op string) (provider.OperationCall, provider.Charged) {
	t.Helper()
	r := actionRequest(kind, charge, op)
	body, err := a.FreezeOperation(r)
	require.NoError(t, err)
	c := provider.OperationCall{Kind: kind, OperationID: op, ProviderPaymentID: charge, Key: "k-" + op, Body: body, Want: r.Money}
	return c, a.Operate(t.Context(), c)
}

// Each fault of the simulator, as it hits a capture and a void: what the ledger holds is
// the truth, no answer says more than it, and a lookup finds it out.
func TestEveryFaultOfACaptureAndAVoid(t *testing.T) {
	t.Parallel()
	a, sim := simulated(t, simulator.Options{Faults: simulator.Faults{Timing: simulator.Timing{
		Slow: time.Minute, Drip: time.Second, InProgress: time.Minute, Async: time.Hour, Action: time.Hour,
	}}})
	for fault, want := range map[simulator.Fault]provider.Outcome{
		"none":                         provider.Succeeded,
		simulator.ChargedThenCut:       provider.Unknown,
		simulator.ChargedThenReset:     provider.Unknown,
		simulator.ChargedThen502:       provider.Unknown,
		simulator.ChargedThenTruncated: provider.Unknown,
		simulator.ChargedThenHTML:      provider.Unknown,
		simulator.ChargedThenRedirect:  provider.Unknown,
		simulator.Slow:                 provider.Unknown,
		simulator.Hang:                 provider.Unknown,
		simulator.Error500:             provider.Unknown,
		simulator.Error500Charged:      provider.Unknown,
		simulator.Throttle429:          provider.NotExecuted,
		simulator.Unauthorized401:      provider.NotExecuted,
		simulator.Decline:              provider.Failed,
		simulator.Rejected422:          provider.Failed,
		simulator.Async202:             provider.Processing,
		simulator.AmountAltered:        provider.Unknown,
		simulator.AmountMisreported:    provider.Unknown,
		simulator.WrongShape:           provider.Unknown,
		simulator.UnmappedStatus:       provider.Unknown,
	} {
		for _, kind := range []provider.OperationKind{provider.OpCapture, provider.OpVoid} {
			if kind == provider.OpVoid && (fault == simulator.Async202 || fault == simulator.AmountAltered) {
				continue // a void is decided at once, and has no amount of its own
			}
			t.Run(string(kind)+" "+string(fault), func(t *testing.T) {
				t.Parallel()
				charge := heldAt(t, a, string(kind)+"-"+string(fault))
				op := string(kind) + "-fault:" + string(fault)
				c, got := actAt(t, a, kind, charge, op)
				require.Equal(t, want, got.Outcome, "%+v", got.Classification)
				require.Equal(t, 1, got.Exchange.WireSends)
				requireActionTruth(t, a, sim, c, got)
			})
		}
	}
}

// requireActionTruth compares an answer and a lookup with the ledger.
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
	executed := truth.Status != simulator.StatusHeld
	if got.Outcome == provider.Failed || got.Outcome == provider.NotExecuted || got.Outcome == provider.Processing {
		require.False(t, executed)
	}
	l := a.LookupOperation(t.Context(), provider.OperationQuery{Kind: c.Kind, OperationID: c.OperationID, OperationKey: c.Key,
		ProviderPaymentID: c.ProviderPaymentID, Want: c.Want})
	if !executed {
		require.Equal(t, provider.LookupAbsent, l.Verdict, "%+v", l)
		require.Equal(t, provider.ByID, l.Way)
		return
	}
	require.Equal(t, provider.LookupFound, l.Verdict, "%+v", l)
	require.Len(t, l.Objects, 1)
	o := l.Objects[0]
	require.Equal(t, provider.Succeeded, o.Outcome)
	require.Equal(t, provider.ObjectKind(c.Kind), o.Kind)
	require.Equal(t, c.ProviderPaymentID, o.Child.Charge.ID)
	if c.Kind == provider.OpCapture {
		require.Equal(t, truth.Captured, o.Money.Amount)
		require.Equal(t, truth.Captured, o.Child.Charge.Money.Amount)
	} else {
		require.Equal(t, provider.ReasonVoided, o.Child.Charge.Reason)
	}
	if got.Outcome == provider.Succeeded {
		require.Equal(t, c.Want, got.Object.Money)
	}
}

// C-11: the keys of a charge and its capture are apart, and a key stands for its charge
// and for what is done to it.
func TestC11KeysOfCapturesAreTheirOwn(t *testing.T) {
	t.Parallel()
	a, _ := simulated(t, simulator.Options{})
	charge := heldAt(t, a, "p-keys")
	c, got := actAt(t, a, provider.OpCapture, charge, "op-keys")
	require.Equal(t, provider.Succeeded, got.Outcome)
	again := a.Operate(t.Context(), c)
	require.Equal(t, provider.Succeeded, again.Outcome, "the same key and bytes bring the first answer back")
	require.True(t, again.Exchange.Replayed)

	c.Key = "charge-p-keys"
	require.Equal(t, provider.ReasonKeyReused, a.Operate(t.Context(), c).Reason)
	_, second := actAt(t, a, provider.OpCapture, charge, "op-second")
	require.Equal(t, provider.ReasonAlreadyDone, second.Reason)
	_, void := actAt(t, a, provider.OpVoid, charge, "op-void")
	require.Equal(t, provider.Failed, void.Outcome)
}

func TestAuthorisationLapses(t *testing.T) {
	t.Parallel()
	a, _ := simulated(t, simulator.Options{Faults: simulator.Faults{Timing: simulator.Timing{Authorisation: 50 * time.Millisecond}}})
	charge := heldAt(t, a, "p-lapse")
	require.Eventually(t, func() bool {
		l := a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p-lapse", ProviderPaymentID: charge, Want: asked})
		return len(l.Objects) == 1 && l.Objects[0].Outcome == provider.Failed && l.Objects[0].Reason == provider.ReasonExpired
	}, 10*time.Second, 20*time.Millisecond)
	_, got := actAt(t, a, provider.OpCapture, charge, "op-late")
	require.Equal(t, provider.Failed, got.Outcome)
	require.Equal(t, provider.ReasonRejected, got.Reason)
}

func TestFrozenCaptureAndVoid(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	for kind, want := range map[provider.OperationKind]string{
		provider.OpCapture: `{"reference":"op1","amount":1000,"currency":"EUR"}`,
		provider.OpVoid:    `{"reference":"op1"}`,
	} {
		body, err := a.FreezeOperation(actionRequest(kind, "pay_1", "op1"))
		require.NoError(t, err)
		require.Equal(t, want, string(body))
	}
}

// W-15: an answer that names another amount than the one asked for is nobody's success.
func TestW15CaptureAnsweredWithAnotherAmount(t *testing.T) {
	t.Parallel()
	const body = `{"id":"pay_1","reference":"p1","status":"succeeded","amount":4900,"currency":"EUR","totals":{"authorised":4900,"captured":4900,"refunded":0}}`
	a, _ := answering(t, 200, jsonType, body)
	_, got := actAt(t, a, provider.OpCapture, "pay_1", "op1")
	require.Equal(t, provider.Unknown, got.Outcome)
	require.Equal(t, provider.ReviewAmountMismatch, got.Review)
}

// TestACaptureAcknowledgedAndRefused: the charge fails with it, and says so to whoever asks.
func TestACaptureAcknowledgedAndRefused(t *testing.T) {
	t.Parallel()
	a, sim := simulated(t, simulator.Options{Faults: simulator.Faults{Timing: simulator.Timing{Async: time.Hour}}})
	charge := heldAt(t, a, "p-refused")
	c, got := actAt(t, a, provider.OpCapture, charge, "capture-fault:async_202_failed")
	require.Equal(t, provider.Processing, got.Outcome)
	q := provider.OperationQuery{Kind: c.Kind, OperationID: c.OperationID, OperationKey: c.Key, ProviderPaymentID: c.ProviderPaymentID, Want: c.Want}
	require.Equal(t, provider.LookupAbsent, a.LookupOperation(t.Context(), q).Verdict)
	_, err := sim.Complete(charge, simulator.StatusFailed)
	require.NoError(t, err)
	l := a.LookupOperation(t.Context(), q)
	require.Equal(t, provider.LookupFound, l.Verdict)
	require.Equal(t, provider.Failed, l.Objects[0].Outcome)
	require.Equal(t, provider.Failed, l.Objects[0].Child.Charge.Outcome)
	require.Equal(t, "capture_declined", l.Objects[0].Child.Charge.Reason)
}
