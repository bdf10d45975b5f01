package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider/simulator"
	"fusebox/store"
)

// newStripeWorld is a world whose providers are accounts at Stripe: simulators that are
// spoken to through their Stripe face.
func newStripeWorld(t *testing.T, names ...string) *world {
	t.Helper()
	w := newWorld(t, place{})
	for _, name := range names {
		p := &demoProvider{name: name, faults: timed(simulator.Healthy())}
		apiKey, secret := "sk_test_"+randomSecret(), "whsec_"+randomSecret()
		sim, err := simulator.Start(context.Background(), simulator.Options{
			Name: name, APIKey: apiKey, LedgerPath: filepath.Join(t.TempDir(), name+".jsonl"),
			WebhookURL: w.url + "/webhooks/" + name, WebhookSecrets: []string{secret}, Faults: p.faults,
		})
		require.NoError(t, err)
		t.Cleanup(func() { _ = sim.Close() })
		p.sim, p.settings = sim, p.demoSettings(sim, apiKey, secret)
		w.providers = append(w.providers, p)
		w.env = append(append(w.env, providerEnv(p)...), providerPrefix(name)+"KIND=stripe")
	}
	w.env = append(w.env, "FUSEBOX_PROVIDERS="+strings.Join(names, ","))
	return w
}

// TestStripe: the engine settles every fault that an adapter of Stripe's meets, with one
// charge each at most, and the audit of both accounts finds nothing.
func TestStripe(t *testing.T) {
	t.Parallel()
	w := newStripeWorld(t, "stripe-eu", "stripe-us")
	w.serve()
	w.work()
	want := map[store.Status][]string{
		store.Succeeded: {
			"none", "charged_then_cut,webhook_missing", "charged_then_502,webhook_missing", "charged_then_truncated,webhook_late",
			"error_500_charged,webhook_missing,lookup_lag", "throttle_429", "hang", "in_progress_409", "async_202", "requires_action",
			"amount_misreported", "unmapped_status", "wrong_shape,webhook_missing", "webhook_bad_signature,charged_then_reset",
			"webhook_out_of_order,webhook_duplicated,webhook_concurrent", "webhook_early", "webhook_unrelated",
		},
		store.Failed: {"decline", "rejected_422", "async_202_failed", "requires_action_dropped"},
	}
	paid := map[store.Status][]store.Payment{}
	for status, faults := range want {
		for i, fault := range faults {
			paid[status] = append(paid[status], w.pay(w.providers[i%2].name, "fault:"+fault))
		}
	}
	for status, payments := range paid {
		for _, p := range payments {
			require.Equal(t, status, w.settled(p.ID, 90*time.Second).Status, "%s at %s", p.OrderRef, p.Provider)
			taken := 0
			if status == store.Succeeded {
				taken = 1
			}
			require.Equal(t, taken, w.charges(p.Provider, p.ID), "%s at %s", p.OrderRef, p.Provider)
		}
	}
	require.Equal(t, 1, w.scalar(`SELECT max(wire_sends) FROM attempts`))
	w.clean()
}

// TestStripeAccountsStayApart: what one account signs the other does not take.
func TestStripeAccountsStayApart(t *testing.T) {
	t.Parallel()
	w := newStripeWorld(t, "stripe-eu", "stripe-us")
	w.serve()
	w.work()
	eu, us := w.pay("stripe-eu", "fault:none"), w.pay("stripe-us", "fault:none")
	for _, p := range []store.Payment{eu, us} {
		require.Equal(t, store.Succeeded, w.settled(p.ID, 60*time.Second).Status)
		require.Equal(t, 1, w.charges(p.Provider, p.ID))
	}
	require.Zero(t, w.charges("stripe-us", eu.ID)+w.charges("stripe-eu", us.ID))

	body := []byte(fmt.Sprintf(`{"id":"evt_x","type":"payment_intent.canceled","livemode":false,"data":{"object":{
		"id":%q,"object":"payment_intent","status":"canceled","amount":4900,"currency":"eur","metadata":{"payment_id":%q}}}}`, "pi_x", us.ID))
	signature := simulator.Sign(body, time.Now(), w.provider("stripe-eu").settings.WebhookSecrets...)
	post := func(name string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/webhooks/"+name, bytes.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Stripe-Signature", signature)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	require.Equal(t, http.StatusBadRequest, post("stripe-us"), "signed with the other account's secret")
	require.Equal(t, http.StatusOK, post("stripe-eu"), "signed well, and about no payment of this account")
	// Neither does the id of the other account's charge mean anything here.
	body = []byte(fmt.Sprintf(`{"id":"evt_y","type":"payment_intent.canceled","livemode":false,"data":{"object":{
		"id":%q,"object":"payment_intent","status":"canceled","amount":4900,"currency":"eur","metadata":{}}}}`, w.payment(us.ID).ProviderPaymentID))
	signature = simulator.Sign(body, time.Now(), w.provider("stripe-eu").settings.WebhookSecrets...)
	require.Equal(t, http.StatusOK, post("stripe-eu"))
	w.eventually(20*time.Second, "the events find no payment", func() bool {
		return w.scalar(`SELECT count(*) FROM webhook_events WHERE provider = 'stripe-eu' AND event_key IN ('evt_x', 'evt_y')
			AND state IN ('unmatched', 'ignored')`) == 2
	})
	require.Equal(t, store.Succeeded, w.payment(us.ID).Status)
	w.clean()
}

