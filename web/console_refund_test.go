package web

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/messages"
)

func refundForms(p store.Payment) string { return views.PaymentPath(p.ID.String()) + "/refund" }

// refundFormOf fills the form of a page that was just opened.
func refundFormOf(t *testing.T, b *browser, p store.Payment, amount string) url.Values {
	t.Helper()
	res := b.get(refundForms(p))
	require.Equal(t, http.StatusOK, res.StatusCode, res.body)
	form := formOf(t, res.body)
	form.Set("amount", amount)
	form.Set("reason", "Sent the lamp back")
	return form
}

// again is the same browser in another tab.
func (b *browser) again() *browser {
	tab := &browser{w: b.w, user: b.user, cookies: map[string]string{}, header: http.Header{}}
	for k, v := range b.cookies {
		tab.cookies[k] = v
	}
	return tab
}

func TestRefundStatesItsNumbersAndHappensOnce(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas)
	wallet := w.db.SeedWallet(t, "acme", "EUR", 5900)
	p := w.paidPayment(func(p *store.Payment) { p.WalletID = &wallet })
	b := w.signedIn(store.RoleOperator)
	require.Contains(t, b.get(views.PaymentPath(p.ID.String())).body, `href="`+refundForms(p)+`"`)
	confirm := b.get(refundForms(p))
	for _, words := range []string{"49.00\u00a0EUR of 49.00\u00a0EUR goes back to the customer", "The payment stays paid; 0.00\u00a0EUR stays refundable.",
		"Wallet acme is debited the same amount once, when the refund is made: 59.00\u00a0EUR → 10.00\u00a0EUR", "1 refund is queued for atlas; 0 charges.", `value="49.00"`} {
		require.Contains(t, confirm.body, words)
	}
	form := refundFormOf(t, b, p, "49.00")
	require.Equal(t, "4900", form.Get("expected_refundable"))
	require.Equal(t, http.StatusSeeOther, b.post(refundForms(p), form).StatusCode)
	page := b.get(views.PaymentPath(p.ID.String())).body
	for _, words := range []string{"The refund of 49.00\u00a0EUR is queued.", "Refund 1", "Nothing has reached atlas yet.", "Sent the lamp back", "Olena",
		"A refund of 49.00\u00a0EUR is under way.", "Refund requested", "A refund of 49.00\u00a0EUR for order", "Next: send refund 1"} {
		require.Contains(t, page, words)
	}
	require.NotContains(t, page, `href="`+refundForms(p)+`"`, "nothing is left")
	require.Contains(t, b.get(refundForms(p)).body, "Nothing is left to refund.")
	require.Equal(t, 1, w.jobs.count("operation"))
	require.Equal(t, store.Succeeded, w.payment(p.ID).Status)
	require.Equal(t, 1, w.number(`SELECT count(*) FROM audit_log WHERE action = 'refund.create' AND actor = $1 AND reason = 'Sent the lamp back'`, "user:"+b.user.ID.String()))
}

// U-01: two clicks at once, two tabs of one form, Back and send again: one refund.
func TestU01_DoubleClickTwoTabsAndBackAreOneRefund(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas)
	p, b := w.paidPayment(), w.signedIn(store.RoleOperator)
	form := refundFormOf(t, b, p, "19.00")
	var wg sync.WaitGroup
	for i := range 8 {
		tab := b.again()
		wg.Go(func() {
			send := tab.post
			if i%2 == 1 {
				send = tab.postHTMX
			}
			require.Equal(t, http.StatusSeeOther, send(refundForms(p), form).StatusCode)
		})
	}
	wg.Wait()
	require.Equal(t, http.StatusSeeOther, b.post(refundForms(p), form).StatusCode, "Back, and sent again")
	require.Equal(t, 1, w.refunds())
	require.Equal(t, 1, w.jobs.count("operation"))

	form.Set("amount", "20.00") // Back, changed, and sent again: it was another form's content
	res := b.post(refundForms(p), form)
	require.Equal(t, http.StatusConflict, res.StatusCode)
	require.Contains(t, res.body, "This form was sent before with other content.")
	form.Set("amount", "")
	require.Equal(t, http.StatusConflict, b.post(refundForms(p), form).StatusCode)
	require.Equal(t, 1, w.refunds())
}

