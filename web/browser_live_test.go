package web

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/views"
	"fusebox/web/browsertest"
)

// move moves a topic's revision now and returns the new one.
func (w *webtest) move(topic string) string {
	w.t.Helper()
	w.server.a.hub.touch(topic)
	w.server.a.hub.flush()
	return w.server.a.hub.rev(topic)
}

// streams are the streams that are open.
func (h *hub) streams() []chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.viewers))
}

func isLive(b *browsertest.Tab) {
	b.Holds(20*time.Second, `document.getElementById("live-pill").dataset.state === "live"`)
}

// TestBrowserLiveOneStreamForSevenTabs: a browser's tabs share one stream, and when the
// tab that holds it is closed another goes on.
func TestBrowserLiveOneStreamForSevenTabs(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	hub := w.server.a.hub
	owner := w.tab(w.serve(), store.RoleSupport) // closing it would close the others
	tabs := make([]*browsertest.Tab, 7)
	for i := range tabs {
		tabs[i] = owner.Second()
		tabs[i].Open("/queue")
		isLive(tabs[i])
	}
	fresh := func(b *browsertest.Tab) {
		b.Holds(20*time.Second, fmt.Sprintf(`document.getElementById("waiting").dataset.rev === %q`, hub.rev(topicBanners)))
	}
	first := hub.streams()
	require.Len(t, first, 1, "seven tabs, one stream")
	w.move(topicBanners)
	for _, b := range tabs {
		fresh(b)
	}

	tabs[0].Close() // it came first, so it leads
	tabs = tabs[1:]
	require.Eventually(t, func() bool {
		now := hub.streams()
		return len(now) == 1 && now[0] != first[0]
	}, 20*time.Second, 10*time.Millisecond, "another tab takes over")
	w.move(topicBanners)
	for _, b := range tabs {
		fresh(b)
		isLive(b)
	}
	require.Len(t, hub.streams(), 1)
}

// TestBrowserLiveKeepsWhatAPersonDoes: ten refreshes, in which the page really changes,
// undo nothing of what a person has open, selected, typed or scrolled to.
func TestBrowserLiveKeepsWhatAPersonDoes(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	rows := seedConsole(t, w)
	path := views.PaymentPath(rows.payment.ID.String())
	b := w.tab(w.serve(), store.RoleOperator)
	refresh := func() {
		w.db.Exec(t, `UPDATE payments SET next_check_at = next_check_at + interval '1 minute', version = version + 1 WHERE id = $1`, rows.payment.ID)
		rev := w.move("payments")
		b.Holds(20*time.Second, fmt.Sprintf(`document.querySelector("main [data-live=payments]").dataset.rev === %q`, rev))
	}

	// On the page: an open <details>, a text selection, a place scrolled to.
	b.Open(path)
	isLive(b)
	browsertest.Eval[bool](b, `(() => {
		document.querySelectorAll("main details").forEach((d) => { d.open = true; });
		const code = document.querySelector("main .terms code, main .terms dd");
		getSelection().selectAllChildren(code);
		window.kept = {text: String(getSelection()), details: document.querySelectorAll("main details[open]").length};
		scrollTo(0, 240);
		return true;
	})()`)
	for range 10 {
		refresh()
	}
	require.True(t, browsertest.Eval[bool](b, `kept.text !== "" && String(getSelection()) === kept.text`), "the selection")
	require.True(t, browsertest.Eval[bool](b, `kept.details > 0 && document.querySelectorAll("main details[open]").length === kept.details`), "open details")
	require.InDelta(t, 240, browsertest.Eval[float64](b, `scrollY`), 1)

	// On a list: a ticked row, a filter half typed, with the caret in the middle of it.
	b.Open("/payments")
	isLive(b)
	b.Click("main tbody tr:first-child input[type=checkbox]")
	b.Type("main form.filters input[name=text]", "half ty")
	browsertest.Eval[bool](b, `(() => { document.querySelector("main form.filters input[name=text]").setSelectionRange(2, 4); return true; })()`)
	for range 10 {
		refresh()
	}
	require.True(t, browsertest.Eval[bool](b, `document.querySelector("main tbody tr:first-child input[type=checkbox]").checked`), "the selection of rows")
	require.True(t, browsertest.Eval[bool](b, `(() => { const q = document.querySelector("main form.filters input[name=text]");
		return q === document.activeElement && q.value === "half ty" && q.selectionStart === 2 && q.selectionEnd === 4; })()`))

	// In the dialog: a half-typed reason, with the caret in the middle of it.
	b.Open(path)
	isLive(b)
	b.Click("a[href$='/resolve?to=succeeded']")
	b.Wait("dialog[open] #reason")
	b.Type("dialog[open] #reason", "Seen at the pro")
	browsertest.Eval[bool](b, `(() => { const r = document.querySelector("dialog #reason"); r.setSelectionRange(5, 7); return true; })()`)
	for range 10 {
		refresh()
	}
	require.True(t, browsertest.Eval[bool](b, `(() => { const r = document.querySelector("dialog[open] #reason");
		return r === document.activeElement && r.value === "Seen at the pro" && r.selectionStart === 5 && r.selectionEnd === 7; })()`))
	b.Press("\x1b")
	b.WaitGone("dialog[open]")
	require.True(t, browsertest.Eval[bool](b, `document.activeElement.matches("a[href$='/resolve?to=succeeded']")`), "the focus is back")
}

// TestBrowserLivePill: a person pauses and resumes; a page whose regions cannot be
// fetched says since when it is old and takes its buttons out of use, although the
// stream lives; both end by themselves.
func TestBrowserLivePill(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	rows := seedConsole(t, w)
	broken := w.faulty()
	path := views.PaymentPath(rows.payment.ID.String())
	b := w.tab(w.serve(), store.RoleOperator)
	b.Open(path)
	isLive(b)
	const shown = `document.querySelector("main [data-live=payments]").dataset.rev`

	b.Click("#live-pill button")
	b.Sees(5*time.Second, "#live-pill", "Paused")
	before := browsertest.Eval[string](b, shown)
	w.move("payments")
	b.Holds(10*time.Second, `true`)
	require.Equal(t, before, browsertest.Eval[string](b, shown), "paused is paused")
	b.Click("#live-pill button")
	b.Holds(20*time.Second, fmt.Sprintf(`%s === %q`, shown, w.server.a.hub.rev("payments")))

	broken.set(http.MethodGet, path, errors.New("broken"))
	w.move("payments")
	b.Sees(30*time.Second, "#live-pill", "Stale since ")
	const button = `document.querySelector("a[href$='/reconcile']")`
	require.True(t, browsertest.Eval[bool](b, button+`.getAttribute("aria-disabled") === "true"`))
	require.Contains(t, browsertest.Eval[string](b, `document.getElementById(`+button+`.getAttribute("aria-describedby")).textContent`), "out of date")
	b.Sees(5*time.Second, ".stale-note", "out of date")
	b.Click("a[href$='/reconcile']")
	require.False(t, browsertest.Eval[bool](b, `!!document.querySelector("dialog[open]")`), "and it does nothing")
	b.Sees(5*time.Second, "#toasts", "out of date")
	browsertest.Axe(t, b)

	broken.heal()
	isLive(b)
	require.True(t, browsertest.Eval[bool](b, button+`.getAttribute("aria-disabled") === null && !document.querySelector(".stale-note")`))
	b.Click("a[href$='/reconcile']")
	b.Wait("dialog[open] form")
}
