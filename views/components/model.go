package components

import (
	"time"

	"github.com/a-h/templ"
)

// Tone is the colour family of a badge, note or figure.
type Tone string

// Tones.
const (
	ToneOK   Tone = "ok"
	ToneBad  Tone = "bad"
	ToneWarn Tone = "warn"
	ToneInfo Tone = "info"
	ToneAct  Tone = "act" // a person or the customer has to do something
	ToneIdle Tone = "idle"
)

// StatusTone is the tone of a payment status.
func StatusTone(status string) Tone {
	switch status {
	case "succeeded":
		return ToneOK
	case "failed":
		return ToneBad
	case "unknown":
		return ToneWarn
	case "processing":
		return ToneInfo
	case "requires_action":
		return ToneAct
	}
	return ToneIdle
}

// statusIcon is a shape of its own per status, so that colour is never needed.
func statusIcon(status string) string {
	switch status {
	case "succeeded", "failed", "unknown", "processing", "requires_action":
		return "status-" + status
	}
	return "status-pending"
}

// CircuitTone is the tone of a circuit state.
func CircuitTone(state string) Tone {
	switch state {
	case "closed":
		return ToneOK
	case "open":
		return ToneBad
	case "half_open":
		return ToneWarn
	}
	return ToneIdle
}

// SeverityTone is the tone of an alert.
func SeverityTone(severity string) Tone {
	switch severity {
	case "critical":
		return ToneBad
	case "warning":
		return ToneWarn
	}
	return ToneInfo
}

// ButtonProps of Button and LinkButton.
type ButtonProps struct {
	Label   string
	Icon    string // name of an Icon, or empty
	Kind    string // "" (secondary), primary, danger, quiet
	Href    templ.SafeURL
	Name    string // of a submit button
	Value   string
	Small   bool
	Mutates bool // changes something: disarmed while the page is stale
	Opens   bool // LinkButton to a confirm page: opens as a dialog when there is JavaScript
	Attrs   templ.Attributes
}

func (b ButtonProps) class() string {
	c := "btn"
	if b.Kind != "" {
		c += " btn-" + b.Kind
	}
	if b.Small {
		c += " btn-small"
	}
	return c
}

// Tab is one of Tabs. Count is printed as it is ("10,000+"); empty means none.
type Tab struct {
	Label   string
	Href    templ.SafeURL
	Count   string
	Status  string // a payment status: shows its shape
	Current bool
}

// Pages links a keyset list's neighbours; an empty link is shown disabled.
type Pages struct {
	Newer, Older templ.SafeURL
	Note         string // e.g. "50 of 10,000+"
}

// Field is one form field. ID is also its name unless Name is set.
type Field struct {
	ID, Name, Label string
	Hint, Error     string
	Type            string // of Input: text by default
	Value           string
	Placeholder     string
	Autocomplete    string
	InputMode       string
	Pattern         string
	Required        bool
	AutoFocus       bool
	Max             int // characters; 0 is no limit
	Rows            int // of TextArea: 3 by default
	Options         []Option
}

// Option of a Select.
type Option struct{ Value, Label string }

func (f Field) name() string {
	if f.Name != "" {
		return f.Name
	}
	return f.ID
}

// describedBy names the hint and error for screen readers.
func (f Field) describedBy() string {
	switch {
	case f.Hint != "" && f.Error != "":
		return f.ID + "-error " + f.ID + "-hint"
	case f.Error != "":
		return f.ID + "-error"
	case f.Hint != "":
		return f.ID + "-hint"
	}
	return ""
}

// FieldError is one line of Errors: it links to the field with that id.
type FieldError struct{ FieldID, Text string }

// HiddenField travels with a form unseen.
type HiddenField struct{ Name, Value string }

// Consequence is one sentence of what an action does, in numbers.
type Consequence struct {
	Text string
	Tone Tone // ToneWarn and ToneBad get a warning shape
}

// ConfirmProps of Confirm. Every POST carries ActionID (one-time) and, in Hidden,
// the version or epoch the person saw.
type ConfirmProps struct {
	Title        string
	Lead         string // the question, e.g. "Close the circuit now?"
	Facts        []Term // what it is about
	Consequences []Consequence
	Action       templ.SafeURL // POST target
	Cancel       templ.SafeURL // where nothing changes
	ActionID     string
	Hidden       []HiddenField
	Reason       *Field // nil: no reason asked
	Fields       []Field
	Submit       string
	Danger       bool
	Blocked      string // why it cannot be done now; replaces the submit button
	Problem      string // the conflict or error of the last try
	Errors       []FieldError
}

// Term is one row of Terms.
type Term struct {
	Label string
	Value string
	Body  templ.Component // instead of Value
	Copy  bool            // adds a copy button for Value
	Mono  bool
}

// MetricProps of Metric: one figure that links to its list.
type MetricProps struct {
	ID      string
	Label   string
	Value   string
	Status  string // a payment status: its shape stands beside the label
	Tone    Tone   // of the figure; empty: ink
	Href    templ.SafeURL
	Details []string // small lines below
}

// TimelineItem is one moment of a history.
type TimelineItem struct {
	ID      string
	At      time.Time
	Future  bool   // what happens next
	Gap     string // silence before this item, e.g. "4 min without news"
	Icon    string
	Tone    Tone
	Title   string
	Status  string // the status it led to, if it changed
	Who     string
	Lines   []string
	Quote   string          // what a person wrote, with its line breaks
	Href    templ.SafeURL   // where its evidence is; empty: nowhere else
	Link    string          // text of that link
	Details templ.Component // behind a disclosure; nil: none
}

// SparkProps of Spark: two series of equal length, oldest first.
type SparkProps struct {
	ID      string
	Label   string  // accessible name with the numbers in words
	Now     []int64 // drawn solid
	Before  []int64 // drawn as a faint line for comparison; may be nil
	Tone    Tone
	Columns []string // labels of the buckets for the table alternative
}

// LiveRegion is a part of a page that refetches itself when Topic changes. URL
// answers the same region as a fragment; Rev is what was rendered.
type LiveRegion struct {
	ID    string
	Topic string
	URL   string
	Rev   string
	Class string
}

// FlashProps is the sentence after an action.
type FlashProps struct {
	Text string
	Tone Tone
	Href templ.SafeURL // optional link
	Link string
}
