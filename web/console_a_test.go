package web

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"fusebox/store"
)

func TestPreferencesAreKeptInCookiesAndOnThePerson(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.signedIn(store.RoleSupport)
	for _, form := range []url.Values{{"lang": {"uk"}}, {"theme": {"dark"}}, {"zone": {"UTC"}}, {"keys": {"off"}}} {
		form.Set("back", "/alerts?severity=critical")
		res := b.post("/preferences", form)
		require.Equal(t, http.StatusSeeOther, res.StatusCode)
		require.Equal(t, "/alerts?severity=critical", res.Header.Get("Location"))
	}
	u, err := w.store.User(t.Context(), b.user.ID)
	require.NoError(t, err)
	require.Equal(t, store.Preferences{Locale: "uk", Theme: "dark", TimeZone: "UTC"},
		store.Preferences{Locale: u.Locale, Theme: u.Theme, TimeZone: u.TimeZone})

	elsewhere := w.stranger() // another browser of the same person
	elsewhere.cookies[w.server.sessions.Cookie.Name] = w.session(u)
	res := elsewhere.get("/alerts")
	require.Contains(t, res.body, `<html lang="uk" data-theme="dark"`)
	require.Contains(t, b.get("/alerts").body, `data-shortcuts="false"`, "shortcuts belong to the keyboard, so to the browser")
}

func TestPreferencesWorkBeforeSigningIn(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.stranger()
	res := b.post("/preferences", url.Values{"lang": {"fr"}, "back": {"/signin?next=%2Falerts"}})
	require.Equal(t, "/signin?next=%2Falerts", res.Header.Get("Location"))
	require.Contains(t, b.get("/signin").body, "Se connecter")
}

func TestPreferencesRefuseWhatIsNoChoice(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.signedIn(store.RoleSupport)
	for _, form := range []url.Values{{"lang": {"xx"}}, {"theme": {"pink"}}, {"zone": {"Mars/Base"}}, {"keys": {"maybe"}}} {
		require.Equal(t, http.StatusUnprocessableEntity, b.post("/preferences", form).StatusCode, form.Encode())
	}
	u, err := w.store.User(t.Context(), b.user.ID)
	require.NoError(t, err)
	require.Empty(t, u.Locale+u.Theme+u.TimeZone)
}

func TestPreferencesNeverLeadToAnotherSite(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	for _, back := range []string{"https://evil.example", "//evil.example/signin", "/\\evil.example", "javascript:alert(1)", "", "http:/signin"} {
		res := w.stranger().post("/preferences", url.Values{"lang": {"en"}, "back": {back}})
		require.Contains(t, []string{"/", "/signin"}, res.Header.Get("Location"), back)
	}
}

func TestTimesFollowTheBrowsersZoneUnlessUTCIsChosen(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.signedIn(store.RoleSupport)
	require.Contains(t, b.get("/alerts").body, "<span>UTC</span>")
	b.cookies[cookieOwnTZ] = url.QueryEscape("Europe/Kyiv")
	require.Contains(t, b.get("/alerts").body, "<span>EET</span>")
	b.cookies[cookieZone] = "UTC"
	require.Contains(t, b.get("/alerts").body, "<span>UTC</span>")
	for _, bad := range []string{"Local", "../../etc/passwd", "No/Where", "%zz"} {
		b.cookies[cookieZone], b.cookies[cookieOwnTZ] = "mine", bad
		require.Contains(t, b.get("/alerts").body, "<span>UTC</span>", bad)
	}
}

func TestFrameNamesThePersonAndMarksThePage(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	body := w.signedIn(store.RoleSupport).get("/alerts").body
	require.Contains(t, body, "Olena")
	require.Contains(t, body, `<a href="/alerts" aria-current="page">`)
	require.Contains(t, body, `<a class="skip" href="#content">`)
	require.NotContains(t, body, " style=")
	require.NotContains(t, body, "<script>")
}

func TestFlashWaitsForAWholePage(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.server.console.GET("/test-flash", func(c echo.Context) error {
		w.server.flash(c, "ok", "It is done.")
		return c.NoContent(http.StatusOK)
	})
	b := w.signedIn(store.RoleSupport)
	b.get("/test-flash")
	require.NotContains(t, b.htmx("/alerts").body, "It is done.")
	require.Contains(t, b.get("/alerts").body, "It is done.")
	require.NotContains(t, b.get("/alerts").body, "It is done.")
}
