package views

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"fusebox/views/components"
	"fusebox/views/messages"
)

// PaymentMoment is one line of the merged timeline.
type PaymentMoment struct {
	ID         string
	At         time.Time
	Kind       string
	Who        string // for people; empty: Fusebox itself
	WhoKind    string // system, user, client
	From, To   string // statuses; equal when nothing moved
	Reason     string
	Attempt    *AttemptView // the send it is about
	Webhook    *WebhookRow
	Evidence   string // JSON as stored
	Note       string // what a person wrote; hostile text
	Future     bool
	FutureWhat string       // check, send, customer, refund_check, refund_send
	Child      *ChildMoment // what it is about, when it is not the payment itself
}

// ChildMoment is the refund or dispute a moment is about. Of a dispute there is only
// its id.
type ChildMoment struct {
	Kind            string // capture or void; empty: a refund
	Seq             int
	Amount          int64
	Currency        string
	Status          string
	Moved           bool // the moment changed the status
	DisputeID, Word string
}

// words name the child in one line.
func (c ChildMoment) words(ctx context.Context) string {
	if c.DisputeID != "" {
		return messages.Join(c.DisputeID, c.Word)
	}
	if c.Kind != "" {
		return messages.Join(HoldName(ctx, c.Kind, c.Seq), Money(ctx, c.Amount, c.Currency), HoldStatus(ctx, c.Kind, c.Status))
	}
	return messages.Join(T(ctx, "refund.n", "N", c.Seq), Money(ctx, c.Amount, c.Currency), Opt(ctx, "refund.status.", c.Status))
}

// StoryView is how the timeline is read: whose voice, and which part of a long one.
// Empty addresses lead nowhere.
type StoryView struct {
	Voices          []components.Tab
	Filtered        bool // only one voice: silences are not told
	Earlier, Newest templ.SafeURL
	Note            templ.SafeURL // where a note is written
	Evidence        templ.SafeURL // everything, to print
	Notes           int
}

// quiet is how long nothing may happen before a timeline says so.
const quiet = time.Minute

// foldFrom is how many like moments in a row become one.
const foldFrom = 3

// timelineItems puts moments into words, oldest first, with silences in between. Three
// or more like ones in a row that moved nothing (lookups, waiting) are folded into one.
func timelineItems(ctx context.Context, moments []PaymentMoment) []components.TimelineItem {
	return storyItems(ctx, moments, false)
}

// storyItems is timelineItems of one voice, where silences mean nothing.
func storyItems(ctx context.Context, moments []PaymentMoment, filtered bool) []components.TimelineItem {
	items := make([]components.TimelineItem, 0, len(moments))
	var before time.Time
	for i := 0; i < len(moments); {
		n := alike(moments[i:])
		m := moments[i]
		it := momentItem(ctx, m)
		if n >= foldFrom {
			it = foldedItem(ctx, moments[i:i+n])
		} else {
			n = 1
		}
		it.Gap = silence(ctx, before, m, filtered)
		before = moments[i+n-1].At
		items = append(items, it)
		i += n
	}
	return items
}

// silence is how long nothing happened before a moment; before one that is yet to come,
// until now. With some voices left out nobody knows whether it was silent.
func silence(ctx context.Context, before time.Time, m PaymentMoment, filtered bool) string {
	until, id := m.At, "timeline.gap"
	if m.Future {
		until, id = messages.From(ctx).Now, "timeline.gap_now"
	}
	if filtered || before.IsZero() || until.Sub(before) < quiet {
		return ""
	}
	return T(ctx, id, "Span", messages.Span(ctx, until.Sub(before)))
}

// alike counts the moments from the first on that are of its kind and moved nothing.
func alike(moments []PaymentMoment) int {
	n := 0
	for n < len(moments) && moments[n].Kind == moments[0].Kind && moments[n].still() && moments[n].child() == moments[0].child() {
		n++
	}
	return n
}