// U-01: another operator refunds in between.
func TestU01_ASecondOperatorInBetweenIsNamed(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas)
	p := w.paidPayment()
	first, second := w.signedIn(store.RoleOperator), w.signedIn(store.RoleOperator)
	w.db.Exec(t, `UPDATE users SET name = 'Tom' WHERE id = $1`, second.user.ID)
	late := refundFormOf(t, second, p, "49.00")
	require.Equal(t, http.StatusSeeOther, first.post(refundForms(p), refundFormOf(t, first, p, "9.00")).StatusCode)
	jobs := w.jobs.count("operation")

	for name, send := range map[string]func(string, url.Values) reply{"plain": second.post, "htmx": second.postHTMX} {
		res := send(refundForms(p), late)
		require.Equal(t, http.StatusConflict, res.StatusCode, name)
		require.Contains(t, res.body, "Olena asked for a refund of 9.00\u00a0EUR at 15:02:11. Refundable is 40.00\u00a0EUR now, not 49.00\u00a0EUR. Nothing was changed and nothing was sent.")
		require.NotContains(t, res.body, `name="amount"`, "look again first")
		require.Equal(t, name == "plain", strings.Contains(res.body, "<html"), "a fragment for a dialog")
	}
	late.Set("reason", "")
	require.Equal(t, http.StatusConflict, second.post(refundForms(p), late).StatusCode, "what happened meanwhile matters more than an empty field")
	require.Equal(t, 1, w.refunds())
	require.Equal(t, jobs, w.jobs.count("operation"))
	require.Equal(t, http.StatusSeeOther, second.post(refundForms(p), refundFormOf(t, second, p, "40.00")).StatusCode)
	require.Equal(t, 2, w.refunds())
}

// U-01 at once: two operators with the same figures before them. One gets the refund, the
// other the news.
func TestU01_TwoOperatorsAtTheSameMoment(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas)
	p := w.paidPayment()
	codes := make([]int, 2)
	var wg sync.WaitGroup
	for i := range codes {
		b := w.signedIn(store.RoleOperator)
		form := refundFormOf(t, b, p, "49.00")
		wg.Go(func() { codes[i] = b.post(refundForms(p), form).StatusCode })
	}
	wg.Wait()
	require.ElementsMatch(t, []int{http.StatusSeeOther, http.StatusConflict}, codes)
	require.Equal(t, 1, w.refunds())
}

// M-04: amounts are read by their digits; what could mean two things is refused.
func TestM04_RefundAmountsAsTyped(t *testing.T) {
	t.Parallel()
	ctx := views.WithLocale(t.Context(), views.Locale{Lang: messages.English})
	for _, c := range []struct {
		typed, currency string
		want            int64
		why             string
	}{
		{"19.99", "EUR", 1999, ""}, {"8.20", "EUR", 820, ""}, {"4.35", "EUR", 435, ""}, {"10", "EUR", 1000, ""}, {"19,99", "EUR", 1999, ""},
		{"500", "JPY", 500, ""}, {"18.600", "KWD", 18600, ""},
		{"1,000.00", "EUR", 0, "without separators"}, {"1.000,00", "EUR", 0, "without separators"}, {"1,000", "EUR", 0, "without separators"},
		{"1,000", "KWD", 0, "without separators"}, {"0.005", "EUR", 0, "no more than 2 decimals"}, {"5.5", "JPY", 0, "no more than 0 decimals"},
		{"１０", "EUR", 0, "without separators"}, {"-1", "EUR", 0, "without separators"}, {"1e2", "EUR", 0, "without separators"},
		{"0", "EUR", 0, "more than zero"}, {"0.00", "EUR", 0, "more than zero"}, {"", "EUR", 0, "required"},
	} {
		got, why := readRefundAmount(ctx, c.typed, c.currency)
		require.Equal(t, c.want, got, "%s %s", c.typed, c.currency)
		require.Contains(t, why, c.why)
		require.Equal(t, c.why == "", why == "", "%s %s: %s", c.typed, c.currency, why)
	}
}

