package browsertest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// patience is how long one action may take, and the least that is waited for what a page
// is to show: on a busy machine everything takes its time.
const patience = time.Minute

// Tab is one tab of the browser. Its methods fail the test when they cannot do what
// they say. A script error on a page, or anything the page's Content-Security-Policy
// had to stop, fails the test at its end.
type Tab struct {
	t    testing.TB
	ctx  context.Context
	base string

	mu     sync.Mutex
	faults []string // script errors and policy violations
}

// Open opens a tab with cookies and storage of its own. base is the URL of the
// console; every path given to the Tab is below it. Motion is reduced, so that no
// animation is caught half way.
func Open(t testing.TB, base string) *Tab {
	t.Helper()
	chrome.once.Do(startChrome)
	require.NoError(t, chrome.err, "Chromium is needed for browser tests")
	ctx, cancel := chromedp.NewContext(chrome.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	return openTab(t, ctx, base)
}

// openTab makes the tab of a fresh context. The first Do must not carry a timeout:
// the tab would end with it.
func openTab(t testing.TB, ctx context.Context, base string) *Tab {
	t.Helper()
	require.NoError(t, chromedp.Do(ctx))
	b := &Tab{t: t, ctx: ctx, base: base}
	require.NoError(t, chromedp.Listen(ctx, b.listen))
	t.Cleanup(func() {
		if faults := b.Faults(); len(faults) > 0 {
			t.Errorf("faults on the pages:\n%s", strings.Join(faults, "\n"))
		}
	})
	b.Viewport(1280)
	b.Scheme("light")
	return b
}

// Second opens another tab with the same cookies and storage.
func (b *Tab) Second() *Tab {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	return openTab(b.t, ctx, b.base)
}

// Close closes the tab, as a person does. Closing one that Open made closes its Second
// tabs too.
func (b *Tab) Close() {
	b.t.Helper()
	require.NoError(b.t, chromedp.Cancel(b.ctx))
}

// listen collects what went wrong on the pages.
func (b *Tab) listen(event any) {
	fault := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		fault = e.ExceptionDetails.Text
		if o := e.ExceptionDetails.Exception; o != nil {
			fault += " " + o.Description
		}
	case *log.EventEntryAdded:
		if e.Entry.Source == log.EntrySourceSecurity {
			fault = e.Entry.Text
		}
	}
	if fault != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.faults = append(b.faults, fault)
	}
}

// Faults returns the script errors and policy violations since the last call, which
// the test has then dealt with.
func (b *Tab) Faults() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	faults := b.faults
	b.faults = nil
	return faults
}

// Context is what chromedp actions of this tab run under.
func (b *Tab) Context() context.Context { return b.ctx }

// Run runs actions within patience, and shows the page when they fail.
func (b *Tab) Run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("%v\nat %s\n%s", err, b.Location(), b.Text("body"))
	}
}

// Eval evaluates JavaScript on the tab's page, waits when it is a promise, and returns
// the value as a T.
func Eval[T any](b *Tab, script string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%v\nat %s\n%s", err, b.Location(), script)
	}
	return v
}

// Open goes to a path of the console and waits until it is loaded.
func (b *Tab) Open(path string) {
	b.t.Helper()
	b.Run(chromedp.Navigate(b.base + path))
}

// Location is the URL of the page.
func (b *Tab) Location() string {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	url, err := chromedp.Run(ctx, chromedp.Location())
	if err != nil {
		return err.Error()
	}
	return url
}

// Text is the visible text below the selector with single spaces, empty if there is
// nothing.
func (b *Tab) Text(selector string) string {
	ctx, cancel := context.WithTimeout(b.ctx, 2*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS(selector)))
	if err != nil {
		return "" // not there (yet), which callers poll for
	}
	return strings.Join(strings.Fields(text), " ")
}

// Value is the value of a field.
func (b *Tab) Value(selector string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Value(chromedp.CSS(selector)))
	require.NoError(b.t, err, selector)
	return v
}

