package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"fusebox/provider"
)

// This file has no I/O. It merges what was observed about a provider's objects and
// judges what all of them together say about a payment. Both are independent of the
// order and repetition of observations.

// object is one charge at a provider, as all observations of it so far describe it.
// Times are the latest observation of their kind by the provider's clock; zero: none.
type object struct {
	provider    string
	id          string
	paymentID   *uuid.UUID // nil: at the provider, not here
	reference   string
	key         string
	word        string           // the provider's latest word for its status
	outcome     provider.Outcome // highest in rank; empty for a word not on the adapter's list
	money       provider.Money
	source      string
	wordAt      time.Time
	outcomeAt   time.Time
	succeededAt time.Time
	failedAt    time.Time
	equalAt     time.Time // a success over the money we asked for
	differsAt   time.Time // a success or an open state over other money
	madeAt      time.Time
	raw         []byte
	returned    int64 // given back by refunds that succeeded; derived, never stored here
}

// observation is one look at an object.
type observation struct {
	provider.Object
	at     time.Time // when the provider said it was so
	source string    // answer, lookup, webhook, sync
}

// rank orders outcomes: a final one outranks an open one whatever arrives first.
func rank(o provider.Outcome) int {
	switch o {
	case provider.Succeeded:
		return 3
	case provider.Failed:
		return 2
	}
	return 1
}

// tie orders open outcomes observed at the same instant: a word we do not know needs
// a person most.
func tie(o provider.Outcome) int {
	switch o {
	case provider.RequiresAction:
		return 0
	case provider.Processing:
		return 1
	}
	return 2
}

// merge adds an observation. changed is false if it says nothing new. want is the
// money of the payment; zero for an object without one.
func (o object) merge(n observation, want provider.Money) (merged object, changed bool) {
	was := o
	switch n.Outcome {
	case provider.Succeeded:
		o.succeededAt = latest(o.succeededAt, n.at)
	case provider.Failed:
		o.failedAt = latest(o.failedAt, n.at)
	}
	if want.Amount != 0 && n.Outcome != provider.Failed {
		success := n.Outcome == provider.Succeeded
		switch {
		case n.Money == want && success:
			o.equalAt = latest(o.equalAt, n.at)
		case n.Money != want && (success || n.Money.Amount != 0):
			// A success that does not say what it is about is no success.
			o.differsAt = latest(o.differsAt, n.at)
		}
	}
	if o.outcomeAt.IsZero() || cmp.Or(cmp.Compare(rank(n.Outcome), rank(o.outcome)),
		n.at.Compare(o.outcomeAt), cmp.Compare(tie(n.Outcome), tie(o.outcome))) > 0 {
		o.outcome, o.outcomeAt = n.Outcome, n.at
	}
	if !n.at.Before(o.wordAt) {
		o.word, o.wordAt, o.source = n.Status, n.at, n.source
		if n.Money.Amount != 0 {
			o.money = n.Money
		}
		if n.Raw != nil {
			o.raw = n.Raw
		}
	}
	o.reference, o.key = cmp.Or(o.reference, n.Reference), cmp.Or(o.key, n.OperationKey)
	if o.madeAt.IsZero() {
		o.madeAt = n.CreatedAt
	}
	return o, !was.same(o)
}

// same compares what a judgement can depend on.
func (o object) same(x object) bool {
	return o.outcome == x.outcome && o.word == x.word && o.money == x.money &&
		o.succeededAt.IsZero() == x.succeededAt.IsZero() && o.failedAt.IsZero() == x.failedAt.IsZero() &&
		o.reversed() == x.reversed() && o.differs() == x.differs() && o.matches() == x.matches() &&
		o.key == x.key && o.reference == x.reference
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// took reports that the object took money at some time.
func (o object) took() bool { return !o.succeededAt.IsZero() }

// reversed reports that it failed or was cancelled at or after its success.
func (o object) reversed() bool {
	return o.took() && !o.failedAt.IsZero() && !o.failedAt.Before(o.succeededAt)
}

// matches reports that it was seen to succeed over the money we asked for.
func (o object) matches() bool { return !o.equalAt.IsZero() }

// differs reports that the latest word about its money is not ours.
func (o object) differs() bool { return !o.differsAt.IsZero() && !o.differsAt.Before(o.equalAt) }

// givenBack reports that its money, all of it, went back.
func (o object) givenBack() bool { return o.returned > 0 && o.returned >= o.money.Amount }

// judgement is what all objects of a payment say together.
type judgement struct {
	to      Status   // empty without any object
	own     string   // id of the object that decides
	reviews []string // reasons the objects give for a person to look
}

// objectReviews are the review reasons a judgement decides about: present in its
// reviews or gone.
var objectReviews = []string{ReviewAmountMismatch, ReviewDuplicate, ReviewContradiction, ReviewUnmapped}

// judge weighs the objects of a payment. own is the object the payment rests on so
// far, kept while it is as good as any other. Money that moved as asked outranks
// everything; money that moved otherwise needs a person; an open object outranks the
// failure of another, so the failure of one attempt cannot touch the next.
func judge(objects []object, own string) judgement {
	if len(objects) == 0 {
		return judgement{}
	}
	objects = slices.SortedFunc(slices.Values(objects), func(a, b object) int {
		return cmp.Or(boolCmp(a.id != own, b.id != own), a.madeAt.Compare(b.madeAt), cmp.Compare(a.id, b.id))
	})
	j := decide(objects)
	live := 0
	for _, o := range objects {
		if o.took() && !o.reversed() && (o.id == j.own || !o.givenBack()) {
			live++ // a duplicate that was given back is none any more
		}
		if o.differs() && (o.took() || o.outcome != provider.Failed) && !o.reversed() {
			j.review(ReviewAmountMismatch)
		}
	}
	if live > 1 {
		j.review(ReviewDuplicate)
	}
	return j
}

// decide finds the status and the object it rests on; objects are in order of preference.
func decide(objects []object) judgement {
	paid := func(o object) bool { return o.took() && o.matches() }
	if i := slices.IndexFunc(objects, func(o object) bool { return paid(o) && !o.reversed() }); i >= 0 {
		return judgement{to: Succeeded, own: objects[i].id}
	}
	if i := slices.IndexFunc(objects, paid); i >= 0 {
		// It took our money and was then undone: money-rules never lets succeeded go.
		return judgement{to: Succeeded, own: objects[i].id, reviews: []string{ReviewContradiction}}
	}
	other := func(o object) bool { return o.differs() && o.outcome != provider.Failed && !o.reversed() }
	if i := slices.IndexFunc(objects, other); i >= 0 {
		return judgement{to: Unknown, own: objects[i].id}
	}
	open := slices.DeleteFunc(slices.Clone(objects), func(o object) bool { return rank(o.outcome) > 1 })
	if len(open) == 0 {
		return judgement{to: Failed, own: objects[0].id}
	}
	o := slices.MaxFunc(open, func(a, b object) int {
		return cmp.Or(cmp.Compare(tie(a.outcome), tie(b.outcome)), cmp.Compare(b.id, a.id))
	})
	switch o.outcome {
	case provider.Processing:
		return judgement{to: Processing, own: o.id}
	case provider.RequiresAction:
		return judgement{to: RequiresAction, own: o.id}
	}
	return judgement{to: Unknown, own: o.id, reviews: []string{ReviewUnmapped}}
}

func (j *judgement) review(reason string) {
	if !slices.Contains(j.reviews, reason) {
		j.reviews = append(j.reviews, reason)
	}
}

func boolCmp(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
