package web

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/views"
	"fusebox/web/browsertest"
)

// A selection survives refreshes of the list, while rows change in place and new ones
// wait; then exactly what is ticked is asked about.
func TestBrowserBulkSelectionSurvivesTenRefreshes(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	var ids []uuid.UUID
	for range 6 {
		ids = append(ids, unknownPaymentOf(t, w).ID)
	}
	b := w.tab(w.serve(), store.RoleSupport)
	b.Open("/payments")
	for _, id := range ids[1:3] {
		b.Click("#pick-" + id.String())
	}
	b.Sees(soon, ".bulk-picked", "2 ticked")
	for i := range 10 {
		w.db.SeedPayment(t, nil)
		w.db.Exec(t, `UPDATE payments SET status = $2 WHERE id = $1`, ids[0], []store.Status{store.Processing, store.Succeeded}[i%2])
		w.server.a.hub.touch(store.TopicPayments)
		w.server.a.hub.flush()
		b.Sees(soon, ".fresh-rows", fmt.Sprintf("%d new, show", i+1))
	}
	b.Sees(soon, ".bulk-picked", "2 ticked")
	require.Equal(t, 2, browsertest.Eval[int](b, `document.querySelectorAll("input[name=pick]:checked").length`))
	b.Click("#bulk button[value=selected]")
	b.Sees(soon, "h1", "Ask atlas about these 2 payments? No money moves.")
	b.Click("form[action$='/start'] button[type=submit]")
	b.Sees(soon, ".bulk-state", "0 of 2 worked.")
	id := uuid.MustParse(b.Location()[len(b.Location())-36:])
	w.askWork(id, 2, store.OutcomePaid)
	w.server.a.hub.touch(store.TopicBulks)
	w.server.a.hub.flush()
	b.Sees(soon, ".bulk-state", "All 2 worked.")
	require.Empty(t, b.Faults())
}

// Without scripts the same page selects, confirms and starts.
func TestBrowserBulkWithoutScripts(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	p := unknownPaymentOf(t, w)
	b := w.tab(w.serve(), store.RoleSupport).WithoutScripts()
	b.Open("/payments?status=unknown")
	b.Click("#pick-" + p.ID.String())
	b.Click("#bulk button[value=selected]")
	b.Sees(soon, "h1", "Ask atlas about this 1 payment? No money moves.")
	b.Click("form[action$='/start'] button[type=submit]")
	b.Sees(soon, ".bulk-state", "0 of 1 worked.")
}

func TestBrowserBulkIsForEverybody(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	draft, running := seedBulks(t, w)
	b := w.tab(w.serve(), store.RoleOperator)
	for _, path := range []string{draft, running} { // the lists are on the walk over all pages
		browsertest.AxeEverywhere(t, b, path)
	}
}

// seedBulks makes lists with something in them, a draft and a bulk under way.
func seedBulks(t *testing.T, w *webtest) (draft, running string) {
	t.Helper()
	seedConsole(t, w)
	for i := range 12 {
		p := unknownPaymentOf(t, w)
		if i%3 == 0 {
			w.db.Exec(t, `UPDATE payments SET status = 'succeeded' WHERE id = $1`, p.ID)
		}
	}
	by := store.Actor{Kind: "user", ID: w.signedIn(store.RoleSupport).user.ID.String()}
	freeze := func() store.Bulk {
		b, err := w.store.FreezeBulk(t.Context(), store.BulkSet{Filter: &store.PaymentFilter{}, Address: url.Values{"status": {"unknown"}}.Encode()}, by)
		require.NoError(t, err)
		return b
	}
	d, r := freeze(), freeze()
	r, err := w.store.StartBulk(t.Context(), uuid.New(), r.ID, r.Version, by)
	require.NoError(t, err)
	w.askWork(r.ID, 4, store.OutcomePaid)
	w.askWork(r.ID, 1, store.OutcomeFailed)
	w.askWork(r.ID, 2, store.OutcomeUnknown)
	w.askWork(r.ID, 1, store.OutcomeConflict)
	it, err := w.store.ClaimBulkItem(t.Context(), r.ID, "")
	require.NoError(t, err)
	require.NoError(t, w.store.ReleaseBulkItem(t.Context(), it, w.clock.now().Add(3*time.Minute)))
	return views.BulkPath(d.ID.String()), views.BulkPath(r.ID.String())
}

// TestPicturesOfBulk checks that each page fits, and keeps its pictures when asked to.
func TestPicturesOfBulk(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	draft, running := seedBulks(t, w)
	b := w.tab(w.serve(), store.RoleOperator)
	for name, path := range map[string]string{"payments-ticks": "/payments", "payments-filters": "/payments?currency=EUR&min=1",
		"webhook-log": "/webhook-log", "bulk-draft": draft, "bulk-running": running, "bulks": "/bulk"} {
		b.Pictures(name, path)
	}
}
