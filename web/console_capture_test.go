package web

import (
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/messages"
)

func holdForms(p store.Payment, what string) string {
	return views.PaymentPath(p.ID.String()) + "/" + what
}

// holdFormOf fills the form of a page that was just opened.
func holdFormOf(t *testing.T, b *browser, path, amount string) url.Values {
	t.Helper()
	res := b.get(path)
	require.Equal(t, http.StatusOK, res.StatusCode, res.body)
	form := formOf(t, res.body)
	if amount != "" {
		form.Set("amount", amount)
	}
	form.Set("reason", "Shipped today")
	return form
}

// U-01: the page says the numbers, and a form sent many times is one capture.
func TestU01_CaptureStatesItsNumbersAndHappensOnce(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, holdingAtlas)
	p, b := w.heldPayment(), w.signedIn(store.RoleOperator)
	path := holdForms(p, "capture")
	page := b.get(views.PaymentPath(p.ID.String())).body
	for _, words := range []string{"Authorised 49.00\u00a0EUR until ", ", not captured.", `href="` + path + `"`, `href="` + holdForms(p, "void") + `"`,
		"We have reserved 49.00\u00a0EUR"} {
		require.Contains(t, page, words)
	}
	confirm := b.get(path).body
	for _, words := range []string{"49.00\u00a0EUR of 49.00\u00a0EUR is taken", "1 call is queued for atlas; 0 charges.", `value="49.00"`} {
		require.Contains(t, confirm, words)
	}
	form := holdFormOf(t, b, path, "19.00")
	require.Equal(t, "4900", form.Get("expected_capturable"))
	var wg sync.WaitGroup
	for i := range 8 {
		tab := b.again()
		wg.Go(func() {
			send := tab.post
			if i%2 == 1 {
				send = tab.postHTMX
			}
			require.Equal(t, http.StatusSeeOther, send(path, form).StatusCode)
		})
	}
	wg.Wait()
	require.Equal(t, 1, w.number(`SELECT count(*) FROM operations`))
	require.Equal(t, 1, w.jobs.count("operation"))
	page = b.get(views.PaymentPath(p.ID.String())).body
	for _, words := range []string{"Capture 1 (19.00\u00a0EUR) is queued.", "Nothing has reached atlas yet.", "Shipped today", "Capture requested", "Next: send Capture 1"} {
		require.Contains(t, page, words)
	}
	require.NotContains(t, page, `href="`+path+`"`, "nothing is left to capture")
	form.Set("amount", "20.00") // Back, changed, and sent again
	require.Equal(t, http.StatusConflict, b.post(path, form).StatusCode)
}

// U-01: another operator was faster; their act is named and nothing is sent.
func TestU01_VoidAfterACaptureIsRefused(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, holdingAtlas)
	p := w.heldPayment()
	first, second := w.signedIn(store.RoleOperator), w.signedIn(store.RoleOperator)
	late := holdFormOf(t, second, holdForms(p, "void"), "")
	require.Equal(t, http.StatusSeeOther, first.post(holdForms(p, "capture"), holdFormOf(t, first, holdForms(p, "capture"), "9.00")).StatusCode)
	res := second.post(holdForms(p, "void"), late)
	require.Equal(t, http.StatusConflict, res.StatusCode)
	require.Contains(t, res.body, "Capture 1 (9.00\u00a0EUR) was asked for meanwhile. 0.00\u00a0EUR can be captured now, not 49.00\u00a0EUR.")
	require.Contains(t, second.get(holdForms(p, "void")).body, "Capture 1 (9.00\u00a0EUR) is on record: Not sent yet.")
	require.Equal(t, 1, w.number(`SELECT count(*) FROM operations`))
}

func TestVoidFromTheConsole(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, holdingAtlas)
	p, b := w.heldPayment(), w.signedIn(store.RoleOperator)
	path := holdForms(p, "void")
	require.Contains(t, b.get(path).body, "49.00\u00a0EUR is let go.")
	form := holdFormOf(t, b, path, "")
	form.Set("reason", "")
	require.Equal(t, http.StatusUnprocessableEntity, b.post(path, form).StatusCode)
	form.Set("reason", "Out of stock")
	require.Equal(t, http.StatusSeeOther, b.post(path, form).StatusCode)
	require.Equal(t, 1, w.number(`SELECT count(*) FROM operations WHERE kind = $1`, string(provider.OpVoid)))
	require.Equal(t, http.StatusForbidden, w.signedIn(store.RoleSupport).get(path).StatusCode)
}

func TestCaptureRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, holdingAtlas)
	b := w.signedIn(store.RoleOperator)
	require.Contains(t, b.get(holdForms(w.paidPayment(), "capture")).body, "taken with its charge")
	p := w.heldPayment()
	path := holdForms(p, "capture")
	for _, amount := range []string{"49.01", "0", "x", "1.999"} {
		res := b.post(path, holdFormOf(t, b, path, amount))
		require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode, amount)
	}
	require.Equal(t, http.StatusBadRequest, b.post(path, url.Values{"amount": {"1.00"}, "reason": {"x"}}).StatusCode)
	require.Zero(t, w.number(`SELECT count(*) FROM operations`))
	for _, l := range messages.Langs {
		b.header.Set("Accept-Language", string(l))
		require.Equal(t, http.StatusOK, b.get(path).StatusCode)
	}
}
