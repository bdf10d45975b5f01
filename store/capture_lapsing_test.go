package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/store"
)

// An authorisation that is about to lapse is told of once, while something can be done.
func TestAuthorisationThatIsAboutToLapseIsToldOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	until := func(p store.Payment, left time.Duration) {
		w.db.Exec(t, `UPDATE payments SET authorised_until = $2 WHERE id = $1`, p.ID, w.Now().Add(left))
	}
	soon, late, over, asked := w.authorised(), w.authorised(), w.authorised(), w.authorised()
	until(soon, 5*time.Hour)
	until(late, 7*time.Hour)
	until(over, -time.Minute)
	until(asked, time.Hour)
	w.db.Exec(t, `INSERT INTO operations (id, payment_id, seq, kind, origin, client_id, idempotency_key, request_hash, operation_key, provider,
			provider_payment_id, amount, currency, status, requested_by, created_at, updated_at)
		SELECT gen_random_uuid(), id, 1, 'capture', 'api', 'c', 'k', '\x00', 'key', provider, provider_payment_id, amount, currency, 'pending', 'c', now(), now()
		FROM payments WHERE id = $1`, asked.ID)
	n, err := w.AlertLapsing(t.Context(), 6*time.Hour)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	n, err = w.AlertLapsing(t.Context(), 6*time.Hour)
	require.NoError(t, err)
	require.Zero(t, n, "told once")
	w.clock.add(90 * time.Minute)
	n, err = w.AlertLapsing(t.Context(), 6*time.Hour)
	require.NoError(t, err)
	require.Equal(t, 1, n, "the other one is near now")
	list, _, err := w.ListAlerts(t.Context(), store.AlertFilter{}, 0, 10)
	require.NoError(t, err)
	require.Equal(t, "authorisation_lapsing", list[0].Kind)
	require.Equal(t, late.ID, *list[0].PaymentID)
	require.Equal(t, w.get(soon.ID).Version, soon.Version, "nothing is changed")
}
