package storetest

import (
	"context"
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"fusebox/store"
)

// Epoch is when seeded rows happened unless they say otherwise.
var Epoch = time.Date(2026, 3, 2, 14, 2, 11, 0, time.UTC)

// Exec runs one statement or fails the test.
func (db *DB) Exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := db.Pool.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("storetest: %v\n%s", err, sql)
	}
}

// SeedPayment writes a payment as it stands, past the state machine, so that a screen
// can be tested in any state. By default it is 49.00 EUR, unknown, at "atlas".
func (db *DB) SeedPayment(t testing.TB, change func(*store.Payment)) store.Payment {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	p := store.Payment{
		ID: id, ClientID: "test", IdempotencyKey: id.String(), OrderRef: "ORD-" + id.String()[24:], Provider: "atlas",
		Amount: 4900, Currency: "EUR", CustomerName: "Ada Palmer", CustomerEmail: "ada@example.org",
		Status: store.Unknown, Version: 1, CreatedAt: Epoch, UpdatedAt: Epoch,
	}
	if change != nil {
		change(&p)
	}
	if p.NeedsReview == nil {
		p.NeedsReview = []string{}
	}
	if p.Metadata == nil {
		p.Metadata = map[string]string{}
	}
	hash := sha256.Sum256([]byte(p.IdempotencyKey))
	db.Exec(t, `INSERT INTO payments (id, client_id, idempotency_key, request_hash, order_ref, provider, amount, currency,
		description, customer_name, customer_email, metadata, wallet_id, status, status_reason, status_evidence, needs_review,
		provider_payment_id, provider_message, next_check_at, next_check_why, lookups, absent_lookups, unknown_since,
		unknown_seen, version, created_at, updated_at, settled_at)
		VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,nullif($18,''),$19,$20,$21,$22,$23,$24,$25,$26,$27,$28,$29)`,
		p.ID, p.ClientID, p.IdempotencyKey, hash[:], p.OrderRef, p.Provider, p.Amount, p.Currency,
		p.Description, p.CustomerName, p.CustomerEmail, p.Metadata, p.WalletID, p.Status, p.StatusReason, p.StatusEvidence,
		p.NeedsReview, p.ProviderPaymentID, p.ProviderMessage, p.NextCheckAt, p.NextCheckWhy, p.Lookups, p.AbsentLookups,
		p.UnknownSince, p.UnknownSeen, p.Version, p.CreatedAt, p.UpdatedAt, p.SettledAt)
	return p
}

// SeedAttempt writes an attempt of p: sent once at p's creation and timed out by default.
func (db *DB) SeedAttempt(t testing.TB, p store.Payment, change func(*store.Attempt)) store.Attempt {
	t.Helper()
	sent, done := p.CreatedAt.Add(time.Second), p.CreatedAt.Add(6*time.Second)
	a := store.Attempt{
		ID: uuid.Must(uuid.NewV7()), PaymentID: p.ID, Operation: "charge", Seq: 1, OperationKey: "fbx_" + p.ID.String(),
		Request: []byte(`{"reference":"` + p.ID.String() + `"}`), Worker: "test:1",
		MarkedAt: sent, FirstSentAt: sent, ReplayUntil: sent.Add(24 * time.Hour), Deadline: sent.Add(10 * time.Second),
		WireSends: 1, FinalURL: "https://atlas.example/payments", Outcome: "unknown", ErrorClass: "timeout_after_send",
		BreakerVerdict: "fail", FirstByteSentAt: &sent, FinishedAt: &done,
	}
	if change != nil {
		change(&a)
	}
	hash := sha256.Sum256(a.Request)
	db.Exec(t, `INSERT INTO attempts (id, payment_id, operation, seq, operation_key, request, request_hash, worker, marked_at,
		first_sent_at, replay_until, deadline, wire_sends, http_status, content_type, server, provider_request_id, final_url,
		response_body, outcome, error_class, breaker_verdict, first_byte_sent_at, first_byte_at, finished_at)
		VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,nullif($20,''),$21,$22,$23,$24,$25)`,
		a.ID, a.PaymentID, a.Operation, a.Seq, a.OperationKey, a.Request, hash[:], a.Worker, a.MarkedAt,
		a.FirstSentAt, a.ReplayUntil, a.Deadline, a.WireSends, a.HTTPStatus, a.ContentType, a.Server, a.ProviderRequestID,
		a.FinalURL, a.ResponseBody, a.Outcome, a.ErrorClass, a.BreakerVerdict, a.FirstByteSentAt, a.FirstByteAt, a.FinishedAt)
	return a
}

// SeedEvent appends to p's timeline.
func (db *DB) SeedEvent(t testing.TB, p store.Payment, e store.TimelineEvent) {
	t.Helper()
	if e.At.IsZero() {
		e.At = p.CreatedAt
	}
	if e.Evidence == nil {
		e.Evidence = map[string]any{}
	}
	db.Exec(t, `INSERT INTO payment_events (payment_id, at, kind, source, actor, from_status, to_status, reason, attempt_id, evidence)
		VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10)`,
		p.ID, e.At, e.Kind, e.Source, e.Actor, e.FromStatus, e.ToStatus, e.Reason, e.AttemptID, e.Evidence)
}

