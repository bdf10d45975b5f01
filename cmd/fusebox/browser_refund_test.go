package main

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"fusebox/provider/simulator"
	"fusebox/store"
	"fusebox/web/browsertest"
)

// TestBrowserRefund: an operator gives money back in a dialog and a double click is one
// refund; one whose answer was lost says so, is asked about, and settles; all of it works
// without scripts, and nothing scrolls sideways on a phone.
func TestBrowserRefund(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady")
	w.env = append(w.env, "PROVIDER_STEADY_RECONCILE_PAUSES=1h", "PROVIDER_STEADY_QUICK_RECONCILE=1h")
	w.serve()
	w.work()
	p := w.settled(w.pay("steady", "to refund").ID, 30*time.Second)
	require.Equal(t, store.Succeeded, p.Status)
	path := "/payments/" + p.ID.String()
	b := browsertest.Open(t, w.url)
	b.SignIn("olena@example.org", w.person("olena@example.org", "Olena", store.RoleOperator))

	b.Open(path)
	b.Run(chromedp.Click(css("a[href$='/refund']")), chromedp.WaitVisible(css("dialog[open] #amount")),
		chromedp.SetValue(css("dialog[open] #amount"), "19.005"), chromedp.SendKeys(css("dialog[open] textarea"), "One lamp sent back."),
		chromedp.Click(css("dialog[open] form button")))
	b.Sees(10*time.Second, "dialog[open]", "EUR has no more than 2 decimals.")
	b.Sees(10*time.Second, "dialog[open]", "49.00 EUR of 49.00 EUR goes back")
	b.Run(chromedp.SetValue(css("dialog[open] #amount"), "19.00"), chromedp.DoubleClick(css("dialog[open] form button")))
	b.Sees(30*time.Second, "article.refund", "steady confirmed at")
	b.Sees(10*time.Second, ".customer-say", "We have refunded 19.00")
	require.Equal(t, 1, w.scalar(`SELECT count(*) FROM operations`))
	require.Equal(t, 1, w.refundsMade("steady"))

	w.setFaults("steady", func(f simulator.Faults) simulator.Faults {
		return f.With(simulator.ChargedThenCut, 1).With(simulator.WebhookMissing, 1).With(simulator.LookupError, 1)
	})
	plain := b.Second().WithoutScripts()
	plain.Open(path)
	plain.Run(chromedp.Click(css("a[href$='/refund']")), chromedp.WaitVisible(css("#amount")), chromedp.SetValue(css("#amount"), "9.00"),
		chromedp.SendKeys(css("textarea"), "A scratch on the other one."), chromedp.Click(css("form[action$='/refund'] button")), chromedp.WaitVisible(css("article.refund")))
	b.Sees(30*time.Second, "main", "We sent the refund at")
	b.Sees(10*time.Second, "main", "Do not refund again.")
	w.setFaults("steady", func(simulator.Faults) simulator.Faults { return timed(simulator.Healthy()) })
	_, err := w.provider("steady").sim.OpenDispute(p.ProviderPaymentID, simulator.NewDispute{DueBy: time.Now().Add(40 * time.Hour)})
	require.NoError(t, err)
	b.Sees(60*time.Second, "main", "at risk")
	for name, path := range map[string]string{"refunded": path, "refunds": path + "#refunds-title", "refund-confirm": path + "/refund", "refund-queue": "/queue"} {
		b.Pictures(name, path)
	}

	b.Viewport(1280)
	b.Open(path)
	b.Run(chromedp.Click(css("a[href$='/lookup']")), chromedp.WaitVisible(css("dialog[open] form")), chromedp.Click(css("dialog[open] form button")))
	b.Holds(30*time.Second, `[...document.querySelectorAll("article.refund")].filter((a) => a.textContent.includes("steady confirmed at")).length === 2`)
	require.Equal(t, 2, w.refundsMade("steady"))
	require.Equal(t, 2, w.scalar(`SELECT count(*) FROM operations WHERE status = 'succeeded'`))
	require.Equal(t, store.Succeeded, w.payment(p.ID).Status)
}
