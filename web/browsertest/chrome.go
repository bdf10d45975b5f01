// Package browsertest drives a real Chromium in tests: tabs with cookies of their own,
// a second tab beside one, phones, dark mode, JavaScript switched off, a network that
// is gone, pictures, and axe-core.
//
// A package that opens tabs calls Stop at the end of its TestMain.
package browsertest

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/chromedp/chromedp"
)

// chrome is one headless Chromium for all tests of this process; every Tab has a
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
	for _, name := range browserNames {
		if found, err := exec.LookPath(name); err == nil {
			opts = append(opts, chromedp.ExecPath(found))
			break
		}
	}
	alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, stop := chromedp.NewContext(alloc)
	chrome.ctx = ctx
	chrome.stop = func() { stop(); stopAlloc(); _ = os.RemoveAll(dir) }
	chrome.err = chromedp.Do(ctx) // starts the browser
}

// Stop ends Chromium, if any test started it. Call it once, after all tests.
func Stop() {
	if chrome.stop != nil {
		chrome.stop()
	}
}
