package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/store/storetest"
)

// deliver posts raw as atlas would, signed at at.
func (w *webtest) deliver(raw string, at time.Time) reply {
	return w.deliverWith(raw, http.Header{"Fusebox-Signature": {sign(fakeSecret, at, raw)}})
}

func (w *webtest) deliverWith(raw string, h http.Header) reply {
	w.t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/webhooks/atlas", strings.NewReader(raw))
	r.Header = h.Clone()
	return w.do(r)
}

// inbox reads the stored rows: state, signature, duplicates.
func (w *webtest) inbox() (rows []store.InboxEvent) {
	w.t.Helper()
	got, err := w.db.Pool.Query(w.t.Context(), `SELECT state, signature, duplicates, raw, headers FROM webhook_events ORDER BY id`)
	require.NoError(w.t, err)
	defer got.Close()
	for got.Next() {
		var e store.InboxEvent
		require.NoError(w.t, got.Scan(&e.State, &e.Signature, &e.Duplicates, &e.Raw, &e.Headers))
		rows = append(rows, e)
	}
	return rows
}

const paidEvent = `{"id":"evt_1","type":"payment.succeeded","reference":"x"}`

func TestWebhookIsStoredBeforeItIsAnswered(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	raw := paidEvent + "\n\t" // the exact bytes are signed and kept
	res := w.deliver(raw, w.clock.now())
	require.Equal(t, http.StatusOK, res.StatusCode, res.body)
	rows := w.inbox()
	require.Len(t, rows, 1)
	require.Equal(t, "received", rows[0].State)
	require.Equal(t, raw, string(rows[0].Raw))
	require.Equal(t, 1, w.jobs.count("webhook"))
}

func TestWebhookSignatures(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	now := w.clock.now()
	for _, row := range []struct {
		name    string
		header  string
		verdict string
	}{
		{"none", "", provider.SignatureMissing},
		{"junk", "v1=zz", provider.SignatureMissing},
		{"another secret", sign("whsec_other", now, paidEvent), provider.SignatureInvalid},
		{"another body", sign(fakeSecret, now, paidEvent+" "), provider.SignatureInvalid},
		{"301 s old", sign(fakeSecret, now.Add(-301*time.Second), paidEvent), provider.SignatureTooOld},
		{"an hour ahead", sign(fakeSecret, now.Add(time.Hour), paidEvent), provider.SignatureInFuture},
	} {
		res := w.deliverWith(paidEvent, http.Header{"Fusebox-Signature": {row.header}})
		problemField(t, res, http.StatusBadRequest, "signature")
		rows := w.inbox()
		last := rows[len(rows)-1]
		require.Equal(t, "rejected", last.State, row.name)
		require.Equal(t, row.verdict, last.Signature, row.name)
	}
	require.Zero(t, w.jobs.count("webhook"), "nothing of a rejected delivery is applied")
	for _, at := range []time.Time{now.Add(-300 * time.Second), now.Add(300 * time.Second)} {
		require.Equal(t, http.StatusOK, w.deliver(paidEvent, at).StatusCode, "the tolerance is inclusive, both ways")
	}
}

// Hazard W-07: twenty deliveries of one event at the same moment.
func TestW07_TwentyParallelDeliveriesAreOneEvent(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { require.Equal(t, http.StatusOK, w.deliver(paidEvent, w.clock.now()).StatusCode) })
	}
	wg.Wait()
	rows := w.inbox()
	require.Len(t, rows, 1)
	require.Equal(t, 19, rows[0].Duplicates)
}

// Hazard W-13: 2xx for what is signed and not for us, or the provider switches us off.
func TestW13_SignedButUninterestingIs200(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	for raw, state := range map[string]string{
		`{"id":"evt_2","type":"invoice.created"}`: "ignored",
		`{"hello":"world"}`:                       "unparsed",
		`not even JSON`:                           "unparsed",
		``:                                        "unparsed",
	} {
		res := w.deliver(raw, w.clock.now())
		require.Equal(t, http.StatusOK, res.StatusCode, raw)
		require.Contains(t, res.body, `"state":"`+state+`"`, raw)
	}
}

