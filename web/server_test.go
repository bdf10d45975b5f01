package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

func TestNewRefusesABadConfig(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	for name, change := range map[string]func(*Config){
		"no store":       func(c *Config) { c.Store = nil },
		"no registry":    func(c *Config) { c.Registry = nil },
		"no breaker":     func(c *Config) { c.Breaker = nil },
		"no URL":         func(c *Config) { c.PublicURL = "" },
		"relative URL":   func(c *Config) { c.PublicURL = "/console" },
		"foreign scheme": func(c *Config) { c.PublicURL = "ftp://fusebox.test" },
	} {
		cfg := w.server.cfg
		change(&cfg)
		_, err := New(cfg)
		require.Error(t, err, name)
	}
}

func TestEveryAnswerCarriesTheSecurityHeaders(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, func(c *Config) { c.PublicURL = "https://fusebox.test" })
	for _, path := range []string{"/signin", "/healthz", "/nowhere", "/api/v1/payments", "/api/nowhere", "/static/app.css"} {
		res := w.stranger().get(path)
		require.Equal(t, contentPolicy, res.Header.Get("Content-Security-Policy"), path)
		require.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"), path)
		require.NotEmpty(t, res.Header.Get("Referrer-Policy"), path)
		require.NotEmpty(t, res.Header.Get("Strict-Transport-Security"), path)
		require.Len(t, res.Header.Get("X-Request-Id"), 36, path)
	}
	require.NotContains(t, contentPolicy, "unsafe")
}

func TestNoHSTSWithoutTLS(t *testing.T) {
	t.Parallel()
	require.Empty(t, newWebtest(t).stranger().get("/signin").Header.Get("Strict-Transport-Security"))
}

func TestUnknownPathsAre404ToEverybody(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	require.Equal(t, http.StatusNotFound, w.stranger().get("/nowhere").StatusCode)
	require.Equal(t, http.StatusNotFound, w.signedIn(store.RoleSupport).get("/nowhere/at/all").StatusCode)
	res := w.stranger().get("/api/nowhere")
	require.Equal(t, http.StatusNotFound, res.StatusCode)
	require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
}

func TestHeadIsAnsweredLikeGet(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(newWebtest(t).server.Handler())
	defer srv.Close()
	res, err := http.Head(srv.URL + "/healthz")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode)
}

func TestCrossOriginPostsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	for name, header := range map[string]http.Header{
		"fetch metadata": {"Sec-Fetch-Site": {"cross-site"}},
		"same site":      {"Sec-Fetch-Site": {"same-site"}},
		"origin only":    {"Origin": {"https://evil.example"}},
		"null origin":    {"Origin": {"null"}},
	} {
		b := w.signedIn(store.RoleAdmin)
		res := b.send(http.MethodPost, "/signout", url.Values{}, header)
		require.Equal(t, http.StatusForbidden, res.StatusCode, name)
		require.NotEmpty(t, b.cookies, "still signed in after %s", name)
	}
	res := w.signedIn(store.RoleAdmin).send(http.MethodPost, "/signout", url.Values{},
		http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"http://fusebox.test"}})
	require.Equal(t, http.StatusSeeOther, res.StatusCode)
}

func TestProgramsNeedNoOrigin(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/webhooks/zeus", strings.NewReader("{}"))
	r.Header.Set("Origin", "https://evil.example")
	require.Equal(t, http.StatusNotFound, newWebtest(t).do(r).StatusCode, "refused for its provider, not its origin")
}

