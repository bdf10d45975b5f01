package web

import (
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/web/browsertest"
)

// serve puts the server behind a real address and returns it.
func (w *webtest) serve() string {
	w.t.Helper()
	srv := httptest.NewServer(w.server.Handler())
	w.t.Cleanup(srv.Close)
	w.t.Cleanup(w.server.Close) // before: streams would keep the address open
	return srv.URL
}

// tab is a real browser's tab at base, signed in as a new person with that role.
func (w *webtest) tab(base string, role store.Role) *browsertest.Tab {
	w.t.Helper()
	return w.tabOf(base, w.signedIn(role))
}

// tabOf is a real browser's tab with the cookies of b.
func (w *webtest) tabOf(base string, b *browser) *browsertest.Tab {
	w.t.Helper()
	tab := browsertest.Open(w.t, base)
	for name, value := range b.cookies {
		tab.Cookie(name, value)
	}
	return tab
}

// fault makes requests fail, as a server does whose database or code is broken.
type fault struct {
	mu           sync.Mutex
	method, path string // prefix
	err          error
}

// faulty returns a fault of the server that nothing has set yet.
func (w *webtest) faulty() *fault {
	f := &fault{}
	w.server.echo.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			f.mu.Lock()
			hit := f.err != nil && c.Request().Method == f.method && strings.HasPrefix(c.Request().URL.Path, f.path)
			err := f.err
			f.mu.Unlock()
			if hit {
				return err
			}
			return next(c)
		}
	})
	return f
}

// set fails requests of that method below path with err; nil heals.
func (f *fault) set(method, path string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.method, f.path, f.err = method, path, err
}

// heal lets everything through again.
func (f *fault) heal() { f.set("", "", nil) }
