package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/store/storetest"
	"fusebox/views"
	"fusebox/views/messages"
)

// paidTwice is 49.00 EUR that atlas took as pay_ID and, a second later, as twin_ID.
func (w *webtest) paidTwice(change ...func(*store.Payment)) (p store.Payment, twin string) {
	w.t.Helper()
	p = w.paidPayment(append(change, func(p *store.Payment) { p.NeedsReview = []string{store.ReviewDuplicate} })...)
	twin = "twin_" + p.ID.String()
	for i, id := range []string{p.ProviderPaymentID, twin} {
		w.db.SeedObject(w.t, p, func(o *store.ProviderObject) {
			o.ObjectID, o.FirstSeenAt = id, storetest.Epoch.Add(time.Duration(i)*time.Second)
		})
	}
	w.db.Exec(w.t, `UPDATE provider_objects SET succeeded_at = first_seen_at, equal_at = first_seen_at, outcome_at = first_seen_at WHERE payment_id = $1`, p.ID)
	return p, twin
}

func duplicateForms(p store.Payment, charge string) string {
	return duplicatePath(p) + "?" + url.Values{"charge": {charge}}.Encode()
}

// duplicateFormOf fills the form of a page that was just opened.
func duplicateFormOf(t *testing.T, b *browser, p store.Payment, charge string) url.Values {
	t.Helper()
	res := b.get(duplicateForms(p, charge))
	require.Equal(t, http.StatusOK, res.StatusCode, res.body)
	form := formOf(t, res.body)
	form.Set("reason", "Charged twice")
	return form
}

func TestDuplicateChargeGoesBackWhole(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas)
	wallet := w.db.SeedWallet(t, "acme", "EUR", 4900)
	p, twin := w.paidTwice(func(p *store.Payment) { p.WalletID = &wallet })
	b := w.signedIn(store.RoleOperator)
	page := b.get(views.PaymentPath(p.ID.String())).body
	require.Contains(t, page, `href="`+duplicateForms(p, twin)+`"`)
	require.Contains(t, page, "Refund the second charge")
	require.Contains(t, page, "Only this one has to go back.")
	confirm := b.get(duplicateForms(p, twin)).body
	for _, words := range []string{"Stays: the payment’s own charge", "Goes back: the extra charge", p.ProviderPaymentID, twin,
		"49.00\u00a0EUR goes back to the customer: the whole of the extra charge.", "with 49.00\u00a0EUR of it refundable",
		"the customer has paid 98.00\u00a0EUR; afterwards 49.00\u00a0EUR.", "Wallet acme is not touched", "It stays at 49.00\u00a0EUR.",
		"When atlas confirms it, the review of the duplicate is settled by itself.", "1 refund is queued for atlas; 0 charges."} {
		require.Contains(t, confirm, words)
	}
	require.NotContains(t, confirm, `name="amount"`, "it goes back whole")
	form := duplicateFormOf(t, b, p, twin)
	require.Equal(t, "4900", form.Get("expected_refundable"))
	form.Set("reason", "")
	require.Equal(t, http.StatusUnprocessableEntity, b.post(duplicatePath(p), form).StatusCode)
	form.Set("reason", "Charged twice")
	for range 2 { // Back, and sent again
		require.Equal(t, http.StatusSeeOther, b.post(duplicatePath(p), form).StatusCode)
	}
	require.Equal(t, 1, w.refunds())
	require.Equal(t, 1, w.jobs.count("operation"))
	require.Equal(t, 1, w.number(`SELECT count(*) FROM operations WHERE provider_payment_id = $1 AND amount = 4900`, twin))
	require.Equal(t, 1, w.number(`SELECT count(*) FROM audit_log WHERE action = 'refund.create' AND actor = $1 AND reason = 'Charged twice'`, "user:"+b.user.ID.String()))
	page = b.get(views.PaymentPath(p.ID.String())).body
	require.Contains(t, page, "Its refund is under way. The review is settled when atlas confirms it.")
	require.NotContains(t, page, `href="`+duplicateForms(p, twin)+`"`)
	require.Contains(t, page, `href="`+refundForms(p)+`"`, "the payment's own can still be refunded in its own way")

	form.Set("reason", "Another one")
	require.Contains(t, b.post(duplicatePath(p), form).body, "This form was sent before with other content.")
	w.db.Exec(t, `UPDATE operations SET status = 'succeeded'`)
	require.Contains(t, b.get(views.PaymentPath(p.ID.String())).body, "Given back whole. The payment’s own charge stays.")
}

