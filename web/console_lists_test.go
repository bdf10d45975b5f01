package web

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
	"fusebox/store/storetest"
	"fusebox/views"
)

func TestPaymentListKeepsFiltersInTheAddress(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	for i := range 60 {
		w.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef, p.Status = fmt.Sprintf("o-%02d", i), store.Succeeded })
	}
	w.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef, p.Provider = "elsewhere", "borealis" })
	b := w.signedIn(store.RoleSupport)
	res := b.get("/payments?status=succeeded&provider=atlas")
	require.Contains(t, res.body, "o-59")
	require.NotContains(t, res.body, "o-09")
	require.NotContains(t, res.body, "elsewhere")
	require.Regexp(t, `aria-current="page"[^>]*>(?s:.{0,900})Paid`, res.body)
	require.Contains(t, res.body, `href="/payments.csv?provider=atlas&amp;status=succeeded"`)

	older := between(t, res.body, `href="/payments?after=`, `"`)
	next := b.get("/payments?after=" + strings.ReplaceAll(older, "&amp;", "&"))
	require.Contains(t, next.body, "o-09")
	require.NotContains(t, next.body, "o-10")
	require.Contains(t, next.body, `rel="prev"`)
}

func TestNewPaymentsWaitWhileTheListIsRead(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef = "seen" })
	b := w.signedIn(store.RoleSupport)
	page := b.get("/payments")
	require.NotContains(t, page.body, "new, show")
	live := strings.ReplaceAll(between(t, page.body, `id="payment-list"`, `hx-trigger`), "&amp;", "&")
	live = between(t, live, `hx-get="`, `"`)
	for range 2 {
		w.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef = "late" })
	}
	w.db.Exec(t, `UPDATE payments SET status = 'succeeded' WHERE order_ref = 'seen'`)
	part := b.htmx(live)
	require.Contains(t, part.body, "2 new, show")
	require.Contains(t, part.body, "Paid", "rows change where they are")
	require.NotContains(t, part.body, "late")
	require.Contains(t, part.body, `hx-get="`+live+`"`, "and the list stays pinned")
	require.Contains(t, b.get("/payments").body, "late")
	require.Contains(t, b.htmx("/payments/tabs").body, ">3<", "tabs count everything")
	require.Equal(t, http.StatusUnprocessableEntity, b.htmx("/payments/tabs?status=x").StatusCode)
	require.Contains(t, b.htmx("/webhook-log/tabs").body, "Applied")
}

func between(t *testing.T, text, from, to string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, from)
	require.True(t, found, "%q is not there", from)
	out, _, found := strings.Cut(rest, to)
	require.True(t, found)
	return out
}

func TestPaymentListSaysWhatIsWrongWithAFilter(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef = "hidden-row" })
	b := w.signedIn(store.RoleSupport)
	for query, words := range map[string]string{
		"status=lost": "no such status", "review=maybe": "no such review reason", "provider=none": "no such provider",
		"currency=EURO": "three letters", "from=31.3.2026": "A date is written", "to=2026-02-30": "A date is written",
		"from=2026-03-02&to=2026-03-01": "before the start", "amount=1,000.00": "An amount is written", "amount=ten": "An amount is written",
		"text=" + strings.Repeat("x", 201): "At most 200", "after=42": "not valid any more",
	} {
		res := b.get("/payments?" + query)
		require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode, query)
		require.Contains(t, res.body, words, query)
		require.NotContains(t, res.body, "hidden-row", "a filter that is ignored would lie: "+query)
		require.Equal(t, http.StatusUnprocessableEntity, b.htmx("/payments?"+query).StatusCode)
	}
}

func TestEmptyListsSayWhy(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.signedIn(store.RoleSupport)
	for path, words := range map[string]string{
		"/payments": "No payments yet", "/payments?status=failed": "Nothing matches", "/queue": "Nothing needs an answer",
		"/queues": "No queue has work yet", "/webhook-log": "No events yet", "/webhook-log?state=rejected": "Nothing matches",
		"/reconciliation": "No reconciliation yet", "/wallets": "No wallets yet", "/wallets?owner=x": "No wallet matches",
		"/audit": "Nothing audited yet", "/audit?action=x": "Nothing matches", "/search": "What are you looking for", "/search?q=zzz": "Nothing found",
	} {
		require.Contains(t, b.get(path).body, words, path)
	}
}

