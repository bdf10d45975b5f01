package views

import (
	"time"

	"github.com/a-h/templ"

	"fusebox/views/components"
)

// TuningPath is the page that tries other settings on a circuit's recorded calls.
func TuningPath(provider, class string) string {
	return PathProviders + "/" + provider + "/" + class + "/tuning"
}

// TuningView is the tuning page. Without a replay (a refused form) Chart is empty and
// Refused is set.
type TuningView struct {
	Provider, Class string
	Fields          []components.Field
	Errors          []components.FieldError
	Changed         bool   // the form asks for other settings than those in force
	InForce         string // the settings in force, in words
	Refused         bool

	Headline []string
	Figures  []TuningFigure
	Chart    ChartView
	Replayed []TuningOpening
	Real     []TuningOpening
	Cannot   []string
}

// TuningFigure is one number above the chart.
type TuningFigure struct{ Label, Value string }

// TuningOpening is a row of the openings: one that really happened or was replayed.
type TuningOpening struct {
	At       time.Time
	Until    time.Time // zero: still open at the end
	Reason   string
	Failures int
	Compared string // in words
	Tone     components.Tone
	Icon     string
}

// ChartView is what the chart shows: calls by verdict and latency over time, and when
// the circuit was open, really and replayed.
type ChartView struct {
	From, To time.Time
	Buckets  []ChartBucket
	Real     []ChartPeriod
	Replayed []ChartPeriod
}

// ChartBucket is one column.
type ChartBucket struct {
	At                time.Time
	OK, Fail, Neutral int
	P95               time.Duration // zero: no calls
}

func (b ChartBucket) calls() int { return b.OK + b.Fail + b.Neutral }

// ChartPeriod is one stretch of a strip.
type ChartPeriod struct {
	At, Until time.Time // within the chart's range
	Guess     bool      // nothing proves it
	Label     string
}

func (v TuningView) self() templ.SafeURL { return safe(TuningPath(v.Provider, v.Class)) }

// back leads to the provider's card.
func (v TuningView) back() templ.SafeURL {
	return safe(PathProviders + "#" + v.Provider)
}
