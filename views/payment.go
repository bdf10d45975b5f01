package views

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"fusebox/views/components"
	"fusebox/views/messages"
)

// PaymentView is one payment's page.
type PaymentView struct {
	Page   Page
	Detail PaymentDetail
	// Message is the provider's own words; hostile text. Translate answers a fragment
	// with their translation.
	Message   string
	Translate string
}

// PaymentDetail is everything on the page that moves by itself.
type PaymentDetail struct {
	Live      components.LiveRegion
	Facts     PaymentFacts
	Actions   []ActionLink
	Terms     PaymentTerms
	Objects   []ObjectView
	Attempts  []AttemptView
	Webhooks  []WebhookRow
	Wallet    *WalletEffect
	Refunds   RefundsView
	Capture   CaptureView
	Disputes  []DisputeView
	Timeline  []PaymentMoment
	ReplayKey *ReplayKey
}

// ActionLink leads to a confirm page. Needs names the role that may, when the
// reader's role may not; Why says why nobody can now.
type ActionLink struct {
	Label string // message id
	Href  string
	Kind  string // "", primary, danger
	Icon  string
	Needs string
}

// PaymentTerms are the facts that are only listed.
type PaymentTerms struct {
	ProviderPaymentID, CustomerName, CustomerEmail, Description, ClientID string
	CreatedAt, UpdatedAt                                                  time.Time
	UnknownSince                                                          *time.Time
	Lookups, Sends                                                        int
	Version                                                               int64
}

// ReplayKey is the idempotency key sent to the provider and how long it protects.
type ReplayKey struct {
	Key   string
	Until time.Time
}

// ObjectView is a provider's view of one charge.
type ObjectView struct {
	ID, Status, Outcome, Currency, Reference, Key, Source string
	Amount                                                int64
	SeenAt                                                time.Time
	Raw                                                   string
}

// AttemptView is one send.
type AttemptView struct {
	ID                                                 string
	Seq                                                int
	Outcome, Reason, Health, Worker                    string
	HTTPStatus                                         int
	ContentType, Server, RequestID, URL, Request, Body string
	Sends                                              int
	MarkedAt                                           time.Time
	SentAt, AnsweredAt, FinishedAt                     *time.Time
	Refund                                             bool // of a refund, not of the charge
}

// WalletEffect is what the payment did, or will do, to a wallet.
type WalletEffect struct {
	ID, Owner, Currency string
	Entries             []WalletMove
	Failed              bool // the payment failed: there will be none
}

// WalletMove is one entry: amount and balance after it in minor units.
type WalletMove struct {
	Amount, Balance int64
	At              time.Time
	OperationID     string
}

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

// quiet is how long nothing may happen before a timeline says so.
const quiet = time.Minute

// foldFrom is how many like moments in a row become one.
const foldFrom = 3

// timelineItems puts moments into words, oldest first, with silences in between. Three
// or more like ones in a row that moved nothing (lookups, waiting) are folded into one.
func timelineItems(ctx context.Context, moments []PaymentMoment) []components.TimelineItem {
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
		if !before.IsZero() && m.At.Sub(before) >= quiet && !m.Future {
			it.Gap = T(ctx, "timeline.gap", "Span", messages.Span(ctx, m.At.Sub(before)))
		}
		before = moments[i+n-1].At
		items = append(items, it)
		i += n
	}
	return items
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
	if m.Evidence != "" || m.Webhook != nil {
		it.Details = momentDetails(m)
	}
	return it
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
	case "attempt_started", "resend_started", "refund_attempt_started", "capture_attempt_started", "void_attempt_started":
		return "send"
	case "webhook", "webhook_received", "refund_webhook", "capture_webhook", "void_webhook":
		return "webhooks"
	case "lookup", "sync", "reconcile_requested", "reconcile_now", "refund_lookup", "refund_sync", "capture_lookup", "void_lookup":
		return "refresh"
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

// differs marks what a provider reports and we did not ask for.
func (o ObjectView) differs(f PaymentFacts) bool {
	return o.Amount != f.Amount || o.Currency != f.Currency
}

func replayWords(ctx context.Context, k ReplayKey) string {
	left := k.Until.Sub(messages.From(ctx).Now)
	if left <= 0 {
		return T(ctx, "fact.replay_over", "Span", messages.Span(ctx, -left))
	}
	return T(ctx, "fact.replay_left", "Span", messages.Span(ctx, left))
}

func customerWords(name, email string) string {
	if name != "" && email != "" {
		return name + " <" + email + ">"
	}
	return name + email
}

func latencyBetween(ctx context.Context, from, to *time.Time) string {
	if from == nil || to == nil {
		return ""
	}
	return T(ctx, "attempt.took", "Span", messages.Latency(ctx, to.Sub(*from)))
}

func httpWords(ctx context.Context, a AttemptView) string {
	if a.HTTPStatus == 0 {
		return T(ctx, "attempt.no_http")
	}
	return messages.Join(fmt.Sprintf("HTTP %d", a.HTTPStatus), a.ContentType)
}

