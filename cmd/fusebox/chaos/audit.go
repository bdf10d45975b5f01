package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// audit checks the books against the providers' ledgers, against what clients were told,
// and against themselves.
func (w *world) audit(ctx context.Context, t *traffic, r *Report) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for _, q := range questions {
		c, err := w.check(ctx, q)
		if err != nil {
			return fmt.Errorf("chaos: %s: %w", q.name, err)
		}
		r.Invariants[q.name] = c
	}
	for _, part := range []func(context.Context, *traffic, *Report) error{w.auditLedgers, w.auditAnswers} {
		if err := part(ctx, t, r); err != nil {
			return err
		}
	}
	var err error
	if r.JobsDiscarded, err = w.lines(ctx, `SELECT format('%s: %s', kind, count(*)) FROM river_job WHERE state = 'discarded' GROUP BY kind ORDER BY kind`); err != nil {
		return err
	}
	r.Verify, err = w.verify(ctx)
	return err
}

// question is an invariant that the books answer by themselves.
type question struct {
	name   string
	count  string // how many rows it is about
	broken string // one text per row that breaks it
}

// changes are the timeline's changes of status, each with the one before it.
const changes = `WITH changes AS (
	SELECT *, lag(to_status, 1, '') OVER (PARTITION BY payment_id ORDER BY id) AS before, row_number() OVER (PARTITION BY payment_id ORDER BY id DESC) AS from_last
	FROM payment_events WHERE from_status <> to_status) `

var questions = []question{
	{
		name:  "no_status_regressed",
		count: `SELECT count(*) FROM payment_events WHERE from_status <> to_status`,
		broken: changes + `SELECT format('payment %s: %s to %s by %s (event %s)', payment_id, from_status, to_status, source, id) FROM changes
			WHERE from_status <> before OR (from_status, to_status) NOT IN (
				('', 'pending'),
				('pending', 'processing'), ('pending', 'requires_action'), ('pending', 'unknown'), ('pending', 'succeeded'), ('pending', 'failed'),
				('processing', 'requires_action'), ('processing', 'unknown'), ('processing', 'succeeded'), ('processing', 'failed'),
				('requires_action', 'processing'), ('requires_action', 'unknown'), ('requires_action', 'succeeded'), ('requires_action', 'failed'),
				('unknown', 'processing'), ('unknown', 'requires_action'), ('unknown', 'succeeded'), ('unknown', 'failed'),
				('failed', 'succeeded'))`,
	},
	{
		name:  "status_is_the_timelines_last",
		count: `SELECT count(*) FROM payments`,
		broken: changes + `SELECT format('payment %s is %s, its timeline ends with %s', p.id, p.status, coalesce(c.to_status, 'nothing'))
			FROM payments p LEFT JOIN changes c ON c.payment_id = p.id AND c.from_last = 1 WHERE c.to_status IS DISTINCT FROM p.status`,
	},
	{
		// What moved a status is on record: the attempt whose answer it was, an object of the
		// provider's, an event, or a person's action.
		name:  "every_change_has_its_evidence",
		count: `SELECT count(*) FROM payment_events WHERE from_status <> to_status AND from_status <> ''`,
		broken: `SELECT format('payment %s: %s to %s by %s %s (event %s) rests on nothing', e.payment_id, from_status, to_status, source, kind, e.id)
			FROM payment_events e WHERE from_status <> to_status AND from_status <> '' AND NOT CASE
				WHEN source = 'operator' THEN EXISTS (SELECT FROM audit_log a WHERE a.target = 'payment:' || e.payment_id AND a.action = 'payment.resolve' AND a.actor = e.actor)
				WHEN source = 'webhook' THEN EXISTS (SELECT FROM webhook_events h WHERE h.payment_id = e.payment_id AND h.state = 'applied')
				WHEN to_status = 'succeeded' THEN EXISTS (SELECT FROM provider_objects o WHERE o.payment_id = e.payment_id AND o.succeeded_at IS NOT NULL)
				WHEN to_status = 'failed' AND EXISTS (SELECT FROM provider_objects o WHERE o.payment_id = e.payment_id AND o.failed_at IS NOT NULL) THEN true
				WHEN attempt_id IS NOT NULL THEN EXISTS (SELECT FROM attempts a WHERE a.id = e.attempt_id AND a.outcome IS NOT NULL)
				ELSE e.evidence <> '{}' END`,
	},
	{
		name:  "audit_is_complete",
		count: `SELECT count(*) FROM payment_events WHERE from_status <> to_status AND from_status <> ''`,
		broken: `SELECT format('payment %s: %s changes of status, %s in the audit', p.id, coalesce(e.n, 0), coalesce(a.n, 0))
			FROM payments p
			LEFT JOIN (SELECT payment_id, count(*) AS n FROM payment_events WHERE from_status <> to_status AND from_status <> '' GROUP BY 1) e ON e.payment_id = p.id
			LEFT JOIN (SELECT target, count(*) AS n FROM audit_log WHERE before->>'status' <> after->>'status' GROUP BY 1) a ON a.target = 'payment:' || p.id
			WHERE coalesce(e.n, 0) <> coalesce(a.n, 0)`,
	},
	{
		name:  "operations_audit_is_complete",
		count: `SELECT count(*) FROM operations`,
		broken: `SELECT format('%s %s is %s, the audit ends with %s', o.kind, o.id, o.status, coalesce(a.status, 'nothing')) FROM operations o
			LEFT JOIN LATERAL (SELECT after->>'status' AS status FROM audit_log WHERE target = o.kind || ':' || o.id AND after ? 'status' ORDER BY id DESC LIMIT 1) a ON true
			WHERE a.status IS DISTINCT FROM o.status`,
	},
	{
		name:  "wallets_are_the_sum_of_their_entries",
		count: `SELECT count(*) FROM wallet_entries`,
		broken: `SELECT format('wallet %s has %s, its entries make %s', w.id, w.balance, coalesce(sum(e.amount), 0)) FROM wallets w
			LEFT JOIN wallet_entries e ON e.wallet_id = w.id GROUP BY w.id HAVING w.balance <> coalesce(sum(e.amount), 0)`,
	},
	{
		name:   "no_attempt_is_left_without_outcome",
		count:  `SELECT count(*) FROM attempts`,
		broken: `SELECT format('attempt %s of payment %s (%s) by %s, marked %s', id, payment_id, operation, worker, marked_at) FROM attempts WHERE outcome IS NULL`,
	},
}

