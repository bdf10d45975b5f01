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
	"fusebox/web/browsertest"
)

// css is a selector.
func css(s string) chromedp.CSS { return chromedp.CSS(s) }

// person makes a user in the world and returns the password.
func (w *world) person(email, name string, role store.Role) (password string) {
	w.t.Helper()
	password = randomSecret()
	_, err := w.store.CreateUser(w.t.Context(), store.NewUser{Email: email, Name: name, Role: role, Password: password}, commandLine)
	require.NoError(w.t, err)
	return password
}

// TestBrowserSignIn: a wrong password is refused with a reason, the right one opens
// the overview, and signing out closes the console again.
func TestBrowserSignIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady")
	w.serve()
	password := w.person("ana@example.org", "Ana", store.RoleSupport)
	b := browsertest.Open(t, w.url)
	b.Open("/payments")
	require.Contains(t, b.Location(), "/signin", "a stranger sees nothing")
	b.Run(chromedp.SendKeys(css("#email"), "ana@example.org"), chromedp.SendKeys(css("#password"), "not the password"),
		chromedp.Click(css("form[action='/signin'] button")))
	b.Sees(10*time.Second, "[role=alert]", "password")
	b.SignIn("ana@example.org", password)
	b.Sees(10*time.Second, "body", "Ana")
	b.Run(chromedp.Click(css("#user-menu summary")), chromedp.Click(css("form[action='/signout'] button")), chromedp.WaitVisible(css("#password")))
	b.Open("/payments")
	require.Contains(t, b.Location(), "/signin")
}

