package web

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/bojanz/currency"
	"github.com/labstack/echo/v4"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
)

// searchPage finds by anything that names something; exactly one hit is gone to at once.
func (s *Server) searchPage(c echo.Context) error {
	q := strings.TrimSpace(c.QueryParam("q"))
	if tooLong(q) {
		return invalid("q", "is longer than 200 characters")
	}
	ctx := s.viewContext(c)
	amounts, minor := searchMoney(q)
	found, err := s.cfg.Store.Search(ctx, q, amounts, minor...)
	if err != nil {
		return err
	}
	if found.Total() == 1 && !found.More {
		return c.Redirect(http.StatusSeeOther, onlyHit(found))
	}
	v := views.SearchView{Query: q, Page: s.page(c, "", views.T(ctx, "search.title")), Payments: paymentRows(found.Payments),
		Limit: store.SearchLimit, More: found.More, FoundBy: map[string][]string{}}
	for id, fields := range found.Fields {
		v.FoundBy[id.String()] = fields
	}
	for _, e := range found.Webhooks {
		v.Webhooks = append(v.Webhooks, webhookRow(e))
	}
	for _, w := range found.Wallets {
		v.Wallets = append(v.Wallets, walletRow(w))
	}
	for _, r := range found.Runs {
		v.Runs = append(v.Runs, runRow(r))
	}
	return s.render(c, http.StatusOK, views.Search(v))
}

// symbols are the currency signs and words that the console's languages write.
var symbols = map[string]string{"€": "EUR", "£": "GBP", "$": "USD", "¥": "JPY", "₴": "UAH", "грн": "UAH", "zł": "PLN", "₣": "CHF"}

// searchMoney reads an amount in any of the console's languages ("49,00 €", "49.00 EUR",
// "1 234,50", "4900") into every exact amount it can mean, also as minor units. A search
// may try two readings of "1,000" where a filter has to refuse it.
func searchMoney(text string) (amounts, minor []provider.Money) {
	number, code := strings.ToUpper(strings.TrimSpace(text)), ""
	for sign, c := range symbols {
		if strings.Contains(number, strings.ToUpper(sign)) {
			number, code = strings.Replace(number, strings.ToUpper(sign), "", 1), c
		}
	}
	letters := strings.Trim(number, "0123456789.,'’ \u00a0\u202f")
	if code == "" && isCurrencyCode(letters) {
		number, code = strings.Replace(number, letters, "", 1), letters
	}
	codes := currency.GetCurrencyCodes()
	if code != "" {
		codes = []string{code}
	}
	readings := readNumber(number)
	for _, c := range codes {
		for i, r := range readings {
			if m, err := provider.DecimalToMinor(r, c); err == nil {
				amounts = append(amounts, provider.Money{Amount: m, Currency: c})
			}
			if m, err := strconv.ParseInt(r, 10, 64); i == 0 && err == nil && m > 0 && m <= provider.MaxAmount {
				minor = append(minor, provider.Money{Amount: m, Currency: c})
			}
		}
	}
	return amounts, minor
}

// grouped matches digits in groups of three.
var grouped = regexp.MustCompile(`^\d{1,3}([.,]\d{3})+$`)

// readNumber reads digits with the marks of any of the languages as a number with a dot:
// none, one or two readings.
func readNumber(text string) []string {
	text = strings.NewReplacer(" ", "", "\u00a0", "", "\u202f", "", "'", "", "’", "").Replace(text)
	if strings.Trim(text, "0123456789.,") != "" || text == "" {
		return nil
	}
	plain := strings.NewReplacer(".", "", ",", "")
	last := strings.LastIndexAny(text, ".,")
	var out []string
	if last >= 0 && strings.Count(text, text[last:last+1]) == 1 {
		whole := text[:last]
		if !strings.ContainsAny(whole, ".,") || grouped.MatchString(whole) {
			out = append(out, plain.Replace(whole)+"."+text[last+1:])
		}
	}
	if last < 0 || grouped.MatchString(text) {
		out = append(out, plain.Replace(text))
	}
	return out
}

func onlyHit(f store.Found) string {
	switch {
	case len(f.Payments) == 1:
		return views.PaymentPath(f.Payments[0].ID.String())
	case len(f.Webhooks) == 1:
		return views.WebhookPath(f.Webhooks[0].ID)
	case len(f.Wallets) == 1:
		return views.WalletPath(f.Wallets[0].ID.String())
	}
	return views.RunPath(f.Runs[0].ID.String())
}
