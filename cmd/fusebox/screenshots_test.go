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

	"fusebox/web/browsertest"
)

// screen is a page that `make screenshots` takes pictures of.
type screen struct {
	name, path string
	// Without a path: the first link of the page from that the selector finds, and then add
	// behind it. With neither, the payment with a story.
	from, link, add string
}

// screens are all pages, with a real demo behind them. The order matters where a page
// needs what was done for one before it.
var screens = []screen{
	{name: "payments", path: "/payments"}, {name: "queue", path: "/queue"}, {name: "payment"}, {name: "evidence", add: "/evidence"},
	{name: "note", add: "/note"}, {name: "reconcile", add: "/reconcile"}, {name: "resolve", add: "/resolve?to=succeeded"},
	{name: "queue-item", from: "/queue", link: "td.main a"}, {name: "take", from: "/queue", link: "td.main a", add: "/take"},
	{name: "providers", path: "/providers"}, {name: "force-open", path: "/providers/steady/charge/open"},
	{name: "queues", path: "/queues"}, {name: "pause", path: "/queues/charge/steady/pause"}, {name: "river", path: "/river/"},
	{name: "webhooks", path: "/webhook-log"}, {name: "webhook", from: "/webhook-log", link: "td.main a"},
	{name: "webhook-again", from: "/webhook-log", link: "td.main a", add: "/reapply"},
	{name: "reconciliation", path: "/reconciliation"}, {name: "run", from: "/reconciliation", link: "td.main a"},
	{name: "run-now", path: "/reconciliation/start/steady"}, {name: "bulk", path: "/bulk"},
	{name: "wallets", path: "/wallets"}, {name: "wallet", from: "/wallets", link: "td.main a"},
	{name: "refund", from: "/payments?status=succeeded", link: "td.main a", add: "/refund"},
	{name: "refunded", from: "/payments?status=succeeded", link: "td.main a"},
	{name: "audit", path: "/audit?who=all"}, {name: "settings", path: "/settings"}, {name: "factors", path: "/settings/factors"},
	{name: "app", path: "/settings/factors/app"}, {name: "password", path: "/settings/password"},
	{name: "users", path: "/settings/users"}, {name: "user", from: "/settings/users", link: "main td a"}, {name: "user-new", path: "/settings/users/new"},
	{name: "keys", path: "/settings/keys"}, {name: "key-new", path: "/settings/keys/new"},
	{name: "checkout", path: "/checkout"}, {name: "faults", path: "/demo/faults"},
	{name: "search", path: "/search?q=nothing"}, {name: "found", path: "/search?q=49.00"}, {name: "not-found", path: "/payments/nothing"},
	// Last: by now the demo's outage has begun.
	{name: "overview", path: "/"}, {name: "alerts", path: "/alerts"}, {name: "acknowledge", from: "/alerts", link: "a[href$='/acknowledge']"},
	{name: "reset", path: "/providers/outage/charge/reset"},
	{name: "tuning", path: "/providers/outage/charge/tuning?failures=3&window=60&range=15m"},
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
	var missing []string
	for _, s := range screens {
		if !wanted(s.name) {
			continue
		}
		switch {
		case s.from != "":
			b.Open(s.from)
			if s.path = firstLink(b, s.link); s.path == "" {
				missing = append(missing, s.name) // nothing of its kind has happened in this demo yet
				continue
			}
			s.path += s.add
		case s.path == "":
			s.path = payment + s.add
		}
		b.Pictures(s.name, s.path)
	}
	if len(missing) > 0 {
		t.Logf("no rows for %s", strings.Join(missing, ", "))
	}
	if wanted("signin") {
		browsertest.Open(t, info.URL).Pictures("signin", "/signin")
	}
}

// firstLink is the address of the first link that the selector finds; empty: there is none.
func firstLink(b *browsertest.Tab, selector string) string {
	return browsertest.Eval[string](b, fmt.Sprintf(`(document.querySelector(%q) || {getAttribute: () => ""}).getAttribute("href")`, selector))
}

// somePayment is the path of a payment with a story: the first that needs an answer,
// else the first of the list.
func somePayment(t *testing.T, b *browsertest.Tab) string {
	t.Helper()
	for _, list := range []string{"/queue", "/payments"} {
		b.Open(list)
		if href := firstLink(b, "td.main a"); href != "" {
			return "/payments/" + href[strings.LastIndex(href, "/")+1:]
		}
	}
	t.Fatal("the demo has no payment yet")
	return ""
}
