package web

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/store"
)

func TestSignInLeadsBackToWhereThePersonWas(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	for name, c := range map[string]struct {
		method, path string
		header       http.Header
		want         string
	}{
		"a page":                       {http.MethodGet, "/payments?status=unknown", nil, "/signin?next=%2Fpayments%3Fstatus%3Dunknown"},
		"a form":                       {http.MethodPost, "/payments/x/resolve", http.Header{"Referer": {"http://fusebox.test/payments/x?a=1"}}, "/signin?next=%2Fpayments%2Fx%3Fa%3D1"},
		"a form from nowhere":          {http.MethodPost, "/payments/x/resolve", nil, "/signin"},
		"a form from another site":     {http.MethodPost, "/payments/x/resolve", http.Header{"Referer": {"http://evil.test/payments"}}, "/signin"},
		"a fragment":                   {http.MethodGet, "/banners", http.Header{"Hx-Request": {"true"}, "Hx-Current-Url": {"http://fusebox.test/queue"}}, "/signin?next=%2Fqueue"},
		"a dialog":                     {http.MethodPost, "/payments/x/resolve", http.Header{"Hx-Request": {"true"}, "Hx-Current-Url": {"http://fusebox.test/queue"}}, "/signin?next=%2Fqueue"},
		"a fragment of nobody's page":  {http.MethodGet, "/banners", http.Header{"Hx-Request": {"true"}}, "/signin"},
		"a fragment of a broken place": {http.MethodGet, "/banners", http.Header{"Hx-Request": {"true"}, "Hx-Current-Url": {"http://%zz"}}, "/signin"},
	} {
		res := w.stranger().send(c.method, c.path, url.Values{}, c.header)
		if c.header.Get("Hx-Request") != "" {
			require.Equal(t, http.StatusUnauthorized, res.StatusCode, name)
			require.Equal(t, c.want, res.Header.Get("HX-Redirect"), name)
			continue
		}
		require.Equal(t, http.StatusSeeOther, res.StatusCode, name)
		require.Equal(t, c.want, res.Header.Get("Location"), name)
	}
}

func TestABrokenServerOffersTheSameFormAgain(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	failingForm(w, io.ErrUnexpectedEOF)
	action := uuid.NewString()
	form := url.Values{"action_id": {action}, "version": {"3"}, "reason": {hostile}, "evidence": {"T-7"}}
	res := w.stranger().post("/fail", form)
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	for _, words := range []string{"It is not known whether this worked", "Try again", `name="action_id" value="` + action + `"`, `name="version" value="3"`, "T-7", "Reason"} {
		require.Contains(t, res.body, words)
	}
	require.NotContains(t, res.body, hostile, "escaped")

	form.Set("new_password", "hunter2")
	res = w.stranger().post("/fail", form)
	require.NotContains(t, res.body, "hunter2", "a form with a secret is not repeated")
	require.NotContains(t, res.body, `class="again"`)
	form.Del("new_password")
	form.Del("action_id")
	res = w.stranger().post("/fail", form)
	require.NotContains(t, res.body, `class="again"`, "nor is one without a one-time id")

	fragment := w.stranger().postHTMX("/fail", form)
	require.Contains(t, fragment.body, "It is not known whether this worked")
	require.NotContains(t, fragment.body, "<form")
}

func TestAPageThatBrokeLeadsToItselfAndARefusedOneBack(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	failing(w, errors.New("broken"))
	require.Contains(t, w.stranger().get("/fail?a=1").body, `href="/fail?a=1"`)

	b := w.signedIn(store.RoleSupport)
	b.header.Set("Referer", "http://fusebox.test/queue?provider=atlas")
	res := b.get("/payments/" + uuid.NewString())
	require.Equal(t, http.StatusNotFound, res.StatusCode)
	require.Contains(t, res.body, `href="/queue?provider=atlas"`)
	b.header.Set("Referer", "http://evil.test/queue?provider=atlas")
	require.NotContains(t, b.get("/payments/"+uuid.NewString()).body, `href="/queue?provider=atlas"`)
}
