package views

import (
	"context"
	"fmt"
	"strconv"
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
	Live     components.LiveRegion
	Facts    PaymentFacts
	Actions  []ActionLink
	Proposal *ProposalView // waits for a second person; nil: none does
	// ProposalNeeds names the role that may decide on it, when the reader's may not.
	ProposalNeeds string
	Terms         PaymentTerms
	Objects       []ObjectView
	Attempts      []AttemptView
	Webhooks      []WebhookRow
	Wallet        *WalletEffect
	Refunds       RefundsView
	Capture       CaptureView
	Disputes      []DisputeView
	Timeline      []PaymentMoment
	Story         StoryView
	ReplayKey     *ReplayKey
	// MoreWebhooks: there are older deliveries than those listed.
	MoreWebhooks bool
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
	Reveal                                                *ActionLink // nil: nothing was stored
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
	// Request and Body are shown with what names a person or a means of payment hidden.
	// BodySize is how much was stored, RequestHash the SHA-256 of the bytes as sent.
	BodySize    int
	RequestHash string
	Reveal      *ActionLink // to the stored answer; nil: there is none
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

// differs marks what a provider reports and we did not ask for.
func (o ObjectView) differs(f PaymentFacts) bool {
	return o.Amount != f.Amount || o.Currency != f.Currency
}

// over: the provider may have forgotten the key.
func (k ReplayKey) over(ctx context.Context) bool { return !k.Until.After(messages.From(ctx).Now) }

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
		{Label: T(ctx, "attempt.request_hash"), Value: a.RequestHash, Mono: true, Copy: true},
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
			components.Term{Label: T(ctx, "fact.replay"), Body: replayLeft(*k)},
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

// needsAnswer reports whether the payment is in the work queue.
func (f PaymentFacts) needsAnswer() bool { return f.Status == "unknown" || len(f.Review) > 0 }
