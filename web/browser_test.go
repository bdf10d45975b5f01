package web

import (
	"net/http/httptest"

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
	b, tab := w.signedIn(role), browsertest.Open(w.t, base)
	name := w.server.sessions.Cookie.Name
	tab.Cookie(name, b.cookies[name])
	return tab
}
