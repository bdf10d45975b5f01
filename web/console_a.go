package web

import (
	"context"
	"net/http"
	"net/url"
	"time"
	_ "time/tzdata" // people's zones must resolve on a machine without zone files

	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
	"fusebox/views/messages"
)

// consoleA holds what the frame, overview, provider and live pages keep.
type consoleA struct {
	hub   *hub
	cache *fragmentCache
	now   *nowBoard
}

// registerConsoleA adds their routes.
func registerConsoleA(s *Server) {
	s.viewContext = s.localeContext
	s.a.cache = newFragmentCache()
	s.a.hub = newHub(s.cfg.Store.Pool(), s.cfg.Log, s.a.cache.drop)
	s.a.now = newNowBoard(s)
	s.a.hub.watch(s.a.now.watch)
	s.onClose(s.a.hub.close)

	s.public.POST("/preferences", s.setPreferences)
	s.console.GET("/live", s.liveStream)
	s.console.GET("/live/revs", s.liveRevs)
	s.console.GET("/banners", s.bannersFragment)
	s.console.GET("/waiting", s.waitingFragment)
	s.console.GET("/", s.overviewPage)
	s.console.GET(views.PathProviders, s.providersPage)
	s.registerTuning()
	operator := s.console.Group("", s.requireRole(store.RoleOperator))
	s.registerAlerts(operator)
	s.registerCircuits(operator)
	operator.GET(views.PathProviders+"/:provider/resume", s.resumeConfirm)
	operator.POST(views.PathProviders+"/:provider/resume", s.resumeCharges)
}

// Cookies of a reader's taste; they hold no secret. The browser's own zone is set by
// app.js, the others by the preference form.
const (
	cookieLang  = "fusebox_lang"
	cookieTheme = "fusebox_theme"
	cookieZone  = "fusebox_zone" // "UTC" or "mine"
	cookieOwnTZ = "fusebox_tz"   // IANA name of the browser's zone
	cookieKeys  = "fusebox_keys" // "off" switches keyboard shortcuts off
)

// taste is how the reader of this request wants to read.
type taste struct {
	lang    messages.Lang
	theme   string
	utc     bool
	own     *time.Location // the reader's own zone; nil when unknown
	ownName string
	keys    bool
}

// tasteOf reads the person's settings, then cookies, then what the browser says.
func (s *Server) tasteOf(c echo.Context) taste {
	u := s.user(c)
	t := taste{
		lang:  messages.Negotiate(c.Request().Header.Get("Accept-Language"), u.Locale, cookie(c, cookieLang)),
		theme: cookie(c, cookieTheme),
		utc:   cookie(c, cookieZone) == "UTC",
		keys:  cookie(c, cookieKeys) != "off",
	}
	if u.Theme != "" {
		t.theme = u.Theme
	}
	if t.theme != "light" && t.theme != "dark" {
		t.theme = ""
	}
	if u.TimeZone != "" {
		t.utc = u.TimeZone == "UTC"
	}
	if u.Shortcuts != "" {
		t.keys = u.Shortcuts == "on"
	}
	if name := cookie(c, cookieOwnTZ); name != "" && len(name) < 64 && name != "Local" {
		if zone, err := time.LoadLocation(name); err == nil {
			t.own, t.ownName = zone, name
		}
	}
	return t
}

// zone is the zone of every time shown.
func (t taste) zone() *time.Location {
	if t.utc || t.own == nil {
		return time.UTC
	}
	return t.own
}

// localeContext is the context components render under.
func (s *Server) localeContext(c echo.Context) context.Context {
	t := s.tasteOf(c)
	return views.WithLocale(c.Request().Context(), views.Locale{Lang: t.lang, Zone: t.zone(), Now: s.cfg.Now(), Theme: t.theme})
}

func cookie(c echo.Context, name string) string {
	ck, err := c.Cookie(name)
	if err != nil {
		return ""
	}
	v, err := url.QueryUnescape(ck.Value)
	if err != nil {
		return ""
	}
	return v
}

