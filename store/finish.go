package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// FinishParams of FinishAttempt.
type FinishParams struct {
	AttemptID   uuid.UUID
	Seen        Seen // the payment as the caller read it before; zero: it did not
	Charged     provider.Charged
	RetryAt     time.Time // when the job will come back while not executed (retry, snooze); shown to people
	ReconcileAt time.Time // when to look up an unknown or processing payment
	NoStatusAPI bool      // nobody can be asked: unknown gets needs_review no_status_api instead of lookups
}

// retryUnsaid is when a payment whose retry time nobody named is looked at again.
const retryUnsaid = 5 * time.Minute

// FinishAttempt writes the attempt's outcome and moves the payment, in tx: attempt
// row, guarded status change, provider object, timeline, wallet effect, review reasons,
// alerts, reconcile job, and unmatched webhooks that now have a payment. An outcome
// that comes after the attempt was given up (its deadline passed) still counts; one
// for an attempt that has an outcome changes nothing.
func (s *Store) FinishAttempt(ctx context.Context, tx pgx.Tx, p FinishParams) (Payment, error) {
	pay, open, err := s.lockAttempt(ctx, tx, p.AttemptID)
	if err != nil || !open {
		return pay, err
	}
	if err := s.closeAttempt(ctx, tx, p); err != nil {
		return Payment{}, err
	}
	pay, err = s.outcome(ctx, tx, pay, p)
	if err != nil {
		return Payment{}, err
	}
	if err := s.alertAnswer(ctx, tx, pay, p); err != nil {
		return Payment{}, err
	}
	return s.followUp(ctx, tx, pay, p)
}

// lockAttempt locks payment, then attempt. open: the attempt still waits for its
// outcome, or was given up without one.
func (s *Store) lockAttempt(ctx context.Context, tx pgx.Tx, id uuid.UUID) (pay Payment, open bool, err error) {
	var paymentID uuid.UUID
	err = tx.QueryRow(ctx, `SELECT payment_id FROM attempts WHERE id = $1 AND operation = $2`, id, operationCharge).Scan(&paymentID)
	if errors.Is(err, pgx.ErrNoRows) {
		return Payment{}, false, fmt.Errorf("%w: attempt %s", ErrNotFound, id)
	}
	if err != nil {
		return Payment{}, false, wrap(err, "read attempt")
	}
	if pay, err = lockPayment(ctx, tx, paymentID); err != nil {
		return Payment{}, false, err
	}
	open, err = lockOpenAttempt(ctx, tx, id)
	return pay, open, err
}

func lockOpenAttempt(ctx context.Context, tx pgx.Tx, id uuid.UUID) (open bool, err error) {
	err = tx.QueryRow(ctx, `SELECT outcome IS NULL OR error_class = $2 FROM attempts WHERE id = $1 FOR UPDATE`, id, noOutcome).Scan(&open)
	return open, wrap(err, "lock attempt")
}

// closeAttempt keeps the facts of the exchange: what a complaint months later needs.
func (s *Store) closeAttempt(ctx context.Context, tx pgx.Tx, p FinishParams) error {
	var b pgx.Batch
	s.queueCloses(&b, []FinishParams{p})
	return wrap(tx.SendBatch(ctx, &b).Close(), "close attempt")
}

func (s *Store) queueCloses(b *pgx.Batch, list []FinishParams) {
	var a struct {
		id                                                         []uuid.UUID
		sends, status                                              []int
		contentType, server, request, url, outcome, class, verdict []string
		body                                                       [][]byte
		sent, answered                                             []*time.Time
	}
	for _, p := range list {
		c, x := p.Charged, p.Charged.Exchange
		class := ""
		if c.Outcome != provider.Succeeded && c.Outcome != provider.Processing && c.Outcome != provider.RequiresAction {
			class = clean(c.Reason)
		}
		a.id, a.sends, a.status = append(a.id, p.AttemptID), append(a.sends, x.WireSends), append(a.status, x.Status)
		a.contentType, a.server = append(a.contentType, clean(x.ContentType)), append(a.server, clean(x.Server))
		a.request, a.url, a.body = append(a.request, clean(x.RequestID)), append(a.url, clean(x.URL)), append(a.body, x.Body)
		a.outcome, a.class, a.verdict = append(a.outcome, string(c.Outcome)), append(a.class, class), append(a.verdict, string(c.Health))
		a.sent, a.answered = append(a.sent, orNull(x.FirstSentAt.UTC())), append(a.answered, orNull(x.FirstByteAt.UTC()))
	}
	queueExactly(b, len(list), `
		UPDATE attempts SET wire_sends = v.sends, http_status = v.status, content_type = v.content_type, server = v.server,
			provider_request_id = v.request, final_url = v.url, response_body = v.body, outcome = v.outcome, error_class = v.class,
			breaker_verdict = v.verdict, first_byte_sent_at = v.sent, first_byte_at = v.answered, finished_at = $14
		FROM unnest($1::uuid[], $2::int[], $3::int[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[], $9::text[],
			$10::text[], $11::text[], $12::timestamptz[], $13::timestamptz[])
			AS v (id, sends, status, content_type, server, request, url, body, outcome, class, verdict, sent, answered)
		WHERE attempts.id = v.id`,
		a.id, a.sends, a.status, a.contentType, a.server, a.request, a.url, a.body, a.outcome, a.class, a.verdict, a.sent, a.answered,
		s.Now())
}