func (w *world) check(ctx context.Context, q question) (c Check, err error) {
	if err = w.pool.QueryRow(ctx, q.count).Scan(&c.Checked); err != nil {
		return c, err
	}
	c.Broken, err = w.lines(ctx, q.broken)
	return c, err
}

// lines reads a query of one text column.
func (w *world) lines(ctx context.Context, query string) ([]string, error) {
	rows, err := w.pool.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if list == nil {
		list = []string{}
	}
	return list, err
}

// ours is a payment or refund as the books have it.
type ours struct {
	status, object string
	took           int64
}

func (w *world) ours(ctx context.Context, query string) (map[string]ours, error) {
	rows, err := w.pool.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	out := map[string]ours{}
	var id string
	var o ours
	_, err = pgx.ForEachRow(rows, []any{&id, &o.status, &o.object, &o.took}, func() error {
		out[id] = o
		return nil
	})
	return out, err
}

// auditLedgers reads what each provider did: one charge at most under a reference, and
// every success is ours, with the money we say.
func (w *world) auditLedgers(ctx context.Context, _ *traffic, r *Report) error {
	payments, err := w.ours(ctx, `SELECT id::text, status, coalesce(provider_payment_id, ''), coalesce(captured_amount, 0) FROM payments`)
	if err != nil {
		return err
	}
	refunds, err := w.ours(ctx, `SELECT id::text, status, coalesce(provider_object_id, ''), amount FROM operations WHERE kind = 'refund'`)
	if err != nil {
		return err
	}
	once, known := Check{Broken: []string{}}, Check{Broken: []string{}}
	for name, s := range w.sims {
		list, err := s.ledger(ctx)
		if err != nil {
			return err
		}
		charges, backs := map[string][]row{}, map[string][]row{}
		for _, a := range list {
			if a.Status == "succeeded" {
				charges[a.Reference] = append(charges[a.Reference], a.row)
			}
			for _, b := range a.Refunds {
				if b.Status == "succeeded" {
					backs[b.Reference] = append(backs[b.Reference], b)
				}
			}
		}
		compare(name, "charge", charges, payments, &once, &known)
		compare(name, "refund", backs, refunds, &once, &known)
	}
	r.Invariants["at_most_one_success_per_reference"] = once
	r.Invariants["every_success_at_a_provider_is_ours"] = known
	return nil
}

// compare checks one provider's successes against our rows.
func compare(name, what string, theirs map[string][]row, rows map[string]ours, once, known *Check) {
	for ref, list := range theirs {
		once.Checked++
		known.Checked++
		if len(list) > 1 {
			once.Broken = append(once.Broken, fmt.Sprintf("%s %s: %d times at %s", what, ref, len(list), name))
		}
		o, ok := rows[ref]
		amount := list[0].Amount
		if list[0].Manual {
			amount = list[0].Captured
		}
		switch {
		case !ok:
			known.Broken = append(known.Broken, fmt.Sprintf("%s %s at %s is nobody's here", what, list[0].ID, name))
		case o.status != "succeeded":
			known.Broken = append(known.Broken, fmt.Sprintf("%s %s: %s made it, here it is %s", what, ref, name, o.status))
		case o.object != list[0].ID || o.took != amount:
			known.Broken = append(known.Broken, fmt.Sprintf("%s %s: %s of %d at %s, %s of %d here", what, ref, list[0].ID, amount, name, o.object, o.took))
		}
	}
}

// auditAnswers checks that what a client was told is true.
func (w *world) auditAnswers(ctx context.Context, t *traffic, r *Report) error {
	payments, err := w.ours(ctx, `SELECT id::text, status, provider, amount FROM payments`)
	if err != nil {
		return err
	}
	entries, err := w.ours(ctx, `SELECT operation_id, wallet_id::text, '', amount FROM wallet_entries`)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := Check{Checked: len(t.acked) + len(t.moved), Broken: []string{}}
	for id, p := range t.acked {
		if o, ok := payments[id]; !ok || o.took != p.amount || o.object != p.provider {
			c.Broken = append(c.Broken, fmt.Sprintf("payment %s of %d was accepted and is not there", id, p.amount))
		}
	}
	for id, m := range t.moved {
		if o, ok := entries[id]; !ok || o.took != m.amount || o.status != m.wallet {
			c.Broken = append(c.Broken, fmt.Sprintf("movement %s of %d was made and is not there", id, m.amount))
		}
	}
	r.Invariants["what_clients_were_told_is_true"] = c
	return nil
}
