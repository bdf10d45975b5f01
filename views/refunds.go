package views

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"fusebox/views/components"
	"fusebox/views/messages"
)

// RefundsView is what was given back of a payment. Amounts are in minor units of its
// currency; Waiting is pending and processing together.
type RefundsView struct {
	Provider, Currency                               string
	Captured, Refunded, Waiting, Unknown, Refundable int64
	Action                                           *ActionLink // nil: nothing to give back, or Cannot
	Cannot                                           bool        // the provider does not refund by machine
	Extra                                            []ExtraCharge
	Rows                                             []RefundRow // oldest first
}

// ExtraCharge is a charge that took a payment's money once more. Amounts are in minor
// units; Open is being refunded, or may have been.
type ExtraCharge struct {
	ID, Provider, Currency         string
	Captured, Refunded, Open, Left int64
	MadeAt                         time.Time
	Action                         *ActionLink // nil: nothing is left of it, or the provider cannot
}

// state says what became of it, with its tone.
func (c ExtraCharge) state(ctx context.Context) (components.Tone, string) {
	switch {
	case c.Left > 0:
		return components.ToneWarn, T(ctx, "duplicate.state.open")
	case c.Open > 0:
		return components.ToneInfo, T(ctx, "duplicate.state.waiting", "Provider", c.Provider)
	}
	return components.ToneOK, T(ctx, "duplicate.state.done")
}

// ChargeSide is one of two charges that are compared before one goes back.
type ChargeSide struct {
	ID, Currency                   string
	Captured, Refunded, Open, Left int64
	MadeAt                         time.Time
}

// terms lists the charge; back is how much of it goes back now.
func (c ChargeSide) terms(ctx context.Context, back int64) []components.Term {
	money := func(n int64) string { return Money(ctx, n, c.Currency) }
	out := []components.Term{
		{Label: T(ctx, "duplicate.fact.taken"), Value: money(c.Captured)},
		{Label: T(ctx, "duplicate.fact.when"), Body: components.Absolute(c.MadeAt)},
		{Label: T(ctx, "duplicate.fact.refunded"), Value: money(c.Refunded)},
	}
	if c.Open > 0 {
		out = append(out, components.Term{Label: T(ctx, "duplicate.fact.open"), Value: money(c.Open)})
	}
	return append(out, components.Term{Label: T(ctx, "duplicate.fact.now"), Value: money(back)},
		components.Term{Label: T(ctx, "duplicate.fact.id"), Value: c.ID, Mono: true, Copy: true})
}

// shown: a payment that took no money and was never refunded has no such section.
func (v RefundsView) shown() bool { return v.Captured > 0 || len(v.Rows) > 0 }

// RefundRow is one refund. Reason is machine-readable, Why in the words of whoever asked.
type RefundRow struct {
	ID, PaymentID, OrderRef, Provider string
	Kind                              string // work queue only: "capture", "void"; empty for a refund
	Seq                               int
	Status, Evidence, Reason, Why     string
	Review                            []string
	Amount, Beyond                    int64
	Currency                          string
	OtherCharge                       string // the charge it is of, when it is not the payment's
	Who, WhoKind                      string
	External                          bool
	TheirID, Words                    string // the provider's id and words; hostile text
	CreatedAt, DecidedAt              time.Time
	DecidedBy                         string
	SentAt                            *time.Time
	HTTPStatus                        int
	NextAt                            *time.Time
	NextWhy                           string
	NothingCanLook                    bool
	Attempts                          []AttemptView
	Actions                           []ActionLink
	Since                             time.Time // work queue only: waiting since
}

// reviewAged is the review reason of what has no final answer for too long.
const reviewAged = "aged"

// reviewWord is a review reason as it is said of a refund, capture or void: one that was
// acknowledged has an answer, and waits for a decision.
func reviewWord(status, reason string) string {
	if status == "processing" && reason == reviewAged {
		return "undecided"
	}
	return reason
}

