package static

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func site(t *testing.T, more map[string]string) *catalogue {
	t.Helper()
	fsys := fstest.MapFS{
		"css/20-b.css":      {Data: []byte(`b{src:url("font.woff2")}`)},
		"css/10-a.css":      {Data: []byte(`a{src:url("absent.woff2")}`)},
		"js/app.js":         {Data: []byte("1")},
		"img/favicon.svg":   {Data: []byte("<svg/>")},
		"dist/.keep":        {Data: nil},
		"dist/font.woff2":   {Data: []byte("font")},
		"dist/LICENSE.data": {Data: []byte("mit")},
	}
	for name, body := range more {
		fsys[name] = &fstest.MapFile{Data: []byte(body)}
	}
	c, err := load(fsys)
	require.NoError(t, err)
	return c
}

func get(c *catalogue, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

func TestStylesAreJoinedInNameOrderWithHashedURLs(t *testing.T) {
	t.Parallel()
	c := site(t, nil)
	w := get(c, c.byName["app.css"].url)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "text/css; charset=utf-8", w.Header().Get("Content-Type"))
	require.Equal(t, "a{src:url(\"absent.woff2\")}\nb{src:url(\""+c.byName["font.woff2"].url+"\")}\n", w.Body.String())
}

func TestHashedNamesAreImmutableAndFollowContent(t *testing.T) {
	t.Parallel()
	one, two := site(t, nil), site(t, map[string]string{"js/app.js": "2"})
	require.NotEqual(t, one.byName["app.js"].url, two.byName["app.js"].url)
	w := get(one, one.byName["app.js"].url)
	require.Equal(t, "public, max-age=31536000, immutable", w.Header().Get("Cache-Control"))
	require.Equal(t, http.StatusNotFound, get(one, two.byName["app.js"].url).Code, "an old name must not get new content")
}

func TestLogicalNamesAreRevalidated(t *testing.T) {
	t.Parallel()
	c := site(t, nil)
	w := get(c, Prefix+"app.js")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "no-cache", w.Header().Get("Cache-Control"))
	again := get(c, Prefix+"app.js", "If-None-Match", w.Header().Get("ETag"))
	require.Equal(t, http.StatusNotModified, again.Code)
	require.Empty(t, again.Body.String())
}

func TestNothingElseIsServed(t *testing.T) {
	t.Parallel()
	c := site(t, nil)
	for _, path := range []string{"", ".keep", "../static.go", "css/10-a.css", "dist/font.woff2", "nothing.js"} {
		require.Equal(t, http.StatusNotFound, get(c, Prefix+path).Code, path)
	}
}

func TestCheckNamesWhatIsMissingAndWhatToRun(t *testing.T) {
	t.Parallel()
	err := site(t, nil).check()
	require.ErrorIs(t, err, ErrNotBuilt)
	require.ErrorContains(t, err, "make assets")
	require.ErrorContains(t, err, "htmx.min.js")
	require.NoError(t, site(t, map[string]string{"dist/htmx.min.js": "h", "dist/idiomorph-ext.min.js": "i"}).check())
}

func TestTheBuildHasItsLibrariesAndScriptsWithoutEval(t *testing.T) {
	t.Parallel()
	require.NoError(t, Check())
	for _, name := range []string{"app.js", "live.js"} {
		body := string(assets.byName[name].body)
		for _, banned := range []string{"eval(", "new Function", ".innerHTML", "document.write"} {
			require.False(t, strings.Contains(body, banned), "%s uses %s", name, banned)
		}
	}
}

func TestURLOfAnUnknownNameAnswers404(t *testing.T) {
	t.Parallel()
	require.Equal(t, "/static/nothing.css", URL("nothing.css"))
	require.Equal(t, http.StatusNotFound, get(assets, URL("nothing.css")).Code)
	require.True(t, strings.HasPrefix(URL("app.css"), "/static/app."))
}
