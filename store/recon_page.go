package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// Findings of a reconciliation run.
const (
	findMatched       = "matched"
	findOursOnly      = "ours_only"
	findTheirsOnly    = "theirs_only"
	findAmountDiffers = "amount_differs"
	findStatusDiffers = "status_differs"
	findDuplicate     = "duplicate"
)

// RecordPage compares a page of the provider's objects with our payments, in one
// transaction with the cursor: findings, provider objects, and evidence applied to
// payments through the state machine. last completes the run, adds ours_only findings
// for our payments in the window the provider did not list, and moves the watermark to
// the window's end. A page of a run that is complete changes nothing. Objects of theirs
// that we never made are listed, never invented as payments.
func (s *Store) RecordPage(ctx context.Context, runID uuid.UUID, page provider.Page, last bool) (Run, error) {
	var r Run
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if r, err = lockRun(ctx, tx, runID); err != nil || (r.State != runRunning && r.State != runPaused) {
			return err
		}
		counts := map[string]int{}
		if err := s.comparePage(ctx, tx, r, page.Objects, counts); err != nil {
			return err
		}
		if last {
			if err := s.oursOnly(ctx, tx, r, counts); err != nil {
				return err
			}
		}
		if r, err = s.closePage(ctx, tx, r, clean(page.Next), last, counts); err != nil {
			return err
		}
		return Notify(ctx, tx, TopicRuns)
	})
	if err != nil {
		return Run{}, err
	}
	return r, nil
}

// pageItem is one listed object and the payment it is about.
type pageItem struct {
	object  provider.Object
	payment uuid.UUID // nil id: none
}

// comparePage works in the order of payments, so that two transactions that hold
// several never wait for each other in a circle.
func (s *Store) comparePage(ctx context.Context, tx pgx.Tx, r Run, objects []provider.Object, counts map[string]int) error {
	var items []pageItem
	for _, o := range objects {
		switch {
		case ident(o.ID) == "":
			continue
		case isChild(o):
			id, _, err := childOfPayment(ctx, tx, r.Provider, o)
			if err != nil {
				return err
			}
			items = append(items, pageItem{object: o, payment: id})
			continue
		}
		id, _, err := matchPayment(ctx, tx, r.Provider, o)
		if err != nil {
			return err
		}
		items = append(items, pageItem{object: o, payment: id})
	}
	slices.SortStableFunc(items, func(a, b pageItem) int { return strings.Compare(a.payment.String(), b.payment.String()) })
	for _, it := range items {
		var finding, detail string
		var err error
		if isChild(it.object) {
			if err := s.listedChild(ctx, tx, r, it.object, counts); err != nil {
				return err
			}
			continue
		}
		if it.payment == uuid.Nil {
			finding, detail = findTheirsOnly, "at the provider, not here"
			err = s.observeStranger(ctx, tx, r.Provider, it.object)
		} else {
			finding, detail, err = s.compareObject(ctx, tx, it)
		}
		if err != nil {
			return err
		}
		if err := s.addItem(ctx, tx, r.ID, finding, it.payment, it.object.ID, detail, counts); err != nil {
			return err
		}
	}
	return nil
}

// observeStranger keeps an object nobody here asked for.
func (s *Store) observeStranger(ctx context.Context, tx pgx.Tx, providerName string, o provider.Object) error {
	for _, n := range storable(s.seen("sync", s.Now(), o)) {
		stored, err := s.lockObject(ctx, tx, providerName, n, nil)
		if err != nil {
			return err
		}
		merged, _ := stored.merge(n, provider.Money{})
		if err := s.saveObject(ctx, tx, merged); err != nil {
			return err
		}
	}
	return nil
}

// compareObject names the difference as it was found, then lets the object have its
// say, which heals a status that lagged.
func (s *Store) compareObject(ctx context.Context, tx pgx.Tx, it pageItem) (finding, detail string, err error) {
	p, err := lockPayment(ctx, tx, it.payment)
	if err != nil {
		return "", "", err
	}
	o := it.object
	after, err := s.settle(ctx, tx, p, s.listed(o))
	if err != nil {
		return "", "", err
	}
	if err := s.alertUnlisted(ctx, tx, after, o); err != nil {
		return "", "", err
	}
	if err := s.keepAsking(ctx, tx, p, after, "sync"); err != nil {
		return "", "", err
	}
	finding, detail = compare(p, after, o)
	return finding, detail, nil
}

// listed is the finding that a provider's list has an object.
func (s *Store) listed(o provider.Object) finding {
	return finding{on: BySync, observations: s.seen("sync", s.Now(), o), change: change{
		on: BySync, kind: "sync", source: "sync", by: System("sync"), quiet: true,
		detail: map[string]any{"object": brief(o)},
	}}
}

// expected is the money an object of a payment should be about: while it is open what
// was asked for, and once it took money what its capture asked for.
func expected(p Payment, o provider.Object) provider.Money {
	if o.Outcome == provider.Succeeded {
		return p.Took()
	}
	return p.Money()
}

