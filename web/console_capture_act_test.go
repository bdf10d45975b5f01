package web

import (
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/store"
)

// unknownCapture is a capture of a held payment that was sent and got no answer.
func (w *webtest) unknownCapture() (store.Payment, store.Operation) {
	w.t.Helper()
	p := w.heldPayment()
	id := uuid.Must(uuid.NewV7())
	w.db.Exec(w.t, `INSERT INTO operations (id, payment_id, kind, seq, origin, client_id, idempotency_key, operation_key, provider, provider_payment_id,
			amount, currency, status, status_reason, unknown_since, requested_by, created_at, updated_at)
		VALUES ($1, $2, 'capture', 1, 'api', 'shop', $3, $4, $5, $6, $7, $8, 'unknown', 'timeout_after_send', $9, 'client:shop', $9, $9)`,
		id, p.ID, "key-"+id.String(), "capture-"+id.String(), p.Provider, p.ProviderPaymentID, p.Amount, p.Currency, w.clock.now().Add(-time.Minute))
	op, err := w.store.Operation(w.t.Context(), id)
	require.NoError(w.t, err)
	return p, op
}

func resolveCapture(op store.Operation, to store.Status) url.Values {
	return url.Values{"action_id": {uuid.NewString()}, "version": {strconv.FormatInt(op.Version, 10)}, "to": {string(to)},
		"reason": {"seen in the dashboard"}, "evidence": {"TICKET-7"}}
}

func TestAnUnknownCaptureIsInTheWorkQueueAndCanBeAskedAbout(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, holdingAtlas)
	p, op := w.unknownCapture()
	support := w.signedIn(store.RoleSupport)
	require.Contains(t, support.get("/queue").body, "#hold-"+op.ID.String())
	page := support.get("/payments/" + p.ID.String())
	require.Contains(t, page.body, capturePath(op)+"/lookup")
	require.Equal(t, 200, support.get(capturePath(op)+"/lookup").StatusCode)
	form := url.Values{"action_id": {uuid.NewString()}, "version": {strconv.FormatInt(op.Version, 10)}}
	require.Equal(t, 303, support.post(capturePath(op)+"/lookup", form).StatusCode)
	require.Equal(t, 303, support.post(capturePath(op)+"/lookup", form).StatusCode, "the second click is the first")
	require.Equal(t, 403, support.get(capturePath(op)+"/resolve?to=succeeded").StatusCode)
	require.Equal(t, 404, support.get("/captures/"+uuid.NewString()+"/lookup").StatusCode)
}

func TestTwoOperatorsSettleTheSameCapture(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, holdingAtlas)
	p, op := w.unknownCapture()
	first, second := w.signedIn(store.RoleOperator), w.signedIn(store.RoleOperator)
	confirm := first.get(capturePath(op) + "/resolve?to=succeeded")
	require.Equal(t, 200, confirm.StatusCode)
	require.Contains(t, confirm.body, "becomes paid")
	empty := resolveCapture(op, store.Succeeded)
	empty.Set("reason", "")
	require.Equal(t, 422, first.post(capturePath(op)+"/resolve", empty).StatusCode)
	require.Equal(t, 303, first.post(capturePath(op)+"/resolve", resolveCapture(op, store.Succeeded)).StatusCode)
	late := second.post(capturePath(op)+"/resolve", resolveCapture(op, store.Failed))
	require.Equal(t, 409, late.StatusCode)
	require.Contains(t, late.body, "Olena")
	after, err := w.store.Payment(t.Context(), p.ID)
	require.NoError(t, err)
	require.Equal(t, store.Succeeded, after.Status)
	require.Equal(t, op.Amount, after.CapturedAmount)
}

// TestOnePersonDoesNotMarkABigPaymentByItsCapture: what takes two people takes two by
// every way; that it was not done marks nothing, and one may say so.
func TestOnePersonDoesNotMarkABigPaymentByItsCapture(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, holdingAtlas, func(c *Config) { c.FourEyes = map[string]int64{"*": 100} })
	p, op := w.unknownCapture()
	b := w.signedIn(store.RoleOperator)
	require.Contains(t, b.get(capturePath(op)+"/resolve?to=succeeded").body, "takes two people")
	require.Equal(t, 409, b.post(capturePath(op)+"/resolve", resolveCapture(op, store.Succeeded)).StatusCode)
	after, err := w.store.Payment(t.Context(), p.ID)
	require.NoError(t, err)
	require.Equal(t, store.Processing, after.Status)
	require.Equal(t, 303, b.post(capturePath(op)+"/resolve", resolveCapture(op, store.Failed)).StatusCode)
}

// TestACaptureAcknowledgedAndNeverMadeIsDecidedByAPerson: only once it is in review.
func TestACaptureAcknowledgedAndNeverMadeIsDecidedByAPerson(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, holdingAtlas)
	p, op := w.unknownCapture()
	waits := func(reviews string) store.Operation {
		w.db.Exec(t, `UPDATE operations SET status = 'processing', unknown_since = NULL, needs_review = $2::text[] WHERE id = $1`, op.ID, reviews)
		op, err := w.store.Operation(t.Context(), op.ID)
		require.NoError(t, err)
		return op
	}
	operator := w.signedIn(store.RoleOperator)
	page := "/payments/" + p.ID.String()
	op = waits("{}")
	require.NotContains(t, operator.get(page).body, capturePath(op)+"/resolve")
	require.Equal(t, 409, operator.post(capturePath(op)+"/resolve", resolveCapture(op, store.Failed)).StatusCode)
	op = waits("{aged}")
	queue, body := operator.get("/queue").body, operator.get(page).body
	require.Contains(t, queue, "#hold-"+op.ID.String())
	require.Contains(t, queue, "Undecided too long", "it was answered: acknowledged")
	require.Contains(t, body, capturePath(op)+"/resolve?to=failed")
	require.Contains(t, body, "acknowledged it and has not decided it for too long")
	confirm := operator.get(capturePath(op) + "/resolve?to=failed").body
	require.Contains(t, confirm, "stays authorised")
	require.Contains(t, confirm, "it may still be done")
	for lang, words := range map[string]string{"fr": "peut encore se faire", "es": "todavía puede hacerse", "uk": "ще може статися"} {
		operator.cookies[cookieLang] = lang
		require.Contains(t, operator.get(capturePath(op)+"/resolve?to=failed").body, words)
	}
	operator.cookies[cookieLang] = "en"
	require.Equal(t, 303, operator.post(capturePath(op)+"/resolve", resolveCapture(op, store.Failed)).StatusCode)
	require.Contains(t, operator.get(page).body, page+"/capture", "another one may be asked for")
}
