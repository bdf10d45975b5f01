package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// screens are the pages `make screenshots` takes pictures of, with a real demo behind
// them. The payment's path is found in the list of unknown or settled ones.
var screens = []struct{ name, path string }{
	{"payments", "/payments"}, {"queue", "/queue"}, {"payment", ""},
	{"providers", "/providers"}, {"queues", "/queues"}, {"webhooks", "/webhook-log"},
	{"reconciliation", "/reconciliation"}, {"wallets", "/wallets"}, {"audit", "/audit"}, {"alerts", "/alerts"},
	{"checkout", "/checkout"}, {"faults", "/demo/faults"}, {"search", "/search?q=nothing"}, {"not-found", "/payments/nothing"},
	{"overview", "/"}, {"tuning", "/providers/outage/charge/tuning?failures=3&window=60&range=15m"}, // last: by now the demo's outage has begun
}

// wanted reports whether a screen is among those that FUSEBOX_TEST_SCREENS names;
// without it, all are.
func wanted(name string) bool {
	only := os.Getenv("FUSEBOX_TEST_SCREENS")
	return only == "" || slices.Contains(strings.Split(only, ","), name)
}

// demoInfo is what `fusebox demo --info` writes.
type demoInfo struct {
	URL, Email, Password string
	APIKey               string `json:"api_key"`
	Providers            map[string]struct {
		URL           string `json:"url"`
		WebhookSecret string `json:"webhook_secret"`
	}
}

// startDemo runs `fusebox demo` and waits until it is ready.
func startDemo(t *testing.T, args ...string) (demoInfo, *process) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "info.json")
	w := &world{t: t, env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + os.TempDir()}}
	p := w.start(nil, append([]string{"demo", "--listen", "127.0.0.1:0", "--info", file}, args...)...)
	var info demoInfo
	eventuallyIn(t, 60*time.Second, func() string { return "the demo is ready: " + p.log.String() }, func() bool {
		b, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(b, &info) == nil
	})
	return info, p
}

// TestScreenshots writes every screen in light and dark, at 1280 and 360 px, to the
// folder FUSEBOX_TEST_SCREENSHOTS names; without it, to a temporary one, and the test
// still checks that every screen can be drawn and none scrolls sideways.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("FUSEBOX_TEST_SCREENSHOTS")
	if dir == "" {
		dir = t.TempDir()
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	info, _ := startDemo(t)
	b := newBrowser(t, info.URL)
	b.signIn(info.Email, info.Password)
	payment := b.somePayment()
	for _, s := range screens {
		if !wanted(s.name) {
			continue
		}
		if s.path == "" {
			s.path = payment
		}
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{1280, 360} {
				b.picture(dir, s.name, s.path, scheme, width)
			}
		}
	}
}

func (b *browser) picture(dir, name, path, scheme string, width int64) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	require.NoError(b.t, err)
	b.run(chromedp.EmulateViewport(width, 900))
	b.open(path)
	overflow, err := chromedp.Run(b.ctx, chromedp.Evaluate[float64](`document.documentElement.scrollWidth - document.documentElement.clientWidth`))
	require.NoError(b.t, err)
	require.Zero(b.t, overflow, "%s scrolls sideways at %d px", name, width)
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%s-%d.png", name, scheme, width)), png, 0o644))
}

// somePayment is the path of a payment with a story: the first that needs an answer,
// else the first of the list.
func (b *browser) somePayment() string {
	b.t.Helper()
	for _, list := range []string{"/queue", "/payments"} {
		b.open(list)
		href, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`(document.querySelector("td.main a") || {getAttribute: () => ""}).getAttribute("href")`))
		require.NoError(b.t, err)
		if href != "" {
			return href
		}
	}
	b.t.Fatal("the demo has no payment yet")
	return ""
}
