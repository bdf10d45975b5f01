package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/views"
)

func TestAboveTheLimitAMarkTakesTwoPeople(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas, func(c *Config) { c.FourEyes = map[string]int64{"JPY": 1, "*": 4899} })
	p := unknownPayment(t, w)
	path := views.AnswerPath(p.ID.String())
	olena, marc := w.signedIn(store.RoleOperator), w.signedIn(store.RoleOperator).named("Marc")
	support := w.signedIn(store.RoleSupport)
	require.Contains(t, olena.get(resolvePath(p)+"?to=succeeded").body, "above the limit for one person")
	second := decision(t, marc, p, "failed")
	res := olena.post(resolvePath(p), decision(t, olena, p, "succeeded"))
	require.Equal(t, http.StatusSeeOther, res.StatusCode)
	require.Equal(t, path, res.Header.Get("Location"))
	require.Equal(t, store.Unknown, w.payment(p.ID).Status)

	require.Contains(t, marc.get("/queue").body, "second person")
	page := marc.get(path).body
	for _, want := range []string{"A second person has to decide", "Olena proposed “Paid”", "TICKET-7", path + "/approve"} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, olena.get(path).body, path+"/approve")
	require.NotContains(t, support.get(path).body, path+"/approve")
	require.Equal(t, http.StatusForbidden, support.get(path+"/approve").StatusCode)
	require.Equal(t, http.StatusConflict, marc.post(resolvePath(p), second).StatusCode, "one proposal at a time")
	require.Contains(t, marc.get(resolvePath(p)+"?to=failed").body, "waits for a second person")
	require.Contains(t, olena.get(path+"/approve").body, "Somebody else has to approve")
	require.Equal(t, http.StatusConflict, olena.post(path+"/approve", formOf(t, olena.get(path+"/decline").body)).StatusCode)

	// The payment's own page says so too, to each what they may do about it.
	own := views.PaymentPath(p.ID.String())
	for b, want := range map[*browser]string{marc: path + "/approve", olena: path + "/decline"} {
		page := b.get(own)
		for _, text := range []string{"Olena proposed “Paid”", "TICKET-7", want} {
			require.Contains(t, page.body, text)
		}
		require.NotContains(t, page.body, own+"/resolve", "what would be refused meanwhile is not offered")
		live := strings.ReplaceAll(between(t, page.body[strings.Index(page.body, `id="payment-live"`):], `hx-get="`, `"`), "&amp;", "&")
		require.Contains(t, live, "me="+b.user.ID.String(), "the part that moves is the reader's own")
		require.Contains(t, b.htmx(live).body, want)
		require.Contains(t, b.htmx(own).body, "Decide on it in the queue", "a page from before the proposal leads there")
		require.NotContains(t, b.htmx(own).body, path+"/approve")
	}
	require.NotContains(t, olena.get(own).body, path+"/approve")
	require.NotContains(t, support.get(own).body, path+"/approve")
	require.Contains(t, support.get(own).body, "Olena proposed")
	require.Equal(t, http.StatusUnprocessableEntity, marc.htmx(own+"?me="+olena.user.ID.String()).StatusCode)

	late := formOf(t, marc.get(path+"/decline").body)
	require.Equal(t, http.StatusSeeOther, marc.confirmed(path+"/approve").StatusCode)
	require.Equal(t, store.Succeeded, w.payment(p.ID).Status)
	require.NotContains(t, marc.get(own).body, "Waits for a second person")
	require.Equal(t, 5900, w.number(`SELECT balance FROM wallets`))
	require.Equal(t, http.StatusConflict, marc.post(path+"/decline", late).StatusCode)
	require.Contains(t, marc.get(path+"/approve").body, "No proposal stands any more")

	small := w.db.SeedPayment(t, func(p *store.Payment) { p.Amount = 4899 })
	require.Equal(t, http.StatusSeeOther, olena.post(resolvePath(small), decision(t, olena, small, "failed")).StatusCode)
	require.Equal(t, store.Failed, w.payment(small.ID).Status, "at the limit one person is enough")
}
