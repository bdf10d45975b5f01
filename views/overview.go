package views

import (
	"context"
	"time"

	"github.com/a-h/templ"

	"fusebox/views/components"
	"fusebox/views/messages"
)

// OverviewView is the first page: what is unknown, what moves, who is down.
type OverviewView struct {
	Live          components.LiveRegion
	At            time.Time
	UnknownCount  int
	Unknown       []SumView
	OldestUnknown *time.Time
	Processing    int
	Waiting       int // of those, for the customer
	Pending       int
	OldestPending *time.Time
	NeedsReview   int
	Succeeded     HourView
	Failed        HourView
	Buckets       []time.Time // starts of the sparkline's bars
	Strip         []ProviderStrip
	Runs          []RunStrip
	Webhooks      WebhookStrip
	Alerts        []AlertRow
	// Refunds that need an answer, open disputes, and the nearest deadline of those.
	Refunds, Disputes int
	DisputeDue        *time.Time
}

// SumView is payments of one currency; amounts of different ones are never added.
type SumView struct {
	Currency string
	Payments int
	Amount   int64
}

// HourView is a count of the last hour beside the same hour a week before.
type HourView struct {
	Total, WeekBefore int
	Now, Before       []int64
}

// ProviderStrip is one provider in one line.
type ProviderStrip struct {
	Name    string
	Charge  string // circuit state
	Status  string
	Since   time.Time // of the charge circuit's state
	Until   time.Time // the charge circuit blocks calls; zero unless open
	Rate    string    // success rate, empty when nothing was called
	Slow    bool      // the rate is worth a look
	P95     string
	Depth   int // charge jobs waiting
	Running int
	Oldest  *time.Time
	Paused  bool
}

// untilWords say how long the charge circuit blocks calls; empty when that is not known.
func (p ProviderStrip) untilWords(ctx context.Context) string {
	if !p.Until.After(messages.From(ctx).Now) {
		return ""
	}
	return T(ctx, "act.circuit.until", "Time", messages.Clock(ctx, p.Until))
}

// RunStrip is a provider's latest reconciliation run.
type RunStrip struct {
	Href       templ.SafeURL
	Provider   string
	State      string
	At         time.Time
	Matched    int
	Exceptions int // findings that are not "matched"
}

// WebhookStrip is what went wrong with webhooks lately.
type WebhookStrip struct {
	Rejected, Unparsed, Unmatched int
	Cap                           int
	Last                          *time.Time
}

// AlertRow is one alert in a list.
type AlertRow struct {
	ID        int64
	Severity  string
	Kind      string
	Provider  string
	Class     string // of the circuit, when it is about one
	Title     string
	Detail    string
	PaymentID string
	At        time.Time
	Delivered *time.Time
	Known     *AlertKnown // nil: nobody took notice yet
	Over      bool        // its cause is known to be gone
}

// AlertKnown is who took notice of an alert.
type AlertKnown struct {
	Name, Note string
	At         time.Time
}

// spark returns the drawing of one series with its numbers in words.
func (h HourView) spark(ctx context.Context, id, label string, tone components.Tone, buckets []time.Time) components.SparkProps {
	p := components.SparkProps{ID: id, Now: h.Now, Before: h.Before, Tone: tone,
		Label: T(ctx, "overview.spark", "What", label, "Now", Num(ctx, int64(h.Total)), "Before", Num(ctx, int64(h.WeekBefore)))}
	for _, b := range buckets {
		p.Columns = append(p.Columns, clockMinute(ctx, b))
	}
	return p
}

func (o OverviewView) unknownTone() components.Tone {
	if o.UnknownCount > 0 {
		return components.ToneWarn
	}
	return ""
}

func (o OverviewView) failedTone() components.Tone {
	if o.Failed.Total > 2*o.Failed.WeekBefore+5 {
		return components.ToneBad
	}
	return ""
}

// openCap is where the reading stops counting open payments.
const openCap = 10_000

// boundedOpen prints a count of open payments, "10,000+" beyond what was counted.
func boundedOpen(ctx context.Context, n int) string {
	if n > openCap {
		return Num(ctx, openCap) + "+"
	}
	return Num(ctx, int64(n))
}
