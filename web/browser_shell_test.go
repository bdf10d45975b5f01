package web

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/web/browsertest"
)

// focus is what has the focus: its id, or its address.
func focus(b *browsertest.Tab) string {
	return browsertest.Eval[string](b, `document.activeElement.id || document.activeElement.getAttribute("href") || document.activeElement.tagName`)
}

func TestBrowserShellSearchFromAnywhere(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	seedConsole(t, w)
	b := w.tab(w.serve(), store.RoleSupport)
	b.Open("/queue")
	b.Press("/")
	require.Equal(t, "q", focus(b))
	b.Press("nothing like it\r")
	b.Sees(soon, "main", "nothing like it")
	b.Press("k", chromedp.KeyModifiers(kb.ModifierCtrl))
	require.Equal(t, "q", focus(b))
}

// TestBrowserShellShortcuts: rows with j and k, pages with g, help with "?"; none of it
// while typing, and none of it for people who switched it off (WCAG 2.1.4).
func TestBrowserShellShortcuts(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	for range 3 {
		w.db.SeedPayment(t, nil)
	}
	b := w.tab(w.serve(), store.RoleSupport)
	b.Open("/payments")
	row := func() int {
		return browsertest.Eval[int](b, `[...document.querySelectorAll("main tbody tr")].indexOf(document.activeElement.closest("tr"))`)
	}
	b.Press("j")
	require.Equal(t, 0, row())
	b.Press("j")
	require.Equal(t, 1, row())
	b.Press("k")
	require.Equal(t, 0, row())
	b.Press("\r")
	b.Wait("#verdict")

	b.Press("g")
	b.Press("q")
	b.Holds(soon, `location.pathname === "/queue"`)
	isLive(b) // the scripts of the new page run
	b.Press("?")
	b.Wait("dialog#keys[open]")
	b.Fits()
	browsertest.Axe(t, b)
	b.Press("g")
	b.Press("p")
	require.Contains(t, b.Location(), "/queue", "not under a dialog")
	b.Press(kb.Escape)
	b.Holds(soon, `!document.querySelector("dialog[open]")`)

	b.Click("#q")
	b.Press("gp?j/")
	require.Equal(t, "gp?j/", b.Value("#q"), "not while typing")
	require.Contains(t, b.Location(), "/queue")

	b.Click("#content h1")
	b.Press("?")
	b.Click("dialog#keys button[name=keys]")
	b.Holds(soon, `document.documentElement.dataset.shortcuts === "false"`)
	isLive(b)
	b.Press("/")
	b.Press("g")
	b.Press("p")
	require.NotEqual(t, "q", focus(b))
	require.Contains(t, b.Location(), "/queue", "switched off")
}

// TestBrowserShellFocusIsSeen: whoever goes through a long list backwards never has the
// focus under the header, and every target is large enough to hit.
func TestBrowserShellFocusIsSeen(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	for range 40 {
		w.db.SeedPayment(t, nil)
	}
	b := w.tab(w.serve(), store.RoleSupport)
	b.Open("/payments")
	for range 40 {
		b.Press("j")
	}
	for range 39 {
		b.Press("k")
		require.True(t, browsertest.Eval[bool](b, `(() => {
			const r = document.activeElement.getBoundingClientRect();
			const over = document.elementFromPoint(r.left + 3, r.top + 3);
			return r.top >= 0 && r.bottom <= innerHeight && !over.closest(".top, thead"); })()`), "the focus is hidden")
	}
	b.Open("/payments")
	b.Press(kb.Tab)
	require.Equal(t, "#content", focus(b), "the first stop skips the frame")
	b.Press("\r")
	require.Equal(t, "content", focus(b))
}

// TestBrowserShellTimes: times are machine-readable and carry the absolute one; the
// switch changes all of them.
func TestBrowserShellTimes(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	seedConsole(t, w)
	b := w.tab(w.serve(), store.RoleSupport)
	b.Open("/payments")
	require.True(t, browsertest.Eval[bool](b, `[...document.querySelectorAll("main time")].every((el) =>
		!Number.isNaN(Date.parse(el.dateTime)) && el.title !== "") && document.querySelectorAll("main time").length > 0`))
	b.Holds(soon, `[...document.querySelectorAll("time[data-relative]")].every((el) => el.textContent.includes("h"))`) // by the server's clock
	require.NotContains(t, b.Text("main"), "d ago", "the clock of this machine does not count")
	b.Cookie("fusebox_tz", "Asia%2FTokyo")
	b.Open("/payments")
	title := func() string {
		return browsertest.Eval[string](b, `document.querySelector("main time[data-relative]").title`)
	}
	require.Contains(t, title(), "JST")
	b.Click("form.zone button")
	b.Holds(soon, `document.documentElement.dataset.tz === "UTC"`)
	require.Contains(t, title(), "UTC")
}

// TestBrowserShellPrints: paper has the facts and none of the frame.
func TestBrowserShellPrints(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	rows := seedConsole(t, w)
	b := w.tab(w.serve(), store.RoleSupport)
	b.Open("/payments/" + rows.payment.ID.String())
	b.Print()
	for _, hidden := range []string{".top", ".rail", "#live-pill", ".copy"} {
		require.True(t, browsertest.Eval[bool](b, `!document.querySelector("`+hidden+`").checkVisibility()`), hidden)
	}
	require.True(t, browsertest.Eval[bool](b, `document.querySelector("#verdict").checkVisibility()`))
	require.Equal(t, "rgb(255, 255, 255)", browsertest.Eval[string](b, `getComputedStyle(document.body).backgroundColor`))
}

// TestBrowserShellSpeaksOncePerTick: what changes often is said once.
func TestBrowserShellSpeaksOncePerTick(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.tab(w.serve(), store.RoleSupport)
	b.Open("/queue")
	isLive(b)
	time.Sleep(2500 * time.Millisecond) // whatever the page itself had to say
	said := browsertest.Eval[[]string](b, `new Promise((done) => {
		const said = [];
		new MutationObserver(() => said.push(document.getElementById("announce").textContent)).observe(document.getElementById("announce"), {childList: true, characterData: true, subtree: true});
		for (const word of ["one", "two", "three"]) fusebox.announce(word);
		setTimeout(() => { for (const word of ["four", "five"]) fusebox.announce(word); }, 300);
		setTimeout(() => done(said), 3000);
	})`)
	require.Equal(t, []string{"three", "five"}, said)
}
