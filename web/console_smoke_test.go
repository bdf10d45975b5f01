package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/store/storetest"
	"fusebox/views"
	"fusebox/views/messages"
)

// askable is a provider that can be asked in every way and lists its charges.
type askable struct{ fakeAdapter }

func (a *askable) Capabilities() provider.Capabilities {
	return provider.Capabilities{IdempotencyKeys: true, KeyLife: 24 * time.Hour, Listing: true, Webhooks: true,
		Ways: []provider.Way{provider.ByReference, provider.ByKey, provider.ByID}}
}

// askableAtlas makes "atlas" askable; "borealis" stays one nobody can ask.
func askableAtlas(c *Config) {
	c.Registry = provider.NewRegistry(&askable{fakeAdapter{name: "atlas"}}, &fakeAdapter{name: "borealis"})
}

// inDemo switches the demo's pages on.
func inDemo(c *Config) { c.Demo = &Demo{EmbeddedRedis: true, Simulators: map[string]string{}} }

// consoleRows are rows that make every page show something.
type consoleRows struct {
	payment store.Payment
	webhook int64
	wallet  uuid.UUID
	run     store.Run
}

const hostile = `<script>alert("1")</script>`

// seedConsole fills every page, with hostile text wherever a provider or customer writes.
func seedConsole(t *testing.T, w *webtest) consoleRows {
	t.Helper()
	var r consoleRows
	since, next := storetest.Epoch, storetest.Epoch.Add(2*time.Hour)
	r.wallet = w.db.SeedWallet(t, hostile, "EUR", 1000, -200)
	r.payment = w.db.SeedPayment(t, func(p *store.Payment) {
		p.OrderRef, p.CustomerName, p.Description, p.ProviderMessage = hostile, hostile, hostile, hostile
		p.StatusReason, p.UnknownSince, p.UnknownSeen, p.WalletID = "timeout_after_send", &since, true, &r.wallet
		p.NextCheckAt, p.NextCheckWhy = &next, "reconcile"
		p.NeedsReview = []string{store.ReviewAmountMismatch, store.ReviewAged}
	})
	a := w.db.SeedAttempt(t, r.payment, func(a *store.Attempt) {
		a.HTTPStatus, a.ContentType, a.Server, a.ResponseBody = 502, "text/html", hostile, []byte("<html>"+hostile+"</html>")
	})
	w.db.SeedEvent(t, r.payment, store.TimelineEvent{Kind: "created", Source: "api", Actor: "client:test", ToStatus: store.Pending})
	w.db.SeedEvent(t, r.payment, store.TimelineEvent{At: storetest.Epoch.Add(6 * time.Second), Kind: "attempt_finished", Source: "job",
		Actor: "system:charge", FromStatus: store.Pending, ToStatus: store.Unknown, Reason: hostile, AttemptID: &a.ID,
		Evidence: map[string]any{"body": hostile}})
	w.db.SeedObject(t, r.payment, func(o *store.ProviderObject) { o.Amount, o.Status = 4800, hostile })
	r.webhook = w.db.SeedWebhook(t, func(e *store.InboxEvent) {
		e.EventType, e.StateReason, e.PaymentID, e.Duplicates = hostile, hostile, &r.payment.ID, 2
		e.Raw, e.Headers = []byte(`{"a":"`+`<script>`+`","card_number":"4111111111111111"}`), map[string]any{"X-Evil": []string{hostile}}
	})
	r.run = w.db.SeedRun(t, func(r *store.Run) { r.Matched, r.TheirsOnly = 3, 1 })
	w.db.Exec(t, `INSERT INTO reconciliation_items (run_id, finding, object_id, detail, at) VALUES ($1, 'theirs_only', $2, $2, $3)`,
		r.run.ID, hostile, storetest.Epoch)
	w.db.Exec(t, `INSERT INTO audit_log (at, actor, action, target, before, after, reason) VALUES ($1, 'user:x', 'payment.resolve',
		'payment:'||$2::text, '{"status":"unknown"}', '{"status":"failed"}', $3)`, storetest.Epoch, r.payment.ID, hostile)
	w.db.Exec(t, `INSERT INTO river_job (state, max_attempts, kind, queue, args) VALUES ('available', 5, 'charge', 'charge_atlas', '{}')`)
	w.db.Exec(t, `INSERT INTO provider_state (provider, charges_paused, paused_reason, paused_at) VALUES ('borealis', true, $1, now())`, hostile)
	return r
}

// paths lists every page of this half of the console.
func (r consoleRows) paths() []string {
	p, wh := views.PaymentPath(r.payment.ID.String()), views.WebhookPath(r.webhook)
	return []string{"/payments", "/payments?status=unknown&provider=atlas&currency=EUR&text=%3Cscript", p,
		p + "/reconcile", p + "/resolve?to=succeeded", p + "/resolve?to=failed", "/queue", "/queues", "/webhook-log", wh, wh + "/reapply",
		"/reconciliation", views.RunPath(r.run.ID.String()), "/reconciliation/start/atlas", "/reconciliation/start/borealis",
		"/wallets", views.WalletPath(r.wallet.String()), "/audit", "/search?q=" + url.QueryEscape(hostile), "/search",
		"/search?q=49.00", "/checkout", "/demo/faults"}
}

func TestEveryPageEscapesWhatOthersWrote(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas, inDemo)
	rows := seedConsole(t, w)
	b := w.signedIn(store.RoleOperator)
	for _, path := range rows.paths() {
		res := b.get(path)
		require.Contains(t, []int{http.StatusOK, http.StatusSeeOther}, res.StatusCode, "%s: %s", path, res.body)
		require.NotContains(t, res.body, `<script>alert`, path)
		require.NotContains(t, res.body, "4111111111111111", path)
		require.NotRegexp(t, `style="`, res.body, "inline styles are against the policy: "+path)
	}
}

