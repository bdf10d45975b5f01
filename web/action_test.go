package web

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/store/storetest"
	"fusebox/views"
)

// unknownPayment is a payment somebody has to decide, with a wallet to credit.
func unknownPayment(t *testing.T, w *webtest) store.Payment {
	t.Helper()
	wallet := w.db.SeedWallet(t, "acme", "EUR", 1000)
	since := storetest.Epoch
	p := w.db.SeedPayment(t, func(p *store.Payment) {
		p.WalletID, p.UnknownSince, p.UnknownSeen, p.StatusReason = &wallet, &since, true, "timeout_after_send"
	})
	w.db.SeedAttempt(t, p, nil)
	w.db.SeedEvent(t, p, store.TimelineEvent{Kind: "created", Source: "api", Actor: "client:test", ToStatus: store.Pending})
	return p
}

func resolvePath(p store.Payment) string { return views.PaymentPath(p.ID.String()) + "/resolve" }

// decision fills a resolve form that was just opened.
func decision(t *testing.T, b *browser, p store.Payment, to string) url.Values {
	t.Helper()
	res := b.get(resolvePath(p) + "?to=" + to)
	require.Equal(t, http.StatusOK, res.StatusCode)
	form := formOf(t, res.body)
	form.Set("reason", "Found in the dashboard of atlas")
	form.Set("evidence", "TICKET-7")
	return form
}

func (w *webtest) payment(id uuid.UUID) store.Payment {
	w.t.Helper()
	p, err := w.store.Payment(w.t.Context(), id)
	require.NoError(w.t, err)
	return p
}

func (w *webtest) number(sql string, args ...any) int {
	w.t.Helper()
	var n int
	require.NoError(w.t, w.db.Pool.QueryRow(w.t.Context(), sql, args...).Scan(&n))
	return n
}

func TestResolvePaidCreditsTheWalletOnceHoweverOftenItIsSent(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	p := unknownPayment(t, w)
	b := w.signedIn(store.RoleOperator)
	confirm := b.get(resolvePath(p) + "?to=succeeded")
	require.Contains(t, confirm.body, "Wallet acme is credited 49.00\u00a0EUR once: 10.00\u00a0EUR → 59.00\u00a0EUR")
	require.Contains(t, confirm.body, "0 calls to atlas")
	form := decision(t, b, p, "succeeded")

	var wg sync.WaitGroup // a double click, and a second tab with the same form
	for range 5 {
		wg.Go(func() {
			again := &browser{w: w, cookies: map[string]string{}, header: http.Header{}}
			for k, v := range b.cookies {
				again.cookies[k] = v
			}
			require.Equal(t, http.StatusSeeOther, again.post(resolvePath(p), form).StatusCode)
		})
	}
	wg.Wait()
	res := b.post(resolvePath(p), form) // Back, and once more
	require.Equal(t, views.PaymentPath(p.ID.String()), res.Header.Get("Location"))

	got := w.payment(p.ID)
	require.Equal(t, store.Succeeded, got.Status)
	require.Equal(t, "operator", got.StatusEvidence)
	require.Equal(t, 1, w.number(`SELECT count(*) FROM audit_log WHERE action = 'payment.resolve' AND reason LIKE 'Found%'`))
	require.Equal(t, 5900, w.number(`SELECT balance FROM wallets`))
	require.Equal(t, 2, w.number(`SELECT count(*) FROM wallet_entries`))
	page := b.get(views.PaymentPath(p.ID.String()))
	require.Contains(t, page.body, "Olena marked it paid at")
	require.Contains(t, page.body, "+49.00")
}

func TestResolveFailedSaysWhatFollows(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	p := unknownPayment(t, w)
	b := w.signedIn(store.RoleOperator)
	confirm := b.get(resolvePath(p) + "?to=failed")
	require.Contains(t, confirm.body, "0 wallets are credited")
	require.Contains(t, confirm.body, "The customer may pay again")
	require.Equal(t, http.StatusSeeOther, b.post(resolvePath(p), decision(t, b, p, "failed")).StatusCode)
	require.Equal(t, store.Failed, w.payment(p.ID).Status)
	require.Equal(t, 1000, w.number(`SELECT balance FROM wallets`))
}

func TestResolveConflictNamesTheOtherPersonAndChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	p := unknownPayment(t, w)
	first, second := w.signedIn(store.RoleOperator), w.signedIn(store.RoleOperator)
	late := decision(t, second, p, "failed")
	require.Equal(t, http.StatusSeeOther, first.post(resolvePath(p), decision(t, first, p, "succeeded")).StatusCode)

	res := second.post(resolvePath(p), late)
	require.Equal(t, http.StatusConflict, res.StatusCode)
	require.Contains(t, res.body, "Olena marked this Paid at 15:02:11. Nothing was changed.")
	require.NotContains(t, res.body, `name="reason"`, "what was decided on is gone: look again first")
	require.Equal(t, store.Succeeded, w.payment(p.ID).Status)
	require.Equal(t, http.StatusConflict, second.postHTMX(resolvePath(p), late).StatusCode, "a refused action stays refused")
	late.Set("reason", "")
	require.Equal(t, http.StatusConflict, second.post(resolvePath(p), late).StatusCode, "who was first matters more than an empty field")
}

