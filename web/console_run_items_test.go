package web

import (
	"encoding/csv"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/store/storetest"
	"fusebox/views"
)

// seedTheirs gives a run n objects that no payment here asked for.
func seedTheirs(t *testing.T, w *webtest, n int) store.Run {
	t.Helper()
	run := w.db.SeedRun(t, func(r *store.Run) { r.TheirsOnly = n })
	w.db.Exec(t, `INSERT INTO reconciliation_items (run_id, finding, object_id, detail, at)
		SELECT $1, 'theirs_only', 'pay_' || lpad(i::text, 4, '0'), 'at the provider, not here', $2 FROM generate_series(1, $3) i`, run.ID, storetest.Epoch, n)
	return run
}

func TestRunPagesItsItemsByKeyset(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	run := seedTheirs(t, w, 2*rowsPerPage+5)
	b, path := w.signedIn(store.RoleSupport), views.RunPath(run.ID.String())
	link := func(body, rel string) string {
		return strings.ReplaceAll(between(t, body[strings.LastIndex(body[:strings.Index(body, `rel="`+rel+`"`)], "href="):], `href="`, `"`), "&amp;", "&")
	}
	first := b.get(path + "?finding=theirs_only")
	require.Contains(t, first.body, "pay_0050")
	require.NotContains(t, first.body, "pay_0051")
	require.NotContains(t, first.body, `rel="prev"`)
	second := b.get(link(first.body, "next"))
	require.Contains(t, second.body, "pay_0051")
	require.NotContains(t, second.body, ">pay_0050<")

	// What is added in front while somebody reads moves nothing.
	w.db.Exec(t, `INSERT INTO reconciliation_items (run_id, finding, object_id, at) VALUES ($1, 'theirs_only', 'pay_0000', now())`, run.ID)
	third := b.get(link(second.body, "next"))
	require.Contains(t, third.body, "pay_0101")
	require.NotContains(t, third.body, ">pay_0100<")
	require.NotContains(t, third.body, `rel="next"`)
	back := b.get(link(third.body, "prev"))
	require.Contains(t, back.body, ">pay_0051<")
	require.Contains(t, back.body, ">pay_0100<")

	for _, bad := range []string{"after=7", "before=true.x.pay", "after=maybe." + uuid.NewString() + ".pay"} {
		require.Equal(t, http.StatusUnprocessableEntity, b.get(path+"?"+bad).StatusCode, bad)
	}
	past := b.get(path + "?after=true." + uuid.Max.String() + ".zzz")
	require.Contains(t, past.body, `rel="prev"`, "one page too far leads back")
}

func TestRunExportsItsItemsWhole(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	run := seedTheirs(t, w, 1203)
	p := w.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef, p.Status = "=1+1", store.Unknown })
	w.db.SeedObject(t, p, func(o *store.ProviderObject) {
		o.ObjectID, o.PaymentID, o.Amount, o.Status = "@SUM(A1)", nil, -4900, "+settled"
	})
	w.db.Exec(t, `INSERT INTO reconciliation_items (run_id, finding, payment_id, object_id, at) VALUES
		($1, 'ours_only', $2, '', $3), ($1, 'theirs_only', NULL, '@SUM(A1)', $3)`, run.ID, p.ID, storetest.Epoch)
	b, path := w.signedIn(store.RoleSupport), views.RunPath(run.ID.String())
	require.Contains(t, b.get(path+"?finding=ours_only").body, `href="`+path+`/items.csv?finding=ours_only"`)
	b.cookies[cookieOwnTZ] = "Europe/Kyiv"
	res := b.get(path + "/items.csv")
	require.Contains(t, res.Header.Get("Content-Disposition"), "attachment")
	rows, err := csv.NewReader(strings.NewReader(res.body)).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 1+1203+2, "nothing is cut silently")
	require.Equal(t, itemColumns, rows[0])
	require.Equal(t, []string{run.ID.String(), "atlas", "ours_only", "", "2026-03-02T14:02:11Z", "2026-03-02T16:02:11+02:00", "Europe/Kyiv",
		p.ID.String(), "'=1+1", "unknown", "4900", "49.00", "EUR", "", "", "", "", ""}, rows[1])
	require.Equal(t, []string{"'@SUM(A1)", "'+settled", "-4900", "-49.00", "EUR"}, rows[2][13:])
	one, err := csv.NewReader(strings.NewReader(b.get(path + "/items.csv?finding=ours_only").body)).ReadAll()
	require.NoError(t, err)
	require.Len(t, one, 2)
	require.Equal(t, http.StatusNotFound, b.get(views.RunPath(uuid.NewString())+"/items.csv").StatusCode)
	require.Equal(t, http.StatusUnprocessableEntity, b.get(path+"/items.csv?finding=x").StatusCode)
}