// TestBrowserLiveView: the overview and the list move by themselves, without a reload.
func TestBrowserLiveView(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady")
	w.serve()
	w.work()
	password := w.person("ana@example.org", "Ana", store.RoleSupport)
	b := browsertest.Open(t, w.url)
	b.SignIn("ana@example.org", password)
	list := b.Second()
	list.Open("/payments")
	for _, tab := range []*browsertest.Tab{b, list} {
		tab.Run(chromedp.Evaluate[chromedp.Void](`void (window.sameDocument = true)`))
	}
	id := w.pay("steady", "LIVE-1").ID
	list.Sees(30*time.Second, "main", "LIVE-1")
	require.Equal(t, store.Succeeded, w.settled(id, 30*time.Second).Status)
	list.Sees(30*time.Second, "#payment-"+id.String(), "Paid")
	for _, tab := range []*browsertest.Tab{b, list} {
		require.True(t, browsertest.Eval[bool](tab, `window.sameDocument === true`), "the page was reloaded")
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
	b := browsertest.Open(t, w.url)
	b.SignIn("ana@example.org", password)
	b.Open("/payments/" + p.ID.String())
	b.Sees(10*time.Second, "#verdict", "Unknown")
	b.Run(chromedp.Click(css("a[href$='/reconcile']")), chromedp.WaitVisible(css("dialog[open] form")),
		chromedp.Click(css("dialog[open] form button[type=submit], dialog[open] form .btn-primary")))
	b.Sees(30*time.Second, "#verdict", "Paid")
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
	olena, tom := browsertest.Open(t, w.url), browsertest.Open(t, w.url)
	olena.SignIn("olena@example.org", w.person("olena@example.org", "Olena", store.RoleOperator))
	tom.SignIn("tom@example.org", w.person("tom@example.org", "Tom", store.RoleOperator))
	path := "/payments/" + p.ID.String() + "/resolve?to=succeeded"
	for _, b := range []*browsertest.Tab{olena, tom} {
		b.Open(path)
		b.Run(chromedp.SendKeys(css("#reason"), "The provider's dashboard shows it as paid."),
			chromedp.SendKeys(css("#evidence"), "ticket 4711"))
	}
	submit := chromedp.Click(css("form[action*='/resolve'] button"))
	olena.Run(submit)
	olena.Sees(10*time.Second, "#verdict", "Paid")
	tom.Run(submit)
	tom.Sees(10*time.Second, "body", "Olena")
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
	b := browsertest.Open(t, w.url)
	b.SignIn("olena@example.org", w.person("olena@example.org", "Olena", store.RoleOperator))
	b.Open("/providers")
	b.Run(chromedp.Click(css("a[href$='/outage/charge/reset']")), chromedp.WaitVisible(css("dialog[open] textarea")),
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
	b := browsertest.Open(t, info.URL)
	b.Open("/checkout")
	name := "Double Click " + uuid.NewString()[:8]
	b.Run(chromedp.SetValue(css("#provider"), "steady"), chromedp.SetValue(css("#name"), name), chromedp.SetValue(css("#email"), "double@example.org"),
		chromedp.DoubleClick(css("form.shop-form button")))
	b.Sees(30*time.Second, "#receipt", "149.00")
	b.SignIn(info.Email, info.Password)
	b.Open("/payments?text=" + url.QueryEscape(name))
	b.Sees(10*time.Second, "main", name)
	require.Equal(t, 1, browsertest.Eval[int](b, `document.querySelectorAll("tr[id^='payment-']").length`))
	breaksAndResets(t, b, "steady")
}

// breaksAndResets does what a newcomer does: breaks a provider on the demo panel,
// watches its circuit open on screen, heals it and closes the circuit by hand.
func breaksAndResets(t *testing.T, b *browsertest.Tab, name string) {
	t.Helper()
	press := func(tab *browsertest.Tab, fault string) {
		tab.Open("/demo/faults")
		tab.Run(chromedp.Click(css("#sim-" + name + " button[value=" + fault + "]")))
		tab.Sees(10*time.Second, "body", name+" changed")
	}
	press(b, "refuse")
	b.Open("/providers")
	b.Sees(60*time.Second, "#banners", name+": Charges circuit is open")
	b.Run(chromedp.Click(css("a[href$='/"+name+"/charge/reset']")), chromedp.WaitVisible(css("dialog[open] textarea")))
	// A dialog outlives the page's refreshes, so there is time to heal in another tab.
	press(b.Second(), "heal")
	b.Run(chromedp.SendKeys(css("dialog[open] #typed"), name), chromedp.SendKeys(css("dialog[open] textarea"), "Healed on the demo panel."),
		chromedp.Click(css("dialog[open] form button")))
	eventuallyIn(t, 60*time.Second, func() string { return "the circuit is closed: " + b.Text("#banners") },
		func() bool { return !strings.Contains(b.Text("#banners"), name+": Charges") })
}

// TestBrowserWithoutScripts: sign in, search, reconcile, resolve, reset and acknowledging
// an alert work as plain pages and forms.
func TestBrowserWithoutScripts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady", "outage")
	w.env = append(w.env, "FUSEBOX_CIRCUIT_OPEN_FOR=1h")
	w.serve()
	w.work()
	p := w.unknown("no scripts")
	waiting := w.openCircuit("outage")
	b := browsertest.Open(t, w.url).WithoutScripts()
	b.SignIn("olena@example.org", w.person("olena@example.org", "Olena", store.RoleOperator))

	b.Type("#q", p.ID.String()+"\r")
	b.Sees(10*time.Second, "#verdict", "Unknown")
	b.Run(chromedp.Click(css("a[href$='/reconcile']")), chromedp.WaitVisible(css("form[action$='/reconcile']")),
		chromedp.Click(css("form[action$='/reconcile'] button")), chromedp.WaitVisible(css("#verdict")))
	b.Open("/payments/" + p.ID.String() + "/resolve?to=succeeded")
	b.Run(chromedp.Click(css("form[action*='/resolve'] button")))
	b.Run(chromedp.SendKeys(css("#reason"), "Seen as paid at the provider."), chromedp.SendKeys(css("#evidence"), "ticket 4712"),
		chromedp.Click(css("form[action*='/resolve'] button")))
	b.Sees(10*time.Second, "#verdict", "Paid")

	b.Open("/providers")
	b.Run(chromedp.Click(css("a[href$='/outage/charge/reset']")), chromedp.WaitVisible(css("form textarea")),
		chromedp.SendKeys(css("#typed"), "outage"), chromedp.SendKeys(css("form textarea"), "Back again."), chromedp.Click(css("form[action$='/reset'] button")))
	w.eventually(60*time.Second, "the waiting payment went through", func() bool { return w.payment(waiting).Status == store.Succeeded })

	b.Open("/alerts?state=open&severity=critical")
	b.Run(chromedp.Click(css("a[href$='/acknowledge']")), chromedp.WaitVisible(css("#note")),
		chromedp.SendKeys(css("#note"), "known"), chromedp.Click(css("form[action$='/acknowledge'] button")))
	b.Sees(10*time.Second, "main", "Acknowledged. It stays on the list with your name.")
	b.Sees(10*time.Second, "main", "known")
}
