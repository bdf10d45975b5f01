package providertest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

// testPing: an adapter that declares a cheap read makes one request with it, moves
// nothing, and tells a provider that is not there from one that says no.
func testPing(t *testing.T, h Harness) {
	a, _ := h.New(t)
	if !a.Capabilities().Ping {
		_, ok := provider.AsPinger(a)
		require.False(t, ok)
		return
	}
	for b, health := range map[AskBehaviour]provider.Verdict{
		AskTruth:     provider.HealthOK,
		AskForbidden: provider.HealthNeutral,
		AskDown:      provider.HealthFail,
		AskHTML:      provider.HealthFail,
		AskCut:       provider.HealthFail,
	} {
		t.Run("ping "+string(b), func(t *testing.T) {
			t.Parallel()
			a, fake := h.New(t)
			ping, ok := provider.AsPinger(a)
			require.True(t, ok, "Capabilities.Ping promises a Pinger")
			fake.Ask(b)
			got := ping.Ping(t.Context())
			require.Equal(t, health, got.Health, "%s", got.Reason)
			require.NotEmpty(t, got.Reason)
			require.Equal(t, 1, fake.Questions(), "one request, no retries")
			require.Equal(t, 1, got.Exchange.WireSends)
			require.False(t, got.Exchange.DoneAt.IsZero())
			require.Empty(t, fake.Received(), "no charge")
			require.Empty(t, fake.Booked())
		})
	}
	t.Run("ping given up", func(t *testing.T) {
		t.Parallel()
		a, _ := h.New(t)
		ping, ok := provider.AsPinger(a)
		require.True(t, ok)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(provider.ErrShutdown)
		require.Equal(t, provider.HealthNeutral, ping.Ping(ctx).Health, "our own doing says nothing about the provider")
	})
}
