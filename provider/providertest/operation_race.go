package providertest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

// testRefundNotSent: what ends before the first byte was never sent; what we give up
// afterwards is unknown and says nothing about the provider.
func testRefundNotSent(t *testing.T, h Harness) {
	r := h.refunds(t)
	late, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	got := r.Operate(late, r.call(t, "op1", "k1"))
	require.Equal(t, provider.NotSent, got.Outcome, "%+v", got.Classification)
	require.Zero(t, got.Exchange.WireSends)

	r.fake.NextOperation(ChargeHang)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for len(r.fake.ReceivedOperations()) == 0 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel(provider.ErrShutdown)
	}()
	got = r.Operate(ctx, r.call(t, "op1", "k1"))
	require.Equal(t, provider.Unknown, got.Outcome, "%+v", got.Classification)
	require.Equal(t, provider.HealthNeutral, got.Health)

	got = r.Operate(ctx, r.call(t, "op2", "k2"))
	require.Equal(t, provider.NotSent, got.Outcome, "%+v", got.Classification)
	require.Equal(t, provider.HealthNeutral, got.Health)
	require.Len(t, r.fake.ReceivedOperations(), 1)
}

func testRefundParallel(t *testing.T, h Harness) {
	r := h.refunds(t)
	const parts = 4 // of the charge, which is large enough for ten
	var wg sync.WaitGroup
	for i := range parts {
		call := r.call(t, fmt.Sprintf("op%d", i), fmt.Sprintf("k%d", i))
		wg.Go(func() {
			got := r.Operate(t.Context(), call)
			assert.Equal(t, r.done.outcome, got.Outcome, "%+v", got.Classification)
			if assert.NotNil(t, got.Object) {
				assert.Equal(t, call.OperationID, got.Object.Reference, "answers must not be mixed up")
			}
		})
	}
	wg.Wait()
	require.Len(t, r.fake.BookedOperations(), parts)
}