// attemptTerms lists the evidence of one send.
func attemptTerms(ctx context.Context, a AttemptView) []components.Term {
	terms := []components.Term{
		{Label: T(ctx, "attempt.why"), Value: reasonWords(ctx, a.Reason)},
		{Label: T(ctx, "attempt.http"), Value: httpWords(ctx, a)},
		{Label: T(ctx, "fact.sends"), Value: strconv.Itoa(a.Sends)},
		{Label: T(ctx, "attempt.marked"), Body: components.Absolute(a.MarkedAt)},
	}
	add := func(label string, at *time.Time, note string) {
		if at != nil {
			terms = append(terms, components.Term{Label: label, Body: timeWithNote(*at, note)})
		}
	}
	if a.SentAt == nil && a.Outcome != "" {
		terms = append(terms, components.Term{Label: T(ctx, "attempt.sent"), Value: T(ctx, "attempt.not_sent")})
	}
	add(T(ctx, "attempt.sent"), a.SentAt, "")
	add(T(ctx, "attempt.answered"), a.AnsweredAt, latencyBetween(ctx, a.SentAt, a.AnsweredAt))
	add(T(ctx, "attempt.finished"), a.FinishedAt, latencyBetween(ctx, a.SentAt, a.FinishedAt))
	for _, t := range []components.Term{
		{Label: T(ctx, "attempt.breaker"), Value: healthWords(ctx, a.Health)},
		{Label: T(ctx, "attempt.request_id"), Value: a.RequestID, Mono: true, Copy: true},
		{Label: T(ctx, "attempt.url"), Value: a.URL, Mono: true},
		{Label: T(ctx, "attempt.server"), Value: a.Server},
		{Label: T(ctx, "attempt.worker"), Value: a.Worker, Mono: true},
	} {
		if t.Value != "" {
			terms = append(terms, t)
		}
	}
	return terms
}

func healthWords(ctx context.Context, health string) string {
	if health == "" {
		return ""
	}
	return Opt(ctx, "verdict_health.", health)
}

func outcomeWords(ctx context.Context, outcome string) string {
	if outcome == "" {
		return T(ctx, "attempt.in_flight")
	}
	return Opt(ctx, "outcome.", outcome)
}

// attemptWords is an attempt's outcome; money that went back is not "paid".
func attemptWords(ctx context.Context, a AttemptView) string {
	if a.Refund && a.Outcome == "succeeded" {
		return T(ctx, "refund.status.succeeded")
	}
	return outcomeWords(ctx, a.Outcome)
}

func outcomeTone(outcome string) components.Tone {
	switch outcome {
	case "":
		return components.ToneInfo
	case "not_sent", "not_executed":
		return components.ToneIdle
	}
	return components.StatusTone(outcome)
}

// paymentTerms lists the facts beside the timeline.
func paymentTerms(ctx context.Context, d PaymentDetail) []components.Term {
	f, t := d.Facts, d.Terms
	terms := []components.Term{
		{Label: T(ctx, "fact.amount"), Value: Money(ctx, f.Amount, f.Currency)},
		{Label: T(ctx, "fact.order"), Value: f.OrderRef, Copy: true},
		{Label: T(ctx, "fact.payment_id"), Value: f.ID, Mono: true, Copy: true},
		{Label: T(ctx, "fact.provider"), Value: f.Provider},
		{Label: T(ctx, "fact.provider_id"), Value: t.ProviderPaymentID, Mono: true, Copy: true},
		{Label: T(ctx, "fact.customer"), Value: customerWords(t.CustomerName, t.CustomerEmail)},
		{Label: T(ctx, "fact.description"), Value: t.Description},
		{Label: T(ctx, "fact.client"), Value: t.ClientID},
		{Label: T(ctx, "fact.created"), Body: components.Absolute(t.CreatedAt)},
		{Label: T(ctx, "fact.status_since"), Body: components.Absolute(t.UpdatedAt)},
	}
	if f.Evidence != "" {
		terms = append(terms, components.Term{Label: T(ctx, "fact.backed_by"), Value: Opt(ctx, "backing.", f.Evidence)})
	}
	if t.UnknownSince != nil {
		terms = append(terms, components.Term{Label: T(ctx, "fact.unknown_since"), Body: components.Absolute(*t.UnknownSince)})
	}
	if t.Lookups > 0 {
		terms = append(terms, components.Term{Label: T(ctx, "fact.lookups"), Value: Num(ctx, int64(t.Lookups))})
	}
	if k := d.ReplayKey; k != nil {
		terms = append(terms,
			components.Term{Label: T(ctx, "fact.op_key"), Value: k.Key, Mono: true, Copy: true},
			components.Term{Label: T(ctx, "fact.replay"), Body: timeWithNote(k.Until, replayWords(ctx, *k))},
			components.Term{Label: T(ctx, "fact.sends"), Value: strconv.Itoa(t.Sends)})
	}
	terms = append(terms, components.Term{Label: T(ctx, "fact.version"), Value: strconv.FormatInt(t.Version, 10)})
	return nonEmpty(terms)
}

func nonEmpty(terms []components.Term) []components.Term {
	out := terms[:0]
	for _, t := range terms {
		if t.Value != "" || t.Body != nil {
			out = append(out, t)
		}
	}
	return out
}

// signed prints an amount with its sign: +49.00 EUR.
func signed(ctx context.Context, amount int64, currency string) string {
	if amount > 0 {
		return "+" + Money(ctx, amount, currency)
	}
	return Money(ctx, amount, currency)
}