func TestRefundRefusesIncompleteForms(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas)
	p, b := w.paidPayment(), w.signedIn(store.RoleOperator)
	for field, c := range map[string]struct{ value, words string }{
		"amount":   {"19.999", "EUR has no more than 2 decimals."},
		"amount ":  {"1,000", "without separators between thousands"},
		"amount  ": {"49.01", "At most 49.00\u00a0EUR is refundable."},
		"reason":   {" ", "This is required."},
		"reason ":  {strings.Repeat("ж", maxReason+1), "At most 500 characters"},
	} {
		form := refundFormOf(t, b, p, "19.00")
		form.Set(strings.TrimSpace(field), c.value)
		res := b.postHTMX(refundForms(p), form)
		require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode, field)
		require.Contains(t, res.body, c.words)
		require.Contains(t, res.body, `value="`+form.Get("action_id")+`"`, "the form stays the same one")
	}
	for _, name := range []string{"action_id", "expected_refundable"} {
		form := refundFormOf(t, b, p, "19.00")
		form.Set(name, "x")
		require.Equal(t, http.StatusBadRequest, b.post(refundForms(p), form).StatusCode, name)
	}
	odd := w.paidPayment(func(p *store.Payment) { p.Currency, p.Amount = "HUF", 100000 })
	res := b.post(refundForms(odd), refundFormOf(t, b, odd, "1.50"))
	require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)
	require.Contains(t, res.body, "this provider takes HUF without decimals")
	require.Zero(t, w.refunds())
}

func TestRefundsAreForOperatorsAndProvidersThatCan(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas)
	p := w.paidPayment()
	support, operator := w.signedIn(store.RoleSupport), w.signedIn(store.RoleOperator)
	page := support.get(views.PaymentPath(p.ID.String())).body
	require.Contains(t, page, "Only Operator may do this")
	require.NotContains(t, page, `href="`+refundForms(p))

	mute := w.paidPayment(func(p *store.Payment) { p.Provider = "borealis" })
	page = operator.get(views.PaymentPath(mute.ID.String())).body
	require.NotContains(t, page, `href="`+refundForms(mute))
	require.Contains(t, page, "borealis cannot refund through Fusebox. Refund in its dashboard")
	for _, no := range []struct {
		p     store.Payment
		words string
	}{{mute, "borealis cannot refund"}, {w.db.SeedPayment(t, nil), "This payment is Unknown"},
		{w.paidPayment(func(p *store.Payment) { p.ProviderPaymentID = "" }), "id of the charge is not known"}} {
		res := operator.get(refundForms(no.p))
		require.Contains(t, res.body, no.words)
		require.NotContains(t, res.body, `name="amount"`)
		form := formOf(t, res.body)
		form.Set("amount", "1.00")
		form.Set("reason", "r")
		require.Equal(t, http.StatusConflict, operator.post(refundForms(no.p), form).StatusCode)
	}
	require.Zero(t, w.refunds())
	w.exercise(refundConfirmPage(refundForms(p)))
}

// refundConfirmPage is a refund's confirm page for exercise.
func refundConfirmPage(path string) page {
	return page{method: http.MethodGet, path: path, role: store.RoleOperator, absent: "/payments/" + uuid.NewString() + "/refund"}
}

