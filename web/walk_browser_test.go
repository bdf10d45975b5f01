package web

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/views"
	"fusebox/web/browsertest"
)

// Bounds of a walk: so many pages of one kind of address, so many rows' buttons of one
// kind, and so many pages in all. The last is more than there are, so that a page that
// links to ever new ones ends the walk and fails it.
const (
	walkPerKind = 2
	walkPages   = 150
)

// TestBrowserWalk signs in as an administrator and goes wherever a link leads, breadth
// first, wide and narrow. On every page each fold is opened and shut, each dialog and menu
// is opened and closed with Escape, and each button that sends nothing is pressed. No page
// is missing or fails, nothing is written to the browser's console, nothing scrolls
// sideways, no two words touch, and the focus comes back, visibly, to what opened a dialog.
func TestBrowserWalk(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, holdingAtlas, inDemo)
	rows := seedPages(t, w, w.signedIn(store.RoleAdmin))
	w.newUser("operator@example.org", store.RoleOperator)
	w.db.SeedWebhook(t, func(e *store.InboxEvent) { e.State = "rejected" })
	_, _ = w.unknownCapture()
	base := w.serve()
	for _, width := range browsertest.Widths {
		t.Run(strconv.FormatInt(width, 10), func(t *testing.T) {
			t.Parallel()
			email := fmt.Sprintf("walker-%d@example.org", width)
			w.newUser(email, store.RoleAdmin)
			b := browsertest.Open(t, base)
			b.SignIn(email, testPassword)
			b.Viewport(width)
			walk := &walk{t: t, b: b, base: base, kinds: map[string]int{}, done: map[string]bool{}}
			walk.listen()
			walk.want("/")
			walk.want(views.PaymentPath(rows.payment.ID.String()))
			walk.run()
			t.Logf("%d pages of %d kinds, %d dialogs and menus", walk.pages, len(walk.kinds), walk.opened)
			require.Greater(t, len(walk.kinds), 30, "the links lead nearly everywhere")
			require.Greater(t, walk.opened, 10)
		})
	}
}

// walk is one way through the console.
type walk struct {
	t     *testing.T
	b     *browsertest.Tab
	base  string
	queue []string
	kinds map[string]int  // pages wanted, by kind of address
	done  map[string]bool // kinds of buttons and dialogs that were tried

	pages, opened int

	mu   sync.Mutex
	said []string // what the browser's console was told
}

// listen collects what is written to the browser's console as an error or warning, by
// pages or by the browser about them.
func (k *walk) listen() {
	require.NoError(k.t, chromedp.Listen(k.b.Context(), func(event any) {
		said := ""
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
				for _, arg := range e.Args {
					said += string(arg.Value) + " " + arg.Description + " "
				}
			}
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError {
				said = e.Entry.Text + " " + e.Entry.URL
			}
		}
		if said != "" {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.said = append(k.said, said)
		}
	}))
}

// silent fails the test for what the console was told since the last call.
func (k *walk) silent(where string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, said := range k.said {
		k.t.Errorf("%s: the console says: %s", where, said)
	}
	k.said = nil
}

var walkIDs = regexp.MustCompile(`/(?:[0-9a-f]{8}-[0-9a-f-]{27}|[0-9]+)(/|$)`)

// kind is what an address has in common with others: its path without ids and names, and
// which parameters it carries, not their values.
func walkKind(u *url.URL) string {
	path := walkIDs.ReplaceAllString(u.Path, "/:id$1")
	for _, name := range []string{"atlas", "borealis"} {
		path = strings.ReplaceAll(path, "/"+name, "/:provider")
	}
	path = strings.NewReplacer("/charge", "/:class", "/status", "/:class").Replace(path)
	var params []string
	for name := range u.Query() {
		params = append(params, name)
	}
	slices.Sort(params)
	return path + "?" + strings.Join(params, "&")
}

// want queues an address, unless enough of its kind were wanted before.
func (k *walk) want(href string) {
	u, err := url.Parse(href)
	if err != nil || strings.HasSuffix(u.Path, ".csv") || strings.HasPrefix(u.Path, "/static/") {
		return
	}
	u.Fragment = ""
	kind := walkKind(u)
	if k.kinds[kind] >= walkPerKind || slices.Contains(k.queue, u.String()) {
		return
	}
	k.kinds[kind]++
	k.queue = append(k.queue, u.String())
}

// run walks until no link leads anywhere new. The queue is only ever appended to: it is
// also what was wanted before.
func (k *walk) run() {
	for ; k.pages < len(k.queue); k.pages++ {
		require.Less(k.t, k.pages, walkPages, "links lead to ever more pages: %v", k.queue)
		k.page(k.queue[k.pages])
	}
}