func TestResolveRefusesIncompleteForms(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	p := unknownPayment(t, w)
	b := w.signedIn(store.RoleOperator)
	for field, c := range map[string]struct{ value, words string }{
		"reason":   {"", "This is required."},
		"reason ":  {"short", "at least 10 characters"},
		"reason  ": {strings.Repeat("ж", maxReason+1), "At most 500 characters"},
		"evidence": {" ", "Evidence reference: This is required."},
	} {
		form := decision(t, b, p, "succeeded")
		form.Set(strings.TrimSpace(field), c.value)
		res := b.post(resolvePath(p), form)
		require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode, field)
		require.Contains(t, res.body, c.words)
		require.Contains(t, res.body, `aria-invalid="true"`)
		require.Contains(t, res.body, `value="`+form.Get("action_id")+`"`, "the corrected form is the same action")
		if field != "evidence" {
			require.Contains(t, res.body, "TICKET-7", "what was typed stays")
		}
	}
	for name, want := range map[string]int{"action_id": 400, "version": 400, "to": 422} {
		form := decision(t, b, p, "succeeded")
		form.Set(name, "x")
		require.Equal(t, want, b.post(resolvePath(p), form).StatusCode, name)
	}
	require.Equal(t, store.Unknown, w.payment(p.ID).Status)
	require.Zero(t, w.number(`SELECT count(*) FROM console_actions`))
}

func TestResolveAgainstEvidenceNeedsAStatement(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	p := unknownPayment(t, w)
	w.db.SeedObject(t, p, func(o *store.ProviderObject) { o.ObjectID = "pay_taken" })
	b := w.signedIn(store.RoleOperator)
	require.Contains(t, b.get(resolvePath(p)+"?to=failed").body, "evidence that the money was taken")
	require.NotContains(t, b.get(resolvePath(p)+"?to=succeeded").body, `name="stated"`)

	form := decision(t, b, p, "failed")
	res := b.post(resolvePath(p), form)
	require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)
	require.Contains(t, res.body, "This is not pay_taken.")
	require.Equal(t, store.Unknown, w.payment(p.ID).Status)
	form.Set("stated", "pay_taken")
	require.Equal(t, http.StatusSeeOther, b.post(resolvePath(p), form).StatusCode)
	require.Equal(t, store.Failed, w.payment(p.ID).Status)
}

func TestResolveSaysWhenAmountsDiffer(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	p := w.db.SeedPayment(t, func(p *store.Payment) { p.NeedsReview = []string{store.ReviewAmountMismatch} })
	w.db.SeedObject(t, p, func(o *store.ProviderObject) { o.Amount = 4410 })
	b := w.signedIn(store.RoleOperator)
	require.Contains(t, b.get(resolvePath(p)+"?to=succeeded").body, "atlas reports 44.10\u00a0EUR; marking it paid books 49.00\u00a0EUR.")
	require.Contains(t, b.get(views.PaymentPath(p.ID.String())).body, "atlas reports 44.10\u00a0EUR; we asked for 49.00\u00a0EUR")
}

func TestResolveSettlesAReviewWithoutMovingThePayment(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	settled := storetest.Epoch
	p := w.db.SeedPayment(t, func(p *store.Payment) {
		p.Status, p.NeedsReview, p.SettledAt = store.Succeeded, []string{store.ReviewDuplicate}, &settled
	})
	b := w.signedIn(store.RoleOperator)
	require.Contains(t, b.get(views.PaymentPath(p.ID.String())).body, "Settle the review")
	require.Equal(t, http.StatusSeeOther, b.post(resolvePath(p), decision(t, b, p, "succeeded")).StatusCode)
	got := w.payment(p.ID)
	require.Equal(t, store.Succeeded, got.Status)
	require.Empty(t, got.NeedsReview)

	res := b.get(resolvePath(p) + "?to=failed")
	require.Contains(t, res.body, "there is nothing to decide")
	require.NotContains(t, res.body, `name="reason"`)
}

func TestActionsSayWhichRoleMay(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	p := unknownPayment(t, w)
	b := w.signedIn(store.RoleSupport)
	page := b.get(views.PaymentPath(p.ID.String()))
	require.Contains(t, page.body, "Only Operator may do this")
	require.NotContains(t, page.body, `href="`+resolvePath(p))
	require.Contains(t, page.body, `href="`+views.PaymentPath(p.ID.String())+`/reconcile"`, "support may ask")
	require.Equal(t, http.StatusForbidden, b.post(resolvePath(p), url.Values{}).StatusCode)
}

