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

// PaymentFacts is what the verdict is made of. Amounts are in minor units.
type PaymentFacts struct {
	ID             string
	OrderRef       string
	Provider       string
	Status         string
	Reason         string // machine-readable
	Evidence       string // answer, lookup, event, sync, operator
	Review         []string
	Amount         int64
	Currency       string
	SentAt         *time.Time // first byte of the latest send; nil: nothing was sent
	HTTPStatus     int        // of the latest answer; 0 without one
	DecidedAt      time.Time  // of the last change of status
	DecidedBy      string     // a person's name, when Evidence is operator
	NextAt         *time.Time
	NextWhy        string
	TheirAmount    int64 // what the provider reports when it is not what we asked; 0: nothing
	TheirCurrency  string
	NothingCanLook bool // the provider has no status API
	// What was given back of it for sure, what is under way, and what may have been.
	Refunded, RefundWaiting, RefundUnknown int64
	Disputed                               bool // a dispute is open
	// What is held until it is captured, until when, and what a capture took or asks for.
	Authorised, Captured int64
	AuthorisedUntil      *time.Time
}

// Verdict is a payment's state in plain words.
type Verdict struct {
	Tone components.Tone
	Word string   // "Unknown"
	Text string   // what happened
	Do   []string // what to do and not to do
	Next string   // when something happens by itself; may be empty
}

// VerdictOf puts the facts into words in the reader's language. It claims money moved,
// or did not, only for statuses that have proof of it.
func VerdictOf(ctx context.Context, f PaymentFacts) Verdict {
	v := Verdict{Tone: components.StatusTone(f.Status), Word: Opt(ctx, "status.", f.Status)}
	switch f.Status {
	case "succeeded":
		v.Text, v.Do = paidWords(ctx, f)
		v.Word, v.Tone = paidWord(ctx, f, v.Word), paidTone(f)
	case "failed":
		v.Text, v.Do = failedWords(ctx, f), []string{T(ctx, "verdict.do.new_payment")}
		if look := f.lookWords(ctx); len(look) > 0 { // charging again is safe only without doubt
			v.Tone, v.Do = components.ToneWarn, append([]string{T(ctx, "verdict.do.no_recharge")}, look...)
		}
	case "pending":
		v.Word, v.Text, v.Do = T(ctx, "verdict.word.waiting"), pendingWords(ctx, f), []string{T(ctx, "verdict.do.wait")}
		v.Next = waitWords(ctx, f)
	case "processing":
		v.Text = T(ctx, "verdict.processing", "Provider", f.Provider, "Sent", clock(ctx, f.SentAt, f.DecidedAt))
		v.Do = []string{T(ctx, "verdict.do.no_recharge")}
		v.Next = nextWords(ctx, f, "verdict.next")
		if f.held() {
			v.Word = T(ctx, "verdict.word.held")
			v.Text, v.Do = heldWords(ctx, f)
		}
	case "requires_action":
		v.Text = T(ctx, "verdict.requires_action", "Provider", f.Provider)
		v.Do = []string{T(ctx, "verdict.do.customer")}
		v.Next = nextWords(ctx, f, "verdict.next")
	default:
		v.Text, v.Do = unknownWords(ctx, f)
		v.Next = nextWords(ctx, f, "verdict.next")
	}
	return v
}

// pendingWords tell a charge that never left from one that the provider turned away
// without executing it.
func pendingWords(ctx context.Context, f PaymentFacts) string {
	if f.SentAt != nil {
		return T(ctx, "verdict.pending.refused", "Provider", f.Provider)
	}
	return T(ctx, "verdict.pending", "Provider", f.Provider)
}

// paidWord is the verdict on a paid payment: what became of the money since.
func paidWord(ctx context.Context, f PaymentFacts, paid string) string {
	switch {
	case f.Disputed:
		return T(ctx, "verdict.word.disputed")
	case f.Refunded >= f.taken() && f.Refunded > 0:
		return T(ctx, "verdict.word.refunded")
	case f.Refunded > 0:
		return T(ctx, "verdict.word.refunded_part")
	}
	return paid
}

func paidTone(f PaymentFacts) components.Tone {
	switch {
	case f.Disputed:
		return components.ToneAct
	case len(f.Review) > 0:
		return components.ToneWarn
	case f.Refunded > 0:
		return components.ToneInfo
	}
	return components.ToneOK
}

