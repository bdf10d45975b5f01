package web

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/messages"
)

func TestSearchReadsMoneyAsAnyLanguageWritesIt(t *testing.T) {
	t.Parallel()
	eur := provider.Money{Amount: 490050, Currency: "EUR"}
	for _, text := range []string{"4900.50 EUR", "EUR 4900.50", "4900,50 €", "€4,900.50", "4.900,50 €", "4 900,50 EUR", "4\u202f900,50\u00a0EUR", "4900.50eur"} {
		got, _ := searchMoney(text)
		require.Equal(t, []provider.Money{eur}, got, text)
	}
	got, minor := searchMoney("4900")
	require.Contains(t, got, provider.Money{Amount: 490000, Currency: "EUR"})
	require.Contains(t, minor, provider.Money{Amount: 4900, Currency: "EUR"})
	got, _ = searchMoney("1,000")
	require.Contains(t, got, provider.Money{Amount: 100000, Currency: "EUR"})
	require.Contains(t, got, provider.Money{Amount: 1000, Currency: "KWD"}, "a dinar has three decimals")
	for _, l := range messages.Langs { // what the console prints, it finds
		ctx := views.WithLocale(t.Context(), views.Locale{Lang: l})
		got, _ := searchMoney(views.Money(ctx, 1234567890, "EUR"))
		require.Contains(t, got, provider.Money{Amount: 1234567890, Currency: "EUR"}, l)
	}
	for _, text := range []string{"", "EUR", "-5", "1e5", "12.34.56", "1,00,000", "49 XXX", "ORD-49", "99999999999999999999", "0"} {
		got, minor := searchMoney(text)
		require.Empty(t, append(got, minor...), text)
	}
}

func TestSearchSaysByWhatAndWhatItLookedAt(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	p := w.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef = "A-1" })
	w.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef = "A-12" })
	b := w.signedIn(store.RoleSupport)
	res := b.get("/search?q=A-1")
	require.Equal(t, http.StatusSeeOther, res.StatusCode, "the whole name beats a beginning")
	require.Equal(t, views.PaymentPath(p.ID.String()), res.Header.Get("Location"))
	require.Contains(t, b.get("/search?q=a-").body, "beginning of the order reference")
	require.Contains(t, b.get("/search?q="+url.QueryEscape("49,00 €")).body, "exact amount")
	require.Contains(t, b.get("/search?q=4900").body, "amount in minor units")
	none := b.get("/search?q=" + url.QueryEscape(hostile+"x")).body
	require.Contains(t, none, "was looked up as:")
	require.Contains(t, none, "wallet, by id or owner")
	require.NotContains(t, none, hostile)
}
