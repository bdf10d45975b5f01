package web

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/store"
	"fusebox/store/storetest"
	"fusebox/views"
)

// opened posts a bulk form and reads the page it leads to.
func (b *browser) opened(path string, form url.Values) reply {
	b.w.t.Helper()
	res := b.post(path, form)
	require.Equal(b.w.t, http.StatusSeeOther, res.StatusCode, res.body)
	at := res.Header.Get("Location")
	page := b.get(at)
	require.Equal(b.w.t, http.StatusOK, page.StatusCode)
	page.Header.Set("Location", at)
	return page
}

// askWork finishes the items of a running bulk as its job would.
func (w *webtest) askWork(id uuid.UUID, n int, outcome string) {
	w.t.Helper()
	for range n {
		it, err := w.store.ClaimBulkItem(w.t.Context(), id, "")
		require.NoError(w.t, err)
		require.NoError(w.t, w.store.InTx(w.t.Context(), func(ctx context.Context, tx pgx.Tx) error {
			return w.store.FinishBulkItem(ctx, tx, it, outcome, "")
		}))
	}
	_, err := w.store.EndBulk(w.t.Context(), id, "")
	require.NoError(w.t, err)
}

// The whole way without JavaScript, by the role that may: freeze a filter, read what
// would happen in numbers, start, look, cancel.
func TestBulkReconcileFromTheFilterToTheCancel(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	lookup := func(p store.Payment, at time.Time) {
		w.db.SeedEvent(t, p, store.TimelineEvent{At: at, Kind: "lookup", Source: "job", Actor: "system:reconcile"})
	}
	for range 3 {
		unknownPaymentOf(t, w)
	}
	lookup(unknownPaymentOf(t, w), w.clock.now().Add(-20*time.Second))
	w.db.SeedPayment(t, func(p *store.Payment) { p.Provider = "borealis" })
	until := w.clock.now().Add(3 * time.Minute)
	w.circuits.set(breaker.Snapshot{Key: statusKey("atlas"), State: breaker.Open, Epoch: "2", OpenUntil: until})

	b := w.signedIn(store.RoleSupport)
	list := b.get("/payments?status=unknown&provider=atlas")
	require.Contains(t, list.body, "Ask about all that match")
	require.Contains(t, list.body, `type="checkbox" form="bulk" name="pick"`)
	form := url.Values{"set": {"all"}, "status": {"unknown"}, "provider": {"atlas"}}
	confirm := b.opened("/payments/bulk", form)
	at := confirm.Header.Get("Location")
	for _, want := range []string{"Ask atlas about these 4 payments? No money moves.", "3 of 4", "1 asked within the last minute",
		"at most 18", "waits: circuit open until", "provider=atlas&amp;status=unknown", "At most 5 payments a second", "0 charges are sent"} {
		require.Contains(t, confirm.body, want)
	}
	unknownPaymentOf(t, w) // arrives while the page is open
	start := formOf(t, confirm.body)
	first, second := b.post(at+"/start", start), b.post(at+"/start", start)
	require.Equal(t, http.StatusSeeOther, first.StatusCode)
	require.Equal(t, http.StatusSeeOther, second.StatusCode, "a double click is one start")
	require.Equal(t, 1, w.jobs.count("bulk"))

	other := w.signedIn(store.RoleSupport)
	late := formOf(t, confirm.body)
	late.Set("action_id", uuid.NewString())
	res := other.post(at+"/start", late)
	require.Equal(t, http.StatusConflict, res.StatusCode)
	require.Contains(t, res.body, "Olena was first at")
	require.Contains(t, res.body, "Nothing was started again")

	id := uuid.MustParse(strings.TrimPrefix(at, views.PathBulk+"/"))
	w.askWork(id, 1, store.OutcomePaid)
	page := b.get(at)
	require.Contains(t, page.body, "1 of 4 worked.")
	require.Contains(t, page.body, "now paid")
	require.Equal(t, http.StatusUnprocessableEntity, b.get(at+"?only=elsewhere").StatusCode)
	require.Contains(t, b.get(at+"?only=paid").body, `id="bulk-1"`)
	require.NotContains(t, b.get(at+"?only=paid").body, `id="bulk-2"`)

	ask := b.get(at + "/cancel")
	require.Contains(t, ask.body, "3 are not worked any more.")
	require.Contains(t, ask.body, "1 is done and stays as it is.")
	require.Equal(t, http.StatusSeeOther, b.post(at+"/cancel", formOf(t, ask.body)).StatusCode)
	page = b.get(at)
	require.Contains(t, page.body, "Olena cancelled it after 1 of 4. What is done stays.")
	require.Equal(t, http.StatusConflict, b.post(at+"/cancel", url.Values{"action_id": {uuid.NewString()}}).StatusCode)
	require.Contains(t, b.get("/bulk").body, at)
	require.Equal(t, 1, w.number(`SELECT count(*) FROM audit_log WHERE action = 'bulk.reconcile' AND (after->>'total')::int = 4`))
}

