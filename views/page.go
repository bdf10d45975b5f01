package views

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/a-h/templ"

	"fusebox/static"
	"fusebox/views/components"
	"fusebox/views/messages"
)

// Page is what the frame around every page needs.
type Page struct {
	Title    string // of the document, already translated
	Active   string // nav item: overview, payments, queue, ...
	UserName string // empty: nobody is signed in, and there is no navigation
	UserID   string // tells scripts whose page this is
	Role     string
	ZoneUTC  bool   // times are shown in UTC by choice
	ZoneName string // of the reader's own zone, empty when unknown
	Keys     bool   // keyboard shortcuts are on
	Here     string // this page's path and query, to come back to
	Query    string // content of the search box
	Banners  BannerView
	Flashes  []components.FlashProps
	Waiting  WaitingView
	Alerts   WaitingView // alerts that nobody acknowledged
	Demo     bool
	DemoNote string
	Version  string
	Live     bool // this page has live regions
}

// Banner is one thing everybody has to know now.
type Banner struct {
	ID   string
	Tone components.Tone
	Text string
	Href templ.SafeURL
}

// BannerView is the live region of banners. URL answers it as a fragment.
type BannerView struct {
	Items []Banner
	Rev   string
}

// WaitingView is how many of something wait for a person; empty: none.
type WaitingView struct{ Count, Rev string }

// navItem is one link of the rail.
type navItem struct{ key, href, icon string }

// navGroup is a titled part of the rail.
type navGroup struct {
	key   string
	items []navItem
}

func (p Page) nav() []navGroup {
	groups := []navGroup{
		{"nav.group.work", []navItem{{"overview", "/", "overview"}, {"payments", "/payments", "payments"}, {"queue", "/queue", "queue"}}},
		{"nav.group.health", []navItem{{"providers", "/providers", "providers"}, {"queues", "/queues", "queues"},
			{"webhooks", "/webhook-log", "webhooks"}, {"reconciliation", "/reconciliation", "reconciliation"}, {"alerts", "/alerts", "alerts"}}},
		{"nav.group.records", []navItem{{"wallets", "/wallets", "wallets"}, {"audit", "/audit", "audit"}, {"settings", PathSettings, "user"}}},
	}
	if p.Demo {
		groups = append(groups, navGroup{"nav.group.demo", []navItem{{"checkout", "/checkout", "checkout"}, {"faults", "/demo/faults", "faults"}}})
	}
	return groups
}

// navLabels name the nav items; listed so that the message test sees them.
var navLabels = map[string]string{
	"overview": "nav.overview", "payments": "nav.payments", "queue": "nav.queue",
	"providers": "nav.providers", "queues": "nav.queues", "webhooks": "nav.webhooks",
	"reconciliation": "nav.reconciliation", "alerts": "nav.alerts", "wallets": "nav.wallets",
	"audit": "nav.audit", "checkout": "nav.checkout", "faults": "nav.faults", "settings": "nav.settings",
}

// scripts run on every page, in this order; live.js comes last, where something is live.
var scripts = []string{"app.js", "dialog.js", "keys.js", "morph.js", "arm.js", "bulk.js"}

// navKeys are the letters that go to a nav item after g; items without one are reached
// with the mouse or Tab.
var navKeys = map[string]string{
	"overview": "o", "payments": "p", "queue": "q", "providers": "c", "queues": "u", "webhooks": "w",
	"reconciliation": "r", "alerts": "l", "wallets": "m", "audit": "a", "settings": "s", "users": "e",
	"jobs": "j", "checkout": "k", "faults": "f",
}

// themes are the choices of the theme switch; empty follows the device.
var themes = []struct{ value, label string }{
	{"", "layout.theme.auto"}, {"light", "layout.theme.light"}, {"dark", "layout.theme.dark"},
}

// theme is light, dark or auto, as the stylesheet reads it.
func theme(ctx context.Context) string { return themeValue(messages.From(ctx).Theme) }

// htmxConfig keeps htmx within the Content-Security-Policy and our recipe: no eval,
// no injected styles, own origin only, errors left to app.js.
const htmxConfig = `{"allowEval":false,"includeIndicatorStyles":false,"selfRequestsOnly":true,"historyCacheSize":0,"refreshOnHistoryMiss":true,"scrollIntoViewOnBoost":false,"timeout":15000,"responseHandling":[{"code":"204","swap":false},{"code":"[23]..","swap":true},{"code":"(409|422)","swap":true},{"code":"[45]..","swap":false,"error":true}]}`

// scriptTexts are the sentences the scripts say, and the patterns of relative times.
func scriptTexts(ctx context.Context) string {
	texts := messages.Patterns(ctx)
	for name, id := range map[string]string{
		"live": "live.on", "connecting": "live.connecting", "polling": "live.polling", "paused": "live.paused",
		"pause": "live.pause", "resume": "live.resume", "disarmed": "live.disarmed",
		"offline": "toast.offline", "close": "ui.close", "retry": "shell.retry", "unsure": "shell.unsure", "noAnswer": "shell.no_answer",
		"request": "problem.request", "kept": "shell.kept", "notCopied": "shell.not_copied",
	} {
		texts[name] = T(ctx, id)
	}
	texts["stale"] = T(ctx, "live.stale", "Time", "%")
	texts["failed"] = T(ctx, "toast.failed", "Status", "%")
	b, err := json.Marshal(texts)
	if err != nil {
		return "{}" // a map of strings always marshals
	}
	return string(b)
}

func asset(name string) string { return static.URL(name) }

func lang(ctx context.Context) string { return string(messages.From(ctx).Lang) }

func zoneNow(ctx context.Context) string {
	l := messages.From(ctx)
	return l.Now.In(l.Zone).Format("MST")
}

// zoneInUse is the name of the zone every time on the page is shown in.
func zoneInUse(ctx context.Context) string { return messages.From(ctx).Zone.String() }

// serverNow is the server's clock, for scripts on a machine whose own is wrong.
func serverNow(ctx context.Context) string {
	return messages.From(ctx).Now.UTC().Format(time.RFC3339Nano)
}

func onOff(v bool) string { return strconv.FormatBool(v) }

// otherZone is what the header's switch changes to.
func otherZone(p Page) string {
	if p.ZoneUTC {
		return "mine"
	}
	return "UTC"
}

func otherZoneLabel(ctx context.Context, p Page) string {
	if p.ZoneUTC {
		return ownZoneLabel(ctx, p)
	}
	return "UTC"
}

func ownZoneLabel(ctx context.Context, p Page) string {
	if p.ZoneName == "" || p.ZoneName == "UTC" {
		return T(ctx, "layout.zone.mine")
	}
	return p.ZoneName
}

// themeValue is what the form sends for a theme; empty would read as "not asked".
func themeValue(theme string) string {
	if theme == "" {
		return "auto"
	}
	return theme
}
