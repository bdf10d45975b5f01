package views

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/a-h/templ"

	"fusebox/views/components"
	"fusebox/views/messages"
)

// PathBulk is where bulk actions are.
const PathBulk = "/bulk"

// BulkPath is one bulk action's page.
func BulkPath(id string) string { return PathBulk + "/" + url.PathEscape(id) }

// BulkBar is what stands above a list whose rows can be ticked: one form, outside every
// live region, that takes the ticked rows or the whole filter.
type BulkBar struct {
	Action   templ.SafeURL
	Filter   []components.HiddenField // the list's filter, so that it is frozen as shown
	Selected string                   // label of the button for what is ticked
	All      string                   // label of the button for all that match
	Recent   templ.SafeURL
	Needs    string // role that may, when this person may not
	Max      int64
}

// BulkView is one bulk action: its confirm page, or its progress.
type BulkView struct {
	Page    Page
	Kind    string // reconcile, reapply
	Draft   bool
	Confirm components.ConfirmProps // of a draft
	Lanes   []BulkLane              // of a reconcile's draft
	Body    BulkBody
}

// BulkBody is the part that moves by itself.
type BulkBody struct {
	Live     components.LiveRegion
	Kind     string
	State    string // checking, draft, running, cancelled, done
	Total    int64
	Done     int64
	Expected []BulkCount // of a reapply: what the dry run says
	Counts   []BulkCount
	Skipped  []BulkCount // by reason
	Waits    []BulkWait
	By       string
	At       *time.Time
	Ended    *time.Time
	Stopper  string // who cancelled
	Cancel   *ActionLink
	Back     templ.SafeURL
	Rows     []BulkRow
	Only     string // the outcome the rows are narrowed to
	Here     string
	Pages    components.Pages
}

// BulkLane is what a draft is going to do at one provider.
type BulkLane struct {
	Provider  string
	Total     int64
	Ask       int64 // payments asked about
	Requests  int64 // at most
	Takes     time.Duration
	Skips     []BulkCount
	OpenUntil *time.Time // its lookups' circuit is open until
	Blocked   bool       // the circuit lets nothing through
}

// BulkCount is one figure: a word and how many.
type BulkCount struct {
	Key  string
	N    int64
	Tone components.Tone
}

// BulkWait is a provider whose circuit holds the bulk up.
type BulkWait struct {
	Provider string
	Until    time.Time
}

// BulkRow is one item of the frozen set.
type BulkRow struct {
	Seq      int
	Href     templ.SafeURL
	Name     string
	Provider string
	Status   string // of a payment, now
	State    string // of an event, now
	Expected string
	Expects  []string // what the dry run saw, in words
	Outcome  string
	Detail   string
	DoneAt   *time.Time
}

// BulkListView lists the latest bulk actions.
type BulkListView struct {
	Page Page
	Rows []BulkListRow
}

// BulkListRow is one of them.
type BulkListRow struct {
	Href  templ.SafeURL
	Kind  string
	State string
	Total int64
	By    string
	At    time.Time
}

// BulkTone is the tone of an outcome or expectation.
func BulkTone(outcome string) components.Tone {
	switch outcome {
	case "paid", "changed":
		return components.ToneOK
	case "failed", "unreadable":
		return components.ToneBad
	case "unknown":
		return components.ToneWarn
	case "conflict":
		return components.ToneAct
	}
	return components.ToneIdle
}

func bulkIcon(outcome string) string {
	switch outcome {
	case "paid":
		return "status-succeeded"
	case "failed":
		return "status-failed"
	case "unknown":
		return "status-unknown"
	case "changed":
		return "check"
	case "conflict", "unreadable":
		return "warn"
	}
	return "arrow"
}

func bulkStateTone(state string) components.Tone {
	switch state {
	case "running", "checking":
		return components.ToneInfo
	case "done":
		return components.ToneOK
	case "cancelled":
		return components.ToneWarn
	}
	return components.ToneIdle
}

// bulkLead says how far it is, in one sentence.
func bulkLead(ctx context.Context, b BulkBody) string {
	done, total := Num(ctx, b.Done), Num(ctx, b.Total)
	switch b.State {
	case "checking":
		return T(ctx, "bulk.lead.checking", "Done", done, "Total", total)
	case "running":
		return T(ctx, "bulk.lead.running", "Done", done, "Total", total)
	case "cancelled":
		return T(ctx, "bulk.lead.cancelled", "Done", done, "Total", total, "By", b.Stopper)
	case "done":
		return N(ctx, "bulk.lead.done", b.Total)
	}
	return N(ctx, "bulk.lead.draft", b.Total)
}

// bulkDetail is an outcome's small print.
func bulkDetail(ctx context.Context, r BulkRow) string {
	switch {
	case r.Detail == "":
		return ""
	case r.Outcome == "skipped":
		return Opt(ctx, "bulk.skip.", r.Detail)
	case r.Outcome == "changed":
		return r.Detail
	case r.State != "":
		return Opt(ctx, "webhook.state.", r.Detail)
	}
	return Opt(ctx, "reason.", r.Detail)
}

// onlyHref narrows the rows to an outcome; a second time widens them again.
func onlyHref(b BulkBody, key string) templ.SafeURL {
	if b.Only == key {
		return safe(b.Here)
	}
	return safe(b.Here + "?only=" + url.QueryEscape(key))
}

// bulkTakes prints how long a provider's part takes at the bulk's pace.
func bulkTakes(ctx context.Context, l BulkLane) string {
	if l.Ask == 0 {
		return "–"
	}
	return T(ctx, "bulk.takes", "Span", messages.Span(ctx, max(l.Takes, time.Second)))
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
