package views

import (
	"context"
	"slices"
	"time"

	"fusebox/views/messages"
)

// StepKind is the one safe thing to do next about a payment without an answer.
type StepKind string

// Steps.
const (
	StepAsk     StepKind = "ask"     // ask the provider again now
	StepWait    StepKind = "wait"    // until a moment
	StepPaid    StepKind = "paid"    // mark paid
	StepFailed  StepKind = "failed"  // mark failed
	StepSettle  StepKind = "settle"  // end the review: the status stands
	StepLook    StepKind = "look"    // compare at the provider's own dashboard, then decide
	StepSecond  StepKind = "second"  // a second person has to decide
	StepNothing StepKind = "nothing" // the provider confirms what we have
)

// NextStep is that step, and why: the id of a sentence.
type NextStep struct {
	Kind  StepKind
	Why   string
	Until time.Time // of StepWait
}

// StepFacts is what the step follows from.
type StepFacts struct {
	Status   string
	Review   []string
	Proposed bool // a decision waits for a second person
	CanAsk   bool // the provider can be asked
	Replays  bool // asking is sending the same key and bytes again
	Objects  []StepObject
	AskedAt  *time.Time // the latest lookup
	Absent   int        // lookups in a row that did not find it
	Horizon  *time.Time // until then, absence proves nothing
	NextAt   *time.Time // when we ask by ourselves
	Now      time.Time
}

// StepObject is a provider's view of one charge.
type StepObject struct {
	Outcome string
	Same    bool // amount and currency are ours
}

const (
	stepSoon = 2 * time.Minute  // a lookup of ours that is so near is not worth overtaking
	stepGap  = 30 * time.Second // between two lookups of people
)

// NextStepOf says what is safe. It never suggests to mark a payment against what the
// provider says, nor to charge again.
func NextStepOf(f StepFacts) NextStep {
	switch {
	case f.Proposed:
		return NextStep{Kind: StepSecond, Why: "answer.why.second"}
	case f.Status != "unknown":
		return f.decided()
	}
	paid, same, failed, unread := f.count()
	switch {
	case paid > 1:
		return NextStep{Kind: StepLook, Why: "answer.why.twice"}
	case paid == 1 && same == 0:
		return NextStep{Kind: StepLook, Why: "answer.why.amount"}
	case paid == 1 && f.CanAsk:
		return f.ask("answer.why.says_paid")
	case paid == 1:
		return NextStep{Kind: StepPaid, Why: "answer.why.says_paid_only"}
	case unread > 0:
		return NextStep{Kind: StepLook, Why: "answer.why.unread"}
	case failed > 0 && failed == len(f.Objects) && !f.CanAsk:
		return NextStep{Kind: StepFailed, Why: "answer.why.says_failed_only"}
	case failed > 0 && failed == len(f.Objects):
		return f.ask("answer.why.says_failed")
	}
	return f.unheard()
}

// decided: the status is final or the provider is at it, and only a review is open.
func (f StepFacts) decided() NextStep {
	paid, _, failed, _ := f.count()
	doubt := func(reason string) bool { return slices.Contains(f.Review, reason) }
	switch {
	case len(f.Review) == 0:
		return NextStep{Kind: StepNothing, Why: "answer.why.nothing"}
	case paid > 1 || doubt("duplicate_at_provider"):
		return NextStep{Kind: StepLook, Why: "answer.why.twice"}
	case doubt("amount_mismatch"):
		return NextStep{Kind: StepLook, Why: "answer.why.amount"}
	case doubt("contradiction"), f.Status == "succeeded" && failed > 0, f.Status == "failed" && paid > 0:
		return NextStep{Kind: StepLook, Why: "answer.why.contradiction"}
	case f.Status != "succeeded" && f.Status != "failed" && f.CanAsk:
		return f.ask("answer.why.open")
	}
	return NextStep{Kind: StepSettle, Why: "answer.why.settle"}
}

// unheard: the provider has said nothing that decides it.
func (f StepFacts) unheard() NextStep {
	switch {
	case !f.CanAsk && f.NextAt != nil && f.NextAt.After(f.Now):
		return NextStep{Kind: StepWait, Why: "answer.why.event", Until: *f.NextAt}
	case !f.CanAsk:
		return NextStep{Kind: StepLook, Why: "answer.why.no_way"}
	case f.Absent >= 2 && f.Horizon != nil && !f.Horizon.After(f.Now):
		return NextStep{Kind: StepFailed, Why: "answer.why.absent"}
	case f.Absent > 0 && f.Horizon != nil && f.Horizon.After(f.Now):
		return NextStep{Kind: StepWait, Why: "answer.why.horizon", Until: *f.Horizon}
	case f.Replays:
		return f.ask("answer.why.replay")
	case f.AskedAt == nil:
		return f.ask("answer.why.never")
	}
	return f.ask("answer.why.again")
}

// ask, unless it was asked just now or will be in a moment.
func (f StepFacts) ask(why string) NextStep {
	if f.NextAt != nil && f.NextAt.After(f.Now) && f.NextAt.Before(f.Now.Add(stepSoon)) {
		return NextStep{Kind: StepWait, Why: "answer.why.soon", Until: *f.NextAt}
	}
	if f.AskedAt != nil && f.Now.Before(f.AskedAt.Add(stepGap)) {
		return NextStep{Kind: StepWait, Why: "answer.why.just_asked", Until: f.AskedAt.Add(stepGap)}
	}
	return NextStep{Kind: StepAsk, Why: why}
}

func (f StepFacts) count() (paid, same, failed, unread int) {
	for _, o := range f.Objects {
		switch o.Outcome {
		case "succeeded":
			paid++
			if o.Same {
				same++
			}
		case "failed":
			failed++
		case "":
			unread++
		}
	}
	return paid, same, failed, unread
}

// title is the step in words, why the reason for it.
func (s NextStep) title(ctx context.Context) string {
	if s.Kind == StepWait {
		return T(ctx, "answer.wait_until", "Time", messages.Clock(ctx, s.Until))
	}
	return Opt(ctx, "answer.step.", string(s.Kind))
}

func (s NextStep) why(ctx context.Context, provider string) string {
	return T(ctx, s.Why, "Provider", provider)
}

// icon is a shape per kind.
func (s NextStep) icon() string {
	switch s.Kind {
	case StepWait:
		return "clock"
	case StepAsk:
		return "refresh"
	case StepNothing, StepPaid, StepSettle:
		return "check"
	}
	return "warn"
}
