package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fusebox/web/browsertest"
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
	info, _ := startDemo(t)
	b := browsertest.Open(t, info.URL)
	b.SignIn(info.Email, info.Password)
	payment := somePayment(t, b)
	for _, s := range screens {
		if !wanted(s.name) {
			continue
		}
		if s.path == "" {
			s.path = payment
		}
		b.Pictures(s.name, s.path)
	}
}

// somePayment is the path of a payment with a story: the first that needs an answer,
// else the first of the list.
func somePayment(t *testing.T, b *browsertest.Tab) string {
	t.Helper()
	for _, list := range []string{"/queue", "/payments"} {
		b.Open(list)
		href := browsertest.Eval[string](b, `(document.querySelector("td.main a") || {getAttribute: () => ""}).getAttribute("href")`)
		if href != "" {
			return href
		}
	}
	t.Fatal("the demo has no payment yet")
	return ""
}