// outcome moves the payment as the answer says.
func (s *Store) outcome(ctx context.Context, tx pgx.Tx, pay Payment, p FinishParams) (Payment, error) {
	c := s.answerChange(pay, p)
	switch o := p.Charged; o.Outcome {
	case provider.NotSent, provider.NotExecuted:
		return s.notExecuted(ctx, tx, pay, p, c)
	case provider.Processing, provider.RequiresAction, provider.Succeeded, provider.Failed:
		if o.Object != nil && ident(o.Object.ID) != "" {
			return s.settle(ctx, tx, pay, finding{on: ByAnswer, observations: s.seen("answer", s.Now(), *o.Object),
				reason: o.Reason, message: o.Message, change: c})
		}
		return s.bareAnswer(ctx, tx, pay, p, c)
	}
	return s.unknown(ctx, tx, pay, p, c)
}

// answerChange is what every answer has in common.
func (s *Store) answerChange(pay Payment, p FinishParams) change {
	o := p.Charged
	c := change{
		on: ByAnswer, kind: "attempt_finished", source: "job", by: System("charge"), attemptID: &p.AttemptID,
		detail: map[string]any{
			"outcome": string(o.Outcome), "reason": o.Reason, "http_status": o.Exchange.Status,
			"wire_sends": o.Exchange.WireSends, "breaker": string(o.Health), "next": string(o.Next),
		},
	}
	if o.Review != "" {
		c.add = []string{o.Review}
	}
	if !p.NoStatusAPI || o.Outcome != provider.Unknown {
		c.next = next{at: p.ReconcileAt, why: whyReconcile}
	}
	return c
}

// notExecuted keeps a pending payment pending. An unknown one (an earlier attempt may
// have arrived) stays unknown: nothing ever returns to pending.
func (s *Store) notExecuted(ctx context.Context, tx pgx.Tx, pay Payment, p FinishParams, c change) (Payment, error) {
	pay, _, err := s.apply(ctx, tx, pay, s.notExecutedChange(p, c))
	return pay, err
}

// notExecutedChange says when and why the job comes back.
func (s *Store) notExecutedChange(p FinishParams, c change) change {
	c.reason = p.Charged.Reason
	c.next = next{at: p.RetryAt, why: whyRetry}
	if c.next.at.IsZero() {
		c.next.at = s.Now().Add(retryUnsaid)
	}
	switch p.Charged.Next {
	case provider.NextSnooze:
		c.next.why = whyThrottled
	case provider.NextPause:
		c.next.why = whyPaused
	}
	return c
}

// bareAnswer is a decided answer without an object: a rejection, or a 202 without an
// id. It decides only while no object says otherwise, and a success without an object
// is no success.
func (s *Store) bareAnswer(ctx context.Context, tx pgx.Tx, pay Payment, p FinishParams, c change) (Payment, error) {
	objects, err := objectsOfPayment(ctx, tx, pay)
	if err != nil {
		return Payment{}, err
	}
	j := judge(objects, pay.ProviderPaymentID)
	o := p.Charged
	switch {
	case o.Outcome == provider.Succeeded:
		c.add = append(c.add, ReviewUnmapped)
		return s.unknown(ctx, tx, pay, p, c)
	case o.Outcome == provider.Failed && j.to != "" && j.to != Failed:
		c.add = append(c.add, ReviewContradiction)
		c.detail = with(c.detail, "objects_say", j.to)
	case pay.Status.Final() && pay.Status != Status(o.Outcome):
		c.detail = with(c.detail, "note", "already "+string(pay.Status))
	default:
		c.to, c.reason, c.message = Status(o.Outcome), o.Reason, o.Message
	}
	pay, _, err = s.apply(ctx, tx, pay, c)
	return pay, err
}

