package web

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/views"
	"fusebox/web/browsertest"
)

// Somebody with a customer on the phone writes a note without leaving the page, and
// prints the case.
func TestBrowserPaymentNoteAndEvidence(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	rows := seedConsole(t, w)
	b := w.tab(w.serve(), store.RoleOperator)
	path := views.PaymentPath(rows.payment.ID.String())
	b.Open(path)
	b.Click(`a[href="` + path + `/note"]`)
	b.Wait("#dialog #note")
	b.Type("#note", "The customer called twice.")
	b.Click("#dialog button[type=submit]")
	b.Sees(10*time.Second, "#timeline-title ~ .timeline", "The customer called twice.")
	browsertest.Axe(t, b)
	b.Pictures("payment", path)
	b.Viewport(1280)
	b.Scheme("light")
	b.Open(path + "/evidence")
	browsertest.Axe(t, b)
	require.False(t, browsertest.Eval[bool](b, `document.querySelector("[data-print]").hidden`))
	b.Pictures("evidence", path+"/evidence")
}
