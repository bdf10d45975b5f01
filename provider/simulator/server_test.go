package simulator

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	for field, o := range map[string]Options{
		"name":           {Name: "a b"},
		"api_key":        {APIKey: "a b"},
		"webhook_secret": {WebhookSecrets: []string{"ok", ""}},
		"webhook_url":    {WebhookURL: "localhost:80"},
		"public_url":     {PublicURL: "example.org"},
		"key_life":       {KeyLife: -time.Second},
		"outage":         {Faults: Faults{Outage: "flood"}},
		"listen":         {Listen: "nowhere:http:1"},
	} {
		_, err := Start(t.Context(), o)
		var e *FieldError
		require.ErrorAs(t, err, &e, field)
		require.Equal(t, field, e.Field)
	}
	_, err := Start(t.Context(), Options{LedgerPath: t.TempDir()})
	require.ErrorContains(t, err, "ledger")
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	a, err := Start(t.Context(), Options{})
	require.NoError(t, err)
	b, err := Start(t.Context(), Options{Listen: ":0"})
	require.NoError(t, err)
	require.NotEqual(t, a.URL(), b.URL())
	require.NotEqual(t, a.ControlURL(), b.ControlURL())
	require.NotEqual(t, a.APIKey(), b.APIKey())
	require.NotEqual(t, a.WebhookSecrets(), b.WebhookSecrets())
	require.Contains(t, b.URL(), "http://127.0.0.1:")
	require.NoError(t, a.Close())
	require.NoError(t, a.Close(), "closing twice is closing once")
	require.NoError(t, b.Close())
}

// A taken address is an error, and what was begun is undone.
func TestAddressTaken(t *testing.T) {
	t.Parallel()
	b := start(t)
	path := ledgerFile(t)
	_, err := Start(t.Context(), Options{Listen: b.URL()[len("http://"):], LedgerPath: path})
	require.Error(t, err)
	start(t, kept(path)) // not locked any more
}

func TestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s, err := Start(ctx, Options{})
	require.NoError(t, err)
	cancel()
	require.Eventually(t, func() bool {
		res, err := http.Get(s.URL() + "/health")
		if err == nil {
			_ = res.Body.Close()
		}
		return err != nil
	}, patience, glance)
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.SetFaults(Healthy()), errClosed)
	require.ErrorIs(t, s.Reset(), errClosed)
	_, err = s.Complete("x", StatusFailed)
	require.ErrorIs(t, err, errClosed)
}

// Close does not wait for silences, long calls or events that nobody takes.
func TestCloseIsPrompt(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	in.gate = make(chan struct{})
	t.Cleanup(func() { close(in.gate) })
	b := start(t, into(in), func(o *Options) { o.Faults.Timing.InProgress = time.Hour })
	for i, tag := range []string{"charged_then_silent", "hang", "in_progress_409", "webhook_early"} {
		go func() {
			_, _ = b.tryCharge(context.Background(), fmt.Sprint("k", i), one(fmt.Sprint("p", i), "fault:"+tag))
		}()
	}
	in.wait(2) // of the silent and of the early one
	require.Eventually(t, func() bool { return b.Stats().Posts == 4 }, patience, glance)
	began := time.Now()
	require.NoError(t, b.Close())
	require.Less(t, time.Since(began), 2*time.Second)
}

// Everything at once, for the race detector: one charge per key in spite of every
// fault, faults switched meanwhile.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t, kept(ledgerFile(t)), into(in), func(o *Options) {
		o.Faults.Rates = EveryFault().Rates
		o.Faults.Timing.Silent, o.Faults.Timing.Lag, o.Faults.Timing.NotFound = 20*time.Millisecond, time.Millisecond, time.Millisecond
		o.Faults.Timing.InProgress, o.Faults.Timing.Slow = 20*time.Millisecond, 5*time.Millisecond
		o.Faults.Timing.EarlyWait, o.Faults.Timing.Drip = 50*time.Millisecond, 50*time.Microsecond
	})
	const workers, each = 8, 40
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprintf("%d-%d", w, i)
				for range 3 {
					_, _ = b.tryCharge(t.Context(), "k"+id, one("p"+id, "")) // any answer will do
				}
				_, _ = b.send(t.Context(), http.MethodGet, "/payments?reference=p"+id, "", "", nil)
			}
		})
	}
	wg.Go(func() {
		for i := range 20 {
			if err := b.SetFaults(b.Faults().With(Slow, float64(i%2)*0.02)); err != nil {
				t.Error(err)
			}
			b.Stats()
		}
	})
	wg.Wait()
	all, err := b.Charges()
	require.NoError(t, err)
	perKey := map[string]int{}
	for _, c := range all {
		if c.Fault != DoubleObject {
			perKey[c.Key]++
		}
	}
	require.Greater(t, len(perKey), workers*each/2)
	for key, n := range perKey {
		require.Equal(t, 1, n, key)
	}
	for _, n := range b.Stats().ByKey {
		require.GreaterOrEqual(t, n, 3)
	}
}