// unknownRefund is a refund of p that went out and got no answer.
func (w *webtest) unknownRefund(p store.Payment, amount int64) store.Operation {
	w.t.Helper()
	made, err := w.store.CreateRefund(w.t.Context(), store.NewRefund{PaymentID: p.ID, Origin: store.OriginAPI, ClientID: "key",
		IdempotencyKey: uuid.NewString(), Amount: amount, Reason: hostile}, store.Actor{Kind: "client", ID: "shop"})
	require.NoError(w.t, err)
	a, _, err := w.store.BeginOperation(w.t.Context(), store.BeginOperationParams{OperationID: made.Operation.ID, Body: []byte(`{}`),
		KeyLife: time.Hour, Deadline: time.Minute, Worker: "test"})
	require.NoError(w.t, err)
	lost := provider.Charged{Exchange: provider.Exchange{WireSends: 1, HeaderWritten: true, FirstSentAt: w.clock.now()}}
	lost.Outcome, lost.Health, lost.Next, lost.Reason = provider.Unknown, provider.HealthFail, provider.NextReconcile, "timeout_after_send"
	var op store.Operation
	err = w.store.InTx(w.t.Context(), func(ctx context.Context, tx pgx.Tx) (err error) {
		op, err = w.store.FinishOperation(ctx, tx, store.FinishParams{AttemptID: a.ID, ReconcileAt: w.clock.now().Add(8 * time.Minute), RetryAt: w.clock.now().Add(time.Minute),
			Charged: lost})
		return err
	})
	require.NoError(w.t, err)
	require.Equal(w.t, store.Unknown, op.Status)
	return op
}

func TestUnknownRefundInPlainWords(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas)
	p, b := w.paidPayment(), w.signedIn(store.RoleOperator)
	op := w.unknownRefund(p, 1900)
	for _, l := range messages.Langs {
		b.cookies[cookieLang] = string(l)
		page := b.get(views.PaymentPath(p.ID.String()))
		require.Equal(t, http.StatusOK, page.StatusCode)
		require.NotContains(t, page.body, "&lt;no value&gt;")
		require.NotContains(t, page.body, `<script>alert`)
		ctx := views.WithLocale(t.Context(), views.Locale{Lang: l, Now: w.clock.now()})
		require.Contains(t, page.body, views.T(ctx, "refund.do.not_again"))
		require.NotContains(t, page.body, views.T(ctx, "customer.refunded_part", "Money", "", "Order", "", "Refunded", ""))
	}
	b.cookies[cookieLang] = "en"
	page := b.get(views.PaymentPath(p.ID.String())).body
	for _, words := range []string{"We sent the refund at 15:02:11 and got no answer.", "Do not refund again.", "Next check 15:10:11.",
		`href="/refunds/` + op.ID.String() + `/lookup"`, "Mark refunded", "Mark failed", "Whether 19.00\u00a0EUR went back is unknown.",
		"Answer to the refund", "sent, no answer in time"} {
		require.Contains(t, page, words)
	}
	require.Contains(t, page, "atlas confirmed 49.00\u00a0EUR", "the charge's own story is not the refund's")
	queue := b.get("/queue").body
	require.Contains(t, queue, "Refunds, captures and voids that need an answer")
	require.Contains(t, queue, "#refund-"+op.ID.String())
	require.Contains(t, queue, "No payment needs an answer.")
	require.NotContains(t, b.get("/queue?provider=borealis").body, op.ID.String())
	require.Contains(t, b.get("/").body, "1 refund, capture or void needs an answer")
	res := b.get("/refunds/" + op.ID.String())
	require.Equal(t, refundPlace(op), res.Header.Get("Location"))
	require.Equal(t, views.PaymentPath(p.ID.String()), b.get("/search?q="+op.ID.String()).Header.Get("Location"))
}