// What is not a duplicate any more, or never was, is not refunded this way.
func TestDuplicateChargeThatIsNone(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas)
	p, twin := w.paidTwice()
	first, second := w.signedIn(store.RoleOperator), w.signedIn(store.RoleOperator)
	late := duplicateFormOf(t, second, p, twin)
	require.Equal(t, http.StatusSeeOther, first.post(duplicatePath(p), duplicateFormOf(t, first, p, twin)).StatusCode)
	for name, send := range map[string]func(string, url.Values) reply{"plain": second.post, "htmx": second.postHTMX} {
		res := send(duplicatePath(p), late)
		require.Equal(t, http.StatusConflict, res.StatusCode, name)
		require.Contains(t, res.body, "Olena asked for a refund of 49.00\u00a0EUR at ", name)
		require.Contains(t, res.body, "Refundable is 0.00\u00a0EUR now, not 49.00\u00a0EUR.", name)
		require.NotContains(t, res.body, `name="reason"`, name)
	}
	require.Contains(t, second.get(duplicateForms(p, twin)).body, "Olena asked for a refund of 49.00\u00a0EUR")

	own := late
	own.Set("charge", p.ProviderPaymentID)
	require.Equal(t, http.StatusConflict, second.post(duplicatePath(p), own).StatusCode)
	require.Contains(t, second.get(duplicateForms(p, p.ProviderPaymentID)).body, "This is the payment’s own charge. It stays")
	require.Contains(t, second.get(duplicateForms(p, "pay_x")).body, "Nothing proves that atlas took the money a second time")
	require.Equal(t, 1, w.refunds())
	for _, missing := range []string{"action_id", "expected_refundable"} {
		form := url.Values{"charge": {twin}, "action_id": {newActionID()}, "expected_refundable": {"4900"}, "csrf": late["csrf"]}
		for k, v := range late {
			if _, known := form[k]; !known {
				form[k] = v
			}
		}
		form.Del(missing)
		require.Equal(t, http.StatusBadRequest, second.post(duplicatePath(p), form).StatusCode, missing)
	}
	for id, words := range map[string]string{"": "borealis cannot refund"} {
		q, other := w.paidTwice(func(p *store.Payment) { p.Provider = "borealis" })
		require.Contains(t, first.get(duplicateForms(q, other)).body, words, id)
		require.NotContains(t, first.get(views.PaymentPath(q.ID.String())).body, "refund/duplicate")
	}
	viewer := w.signedIn(store.RoleSupport)
	require.Equal(t, http.StatusForbidden, viewer.get(duplicateForms(p, twin)).StatusCode)
	require.Equal(t, http.StatusForbidden, viewer.post(duplicatePath(p), late).StatusCode)
}

// With a third charge the review stays, and the page says so; in every language it is
// the same page.
func TestDuplicateOfThree(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas)
	p, twin := w.paidTwice()
	w.db.SeedObject(t, p, func(o *store.ProviderObject) { o.ObjectID = "third_" + p.ID.String() })
	w.db.Exec(t, `UPDATE provider_objects SET succeeded_at = first_seen_at WHERE payment_id = $1`, p.ID)
	b := w.signedIn(store.RoleOperator)
	confirm := b.get(duplicateForms(p, twin)).body
	require.Contains(t, confirm, "1 other extra charge remains, and the review with it.")
	require.Contains(t, confirm, "the customer has paid 147.00\u00a0EUR; afterwards 98.00\u00a0EUR.")
	require.Equal(t, 4, strings.Count(b.get(views.PaymentPath(p.ID.String())).body, "Refund this extra charge"))
	for _, l := range []messages.Lang{messages.French, messages.Spanish, messages.Ukrainian} {
		w.db.Exec(t, `UPDATE users SET locale = $1 WHERE id = $2`, string(l), b.user.ID)
		require.Equal(t, http.StatusOK, b.get(duplicateForms(p, twin)).StatusCode)
	}
}

func TestAPIRefundOfADuplicate(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, refundingAtlas)
	api := w.backOffice()
	p, twin := w.paidTwice()
	type listed struct {
		Refundable int64
		Duplicates []duplicateJSON
		Data       []refundJSON
	}
	read := func() listed {
		return decode[listed](t, api.call(http.MethodGet, "/payments/"+p.ID.String()+"/refunds", ""))
	}
	require.Len(t, read().Duplicates, 1)
	require.Equal(t, twin, read().Duplicates[0].ChargeID)
	require.Equal(t, int64(4900), read().Duplicates[0].Refundable)
	for name, c := range map[string]struct{ body, field string }{
		"own":        {`{"charge_id":"` + p.ProviderPaymentID + `","reason":"twice"}`, "charge_id"},
		"a part":     {`{"charge_id":"` + twin + `","amount":100,"reason":"twice"}`, "amount"},
		"too much":   {`{"charge_id":"` + twin + `","amount":4901,"reason":"twice"}`, "amount"},
		"unknown":    {`{"charge_id":"pay_x","reason":"twice"}`, "charge_id"},
		"old figure": {`{"charge_id":"` + twin + `","reason":"twice","expected_refundable":100}`, "expected_refundable"},
	} {
		problemField(t, api.refund(p, "bad "+name, c.body), http.StatusConflict, c.field)
	}
	require.Zero(t, w.refunds())
	body := `{"charge_id":"` + twin + `","reason":"twice","expected_refundable":4900}`
	res := api.refund(p, "k1", body)
	require.Equal(t, http.StatusAccepted, res.StatusCode, res.body)
	made := decode[refundJSON](t, res)
	require.Equal(t, twin, made.ChargeID)
	require.Equal(t, int64(4900), made.Amount)
	again := api.refund(p, "k1", body)
	require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
	require.JSONEq(t, res.body, again.body)
	require.Equal(t, 1, w.refunds())
	require.Equal(t, int64(4900), read().Refundable, "the payment's own charge is untouched")
	require.Equal(t, int64(4900), read().Duplicates[0].Pending)
	problemField(t, api.refund(p, "k2", `{"charge_id":"`+twin+`","reason":"twice"}`), http.StatusConflict, "amount")
}
