package views

import (
	"context"
	"time"

	"github.com/a-h/templ"

	"fusebox/views/components"
	"fusebox/views/messages"
)

// QueueView is the work queue.
type QueueView struct {
	Page   Page
	Filter AnswerFilter
	Export templ.SafeURL
	// ActionID of Take next.
	ActionID string
	List     QueueListView
}

// AnswerFilter holds the queue's filter form, and its choices.
type AnswerFilter struct {
	Provider, Reason, Lease string
	Aged                    bool
	Providers, Reasons      []string
}

func (f AnswerFilter) active() bool { return f.Aged || f.Provider+f.Reason+f.Lease != "" }

// AnswerRow is a payment in the work queue.
type AnswerRow struct {
	PaymentRow
	Since time.Time
	// Proposed: a decision waits for a second person.
	Proposed bool
	Lease    *HolderView
}

// HolderView says who is at work on a payment.
type HolderView struct {
	Name  string
	Until time.Time
	Mine  bool // the reader's own
}

// words are "Olena until 14:12".
func (l HolderView) words(ctx context.Context) string {
	if l.Mine {
		return T(ctx, "answer.lease.you", "Time", messages.Clock(ctx, l.Until))
	}
	return T(ctx, "answer.lease.other", "Name", l.Name, "Time", messages.Clock(ctx, l.Until))
}

// QueueListView is the part of the work queue that moves by itself.
type QueueListView struct {
	Live     components.LiveRegion
	Rows     []AnswerRow
	Total    int64
	Capped   string // the total as shown, "10,000+"
	Filtered bool   // by something that only payments have
	// Refunds that need an answer, oldest first, and open disputes, due first on top.
	Refunds       []RefundRow
	RefundTotal   int64
	RefundsCapped string
	Disputes      []DisputeView
	MoreDisputes  bool
}

// empty: nothing of any kind needs an answer.
func (v QueueListView) empty() bool { return len(v.Rows)+len(v.Refunds)+len(v.Disputes) == 0 }

func answerReasons(ctx context.Context, reasons []string) []components.Option {
	out := []components.Option{{Value: "", Label: T(ctx, "ui.any")}}
	for _, r := range reasons {
		label := Opt(ctx, "review.", r)
		if r == "unknown" {
			label = Opt(ctx, "status.", r)
		}
		out = append(out, components.Option{Value: r, Label: label})
	}
	return out
}

func leaseOptions(ctx context.Context) []components.Option {
	return []components.Option{{Value: "", Label: T(ctx, "ui.any")}, {Value: "untaken", Label: T(ctx, "answer.filter.untaken")},
		{Value: "mine", Label: T(ctx, "answer.filter.mine")}}
}

// agedOptions: the age limit is the engine's, so it is a yes or no here.
func agedOptions(ctx context.Context) []components.Option {
	return []components.Option{{Value: "", Label: T(ctx, "ui.any")}, {Value: "yes", Label: T(ctx, "answer.filter.aged_only")}}
}

// AnswerView is one payment of the queue, with what is known about it side by side.
type AnswerView struct {
	Page   Page
	Detail AnswerDetail
}

// AnswerDetail is the part of it that moves by itself.
type AnswerDetail struct {
	Live  components.LiveRegion
	Facts PaymentFacts
	Open  bool // it still needs an answer
	Step  NextStep
	Lease *HolderView
	// Proposal waits for a second person; Needs names the role that may be it.
	Proposal *ProposalView
	Needs    string
	Against  []string // what contradicts what, in words
	// Actions beside the safe one, which is Do; nil: there is nothing to press.
	Actions []ActionLink
	Do      *ActionLink

	Request  *AttemptView // the latest attempt that left; nil: nothing left
	Key      *ReplayKey
	Sends    int
	Objects  []ObjectView
	AskedAt  *time.Time // the latest lookup
	AskedSay string     // what came of it, machine-readable
	Webhooks []WebhookRow
	Found    *FoundView
	Wallet   *WalletEffect
}

// ProposalView is a decision that waits for a second person.
type ProposalView struct {
	PaymentID, To, Name, Reason, Evidence string
	At, ExpiresAt                         time.Time
	Mine                                  bool // the reader proposed it
	Elsewhere                             bool // who reads is not known: the page only leads to where it is decided
}

// FoundView is what the latest reconciliation run found about a payment.
type FoundView struct {
	Finding, Detail string
	At              time.Time
}

// contradicts reports whether the provider's view of a charge does not fit ours.
func (d AnswerDetail) contradicts(o ObjectView) bool {
	return o.differs(d.Facts) || o.Outcome == "" || (o.Outcome == "succeeded" && d.Facts.Status == "failed") ||
		(o.Outcome == "failed" && d.Facts.Status == "succeeded") || (len(d.Objects) > 1 && o.Outcome == "succeeded")
}

// agrees reports whether a run's finding fits.
func (f FoundView) agrees() bool { return f.Finding == "matched" }

func yes(on bool) string {
	if on {
		return "yes"
	}
	return ""
}

// requestTerms are the facts of our own request.
func requestTerms(ctx context.Context, d AnswerDetail) []components.Term {
	out := []components.Term{}
	if at := d.Request.SentAt; at != nil {
		out = append(out, components.Term{Label: T(ctx, "answer.request.sent"), Body: components.At(*at)})
	}
	if d.Key != nil {
		out = append(out, components.Term{Label: T(ctx, "payment.objects.key"), Body: components.Code(d.Key.Key, T(ctx, "payment.objects.key"))},
			components.Term{Label: T(ctx, "answer.request.replay"), Body: requestKey(*d.Key)})
	}
	return append(out, components.Term{Label: T(ctx, "answer.request.sends"), Value: Num(ctx, int64(d.Sends))},
		components.Term{Label: T(ctx, "answer.request.answer"), Value: httpWords(ctx, *d.Request)})
}