// unknown is an answer that decides nothing. It makes a pending payment unknown;
// whatever better evidence (an event that was faster) established stays. An object
// that took other money is evidence; any other is a hint for the lookup at most, whose
// answer about money that is only held may well be ours.
func (s *Store) unknown(ctx context.Context, tx pgx.Tx, pay Payment, p FinishParams, c change) (Payment, error) {
	o := p.Charged
	c.reason = o.Reason
	if pay.Status == Pending {
		c.to, c.message = Unknown, o.Message
	}
	if p.NoStatusAPI && !pay.Status.Final() {
		c.add = append(c.add, ReviewNoStatusAPI)
	}
	c.add = undecided(c.add, pay.Status, o)
	if o.Object == nil || ident(o.Object.ID) == "" {
		pay, _, err := s.apply(ctx, tx, pay, c)
		return pay, err
	}
	if slices.Contains(c.add, ReviewAmountMismatch) && o.Object.Outcome == provider.Succeeded {
		return s.settle(ctx, tx, pay, finding{on: ByAnswer, observations: s.seen("answer", s.Now(), *o.Object),
			reason: o.Reason, message: o.Message, change: c})
	}
	if pay.ProviderPaymentID == "" {
		id, err := freeObjectID(ctx, tx, pay, ident(o.Object.ID))
		if err != nil {
			return Payment{}, err
		}
		c.objectID = id
	}
	pay, _, err := s.apply(ctx, tx, pay, c)
	return pay, err
}

// seen turns objects into observations made at at.
func (s *Store) seen(source string, at time.Time, objects ...provider.Object) []observation {
	out := make([]observation, len(objects))
	for i, o := range objects {
		out[i] = observation{Object: o, at: at, source: source}
	}
	return out
}

// followUp enqueues the lookup a payment that is not final needs.
func (s *Store) followUp(ctx context.Context, tx pgx.Tx, pay Payment, p FinishParams) (Payment, error) {
	if pay.Status.Final() || pay.Status == Pending || (p.NoStatusAPI && pay.Status == Unknown) {
		return pay, nil
	}
	return pay, s.enqueuer().Reconcile(ctx, tx, pay.ID, pay.Provider, p.ReconcileAt)
}

// RejectBeforeSend moves a pending payment to failed because the adapter's Freeze
// refused it (nothing was sent). A payment that is not pending any more stays as it is.
func (s *Store) RejectBeforeSend(ctx context.Context, tx pgx.Tx, id uuid.UUID, field, reason string) (Payment, error) {
	pay, err := lockPayment(ctx, tx, id)
	if err != nil {
		return Payment{}, err
	}
	pr, err := priorAttempts(ctx, tx, id)
	if err != nil {
		return Payment{}, err
	}
	if pay.Status != Pending || pr.open != nil {
		return pay, nil
	}
	pay, _, err = s.apply(ctx, tx, pay, change{
		to: Failed, on: ByRefusal, reason: "refused_before_send", message: field + ": " + reason,
		kind: "refused", source: "job", by: System("charge"),
		detail: map[string]any{"field": field, "reason": reason},
	})
	return pay, err
}

// alertAnswer raises what the answer asks for. Refused credentials pause the
// provider's charges, which has an alert of its own.
func (s *Store) alertAnswer(ctx context.Context, tx pgx.Tx, pay Payment, p FinishParams) error {
	if p.Charged.Next == provider.NextPause {
		return s.PauseCharges(ctx, tx, pay.Provider, clean(p.Charged.Reason))
	}
	fact := clean(p.Charged.Reason)
	if p.Charged.Alert == provider.AlertResent {
		fact = p.AttemptID.String() // each one is an incident
	}
	return s.alertCall(ctx, tx, pay, p.Charged.Alert, fact)
}

// alertCall raises the alert a classification asked for, once per fact: a broken
// contract or a redirect is one fact per provider and day, however many payments meet it.
func (s *Store) alertCall(ctx context.Context, tx pgx.Tx, pay Payment, kind, fact string) error {
	titles := map[string]string{
		provider.AlertConfig:    "The provider refuses our credentials",
		provider.AlertContract:  "The provider answers something we do not know",
		provider.AlertRedirects: "The provider's endpoint redirects",
		provider.AlertResent:    "A money call was sent more than once",
	}
	if kind == "" {
		return nil
	}
	title, ok := titles[kind]
	if !ok {
		title = kind
	}
	severity := "warning"
	if kind == provider.AlertConfig || kind == provider.AlertResent {
		severity = "critical"
	}
	_, err := s.RaiseAlert(ctx, tx, Alert{
		Kind: kind, Severity: severity, Provider: pay.Provider, PaymentID: &pay.ID, Title: title + ": " + pay.Provider,
		Detail:    fmt.Sprintf("First seen on payment %s: %s", pay.ID, fact),
		DedupeKey: fmt.Sprintf("%s:%s:%s:%s", kind, pay.Provider, fact, s.Now().Format(time.DateOnly)),
	})
	return err
}

// alertUnlisted tells people about a status word that is not on the adapter's list.
func (s *Store) alertUnlisted(ctx context.Context, tx pgx.Tx, pay Payment, o provider.Object) error {
	if o.Outcome != "" {
		return nil
	}
	return s.alertCall(ctx, tx, pay, provider.AlertContract, "status "+clean(o.Status))
}
