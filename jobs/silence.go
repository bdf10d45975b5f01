package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"fusebox/store"
)

const (
	// silentCharges is how many charges the provider must have taken since its last
	// event, each at least silentFor ago, before the silence means something.
	silentCharges = 20
	silentFor     = 15 * time.Minute
)

// webhookSilence tells people when a provider that used to send events takes charges
// and sends none: a switched-off endpoint or a rotated secret shows in nothing else. A
// provider that never sent one is not configured to, and is left alone.
func (r *Runner) webhookSilence(ctx context.Context) error {
	var errs []error
	for _, s := range r.cfg.Providers {
		if r.lanes[s.Name].adapter.Capabilities().Webhooks {
			errs = append(errs, r.checkSilence(ctx, s.Name))
		}
	}
	return errors.Join(errs...)
}

func (r *Runner) checkSilence(ctx context.Context, name string) error {
	const q = `
		SELECT s.last_webhook_at, (
			SELECT count(*) FROM (
				SELECT 1 FROM call_outcomes c
				WHERE c.provider = s.provider AND c.class = 'charge' AND c.verdict = 'ok'
				  AND c.outcome IN ('succeeded', 'processing') AND c.at > s.last_webhook_at AND c.at < $2
				LIMIT $3) taken)
		FROM provider_state s WHERE s.provider = $1 AND s.last_webhook_at < $2`
	var last time.Time
	var taken int
	err := r.cfg.Store.Pool().QueryRow(ctx, q, name, r.cfg.Now().Add(-silentFor), silentCharges).Scan(&last, &taken)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("jobs: webhook silence of %s: %w", name, err)
	}
	if taken < silentCharges {
		return nil
	}
	return r.raise(ctx, store.Alert{
		Kind: "webhook_silence", Severity: "warning", Provider: name,
		Title:     fmt.Sprintf("%s sends no events any more", name),
		Detail:    fmt.Sprintf("The last one came at %s; at least %d charges went through since. Check the endpoint and its secret at the provider.", last.UTC().Format(time.RFC3339), silentCharges),
		DedupeKey: fmt.Sprintf("webhook_silence:%s:%d", name, last.UnixMicro()),
	})
}