func TestExportIsWholeAndFormulaSafe(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	const n = 1203 // more than others cut at, and no multiple of a page
	for i := range n {
		w.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef = fmt.Sprintf("o-%d", i) })
	}
	settled := storetest.Epoch.Add(time.Minute)
	w.db.SeedPayment(t, func(p *store.Payment) {
		p.OrderRef, p.CustomerName, p.Amount, p.Currency = `=HYPERLINK("http://evil","x")`, "+49 30", 500, "JPY"
		p.Status, p.SettledAt = store.Succeeded, &settled
	})
	b := w.signedIn(store.RoleSupport)
	b.cookies[cookieOwnTZ] = "Europe/Kyiv"
	res := b.get("/payments.csv")
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Contains(t, res.Header.Get("Content-Disposition"), "attachment")
	rows, err := csv.NewReader(strings.NewReader(res.body)).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, n+2)
	require.Equal(t, exportColumns, rows[0])
	got := map[string]string{}
	for i, name := range rows[0] {
		got[name] = rows[1][i]
	}
	require.Equal(t, `'=HYPERLINK("http://evil","x")`, got["order_ref"])
	require.Equal(t, "'+49 30", got["customer_name"])
	require.Equal(t, []string{"500", "500", "JPY"}, []string{got["amount_minor"], got["amount"], got["currency"]})
	require.Equal(t, "2026-03-02T14:02:11Z", got["created_at_utc"])
	require.Equal(t, "2026-03-02T16:02:11+02:00", got["created_at_local"])
	require.Equal(t, "2026-03-02T14:03:11Z", got["settled_at_utc"])
	require.Equal(t, "Europe/Kyiv", got["zone"])
	require.Equal(t, []string{"4900", "49.00", "EUR"}, rows[2][7:10])
}

func TestParseMoneyReadsOnlyWhatIsClear(t *testing.T) {
	t.Parallel()
	one := func(amount int64, code string) []provider.Money {
		return []provider.Money{{Amount: amount, Currency: code}}
	}
	for text, want := range map[string][]provider.Money{
		"49.00 EUR": one(4900, "EUR"), "EUR 49": one(4900, "EUR"), "49,5 eur": one(4950, "EUR"), "8.20 USD": one(820, "USD"),
		"4.35 EUR": one(435, "EUR"), "500 JPY": one(500, "JPY"), "49,00\u00a0EUR": one(4900, "EUR"), "18.605 KWD": one(18605, "KWD"),
		"18.6 KWD": one(18600, "KWD"), "0.005 EUR": nil, "500.5 JPY": nil, "1,000.00": nil, "1,000": nil, "18,605 KWD": nil, "1.000,00": nil, "1 000 EUR": nil,
		"１０ EUR": nil, "-5 EUR": nil, "+5 EUR": nil, "0 EUR": nil, "1e3": nil, "5 XQZ": nil, ".5 EUR": nil, "5. EUR": nil, "": nil,
		"99999999999999999999 EUR": nil, "EUR": nil,
	} {
		require.Equal(t, want, parseMoney(text, ""), text)
	}
	require.Contains(t, parseMoney("49", ""), provider.Money{Amount: 4900, Currency: "EUR"})
	require.Contains(t, parseMoney("49", ""), provider.Money{Amount: 49, Currency: "JPY"})
	require.Contains(t, parseMoney("49", ""), provider.Money{Amount: 49000, Currency: "KWD"})
	require.Equal(t, one(49, "JPY"), parseMoney("49", "JPY"))
	for minor := int64(1); minor <= 10_000; minor++ {
		text := fmt.Sprintf("%d.%02d", minor/100, minor%100)
		require.Equal(t, one(minor, "EUR"), parseMoney(text, "EUR"), text)
	}
}

func TestFormulaSafe(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "", "ORD-1": "ORD-1", "=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@x": "'@x",
		"\t=1": "'\t=1", "\r=1": "'\r=1", "＝1": "'＝1", "a=b": "a=b"} {
		require.Equal(t, want, formulaSafe(in), "%q", in)
	}
}

func TestSearchGoesToTheOnlyHit(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	p := w.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef, p.Amount, p.ProviderPaymentID = "ORD-77", 4321, "pay_9" })
	event := w.db.SeedWebhook(t, func(e *store.InboxEvent) { e.EventKey = "evt_77" })
	wallet := w.db.SeedWallet(t, "acme", "EUR", 100)
	run := w.db.SeedRun(t, nil)
	b := w.signedIn(store.RoleSupport)
	for q, to := range map[string]string{
		p.ID.String(): views.PaymentPath(p.ID.String()), "ORD-77": views.PaymentPath(p.ID.String()), " pay_9 ": views.PaymentPath(p.ID.String()),
		"43.21": views.PaymentPath(p.ID.String()), "43.21 EUR": views.PaymentPath(p.ID.String()), "evt_77": views.WebhookPath(event),
		"acme": views.WalletPath(wallet.String()), run.ID.String(): views.RunPath(run.ID.String()),
	} {
		res := b.get("/search?q=" + url.QueryEscape(q))
		require.Equal(t, http.StatusSeeOther, res.StatusCode, q)
		require.Equal(t, to, res.Header.Get("Location"), q)
	}
	w.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef = "ORD-78" })
	require.Contains(t, b.get("/search?q=ord-7").body, "ORD-78")
	for _, q := range []string{"43.21 USD", "%", "'", "\u200b"} {
		require.Contains(t, b.get("/search?q="+url.QueryEscape(q)).body, "Nothing found", "%q", q)
	}
}

