package main

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/web/browsertest"
)

// TestBrowserProbeAndForceOpen: one probe through the dialog closes a healed circuit and
// everything that waited follows; a refused form of a force open stays in its dialog
// with what was typed, and a second operator's stale one names who was first.
func TestBrowserProbeAndForceOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "outage")
	w.env = append(w.env, "FUSEBOX_CIRCUIT_OPEN_FOR=1h")
	w.serve()
	w.work()
	waiting := w.openCircuit("outage")
	olena, tom := browsertest.Open(t, w.url), browsertest.Open(t, w.url)
	olena.SignIn("olena@example.org", w.person("olena@example.org", "Olena", store.RoleOperator))
	tom.SignIn("tom@example.org", w.person("tom@example.org", "Tom", store.RoleOperator))
	olena.Open("/providers")
	olena.Run(chromedp.Click(css("a[href$='/outage/charge/probe']")), chromedp.WaitVisible(css("dialog[open] textarea")),
		chromedp.SendKeys(css("dialog[open] textarea"), "They say it works."), chromedp.Click(css("dialog[open] form button")))
	w.eventually(60*time.Second, "the waiting payment went through", func() bool { return w.payment(waiting).Status == store.Succeeded })
	olena.Sees(30*time.Second, "#outage-charge", "Closed")

	open := func(b *browsertest.Tab) {
		b.Open("/providers")
		b.Run(chromedp.Click(css("#outage-charge-override summary")), chromedp.Click(css("a[href$='/outage/charge/open']")),
			chromedp.WaitVisible(css("dialog[open] textarea")), chromedp.SendKeys(css("dialog[open] textarea"), "Their maintenance."))
	}
	open(tom)
	open(olena)
	olena.Run(chromedp.SendKeys(css("dialog[open] #minutes"), "0"), chromedp.Click(css("dialog[open] form button")))
	olena.Sees(10*time.Second, "dialog[open]", "Whole minutes, 1 to 10,080.")
	olena.Run(chromedp.SetValue(css("dialog[open] #minutes"), "90"), chromedp.Click(css("dialog[open] form button")))
	olena.Sees(10*time.Second, "#outage-charge", "Forced open")
	require.Equal(t, 1, w.scalar(`SELECT count(*) FROM audit_log WHERE action = 'circuit.forced_open' AND after ->> 'for' = '1h30m0s' AND reason = 'Their maintenance.'`))
	tom.Run(chromedp.Click(css("dialog[open] form button")))
	tom.Sees(10*time.Second, "dialog[open]", "Olena forced this circuit open")
	require.Equal(t, 1, w.scalar(`SELECT count(*) FROM audit_log WHERE action LIKE 'circuit.force%'`))
}
