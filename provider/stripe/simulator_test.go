package stripe

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/simulator"
)

var asked = provider.Money{Amount: 4900, Currency: "EUR"}

// simulated returns an adapter on a running simulator's Stripe face.
func simulated(t *testing.T, o simulator.Options) (*Adapter, *simulator.Server) {
	t.Helper()
	o.APIKey = testKey
	sim, err := simulator.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sim.Close()) })
	a, err := New(provider.Settings{
		Name: "sim", BaseURL: sim.URL(), APIKey: sim.APIKey(), WebhookSecrets: sim.WebhookSecrets(),
		AnswerTimeout: 3 * time.Second,
	}, Options{Sleep: noSleep})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a, sim
}

func (a *Adapter) charged(t *testing.T, ref, orderRef string, m provider.Money) provider.Charged {
	t.Helper()
	body, err := a.Freeze(provider.ChargeRequest{PaymentID: ref, OrderRef: orderRef, Money: m})
	require.NoError(t, err)
	return a.Charge(t.Context(), "k-"+ref, body, m)
}

// Each fault of the simulator, by the meaning the engine has to get: what the ledger
// holds is the truth, and no answer may say more than it.
func TestEveryFaultOfTheSimulator(t *testing.T) {
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
		simulator.RequiresAction:       provider.RequiresAction,
		simulator.DoubleObject:         provider.Succeeded,
		simulator.AmountAltered:        provider.Unknown,
		simulator.AmountMisreported:    provider.Unknown,
		simulator.WrongShape:           provider.Unknown,
		simulator.UnmappedStatus:       provider.Unknown,
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			ref := "p-" + string(fault)
			got := a.charged(t, ref, "fault:"+string(fault), asked)
			require.Equal(t, want, got.Outcome, "%+v", got.Classification)
			require.Equal(t, 1, got.Exchange.WireSends)
			requireTruth(t, a, sim, ref, got)
		})
	}
}

// requireTruth compares the answer, and a lookup after it, with the ledger.
func requireTruth(t *testing.T, a *Adapter, sim *simulator.Server, ref string, got provider.Charged) {
	t.Helper()
	booked := ledger(t, sim, ref)
	if got.Outcome == provider.Succeeded {
		require.Equal(t, simulator.StatusSucceeded, booked[got.Object.ID].Status)
	}
	if got.Outcome == provider.NotExecuted {
		require.Empty(t, booked)
	}
	found := a.Lookup(t.Context(), provider.LookupQuery{PaymentID: ref, OperationKey: "k-" + ref, Want: asked})
	if len(booked) == 0 {
		require.Equal(t, provider.LookupAbsent, found.Verdict, "%+v", found)
		return
	}
	require.Equal(t, provider.LookupFound, found.Verdict, "%+v", found)
	require.Len(t, found.Objects, len(booked))
	for _, o := range found.Objects {
		require.Equal(t, booked[o.ID].Status, string(o.Outcome))
		require.Equal(t, booked[o.ID].Amount, o.Money.Amount)
	}
}

func ledger(t *testing.T, sim *simulator.Server, ref string) map[string]simulator.Charge {
	t.Helper()
	all, err := sim.Charges()
	require.NoError(t, err)
	booked := map[string]simulator.Charge{}
	for _, c := range all {
		if c.Reference == ref {
			booked[c.ID] = c
		}
	}
	return booked
}

// What was asked for in ISO minor units stands in the simulator's ledger in ISO minor
// units, by way of Stripe's units: both sides have a table of their own.
func TestAmountsSurviveTheWire(t *testing.T) {
	t.Parallel()
	a, sim := simulated(t, simulator.Options{})
	for code, minor := range map[string]int64{"EUR": 4900, "JPY": 500, "KWD": 18600, "UGX": 5000, "ISK": 700, "HUF": 1045, "MGA": 12300} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			m := provider.Money{Amount: minor, Currency: code}
			got := a.charged(t, "p-"+code, "", m)
			require.Equal(t, provider.Succeeded, got.Outcome, "%+v", got.Classification)
			booked := ledger(t, sim, "p-"+code)[got.Object.ID]
			require.Equal(t, minor, booked.Amount)
			require.Equal(t, code, booked.Currency)
		})
	}
}

// The same key brings the first answer back, and another body under it is refused.
func TestKeysAtTheSimulator(t *testing.T) {
	t.Parallel()
	a, sim := simulated(t, simulator.Options{})
	first := a.charged(t, "p1", "fault:error_500_charged", asked)
	require.Equal(t, provider.HealthFail, first.Health)
	again := a.charged(t, "p1", "fault:error_500_charged", asked)
	require.True(t, again.Exchange.Replayed)
	require.Equal(t, provider.Unknown, again.Outcome)
	require.Equal(t, provider.HealthNeutral, again.Health, "a replayed 500 is no new evidence")
	require.Len(t, ledger(t, sim, "p1"), 1)

	other := a.charged(t, "p1", "", asked)
	require.Equal(t, provider.ReasonKeyReused, other.Reason)
	require.NotEmpty(t, other.Review)
}

