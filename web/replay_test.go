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
