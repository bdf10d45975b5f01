package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// operationCharge names a payment's charge among its attempts; what is done to it later
// is named by kind and sequence, see Operation.AttemptName.
const operationCharge = "charge"

// operationKey is the idempotency key sent to the provider: born with the payment and
// the operation, the same for every attempt, and never the client's own key.
func operationKey(paymentID uuid.UUID, operation string) string {
	return operation + "-" + paymentID.String()
}

// keyMargin is how long before the provider forgets a key it counts as forgotten.
func keyMargin(life time.Duration) time.Duration { return min(life/20, 5*time.Minute) }

// BeginParams of BeginAttempt.
type BeginParams struct {
	PaymentID uuid.UUID
	Body      []byte        // frozen request bytes, used if this is the operation's first attempt; else must hash the same (nil: the stored ones)
	KeyLife   time.Duration // provider's; 0: it keeps no keys
	Deadline  time.Duration // from now; after it an attempt without outcome belongs to nobody
	Worker    string
	Recharge  bool // allowed from unknown, after counted absences, while the key lives
	Replay    bool // allowed from unknown, without any absence, see Store.Replay
	Seen      Seen // the payment as the caller read it; zero: it did not
	AskAfter  bool // past the key's life there is still something to ask
}

// BeginAttempt marks "maybe sent" durably, before the first byte leaves. It returns the
// attempt with the operation key and the frozen bytes to send. Errors: ErrSettled,
// ErrInFlight, ErrMaybeSent, ErrKeyExpired, ErrBytesChanged, ErrPaused, ErrNotFound.
// With ErrMaybeSent and ErrKeyExpired what they found out is committed.
func (s *Store) BeginAttempt(ctx context.Context, p BeginParams) (Attempt, Payment, error) {
	if b, did := s.begins.do(ctx, p); did {
		return b.attempt, b.payment, nil
	}
	var a Attempt
	var pay Payment
	var refusal error
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		a, refusal = Attempt{}, nil
		var err error
		if pay, err = lockPayment(ctx, tx, p.PaymentID); err != nil {
			return err
		}
		prior, err := priorAttempts(ctx, tx, p.PaymentID)
		if err != nil {
			return err
		}
		if pay, refusal, err = s.mayBegin(ctx, tx, pay, prior, p); err != nil || refusal != nil {
			return err
		}
		a, pay, err = s.mark(ctx, tx, pay, prior, p)
		return err
	})
	if err != nil {
		return Attempt{}, Payment{}, err
	}
	return a, pay, refusal
}

// prior is what earlier attempts of the operation established.
type prior struct {
	seq         int
	sends       int      // attempts that may have reached the provider
	open        *Attempt // without outcome: in flight, or abandoned
	request     []byte   // frozen bytes; nil before the first attempt
	hash        []byte
	firstSent   time.Time // of the attempts that may have reached the provider
	replayUntil time.Time
	lastMark    time.Time
	rejected    bool // a replay was, which tells nothing of the first send
}

// maybeExecuted reports whether an attempt with this outcome may live on at the
// provider under its key.
func maybeExecuted(outcome string) bool {
	return outcome != string(provider.NotSent) && outcome != string(provider.NotExecuted)
}

// priorAttempts are those of the payment's charge.
func priorAttempts(ctx context.Context, tx pgx.Tx, paymentID uuid.UUID) (prior, error) {
	return attemptsBefore(ctx, tx, paymentID, operationCharge)
}

func attemptsBefore(ctx context.Context, tx pgx.Tx, paymentID uuid.UUID, operation string) (prior, error) {
	rows, err := tx.Query(ctx, `
		SELECT id, seq, coalesce(outcome, ''), error_class, request, request_hash, marked_at, first_sent_at, replay_until, deadline
		FROM attempts WHERE payment_id = $1 AND operation = $2 ORDER BY seq FOR UPDATE`, paymentID, operation)
	if err != nil {
		return prior{}, wrap(err, "read attempts")
	}
	var out prior
	var a Attempt
	var hash []byte
	_, err = pgx.ForEachRow(rows, []any{&a.ID, &a.Seq, &a.Outcome, &a.ErrorClass, &a.Request, &hash, &a.MarkedAt, &a.FirstSentAt, &a.ReplayUntil, &a.Deadline}, func() error {
		out.seq, out.lastMark = a.Seq, a.MarkedAt
		out.rejected = out.rejected || a.ErrorClass == provider.ReasonReplayRejected
		if out.request == nil {
			out.request, out.hash = bytes.Clone(a.Request), bytes.Clone(hash)
		}
		if a.Outcome == "" {
			open := a
			open.PaymentID = paymentID
			out.open = &open
		}
		if !maybeExecuted(a.Outcome) {
			return nil
		}
		if out.sends++; out.firstSent.IsZero() {
			out.firstSent, out.replayUntil = a.FirstSentAt, a.ReplayUntil
		}
		return nil
	})
	return out, wrap(err, "read attempts")
}