func TestForms(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	send := func(kind, body string) int {
		r := httptest.NewRequest(http.MethodPost, "/signin", strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
		return w.do(r).StatusCode
	}
	const form = "application/x-www-form-urlencoded"
	require.Equal(t, http.StatusUnsupportedMediaType, send("multipart/form-data; boundary=x", "--x--"))
	require.Equal(t, http.StatusUnsupportedMediaType, send("application/json", "{}"))
	require.Equal(t, http.StatusUnsupportedMediaType, send("", "email=a"))
	require.Equal(t, http.StatusBadRequest, send(form, "email=%zz"))
	require.Equal(t, http.StatusRequestEntityTooLarge, send(form, "email="+strings.Repeat("a", 2<<20)))

	// Without a length the size shows only while reading.
	r := httptest.NewRequest(http.MethodPost, "/signin", io.MultiReader(strings.NewReader("email="), strings.NewReader(strings.Repeat("a", 2<<20))))
	r.ContentLength = -1
	r.Header.Set("Content-Type", form)
	require.Equal(t, http.StatusRequestEntityTooLarge, w.do(r).StatusCode)
}

func TestTextThatNoColumnTakesIsRefused(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	require.Equal(t, http.StatusBadRequest, w.stranger().post("/signin", credentials("olena@example.org\x00", "x")).StatusCode)
	require.Equal(t, http.StatusBadRequest, w.stranger().post("/signin", credentials("a@b.example", "\xff")).StatusCode)
	require.Equal(t, http.StatusBadRequest, w.stranger().get("/signin?next=%00").StatusCode)
	require.Equal(t, http.StatusBadRequest, w.stranger().get("/signin?%ff=1").StatusCode)
	require.Equal(t, http.StatusBadRequest, w.stranger().get("/signin?next=%zz").StatusCode)
	require.Equal(t, http.StatusNotFound, w.stranger().get("/payments/%00").StatusCode)
}

func TestRequestsAreLoggedOnceAtTheirEnd(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.signedIn(store.RoleSupport)
	b.get("/signin?next=/secret-search")
	log := strings.TrimSpace(w.log.String())
	require.Equal(t, 0, strings.Count(log, "\n"), "one line: %s", log)
	for _, want := range []string{`"status":303`, `"route":"/signin"`, `"actor":"user:` + b.user.ID.String(), `"request_id":"`} {
		require.Contains(t, log, want)
	}
	require.NotContains(t, log, "secret-search", "what people search for is not logged")
}

func TestAPanicIsAnErrorPageAndIsLogged(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.server.public.GET("/boom", func(echo.Context) error { panic("kaboom") })
	res := w.stranger().get("/boom")
	require.Equal(t, http.StatusInternalServerError, res.StatusCode)
	require.NotContains(t, res.body, "kaboom")
	require.Contains(t, res.body, res.Header.Get("X-Request-Id"), "the page names the request")
	require.Contains(t, w.log.String(), "kaboom")
	require.Contains(t, w.log.String(), "server_test.go", "with its stack")
}

func TestAClientThatLeftIsNoServerFault(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.server.public.GET("/slow", func(c echo.Context) error {
		<-c.Request().Context().Done()
		return c.Request().Context().Err()
	})
	ctx, leave := context.WithCancel(t.Context())
	leave()
	w.do(httptest.NewRequest(http.MethodGet, "/slow", nil).WithContext(ctx))
	require.Contains(t, w.log.String(), `"status":499`)
	require.NotContains(t, w.log.String(), `"level":"ERROR"`)
}

func TestPagesAreCompressedAndStreamsAreNot(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	big := func(c echo.Context) error { return c.String(http.StatusOK, strings.Repeat("x", 4096)) }
	w.server.public.GET("/big", big)
	w.server.public.GET("/live/big", big)
	b := w.stranger()
	b.header.Set("Accept-Encoding", "gzip")
	require.Equal(t, "gzip", b.get("/big").Header.Get("Content-Encoding"))
	require.Empty(t, b.get("/live/big").Header.Get("Content-Encoding"))
}

func TestForwardedAddressesCountFromTrustedProxiesOnly(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "10.0.0.5:4711"
	r.Header.Set("X-Forwarded-For", "203.0.113.9")
	require.Equal(t, "10.0.0.5", ipExtractor(nil)(r))
	require.Equal(t, "10.0.0.5", ipExtractor([]netip.Prefix{netip.MustParsePrefix("192.168.0.0/16")})(r))
	require.Equal(t, "203.0.113.9", ipExtractor([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})(r))
}

var errHalf = errors.New("component failed")

// halfPage is a component that writes something and then fails.
type halfPage struct{}

func (halfPage) Render(_ context.Context, w io.Writer) error {
	_, _ = io.WriteString(w, "half of it")
	return errHalf
}

func TestRenderSendsNothingOfAComponentThatFails(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.server.public.GET("/half", func(c echo.Context) error { return w.server.render(c, http.StatusOK, halfPage{}) })
	res := w.stranger().get("/half")
	require.Equal(t, http.StatusInternalServerError, res.StatusCode)
	require.NotContains(t, res.body, "half of it")
	require.Contains(t, w.log.String(), errHalf.Error())
}

func TestSettingsByName(t *testing.T) {
	t.Parallel()
	s := &Server{cfg: Config{Providers: []provider.Settings{{Name: "atlas", BaseURL: "https://a.example"}}}}
	got, ok := s.settings("atlas")
	require.True(t, ok)
	require.Equal(t, "https://a.example", got.BaseURL)
	_, ok = s.settings("zeus")
	require.False(t, ok)
}