// place is where the payment's page shows it.
func (r RefundRow) place() string {
	if r.Kind != "" {
		return PaymentPath(r.PaymentID) + "#hold-" + r.ID
	}
	return PaymentPath(r.PaymentID) + "#refund-" + r.ID
}

// DisputeView is a charge that a bank took back, or may. Amount 0: the provider did not
// say.
type DisputeView struct {
	ID, PaymentID, OrderRef, Provider, State, Reason, Currency string
	Amount                                                     int64
	DueBy, OpenedAt                                            *time.Time
	StateAt                                                    time.Time
}

// dueSoon is how long before its deadline an open dispute becomes urgent.
const dueSoon = 72 * time.Hour

// near reports whether the deadline of an open dispute is close, or over.
func (d DisputeView) near(ctx context.Context) (near, over bool) {
	if d.DueBy == nil || d.State != "opened" {
		return false, false
	}
	left := d.DueBy.Sub(messages.From(ctx).Now)
	return left < dueSoon, left <= 0
}

func (d DisputeView) tone(ctx context.Context) components.Tone {
	near, _ := d.near(ctx)
	switch {
	case d.State == "won":
		return components.ToneOK
	case d.State == "lost", near:
		return components.ToneBad
	}
	return components.ToneAct
}

func (d DisputeView) icon() string {
	if d.State == "won" {
		return "check"
	}
	return "warn"
}

// RefundVerdictOf puts a refund into words in the reader's language, as VerdictOf does a
// payment.
func RefundVerdictOf(ctx context.Context, r RefundRow) Verdict {
	v := Verdict{Tone: components.StatusTone(r.Status), Word: Opt(ctx, "refund.status.", r.Status)}
	at := messages.Clock(ctx, r.DecidedAt)
	next := PaymentFacts{Provider: r.Provider, NextAt: r.NextAt, NextWhy: r.NextWhy}
	switch r.Status {
	case "succeeded":
		v.Text = T(ctx, "refund.verdict.succeeded", "Provider", r.Provider, "Money", Money(ctx, r.Amount, r.Currency), "Time", at)
		if r.Evidence == "operator" {
			v.Text = T(ctx, "refund.verdict.succeeded.operator", "Who", r.DecidedBy, "Time", at)
		}
	case "failed":
		v.Text = T(ctx, "refund.verdict.failed", "Why", reasonWords(ctx, r.Reason))
		if r.Evidence == "operator" {
			v.Text = T(ctx, "refund.verdict.failed.operator", "Who", r.DecidedBy, "Time", at)
		}
	case "pending":
		v.Text, v.Next = T(ctx, "refund.verdict.pending", "Provider", r.Provider), waitWords(ctx, next)
	case "processing":
		text := "refund.verdict.processing"
		if slices.Contains(r.Review, reviewAged) {
			text = "refund.verdict.undecided"
		}
		v.Text = T(ctx, text, "Provider", r.Provider, "Sent", clock(ctx, r.SentAt, r.CreatedAt))
		v.Do, v.Next = []string{T(ctx, "refund.do.not_again")}, nextWords(ctx, next, "verdict.next")
	default:
		v.Text, v.Do, v.Next = unknownRefund(ctx, r), []string{T(ctx, "refund.do.not_again")}, nextWords(ctx, next, "verdict.next")
		if r.NothingCanLook {
			v.Do = append(v.Do, T(ctx, "refund.do.by_hand", "Provider", r.Provider))
		}
	}
	return v
}

func unknownRefund(ctx context.Context, r RefundRow) string {
	sent := clock(ctx, r.SentAt, r.DecidedAt)
	switch {
	case r.HTTPStatus >= 300:
		return T(ctx, "refund.verdict.unknown.http", "Sent", sent, "Code", strconv.Itoa(r.HTTPStatus))
	case r.HTTPStatus >= 200:
		return T(ctx, "refund.verdict.unknown.unreadable", "Sent", sent)
	case strings.HasPrefix(r.Reason, "cut"):
		return T(ctx, "refund.verdict.unknown.cut", "Sent", sent)
	}
	return T(ctx, "refund.verdict.unknown.no_answer", "Sent", sent)
}