// walkPage is what a page says about itself.
type walkPage struct {
	Status int      // of the answer
	Links  []string // same origin
	Opens  []string // links that open a dialog, by address
	Menus  []string // selectors of menus
	Copies bool     // it has a button that copies something
	Stuck  []string // words that touch
	Under  []string // what can be pressed, but for something that lies over it
	Cut    []string // tables that are wider than their place, where that has no scroll bar
	Over   float64  // px by which the page is too wide, folds open
}

// walkLook reads a page, with every fold opened and shut again.
const walkLook = `(async () => {
	const seen = (el) => el.checkVisibility({ visibilityProperty: true });
	const here = (a) => a.origin === location.origin && !a.hasAttribute("download") && a.getAttribute("href") && !a.getAttribute("href").startsWith("#");
	const folds = [...document.querySelectorAll("main summary")].filter(seen).map((s) => [s, s.parentElement.open]);
	for (const [s, was] of folds) {
		s.click();
		if (s.parentElement.open === was) throw new Error("a fold does not move: " + s.textContent);
		if (was) s.click();
	}
	const anchors = [...document.querySelectorAll("a[href]")].filter(here);
	const stuck = [];
	const inline = (n) => n.nodeType === 3 || (n.nodeType === 1 && getComputedStyle(n).display.startsWith("inline"));
	const box = (n, last) => {
		const r = document.createRange();
		r.selectNodeContents(n);
		const all = n.nodeType === 1 ? n.getClientRects() : r.getClientRects();
		return all[last ? all.length - 1 : 0];
	};
	for (const el of document.querySelectorAll("main *")) {
		const before = el.previousSibling;
		if (!before || !inline(el) || !inline(before) || !seen(el) || !el.textContent.trim() || !before.textContent.trim()) continue;
		if (before.nodeType === 3 && /[\s("“«'’]$/.test(before.data) || /^[\s.,;:)!?…]/.test(el.textContent)) continue;
		if (before.nodeType === 1 && (/\s$/.test(before.textContent) || !seen(before))) continue;
		if (getComputedStyle(el).position === "absolute" || (before.nodeType === 1 && getComputedStyle(before).position === "absolute")) continue;
		const a = box(before, true), b = box(el, false);
		if (a && b && Math.abs(a.bottom - b.bottom) < 12 && b.left - a.right < 1.5 && b.left >= a.left)
			stuck.push(before.textContent.trim().slice(-20) + "|" + el.textContent.trim().slice(0, 20));
	}
	const under = [];
	for (const el of document.querySelectorAll("main a[href], main button, main summary, main input, main select")) {
		const r = el.getClientRects()[0];
		const heard = el.closest("thead") && getComputedStyle(el.closest("thead")).position === "absolute"; // a stacked table's head
		if (!r || heard || !seen(el) || el.closest(".sr-only") || r.width < 2 || r.top < 0 || r.bottom > innerHeight || r.left < 0 || r.right > innerWidth) continue;
		const hit = document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2);
		const clipped = hit && hit.contains(el) && !hit.matches("a, button, label"); // scrolled out of its box
		if (hit && hit !== el && !el.contains(hit) && !clipped && !hit.closest("label, .toasts, .top, thead")) under.push(el.outerHTML.slice(0, 80) + " under " + hit.outerHTML.slice(0, 80));
	}
	const cut = [...document.querySelectorAll("main .scroll")].filter((el) => getComputedStyle(el).overflowX !== "auto" &&
		el.firstElementChild.getBoundingClientRect().width > el.clientWidth + 1).map((el) => el.getAttribute("aria-label") || el.id);
	const over = document.documentElement.scrollWidth - document.documentElement.clientWidth;
	for (const [s, was] of folds) if (s.parentElement.open !== was) s.click();
	return {
		status: performance.getEntriesByType("navigation")[0].responseStatus,
		links: [...new Set(anchors.map((a) => a.pathname + a.search))],
		opens: [...new Set(anchors.filter((a) => a.matches("main a[data-dialog]") && seen(a)).map((a) => a.getAttribute("href")))],
		menus: ["details.user-menu > summary", "a.menu-open", "[data-keys-help]"].filter((s) => document.querySelector(s) && seen(document.querySelector(s))),
		copies: [...document.querySelectorAll("main [data-copy]")].some(seen),
		stuck, under, cut, over,
	};
})()`

