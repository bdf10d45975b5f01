package web

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/store"
	"fusebox/views"
	"fusebox/web/browsertest"
)

// notPages are GET routes below which nothing is a page.
var notPages = []string{"/api/", "/static", "/live", "/metrics", "/health", "/translate", "/demo", "/jobs", "/river"}

// elsewhere are routes whose pages need rows of their own, which the browser tests of
// their area make.
var elsewhere = []string{"/captures/:id", "/settings/keys/:id", "/settings/factors/passkeys/:id", "/settings/sessions/:id", "/settings/users/:id/:change"}

// pageRows are rows that every page needs.
type pageRows struct {
	consoleRows
	refund, receipt, bulk, user string
}

// seedPages is seedConsole with a refund nobody has an answer to, a purchase, a bulk
// action of that person and an open circuit.
func seedPages(t *testing.T, w *webtest, by *browser) pageRows {
	t.Helper()
	r := pageRows{consoleRows: seedConsole(t, w)}
	r.refund = w.unknownRefund(w.paidPayment(), 1900).ID.String()
	r.receipt = w.paidPayment(func(p *store.Payment) { p.ClientID = clientCheckout }).ID.String()
	bulk, err := w.store.FreezeBulk(t.Context(), store.BulkSet{Address: "/payments", Payments: []uuid.UUID{r.payment.ID}},
		store.Actor{Kind: "user", ID: by.user.ID.String(), Name: by.user.Name})
	require.NoError(t, err)
	w.seedAlerts("critical", "warning")
	w.db.Exec(t, `UPDATE alerts SET dedupe_key = 'config_alarm:atlas:then' WHERE id = 1`) // whose cause is gone
	r.bulk, r.user = bulk.ID.String(), by.user.ID.String()
	w.circuits.set(breaker.Snapshot{Key: breaker.Key{Name: "borealis", Class: "charge"}, State: breaker.Open, Epoch: "1",
		Since: w.clock.now().Add(-time.Minute), OpenReason: "failures", OpenUntil: w.clock.now().Add(time.Minute)})
	return r
}

// samples fill the parameters of routes, by what the path before them ends in; a route
// that none fits is a page nobody looks at here, and fails the test.
func (r pageRows) samples() map[string]string {
	return map[string]string{
		"/payments/:id": r.payment.ID.String(), "/queue/:id": r.payment.ID.String(), "/alerts/:id": "1", "/webhook-log/:id": strconv.FormatInt(r.webhook, 10), "/wallets/:id": r.wallet.String(),
		"/reconciliation/:id": r.run.ID.String(), "/refunds/:id": r.refund, "/checkout/:id": r.receipt, "/bulk/:id": r.bulk, "/settings/users/:id": r.user, ":provider": "atlas", ":class": "charge", ":name": "atlas", ":lang": "en",
	}
}

// extraPages are addresses that show something else than the bare route does.
func (r pageRows) extraPages() []string {
	payment := "/payments/" + r.payment.ID.String()
	return []string{"/payments?status=unknown&provider=atlas&text=%3Cscript", payment + "/resolve?to=succeeded", payment + "/resolve?to=failed",
		views.ObjectPath("atlas", hostile), "/search?q=49.00", "/search?q=nothing+like+it", "/payments/nothing", "/reconciliation/start/borealis", "/checkout", "/demo/faults", "/alerts/acknowledge?up_to=2"}
}

// consolePages are the addresses of every page of the console: every GET route that
// answers a whole page, so that a new page is looked at from its first day.
func consolePages(t *testing.T, w *webtest, b *browser, rows pageRows) []string {
	t.Helper()
	samples := rows.samples()
	paths := rows.extraPages()
	for _, r := range w.server.echo.Routes() {
		notPage := func(prefix string) bool { return strings.HasPrefix(r.Path, prefix) }
		if r.Method != http.MethodGet || strings.HasSuffix(r.Path, ".csv") || strings.Contains(r.Path, "*") || slices.ContainsFunc(notPages, notPage) {
			continue
		}
		path := r.Path
		for param, value := range samples {
			if i := strings.Index(path, param); i >= 0 && strings.HasPrefix(path[i+len(param):]+"/", "/") {
				path = path[:i] + param[:strings.Index(param, ":")] + value + path[i+len(param):]
			}
		}
		if slices.ContainsFunc(elsewhere, notPage) {
			continue
		}
		if strings.Contains(path, ":") {
			t.Errorf("no sample for the parameters of %s: add one to samples", r.Path)
			continue
		}
		if res := b.get(path); res.StatusCode == http.StatusOK && strings.Contains(res.body, "<html") {
			paths = append(paths, path)
		} else if res.StatusCode >= 500 {
			t.Errorf("%s answers %d", path, res.StatusCode)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// TestBrowserPagesAreForEverybody opens every page of the console, with hostile text
// wherever a provider or a customer writes, in four languages, light and dark, wide and
// narrow. axe-core finds nothing, nothing scrolls sideways, no hostile script runs, and
// the browser had to stop nothing (a Tab fails for what the policy stopped).
func TestBrowserPagesAreForEverybody(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas, inDemo)
	admin := w.signedIn(store.RoleAdmin)
	rows := seedPages(t, w, admin)
	base := w.serve()
	pages := consolePages(t, w, admin, rows)
	require.Greater(t, len(pages), 25)
	for half := range 2 { // a tab each: Chromium gives each a process
		t.Run("half "+strconv.Itoa(half), func(t *testing.T) {
			t.Parallel()
			b := browsertest.Open(t, base)
			reader := w.signedIn(store.RoleAdmin) // each with a language of their own
			b.Cookie(w.server.sessions.Cookie.Name, reader.cookies[w.server.sessions.Cookie.Name])
			for i, path := range pages {
				if i%2 != half {
					continue
				}
				if browsertest.Drawing() { // make screenshots: the looks themselves have been taken
					b.Pictures("page"+strings.NewReplacer("/", "-", "?", "-", "&", "-", "%", "").Replace(path), path)
					continue
				}
				browsertest.AxeEverywhere(t, b, path)
				if browsertest.Eval[bool](b, `!!document.querySelector("main script:not([src]), style, main [style], main [onclick], main [onerror]")`) {
					t.Errorf("%s has inline script or style", path)
				}
			}
		})
	}
}
