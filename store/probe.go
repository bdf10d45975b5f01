package store

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// NoteProbeRead puts the cheap read that preceded a charge, the probe of a half-open
// circuit, on the payment's timeline. It changes nothing else. ErrNotFound.
func (s *Store) NoteProbeRead(ctx context.Context, tx pgx.Tx, id uuid.UUID, read provider.Pinged) error {
	p, err := lockPayment(ctx, tx, id)
	if err != nil {
		return err
	}
	evidence := map[string]any{
		"health": read.Health, "url": read.Exchange.URL, "http_status": read.Exchange.Status,
		"latency_ms": max(read.Exchange.Latency().Milliseconds(), 0),
	}
	if read.Exchange.RequestID != "" {
		evidence["request_id"] = read.Exchange.RequestID
	}
	return s.record(ctx, tx, p, p, change{
		kind: "probe_read", source: "job", by: System("charge"), reason: read.Reason, detail: evidence,
	})
}
