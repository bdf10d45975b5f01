package gateway

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/simulator"
)

// takenAt makes a charge at the simulator and returns its id.
func takenAt(t *testing.T, a *Adapter, ref string) string {
	t.Helper()
	body, err := a.Freeze(provider.ChargeRequest{PaymentID: ref, OrderRef: "fault:none", Money: asked})
	require.NoError(t, err)
	got := a.Charge(t.Context(), "charge-"+ref, body, asked)
	require.Equal(t, provider.Succeeded, got.Outcome, "%+v", got.Classification)
	return got.Object.ID
}

func refundAt(t *testing.T, a *Adapter, charge, op string) (provider.OperationCall, provider.Charged) {
	t.Helper()
	r := refundRequest()
	r.OperationID, r.ProviderPaymentID = op, charge
	body, err := a.FreezeOperation(r)
	require.NoError(t, err)
	c := provider.OperationCall{Kind: r.Kind, OperationID: op, ProviderPaymentID: charge, Key: "k-" + op, Body: body, Want: part}
	return c, a.Operate(t.Context(), c)
}

// Each fault of the simulator, as it hits a refund: what the ledger holds is the truth,
// no answer says more than it, and a lookup finds it out.
func TestEveryFaultOfARefund(t *testing.T) {
	t.Parallel()
	a, sim := simulated(t, simulator.Options{Faults: simulator.Faults{Timing: simulator.Timing{
		Slow: time.Minute, Drip: time.Second, InProgress: time.Minute,
		Async: time.Hour, Action: time.Hour,
	}}})
	for fault, want := range map[simulator.Fault]provider.Outcome{
		"none":                         provider.Succeeded,
		simulator.ChargedThenSilent:    provider.Unknown,
		simulator.ChargedThenCut:       provider.Unknown,
		simulator.ChargedThenReset:     provider.Unknown,
		simulator.ChargedThen502:       provider.Unknown,
		simulator.ChargedThenTruncated: provider.Unknown,
		simulator.ChargedThenHTML:      provider.Unknown,
		simulator.ChargedThenRedirect:  provider.Unknown,
		simulator.Slow:                 provider.Unknown,
		simulator.Drip:                 provider.Unknown,
		simulator.Hang:                 provider.Unknown,
		simulator.Error500:             provider.Unknown,
		simulator.Error500Charged:      provider.Unknown,
		simulator.InProgress409:        provider.Unknown,
		simulator.Throttle429:          provider.NotExecuted,
		simulator.Unauthorized401:      provider.NotExecuted,
		simulator.Forbidden403:         provider.NotExecuted,
		simulator.Decline:              provider.Failed,
		simulator.Rejected422:          provider.Failed,
		simulator.Async202:             provider.Processing,
		simulator.RequiresAction:       provider.Processing,
		simulator.DoubleObject:         provider.Succeeded,
		simulator.AmountAltered:        provider.Unknown,
		simulator.AmountMisreported:    provider.Unknown,
		simulator.WrongShape:           provider.Unknown,
		simulator.UnmappedStatus:       provider.Unknown,
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			charge := takenAt(t, a, "p-"+string(fault))
			op := "op-fault:" + string(fault)
			_, got := refundAt(t, a, charge, op)
			require.Equal(t, want, got.Outcome, "%+v", got.Classification)
			require.Equal(t, 1, got.Exchange.WireSends)
			requireRefundTruth(t, a, sim, charge, op, got)
		})
	}
}

// booksOf returns the refunds of a charge in the ledger, by id.
func booksOf(t *testing.T, sim *simulator.Server, charge string) map[string]simulator.Charge {
	t.Helper()
	all, err := sim.Refunds()
	require.NoError(t, err)
	out := map[string]simulator.Charge{}
	for _, r := range all {
		if r.Of == charge {
			out[r.ID] = r
		}
	}
	return out
}

