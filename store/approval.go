package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ProposalFor is how long a proposal waits for a second person.
const ProposalFor = 24 * time.Hour

// ErrSecondPerson: the decision needs somebody other than who proposed it.
var ErrSecondPerson = errors.New("store: a second person has to decide")

// Proposal is a decision on a payment that waits for a second person.
type Proposal struct {
	ID        uuid.UUID
	PaymentID uuid.UUID
	Version   int64 // of the payment, as the proposer saw it
	To        Status
	Reason    string
	Evidence  string
	By        uuid.UUID
	Name      string // of who proposed it, for people
	At        time.Time
	ExpiresAt time.Time
}

// Stands reports whether it can still be approved: it has not expired, and the payment is
// the one it is about.
func (p Proposal) Stands(pay Payment, now time.Time) bool {
	return p.ID != uuid.Nil && p.ExpiresAt.After(now) && p.Version == pay.Version
}

// Propose asks for a second person's word instead of deciding, once per action id. It
// takes the place of a proposal that no longer stands. Errors: as Resolve, and
// ErrSecondPerson while another one stands.
func (s *Store) Propose(ctx context.Context, r ResolveParams) (Proposal, error) {
	var out Proposal
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		p, first, err := s.act(ctx, tx, r.ActionID, r.PaymentID, r.Version, "payment.propose", r.By)
		if err != nil {
			return err
		}
		open, err := openProposal(ctx, tx, p.ID)
		if out = open; err != nil || !first {
			return err
		}
		me, err := person(r.By)
		if err != nil {
			return err
		}
		if p.Status != Unknown || !r.To.Final() || strings.TrimSpace(r.Reason) == "" {
			return ErrNotAllowed
		}
		if err := s.heldByOther(ctx, tx, p.ID, r.By); err != nil {
			return err
		}
		now := s.Now()
		if open.Stands(p, now) {
			return ErrSecondPerson
		}
		if err := closeProposal(ctx, tx, open.ID, "replaced"); err != nil {
			return err
		}
		out = Proposal{ID: r.ActionID, PaymentID: p.ID, Version: p.Version, To: r.To, Reason: clean(r.Reason), Evidence: clean(r.Evidence),
			By: me, Name: clean(r.By.Name), At: now, ExpiresAt: now.Add(ProposalFor)}
		_, err = tx.Exec(ctx, `INSERT INTO approvals (id, payment_id, version, to_status, reason, evidence, by_user, by_name, at, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`, out.ID, out.PaymentID, out.Version, out.To, out.Reason, out.Evidence,
			out.By, out.Name, out.At, out.ExpiresAt)
		if err != nil {
			return wrap(err, "propose")
		}
		// The work is the second person's now.
		if err := endLease(ctx, tx, p.ID); err != nil {
			return err
		}
		if err := s.Audit(ctx, tx, r.By, "payment.propose", subject(p.ID), out.Reason, state(p), out.audit()); err != nil {
			return err
		}
		return Notify(ctx, tx, TopicPayments)
	})
	if err != nil {
		return Proposal{}, fmt.Errorf("propose on payment %s: %w", r.PaymentID, err)
	}
	return out, nil
}

// Approve carries a proposal out as its proposer's decision, seconded by another person,
// once however many try. Errors: ErrNotFound (it is not open), ErrSecondPerson (one's
// own), *ConflictError (the payment changed), ErrNotAllowed (expired), *HeldError.
func (s *Store) Approve(ctx context.Context, actionID, proposalID uuid.UUID, by Actor) (Payment, error) {
	var out Payment
	err := s.decideProposal(ctx, actionID, proposalID, "payment.approve", by, func(ctx context.Context, tx pgx.Tx, p Payment, prop Proposal) error {
		switch {
		case prop.By.String() == by.ID:
			return ErrSecondPerson
		case p.Version != prop.Version:
			return s.conflict(ctx, tx, p)
		case !prop.ExpiresAt.After(s.Now()):
			return ErrNotAllowed
		}
		if err := s.heldByOther(ctx, tx, p.ID, by); err != nil {
			return err
		}
		if err := closeProposal(ctx, tx, prop.ID, "approved"); err != nil {
			return err
		}
		var err error
		out, err = s.resolve(ctx, tx, p, ResolveParams{ActionID: actionID, PaymentID: p.ID, Version: p.Version, To: prop.To,
			Reason: prop.Reason, Evidence: prop.Evidence, By: by}, map[string]any{"proposed_by": prop.Name})
		return err
	})
	return out, err
}

// Decline ends a proposal without an effect; its proposer withdraws it so.
func (s *Store) Decline(ctx context.Context, actionID, proposalID uuid.UUID, by Actor) error {
	return s.decideProposal(ctx, actionID, proposalID, "payment.decline", by, func(ctx context.Context, tx pgx.Tx, p Payment, prop Proposal) error {
		closed, action := "declined", "payment.decline"
		if prop.By.String() == by.ID {
			closed, action = "withdrawn", "payment.withdraw"
		}
		if err := closeProposal(ctx, tx, prop.ID, closed); err != nil {
			return err
		}
		if err := s.Audit(ctx, tx, by, action, subject(p.ID), "", prop.audit(), nil); err != nil {
			return err
		}
		return Notify(ctx, tx, TopicPayments)
	})
}

// decideProposal locks the payment, claims the action once, and hands over the open
// proposal. A repeat does nothing.
func (s *Store) decideProposal(ctx context.Context, actionID, proposalID uuid.UUID, action string, by Actor,
	fn func(context.Context, pgx.Tx, Payment, Proposal) error) error {
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var of uuid.UUID
		if err := tx.QueryRow(ctx, `SELECT payment_id FROM approvals WHERE id = $1`, proposalID).Scan(&of); err != nil {
			return notFound(err)
		}
		p, err := lockPayment(ctx, tx, of)
		if err != nil {
			return err
		}
		first, err := s.claimBeside(ctx, tx, actionID, of, action, by)
		if err != nil || !first {
			return err
		}
		if _, err := person(by); err != nil {
			return err
		}
		open, err := openProposal(ctx, tx, of)
		if err != nil {
			return err
		}
		if open.ID != proposalID {
			return ErrNotFound
		}
		return fn(ctx, tx, p, open)
	})
	if err != nil {
		return fmt.Errorf("proposal %s: %w", proposalID, err)
	}
	return nil
}

func (p Proposal) audit() map[string]any {
	return map[string]any{"to": p.To, "evidence": p.Evidence, "by": p.Name}
}

func closeProposal(ctx context.Context, tx pgx.Tx, id uuid.UUID, how string) error {
	_, err := tx.Exec(ctx, `UPDATE approvals SET closed = $2 WHERE id = $1 AND closed = ''`, id, how)
	return wrap(err, "close proposal")
}

// ProposalOn reads the open proposal on a payment, standing or not; without one it is zero.
func (s *Store) ProposalOn(ctx context.Context, paymentID uuid.UUID) (Proposal, error) {
	return openProposal(ctx, s.pool, paymentID)
}

func openProposal(ctx context.Context, q reader, paymentID uuid.UUID) (p Proposal, err error) {
	err = q.QueryRow(ctx, `SELECT id, payment_id, version, to_status, reason, evidence, by_user, by_name, at, expires_at
		FROM approvals WHERE payment_id = $1 AND closed = ''`, paymentID).
		Scan(&p.ID, &p.PaymentID, &p.Version, &p.To, &p.Reason, &p.Evidence, &p.By, &p.Name, &p.At, &p.ExpiresAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return Proposal{}, nil
	}
	return p, wrap(err, "read proposal")
}
