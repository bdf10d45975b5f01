package main

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider/simulator"
	"fusebox/store"
)

// css is a selector.
func css(s string) chromedp.CSS { return chromedp.CSS(s) }

// TestBrowserSignIn: a wrong password is refused with a reason, the right one opens
// the overview, and signing out closes the console again.
func TestBrowserSignIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady")
	w.serve()
	password := w.person("ana@example.org", "Ana", store.RoleSupport)
	b := newBrowser(t, w.url)
	b.open("/payments")
	require.Contains(t, b.location(), "/signin", "a stranger sees nothing")
	b.run(chromedp.SendKeys(css("#email"), "ana@example.org"), chromedp.SendKeys(css("#password"), "not the password"),
		chromedp.Click(css("form[action='/signin'] button")))
	b.sees(10*time.Second, "[role=alert]", "password")
	b.signIn("ana@example.org", password)
	b.sees(10*time.Second, "body", "Ana")
	b.run(chromedp.Click(css("#user-menu summary")), chromedp.Click(css("form[action='/signout'] button")), chromedp.WaitVisible(css("#password")))
	b.open("/payments")
	require.Contains(t, b.location(), "/signin")
}

// TestBrowserLiveView: the overview and the list move by themselves, without a reload.
func TestBrowserLiveView(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady")
	w.serve()
	w.work()
	password := w.person("ana@example.org", "Ana", store.RoleSupport)
	b := newBrowser(t, w.url)
	b.signIn("ana@example.org", password)
	list := b.tab()
	list.open("/payments")
	for _, tab := range []*browser{b, list} {
		tab.run(chromedp.Evaluate[chromedp.Void](`void (window.sameDocument = true)`))
	}
	id := w.pay("steady", "LIVE-1").ID
	list.sees(30*time.Second, "main", "LIVE-1")
	require.Equal(t, store.Succeeded, w.settled(id, 30*time.Second).Status)
	list.sees(30*time.Second, "#payment-"+id.String(), "Paid")
	for _, tab := range []*browser{b, list} {
		same, err := chromedp.Run(tab.ctx, chromedp.Evaluate[bool](`window.sameDocument === true`))
		require.NoError(t, err)
		require.True(t, same, "the page was reloaded")
	}
}

// unknown makes a payment that stays unknown: charged, cut, and nobody answers.
func (w *world) unknown(orderRef string) store.Payment {
	w.t.Helper()
	p := w.pay("steady", "fault:charged_then_cut,webhook_missing,lookup_error "+orderRef)
	w.eventually(60*time.Second, "the payment is unknown", func() bool { return w.payment(p.ID).Status == store.Unknown })
	return w.payment(p.ID)
}

// TestBrowserReconcile: a person asks the provider again; the dialog states what will
// happen, and the answer settles the payment on screen.
func TestBrowserReconcile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady")
	w.env = append(w.env, "PROVIDER_STEADY_RECONCILE_PAUSES=1h", "PROVIDER_STEADY_QUICK_RECONCILE=1h")
	w.serve()
	w.work()
	password := w.person("ana@example.org", "Ana", store.RoleSupport)
	p := w.pay("steady", "fault:charged_then_cut,webhook_missing")
	w.eventually(60*time.Second, "the payment is unknown", func() bool { return w.payment(p.ID).Status == store.Unknown })
	b := newBrowser(t, w.url)
	b.signIn("ana@example.org", password)
	b.open("/payments/" + p.ID.String())
	b.sees(10*time.Second, "#verdict", "Unknown")
	b.run(chromedp.Click(css("a[href$='/reconcile']")), chromedp.WaitVisible(css("dialog[open] form")),
		chromedp.Click(css("dialog[open] form button[type=submit], dialog[open] form .btn-primary")))
	b.sees(30*time.Second, "#verdict", "Paid")
	require.Equal(t, 1, w.scalar(`SELECT count(*) FROM audit_log WHERE action = 'payment.reconcile'`))
	require.Equal(t, 1, w.charges("steady", p.ID))
}

// TestBrowserResolveConflict: two operators resolve the same payment; the second is
// told who did what, and nothing changes twice.
func TestBrowserResolveConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady")
	w.serve()
	w.work()
	p := w.unknown("conflict")
	olena, tom := newBrowser(t, w.url), newBrowser(t, w.url)
	olena.signIn("olena@example.org", w.person("olena@example.org", "Olena", store.RoleOperator))
	tom.signIn("tom@example.org", w.person("tom@example.org", "Tom", store.RoleOperator))
	path := "/payments/" + p.ID.String() + "/resolve?to=succeeded"
	for _, b := range []*browser{olena, tom} {
		b.open(path)
		b.run(chromedp.SendKeys(css("#reason"), "The provider's dashboard shows it as paid."),
			chromedp.SendKeys(css("#evidence"), "ticket 4711"))
	}
	submit := chromedp.Click(css("form[action*='/resolve'] button"))
	olena.run(submit)
	olena.sees(10*time.Second, "#verdict", "Paid")
	tom.run(submit)
	tom.sees(10*time.Second, "body", "Olena")
	require.Equal(t, 1, w.scalar(`SELECT count(*) FROM audit_log WHERE action = 'payment.resolve'`))
	require.Equal(t, store.Succeeded, w.payment(p.ID).Status)
}