// unknownPaymentOf is unknownPayment without a wallet of its own.
func unknownPaymentOf(t *testing.T, w *webtest) store.Payment {
	t.Helper()
	p := w.db.SeedPayment(t, nil)
	w.db.SeedAttempt(t, p, nil)
	return p
}

func TestBulkOfNothingSaysSo(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	b := w.signedIn(store.RoleSupport)
	res := b.post("/payments/bulk", url.Values{"set": {"selected"}, "status": {"unknown"}})
	require.Equal(t, "/payments?status=unknown", res.Header.Get("Location"))
	require.Contains(t, b.get("/payments?status=unknown").body, "Nothing was ticked, or nothing matches.")
	require.Equal(t, http.StatusUnprocessableEntity, b.post("/payments/bulk", url.Values{"set": {"selected"}, "pick": {"x"}}).StatusCode)
	require.Equal(t, http.StatusUnprocessableEntity, b.post("/payments/bulk", url.Values{"set": {"all"}, "status": {"odd"}}).StatusCode)
	require.Equal(t, http.StatusUnprocessableEntity, b.post("/payments/bulk", url.Values{}).StatusCode)
	require.Contains(t, b.get("/bulk").body, "No bulk action yet")
	require.Zero(t, w.number(`SELECT count(*) FROM bulks`))
}

// Events: the log, its check, and what each would do, before anything is done.
func TestBulkReapplyShowsItsDryRun(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	p := unknownPaymentOf(t, w)
	id := w.db.SeedWebhook(t, func(e *store.InboxEvent) {
		e.State, e.AppliedAt, e.EventKey = "unmatched", nil, "evt_9"
		e.Raw = []byte(`{"id":"evt_9","type":"payment.succeeded","reference":"` + p.ID.String() + `"}`)
	})
	w.db.SeedWebhook(t, nil)
	require.Equal(t, http.StatusForbidden, w.signedIn(store.RoleSupport).post("/webhook-log/bulk", url.Values{"set": {"all"}}).StatusCode)
	b := w.signedIn(store.RoleOperator)
	single := b.get(views.WebhookPath(id) + "/reapply")
	require.Contains(t, single.body, "event: Unmatched → Applied")
	require.Contains(t, single.body, "payment: Unknown → Paid")
	require.Equal(t, store.Unknown, w.payment(p.ID).Status)

	page := b.opened("/webhook-log/bulk", url.Values{"set": {"all"}})
	at := page.Header.Get("Location")
	require.Contains(t, page.body, "0 of 2 tried out; nothing is changed.")
	bulk := uuid.MustParse(strings.TrimPrefix(at, views.PathBulk+"/"))
	adapter := &fakeAdapter{name: "atlas"}
	left, err := w.store.CheckBulkItems(t.Context(), bulk, func(string) store.ParseEvents { return adapter.Parse }, 10)
	require.NoError(t, err)
	require.Zero(t, left)
	require.Equal(t, "true", b.htmx(at).Header.Get("HX-Refresh"), "the checked page asks what to do")
	page = b.get(at)
	require.Contains(t, page.body, "Process these 2 events again?")
	require.Contains(t, page.body, "would change")
	require.Contains(t, page.body, "payment: Unknown → Paid")
	require.Equal(t, store.Unknown, w.payment(p.ID).Status)
	form := formOf(t, page.body)
	require.Equal(t, http.StatusForbidden, w.signedIn(store.RoleSupport).post(at+"/start", form).StatusCode)
	require.Equal(t, http.StatusSeeOther, b.post(at+"/start", form).StatusCode)
}

