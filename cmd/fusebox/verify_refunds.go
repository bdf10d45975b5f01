package main

import (
	"context"
	"fmt"

	"fusebox/provider"
	"fusebox/store"
)

// refundLedger is a provider's successful refunds. whole: it holds all of them, so a
// refund of ours that is not in it was not made; a listing of charges need not.
type refundLedger struct {
	byID        map[string]provider.Object
	byReference map[string][]provider.Object
	of          map[string]int64 // what went back of each charge, by its id
	whole       bool
}

func (l *refundLedger) add(o provider.Object) {
	if o.Kind != provider.ObjectRefund || o.Outcome != provider.Succeeded {
		return
	}
	if l.byID == nil {
		l.byID, l.byReference = map[string]provider.Object{}, map[string][]provider.Object{}
		l.of = map[string]int64{}
	}
	if _, known := l.byID[o.ID]; known {
		return
	}
	l.byID[o.ID] = o
	l.of[o.Child.ChargeID] += o.Money.Amount
	if o.Reference != "" {
		l.byReference[o.Reference] = append(l.byReference[o.Reference], o)
	}
}

// compareRefunds compares our refunds with the providers' and those of theirs that we do
// not have. What differs is read a second time: a refund may be made at this moment. It
// returns what our successful refunds gave back, by provider and charge.
func (a *app) compareRefunds(ctx context.Context, r *report, ledgers map[string]ledger) (map[string]map[string]int64, error) {
	given := map[string]map[string]int64{}
	known := map[string]map[string]bool{} // provider, their ids
	var suspects []store.Operation
	err := a.store.EachRefund(ctx, func(op store.Operation) error {
		l, audited := ledgers[op.Provider]
		if !audited {
			return nil
		}
		if known[op.Provider] == nil {
			known[op.Provider], given[op.Provider] = map[string]bool{}, map[string]int64{}
		}
		known[op.Provider][op.ProviderObjectID] = true
		if op.Status == store.Succeeded {
			given[op.Provider][op.ProviderPaymentID] += op.Amount
		}
		for _, o := range l.refunds.byReference[op.ID.String()] {
			known[op.Provider][o.ID] = true
		}
		if refundFinding(op, l.refunds) != "" {
			suspects = append(suspects, op)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for name, l := range ledgers {
		r.ProviderRefunds += len(l.refunds.byID)
		for id := range l.refunds.byID {
			if !known[name][id] {
				r.RefundsTheirsOnly = append(r.RefundsTheirsOnly, fmt.Sprintf("%s at %s", id, name))
			}
		}
	}
	return given, a.recheckRefunds(ctx, r, suspects)
}

func (a *app) recheckRefunds(ctx context.Context, r *report, suspects []store.Operation) error {
	fresh := map[string]ledger{}
	for _, s := range suspects {
		op, err := a.store.Operation(ctx, s.ID)
		if err != nil {
			return err
		}
		l, read := fresh[op.Provider]
		if !read {
			settings, _ := a.settings(op.Provider)
			if l, err = a.readLedger(ctx, settings); err != nil {
				r.Unaudited = append(r.Unaudited, fmt.Sprintf("%s: %v", op.Provider, err))
				continue
			}
			fresh[op.Provider] = l
		}
		if f := refundFinding(op, l.refunds); f != "" {
			r.RefundFindings = append(r.RefundFindings, op.ID.String()+": "+f)
		}
	}
	return nil
}

// refundFinding compares one refund with the provider's; empty means they agree.
func refundFinding(op store.Operation, l refundLedger) string {
	theirs := l.byReference[op.ID.String()]
	if o, ok := l.byID[op.ProviderObjectID]; ok && len(theirs) == 0 {
		theirs = []provider.Object{o}
	}
	switch {
	case len(theirs) > 1:
		return fmt.Sprintf("%s made it %d times", op.Provider, len(theirs))
	case len(theirs) == 0 && op.Status == store.Succeeded && l.whole:
		return fmt.Sprintf("succeeded, but %s has no such refund", op.Provider)
	case len(theirs) == 0:
		return ""
	case op.Status != store.Succeeded:
		return fmt.Sprintf("%s made it (%s), here it is %s", op.Provider, theirs[0].ID, op.Status)
	case theirs[0].Money != op.Money():
		return fmt.Sprintf("%d %s here, %s has %d %s as %s", op.Amount, op.Currency, op.Provider, theirs[0].Money.Amount, theirs[0].Money.Currency, theirs[0].ID)
	case theirs[0].Child.ChargeID != "" && theirs[0].Child.ChargeID != op.ProviderPaymentID:
		return fmt.Sprintf("of charge %s here, of %s at %s", op.ProviderPaymentID, theirs[0].Child.ChargeID, op.Provider)
	}
	return ""
}
