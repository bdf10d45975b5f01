package web

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/views"
	"fusebox/web/browsertest"
)

// Somebody takes a payment, another person sees it without reloading, the first decides
// it; nobody holds it any more. The pages are for everybody.
func TestBrowserTheWorkQueueIsShared(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	rows := seedConsole(t, w)
	p := unknownPayment(t, w)
	base, path := w.serve(), views.AnswerPath(p.ID.String())
	olena, marc := w.signedIn(store.RoleOperator), w.signedIn(store.RoleSupport).named("Marc")
	a, b := w.tabOf(base, olena), w.tabOf(base, marc)

	b.Open("/queue")
	b.Sees(10*time.Second, "#waiting-"+p.ID.String(), "nobody")
	a.Open(path)
	a.Click(`a[href="` + path + `/take"]`)
	a.Wait("#dialog button[type=submit]")
	a.Click("#dialog button[type=submit]")
	a.Sees(10*time.Second, ".answer-lease", "you until")
	b.Sees(10*time.Second, "#waiting-"+p.ID.String(), "Olena until")

	b.Open(views.AnswerPath(rows.payment.ID.String())) // hostile text and every contradiction
	browsertest.Axe(t, b)
	b.Open("/queue")
	b.Click(".take-next button")
	b.Sees(10*time.Second, ".answer-lease", "you until")
	require.NotContains(t, b.Location(), p.ID.String(), "what Olena holds is not the next")

	a.Pictures("answer", path)
	a.Pictures("queue", "/queue")
	browsertest.AxeEverywhere(t, a, path)
	a.Language("en")
	a.Open(path + "/release")
	a.Click("[data-confirm] button[type=submit]")
	a.Sees(10*time.Second, "#waiting-"+p.ID.String(), "nobody")
	a.Open(resolvePath(p) + "?to=failed")
	a.Type("#evidence", "TICKET-7")
	a.Type("#reason", "Not in the dashboard of atlas")
	a.Click("[data-confirm] button[type=submit]")
	a.Sees(10*time.Second, "#verdict", "Failed")
	require.Equal(t, store.Failed, w.payment(p.ID).Status)
}
