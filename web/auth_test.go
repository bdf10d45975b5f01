package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/store"
)

const testPassword = "correct horse battery"

// newUser adds a person who can sign in through the form.
func (w *webtest) newUser(email string, role store.Role) store.User {
	w.t.Helper()
	u, err := w.store.CreateUser(w.t.Context(), store.NewUser{Email: email, Role: role, Password: testPassword}, store.System("test"))
	require.NoError(w.t, err)
	return u
}

func credentials(email, password string) url.Values {
	return url.Values{"email": {email}, "password": {password}}
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	u := w.newUser("olena@example.org", store.RoleOperator)
	b := w.stranger()

	res := b.get("/signin?next=/payments%3Fstatus%3Dunknown")
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Contains(t, res.body, `value="/payments?status=unknown"`)
	require.Equal(t, "no-store", res.Header.Get("Cache-Control"))

	form := credentials(" Olena@Example.org ", testPassword)
	form.Set("next", "/payments?status=unknown")
	res = b.post("/signin", form)
	require.Equal(t, http.StatusSeeOther, res.StatusCode)
	require.Equal(t, "/payments?status=unknown", res.Header.Get("Location"))

	seen, err := w.store.User(t.Context(), u.ID)
	require.NoError(t, err)
	require.NotNil(t, seen.LastSeenAt)
	var actor string
	require.NoError(t, w.db.Pool.QueryRow(t.Context(), `SELECT actor FROM audit_log WHERE action = 'user.sign_in'`).Scan(&actor))
	require.Equal(t, "user:"+u.ID.String(), actor)
	require.Equal(t, http.StatusSeeOther, b.get("/signin").StatusCode, "already signed in: goes on")
}