func TestBulkPagesOweEverybodyTheSame(t *testing.T) {
	t.Parallel()
	draft := func(w *webtest) string {
		p := unknownPaymentOf(t, w)
		b, err := w.store.FreezeBulk(t.Context(), store.BulkSet{Payments: []uuid.UUID{p.ID}}, store.System("test"))
		require.NoError(t, err)
		return views.BulkPath(b.ID.String())
	}
	absent := views.BulkPath(uuid.NewString())
	for name, p := range map[string]page{
		"list":   {method: http.MethodGet, path: "/bulk"},
		"page":   {method: http.MethodGet, path: "", absent: absent},
		"start":  {method: http.MethodPost, path: "/start", absent: absent + "/start", form: url.Values{"action_id": {uuid.NewString()}, "version": {"1"}}},
		"cancel": {method: http.MethodGet, path: "/cancel", absent: absent + "/cancel"},
		"freeze": {method: http.MethodPost, path: "/payments/bulk", form: url.Values{"set": {"all"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWebtest(t)
			if name != "list" && name != "freeze" {
				p.path = draft(w) + p.path
			}
			p.role = store.RoleSupport
			w.exercise(p)
		})
	}
}

// Every filter of the list narrows it, and one that cannot be read shows no list.
func TestPaymentListFilters(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef, p.Amount, p.StatusReason = "Shop-1", 1000, "timeout_after_send" })
	w.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef, p.Amount, p.CustomerEmail = "shop-2", 5000, "Grace@example.org" })
	w.db.SeedPayment(t, func(p *store.Payment) {
		p.OrderRef, p.Amount, p.Currency, p.CreatedAt = "till-3", 5000, "USD", storetest.Epoch.AddDate(0, 0, -3)
	})
	b := w.signedIn(store.RoleSupport)
	for query, want := range map[string]string{
		"order=SHOP": "Shop-1 shop-2", "order=shop-2": "shop-2", "text=grace": "shop-2", "reason=timeout_after_send": "Shop-1",
		"currency=EUR&min=10&max=20": "Shop-1", "currency=EUR&min=20.00": "shop-2", "currency=USD&max=50": "till-3",
		"from=2026-03-01": "Shop-1 shop-2", "to=2026-03-01": "till-3", "from=2026-02-01&to=2026-03-02": "Shop-1 shop-2 till-3", "order=%25": "",
	} {
		res := b.get("/payments?" + query)
		require.Equal(t, http.StatusOK, res.StatusCode, query)
		for _, ref := range []string{"Shop-1", "shop-2", "till-3"} {
			require.Equal(t, strings.Contains(want, ref), strings.Contains(res.body, ">"+ref+"<"), "%s: %s", query, ref)
		}
	}
	for query, want := range map[string]string{
		"min=10": "Choose a currency first", "currency=EUR&min=x": "An amount is written", "currency=EUR&min=5&max=1": "below the lower one",
	} {
		res := b.get("/payments?" + query)
		require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode, query)
		require.Contains(t, res.body, want)
	}
}

// Pages of a range of creation times join without a gap or a repeat, both ways.
func TestPagesOfADatedListJoin(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	for i := range 120 { // created in another order than their ids
		w.db.SeedPayment(t, func(p *store.Payment) { p.CreatedAt = storetest.Epoch.Add(time.Duration(i*37%120) * time.Second) })
	}
	f := store.PaymentFilter{From: storetest.Epoch, To: storetest.Epoch.Add(time.Hour)}
	var seen []uuid.UUID
	k := store.Keyset{Limit: 50}
	for {
		page, err := w.store.ListPayments(t.Context(), f, k)
		require.NoError(t, err)
		for _, p := range page.Payments {
			seen = append(seen, p.ID)
		}
		if !page.Older {
			break
		}
		k.After = seen[len(seen)-1]
	}
	require.Len(t, seen, 120)
	unique := map[uuid.UUID]bool{}
	for _, id := range seen {
		unique[id] = true
	}
	require.Len(t, unique, 120)
	back, err := w.store.ListPayments(t.Context(), f, store.Keyset{Limit: 50, Before: seen[60]})
	require.NoError(t, err)
	require.Equal(t, seen[10], back.Payments[0].ID)
	require.Equal(t, seen[59], back.Payments[49].ID)
	n, err := w.store.CountNewer(t.Context(), f, seen[7])
	require.NoError(t, err)
	require.Equal(t, 7, n)
}

// What somebody outside wrote is never a formula, in any spreadsheet.
func TestCSVInjection(t *testing.T) {
	t.Parallel()
	for _, cell := range []string{"=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "＋1", "－1", "＠x"} {
		require.Equal(t, "'"+cell, formulaSafe(cell))
	}
	for _, cell := range []string{"", "49.00", "a=b", "Ada Palmer", " =1"} {
		require.Equal(t, cell, formulaSafe(cell))
	}
}

// An export whose database goes away half way says so in the file, and the connection
// breaks off: nobody takes a short file for a whole one.
func TestExportThatBreaksOffSaysSoInTheFile(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.db.Exec(t, `INSERT INTO payments (id, client_id, idempotency_key, request_hash, order_ref, provider, amount, currency, status, created_at, updated_at)
		SELECT gen_random_uuid(), 'test', 'k' || n, '', repeat('o', 190) || n, 'atlas', 100, 'EUR', 'unknown', now(), now() FROM generate_series(1, 60000) n`)
	srv := httptest.NewServer(w.server.Handler())
	defer srv.Close()
	b := w.signedIn(store.RoleSupport)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/payments.csv", nil)
	require.NoError(t, err)
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	res, err := srv.Client().Do(r)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	require.Equal(t, http.StatusOK, res.StatusCode)
	head := make([]byte, 100)
	_, err = io.ReadFull(res.Body, head)
	require.NoError(t, err)
	w.breakDB() // the reader has taken a page; the writer is held up by our not reading on
	rest, err := io.ReadAll(res.Body)
	require.Error(t, err, "the transfer fails too")
	lines := strings.Split(strings.TrimSpace(string(rest)), "\n")
	require.Less(t, len(lines), 60000)
	last, err := csv.NewReader(strings.NewReader(lines[len(lines)-1])).Read()
	require.NoError(t, err)
	require.Equal(t, exportIncomplete, last[0], fmt.Sprint(len(lines)))
}