// still: nothing moved, and there is no evidence of its own to show.
func (m PaymentMoment) still() bool {
	return !m.Future && m.From == m.To && m.Attempt == nil && m.Webhook == nil && (m.Child == nil || !m.Child.Moved) &&
		slices.Contains([]string{"lookup", "snoozed", "asked", "refund_lookup", "refund_snoozed",
			"capture_lookup", "capture_snoozed", "void_lookup", "void_snoozed"}, m.Kind)
}

// child tells moments about different refunds apart.
func (m PaymentMoment) child() int {
	if m.Child == nil {
		return 0
	}
	return m.Child.Seq
}

// foldedItem is one item for many: how often, since when, and each one behind a click.
func foldedItem(ctx context.Context, moments []PaymentMoment) components.TimelineItem {
	it := momentItem(ctx, moments[0])
	last := moments[len(moments)-1]
	it.Lines = []string{N(ctx, "timeline.fold", int64(len(moments)), "Until", messages.Clock(ctx, last.At))}
	if last.Reason != "" {
		it.Lines = append(it.Lines, T(ctx, "timeline.fold_last", "Reason", reasonWords(ctx, last.Reason)))
	}
	it.Details = foldedDetails(moments)
	return it
}

func momentItem(ctx context.Context, m PaymentMoment) components.TimelineItem {
	it := components.TimelineItem{ID: m.ID, At: m.At, Icon: momentIcon(m), Who: who(ctx, m), Title: momentTitle(ctx, m)}
	if m.Future {
		it.Future = true
		return it
	}
	if m.To != "" && m.To != m.From {
		it.Status, it.Tone = m.To, components.StatusTone(m.To)
	}
	if c := m.Child; c != nil {
		it.Lines = append(it.Lines, c.words(ctx))
		if c.Moved {
			it.Tone = components.StatusTone(c.Status)
		}
	}
	if m.Reason != "" {
		it.Lines = append(it.Lines, T(ctx, "timeline.why", "Reason", momentReason(ctx, m)))
	}
	if a := m.Attempt; a != nil {
		it.Lines = append(it.Lines, attemptLine(ctx, *a))
	}
	if w := m.Webhook; w != nil {
		it.Lines = append(it.Lines, webhookLine(ctx, *w))
	}
	it.Quote = m.Note
	it.Href, it.Link = momentLink(ctx, m)
	if m.Evidence != "" && m.Note == "" {
		it.Details = momentDetails(m)
	}
	return it
}

// momentLink leads to where the evidence of a moment stands in full.
func momentLink(ctx context.Context, m PaymentMoment) (templ.SafeURL, string) {
	switch {
	case m.Webhook != nil:
		return safe(WebhookPath(m.Webhook.ID)), T(ctx, "timeline.open_webhook")
	case m.Attempt != nil:
		return templ.SafeURL("#attempt-" + m.Attempt.ID), T(ctx, "timeline.open_attempt", "N", m.Attempt.Seq)
	}
	return "", ""
}

func momentTitle(ctx context.Context, m PaymentMoment) string {
	switch {
	case m.Future && m.FutureWhat == "send":
		return T(ctx, "timeline.next.send")
	case m.Future && m.FutureWhat == "customer":
		return T(ctx, "timeline.next.customer")
	case m.Future && m.Child != nil && m.Child.Kind != "" && m.FutureWhat == "refund_send":
		return T(ctx, "timeline.next.hold_send", "What", HoldName(ctx, m.Child.Kind, m.child()))
	case m.Future && m.Child != nil && m.Child.Kind != "":
		return T(ctx, "timeline.next.hold_check", "What", HoldName(ctx, m.Child.Kind, m.child()))
	case m.Future && m.FutureWhat == "refund_check":
		return T(ctx, "timeline.next.refund_check", "N", m.child())
	case m.Future && m.FutureWhat == "refund_send":
		return T(ctx, "timeline.next.refund_send", "N", m.child())
	case m.Future:
		return T(ctx, "timeline.next.check")
	case m.Kind == "webhook_received":
		return T(ctx, "timeline.kind.webhook_received", "Type", m.Webhook.Type)
	}
	return Opt(ctx, "timeline.kind.", m.Kind)
}