func TestTheSessionCookie(t *testing.T) {
	t.Parallel()
	for scheme, name := range map[string]string{"http": "fusebox_session", "https": "__Host-fusebox_session"} {
		w := newWebtest(t, func(c *Config) { c.PublicURL = scheme + "://fusebox.test" })
		w.newUser("olena@example.org", store.RoleSupport)
		res := w.stranger().post("/signin", credentials("olena@example.org", testPassword))
		require.Len(t, res.Cookies(), 1)
		c := res.Cookies()[0]
		require.Equal(t, name, c.Name)
		require.True(t, c.HttpOnly)
		require.Equal(t, scheme == "https", c.Secure)
		require.Equal(t, http.SameSiteLaxMode, c.SameSite)
		require.Equal(t, "/", c.Path)
		require.Empty(t, c.Domain)

		var plain int
		require.NoError(t, w.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM sessions WHERE token = $1`, c.Value).Scan(&plain))
		require.Zero(t, plain, "the table holds a hash of the token")
	}
}

func TestSigningInChangesTheToken(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.newUser("olena@example.org", store.RoleSupport)
	b := w.signedIn(store.RoleSupport) // a session somebody planted
	planted := b.cookies["fusebox_session"]
	b.post("/signin", credentials("olena@example.org", testPassword))
	require.NotEqual(t, planted, b.cookies["fusebox_session"])
	old := w.stranger()
	old.cookies["fusebox_session"] = planted
	require.Equal(t, http.StatusOK, old.get("/signin").StatusCode, "the planted token is worth nothing")
}

func TestSignInRefusals(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.newUser("olena@example.org", store.RoleSupport)
	w.newUser("gone@example.org", store.RoleOperator)
	require.NoError(t, w.store.SetDisabled(t.Context(), "gone@example.org", true, store.System("test")))

	bodies := map[string]bool{}
	for _, form := range []url.Values{
		credentials("olena@example.org", "wrong password"),
		credentials("nobody@example.org", testPassword),
		credentials("gone@example.org", testPassword),
		credentials("", ""),
		credentials("olena@example.org", strings.Repeat("x", 60_000)),
	} {
		b := w.stranger()
		res := b.post("/signin", form)
		require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)
		require.Empty(t, b.cookies)
		bodies[alertOf(res.body)] = true
	}
	require.Len(t, bodies, 1, "every refusal reads the same")
}

// alertOf cuts the alert out of a page.
func alertOf(body string) string {
	_, rest, _ := strings.Cut(body, `role="alert"`)
	text, _, _ := strings.Cut(rest, "<form")
	return text
}

func TestSignInSaysWhenTheDatabaseIsGone(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.breakDB()
	res := w.stranger().post("/signin", credentials("olena@example.org", testPassword))
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	require.NotEmpty(t, res.Header.Get("Retry-After"))
}

func TestSignInIsLimitedPerAddressAndEmail(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	g := newSignInGuard(func() time.Time { return now })
	for range guardPerPair {
		require.Zero(t, g.wait("203.0.113.9", "olena@example.org"))
		g.failed("203.0.113.9", "olena@example.org")
	}
	require.Equal(t, guardWindow, g.wait("203.0.113.9", "olena@example.org"))
	require.Zero(t, g.wait("203.0.113.9", "petro@example.org"), "another person from there")
	require.Zero(t, g.wait("198.51.100.7", "olena@example.org"), "the person from elsewhere")

	now = now.Add(guardWindow)
	require.Zero(t, g.wait("203.0.113.9", "olena@example.org"), "after the window")
	g.failed("203.0.113.9", "olena@example.org")
	require.Zero(t, g.wait("203.0.113.9", "olena@example.org"), "a new window counts from one")
}

func TestSignInGuardStopsSprayingAndForgetsSuccess(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	g := newSignInGuard(func() time.Time { return now })
	for i := range guardPerIP {
		g.failed("203.0.113.9", strings.Repeat("x", i)+"@example.org")
	}
	require.Positive(t, g.wait("203.0.113.9", "olena@example.org"), "many people from one address")

	for range guardPerPair - 1 {
		g.failed("198.51.100.7", "olena@example.org")
	}
	g.succeeded("198.51.100.7", "olena@example.org")
	g.failed("198.51.100.7", "olena@example.org")
	require.Zero(t, g.wait("198.51.100.7", "olena@example.org"))
}

func TestSignInGuardKeepsItsMemoryBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	g := newSignInGuard(func() time.Time { return now })
	for i := range guardEntries {
		g.failed("10.0."+string(rune('0'+i%10)), strings.Repeat("y", i%97)+string(rune('a'+i%26)))
		now = now.Add(time.Millisecond)
	}
	require.LessOrEqual(t, len(g.tries), guardEntries+2)
	for i := range 50 {
		g.tries[strings.Repeat("z", i)] = &tries{count: 1, since: now}
	}
	now = now.Add(2 * guardWindow)
	g.mu.Lock()
	g.evict(now)
	g.mu.Unlock()
	require.Empty(t, g.tries, "finished windows go")
}

func TestTheFormSaysWaitWhenTriedTooOften(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.newUser("olena@example.org", store.RoleSupport)
	for range guardPerPair {
		w.stranger().post("/signin", credentials("olena@example.org", "wrong password"))
	}
	res := w.stranger().post("/signin", credentials("olena@example.org", testPassword))
	require.Equal(t, http.StatusTooManyRequests, res.StatusCode, "even with the right password")
	require.Equal(t, "900", res.Header.Get("Retry-After"))
	w.clock.advance(guardWindow)
	require.Equal(t, http.StatusSeeOther, w.stranger().post("/signin", credentials("olena@example.org", testPassword)).StatusCode)
}

func TestSignOut(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.signedIn(store.RoleAdmin)
	token := b.cookies["fusebox_session"]
	res := b.post("/signout", url.Values{})
	require.Equal(t, http.StatusSeeOther, res.StatusCode)
	require.Equal(t, "/signin", res.Header.Get("Location"))
	require.Empty(t, b.cookies)

	b.cookies["fusebox_session"] = token
	require.Equal(t, http.StatusOK, b.get("/signin").StatusCode, "the old token is dead")
	require.Equal(t, http.StatusSeeOther, w.stranger().post("/signout", nil).StatusCode, "twice is no error")
}

// signedInStill reports whether the session of b is alive.
func signedInStill(b *browser) bool { return b.get("/signin").StatusCode == http.StatusSeeOther }

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	for name, end := range map[string]func(b *browser){
		"disabled": func(b *browser) {
			require.NoError(t, w.store.SetDisabled(t.Context(), b.user.Email, true, store.System("test")))
		},
		"another password": func(b *browser) {
			require.NoError(t, w.store.SetPassword(t.Context(), b.user.Email, testPassword, store.System("test")))
		},
		"deleted":       func(b *browser) { w.db.Exec(t, `DELETE FROM users WHERE id = $1`, b.user.ID) },
		"expired":       func(*browser) { w.db.Exec(t, `UPDATE sessions SET expiry = now() - interval '1 s'`) },
		"nobody's junk": func(b *browser) { b.cookies["fusebox_session"] = "x\"; DROP TABLE sessions" },
	} {
		b := w.signedIn(store.RoleOperator)
		require.True(t, signedInStill(b), name)
		end(b)
		require.False(t, signedInStill(b), name)
	}
}

func TestIdleSessionsEndAndLiveRefreshesAreNoActivity(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	busy, idle := w.signedIn(store.RoleSupport), w.signedIn(store.RoleSupport)
	for range 5 {
		w.clock.advance(sessionIdle / 4)
		require.True(t, signedInStill(busy))
		idle.htmx("/signin") // the page refreshes itself; nobody is there
	}
	require.True(t, signedInStill(busy))
	require.False(t, signedInStill(idle))
}

func TestARoleChangeCountsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.server.console.GET("/test/operators", okHandler, w.server.requireRole(store.RoleOperator))
	b, _ := w.signedIn(store.RoleAdmin), w.signedIn(store.RoleAdmin)
	require.Equal(t, http.StatusOK, b.get("/test/operators").StatusCode)
	require.NoError(t, w.store.SetRole(t.Context(), b.user.Email, store.RoleSupport, store.System("test")))
	res := b.get("/test/operators")
	require.Equal(t, http.StatusSeeOther, res.StatusCode, "the session ended with the role")
	require.Contains(t, res.Header.Get("Location"), "/signin")
}

func TestRequireRoleNamesTheRole(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.server.console.GET("/test/operators", okHandler, w.server.requireRole(store.RoleOperator))
	res := w.signedIn(store.RoleSupport).get("/test/operators")
	require.Equal(t, http.StatusForbidden, res.StatusCode)
	require.Contains(t, strings.ToLower(res.body), "operator")
	require.Equal(t, http.StatusSeeOther, w.stranger().get("/test/operators").StatusCode)
}

func TestSignedOutReadersAreSentToTheForm(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.server.console.GET("/test/page", okHandler)
	w.server.console.POST("/test/page", okHandler)
	w.server.console.GET("/live/test", okHandler)

	res := w.stranger().get("/test/page?a=b&c=d")
	require.Equal(t, "/signin?next=%2Ftest%2Fpage%3Fa%3Db%26c%3Dd", res.Header.Get("Location"))
	res = w.stranger().post("/test/page", url.Values{})
	require.Equal(t, "/signin", res.Header.Get("Location"), "a form cannot be gone back to")

	b := w.stranger()
	b.header.Set("HX-Current-URL", "http://fusebox.test/payments?status=unknown")
	res = b.htmx("/test/page")
	require.Equal(t, http.StatusUnauthorized, res.StatusCode)
	require.Equal(t, "/signin?next=%2Fpayments%3Fstatus%3Dunknown", res.Header.Get("HX-Redirect"))

	res = w.stranger().get("/live/test")
	require.Equal(t, http.StatusUnauthorized, res.StatusCode, "an EventSource follows no redirect to a form")
}

func TestSafeNext(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"/payments?status=unknown": "/payments?status=unknown", "/": "/", "": "/",
		"https://evil.example": "/", "//evil.example": "/", `/\evil.example`: "/", "/\t/evil.example": "/",
		"javascript:alert(1)": "/", "payments": "/", "/signin?next=/": "/", "/signout": "/", "%zz": "/",
	} {
		require.Equal(t, want, safeNext(in), in)
	}
}

func TestFlashesAreShownOnce(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.server.console.POST("/test/act", func(c echoContext) error {
		w.server.flash(c, "ok", "Reconciled.")
		w.server.flash(c, "warning", "Slowly.")
		return c.Redirect(http.StatusSeeOther, "/test/after")
	})
	w.server.console.GET("/test/after", func(c echoContext) error {
		return c.JSON(http.StatusOK, w.server.takeFlashes(c))
	})
	b := w.signedIn(store.RoleSupport)
	b.post("/test/act", url.Values{})
	require.JSONEq(t, `[{"Kind":"ok","Text":"Reconciled."},{"Kind":"warning","Text":"Slowly."}]`, b.get("/test/after").body)
	require.Equal(t, "null\n", b.get("/test/after").body)
}