func TestWebhookPageShowsHeadersBodyAndEffect(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	p := w.db.SeedPayment(t, nil)
	id := w.db.SeedWebhook(t, func(e *store.InboxEvent) {
		e.PaymentID, e.SecretLabel = &p.ID, "2"
		e.Headers = map[string]any{"Fusebox-Signature": []string{"t=1,v1=ab"}, "X-Token": "Bearer abcdefgh12345678"}
	})
	w.db.SeedEvent(t, p, store.TimelineEvent{Kind: "webhook", Source: "webhook", Actor: "system:webhook", FromStatus: store.Unknown,
		ToStatus: store.Succeeded, Evidence: map[string]any{"inbox_id": id}})
	body := w.signedIn(store.RoleSupport).get(views.WebhookPath(id)).body
	require.Contains(t, body, "t=1,v1=ab")
	require.NotContains(t, body, "abcdefgh12345678")
	require.Contains(t, body, "an older one, number 2")
	require.Contains(t, body, "Event applied")
	require.Contains(t, body, p.ID.String())
}

func TestWalletPageProvesItsBalance(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	id := w.db.SeedWallet(t, "acme", "EUR", 1000, -250)
	b := w.signedIn(store.RoleSupport)
	body := b.get(views.WalletPath(id.String())).body
	require.Contains(t, body, "2 entries sum to 7.50\u00a0EUR")
	require.Contains(t, body, "-2.50")
	w.db.Exec(t, `UPDATE wallets SET balance = 751 WHERE id = $1`, id)
	require.Contains(t, b.get(views.WalletPath(id.String())).body, "do not agree")
}

func TestQueuesPageSaysDepthLimitAndWhy(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	next := w.clock.now().Add(10 * time.Minute)
	w.db.SeedPayment(t, func(p *store.Payment) { p.Status, p.NextCheckAt, p.NextCheckWhy = store.Pending, &next, "circuit_open" })
	w.db.Exec(t, `INSERT INTO river_job (state, max_attempts, kind, queue, args, scheduled_at) VALUES
		('available', 5, 'charge', 'charge_atlas', '{}', $1), ('available', 5, 'charge', 'charge_gone', '{}', $1)`, w.clock.now().Add(-time.Minute))
	w.circuits.set(breaker.Snapshot{Key: breaker.Key{Name: "atlas", Class: "charge"}, State: breaker.Closed, Epoch: "1", InFlight: 3,
		Settings: breaker.Settings{MaxInFlight: 20}})
	body := w.signedIn(store.RoleSupport).get("/queues").body
	require.Contains(t, body, "3 of 20 over all processes")
	require.Contains(t, body, "atlas: charges")
	require.Contains(t, body, "charge_gone (not configured here)")
	require.Contains(t, body, "of 8 per process")
	require.Contains(t, body, "not moving")
	require.Contains(t, body, "waiting: circuit open")
	require.Contains(t, body, `href="/payments?provider=atlas&amp;status=pending"`)
}

func TestAuditOpensOnWhatPeopleDid(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.signedIn(store.RoleSupport)
	for actor, action := range map[string]string{"user:" + b.user.ID.String(): "circuit.reset", "system:charge": "payment.status"} {
		w.db.Exec(t, `INSERT INTO audit_log (at, actor, action, target, before, after) VALUES ($1, $2, $3, 'payment:7',
			'{"status":"unknown","needs_review":["aged"],"version":2}', '{"status":"succeeded","needs_review":[],"version":3}')`,
			storetest.Epoch, actor, action)
	}
	people := b.get("/audit")
	require.Contains(t, people.body, "Olena")
	require.NotContains(t, people.body, "Fusebox: charge")
	require.Contains(t, people.body, `aged → <strong>–</strong>`)
	require.NotContains(t, people.body, ">version<")
	require.Contains(t, b.get("/audit?who=all").body, "Fusebox: charge")
	require.Contains(t, b.get("/audit?target=payment:7").body, "Fusebox: charge", "the story of one thing is whole")
	require.Equal(t, http.StatusUnprocessableEntity, b.get("/audit?who=me").StatusCode)
}
