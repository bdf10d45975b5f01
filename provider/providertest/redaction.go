package providertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

// LeakyFake is a Fake that can be careless.
type LeakyFake interface {
	// Leak makes every following money call be refused, and every question be answered,
	// with a text in the provider's words for people and in a member that no contract
	// knows, both as a provider that logs into its own answers would.
	Leak(text string)
}

// aCard is a card number for tests, with a valid check digit.
const aCard = "4242424242424242"

// testRedaction: whatever a provider answers, no card data and no credential of ours is
// in what the adapter returns.
func testRedaction(t *testing.T, h Harness) {
	a, fake := h.New(t)
	body, err := a.Freeze(h.request("p1"))
	require.NoError(t, err)
	for i, b := range []Behaviour{Succeed, Decline, Reject, Unauthorized, ServerError, ChargeHTML, ChargeTruncate, Redirect} {
		fake.Next(b)
		requireClean(t, h, a.Charge(t.Context(), fmt.Sprintf("k%d", i), body, h.Money))
	}
	if a.Capabilities().CanAsk() {
		requireCleanAnswer(t, h, a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", OperationKey: "k0", Want: h.Money}))
	}
	leaky, ok := fake.(LeakyFake)
	if !ok {
		return
	}
	leaky.Leak(leak(h))
	got := a.Charge(t.Context(), "leak", body, h.Money)
	require.Equal(t, provider.Failed, got.Outcome, "%+v", got.Classification)
	require.NotEmpty(t, got.Message, "words for people are kept, without the secrets")
	requireClean(t, h, got)
	if a.Capabilities().CanAsk() {
		requireCleanAnswer(t, h, a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", OperationKey: "k0", Want: h.Money}))
	}
	if !a.Capabilities().Can(provider.OpRefund) {
		return
	}
	r := refunds{Adapter: a, Operator: a.(provider.Operator), charge: provider.Object{ID: "pay_1", Money: h.Money}, money: h.Money}
	requireClean(t, h, r.Operate(t.Context(), r.call(t, "op1", "leak-op")))
	requireCleanAnswer(t, h, r.LookupOperation(t.Context(), r.query("op1", "leak-op")))
}

// leak is a text with everything in it that must not get out.
func leak(h Harness) string {
	text := "card " + aCard + " (4242 4242 4242 4242, 4242-4242-4242-4242) was refused"
	for _, s := range h.Secrets {
		text += "; sent with " + s + " as Authorization: Bearer " + s
	}
	return text
}

func requireClean(t *testing.T, h Harness, got provider.Charged) {
	t.Helper()
	requireNoSecret(t, h, got.Classification, got.Exchange, got.Object)
}

func requireCleanAnswer(t *testing.T, h Harness, got provider.LookedUp) {
	t.Helper()
	text := []any{got.Verdict, got.Reason, got.Alert}
	for _, o := range got.Objects {
		text = append(text, &o)
	}
	requireNoSecret(t, h, text, got.Exchange, nil)
}

func requireNoSecret(t *testing.T, h Harness, said any, ex provider.Exchange, o *provider.Object) {
	t.Helper()
	text := fmt.Sprintf("%+v %s", said, ex.Body)
	ex.Body = nil
	text += fmt.Sprintf(" %+v", ex)
	if o != nil {
		text += fmt.Sprintf(" %+v %s", *o, o.Raw)
	}
	require.NotContains(t, strings.NewReplacer(" ", "", "-", "").Replace(text), aCard)
	for _, s := range h.Secrets {
		require.NotContains(t, text, s)
	}
}