// mayBegin decides whether anything may be sent. refusal is one of BeginAttempt's
// errors; the payment is as the refusal left it.
func (s *Store) mayBegin(ctx context.Context, tx pgx.Tx, pay Payment, pr prior, p BeginParams) (after Payment, refusal, err error) {
	if pr.open != nil {
		if s.Now().Before(pr.open.Deadline) {
			return pay, ErrInFlight, nil
		}
		pay, err = s.abandon(ctx, tx, pay, pr.open.ID, System("charge"), "job")
		return pay, ErrMaybeSent, err
	}
	switch {
	case pay.Status == Unknown && (p.Recharge || p.Replay):
		if !p.Replay && pay.AbsentLookups < absencesNeeded || pr.request == nil {
			return pay, ErrSettled, nil
		}
		if !s.keyAlive(pr, p.KeyLife) {
			pay, err = s.endReplays(ctx, tx, pay, ReviewKeyExpired, p.Replay && !p.AskAfter)
			return pay, ErrKeyExpired, err
		}
	case pay.Status != Pending:
		return pay, ErrSettled, nil
	}
	paused, err := chargesPaused(ctx, tx, pay.Provider)
	if err != nil {
		return pay, nil, err
	}
	if paused {
		return pay, ErrPaused, nil
	}
	if !sameBytes(pr, p.Body) {
		return pay, ErrBytesChanged, nil
	}
	return pay, nil, nil
}

// keyAlive reports whether the provider still knows the operation's key for sure.
func (s *Store) keyAlive(pr prior, life time.Duration) bool {
	if pr.firstSent.IsZero() {
		return life > 0 // it never reached the provider, so its life has not begun
	}
	return life > 0 && s.Now().Before(pr.replayUntil.Add(-keyMargin(life)))
}

// sameBytes refuses other bytes for the same key, and stored bytes that are not what
// was hashed.
func sameBytes(pr prior, body []byte) bool {
	if pr.request == nil {
		return len(body) > 0
	}
	stored := sha256.Sum256(pr.request)
	if !bytes.Equal(stored[:], pr.hash) {
		return false
	}
	given := sha256.Sum256(body)
	return len(body) == 0 || bytes.Equal(given[:], pr.hash)
}

// mark inserts the attempt: from its commit on the payment counts as maybe sent.
func (s *Store) mark(ctx context.Context, tx pgx.Tx, pay Payment, pr prior, p BeginParams) (Attempt, Payment, error) {
	a, err := s.insertAttempt(ctx, tx, pr, chargeAttempt(pay.ID, p), p.KeyLife, p.Deadline)
	if err != nil {
		return Attempt{}, Payment{}, err
	}
	pay, _, err = s.apply(ctx, tx, pay, s.markChange(a, p))
	return a, pay, err
}

// markChange is what an attempt's mark does to its payment.
func (s *Store) markChange(a Attempt, p BeginParams) change {
	return change{
		next: next{at: a.Deadline, why: whyInFlight},
		kind: attemptKind(p.Recharge || p.Replay), source: "job", by: System("charge"), attemptID: &a.ID,
		detail: map[string]any{"seq": a.Seq, "operation_key": a.OperationKey, "worker": a.Worker, "recharge": p.Recharge},
		// A resend starts the count of absences again: only answers after it count.
		set: func(q *Payment) { q.AbsentLookups = 0 },
	}
}

// insertAttempt inserts the next attempt of an operation.
func (s *Store) insertAttempt(ctx context.Context, tx pgx.Tx, pr prior, a Attempt, keyLife, deadline time.Duration) (Attempt, error) {
	a, err := s.nextAttempt(pr, a, keyLife, deadline)
	if err != nil {
		return Attempt{}, err
	}
	var b pgx.Batch
	queueAttempts(&b, []Attempt{a})
	return a, wrap(tx.SendBatch(ctx, &b).Close(), "insert attempt")
}

// abandon closes an attempt that passed its deadline without an outcome: its bytes may
// have reached the provider, and only asking can tell.
func (s *Store) abandon(ctx context.Context, tx pgx.Tx, pay Payment, attemptID uuid.UUID, by Actor, source string) (Payment, error) {
	if err := s.closeAbandoned(ctx, tx, attemptID); err != nil {
		return Payment{}, err
	}
	to := pay.Status
	if to == Pending {
		to = Unknown
	}
	pay, _, err := s.apply(ctx, tx, pay, change{
		to: to, on: ByDeadline, reason: noOutcome, next: next{at: s.Now(), why: whyReconcile},
		kind: "attempt_finished", source: source, by: by, attemptID: &attemptID,
		detail: map[string]any{"outcome": "unknown", "error_class": noOutcome},
	})
	if err != nil || pay.Status.Final() {
		return pay, err
	}
	return pay, s.enqueuer().Reconcile(ctx, tx, pay.ID, pay.Provider, time.Time{})
}

func (s *Store) closeAbandoned(ctx context.Context, tx pgx.Tx, attemptID uuid.UUID) error {
	_, err := tx.Exec(ctx, `UPDATE attempts SET outcome = $2, error_class = $3, finished_at = $4 WHERE id = $1 AND outcome IS NULL`,
		attemptID, string(provider.Unknown), noOutcome, s.Now())
	return wrap(err, "abandon attempt")
}

// noOutcome is the error class of an attempt whose worker was never heard of again.
const noOutcome = "no_outcome"
