package simulator

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// With charges down every charge is answered 503, some are booked all the same, and
// questions tell which. Events wait, so that asking is the only way to know.
func TestOutageOfChargesOnly(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t, into(in))
	require.NoError(t, b.SetOutage(OutageCharges, 0))
	booked := 0
	for i := range 40 {
		key, ref := fmt.Sprintf("k%d", i), fmt.Sprintf("p%d", i)
		require.Equal(t, http.StatusServiceUnavailable, b.charge(key, one(ref, "")).status)
		n := len(b.ledger(ref))
		booked += n
		require.Equal(t, http.StatusServiceUnavailable, b.charge(key, one(ref, "")).status)
		require.Len(t, b.ledger(ref), n, "the same fate again, and never a second charge")
		require.Equal(t, http.StatusOK, b.get("/payments?reference="+ref).status)
	}
	require.InDelta(t, 20, booked, 12, "about half")
	require.Equal(t, http.StatusOK, b.get("/health").status)
	require.Never(t, func() bool { return len(in.all()) > 0 }, 400*time.Millisecond, glance)

	require.NoError(t, b.SetOutage(OutageNone, 0))
	for i := range 40 {
		require.Equal(t, http.StatusOK, b.charge(fmt.Sprintf("k%d", i), one(fmt.Sprintf("p%d", i), "")).status)
		require.Len(t, b.ledger(fmt.Sprintf("p%d", i)), 1)
	}
	in.wait(40)
	b.quiet()
}

// A fault that would cut or silence the answer has nobody to do it to.
func TestOutageOfChargesWithFaults(t *testing.T) {
	t.Parallel()
	b := start(t)
	require.NoError(t, b.SetOutage(OutageCharges, 0))
	for i := range 8 {
		ref := fmt.Sprintf("cut%d", i)
		a, err := b.tryCharge(t.Context(), ref, one(ref, "fault:charged_then_cut"))
		require.True(t, err != nil || a.status == http.StatusServiceUnavailable)
		require.LessOrEqual(t, len(b.ledger(ref)), 1)
	}
	require.Equal(t, http.StatusBadRequest, b.ctl(http.MethodPut, "/_sim/faults", `{"outage":"charge"}`).status)
	require.Equal(t, http.StatusOK, b.ctl(http.MethodPut, "/_sim/faults", `{"outage":"charges","outage_for":"1m"}`).status)
}
