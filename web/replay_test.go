package web

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
)

// replayable answers no question and takes the same key again.
type replayable struct{ *fakeAdapter }

func (replayable) Capabilities() provider.Capabilities {
	return provider.Capabilities{IdempotencyKeys: true, KeyLife: time.Hour, Webhooks: true,
		Ways: []provider.Way{provider.ReplayKey, provider.WebhookOnly}}
}

func replayableAtlas(c *Config) {
	c.Registry = provider.NewRegistry(replayable{&fakeAdapter{name: "atlas"}}, &fakeAdapter{name: "borealis"})
}

// A replay is a money call, and the page that asks for it says so.
func TestAReplayIsCalledOne(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, replayableAtlas)
	p := unknownPayment(t, w)
	b := w.signedIn(store.RoleSupport)
	path := views.PaymentPath(p.ID.String()) + "/reconcile"
	require.Contains(t, b.get(views.PaymentPath(p.ID.String())).body, "Send the same key again")
	confirm := b.get(path)
	require.Contains(t, confirm.body, "1 request goes out at most")
	require.Contains(t, confirm.body, "1 charge at most in all")
	require.NotContains(t, confirm.body, "0 charges are sent")
	require.NotContains(t, confirm.body, "No money moves")
	require.Equal(t, http.StatusSeeOther, b.post(path, formOf(t, confirm.body)).StatusCode)
	require.Equal(t, 1, w.jobs.count("reconcile"))
	require.Contains(t, b.get(views.PaymentPath(p.ID.String())).body, "The same key goes to atlas again")
	require.Contains(t, b.get(views.PathProviders).body, "the same key goes out again instead")
}

// Past the key's life there is nothing to press, and what the provider acknowledged is
// not sent again either.
func TestNothingToPressWhereNothingMayGoOut(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, replayableAtlas)
	b := w.signedIn(store.RoleSupport)
	for _, p := range []store.Payment{
		w.db.SeedPayment(t, func(p *store.Payment) { p.Status, p.NeedsReview = store.Unknown, []string{store.ReviewKeyExpired} }),
		w.db.SeedPayment(t, func(p *store.Payment) { p.Status = store.Processing }),
	} {
		path := views.PaymentPath(p.ID.String()) + "/reconcile"
		require.NotContains(t, b.get(views.PaymentPath(p.ID.String())).body, "/reconcile")
		confirm := b.get(path)
		require.Contains(t, confirm.body, `class="blocked"`)
		require.Equal(t, http.StatusConflict, b.post(path, formOf(t, confirm.body)).StatusCode)
	}
	require.Zero(t, w.jobs.count("reconcile"))
}

// A rejection of a replay proves nothing, and the same bytes would be refused again: a
// person finds out at the provider. Not even a page that was opened before it sends any.
func TestNoReplayIsOfferedAfterARejection(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, replayableAtlas)
	b := w.signedIn(store.RoleSupport)
	p := unknownPayment(t, w)
	path := views.PaymentPath(p.ID.String())
	before := formOf(t, b.get(path+"/reconcile").body)
	w.db.Exec(t, `UPDATE payments SET status_reason = $2, needs_review = $3 WHERE id = $1`, p.ID, provider.ReasonReplayRejected,
		[]string{store.ReviewContradiction, store.ReviewNoStatusAPI})
	page := b.get(path).body
	require.NotContains(t, page, "/reconcile")
	require.NotContains(t, page, "Send the same key again")
	confirm := b.get(path + "/reconcile")
	require.Contains(t, confirm.body, `class="blocked"`)
	require.NotContains(t, confirm.body, "goes out")
	require.Equal(t, http.StatusConflict, b.post(path+"/reconcile", before).StatusCode)
	require.Zero(t, w.jobs.count("reconcile"))
	require.Contains(t, w.signedIn(store.RoleOperator).get(path).body, "/resolve?to=succeeded", "a person decides")
}

// The same of a refund.
func TestNoReplayOfARefundIsOfferedAfterARejection(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, replayableAtlas)
	b := w.signedIn(store.RoleSupport)
	p := w.paidPayment()
	op := w.unknownRefund(p, 1900)
	path := refundPath(op) + "/lookup"
	before, asked := formOf(t, b.get(path).body), w.jobs.count("operation_lookup")
	w.db.Exec(t, `UPDATE operations SET status_reason = $2, needs_review = $3 WHERE id = $1`, op.ID, provider.ReasonReplayRejected,
		[]string{store.ReviewContradiction, store.ReviewNoStatusAPI})
	require.NotContains(t, b.get(views.PaymentPath(p.ID.String())).body, path)
	require.Contains(t, b.get(path).body, `class="blocked"`)
	require.Equal(t, http.StatusConflict, b.post(path, before).StatusCode)
	require.Equal(t, asked, w.jobs.count("operation_lookup"))
}

// Where a replay is over, a question is put instead, if there is one: by an id that is
// known, or our own reference.
func TestWhatCanBeAskedOnceAReplayIsOver(t *testing.T) {
	t.Parallel()
	replay := []provider.Way{provider.ReplayKey}
	for name, tt := range map[string]struct {
		ways  []provider.Way
		id    string
		asked bool
	}{
		"nothing else":       {replay, "pay_1", false},
		"an id nobody knows": {append([]provider.Way{provider.ByID}, replay...), "", false},
		"an id":              {append(replay, provider.ByID), "pay_1", true},
		"our reference":      {append(replay, provider.ByReference), "", true},
	} {
		s := &Server{cfg: Config{Registry: provider.NewRegistry(waysAdapter{&fakeAdapter{name: "atlas"}, tt.ways})}}
		p := store.Payment{Provider: "atlas", Status: store.Unknown, ProviderPaymentID: tt.id, StatusReason: "http_500"}
		require.True(t, s.canAsk(p), name)
		require.Equal(t, tt.ways[0] == provider.ReplayKey || tt.id == "", s.replays(p), name)
		for _, over := range []store.Payment{{StatusReason: provider.ReasonReplayRejected}, {NeedsReview: []string{store.ReviewKeyExpired}}} {
			p.StatusReason, p.NeedsReview = over.StatusReason, over.NeedsReview
			require.False(t, s.replays(p), name)
			require.Equal(t, tt.asked, s.canAsk(p), name)
		}
	}
}

// waysAdapter keeps keys and has these ways to the truth.
type waysAdapter struct {
	*fakeAdapter
	ways []provider.Way
}

func (a waysAdapter) Capabilities() provider.Capabilities {
	return provider.Capabilities{IdempotencyKeys: true, KeyLife: time.Hour, Webhooks: true, Ways: a.ways}
}
