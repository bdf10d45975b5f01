package views

import (
	"context"
	"slices"
	"time"

	"fusebox/views/components"
	"fusebox/views/messages"
)

// CaptureView is what is held for a payment until it is captured or let go. Amounts are
// in minor units of its currency.
type CaptureView struct {
	Currency             string
	Authorised, Captured int64
	Until                *time.Time // when the provider lets go by itself; nil: not said
	Open                 bool       // it is still held
	Actions              []ActionLink
	Rows                 []CaptureRow // captures and voids, oldest first
}

// shown: a payment whose money is taken with its charge has no such section.
func (v CaptureView) shown() bool { return v.Authorised > 0 || len(v.Rows) > 0 }

// CaptureRow is one capture or void. Reason is machine-readable, Why in the words of
// whoever asked.
type CaptureRow struct {
	ID, Kind, Provider  string
	Seq                 int
	Status, Reason, Why string
	Review              []string
	Amount              int64
	Currency            string
	Who, WhoKind        string
	Words               string // the provider's; hostile text
	CreatedAt           time.Time
	NextAt              *time.Time
	NextWhy             string
	Attempts            []AttemptView
	Actions             []ActionLink
}

// HoldName names a capture or void.
func HoldName(ctx context.Context, kind string, n int) string {
	if kind == "void" {
		return T(ctx, "hold.void.n", "N", n)
	}
	return T(ctx, "hold.capture.n", "N", n)
}

// HoldStatus is a status in words that are a capture's or a void's: captured, not paid.
func HoldStatus(ctx context.Context, kind, status string) string {
	if status != "succeeded" {
		return Opt(ctx, "refund.status.", status)
	}
	if kind == "void" {
		return T(ctx, "hold.void.done")
	}
	return T(ctx, "hold.capture.done")
}

// captureWords say what became of a capture or void, and what not to do.
func captureWords(ctx context.Context, r CaptureRow) string {
	switch r.Status {
	case "succeeded":
		if r.Kind == "void" {
			return T(ctx, "hold.words.void_done", "Provider", r.Provider)
		}
		return T(ctx, "hold.words.capture_done", "Provider", r.Provider, "Money", Money(ctx, r.Amount, r.Currency))
	case "failed":
		return T(ctx, "hold.words.failed", "Why", reasonWords(ctx, r.Reason))
	case "pending":
		return T(ctx, "hold.words.pending", "Provider", r.Provider)
	case "processing":
		if slices.Contains(r.Review, reviewAged) {
			return T(ctx, "hold.words.undecided", "Provider", r.Provider)
		}
		return T(ctx, "hold.words.processing", "Provider", r.Provider)
	}
	return T(ctx, "hold.words.unknown", "Provider", r.Provider)
}

func captureTerms(ctx context.Context, r CaptureRow) []components.Term {
	terms := []components.Term{
		{Label: T(ctx, "refund.fact.asked_by"), Value: refundWho(ctx, RefundRow{Who: r.Who, WhoKind: r.WhoKind})},
		{Label: T(ctx, "refund.fact.when"), Body: components.Absolute(r.CreatedAt)},
	}
	if r.Why != "" {
		terms = append(terms, components.Term{Label: T(ctx, "refund.fact.why"), Value: r.Why})
	}
	if r.Words != "" {
		terms = append(terms, components.Term{Label: T(ctx, "refund.fact.words"), Value: r.Words})
	}
	return terms
}

// held reports that the money is held and waits to be captured or let go.
func (f PaymentFacts) held() bool {
	return f.Status == "processing" && f.Reason == "authorised" && f.Authorised > 0
}

// heldWords say what is held, and until when.
func heldWords(ctx context.Context, f PaymentFacts) (string, []string) {
	money := Money(ctx, f.Authorised, f.Currency)
	do := []string{T(ctx, "verdict.do.capture_or_void"), T(ctx, "verdict.do.no_recharge")}
	if f.AuthorisedUntil == nil {
		return T(ctx, "verdict.authorised", "Money", money, "Provider", f.Provider), do
	}
	return T(ctx, "verdict.authorised_until", "Money", money, "Until", messages.Absolute(ctx, *f.AuthorisedUntil), "Provider", f.Provider), do
}

// taken is what was asked to be taken: a part, if only a part was captured.
func (f PaymentFacts) taken() int64 {
	if f.Captured > 0 {
		return f.Captured
	}
	return f.Amount
}
