package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// HealthWindow is the stretch of time a provider's success rate and latency are
// measured over.
const HealthWindow = 5 * time.Minute

// CallHealth is how calls of one provider and class went within HealthWindow.
type CallHealth struct {
	Provider, Class   string
	OK, Fail, Neutral int
	P95               time.Duration // of all calls; zero without any
}

// Rate is the share of calls that say something about health and said well; false
// when none did.
func (h CallHealth) Rate() (float64, bool) {
	if h.OK+h.Fail == 0 {
		return 0, false
	}
	return float64(h.OK) / float64(h.OK+h.Fail), true
}

// Calls is how many calls finished.
func (h CallHealth) Calls() int { return h.OK + h.Fail + h.Neutral }

// ProviderSwitch is what is switched about a provider, beyond the life of a process.
type ProviderSwitch struct {
	Provider      string
	Paused        bool
	PausedReason  string
	PausedAt      *time.Time
	SyncWatermark *time.Time
	LastWebhookAt *time.Time
}

// CallHealths measures every provider and class that was called lately.
func (s *Store) CallHealths(ctx context.Context) ([]CallHealth, error) {
	rows, err := s.pool.Query(ctx, `SELECT provider, class,
			count(*) FILTER (WHERE verdict = 'ok'), count(*) FILTER (WHERE verdict = 'fail'),
			count(*) FILTER (WHERE verdict = 'neutral'),
			coalesce(percentile_disc(0.95) WITHIN GROUP (ORDER BY latency_us), 0)
		FROM call_outcomes WHERE at > $1 GROUP BY provider, class ORDER BY provider, class`, s.Now().Add(-HealthWindow))
	if err != nil {
		return nil, fmt.Errorf("call health: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h CallHealth, err error) {
		var us int64
		err = row.Scan(&h.Provider, &h.Class, &h.OK, &h.Fail, &h.Neutral, &us)
		h.P95 = time.Duration(us) * time.Microsecond
		return h, err
	})
	if err != nil {
		return nil, fmt.Errorf("call health: %w", err)
	}
	return list, nil
}

// ProviderSwitches reads every provider's switches that were ever set.
func (s *Store) ProviderSwitches(ctx context.Context) ([]ProviderSwitch, error) {
	rows, err := s.pool.Query(ctx, `SELECT provider, charges_paused, paused_reason, paused_at, sync_watermark, last_webhook_at
		FROM provider_state ORDER BY provider`)
	if err != nil {
		return nil, fmt.Errorf("provider switches: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p ProviderSwitch, err error) {
		err = row.Scan(&p.Provider, &p.Paused, &p.PausedReason, &p.PausedAt, &p.SyncWatermark, &p.LastWebhookAt)
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("provider switches: %w", err)
	}
	return list, nil
}

// BreakerHistory reads the latest transitions of every circuit, newest first, at most
// perCircuit each.
func (s *Store) BreakerHistory(ctx context.Context, perCircuit int) ([]BreakerEvent, error) {
	rows, err := s.pool.Query(ctx, `SELECT id, provider, class, epoch, from_state, to_state, reason, evidence, at FROM (
			SELECT *, row_number() OVER (PARTITION BY provider, class ORDER BY id DESC) AS n FROM (
				SELECT * FROM breaker_events ORDER BY id DESC LIMIT 2000) latest) ranked
		WHERE n <= $1 ORDER BY id DESC`, perCircuit)
	if err != nil {
		return nil, fmt.Errorf("breaker history: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e BreakerEvent, err error) {
		err = row.Scan(&e.ID, &e.Provider, &e.Class, &e.Epoch, &e.From, &e.To, &e.Reason, &e.Evidence, &e.At)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("breaker history: %w", err)
	}
	return list, nil
}

// WaitingCharges is what closing a provider's circuit would let go.
type WaitingCharges struct {
	Pending int // payments waiting to be charged, up to CountCap+1
	Amounts []CurrencySum
	Unknown int // payments already unknown at this provider
}

// WaitingCharges counts the payments of a provider that wait to be charged.
func (s *Store) WaitingCharges(ctx context.Context, providerName string) (WaitingCharges, error) {
	var w WaitingCharges
	rows, err := s.pool.Query(ctx, `SELECT currency, count(*), sum(amount)::bigint FROM (
			SELECT currency, amount FROM payments WHERE provider = $1 AND status = 'pending' LIMIT $2) x
		GROUP BY currency ORDER BY count(*) DESC, currency`, providerName, CountCap+1)
	if err != nil {
		return w, fmt.Errorf("waiting charges: %w", err)
	}
	var c CurrencySum
	_, err = pgx.ForEachRow(rows, []any{&c.Currency, &c.Payments, &c.Amount}, func() error {
		w.Amounts = append(w.Amounts, c)
		w.Pending += c.Payments
		return nil
	})
	if err != nil {
		return w, fmt.Errorf("waiting charges: %w", err)
	}
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM (SELECT 1 FROM payments WHERE provider = $1 AND status = 'unknown' LIMIT $2) x`,
		providerName, CountCap+1).Scan(&w.Unknown)
	if err != nil {
		return w, fmt.Errorf("waiting charges: %w", err)
	}
	return w, nil
}

// LastCircuitAction reads who last acted on a circuit, for a conflict answer. ErrNotFound.
func (s *Store) LastCircuitAction(ctx context.Context, target string) (AuditEntry, error) {
	list, _, err := s.ListAudit(ctx, AuditFilter{Target: target}, 0, 1)
	if err != nil {
		return AuditEntry{}, err
	}
	if len(list) == 0 {
		return AuditEntry{}, ErrNotFound
	}
	return list[0], nil
}
