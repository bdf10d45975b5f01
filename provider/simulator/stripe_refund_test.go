package simulator

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// refundForm is a request of 10.00 EUR.
func refundForm(intent, operation string, changes ...string) string {
	form := url.Values{
		"payment_intent": {intent}, "amount": {"1000"},
		"metadata[operation_id]": {operation}, "metadata[payment_id]": {"p1"},
	}
	for i := 0; i+1 < len(changes); i += 2 {
		form.Set(changes[i], changes[i+1])
		if changes[i+1] == "" {
			form.Del(changes[i])
		}
	}
	return form.Encode()
}

// giveBack posts a refund.
func (b *bench) giveBack(key, form string) answer {
	b.t.Helper()
	a, err := b.send(b.t.Context(), http.MethodPost, stripeRefundsPath, key, "application/x-www-form-urlencoded", []byte(form))
	require.NoError(b.t, err)
	return a
}

// refundTold is a Refund on the wire.
type refundTold struct {
	ID, Object, Status, Currency, Charge string
	Amount                               int64
	Intent                               string `json:"payment_intent"`
	Failure                              string `json:"failure_reason"`
	Metadata                             map[string]string
}

func (a answer) stripeRefund(t *testing.T) refundTold {
	t.Helper()
	var r refundTold
	require.NoError(t, json.Unmarshal(a.body, &r), "%s", a.body)
	return r
}

func TestStripeRefund(t *testing.T) {
	t.Parallel()
	b := start(t)
	pi := b.intend("k1", intentForm("p1", "")).stripe(t).ID
	other := b.intend("k2", intentForm("p2", "")).stripe(t).ID
	a := b.giveBack("r1", refundForm(pi, "op1"))
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	r := a.stripeRefund(t)
	require.True(t, strings.HasPrefix(r.ID, "re_"), r.ID)
	require.Equal(t, refundTold{
		ID: r.ID, Object: "refund", Status: "succeeded", Currency: "eur", Charge: "ch_" + strings.TrimPrefix(pi, "pi_"),
		Amount: 1000, Intent: pi, Metadata: map[string]string{"operation_id": "op1", "payment_id": "p1"},
	}, r)
	require.JSONEq(t, string(a.body), string(b.get(stripeRefundsPath+"/"+r.ID).body))
	again := b.giveBack("r1", refundForm(pi, "op1"))
	require.Equal(t, a.body, again.body)
	require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
	require.Equal(t, stripeIdempotency, b.giveBack("r1", refundForm(pi, "op1", "amount", "999")).stripe(t).Error.Type)
	require.Equal(t, stripeIdempotency, b.giveBack("k1", refundForm(pi, "op1")).stripe(t).Error.Type, "the charge's key")

	rest := b.giveBack("r2", refundForm(pi, "op2", "amount", "")).stripeRefund(t)
	require.EqualValues(t, 3900, rest.Amount, "without an amount, all that is left")
	third := b.giveBack("r3", refundForm(other, "op3")).stripeRefund(t)
	list := func(query string) []string { return b.get(stripeRefundsPath + query).stripe(t).ids(t) }
	require.Equal(t, []string{rest.ID, r.ID}, list("?payment_intent="+pi), "newest first")
	require.Equal(t, []string{r.ID}, list("?payment_intent="+pi+"&starting_after="+rest.ID))
	require.True(t, b.get(stripeRefundsPath+"?limit=1").stripe(t).HasMore)
	require.ElementsMatch(t, []string{third.ID, rest.ID, r.ID}, list(""))
	require.Len(t, b.get(intentsPath).stripe(t).Data, 2, "a refund is no intent")
	require.Equal(t, http.StatusNotFound, b.get(intentsPath+"/"+r.ID).status)
	require.Equal(t, http.StatusNotFound, b.get(stripeRefundsPath+"/"+pi).status)
	require.Equal(t, http.StatusBadRequest, b.get(stripeRefundsPath+"?charge=ch_1").status)
}