// refundWho names whoever asked for a refund.
func refundWho(ctx context.Context, r RefundRow) string {
	if r.External {
		return T(ctx, "refund.fact.at_provider")
	}
	return who(ctx, PaymentMoment{Who: r.Who, WhoKind: r.WhoKind})
}

func refundTerms(ctx context.Context, r RefundRow) []components.Term {
	return nonEmpty([]components.Term{
		{Label: T(ctx, "refund.fact.asked_by"), Value: refundWho(ctx, r)},
		{Label: T(ctx, "refund.fact.when"), Body: components.Absolute(r.CreatedAt)},
		{Label: T(ctx, "refund.fact.why"), Value: r.Why},
		{Label: T(ctx, "refund.fact.their_id"), Value: r.TheirID, Mono: true, Copy: true},
		{Label: T(ctx, "refund.fact.charge"), Value: r.OtherCharge, Mono: true, Copy: true},
		{Label: T(ctx, "refund.fact.words"), Value: r.Words},
		{Label: T(ctx, "refund.fact.id"), Value: r.ID, Mono: true, Copy: true},
	})
}

func disputeTerms(ctx context.Context, d DisputeView) []components.Term {
	terms := []components.Term{
		{Label: T(ctx, "dispute.fact.reason"), Value: strings.ReplaceAll(d.Reason, "_", " ")},
		{Label: T(ctx, "dispute.fact.id"), Value: d.ID, Mono: true, Copy: true},
	}
	if d.OpenedAt != nil {
		terms = append(terms, components.Term{Label: T(ctx, "dispute.fact.since"), Body: components.Absolute(*d.OpenedAt)})
	}
	if d.State != "opened" {
		terms = append(terms, components.Term{Label: T(ctx, "dispute.fact.state_since"), Body: components.Absolute(d.StateAt)})
	}
	return nonEmpty(terms)
}

// refundWords are the lines about refunds and disputes in a paid payment's verdict.
func refundWords(ctx context.Context, f PaymentFacts) []string {
	var out []string
	money := func(n int64) string { return Money(ctx, n, f.Currency) }
	if f.Disputed {
		out = append(out, T(ctx, "verdict.do.disputed"))
	}
	if f.RefundUnknown > 0 {
		out = append(out, T(ctx, "verdict.do.refund_unknown", "Refund", money(f.RefundUnknown)))
	}
	if f.RefundWaiting > 0 {
		out = append(out, T(ctx, "verdict.do.refund_waiting", "Refund", money(f.RefundWaiting)))
	}
	if f.Refunded > 0 {
		out = append(out, T(ctx, "verdict.do.refunded", "Refunded", money(f.Refunded), "Money", money(f.Amount)))
	}
	return out
}

// refundedSentence is what to tell the customer of a paid payment of which something
// went back, or may. It claims a refund only when there is proof of it.
func refundedSentence(ctx context.Context, f PaymentFacts) string {
	open := f.RefundWaiting + f.RefundUnknown
	args := []any{"Money", Money(ctx, f.Amount, f.Currency), "Order", f.OrderRef}
	refund := []any{"Refund", Money(ctx, open, f.Currency)}
	switch {
	case f.Refunded >= f.Amount:
		return T(ctx, "customer.refunded", args...)
	case f.Refunded > 0 && open > 0:
		return T(ctx, "customer.refunded_part", append(args, "Refunded", Money(ctx, f.Refunded, f.Currency))...) + " " +
			T(ctx, "customer.refunding_more", refund...)
	case f.Refunded > 0:
		return T(ctx, "customer.refunded_part", append(args, "Refunded", Money(ctx, f.Refunded, f.Currency))...)
	}
	return T(ctx, "customer.refunding", append(refund, "Order", f.OrderRef)...)
}

func disputeMoney(ctx context.Context, d DisputeView) string {
	if d.Amount == 0 {
		return T(ctx, "dispute.amount_unsaid")
	}
	return T(ctx, "dispute.at_risk", "Money", Money(ctx, d.Amount, d.Currency))
}