func paidWords(ctx context.Context, f PaymentFacts) (string, []string) {
	at := messages.Clock(ctx, f.DecidedAt)
	do := append(refundWords(ctx, f), f.lookWords(ctx)...)
	if len(do) == 0 {
		do = []string{T(ctx, "verdict.do.nothing")}
	}
	money := Money(ctx, f.taken(), f.Currency)
	switch {
	case f.Evidence == "operator":
		return T(ctx, "verdict.succeeded.operator", "Who", f.DecidedBy, "Time", at), do
	case f.part():
		return T(ctx, "verdict.succeeded.part", "Provider", f.Provider, "Money", money, "Time", at, "Whole", Money(ctx, f.Amount, f.Currency)), do
	}
	return T(ctx, "verdict.succeeded", "Provider", f.Provider, "Money", money, "Time", at), do
}

// lookWords say why a person has to look at a payment that is decided, and what that
// means for whoever has the customer on the phone.
func (f PaymentFacts) lookWords(ctx context.Context) []string {
	if len(f.Review) == 0 {
		return nil
	}
	names := make([]string, len(f.Review))
	for i, r := range f.Review {
		names[i] = Opt(ctx, "review.", r)
	}
	do := []string{T(ctx, "verdict.do.look", "Reasons", messages.Join(names...))}
	if slices.Contains(f.Review, "duplicate_at_provider") {
		do = append(do, T(ctx, "verdict.do.duplicate"))
	}
	if f.doubted() {
		do = append(do, T(ctx, "verdict.do.promise_nothing"))
	}
	return do
}

// doubted: the status stands, but evidence speaks against it or about other money.
func (f PaymentFacts) doubted() bool {
	return slices.Contains(f.Review, "contradiction") || slices.Contains(f.Review, "amount_mismatch")
}

// part: less was captured than was asked for.
func (f PaymentFacts) part() bool { return f.Captured > 0 && f.Captured < f.Amount }

func failedWords(ctx context.Context, f PaymentFacts) string {
	at := messages.Clock(ctx, f.DecidedAt)
	if f.Evidence == "operator" {
		return T(ctx, "verdict.failed.operator", "Who", f.DecidedBy, "Time", at)
	}
	switch {
	case f.declined():
		return T(ctx, "verdict.failed.declined", "Provider", f.Provider, "Time", at, "Why", reasonWords(ctx, f.Reason))
	case f.Reason == "not_received":
		return T(ctx, "verdict.failed.not_received", "Provider", f.Provider)
	case f.Authorised > 0:
		return T(ctx, "verdict.failed.released", "Provider", f.Provider, "Time", at, "Why", reasonWords(ctx, f.Reason))
	case f.SentAt == nil:
		return T(ctx, "verdict.failed.not_sent")
	case strings.HasPrefix(f.Reason, "rejected"):
		return T(ctx, "verdict.failed.rejected", "Provider", f.Provider, "Time", at)
	}
	return T(ctx, "verdict.failed.other", "Provider", f.Provider, "Time", at, "Why", reasonWords(ctx, f.Reason))
}

// declined: the customer's bank said no. The reason then is the provider's decline code.
func (f PaymentFacts) declined() bool { return f.Reason == "declined" || f.HTTPStatus == 402 }

func unknownWords(ctx context.Context, f PaymentFacts) (string, []string) {
	do := []string{T(ctx, "verdict.do.no_recharge"), T(ctx, "verdict.do.not_failed")}
	if f.NothingCanLook {
		do = append(do, T(ctx, "verdict.do.by_hand", "Provider", f.Provider))
	}
	sent := clock(ctx, f.SentAt, f.DecidedAt)
	switch {
	case f.TheirAmount != 0:
		return T(ctx, "verdict.unknown.mismatch", "Provider", f.Provider,
			"Theirs", Money(ctx, f.TheirAmount, f.TheirCurrency), "Money", Money(ctx, f.taken(), f.Currency)), do
	case f.HTTPStatus >= 300:
		return T(ctx, "verdict.unknown.http", "Sent", sent, "Code", strconv.Itoa(f.HTTPStatus)), do
	case f.HTTPStatus >= 200:
		return T(ctx, "verdict.unknown.unreadable", "Sent", sent), do
	case strings.HasPrefix(f.Reason, "cut"):
		return T(ctx, "verdict.unknown.cut", "Sent", sent), do
	}
	return T(ctx, "verdict.unknown.no_answer", "Sent", sent), do
}