// page fills the frame around a page: who, how they read, banners and flashes.
// active is the nav item; title is translated.
func (s *Server) page(c echo.Context, active, title string) views.Page {
	t, u := s.tasteOf(c), s.user(c)
	p := views.Page{
		Title: title, Active: active, UserName: u.Name, UserID: u.ID.String(), Role: string(u.Role),
		ZoneUTC: t.utc || t.own == nil, ZoneName: t.ownName, Keys: t.keys, Here: here(c),
		Query: c.QueryParam("q"), Demo: s.cfg.Demo != nil, Version: s.cfg.Version, Live: true,
	}
	if u.Email == "" {
		p.Live = false
		return p
	}
	ctx := s.viewContext(c)
	if d := s.cfg.Demo; d != nil {
		p.DemoNote = views.T(ctx, "layout.demo_money")
		if d.EmbeddedRedis {
			p.DemoNote = views.T(ctx, "layout.demo_redis")
		}
	}
	p.Banners = s.banners(ctx)
	p.Waiting = s.waiting(ctx)
	p.Alerts = s.openAlerts(ctx, s.a.hub.rev(store.TopicAlerts))
	if isHTMX(c) {
		return p // flashes wait for a whole page
	}
	for _, f := range s.takeFlashes(c) {
		p.Flashes = append(p.Flashes, components.FlashProps{Text: f.Text, Tone: flashTone(f.Kind)})
	}
	return p
}

func flashTone(kind string) components.Tone {
	switch kind {
	case "warning":
		return components.ToneWarn
	case "error":
		return components.ToneBad
	}
	return components.ToneOK
}

// here is where the preference form comes back to: this page, if it can be asked
// for again.
func here(c echo.Context) string {
	if r := c.Request(); r.Method == http.MethodGet {
		return r.URL.RequestURI()
	}
	return "/"
}

// setPreferences stores one switch of the preference form, in a cookie and, for a
// signed-in person, in their settings, and goes back to the page.
func (s *Server) setPreferences(c echo.Context) error {
	lang, theme := c.FormValue("lang"), c.FormValue("theme")
	zone, keys := c.FormValue("zone"), c.FormValue("keys")
	for _, f := range []struct {
		field, value, cookie string
		allowed              []string
	}{
		{"lang", lang, cookieLang, langNames()},
		{"theme", theme, cookieTheme, []string{"auto", "light", "dark"}},
		{"zone", zone, cookieZone, []string{"UTC", "mine"}},
		{"keys", keys, cookieKeys, []string{"on", "off"}},
	} {
		if f.value == "" {
			continue
		}
		if !contains(f.allowed, f.value) {
			return invalid(f.field, "is not one of the choices")
		}
		s.setCookie(c, f.cookie, f.value)
	}
	if u := s.user(c); u.Email != "" && lang+theme+zone+keys != "" {
		p := store.Preferences{Locale: or(lang, u.Locale), Theme: or(theme, u.Theme), TimeZone: or(zone, u.TimeZone),
			Shortcuts: or(keys, u.Shortcuts)}
		if err := s.cfg.Store.SetPreferences(c.Request().Context(), u.ID, p); err != nil {
			return err
		}
	}
	return c.Redirect(http.StatusSeeOther, safeBack(c.FormValue("back")))
}

// safeBack is safeNext that may also lead to the sign-in page.
func safeBack(back string) string {
	if u, err := url.Parse(back); err == nil && u.Host == "" && u.Path == "/signin" {
		return u.RequestURI()
	}
	return safeNext(back)
}

func (s *Server) setCookie(c echo.Context, name, value string) {
	c.SetCookie(&http.Cookie{Name: name, Value: url.QueryEscape(value), Path: "/", MaxAge: 365 * 24 * 3600,
		SameSite: http.SameSiteLaxMode, Secure: s.https})
}

func langNames() []string {
	names := make([]string, len(messages.Langs))
	for i, l := range messages.Langs {
		names[i] = string(l)
	}
	return names
}

func contains(list []string, v string) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

func or(v, fallback string) string {
	if v != "" {
		return v
	}
	return fallback
}