// reasonWords reads a machine-readable reason; codes like gateway_502 keep their number.
func reasonWords(ctx context.Context, reason string) string {
	source, code, found := strings.Cut(reason, "_")
	if _, err := strconv.Atoi(code); found && err == nil && slices.Contains(coded, source) {
		return Opt(ctx, "reason_code.", source, "Code", code)
	}
	return Opt(ctx, "reason.", reason)
}

// momentReason is a moment's reason in words; a refund that succeeded is not "paid".
func momentReason(ctx context.Context, m PaymentMoment) string {
	if m.Child != nil && m.Child.Kind != "" && m.Reason == "succeeded" {
		return HoldStatus(ctx, m.Child.Kind, m.Reason)
	}
	if m.Child != nil && m.Reason == "succeeded" {
		return T(ctx, "refund.reason.succeeded")
	}
	return reasonWords(ctx, m.Reason)
}

// coded are the reasons that carry an HTTP status: whose it was.
var coded = []string{"gateway", "provider", "http"}

func attemptLine(ctx context.Context, a AttemptView) string {
	http := T(ctx, "attempt.no_http")
	if a.HTTPStatus != 0 {
		http = "HTTP " + strconv.Itoa(a.HTTPStatus)
	}
	line := messages.Join(http, T(ctx, "fact.sends")+": "+strconv.Itoa(a.Sends))
	if a.SentAt != nil && a.FinishedAt != nil {
		line = messages.Join(line, T(ctx, "attempt.took", "Span", messages.Latency(ctx, a.FinishedAt.Sub(*a.SentAt))))
	}
	return line
}

func webhookLine(ctx context.Context, w WebhookRow) string {
	line := messages.Join(Opt(ctx, "webhook.state.", w.State), T(ctx, "timeline.signature", "Verdict", Opt(ctx, "webhook.signature.", w.Signature)))
	if w.Duplicates > 0 {
		line = messages.Join(line, N(ctx, "timeline.repeats", int64(w.Duplicates)))
	}
	return line
}

func who(ctx context.Context, m PaymentMoment) string {
	switch m.WhoKind {
	case "user":
		return m.Who
	case "provider":
		return m.Who
	case "client":
		return T(ctx, "who.client", "Name", m.Who)
	}
	return T(ctx, "who.system")
}

func momentIcon(m PaymentMoment) string {
	if m.Future {
		return "clock"
	}
	switch m.Kind {
	case "created":
		return "payments"
	case "attempt_started", "resend_started", "refund_attempt_started", "capture_attempt_started", "void_attempt_started",
		"refund_resend_started", "capture_resend_started", "void_resend_started":
		return "send"
	case "webhook", "webhook_received", "refund_webhook", "capture_webhook", "void_webhook":
		return "webhooks"
	case "lookup", "sync", "reconcile_requested", "reconcile_now", "refund_lookup", "refund_sync", "capture_lookup", "void_lookup":
		return "refresh"
	case "note":
		return "user"
	case "revealed":
		return "search"
	case "operator", "resolved", "resolve", "refund_operator":
		return "user"
	case "review", "refused", "refund_review", "refund_refused", "dispute_opened", "dispute_lost":
		return "warn"
	case "dispute_won":
		return "check"
	case "snoozed", "waiting", "refund_snoozed", "capture_snoozed", "void_snoozed":
		return "pause"
	case "wallet":
		return "wallets"
	}
	if m.To != "" && m.To != m.From {
		return "status-" + m.To
	}
	if m.Child != nil && m.Child.Moved {
		return "status-" + m.Child.Status
	}
	return "arrow"
}
