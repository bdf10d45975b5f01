package simulator

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOutageRefuse(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.charge("k0", one("p0", "")) // leaves a warm connection behind
	url := b.URL()
	require.NoError(t, b.SetOutage(OutageRefuse, 0))
	b.client.CloseIdleConnections()
	for range 3 {
		_, err := b.tryCharge(t.Context(), "k1", one("p1", ""))
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	}
	require.Equal(t, url, b.URL())
	require.Equal(t, http.StatusOK, b.ctl(http.MethodGet, "/_sim/ledger", "").status, "control is not cut off")
	require.Zero(t, b.Stats().ByKey["k1"])

	require.NoError(t, b.SetOutage(OutageNone, 0))
	require.Equal(t, url, b.URL())
	require.Equal(t, http.StatusOK, b.charge("k1", one("p1", "")).status)
}

// An outage cuts the connections that are open, those waiting for an answer too.
func TestOutageRefuseCutsOpenConnections(t *testing.T) {
	t.Parallel()
	b := start(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.URL(), "http://"))
	require.NoError(t, err)
	defer conn.Close()
	failed := make(chan error, 1)
	go func() {
		_, err := b.tryCharge(context.Background(), "k1", one("p1", "fault:charged_then_silent"))
		failed <- err
	}()
	require.Eventually(t, func() bool { return len(b.ledger("p1")) == 1 }, patience, glance)
	require.NoError(t, b.SetOutage(OutageRefuse, 0))
	require.Error(t, <-failed)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
	_, err = conn.Read(make([]byte, 1))
	require.True(t, errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET), "%v", err)
}

// The port stays the provider's while nothing listens on it.
func TestOutageKeepsItsPort(t *testing.T) {
	t.Parallel()
	b := start(t)
	addr := strings.TrimPrefix(b.URL(), "http://")
	for range 20 {
		require.NoError(t, b.SetOutage(OutageRefuse, 0))
		_, err := net.Dial("tcp", addr)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.NoError(t, b.SetOutage(OutageNone, 0))
		conn, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
}

func TestOutageBlackHole(t *testing.T) {
	t.Parallel()
	b := start(t)
	require.NoError(t, b.SetOutage(OutageBlackHole, 0))
	for _, path := range []string{"/payments?reference=p1", "/health", "/nothing"} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := b.send(ctx, http.MethodGet, path, "", "", nil)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := b.tryCharge(ctx, "k1", one("p1", ""))
		failed <- err
	}()
	require.Eventually(t, func() bool { return b.Stats().ByKey["k1"] == 1 }, patience, glance, "the request is read")
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	require.Empty(t, b.ledger("p1"), "and not carried out")
}

func TestOutageError(t *testing.T) {
	t.Parallel()
	b := start(t)
	require.NoError(t, b.SetOutage(OutageError, 0))
	a := b.charge("k1", one("p1", ""))
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.Equal(t, "unavailable", a.problem(t).Code)
	require.Equal(t, http.StatusServiceUnavailable, b.get("/payments?reference=p1").status)
	require.Empty(t, b.ledger("p1"))
	require.NoError(t, b.SetOutage(OutageNone, 0))
	require.Equal(t, http.StatusOK, b.charge("k1", one("p1", "")).status, "nothing was kept under the key")
}

func TestOutageEndsByItself(t *testing.T) {
	t.Parallel()
	b := start(t)
	require.NoError(t, b.SetOutage(OutageRefuse, 100*time.Millisecond))
	require.Eventually(t, func() bool { return b.Faults().Outage == OutageNone }, patience, glance)
	require.Equal(t, http.StatusOK, b.charge("k1", one("p1", "")).status)
}

// A newer switch is not undone by the end of an older outage.
func TestOutageTimerIsReplaced(t *testing.T) {
	t.Parallel()
	b := start(t)
	require.NoError(t, b.SetOutage(OutageRefuse, 50*time.Millisecond))
	require.NoError(t, b.SetOutage(OutageError, 0))
	old := b.outageAt - 1
	b.endOutage(old) // as its timer would, however late
	require.Equal(t, OutageError, b.Faults().Outage)
}

// Events wait for the end of an outage; none is lost.
func TestOutageHoldsEvents(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t, into(in))
	b.charge("k1", one("p1", "fault:webhook_late"))
	require.NoError(t, b.SetOutage(OutageError, 0))
	require.Never(t, func() bool { return len(in.all()) > 0 }, 500*time.Millisecond, glance)
	require.NoError(t, b.SetOutage(OutageNone, 0))
	in.wait(1)
	b.quiet()
}

func TestStartsInOutage(t *testing.T) {
	t.Parallel()
	b := start(t, func(o *Options) { o.Faults.Outage = OutageRefuse })
	_, err := b.tryCharge(t.Context(), "k1", one("p1", ""))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}
