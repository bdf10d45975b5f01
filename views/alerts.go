package views

import (
	"context"
	"strconv"
	"time"

	"github.com/a-h/templ"

	"fusebox/views/messages"
)

// Paths of the health pages.
const (
	PathProviders = "/providers"
	PathAlerts    = "/alerts"
)

// ResumePath is the confirm page that lifts a provider's pause.
func ResumePath(provider string) string { return PathProviders + "/" + provider + "/resume" }

// alertLink leads to what an alert is about.
func alertLink(a AlertRow) templ.SafeURL {
	switch {
	case a.PaymentID != "":
		return safe(PaymentPath(a.PaymentID))
	case a.Provider != "":
		return safe(PathProviders + "#" + a.Provider)
	}
	return safe(PathAlerts)
}

// AlertTitle says what happened in the reader's language: by kind when we know the
// kind, else in the words it was stored with.
func AlertTitle(ctx context.Context, a AlertRow) string {
	if id := "alert." + a.Kind; messages.Has(id) {
		return T(ctx, id, "Provider", a.Provider, "Class", Opt(ctx, "class.", a.Class))
	}
	return a.Title
}

// alertDetail is the fact behind an alert; a circuit's is a reason we have words for.
func alertDetail(ctx context.Context, a AlertRow) string {
	if a.Class != "" {
		return Opt(ctx, "circuit.reason.", a.Detail)
	}
	return a.Detail
}

// acknowledgePath is the confirm page to take notice of an alert.
func acknowledgePath(a AlertRow) string {
	return PathAlerts + "/" + strconv.FormatInt(a.ID, 10) + "/acknowledge"
}

// dash stands for nothing in a table cell.
func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// clockMinute is a time of day without seconds.
func clockMinute(ctx context.Context, t time.Time) string {
	return t.In(messages.From(ctx).Zone).Format("15:04")
}