func requireRefundTruth(t *testing.T, a *Adapter, sim *simulator.Server, charge, op string, got provider.Charged) {
	t.Helper()
	booked := booksOf(t, sim, charge)
	if got.Outcome == provider.Succeeded {
		require.Equal(t, simulator.StatusSucceeded, booked[got.Object.ID].Status)
	}
	if got.Outcome == provider.NotExecuted {
		require.Empty(t, booked)
	}
	asked := a.LookupOperation(t.Context(), provider.OperationQuery{
		Kind: provider.OpRefund, OperationID: op, OperationKey: "k-" + op, ProviderPaymentID: charge, Want: part,
	})
	if len(booked) == 0 {
		require.Equal(t, provider.LookupAbsent, asked.Verdict, "%+v", asked)
		return
	}
	require.Equal(t, provider.LookupFound, asked.Verdict, "%+v", asked)
	require.Len(t, asked.Objects, len(booked))
	for _, o := range asked.Objects {
		require.Equal(t, provider.ObjectRefund, o.Kind)
		require.Equal(t, booked[o.ID].Status, o.Status)
		require.Equal(t, booked[o.ID].Amount, o.Money.Amount)
		require.Equal(t, charge, o.Child.ChargeID)
	}
}

// The connection on which a charge was answered is kept; the refund that is cut on it
// leaves once.
func TestC01_ARefundCutOnAWarmConnectionIsSentOnce(t *testing.T) {
	t.Parallel()
	a, sim := simulated(t, simulator.Options{})
	charge := takenAt(t, a, "p1")
	call, got := refundAt(t, a, charge, "op1-fault:charged_then_cut")
	require.Equal(t, provider.ReasonCutAfterSend, got.Reason)
	require.Equal(t, 1, sim.Stats().ByKey[call.Key], "one request arrived")
	again := a.Operate(t.Context(), call)
	require.Equal(t, provider.Succeeded, again.Outcome, "%+v", again.Classification)
	require.True(t, again.Exchange.Replayed)
	require.Len(t, booksOf(t, sim, charge), 1)
}

// What is told about refunds and disputes is what the ledger holds, and is read back as
// objects of the charge.
func TestChildEventsOfTheSimulator(t *testing.T) {
	t.Parallel()
	bodies := make(chan *http.Request, 20)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err == nil {
			kept := r.Clone(context.WithoutCancel(r.Context()))
			kept.Header.Set("X-Body", string(raw))
			bodies <- kept
		}
	}))
	t.Cleanup(hook.Close)
	a, sim := simulated(t, simulator.Options{WebhookURL: hook.URL, WebhookSecrets: []string{testSecret}})
	charge := takenAt(t, a, "p1")
	_, ours := refundAt(t, a, charge, "op1")
	external, err := sim.AddRefund(charge, simulator.ManualRefund{Amount: 300})
	require.NoError(t, err)
	dispute, err := sim.OpenDispute(charge, simulator.NewDispute{Amount: 500})
	require.NoError(t, err)
	_, err = sim.DecideDispute(dispute.ID, simulator.DisputeLost)
	require.NoError(t, err)

	seen := map[string]provider.Object{}
	refunded := map[int64]bool{}
	for range 7 { // the charge, two refunds with a total each, two of the dispute
		var r *http.Request
		select {
		case r = <-bodies:
		case <-time.After(15 * time.Second):
			t.Fatalf("only %d events", len(seen))
		}
		raw := []byte(r.Header.Get("X-Body"))
		require.Equal(t, provider.SignatureValid, a.Verify(r.Header, raw, time.Now()).Verdict)
		events, err := a.Parse(raw)
		require.NoError(t, err)
		require.True(t, events[0].Interesting, events[0].Type)
		o := events[0].Object
		seen[events[0].Type+" "+o.ID] = o
		if o.Totals != nil {
			refunded[o.Totals.Refunded] = true
		}
	}
	require.Equal(t, map[int64]bool{0: true, 1000: true, 1300: true}, refunded)
	mine := seen["refund.updated "+ours.Object.ID]
	require.Equal(t, "op1", mine.Reference)
	require.Equal(t, part, mine.Money)
	theirs := seen["refund.updated "+external.ID]
	require.Empty(t, theirs.Reference)
	require.Equal(t, provider.Succeeded, theirs.Outcome)
	require.Equal(t, provider.Child{ChargeID: charge, PaymentID: "p1"}, theirs.Child)
	opened := seen["dispute.opened "+dispute.ID]
	require.Equal(t, provider.ObjectDispute, opened.Kind)
	require.True(t, dispute.DueBy.Equal(opened.Child.DueBy))
	require.Equal(t, provider.DisputeLost, seen["dispute.lost "+dispute.ID].Status)
}
