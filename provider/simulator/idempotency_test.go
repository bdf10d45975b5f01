package simulator

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReplay(t *testing.T) {
	t.Parallel()
	b := start(t)
	first := b.charge("k1", one("p1", ""))
	for range 3 {
		again := b.charge("k1", one("p1", ""))
		require.Equal(t, first.status, again.status)
		require.Equal(t, first.body, again.body)
		require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
		require.NotEqual(t, first.header.Get("Request-Id"), again.header.Get("Request-Id"))
	}
	require.Len(t, b.ledger("p1"), 1)
	require.Equal(t, 4, b.Stats().ByKey["k1"])
}

// C-11: the same key with other bytes is refused, whatever the difference.
func TestC11_KeyReused(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.charge("k1", one("p1", ""))
	for _, o := range []order{one("p2", ""), one("p1", "x"), {Reference: "p1", Amount: 4901, Currency: "EUR"}} {
		a := b.charge("k1", o)
		require.Equal(t, http.StatusBadRequest, a.status)
		require.Equal(t, "idempotency_key_reused", a.problem(t).Code)
	}
	all, err := b.Charges()
	require.NoError(t, err)
	require.Len(t, all, 1)
}

// C-13: after its life a key is forgotten, and the same request charges again.
func TestC13_KeyForgotten(t *testing.T) {
	t.Parallel()
	var hours atomic.Int64
	base := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b := start(t, func(o *Options) {
		o.Now = func() time.Time { return base.Add(time.Duration(hours.Load()) * time.Hour) }
	})
	b.charge("k1", one("p1", ""))
	hours.Store(23)
	require.Equal(t, "true", b.charge("k1", one("p1", "")).header.Get("Idempotent-Replayed"))
	hours.Store(24)
	require.Empty(t, b.charge("k1", one("p1", "")).header.Get("Idempotent-Replayed"))
	require.Len(t, b.ledger("p1"), 2)
}

// However many callers share a key, one executes; the others are told to wait or
// get its answer.
func TestParallelSameKey(t *testing.T) {
	t.Parallel()
	b := start(t, func(o *Options) { o.LedgerPath = t.TempDir() + "/ledger.jsonl" })
	var ok, busy atomic.Int64
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			a, err := b.tryCharge(t.Context(), "k1", one("p1", ""))
			switch {
			case err != nil:
				t.Error(err)
			case a.status == http.StatusOK:
				ok.Add(1)
			case a.status == http.StatusConflict:
				busy.Add(1)
			default:
				t.Errorf("status %d: %s", a.status, a.body)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 20, ok.Load()+busy.Load())
	require.Positive(t, ok.Load())
	require.Len(t, b.ledger("p1"), 1)
}

func TestParallelOtherKeys(t *testing.T) {
	t.Parallel()
	b := start(t, func(o *Options) { o.LedgerPath = t.TempDir() + "/ledger.jsonl" })
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			a, err := b.tryCharge(t.Context(), "k"+strconv.Itoa(i), one("p"+strconv.Itoa(i), ""))
			if err != nil || a.status != http.StatusOK {
				t.Errorf("%d: %v %d", i, err, a.status)
			}
		})
	}
	wg.Wait()
	all, err := b.Charges()
	require.NoError(t, err)
	require.Len(t, all, 50)
}

// A provider without keys charges whatever it is sent.
func TestNoKeys(t *testing.T) {
	t.Parallel()
	b := start(t, func(o *Options) { o.NoKeys = true })
	for range 2 {
		a := b.charge("k1", one("p1", ""))
		require.Equal(t, http.StatusOK, a.status)
		require.Empty(t, a.header.Get("Idempotent-Replayed"))
		require.Empty(t, a.object(t).Key)
	}
	require.Equal(t, http.StatusOK, b.charge("", one("p1", "")).status)
	require.Len(t, b.found("/payments?reference=p1"), 3)

	a := b.get("/payments?idempotency_key=k1")
	require.Equal(t, http.StatusBadRequest, a.status, "an ignored filter would list strangers")
	require.Equal(t, "idempotency_key", a.problem(t).Field)
	require.Empty(t, b.Stats().ByKey)
	require.Equal(t, 3, b.Stats().ByReference["p1"])
}

func TestGoodKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{
		"": false, "k": true, "a b~!": true, "ключ": false, "k\x7f": false, "k\n": false,
		fmt.Sprintf("%0255d", 1): true, fmt.Sprintf("%0256d", 1): false,
	} {
		require.Equal(t, want, goodKey(key), "%q", key)
	}
}
