package views

import (
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"fusebox/views/components"
	"fusebox/views/messages"
)

// PrintView is everything about one payment, to print.
type PrintView struct {
	Page      Page
	Detail    PaymentDetail
	Attempts  []PrintedAttempt // of the charge and of what was done to it, oldest first
	Audit     []AuditRow       // oldest first
	Message   string           // the provider's own words; hostile text
	Key       string           // the client's idempotency key
	Version   int64
	PrintedAt time.Time
	PrintedBy string
	// Cut and MoreAudit: older moments, older audit rows are left out.
	Cut, MoreAudit bool
}

// PrintedAttempt is a send of the charge, or of refund, capture or void number N.
type PrintedAttempt struct {
	Of string // charge, refund, capture, void
	N  int
	AttemptView
}

// Print is the page; its times are UTC whatever the reader's zone.
func Print(v PrintView) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		l := messages.From(ctx)
		l.Zone = time.UTC
		return printed(v).Render(messages.With(ctx, l), w)
	})
}

// title names the attempt.
func (a PrintedAttempt) title(ctx context.Context) string {
	switch a.Of {
	case "refund":
		return T(ctx, "evidence.of.refund", "Of", a.N, "N", a.Seq)
	case "capture":
		return T(ctx, "evidence.of.capture", "Of", a.N, "N", a.Seq)
	case "void":
		return T(ctx, "evidence.of.void", "Of", a.N, "N", a.Seq)
	}
	return T(ctx, "evidence.of.charge", "N", a.Seq)
}

// stampUTC is a moment to the millisecond; the page says that it is UTC.
func stampUTC(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") }

// printedTerms are an attempt's facts with its times in full.
func printedTerms(ctx context.Context, a PrintedAttempt) []components.Term {
	terms := []components.Term{
		{Label: T(ctx, "attempt.why"), Value: messages.Join(attemptWords(ctx, a.AttemptView), reasonWords(ctx, a.Reason))},
		{Label: T(ctx, "attempt.http"), Value: httpWords(ctx, a.AttemptView)},
		{Label: T(ctx, "fact.sends"), Value: strconv.Itoa(a.Sends)},
		{Label: T(ctx, "attempt.marked"), Value: stampUTC(a.MarkedAt)},
	}
	for _, t := range []struct {
		label string
		at    *time.Time
	}{{T(ctx, "attempt.sent"), a.SentAt}, {T(ctx, "attempt.answered"), a.AnsweredAt}, {T(ctx, "attempt.finished"), a.FinishedAt}} {
		if t.at != nil {
			terms = append(terms, components.Term{Label: t.label, Value: stampUTC(*t.at)})
		}
	}
	return nonEmpty(append(terms,
		components.Term{Label: T(ctx, "attempt.request_id"), Value: a.RequestID, Mono: true},
		components.Term{Label: T(ctx, "attempt.url"), Value: a.URL, Mono: true},
		components.Term{Label: T(ctx, "attempt.worker"), Value: a.Worker, Mono: true},
		components.Term{Label: T(ctx, "attempt.request_hash"), Value: a.RequestHash, Mono: true}))
}

// printedChild is a refund, capture or void in one row.
type printedChild struct {
	at                      time.Time
	name, who, state, their string
	money, why              string
}

func printedChildren(ctx context.Context, d PaymentDetail) []printedChild {
	var out []printedChild
	for _, r := range d.Refunds.Rows {
		out = append(out, printedChild{at: r.CreatedAt, name: T(ctx, "refund.n", "N", r.Seq), who: refundWho(ctx, r), their: r.TheirID,
			state: Opt(ctx, "refund.status.", r.Status), money: Money(ctx, r.Amount, r.Currency), why: r.Why})
	}
	for _, r := range d.Capture.Rows {
		out = append(out, printedChild{at: r.CreatedAt, name: HoldName(ctx, r.Kind, r.Seq), who: refundWho(ctx, RefundRow{Who: r.Who, WhoKind: r.WhoKind}),
			state: HoldStatus(ctx, r.Kind, r.Status), money: Money(ctx, r.Amount, r.Currency), why: r.Why})
	}
	return out
}

// printedMoment is a moment in one row: its title, and all that is known about it.
func printedMoment(ctx context.Context, m PaymentMoment) (what, detail string) {
	it := momentItem(ctx, m)
	if it.Status != "" {
		it.Title += " → " + Opt(ctx, "status.", it.Status)
	}
	lines := it.Lines
	if m.Note != "" {
		lines = append(lines, m.Note)
	}
	return it.Title, strings.Join(lines, "\n")
}

// changes are an audit row's changes in one line each.
func (r AuditRow) changes() string {
	lines := make([]string, len(r.Changes))
	for i, c := range r.Changes {
		lines[i] = c.Field + ": " + c.Before + " → " + c.After
	}
	return strings.Join(lines, "\n")
}