// TestStripeAccountsFailApart: each account has circuits and queues of its own. With one out
// of reach, and later the other one's key refused, only its own charges wait.
func TestStripeAccountsFailApart(t *testing.T) {
	t.Parallel()
	w := newStripeWorld(t, "stripe-eu", "stripe-us")
	w.serve()
	w.work()
	w.setFaults("stripe-eu", func(f simulator.Faults) simulator.Faults { f.Outage = simulator.OutageRefuse; return f })
	var held []store.Payment
	for i := range 8 {
		held = append(held, w.pay("stripe-eu", fmt.Sprintf("fault:none, held %d", i)))
	}
	opened := func(name string) int {
		return w.scalar(`SELECT count(*) FROM breaker_events WHERE provider = $1 AND to_state = 'open'`, name)
	}
	w.eventually(60*time.Second, "the circuit of stripe-eu opens", func() bool { return opened("stripe-eu") > 0 })
	for i := range 3 {
		p := w.pay("stripe-us", fmt.Sprintf("fault:none, free %d", i))
		require.Equal(t, store.Succeeded, w.settled(p.ID, 60*time.Second).Status)
	}
	require.Zero(t, opened("stripe-us"))
	require.Equal(t, len(held), w.count("stripe-eu", store.Pending))
	require.Zero(t, w.scalar(`SELECT count(*) FROM river_job WHERE kind = 'charge' AND queue <> 'charge_' || (args ->> 'provider')`))
	require.Equal(t, 2, w.scalar(`SELECT count(DISTINCT queue) FROM river_job WHERE kind = 'charge'`))

	refused := w.pay("stripe-us", "fault:unauthorized_401")
	w.eventually(60*time.Second, "money calls of stripe-us are paused", func() bool {
		list, err := w.store.PausedProviders(t.Context())
		require.NoError(t, err)
		return len(list) == 1 && list[0].Provider == "stripe-us"
	})
	w.setFaults("stripe-eu", func(f simulator.Faults) simulator.Faults { f.Outage = simulator.OutageNone; return f })
	for _, p := range held {
		require.Equal(t, store.Succeeded, w.settled(p.ID, 90*time.Second).Status)
		require.Equal(t, 1, w.charges("stripe-eu", p.ID))
	}
	require.Equal(t, store.Pending, w.payment(refused.ID).Status)
	require.Zero(t, w.charges("stripe-us", refused.ID))
	require.Zero(t, opened("stripe-us"))
	w.clean()
}

// TestStripeRefunds: a refund meets the faults that a charge meets, gives its money back
// once, and one that is made in Stripe's dashboard is learnt from its event.
func TestStripeRefunds(t *testing.T) {
	t.Parallel()
	w := newStripeWorld(t, "stripe-eu")
	w.serve()
	w.work()
	sim := w.provider("stripe-eu").sim
	client := store.Actor{Kind: "client", ID: "test", Name: "test"}
	given := func(charge string) (sum int64) {
		all, err := sim.Refunds()
		require.NoError(t, err)
		for _, r := range all {
			if r.Of == charge && r.Status == simulator.StatusSucceeded {
				sum += r.Amount
			}
		}
		return sum
	}
	refunds := map[string]store.Status{
		"none": store.Succeeded, "charged_then_cut,webhook_missing": store.Succeeded, "charged_then_502": store.Succeeded,
		"throttle_429": store.Succeeded, "async_202": store.Succeeded, "async_202_failed": store.Failed, "rejected_422": store.Failed,
		"amount_misreported": store.Succeeded, "hang": store.Failed, // not received: a person asks again
	}
	asked := map[string]store.Operation{}
	for fault := range refunds {
		p := w.settled(w.pay("stripe-eu", "refunds:"+fault).ID, 60*time.Second)
		require.Equal(t, store.Succeeded, p.Status)
		made, err := w.store.CreateRefund(t.Context(), store.NewRefund{PaymentID: p.ID, Origin: store.OriginAPI, ClientID: "test",
			IdempotencyKey: uuid.NewString(), Amount: 300, Reason: "a test"}, client)
		require.NoError(t, err)
		asked[fault] = made.Operation
	}
	for fault, want := range refunds {
		var op store.Operation
		eventuallyIn(t, 90*time.Second, func() string {
			return fmt.Sprintf("refund with %s is final, it is %s (%s)", fault, op.Status, op.StatusReason)
		}, func() bool {
			var err error
			op, err = w.store.Operation(t.Context(), asked[fault].ID)
			require.NoError(t, err)
			return op.Status.Final()
		})
		require.Equal(t, want, op.Status, "%s: %s", fault, op.StatusReason)
		sum := int64(0)
		if want == store.Succeeded {
			sum = 300
		}
		require.Equal(t, sum, given(op.ProviderPaymentID), fault)
		require.Equal(t, store.Succeeded, w.payment(op.PaymentID).Status)
	}
	_, err := sim.AddRefund(asked["none"].ProviderPaymentID, simulator.ManualRefund{Amount: 200})
	require.NoError(t, err)
	w.eventually(30*time.Second, "the refund made in the dashboard is known", func() bool {
		return w.scalar(`SELECT coalesce(sum(amount), 0) FROM operations WHERE payment_id = $1 AND origin = 'external' AND status = 'succeeded'`,
			asked["none"].PaymentID) == 200
	})
	require.Equal(t, 1, w.scalar(`SELECT max(wire_sends) FROM attempts`))
	w.clean()
}
