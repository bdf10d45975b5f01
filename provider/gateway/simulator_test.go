package gateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/simulator"
)

// simulated returns an adapter on a running simulator.
func simulated(t *testing.T, o simulator.Options) (*Adapter, *simulator.Server) {
	t.Helper()
	sim, err := simulator.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sim.Close()) })
	a, err := New(provider.Settings{
		Name: "sim", BaseURL: sim.URL(), APIKey: sim.APIKey(), WebhookSecrets: sim.WebhookSecrets(),
		NoKeys: o.NoKeys, NoStatusAPI: o.NoStatusAPI, AnswerTimeout: 3 * time.Second,
	}, Options{Sleep: noSleep})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a, sim
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
			body, err := a.Freeze(provider.ChargeRequest{PaymentID: ref, OrderRef: "fault:" + string(fault), Money: asked})
			require.NoError(t, err)
			got := a.Charge(t.Context(), "k-"+ref, body, asked)
			require.Equal(t, want, got.Outcome, "%+v", got.Classification)
			require.Equal(t, 1, got.Exchange.WireSends)
			requireTruth(t, a, sim, ref, got)
		})
	}
}

// The cheap read fails in every outage of the whole provider, and in none that hits
// charges or questions alone: those a charge has to find out.
func TestPingTellsOutagesApart(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		o    simulator.Options
		want provider.Verdict
	}{
		"healthy":        {simulator.Options{}, provider.HealthOK},
		"no status API":  {simulator.Options{NoStatusAPI: true, NoKeys: true}, provider.HealthOK},
		"lookups fail":   {simulator.Options{Faults: simulator.Healthy().With(simulator.LookupError, 1)}, provider.HealthOK},
		"charges fail":   {simulator.Options{Faults: simulator.InOutage(simulator.OutageCharges)}, provider.HealthOK},
		"503 to all":     {simulator.Options{Faults: simulator.InOutage(simulator.OutageError)}, provider.HealthFail},
		"refused":        {simulator.Options{Faults: simulator.InOutage(simulator.OutageRefuse)}, provider.HealthFail},
		"silent, to 3 s": {simulator.Options{Faults: simulator.InOutage(simulator.OutageBlackHole)}, provider.HealthFail},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, sim := simulated(t, tt.o)
			got := a.Ping(t.Context())
			require.Equal(t, tt.want, got.Health, "%s", got.Reason)
			require.Less(t, got.Exchange.Latency(), 10*time.Second)
			charges, err := sim.Charges()
			require.NoError(t, err)
			require.Empty(t, charges)
		})
	}
}

// requireTruth compares the answer, and a lookup after it, with the ledger.
func requireTruth(t *testing.T, a *Adapter, sim *simulator.Server, ref string, got provider.Charged) {
	t.Helper()
	all, err := sim.Charges()
	require.NoError(t, err)
	booked := map[string]simulator.Charge{}
	for _, c := range all {
		if c.Reference == ref {
			booked[c.ID] = c
		}
	}
	if got.Outcome == provider.Succeeded {
		require.Equal(t, simulator.StatusSucceeded, booked[got.Object.ID].Status)
	}
	if got.Outcome == provider.NotExecuted {
		require.Empty(t, booked)
	}
	asked := a.Lookup(t.Context(), provider.LookupQuery{PaymentID: ref, OperationKey: "k-" + ref, Want: asked})
	if len(booked) == 0 {
		require.Equal(t, provider.LookupAbsent, asked.Verdict, "%+v", asked)
		return
	}
	require.Equal(t, provider.LookupFound, asked.Verdict, "%+v", asked)
	require.Len(t, asked.Objects, len(booked))
	for _, o := range asked.Objects {
		require.Equal(t, booked[o.ID].Status, o.Status)
		require.Equal(t, booked[o.ID].Amount, o.Money.Amount)
	}
}

// A signature the simulator makes is one the adapter accepts, and the other way round.
func TestTheSimulatorSignsAsWeVerify(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"id":"evt_1"}`)
	require.Equal(t, Sign(raw, eventTime, "a", "b"), simulator.Sign(raw, eventTime, "a", "b"))
}