// Sees waits until the text below the selector contains want.
func (b *Tab) Sees(within time.Duration, selector, want string) {
	b.t.Helper()
	var text string
	b.eventually(within, func() string { return "«" + want + "» in " + selector + ", which says: " + text },
		func() bool { text = b.Text(selector); return strings.Contains(text, want) })
}

// Holds waits until a JavaScript expression is true on the page.
func (b *Tab) Holds(within time.Duration, expression string) {
	b.t.Helper()
	b.eventually(within, func() string { return expression + "\nat " + b.Location() + "\n" + b.Text("body") }, func() bool {
		ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
		defer cancel()
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		return err == nil && ok // an error: the page is being replaced
	})
}

func (b *Tab) eventually(within time.Duration, what func() string, ok func() bool) {
	b.t.Helper()
	within = max(within, patience)
	deadline := time.Now().Add(within)
	for !ok() {
		if time.Now().After(deadline) {
			b.t.Fatalf("not within %s: %s", within, what())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Click scrolls to the first element of the selector and clicks it.
func (b *Tab) Click(selector string) {
	b.t.Helper()
	b.Run(chromedp.Click(chromedp.CSS(selector)))
}

// Type focuses a field and types into it, after what is there already.
func (b *Tab) Type(selector, text string) {
	b.t.Helper()
	b.Run(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// Fill replaces what a field holds.
func (b *Tab) Fill(selector, text string) {
	b.t.Helper()
	b.Run(chromedp.SetValue(chromedp.CSS(selector), text))
}

// Press presses keys wherever the focus is; names of keys are in chromedp/kb.
func (b *Tab) Press(keys string, opts ...chromedp.KeyOption) {
	b.t.Helper()
	b.Run(chromedp.KeyEvent(keys, opts...))
}

// Wait waits until the selector is visible.
func (b *Tab) Wait(selector string) {
	b.t.Helper()
	b.Run(chromedp.WaitVisible(chromedp.CSS(selector)))
}

// WaitGone waits until the selector is not on the page.
func (b *Tab) WaitGone(selector string) {
	b.t.Helper()
	b.Run(chromedp.WaitNotPresent(chromedp.CSS(selector)))
}

// SignIn fills in the form and waits for the overview.
func (b *Tab) SignIn(email, password string) {
	b.t.Helper()
	b.Open("/signin")
	b.Type("input[name=email]", email)
	b.Type("input[name=password]", password)
	b.Click("form[action='/signin'] button[type=submit]")
	b.Wait("nav")
}

// Cookie sets a cookie of the console, for tests that make the session themselves.
func (b *Tab) Cookie(name, value string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, network.SetCookie, network.SetCookieParams{Name: name, Value: value, URL: b.base + "/"})
	require.NoError(b.t, err)
}

// Viewport makes the window that wide (and 900 px high).
func (b *Tab) Viewport(width int64) {
	b.t.Helper()
	b.Run(chromedp.EmulateViewport(width, 900))
}

// Scheme sets the device's colour scheme, light or dark.
func (b *Tab) Scheme(scheme string) {
	b.t.Helper()
	b.media("", scheme)
}

// Print shows the page as paper would, until Scheme is called.
func (b *Tab) Print() {
	b.t.Helper()
	b.media("print", "light")
}

func (b *Tab) media(media, scheme string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: media,
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
	require.NoError(b.t, err)
}

// WithoutScripts turns JavaScript off for the tab.
func (b *Tab) WithoutScripts() *Tab {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	require.NoError(b.t, err)
	return b
}

// Offline takes the network away from the tab, or gives it back.
func (b *Tab) Offline(gone bool) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, network.OverrideNetworkState, network.OverrideNetworkStateParams{
		Offline: gone, DownloadThroughput: -1, UploadThroughput: -1})
	require.NoError(b.t, err)
	_, err = chromedp.Call(b.ctx, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		MatchedNetworkConditions: []*network.Conditions{{Offline: gone, DownloadThroughput: -1, UploadThroughput: -1}}})
	require.NoError(b.t, err)
}