// waitWords says what a payment that was not sent waits for.
func waitWords(ctx context.Context, f PaymentFacts) string {
	if f.NextWhy == "paused" {
		return T(ctx, "verdict.waits.paused", "Provider", f.Provider)
	}
	if f.NextAt == nil {
		return ""
	}
	at := messages.Clock(ctx, *f.NextAt)
	switch f.NextWhy {
	case "circuit_open":
		return T(ctx, "verdict.waits.circuit_open", "Provider", f.Provider, "Time", at)
	case "throttled":
		return T(ctx, "verdict.waits.throttled", "Provider", f.Provider, "Time", at)
	case "retry":
		return T(ctx, "verdict.waits.retry", "Time", at)
	}
	return nextWords(ctx, f, "verdict.next_try")
}

func nextWords(ctx context.Context, f PaymentFacts, id string) string {
	if f.NextAt == nil {
		return ""
	}
	if !f.NextAt.After(messages.From(ctx).Now) {
		return T(ctx, "verdict.next_due")
	}
	return T(ctx, id, "Time", messages.Clock(ctx, *f.NextAt))
}

// clock prints at, or the fallback when there is none.
func clock(ctx context.Context, at *time.Time, fallback time.Time) string {
	if at == nil {
		return messages.Clock(ctx, fallback)
	}
	return messages.Clock(ctx, *at)
}

// CustomerSentence is what to tell the customer, in the context's language. It never
// says that money moved, or did not, without proof that nothing speaks against.
func CustomerSentence(ctx context.Context, f PaymentFacts) string {
	args := []any{"Money", Money(ctx, f.taken(), f.Currency), "Order", f.OrderRef}
	switch {
	case f.held():
		return T(ctx, "customer.authorised", "Money", Money(ctx, f.Authorised, f.Currency), "Order", f.OrderRef)
	case (f.Status == "succeeded" || f.Status == "failed") && f.doubted():
		return T(ctx, "customer.checking", args...)
	}
	switch f.Status {
	case "succeeded":
		return paidSentence(ctx, f, args)
	case "failed":
		switch {
		case f.Authorised > 0:
			return T(ctx, "customer.released", "Money", Money(ctx, f.Authorised, f.Currency), "Order", f.OrderRef)
		case f.declined():
			return T(ctx, "customer.declined", args...)
		}
		return T(ctx, "customer.failed", args...)
	case "pending":
		return T(ctx, "customer.pending", args...)
	case "processing":
		return T(ctx, "customer.processing", args...)
	case "requires_action":
		return T(ctx, "customer.requires_action", args...)
	}
	return T(ctx, "customer.unknown", args...)
}

// paidSentence tells what became of money that was taken.
func paidSentence(ctx context.Context, f PaymentFacts, args []any) string {
	switch {
	case f.Disputed:
		return T(ctx, "customer.disputed", args...)
	case f.Refunded+f.RefundWaiting+f.RefundUnknown > 0:
		f.Amount = f.taken() // a refund is of what was taken
		return refundedSentence(ctx, f)
	case slices.Contains(f.Review, "duplicate_at_provider"):
		return T(ctx, "customer.duplicate", args...)
	case f.part():
		return T(ctx, "customer.part", append(args, "Whole", Money(ctx, f.Amount, f.Currency))...)
	}
	return T(ctx, "customer.succeeded", args...)
}

// speaking returns ctx in another language, for sentences that go to somebody else.
func speaking(ctx context.Context, l messages.Lang) context.Context {
	loc := messages.From(ctx)
	loc.Lang = l
	return messages.With(ctx, loc)
}

// otherLangs lists the languages besides the reader's own.
func otherLangs(ctx context.Context) []messages.Lang {
	var out []messages.Lang
	for _, l := range messages.Langs {
		if l != messages.From(ctx).Lang {
			out = append(out, l)
		}
	}
	return out
}