// SeedWebhook writes an inbox row: valid and applied by default. It returns its id.
func (db *DB) SeedWebhook(t testing.TB, change func(*store.InboxEvent)) int64 {
	t.Helper()
	applied := Epoch.Add(40 * time.Millisecond)
	e := store.InboxEvent{
		Provider: "atlas", EventKey: "evt_" + strings.ReplaceAll(uuid.NewString(), "-", "")[:20], EventType: "payment.succeeded",
		Signature: "valid", SecretLabel: "1", State: "applied", ReceivedAt: Epoch, AppliedAt: &applied, LastDeliveryAt: Epoch,
		Raw: []byte(`{"id":"evt_1","type":"payment.succeeded"}`), Headers: map[string]any{"Content-Type": []string{"application/json"}},
	}
	if change != nil {
		change(&e)
	}
	var id int64
	err := db.Pool.QueryRow(context.Background(), `INSERT INTO webhook_events (provider, event_key, event_type, reference,
		provider_object_id, raw, headers, signature, secret_label, state, state_reason, payment_id, duplicates, tries,
		occurred_at, received_at, applied_at, last_delivery_at)
		VALUES ($1,nullif($2,''),$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18) RETURNING id`,
		e.Provider, e.EventKey, e.EventType, e.Reference, e.ObjectID, e.Raw, e.Headers, e.Signature, e.SecretLabel, e.State,
		e.StateReason, e.PaymentID, e.Duplicates, e.Tries, e.OccurredAt, e.ReceivedAt, e.AppliedAt, e.LastDeliveryAt).Scan(&id)
	if err != nil {
		t.Fatalf("storetest: %v", err)
	}
	return id
}

// SeedObject writes a provider's view of a charge of p: as p asked, succeeded, by default.
func (db *DB) SeedObject(t testing.TB, p store.Payment, change func(*store.ProviderObject)) {
	t.Helper()
	o := store.ProviderObject{
		Provider: p.Provider, ObjectID: "pay_" + p.ID.String()[24:], PaymentID: &p.ID, Reference: p.ID.String(),
		Status: "succeeded", Outcome: "succeeded", Amount: p.Amount, Currency: p.Currency, Source: "lookup",
		FirstSeenAt: p.CreatedAt, SeenAt: p.CreatedAt, Raw: []byte(`{"status":"succeeded"}`),
	}
	if change != nil {
		change(&o)
	}
	db.Exec(t, `INSERT INTO provider_objects (provider, object_id, payment_id, reference, operation_key, status, outcome,
		amount, currency, source, first_seen_at, seen_at, raw) VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13)`,
		o.Provider, o.ObjectID, o.PaymentID, o.Reference, o.OperationKey, o.Status, o.Outcome, o.Amount, o.Currency,
		o.Source, o.FirstSeenAt, o.SeenAt, o.Raw)
}

// SeedWallet writes a wallet with the entries given as signed amounts, in order.
func (db *DB) SeedWallet(t testing.TB, owner, currency string, amounts ...int64) uuid.UUID {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	var sum int64
	for _, a := range amounts {
		sum += a
	}
	db.Exec(t, `INSERT INTO wallets (id, owner_ref, currency, balance, created_at, updated_at) VALUES ($1,$2,$3,$4,$5,$5)`,
		id, owner, currency, sum, Epoch)
	sum = 0
	for _, a := range amounts {
		sum += a
		kind := "credit"
		if a < 0 {
			kind = "debit"
		}
		db.Exec(t, `INSERT INTO wallet_entries (wallet_id, operation_id, amount, balance_after, kind, actor, created_at)
			VALUES ($1,$2,$3,$4,$5,'client:test',$6)`, id, "op_"+uuid.NewString(), a, sum, kind, Epoch)
	}
	return id
}

// SeedRun writes a complete reconciliation run without items.
func (db *DB) SeedRun(t testing.TB, change func(*store.Run)) store.Run {
	t.Helper()
	done := Epoch.Add(3 * time.Second)
	r := store.Run{
		ID: uuid.Must(uuid.NewV7()), Provider: "atlas", From: Epoch.Add(-time.Hour), To: Epoch, State: "complete", Pages: 1,
		TriggeredBy: "system:sync", StartedAt: Epoch, FinishedAt: &done,
	}
	if change != nil {
		change(&r)
	}
	db.Exec(t, `INSERT INTO reconciliation_runs (id, provider, window_from, window_to, cursor, state, pages, exceptions,
		paused_until, matched, ours_only, theirs_only, amount_differs, status_differs, duplicate, triggered_by, started_at, finished_at)
		VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18)`,
		r.ID, r.Provider, r.From, r.To, r.Cursor, r.State, r.Pages, r.Exceptions, r.PausedUntil, r.Matched, r.OursOnly,
		r.TheirsOnly, r.AmountDiffers, r.StatusDiffers, r.Duplicate, r.TriggeredBy, r.StartedAt, r.FinishedAt)
	return r
}
