package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
)

// hinting is a provider that sends hints: "id=…" in a body.
type hinting struct{ *fakeAdapter }

func (hinting) Hint(_ http.Header, raw []byte) (string, bool) {
	return strings.CutPrefix(string(raw), "id=")
}

func (hinting) Fetch(context.Context, string) provider.Fetched { panic("the web never fetches") }

func hints(c *Config) {
	c.Registry = provider.NewRegistry(hinting{&fakeAdapter{name: "atlas"}}, &fakeAdapter{name: "borealis"})
}

func TestAHintIsStoredAndNotBelieved(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, hints)
	res := w.deliverWith("id=tr_1", http.Header{})
	require.Equal(t, http.StatusOK, res.StatusCode, res.body)
	require.Contains(t, res.body, `"state":"received"`)
	rows := w.inbox()
	require.Len(t, rows, 1)
	require.Equal(t, "received", rows[0].State)
	require.Equal(t, provider.SignatureMissing, rows[0].Signature)
	require.Equal(t, "id=tr_1", string(rows[0].Raw))
	require.Equal(t, 1, w.jobs.count("webhook"))

	require.Equal(t, http.StatusOK, w.deliverWith("id=tr_1", http.Header{}).StatusCode)
	require.Equal(t, 1, w.inbox()[0].Duplicates, "nobody has asked yet")
	require.Len(t, w.inbox(), 1)
	require.Equal(t, http.StatusOK, w.deliverWith("id=tr_2", http.Header{}).StatusCode)
	require.Len(t, w.inbox(), 2)
}

func TestASignedHintIsAHintAndAWrongSignatureIsNone(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, hints)
	require.Equal(t, http.StatusOK, w.deliver("id=tr_1", w.clock.now()).StatusCode)
	require.Equal(t, provider.SignatureValid, w.inbox()[0].Signature)
	res := w.deliverWith("id=tr_2", http.Header{"Fusebox-Signature": {sign("whsec_other", w.clock.now(), "id=tr_2")}})
	problemField(t, res, http.StatusBadRequest, "signature")
	require.Equal(t, "rejected", w.inbox()[1].State)

	// Whatever else comes unsigned, or to a provider without hints, is refused as ever.
	problemField(t, w.deliverWith(paidEvent, http.Header{}), http.StatusBadRequest, "signature")
	plain := newWebtest(t)
	problemField(t, plain.deliverWith("id=tr_1", http.Header{}), http.StatusBadRequest, "signature")
}

// Anybody can send hints, so there are only so many; the rest may be real and is wanted
// again.
func TestAFloodOfHintsIsBounded(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, hints)
	for range int(hintBurst) {
		w.server.rejects.take("hint:atlas", w.clock.now(), hintBurst, hintRate)
	}
	res := w.deliverWith("id=tr_1", http.Header{})
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	require.NotEmpty(t, res.Header.Get("Retry-After"))
	require.Empty(t, w.inbox())
	require.Equal(t, http.StatusOK, w.deliver(paidEvent, w.clock.now()).StatusCode, "signed events are not held up")
	w.clock.advance(time.Second)
	require.Equal(t, http.StatusOK, w.deliverWith("id=tr_1", http.Header{}).StatusCode)
}

func TestAHintIsNotAnsweredBeforeItIsStored(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, hints)
	w.breakDB()
	require.Equal(t, http.StatusServiceUnavailable, w.deliverWith("id=tr_1", http.Header{}).StatusCode)
}

// There is nothing in a hint to apply again: its job asks the provider.
func TestAHintIsNotReapplied(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, hints)
	require.Equal(t, http.StatusOK, w.deliverWith("id=tr_1", http.Header{}).StatusCode)
	var id int64
	require.NoError(t, w.db.Pool.QueryRow(t.Context(), `SELECT id FROM webhook_events`).Scan(&id))
	b := w.signedIn(store.RoleOperator)
	page := b.get(views.WebhookPath(id))
	require.Equal(t, http.StatusOK, page.StatusCode)
	require.NotContains(t, page.body, "/reapply")
	res := b.post(views.WebhookPath(id)+"/reapply", url.Values{"action_id": {uuid.NewString()}})
	require.Equal(t, http.StatusConflict, res.StatusCode, res.body)
	require.Equal(t, "received", w.inbox()[0].State)
}

// unsure is a provider whose certificate cannot be fetched just now.
type unsure struct{ *fakeAdapter }

func (unsure) Verify(http.Header, []byte, time.Time) provider.Verification {
	return provider.Verification{Verdict: provider.SignatureUnchecked}
}

func TestASignatureThatCannotBeCheckedIsWantedAgain(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, func(c *Config) { c.Registry = provider.NewRegistry(unsure{&fakeAdapter{name: "atlas"}}) })
	res := w.deliver(paidEvent, w.clock.now())
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	require.Empty(t, w.inbox(), "neither accepted nor called false")
	require.Contains(t, w.scrape().body, `signature="unchecked",state="unchecked"} 1`)
}