// TestBrowserReset: an operator closes an open circuit in the browser.
func TestBrowserReset(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "outage")
	w.env = append(w.env, "FUSEBOX_CIRCUIT_OPEN_FOR=1h")
	w.serve()
	w.work()
	first := w.openCircuit("outage")
	b := newBrowser(t, w.url)
	b.signIn("olena@example.org", w.person("olena@example.org", "Olena", store.RoleOperator))
	b.open("/providers")
	b.run(chromedp.Click(css("a[href$='/outage/charge/reset']")), chromedp.WaitVisible(css("dialog[open] textarea")),
		chromedp.SendKeys(css("dialog[open] #typed"), "outage"), chromedp.SendKeys(css("dialog[open] textarea"), "The provider says it is back."),
		chromedp.Click(css("dialog[open] form button")))
	w.eventually(60*time.Second, "the waiting payment went through", func() bool { return w.payment(first).Status == store.Succeeded })
	require.Equal(t, 1, w.scalar(`SELECT count(*) FROM audit_log WHERE action = 'circuit.reset'`))
}

// openCircuit breaks the provider until its charge circuit opens, heals it, and
// returns a payment that waits for the circuit.
func (w *world) openCircuit(name string) (waiting uuid.UUID) {
	w.t.Helper()
	w.setFaults(name, func(f simulator.Faults) simulator.Faults { f.Outage = simulator.OutageRefuse; return f })
	for i := range 8 {
		w.pay(name, fmt.Sprintf("trip %d", i))
	}
	w.eventually(60*time.Second, "the circuit opened", func() bool {
		return w.scalar(`SELECT count(*) FROM breaker_events WHERE class = 'charge' AND to_state = 'open'`) == 1
	})
	p := w.pay(name, "waiting")
	w.eventually(30*time.Second, "a payment waits for it", func() bool { return w.payment(p.ID).NextCheckWhy == "circuit_open" })
	w.setFaults(name, func(f simulator.Faults) simulator.Faults { f.Outage = simulator.OutageNone; return f })
	return p.ID
}

// TestItem15CheckoutDoubleClick: the key is born with the page, so two clicks are one
// payment and one charge.
func TestItem15CheckoutDoubleClick(t *testing.T) {
	t.Parallel()
	info, _ := startDemo(t)
	b := newBrowser(t, info.URL)
	b.open("/checkout")
	name := "Double Click " + uuid.NewString()[:8]
	b.run(chromedp.SetValue(css("#provider"), "steady"), chromedp.SetValue(css("#name"), name), chromedp.SetValue(css("#email"), "double@example.org"),
		chromedp.DoubleClick(css("form.shop-form button")))
	b.sees(30*time.Second, "#receipt", "149.00")
	b.signIn(info.Email, info.Password)
	b.open("/payments?text=" + url.QueryEscape(name))
	b.sees(10*time.Second, "main", name)
	rows, err := chromedp.Run(b.ctx, chromedp.Evaluate[int](`document.querySelectorAll("tr[id^='payment-']").length`))
	require.NoError(t, err)
	require.Equal(t, 1, rows)
	b.breaksAndResets("steady")
}

// breaksAndResets does what a newcomer does: breaks a provider on the demo panel,
// watches its circuit open on screen, heals it and closes the circuit by hand.
func (b *browser) breaksAndResets(name string) {
	b.t.Helper()
	press := func(tab *browser, fault string) {
		tab.open("/demo/faults")
		tab.run(chromedp.Click(css("#sim-" + name + " button[value=" + fault + "]")))
		tab.sees(10*time.Second, "body", name+" changed")
	}
	press(b, "refuse")
	b.open("/providers")
	b.sees(60*time.Second, "#banners", name+": Charges circuit is open")
	b.run(chromedp.Click(css("a[href$='/"+name+"/charge/reset']")), chromedp.WaitVisible(css("dialog[open] textarea")))
	// A dialog outlives the page's refreshes, so there is time to heal in another tab.
	press(b.tab(), "heal")
	b.run(chromedp.SendKeys(css("dialog[open] #typed"), name), chromedp.SendKeys(css("dialog[open] textarea"), "Healed on the demo panel."),
		chromedp.Click(css("dialog[open] form button")))
	eventuallyIn(b.t, 60*time.Second, func() string { return "the circuit is closed: " + b.text("#banners") },
		func() bool { return !strings.Contains(b.text("#banners"), name+": Charges") })
}

// TestBrowserWithoutScripts: sign in, search, reconcile, resolve and reset work as
// plain pages and forms.
func TestBrowserWithoutScripts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady", "outage")
	w.env = append(w.env, "FUSEBOX_CIRCUIT_OPEN_FOR=1h")
	w.serve()
	w.work()
	p := w.unknown("no scripts")
	waiting := w.openCircuit("outage")
	b := newBrowser(t, w.url).withoutScripts()
	b.signIn("olena@example.org", w.person("olena@example.org", "Olena", store.RoleOperator))

	b.open("/search?q=" + p.ID.String())
	b.sees(10*time.Second, "#verdict", "Unknown")
	b.run(chromedp.Click(css("a[href$='/reconcile']")), chromedp.WaitVisible(css("form[action$='/reconcile']")),
		chromedp.Click(css("form[action$='/reconcile'] button")), chromedp.WaitVisible(css("#verdict")))
	b.open("/payments/" + p.ID.String() + "/resolve?to=succeeded")
	b.run(chromedp.Click(css("form[action*='/resolve'] button")))
	b.run(chromedp.SendKeys(css("#reason"), "Seen as paid at the provider."), chromedp.SendKeys(css("#evidence"), "ticket 4712"),
		chromedp.Click(css("form[action*='/resolve'] button")))
	b.sees(10*time.Second, "#verdict", "Paid")

	b.open("/providers")
	b.run(chromedp.Click(css("a[href$='/outage/charge/reset']")), chromedp.WaitVisible(css("form textarea")),
		chromedp.SendKeys(css("#typed"), "outage"), chromedp.SendKeys(css("form textarea"), "Back again."), chromedp.Click(css("form[action$='/reset'] button")))
	w.eventually(60*time.Second, "the waiting payment went through", func() bool { return w.payment(waiting).Status == store.Succeeded })
}