func TestReconcileQueuesOneLookupPerAction(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	p := unknownPayment(t, w)
	b := w.signedIn(store.RoleSupport)
	path := views.PaymentPath(p.ID.String()) + "/reconcile"
	confirm := b.get(path)
	require.Contains(t, confirm.body, "at most 6 read requests to atlas")
	require.Contains(t, confirm.body, "0 charges are sent")
	form := formOf(t, confirm.body)
	require.Equal(t, version(p), form.Get("version"))
	for range 3 {
		require.Equal(t, http.StatusSeeOther, b.post(path, form).StatusCode)
	}
	require.Equal(t, 1, w.jobs.count("reconcile"))
	require.Equal(t, 1, w.number(`SELECT count(*) FROM audit_log WHERE action = 'payment.reconcile'`))
	page := b.get(views.PaymentPath(p.ID.String()))
	require.Contains(t, page.body, "A person asked to check")
	require.Contains(t, page.body, "atlas is being asked", "the flash says so once")
}

func TestReconcileRefusals(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	b := w.signedIn(store.RoleSupport)
	final := w.db.SeedPayment(t, func(p *store.Payment) { p.Status = store.Succeeded })
	mute := w.db.SeedPayment(t, func(p *store.Payment) { p.Provider = "borealis" })
	for _, p := range []store.Payment{final, mute} {
		path := views.PaymentPath(p.ID.String()) + "/reconcile"
		confirm := b.get(path)
		require.Contains(t, confirm.body, `class="blocked"`)
		require.NotContains(t, b.get(views.PaymentPath(p.ID.String())).body, "/reconcile")
		require.Equal(t, http.StatusConflict, b.post(path, formOf(t, confirm.body)).StatusCode)
	}
	p := unknownPayment(t, w)
	path := views.PaymentPath(p.ID.String()) + "/reconcile"
	form := formOf(t, b.get(path).body)
	w.db.Exec(t, `UPDATE payments SET version = version + 1, updated_at = $2 WHERE id = $1`, p.ID, w.clock.now().Add(-time.Minute))
	res := b.post(path, form)
	require.Equal(t, http.StatusConflict, res.StatusCode)
	require.Contains(t, res.body, "Nothing was changed.")
	require.Zero(t, w.jobs.count("reconcile"))
}

func TestReapplyWebhookOncePerAction(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	id := w.db.SeedWebhook(t, func(e *store.InboxEvent) { e.State, e.AppliedAt = "unmatched", nil; e.Tries = 3 })
	b := w.signedIn(store.RoleOperator)
	path := views.WebhookPath(id) + "/reapply"
	confirm := b.get(path)
	require.Contains(t, confirm.body, "No payment matched it 3 times")
	require.Contains(t, confirm.body, "0 calls to the provider")
	form := formOf(t, confirm.body)
	for range 2 {
		require.Equal(t, http.StatusSeeOther, b.post(path, form).StatusCode)
	}
	require.Equal(t, 1, w.number(`SELECT count(*) FROM audit_log WHERE action = 'webhook.reapply'`))

	done := w.db.SeedWebhook(t, nil)
	require.Contains(t, b.get(views.WebhookPath(done)+"/reapply").body, "Expected result: no change")
	bad := w.db.SeedWebhook(t, func(e *store.InboxEvent) { e.State, e.EventKey, e.AppliedAt = "rejected", "", nil })
	require.NotContains(t, b.get(views.WebhookPath(bad)).body, "/reapply")
	res := b.post(views.WebhookPath(bad)+"/reapply", url.Values{"action_id": {uuid.NewString()}})
	require.Equal(t, http.StatusConflict, res.StatusCode)
	require.Contains(t, res.body, "never applied")
	require.Equal(t, http.StatusBadRequest, b.post(path, url.Values{}).StatusCode)
	require.Equal(t, http.StatusForbidden, w.signedIn(store.RoleSupport).post(path, form).StatusCode)
}

func TestSyncNowOncePerAction(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	for range 3 {
		w.db.SeedPayment(t, nil)
	}
	b := w.signedIn(store.RoleOperator)
	confirm := b.get("/reconciliation/start/atlas")
	require.Contains(t, confirm.body, "About 1 read call to atlas: 3 payments")
	form := formOf(t, confirm.body)
	for range 2 {
		require.Equal(t, http.StatusSeeOther, b.post("/reconciliation/start/atlas", form).StatusCode)
	}
	require.Equal(t, 1, w.jobs.count("sync"))
	require.Equal(t, 1, w.number(`SELECT count(*) FROM audit_log WHERE action = 'reconciliation.run'`))
	require.Contains(t, b.get("/reconciliation/start/borealis").body, "offers no list")
	require.Equal(t, http.StatusConflict, b.post("/reconciliation/start/borealis", form).StatusCode)
	require.Equal(t, http.StatusBadRequest, b.post("/reconciliation/start/atlas", url.Values{}).StatusCode)
}
