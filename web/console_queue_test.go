package web

import (
	"encoding/csv"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/store/storetest"
	"fusebox/views"
)

// named gives a person another name, so that one can be told from the other.
func (b *browser) named(name string) *browser {
	b.w.db.Exec(b.w.t, `UPDATE users SET name = $2 WHERE id = $1`, b.user.ID, name)
	b.user.Name = name
	return b
}

// confirmed opens a confirm page and posts its form as it is.
func (b *browser) confirmed(path string) reply {
	b.w.t.Helper()
	page := b.get(path)
	require.Equal(b.w.t, http.StatusOK, page.StatusCode, page.body)
	return b.post(path, formOf(b.w.t, page.body))
}

func TestTakingAPaymentTellsTheOthers(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	p := unknownPayment(t, w)
	path := views.AnswerPath(p.ID.String())
	olena, marc := w.signedIn(store.RoleSupport), w.signedIn(store.RoleOperator).named("Marc")
	res := olena.confirmed(path + "/take")
	require.Equal(t, http.StatusSeeOther, res.StatusCode)
	require.Equal(t, path, res.Header.Get("Location"))

	until := w.clock.now().Add(store.LeaseFor).UTC().Format("15:04:05")
	require.Contains(t, olena.get(path).body, "you until "+until)
	require.Contains(t, olena.get("/queue").body, "you until "+until)
	require.Contains(t, marc.get(path).body, "Olena until "+until)
	require.Contains(t, marc.get("/queue").body, "Olena until "+until)
	require.NotContains(t, marc.get("/queue?lease=untaken").body, p.OrderRef)
	require.Contains(t, olena.get("/queue?lease=mine").body, "waiting-"+p.ID.String())

	// Fragments of those who hold something are their own.
	own := "/queue?lease=mine&me=" + olena.user.ID.String()
	require.Contains(t, olena.htmx(own).body, "you until")
	require.Equal(t, http.StatusUnprocessableEntity, marc.htmx(own).StatusCode)
	require.Equal(t, http.StatusUnprocessableEntity, marc.htmx("/queue?lease=mine").StatusCode)
	require.Contains(t, marc.htmx("/queue").body, "Olena until")
	require.NotContains(t, olena.htmx("/queue").body, "you until", "the shared one names everybody")

	// Deciding without taking it over is refused by name, and leads to taking it over.
	held := marc.get(resolvePath(p) + "?to=failed")
	require.Contains(t, held.body, "Olena is at work on this until "+until)
	require.NotContains(t, held.body, `name="reason"`)
	form := url.Values{"action_id": {uuid.NewString()}, "version": {"1"}, "to": {"failed"},
		"reason": {"seen in the dashboard"}, "evidence": {"TICKET-7"}}
	refused := marc.post(resolvePath(p), form)
	require.Equal(t, http.StatusConflict, refused.StatusCode)
	require.Contains(t, refused.body, "Olena is at work on this")
	require.Contains(t, refused.body, path+"/take")
	require.Equal(t, store.Unknown, w.payment(p.ID).Status)

	over := marc.get(path + "/take")
	require.Contains(t, over.body, "Take this payment over?")
	require.Contains(t, over.body, "Olena")
	plain := formOf(t, over.body)
	plain.Del("from")
	require.Equal(t, http.StatusConflict, marc.post(path+"/take", plain).StatusCode, "taking is not taking over")
	require.Equal(t, http.StatusSeeOther, marc.confirmed(path+"/take").StatusCode)
	require.Contains(t, olena.get(path).body, "Marc until "+until)
	late := olena.confirmed(path + "/release")
	require.Equal(t, http.StatusConflict, late.StatusCode)
	require.Contains(t, late.body, "Marc is at work on this")

	require.Equal(t, http.StatusSeeOther, marc.confirmed(path+"/release").StatusCode)
	require.Contains(t, marc.get(path).body, "nobody")
	require.Equal(t, http.StatusSeeOther, marc.post(resolvePath(p), decision(t, marc, p, "failed")).StatusCode)
	require.Contains(t, marc.get(path+"/take").body, "It has its answer already")
	require.Equal(t, http.StatusConflict, marc.confirmed(path+"/take").StatusCode)
	for _, action := range []string{"payment.take", "payment.takeover", "payment.release"} {
		require.Equal(t, 1, w.number(`SELECT count(*) FROM audit_log WHERE action = $1`, action), action)
	}
}