// compare names what a listed object and our payment, as it was before, disagree about.
func compare(before, after Payment, o provider.Object) (finding, detail string) {
	switch {
	case o.Money != expected(before, o) && o.Outcome != provider.Failed:
		return findAmountDiffers, fmt.Sprintf("asked %d %s, theirs %d %s", before.Amount, before.Currency, o.Money.Amount, clean(o.Money.Currency))
	case after.Status == Succeeded && o.Outcome == provider.Succeeded && ident(o.ID) != after.ProviderPaymentID:
		return findDuplicate, "the payment rests on " + after.ProviderPaymentID
	case o.Outcome == provider.Failed && ident(o.ID) != after.ProviderPaymentID:
		return findMatched, "a failed try of a payment that went on" // of another object: no difference
	case Status(o.Outcome) != before.Status:
		return findStatusDiffers, fmt.Sprintf("ours was %s, theirs %s", before.Status, clean(o.Status))
	}
	return findMatched, ""
}

// addItem stores a finding once per run, payment and object, and counts it.
func (s *Store) addItem(ctx context.Context, tx pgx.Tx, run uuid.UUID, finding string, payment uuid.UUID, objectID, detail string, counts map[string]int) error {
	var ref *uuid.UUID
	if payment != uuid.Nil {
		ref = &payment
	}
	tag, err := tx.Exec(ctx, `INSERT INTO reconciliation_items (run_id, finding, payment_id, object_id, detail, at)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`, run, finding, ref, ident(objectID), clean(detail), s.Now())
	counts[finding] += int(tag.RowsAffected())
	return wrap(err, "add finding")
}

// oursOnly finds payments that were sent in the window and should be at the provider,
// which did not list them.
func (s *Store) oursOnly(ctx context.Context, tx pgx.Tx, r Run, counts map[string]int) error {
	rows, err := tx.Query(ctx, `
		SELECT p.id, p.status FROM payments p
		WHERE p.provider = $2 AND p.status IN ('succeeded', 'processing', 'requires_action', 'unknown')
		AND EXISTS (SELECT 1 FROM attempts a WHERE a.payment_id = p.id AND a.operation = 'charge' AND a.marked_at >= $3 AND a.marked_at < $4
			AND a.outcome NOT IN ('not_sent', 'not_executed'))
		AND NOT EXISTS (SELECT 1 FROM reconciliation_items i WHERE i.run_id = $1 AND i.payment_id = p.id)
		AND NOT EXISTS (SELECT 1 FROM provider_objects o WHERE o.payment_id = p.id AND (o.made_at < $3 OR o.made_at >= $4))
		ORDER BY p.id`, r.ID, r.Provider, r.From, r.To)
	if err != nil {
		return wrap(err, "read payments they do not have")
	}
	type missing struct {
		ID     uuid.UUID
		Status Status
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[missing])
	if err != nil {
		return wrap(err, "read payments they do not have")
	}
	paid := 0
	for _, m := range list {
		if m.Status == Succeeded {
			paid++
		}
		if err := s.addItem(ctx, tx, r.ID, findOursOnly, m.ID, "", "ours is "+string(m.Status), counts); err != nil {
			return err
		}
	}
	if paid == 0 {
		return nil
	}
	_, err = s.RaiseAlert(ctx, tx, Alert{
		Kind: "ours_only", Severity: "critical", Provider: r.Provider,
		Title:     fmt.Sprintf("%d succeeded payments are not in the list of %s", paid, r.Provider),
		Detail:    "See reconciliation run " + r.ID.String() + ".",
		DedupeKey: "ours_only:" + r.ID.String(),
	})
	return err
}

// closePage stores cursor and counts; the last page completes the run.
func (s *Store) closePage(ctx context.Context, tx pgx.Tx, r Run, cursor string, last bool, n map[string]int) (Run, error) {
	state := runRunning
	if last {
		state = runComplete
		_, err := tx.Exec(ctx, `INSERT INTO provider_state AS p (provider, sync_watermark) VALUES ($1, $2)
			ON CONFLICT (provider) DO UPDATE SET sync_watermark = greatest(p.sync_watermark, $2)`, r.Provider, r.To)
		if err != nil {
			return Run{}, wrap(err, "move watermark")
		}
	}
	r, err := readRun(tx.QueryRow(ctx, `
		UPDATE reconciliation_runs SET cursor = $2, state = $3, pages = pages + 1, exceptions = 0, paused_until = NULL,
			matched = matched + $4, ours_only = ours_only + $5, theirs_only = theirs_only + $6,
			amount_differs = amount_differs + $7, status_differs = status_differs + $8, duplicate = duplicate + $9,
			finished_at = CASE WHEN $3 = 'complete' THEN $10::timestamptz END
		WHERE id = $1 RETURNING `+runColumns, r.ID, cursor, state, n[findMatched], n[findOursOnly], n[findTheirsOnly],
		n[findAmountDiffers], n[findStatusDiffers], n[findDuplicate], s.Now()))
	return r, wrap(err, "close page")
}