func TestWebhookSizes(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	pad := func(n int) string { return paidEvent + strings.Repeat(" ", n-len(paidEvent)) }
	require.Equal(t, http.StatusOK, w.deliver(pad(1<<20), w.clock.now()).StatusCode, "1 MiB fits")
	res := w.deliver(pad(1<<20+1), w.clock.now())
	problemField(t, res, http.StatusRequestEntityTooLarge, "body")
	require.Equal(t, http.StatusRequestEntityTooLarge, w.deliver(pad(2<<20), w.clock.now()).StatusCode)
	require.Len(t, w.inbox(), 1)
}

func TestRejectedDeliveriesAreBounded(t *testing.T) {
	t.Parallel()
	b, now := newRejectBudget(), storetest.Epoch
	for range rejectBurst {
		require.True(t, b.allow("atlas", now))
	}
	require.False(t, b.allow("atlas", now))
	require.True(t, b.allow("borealis", now), "each provider has its own")
	require.False(t, b.allow("atlas", now.Add(-time.Hour)), "a clock that goes back gives nothing")
	require.True(t, b.allow("atlas", now.Add(time.Second)))
	for range rejectBurst {
		b.allow("atlas", now.Add(24*time.Hour))
	}
	require.False(t, b.allow("atlas", now.Add(24*time.Hour)), "a quiet day saves up one burst")
}

func TestAFloodOfJunkIsRefusedWithoutBeingStored(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	require.Equal(t, http.StatusBadRequest, w.deliverWith(strings.Repeat("x", 1<<20), http.Header{}).StatusCode)
	require.Len(t, w.inbox()[0].Raw, maxRejectedBody)
	for range rejectBurst {
		w.server.rejects.allow("atlas", w.clock.now())
	}
	problemField(t, w.deliverWith(paidEvent, http.Header{}), http.StatusBadRequest, "signature")
	require.Len(t, w.inbox(), 1)
	require.Equal(t, http.StatusOK, w.deliver(paidEvent, w.clock.now()).StatusCode, "signed ones are not held up")
	require.Contains(t, w.scrape().body, `fusebox_webhook_deliveries_total{provider="atlas",signature="missing",state="dropped"} 1`)
}

func TestWebhooksOfStrangers(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	r := httptest.NewRequest(http.MethodPost, "/webhooks/zeus", strings.NewReader(paidEvent))
	require.Equal(t, http.StatusNotFound, w.do(r).StatusCode)
	require.Empty(t, w.inbox())
}

func TestWebhookKeepsNoCredentials(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	h := http.Header{"Fusebox-Signature": {sign(fakeSecret, w.clock.now(), paidEvent)}, "User-Agent": {"atlas/1"}, "X-Trace": {"a", "b"}}
	for _, secret := range []string{"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "X-Auth-Token", "Client-Secret"} {
		h.Set(secret, "hunter2")
	}
	require.Equal(t, http.StatusOK, w.deliverWith(paidEvent, h).StatusCode)
	kept := w.inbox()[0].Headers
	require.Contains(t, kept, "User-Agent")
	require.Contains(t, kept, "Fusebox-Signature", "evidence")
	require.NotContains(t, string(mustJSON(t, kept)), "hunter2")
}

// A provider delivers again after a 5xx, so trouble of ours is never a 4xx.
func TestWebhookWithoutADatabaseIs503(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.breakDB()
	require.Equal(t, http.StatusServiceUnavailable, w.deliver(paidEvent, w.clock.now()).StatusCode)
	w2 := w.deliverWith(paidEvent, http.Header{})
	require.Equal(t, http.StatusServiceUnavailable, w2.StatusCode, "a rejection that could not be stored is not answered as one")
}

// Hazard W-03: contention of ours is 503, never 4xx.
func TestW03_ContendedWebhookIs503(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, func(c *Config) { c.Store = impatient(t, c.Store) })
	require.Equal(t, http.StatusOK, w.deliver(paidEvent, w.clock.now()).StatusCode)
	tx, err := w.db.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0`)
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT 1 FROM webhook_events FOR UPDATE`)
	require.NoError(t, err)
	res := w.deliver(paidEvent, w.clock.now())
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode, res.body)
	require.NotEmpty(t, res.Header.Get("Retry-After"))
}

// impatient is a store on the same database that waits 50 ms for a lock.
func impatient(t *testing.T, st *store.Store) *store.Store {
	t.Helper()
	cfg := st.Pool().Config()
	cfg.ConnConfig.RuntimeParams["lock_timeout"] = "50"
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return store.New(pool, store.Options{Enqueuer: &recorder{}})
}