// A payer who was not there is told in Stripe's two ways, and settles later in both.
func TestStrongAuthenticationSettlesLater(t *testing.T) {
	t.Parallel()
	a, sim := simulated(t, simulator.Options{Faults: simulator.Faults{Timing: simulator.Timing{Action: time.Hour}}})
	statuses := map[int]bool{}
	for _, ref := range []string{"a", "b", "c", "d", "e", "f"} {
		got := a.charged(t, ref, "fault:requires_action", asked)
		require.Equal(t, provider.RequiresAction, got.Outcome, "%+v", got.Classification)
		require.Equal(t, provider.HealthOK, got.Health)
		statuses[got.Exchange.Status] = true
		_, err := sim.Complete(got.Object.ID, simulator.StatusSucceeded)
		require.NoError(t, err)
		found := a.Lookup(t.Context(), provider.LookupQuery{PaymentID: ref, ProviderPaymentID: got.Object.ID, Want: asked})
		require.Equal(t, provider.Succeeded, found.Objects[0].Outcome)
		require.Equal(t, asked, found.Objects[0].Money)
	}
	require.Equal(t, map[int]bool{200: true, 402: true}, statuses)
}

// Events of the simulator verify and parse, for every ending a charge can have.
func TestEventsOfTheSimulator(t *testing.T) {
	t.Parallel()
	type delivery struct {
		header http.Header
		body   []byte
	}
	inbox := make(chan delivery, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var raw json.RawMessage
		if json.NewDecoder(r.Body).Decode(&raw) == nil {
			inbox <- delivery{r.Header, raw}
		}
	}))
	t.Cleanup(hook.Close)
	a, _ := simulated(t, simulator.Options{WebhookURL: hook.URL, WebhookSecrets: []string{"whsec_new", "whsec_old"},
		Faults: simulator.Faults{Timing: simulator.Timing{Async: time.Millisecond, Action: time.Hour}}})
	for fault, want := range map[string][]provider.Outcome{
		"none":            {provider.Succeeded},
		"decline":         {provider.Failed},
		"async_202":       {provider.Processing, provider.Succeeded},
		"requires_action": {provider.RequiresAction},
	} {
		got := a.charged(t, "p-"+fault, "fault:"+fault, asked)
		seen := map[provider.Outcome]bool{}
		for range want {
			d := <-inbox
			require.Equal(t, provider.SignatureValid, a.Verify(d.header, d.body, time.Now()).Verdict)
			events, err := a.Parse(d.body)
			require.NoError(t, err)
			require.True(t, events[0].Interesting)
			require.Equal(t, "p-"+fault, events[0].Object.Reference)
			require.Equal(t, asked, events[0].Object.Money)
			seen[events[0].Object.Outcome] = true
		}
		for _, o := range want {
			require.True(t, seen[o], "%s: %s after %s", fault, o, got.Outcome)
		}
	}
}

// Each fault of the simulator on a refund: a charge of its own is refunded in part, and
// what the ledger holds is the truth about it.
func TestEveryFaultOfARefundAtTheSimulator(t *testing.T) {
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
		simulator.Error500:             provider.Unknown,
		simulator.Error500Charged:      provider.Unknown,
		simulator.Throttle429:          provider.NotExecuted,
		simulator.Unauthorized401:      provider.NotExecuted,
		simulator.Rejected422:          provider.Failed,
		simulator.Async202:             provider.Processing,
		simulator.AmountMisreported:    provider.Unknown,
		simulator.WrongShape:           provider.Unknown,
		simulator.UnmappedStatus:       provider.Unknown,
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			charge := a.charged(t, "p-"+string(fault), "refunds:"+string(fault), asked)
			require.Equal(t, provider.Succeeded, charge.Outcome, "%+v", charge.Classification)
			r := provider.OperationRequest{OperationID: "op-" + string(fault), Kind: provider.OpRefund, PaymentID: "p-" + string(fault),
				ProviderPaymentID: charge.Object.ID, Charged: asked, Money: part}
			body, err := a.FreezeOperation(r)
			require.NoError(t, err)
			got := a.Operate(t.Context(), provider.OperationCall{Kind: r.Kind, OperationID: r.OperationID,
				ProviderPaymentID: r.ProviderPaymentID, Key: "refund-" + r.OperationID, Body: body, Want: part})
			require.Equal(t, want, got.Outcome, "%+v", got.Classification)
			require.Equal(t, 1, got.Exchange.WireSends)

			found := a.LookupOperation(t.Context(), provider.OperationQuery{Kind: r.Kind, OperationID: r.OperationID,
				PaymentID: r.PaymentID, ProviderPaymentID: r.ProviderPaymentID, Want: part})
			booked := refundsOf(t, sim, charge.Object.ID)
			if len(booked) == 0 {
				require.Equal(t, provider.LookupAbsent, found.Verdict, "%+v", found)
				return
			}
			require.Equal(t, provider.LookupFound, found.Verdict, "%+v", found)
			require.Len(t, found.Objects, 1)
			require.Equal(t, booked[0].ID, found.Objects[0].ID)
			require.Equal(t, booked[0].Amount, found.Objects[0].Money.Amount)
			require.Equal(t, booked[0].Status, string(found.Objects[0].Outcome))
			require.Equal(t, provider.Child{ChargeID: charge.Object.ID, PaymentID: r.PaymentID}, found.Objects[0].Child)
		})
	}
}

func refundsOf(t *testing.T, sim *simulator.Server, charge string) (booked []simulator.Charge) {
	t.Helper()
	all, err := sim.Refunds()
	require.NoError(t, err)
	for _, r := range all {
		if r.Of == charge {
			booked = append(booked, r)
		}
	}
	return booked
}