func TestEveryPageSpeaksEveryLanguage(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas, inDemo)
	rows := seedConsole(t, w)
	b := w.signedIn(store.RoleOperator)
	for _, l := range messages.Langs {
		b.cookies[cookieLang] = string(l)
		for _, path := range rows.paths() {
			res := b.get(path)
			if res.StatusCode == http.StatusSeeOther {
				continue
			}
			require.Contains(t, res.body, fmt.Sprintf(`<html lang="%s"`, l), path)
			require.NotContains(t, res.body, "&lt;no value&gt;", "a placeholder without a value: "+path)
			require.NotContains(t, res.body, "<no value>", path)
		}
	}
}

func TestLivePartsComeAloneAndOnlyWhenTheyMoved(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	rows := seedConsole(t, w)
	b := w.signedIn(store.RoleSupport)
	for _, path := range []string{"/payments", views.PaymentPath(rows.payment.ID.String()), "/queue", "/queues", "/webhook-log",
		"/reconciliation", views.RunPath(rows.run.ID.String()), "/wallets", views.WalletPath(rows.wallet.String())} {
		res := b.htmx(path)
		require.Equal(t, http.StatusOK, res.StatusCode, path)
		require.NotContains(t, res.body, "<html", path)
		require.Contains(t, res.body, `hx-get="`+path, path)
		rev := res.Header.Get(headerRev)
		require.Contains(t, res.body, `data-rev="`+rev+`"`)
		res = b.send(http.MethodGet, path, nil, http.Header{"Hx-Request": {"true"}, headerRev: {rev}})
		require.Equal(t, http.StatusNoContent, res.StatusCode, path)
	}
}

func TestPagesOweEverybodyTheSame(t *testing.T) {
	t.Parallel()
	gone := uuid.NewString()
	for name, p := range map[string]page{
		"payments":  {path: "/payments", bad: "/payments?status=lost"},
		"payment":   {path: "payment", absent: "/payments/" + gone},
		"no uuid":   {path: "payment", absent: "/payments/1"},
		"reconcile": {path: "payment/reconcile", absent: "/payments/" + gone + "/reconcile"},
		"resolve":   {path: "payment/resolve?to=failed", role: store.RoleOperator, absent: "/payments/" + gone + "/resolve", bad: "payment/resolve?to=pending"},
		"queue":     {path: "/queue", bad: "/queue?provider=none"},
		"webhooks":  {path: "/webhook-log", bad: "/webhook-log?state=lost"},
		"webhook":   {path: "webhook", absent: "/webhook-log/999999"},
		"reapply":   {path: "webhook/reapply", role: store.RoleOperator, absent: "/webhook-log/x/reapply"},
		"queues":    {path: "/queues"},
		"runs":      {path: "/reconciliation", bad: "/reconciliation?before=yesterday"},
		"run":       {path: "run", absent: "/reconciliation/" + gone, bad: "run?finding=none"},
		"start run": {path: "/reconciliation/start/atlas", role: store.RoleOperator, absent: "/reconciliation/start/none"},
		"wallets":   {path: "/wallets", bad: "/wallets?owner=" + strings.Repeat("x", 201)},
		"wallet":    {path: "wallet", absent: "/wallets/" + gone, bad: "wallet?before=-1"},
		"audit":     {path: "/audit", bad: "/audit?before=x"},
		"search":    {path: "/search?q=x", bad: "/search?q=" + strings.Repeat("x", 201)},
		"export":    {path: "/payments.csv", bad: "/payments.csv?from=31.3.2026"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWebtest(t, askableAtlas)
			rows := seedConsole(t, w)
			if p.role == "" {
				p.role = store.RoleSupport
			}
			if name == "export" {
				p.absent = ""
			}
			for _, path := range []*string{&p.path, &p.bad} {
				for word, real := range map[string]string{"payment": views.PaymentPath(rows.payment.ID.String()), "run": views.RunPath(rows.run.ID.String()),
					"webhook": views.WebhookPath(rows.webhook), "wallet": views.WalletPath(rows.wallet.String())} {
					if rest, ok := strings.CutPrefix(*path, word); ok {
						*path = real + rest
					}
				}
			}
			p.method = http.MethodGet
			w.exercise(p)
		})
	}
}

// formOf reads the hidden fields of the first confirm form on a page.
func formOf(t *testing.T, body string) url.Values {
	t.Helper()
	form := url.Values{}
	for _, part := range strings.Split(body, `<input type="hidden" name="`)[1:] {
		name, rest, _ := strings.Cut(part, `"`)
		value, _, _ := strings.Cut(strings.TrimPrefix(rest, ` value="`), `"`)
		if name != "back" {
			form.Set(name, value)
		}
	}
	require.NotEmpty(t, form.Get("action_id"))
	return form
}

// sims is a simulator's control API that remembers what it was told.
func sims(t *testing.T, answer string, status int) (*httptest.Server, func() string) {
	t.Helper()
	got := make(chan string, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			body := make([]byte, r.ContentLength)
			_, _ = r.Body.Read(body)
			got <- r.URL.Path + " " + string(body)
		}
		rw.WriteHeader(status)
		_, _ = rw.Write([]byte(answer))
	}))
	t.Cleanup(srv.Close)
	return srv, func() string { return <-got }
}

func version(p store.Payment) string { return strconv.FormatInt(p.Version, 10) }
