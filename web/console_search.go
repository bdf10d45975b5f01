package web

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

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
	found, err := s.cfg.Store.Search(ctx, q, parseMoney(q, ""))
	if err != nil {
		return err
	}
	if found.Total() == 1 && !found.More {
		return c.Redirect(http.StatusSeeOther, onlyHit(found))
	}
	v := views.SearchView{Query: q, Page: s.page(c, "", views.T(ctx, "search.title")), Payments: paymentRows(found.Payments),
		Limit: store.SearchLimit, More: found.More}
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