// walkCopy is where the first button that copies is. Once one has been pressed and has said
// either that it did, which it says only for a moment, or that it could not, the page is
// marked; the list around the button may be drawn anew in between.
const walkCopy = `(() => {
	const walked = () => { document.documentElement.dataset.walked = "yes"; };
	new MutationObserver(walked).observe(document.querySelector("main"), { subtree: true, attributes: true, attributeFilter: ["data-done"] });
	new MutationObserver(walked).observe(document.getElementById("toasts"), { childList: true });
	const button = [...document.querySelectorAll("main [data-copy]")].find((el) => el.checkVisibility());
	button.scrollIntoView({ block: "center" });
	const r = button.getBoundingClientRect();
	return { X: r.left + r.width / 2, Y: r.top + r.height / 2 };
})()`

// page looks at one page and tries what is on it.
func (k *walk) page(path string) {
	k.b.Open(path)
	k.b.Wait("body")
	p := browsertest.Eval[walkPage](k.b, walkLook)
	require.NotZero(k.t, p.Status, path)
	if p.Status >= 400 {
		k.t.Errorf("a link leads to %s, which answers %d", path, p.Status)
	}
	if p.Over > 0 {
		k.t.Errorf("%s scrolls sideways by %.0f px with its folds open", path, p.Over)
	}
	for _, words := range p.Stuck {
		k.t.Errorf("%s: words touch: %s", path, words)
	}
	for _, table := range p.Cut {
		k.t.Errorf("%s: the table %q does not fit", path, table)
	}
	for _, what := range p.Under {
		k.t.Errorf("%s: cannot be pressed: %s", path, what)
	}
	for _, href := range p.Links {
		k.want(href)
	}
	for _, href := range p.Opens {
		k.dialog(path, href)
	}
	for _, menu := range p.Menus {
		k.menu(path, menu)
	}
	if u, err := url.Parse(path); err == nil && p.Copies && !k.done["copy "+walkKind(u)] {
		k.done["copy "+walkKind(u)] = true
		at := browsertest.Eval[struct{ X, Y float64 }](k.b, walkCopy)
		k.b.Run(chromedp.MouseClickXY(at.X, at.Y))
		k.b.Holds(0, `document.documentElement.dataset.walked`)
		if said := k.b.Text("#toasts"); said != "" {
			k.t.Errorf("%s: nothing was copied: %s", path, said)
		}
	}
	k.silent(path)
}

// first reports whether something of that kind is tried for the first time.
func (k *walk) first(kind string) bool {
	if k.done[kind] {
		return false
	}
	k.done[kind] = true
	k.opened++
	return true
}

// back is an expression: the focus is on el again, and everybody can see where.
func walkBack(el string) string {
	return `(() => {
		const el = ` + el + `;
		if (document.activeElement !== el || !el.matches(":focus-visible")) return false;
		const r = el.getBoundingClientRect(), top = document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2);
		return top && (el === top || el.contains(top));
	})()`
}

// dialog opens the dialog that a link opens, shuts it with Escape, and looks for the focus.
func (k *walk) dialog(path, href string) {
	u, err := url.Parse(href)
	require.NoError(k.t, err)
	if !k.first(walkKind(u)) {
		return
	}
	link := fmt.Sprintf(`[...document.querySelectorAll('a[data-dialog]')].find((a) => a.getAttribute("href") === %q && a.checkVisibility())`, href)
	where := path + ", dialog " + href
	browsertest.Eval[bool](k.b, `(`+link+`.click(), true)`)
	k.b.Holds(0, `document.querySelector("dialog[open] h1")`)
	k.b.Fits()
	if out := browsertest.Eval[float64](k.b, `(() => { const d = document.querySelector("dialog[open]"); return d.scrollWidth - d.clientWidth; })()`); out > 0 {
		k.t.Errorf("%s scrolls sideways by %.0f px", where, out)
	}
	k.b.Press(kb.Escape)
	k.b.Holds(0, `!document.querySelector("dialog[open]")`)
	k.b.Holds(0, walkBack(link))
	k.silent(where)
}

// menu opens a menu, shuts it with Escape, and looks for the focus.
func (k *walk) menu(path, selector string) {
	if !k.first(selector) {
		return
	}
	el := fmt.Sprintf(`document.querySelector(%q)`, selector)
	browsertest.Eval[bool](k.b, `(`+el+`.click(), true)`)
	k.b.Holds(0, `document.querySelector("details.user-menu[open], #rail:target, dialog[open]")`)
	k.b.Fits()
	k.b.Press(kb.Escape)
	k.b.Holds(0, `!document.querySelector("details.user-menu[open], #rail:target, dialog[open]")`)
	k.b.Holds(0, walkBack(el))
	k.silent(path + ", " + selector)
}
