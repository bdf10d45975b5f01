package jobs

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

// deliver receives a webhook about a payment as the web does.
func (b *bench) deliver(p store.Payment, event, status string) store.Received {
	b.t.Helper()
	raw := fmt.Appendf(nil, `{"id":%q,"type":"payment","reference":%q,"status":%q,"amount":%d,"currency":%q}`,
		event, p.ID, status, p.Amount, p.Currency)
	events, err := b.fakes[p.Provider].Parse(raw)
	require.NoError(b.t, err)
	got, err := b.store.ReceiveWebhook(context.Background(), store.Delivery{
		Provider: p.Provider, Raw: raw, Events: events,
		Verification: provider.Verification{Verdict: provider.SignatureValid, SecretLabel: "1"},
	})
	require.NoError(b.t, err)
	return got
}

func TestAWebhookSettlesAnUnknownPaymentOnce(t *testing.T) {
	t.Parallel()
	s := quick("atlas")
	s.ReconcilePauses = []time.Duration{time.Hour}
	b := newBench(t, s)
	b.fakes["atlas"].on(cut)
	b.start("w1", nil)
	p := b.becomes(b.pay("atlas", nil).ID, store.Unknown)
	for range 3 {
		b.deliver(p, "evt_1", "succeeded")
	}
	p = b.becomes(p.ID, store.Succeeded)
	b.idle(kindWebhook)
	require.Equal(t, 1, b.count(`SELECT count(*) FROM webhook_events WHERE state = 'applied'`))
	require.Equal(t, 1, b.count(`SELECT count(*) FROM payment_events WHERE payment_id = $1 AND to_status = 'succeeded' AND from_status <> to_status`, p.ID))
	_, lookups, _ := b.fakes["atlas"].counts()
	require.Zero(t, lookups)
}

// Received and never applied (the job was lost): the sweep applies it.
func TestW02_TheSweepAppliesWhatWasOnlyReceived(t *testing.T) {
	t.Parallel()
	s := quick("atlas")
	s.ReconcilePauses = []time.Duration{time.Hour}
	b := newBench(t, s)
	b.fakes["atlas"].on(cut)
	r := b.start("w1", nil)
	p := b.becomes(b.pay("atlas", nil).ID, store.Unknown)
	b.stopNow(r, 5*time.Second)
	b.deliver(p, "evt_1", "succeeded")
	b.exec(`DELETE FROM river_job`)
	b.exec(`UPDATE webhook_events SET last_delivery_at = last_delivery_at - interval '10 minutes'`)
	b.start("w2", nil)
	b.becomes(p.ID, store.Succeeded)
}

// The row is gone, or its provider is not configured here: nothing is applied, and
// nothing is lost.
func TestAWebhookJobWithoutItsRowEndsQuietly(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick("atlas"))
	b.start("w1", nil)
	b.inTx(func(ctx context.Context, tx pgxTx) error { return b.enqueuer.Webhook(ctx, tx, 4711) })
	b.idle(kindWebhook)
	require.Equal(t, 1, b.count(`SELECT count(*) FROM river_job WHERE kind = 'webhook' AND state = 'completed'`))
}