// listing makes atlas a provider that can list what it has.
func listing(c *Config) {
	c.Registry = provider.NewRegistry(&listingAdapter{fakeAdapter{name: "atlas"}}, &fakeAdapter{name: "borealis"})
}

type listingAdapter struct{ fakeAdapter }

func (a *listingAdapter) Capabilities() provider.Capabilities {
	return provider.Capabilities{Webhooks: true, Listing: true}
}

func TestRunItemsLeadToWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, listing)
	run := seedTheirs(t, w, 1)
	p := w.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef, p.Status = "o-1", store.Unknown })
	w.db.SeedObject(t, p, func(o *store.ProviderObject) {
		o.ObjectID, o.PaymentID, o.Reference, o.Raw = "pay_0001", nil, "order-elsewhere", []byte(`{"status":"paid","cardholder":"Ada Palmer"}`)
	})
	w.db.Exec(t, `INSERT INTO reconciliation_items (run_id, finding, payment_id, object_id, at) VALUES ($1, 'ours_only', $2, '', $3)`, run.ID, p.ID, storetest.Epoch)
	event := w.db.SeedWebhook(t, func(e *store.InboxEvent) { e.ObjectID, e.State = "pay_0001", "unmatched" })
	b := w.signedIn(store.RoleOperator)
	list := b.get(views.RunPath(run.ID.String()))
	require.Contains(t, list.body, `href="`+views.AnswerPath(p.ID.String())+`"`, "what waits for an answer leads to the queue")
	require.Contains(t, list.body, `href="/objects/atlas?id=pay_0001"`)

	object := b.get(views.ObjectPath("atlas", "pay_0001"))
	for _, want := range []string{"No payment here asked for it", `href="/search?q=49.00+EUR"`, `href="/search?q=order-elsewhere"`,
		views.WebhookPath(event), views.RunPath(run.ID.String()), "/reconciliation/start/atlas", "&#34;paid&#34;"} {
		require.Contains(t, object.body, want)
	}
	require.NotContains(t, object.body, "Ada Palmer", "nobody is named unasked")
	require.Contains(t, w.signedIn(store.RoleSupport).get(views.ObjectPath("atlas", "pay_0001")).body, "Reconcile again")

	// Once it is known whose it is, the page says so.
	w.db.Exec(t, `UPDATE provider_objects SET payment_id = $1 WHERE object_id = 'pay_0001'`, p.ID)
	object = b.get(views.ObjectPath("atlas", "pay_0001"))
	require.Contains(t, object.body, "It belongs to a payment here")
	require.Contains(t, object.body, views.AnswerPath(p.ID.String()))

	for _, path := range []string{"/objects/atlas", "/objects/atlas?id=pay_2", "/objects/none?id=pay_0001", "/objects/atlas?id=" + strings.Repeat("x", 201)} {
		require.Equal(t, http.StatusNotFound, b.get(path).StatusCode, path)
	}
	w.exercise(page{method: http.MethodGet, path: "/objects/atlas?id=pay_0001", role: store.RoleSupport, absent: "/objects/atlas?id=gone"})
}