func TestTakeNextGivesEachTheirOwn(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	for range 3 {
		unknownPaymentOf(t, w)
	}
	people := []*browser{w.signedIn(store.RoleSupport), w.signedIn(store.RoleOperator), w.signedIn(store.RoleAdmin)}
	at := make([]string, len(people))
	var wg sync.WaitGroup
	for i, b := range people {
		form := formOf(t, b.get("/queue").body)
		wg.Go(func() {
			res := b.post("/queue/next", form)
			require.Equal(t, http.StatusSeeOther, res.StatusCode)
			at[i] = res.Header.Get("Location")
			require.Equal(t, at[i], b.post("/queue/next", form).Header.Get("Location"), "a double click takes one")
		})
	}
	wg.Wait()
	require.NotEqual(t, at[0], at[1])
	require.NotEqual(t, at[1], at[2])
	require.NotEqual(t, at[0], at[2])
	b := people[0]
	require.Equal(t, "/queue", b.post("/queue/next", formOf(t, b.get("/queue").body)).Header.Get("Location"))
	require.Contains(t, b.get("/queue").body, "Nothing is left that nobody has taken.")
	require.Equal(t, http.StatusBadRequest, b.post("/queue/next", url.Values{}).StatusCode)
}

func TestTheQueueRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	b := w.signedIn(store.RoleSupport)
	for _, query := range []string{"provider=x", "reason=x", "lease=x", "aged=x"} {
		for _, path := range []string{"/queue?", "/queue.csv?"} {
			require.Equal(t, http.StatusUnprocessableEntity, b.get(path+query).StatusCode, path+query)
		}
	}
	require.Equal(t, http.StatusNotFound, b.get("/queue/"+uuid.NewString()).StatusCode)
	require.Equal(t, http.StatusNotFound, b.get("/queue/next").StatusCode)
	require.Contains(t, b.get("/queue").body, "Nothing needs an answer")
	require.Contains(t, b.get("/queue?aged=yes").body, "meets all of these conditions")
}

func TestTheQueueIsExportedWhole(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	for range 250 {
		w.db.SeedPayment(t, nil)
	}
	p := w.db.SeedPayment(t, func(p *store.Payment) { p.Amount, p.OrderRef = 990_000, "=large" })
	b := w.signedIn(store.RoleOperator)
	require.Equal(t, http.StatusSeeOther, b.confirmed(views.AnswerPath(p.ID.String())+"/take").StatusCode)
	rows, err := csv.NewReader(strings.NewReader(b.get("/queue.csv").body)).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 252)
	require.Equal(t, queueColumns, rows[0])
	require.Equal(t, p.ID.String(), rows[1][0], "the most urgent first")
	require.Equal(t, "'=large", rows[1][1])
	require.Equal(t, "Olena", rows[1][13])
	page := b.get("/queue").body
	require.Contains(t, page, "The 200 most urgent of 251 are shown")
}

func TestTheAnswerPageShowsEveryVoiceAndOneStep(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	p := unknownPayment(t, w)
	w.db.SeedEvent(t, p, store.TimelineEvent{At: storetest.Epoch, Kind: "lookup", Source: "job", Actor: "system:reconcile"})
	run := w.db.SeedRun(t, nil)
	w.db.Exec(t, `INSERT INTO reconciliation_items (run_id, finding, payment_id, object_id, detail, at) VALUES ($1, 'ours_only', $2, '', '', $3)`,
		run.ID, p.ID, storetest.Epoch)
	path := views.AnswerPath(p.ID.String())
	b := w.signedIn(store.RoleSupport)
	page := b.get(path).body
	for _, want := range []string{"The one safe next step", "Ask the provider again now", "Our request", "What atlas says", "Events received",
		"The latest reconciliation says: Ours only.", "Wallet acme is untouched", "No event of atlas", "/reconcile", "Operator"} {
		require.Contains(t, page, want)
	}
	w.db.SeedObject(t, p, func(o *store.ProviderObject) { o.Amount, o.Outcome = 4800, "succeeded" })
	page = b.get(path).body
	require.Contains(t, page, "atlas reports 48.00\u00a0EUR")
	require.Contains(t, page, "Compare in the provider’s dashboard")
	require.Contains(t, b.htmx(path+"?me="+b.user.ID.String()).body, "answer-live")
	require.Equal(t, http.StatusUnprocessableEntity, b.htmx(path).StatusCode)
}