func TestAskAboutARefundOncePerAction(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas)
	op := w.unknownRefund(w.paidPayment(), 1900)
	b, path := w.signedIn(store.RoleSupport), refundPath(op)+"/lookup"
	before := w.jobs.count("operation_lookup")
	confirm := b.get(path)
	require.Contains(t, confirm.body, "Ask atlas about refund 1 of 19.00\u00a0EUR? No money moves.")
	require.Contains(t, confirm.body, "0 refunds are sent")
	form := formOf(t, confirm.body)
	for range 3 {
		require.Equal(t, http.StatusSeeOther, b.post(path, form).StatusCode)
	}
	require.Equal(t, before+1, w.jobs.count("operation_lookup"))
	require.Equal(t, 1, w.number(`SELECT count(*) FROM audit_log WHERE action = 'refund.lookup'`))
	require.Contains(t, b.get(views.PaymentPath(op.PaymentID.String())).body, "A person asked to check")

	w.db.Exec(t, `UPDATE operations SET version = version + 1`)
	stale := formOf(t, b.get(path).body)
	stale.Set("version", "1")
	res := b.post(path, stale)
	require.Equal(t, http.StatusConflict, res.StatusCode)
	require.Contains(t, res.body, "Nothing was changed.")
	require.Equal(t, http.StatusNotFound, b.get("/refunds/"+uuid.NewString()+"/lookup").StatusCode)
}

func TestResolveARefundOnEvidence(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas)
	p := w.paidPayment()
	op := w.unknownRefund(p, 1900)
	first, second := w.signedIn(store.RoleOperator), w.signedIn(store.RoleOperator)
	path := refundPath(op) + "/resolve"
	require.Equal(t, http.StatusForbidden, w.signedIn(store.RoleSupport).get(path+"?to=failed").StatusCode)
	fill := func(b *browser, to string) url.Values {
		form := formOf(t, b.get(path+"?to="+to).body)
		form.Set("reason", "Found in the dashboard of atlas")
		form.Set("evidence", "TICKET-9")
		return form
	}
	require.Contains(t, first.get(path+"?to=failed").body, "19.00\u00a0EUR becomes refundable again.")
	late := fill(second, "failed")
	short := fill(first, "succeeded")
	short.Set("evidence", "")
	require.Equal(t, http.StatusUnprocessableEntity, first.post(path, short).StatusCode)
	form := fill(first, "succeeded")
	for range 2 {
		require.Equal(t, refundPlace(op), first.post(path, form).Header.Get("Location"))
	}
	res := second.post(path, late)
	require.Equal(t, http.StatusConflict, res.StatusCode)
	require.Contains(t, res.body, "Olena marked this Refunded at 15:02:11. Nothing was changed.")
	require.Equal(t, 1, w.number(`SELECT count(*) FROM audit_log WHERE action = 'refund.resolve'`))
	page := first.get(views.PaymentPath(p.ID.String())).body
	require.Contains(t, page, "Olena marked it refunded at 15:02:11")
	require.Contains(t, page, "19.00\u00a0EUR of 49.00\u00a0EUR went back to the customer.")
	require.Contains(t, page, "We have refunded 19.00\u00a0EUR of your payment of 49.00\u00a0EUR")
	require.Contains(t, first.get("/payments.csv").body, ",4900,1900,19.00")
	require.Contains(t, first.get(path+"?to=failed").body, "there is nothing to decide")
	require.Equal(t, http.StatusUnprocessableEntity, first.get(path+"?to=pending").StatusCode)
}

