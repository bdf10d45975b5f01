package jobs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/store"
)

// A provider that takes the money at once is never asked to hold it: it would be charged.
func TestAManualPaymentAtAProviderThatCannotHoldIsNeverSent(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	b.start("w1", nil)
	p := b.becomes(b.pay("atlas", func(n *store.NewPayment) { n.Capture = store.CaptureManual }).ID, store.Failed)
	require.Equal(t, "refused_before_send", p.StatusReason)
	require.Contains(t, p.ProviderMessage, "takes the money at once")
	require.Empty(t, b.fakes["atlas"].seen())
}