func TestStripeRefundsThatAreRefused(t *testing.T) {
	t.Parallel()
	b := start(t)
	pi := b.intend("k1", intentForm("p1", "")).stripe(t).ID
	declined := b.intend("k2", intentForm("p2", "fault:decline")).stripe(t).Error.PaymentIntent.ID
	gateway := b.charged("p3", "")
	for name, tt := range map[string]struct {
		form   string
		status int
		code   string
	}{
		"no intent":         {refundForm("", "op"), http.StatusBadRequest, "parameter_missing"},
		"no such intent":    {refundForm("pi_none", "op"), http.StatusNotFound, "resource_missing"},
		"of another face":   {refundForm(gateway, "op"), http.StatusNotFound, "resource_missing"},
		"took no money":     {refundForm(declined, "op"), http.StatusBadRequest, "payment_intent_unexpected_state"},
		"too much":          {refundForm(pi, "op", "amount", "4901"), http.StatusBadRequest, "amount_too_large"},
		"nothing":           {refundForm(pi, "op", "amount", "0"), http.StatusBadRequest, "parameter_invalid_integer"},
		"unknown parameter": {refundForm(pi, "op", "sum", "1"), http.StatusBadRequest, "parameter_unknown"},
	} {
		a := b.giveBack("r-"+name, tt.form)
		require.Equal(t, tt.status, a.status, "%s: %s", name, a.body)
		require.Equal(t, tt.code, a.stripe(t).Error.Code, name)
	}
	require.Empty(t, b.refunded(pi))
}

// What Stripe tells of refunds and disputes, delivered or only kept to be asked for.
func TestStripeRefundEvents(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t, into(in))
	pi := b.intend("k1", intentForm("p1", "")).stripe(t).ID
	b.giveBack("r1", refundForm(pi, "op1"))
	missing := b.giveBack("r2", refundForm(pi, "op2-fault:webhook_missing"))
	failed := b.giveBack("r3", refundForm(pi, "op3-fault:decline")).stripeRefund(t)
	require.Equal(t, http.StatusOK, missing.status)
	require.Equal(t, "failed", failed.Status, "a refund that failed is a refund at Stripe")
	require.NotEmpty(t, failed.Failure)
	later := b.giveBack("r4", refundForm(pi, "op4-fault:async_202"))
	require.Equal(t, http.StatusOK, later.status)
	require.Equal(t, "pending", later.stripeRefund(t).Status)
	due := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	d, err := b.OpenDispute(pi, NewDispute{Amount: 500, DueBy: due})
	require.NoError(t, err)
	_, err = b.DecideDispute(d.ID, DisputeWon)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(in.ofType("charge.refunded")) == 2 }, patience, glance)
	b.quiet()

	kinds := map[string]int{}
	for _, r := range in.all() {
		kinds[r.Type]++
		require.NotEmpty(t, r.header.Get("Stripe-Signature"))
	}
	require.Equal(t, map[string]int{
		"payment_intent.succeeded": 1, "refund.updated": 3, "refund.failed": 1, "charge.refunded": 2,
		"charge.dispute.created": 1, "charge.dispute.closed": 1,
	}, kinds)
	type charge struct {
		Object struct {
			ID       string
			Object   string
			Intent   string `json:"payment_intent"`
			Refunded int64  `json:"amount_refunded"`
			Captured int64  `json:"amount_captured"`
		}
	}
	sums := map[int64]bool{}
	for _, r := range in.ofType("charge.refunded") {
		c := about[charge](t, r).Object
		require.Equal(t, "charge", c.Object)
		require.Equal(t, pi, c.Intent)
		require.EqualValues(t, 4900, c.Captured)
		sums[c.Refunded] = true
	}
	require.Equal(t, map[int64]bool{1000: true, 3000: true}, sums)
	type dispute struct {
		Object struct {
			Status   string
			Intent   string `json:"payment_intent"`
			Amount   int64
			Evidence struct {
				DueBy int64 `json:"due_by"`
			} `json:"evidence_details"`
		}
	}
	opened := about[dispute](t, in.ofType("charge.dispute.created")[0]).Object
	require.Equal(t, "needs_response", opened.Status)
	require.Equal(t, pi, opened.Intent)
	require.EqualValues(t, 500, opened.Amount)
	require.Equal(t, due.Unix(), opened.Evidence.DueBy)
	require.Equal(t, "won", about[dispute](t, in.ofType("charge.dispute.closed")[0]).Object.Status)

	require.Len(t, b.get("/v1/events?type=charge.refunded").stripe(t).Data, 3, "the one that was never sent can be asked for")
}