// A wallet that cannot give the money back: try again, or let it keep it.
func TestResolveARefundThatTheWalletDoesNotCover(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas)
	wallet := w.db.SeedWallet(t, "acme", "EUR", 100)
	p := w.paidPayment(func(p *store.Payment) { p.WalletID = &wallet })
	op, b := w.unknownRefund(p, 1900), w.signedIn(store.RoleOperator)
	path := refundPath(op) + "/resolve"
	fill := func(to string) url.Values {
		res := b.get(path + "?to=" + to)
		form := formOf(t, res.body)
		form.Set("reason", "Found in the dashboard of atlas")
		form.Set("evidence", "TICKET-9")
		return form
	}
	require.Contains(t, b.get(path+"?to=succeeded").body, "Wallet acme holds 1.00\u00a0EUR, less than this.")
	require.Equal(t, http.StatusSeeOther, b.post(path, fill("succeeded")).StatusCode)
	require.Equal(t, 1, w.number(`SELECT count(*) FROM operations WHERE needs_review = '{wallet_short}' AND status = 'succeeded'`))
	require.Contains(t, b.get(views.PaymentPath(p.ID.String())).body, "A balance is never negative")
	require.Contains(t, b.get(path+"?to=succeeded").body, `name="wallet"`)

	form := fill("succeeded")
	form.Set("wallet", "take")
	res := b.post(path, form)
	require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)
	require.Contains(t, res.body, "The wallet still does not cover 19.00\u00a0EUR.")
	form.Set("wallet", "waive")
	require.Equal(t, http.StatusSeeOther, b.post(path, form).StatusCode)
	require.Equal(t, 1, w.number(`SELECT count(*) FROM operations WHERE wallet_waived AND needs_review = '{}'`))
	require.Equal(t, 100, w.number(`SELECT balance FROM wallets`))
}

// Every page about a refund: no session, not enough of a role, nothing there, no database.
func TestRefundPagesOweEverybody(t *testing.T) {
	t.Parallel()
	for what, role := range map[string]store.Role{"": store.RoleSupport, "/lookup": store.RoleSupport, "/resolve?to=failed": store.RoleOperator} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWebtest(t, refundingAtlas)
			op := w.unknownRefund(w.paidPayment(), 1900)
			w.exercise(page{method: http.MethodGet, path: refundPath(op) + what, role: role, absent: "/refunds/" + uuid.NewString() + what})
		})
	}
}

func TestDisputesOnThePaymentPageAndInTheQueue(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas)
	p, b := w.paidPayment(), w.signedIn(store.RoleOperator)
	w.seedDispute(p, func(d *store.Dispute) { d.Reason = hostile })
	far := w.paidPayment()
	w.seedDispute(far, func(d *store.Dispute) { due := w.clock.now().Add(240 * time.Hour); d.DueBy = &due })
	won := w.paidPayment()
	w.seedDispute(won, func(d *store.Dispute) { d.State = provider.DisputeWon })
	page := b.get(views.PaymentPath(p.ID.String())).body
	for _, words := range []string{"49.00\u00a0EUR at risk", "2026-03-03 11:02:11 UTC", "Due soon", "The customer’s bank disputes it"} {
		require.Contains(t, page, words)
	}
	require.NotContains(t, page, `<script>alert`)
	require.NotContains(t, b.get(views.PaymentPath(far.ID.String())).body, "Due soon")
	require.Contains(t, b.get(views.PaymentPath(won.ID.String())).body, "The bank decided for us")
	require.Contains(t, b.get(refundForms(p)).body, "a refund now may pay the customer twice")
	w.clock.advance(21 * time.Hour)
	b = w.signedIn(store.RoleOperator)
	require.Contains(t, b.get(views.PaymentPath(p.ID.String())).body, "Deadline passed")
	queue := b.get("/queue").body
	require.Less(t, strings.Index(queue, p.OrderRef), strings.Index(queue, far.OrderRef), "due first on top")
	require.NotContains(t, queue, won.OrderRef)
	require.Contains(t, b.get("/").body, "2 open disputes")
}

// A refund's own attempts and silences are not the charge's.
func TestRefundAttemptsAreNotTheCharges(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas)
	p := w.paidPayment()
	w.db.SeedAttempt(t, p, func(a *store.Attempt) { a.Outcome, a.HTTPStatus = "succeeded", 201 })
	w.unknownRefund(p, 1900)
	page := w.signedIn(store.RoleOperator).get(views.PaymentPath(p.ID.String())).body
	_, charge, _ := strings.Cut(page, `id="attempts-title"`)
	require.Equal(t, 1, strings.Count(charge, `id="attempt-`))
	require.Contains(t, page, "What was sent, and every answer")
}
