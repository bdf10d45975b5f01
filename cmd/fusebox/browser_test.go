package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"fusebox/store"
)

// chrome is one headless Chromium for all tests of this process; every test has a
// browser context (cookies, storage, locks) of its own in it.
var chrome struct {
	once sync.Once
	ctx  context.Context
	stop func()
	err  error
}

// browserNames are looked for in PATH, in this order.
var browserNames = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

func startChrome() {
	var path string
	for _, name := range browserNames {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	dir, err := os.MkdirTemp("", "fusebox-chrome-")
	if err != nil {
		chrome.err = err
		return
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.UserDataDir(dir), chromedp.NoSandbox, chromedp.DisableGPU,
		// Nothing but the pages under test: the tests need no network.
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WindowSize(1280, 900),
		chromedp.WSURLReadTimeout(60*time.Second),
	)
	if path != "" {
		opts = append(opts, chromedp.ExecPath(path))
	}
	alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, stop := chromedp.NewContext(alloc)
	chrome.ctx = ctx
	chrome.stop = func() { stop(); stopAlloc(); _ = os.RemoveAll(dir) }
	chrome.err = chromedp.Do(ctx) // starts the browser
}

// browser is a tab; ctx is what chromedp actions run under.
type browser struct {
	t    *testing.T
	ctx  context.Context
	base string // URL of the console
}

// newBrowser opens a tab in a browser context of its own.
func newBrowser(t *testing.T, base string) *browser {
	t.Helper()
	chrome.once.Do(startChrome)
	require.NoError(t, chrome.err, "Chromium is needed for browser tests")
	ctx, cancel := chromedp.NewContext(chrome.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	return openTab(t, ctx, base)
}

// openTab makes the tab of a fresh context. The first Do must not carry a timeout:
// the tab would end with it.
func openTab(t *testing.T, ctx context.Context, base string) *browser {
	t.Helper()
	require.NoError(t, chromedp.Do(ctx))
	b := &browser{t: t, ctx: ctx, base: base}
	b.run(chromedp.EmulateViewport(1280, 900))
	return b
}

// tab opens another tab with the same cookies.
func (b *browser) tab() *browser {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	return openTab(b.t, ctx, b.base)
}

// withoutScripts turns JavaScript off for the tab.
func (b *browser) withoutScripts() *browser {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	require.NoError(b.t, err)
	return b
}

// run runs actions within 30 s, and shows the page when they fail.
func (b *browser) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("%v\nat %s\n%s", err, b.location(), b.text("body"))
	}
}

func (b *browser) open(path string) {
	b.t.Helper()
	b.run(chromedp.Navigate(b.base + path))
}

func (b *browser) location() string {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	url, err := chromedp.Run(ctx, chromedp.Location())
	if err != nil {
		return err.Error()
	}
	return url
}

// text is the visible text below the selector, empty if there is nothing.
func (b *browser) text(selector string) string {
	ctx, cancel := context.WithTimeout(b.ctx, 2*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS(selector)))
	if err != nil {
		return "" // not there (yet), which callers poll for
	}
	return strings.Join(strings.Fields(text), " ")
}

// sees waits until the page's text contains want.
func (b *browser) sees(within time.Duration, selector, want string) {
	b.t.Helper()
	var text string
	eventuallyIn(b.t, within, func() string { return "«" + want + "» in " + selector + ", which says: " + text },
		func() bool { text = b.text(selector); return strings.Contains(text, want) })
}

// signIn fills in the form and waits for the overview.
func (b *browser) signIn(email, password string) {
	b.t.Helper()
	b.open("/signin")
	b.run(
		chromedp.SendKeys(chromedp.CSS(`input[name=email]`), email),
		chromedp.SendKeys(chromedp.CSS(`input[name=password]`), password),
		chromedp.Click(chromedp.CSS(`button[type=submit]`)),
		chromedp.WaitVisible(chromedp.CSS(`nav`)),
	)
}

// person makes a user in the world and returns the password.
func (w *world) person(email, name string, role store.Role) (password string) {
	w.t.Helper()
	password = randomSecret()
	_, err := w.store.CreateUser(w.t.Context(), store.NewUser{Email: email, Name: name, Role: role, Password: password}, commandLine)
	require.NoError(w.t, err)
	return password
}
