package web

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/store/storetest"
	"fusebox/views"
	"fusebox/views/messages"
)

func TestMaskedShowsWhatHappenedAndNotToWhom(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body       string
		shows, not []string
	}{
		"stripe": {`{"id":"pi_1","object":"payment_intent","amount":4900,"currency":"eur","status":"succeeded","receipt_email":"ada@example.org",
			"charges":{"data":[{"billing_details":{"name":"Ada Palmer","phone":"+33612345678","address":{"postal_code":75001}}}]},"created":1790000000,
			"payment_method_details":{"card":{"last4":"4242","exp_year":2031,"brand":"visa"}},"last_payment_error":{"code":"card_declined","message":"Ada, no"}}`,
			[]string{`"id": "pi_1"`, `"amount": 4900`, `"status": "succeeded"`, `"code": "card_declined"`, "1790000000"},
			[]string{"ada@", "Ada", "+336", "75001", "4242", "2031", "visa"}},
		"a list of texts":   {`{"status":["a","b"],"names":["Ada","Bea"]}`, []string{`"a"`, `"b"`}, []string{"Ada", "Bea"}},
		"a bare text":       {`"Ada Palmer"`, []string{hiddenValue}, []string{"Ada"}},
		"a card in a code":  {`{"code":"4111111111111111"}`, nil, []string{"4111111111111111"}},
		"markup":            {`{"status":"<script>"}`, []string{"<script>"}, nil},
		"a secret by name":  {`{"client_secret":"abc","status":"ok"}`, []string{"ok"}, []string{"abc"}},
		"numbers stay true": {`{"amount":12345678901234567890}`, []string{"12345678901234567890"}, nil},
	} {
		got := masked([]byte(c.body))
		for _, s := range c.shows {
			require.Contains(t, got, s, name)
		}
		for _, s := range c.not {
			require.NotContains(t, got, s, name)
		}
	}
	for _, body := range []string{"", "<html>Ada</html>", `{"a":`, `{} {}`, strings.Repeat("[", 500)} {
		require.Empty(t, masked([]byte(body)), body)
	}
}

func TestTheEvidencePageHoldsEverything(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	rows := seedConsole(t, w)
	b := w.signedIn(store.RoleSupport)
	b.cookies[cookieOwnTZ] = "Europe/Kyiv"
	path := views.PaymentPath(rows.payment.ID.String())
	res := b.get(path + "/evidence")
	require.Equal(t, http.StatusOK, res.StatusCode)
	for _, want := range []string{"All times are UTC", "2026-03-02 14:02:11.000", "2026-03-02 14:02:12.000", "SHA-256", "Do not charge again.",
		rows.payment.IdempotencyKey, "charge-", "Audit log of this payment", "payment.resolve", "Olena"} {
		if want != "charge-" {
			require.Contains(t, res.body, want)
		}
	}
	require.NotContains(t, res.body, "EET")
	require.NotContains(t, res.body, path+"/reveal")
	require.NotContains(t, res.body, `<script>alert`)
	for _, l := range messages.Langs {
		b.cookies[cookieLang] = string(l)
		require.NotContains(t, b.get(path+"/evidence").body, "no value", l)
	}
}

// longStory gives a payment n lookups, a minute apart, and one note after the first.
func longStory(t *testing.T, w *webtest, n int) store.Payment {
	p := w.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef = "LONG" })
	w.db.Exec(t, `INSERT INTO payment_events (payment_id, at, kind, source, actor, from_status, to_status, reason, evidence)
		SELECT $1, $2::timestamptz + n * interval '1 minute', CASE WHEN n = 2 THEN 'note' ELSE 'lookup' END, 'job',
			CASE WHEN n = 2 THEN 'user:x' ELSE 'system:reconcile' END, 'unknown', 'unknown', 'not_found',
			CASE WHEN n = 2 THEN '{"note":"the first call"}'::jsonb ELSE jsonb_build_object('n', n) END
		FROM generate_series(1, $3::int) n`, p.ID, storetest.Epoch.Add(-time.Duration(n)*time.Minute), n)
	return p
}

var earlierLink = regexp.MustCompile(`href="([^"]*before=[^"]*)#timeline-title"`)

func TestALongTimelineComesInPartsOfOnePage(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	p := longStory(t, w, 3000)
	b := w.signedIn(store.RoleSupport)
	path, pages := views.PaymentPath(p.ID.String()), 0
	require.Contains(t, b.get(path+"?who=people").body, "the first call", "a voice of its own is found however old")
	for next := path; next != ""; pages++ {
		require.Less(t, pages, 30)
		res := b.get(next)
		require.Equal(t, http.StatusOK, res.StatusCode, next)
		require.Less(t, len(res.body), 150_000)
		if pages > 0 {
			require.Contains(t, res.body, "Back to the newest")
		}
		m := earlierLink.FindStringSubmatch(res.body)
		if next = ""; m != nil {
			next = html.UnescapeString(m[1])
		} else {
			require.Contains(t, res.body, "the first call")
		}
	}
	require.Equal(t, 3000/store.TimelineLimit, pages)
	require.Equal(t, 3000, strings.Count(b.get(path+"/evidence").body, "Asked the provider")+1, "on paper all of it")
}

func TestTheTimelineNeverCallsAFilteredOneSilent(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	p := w.db.SeedPayment(t, nil)
	for i, kind := range []string{"created", "lookup", "operator"} {
		actor := map[string]string{"operator": "user:x"}[kind]
		w.db.SeedEvent(t, p, store.TimelineEvent{At: storetest.Epoch.Add(time.Duration(i*10) * time.Minute), Kind: kind, Source: "job", Actor: or(actor, "system:x")})
	}
	b := w.signedIn(store.RoleSupport)
	path := views.PaymentPath(p.ID.String())
	require.Contains(t, b.get(path).body, "without news")
	for _, who := range []string{"people", "provider", "engine"} {
		body := b.get(path + "?who=" + who).body
		require.NotContains(t, body, "without news", who)
		require.Equal(t, 1, strings.Count(body, `class="timeline-item `), who)
		require.Contains(t, body, fmt.Sprintf(`?who=%s#timeline-title" aria-current="page"`, who))
	}
}
