package web

import (
	"context"
	"errors"
	"net/http"
	"net/mail"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
)

// clientCheckout is the scope of the checkout page's idempotency keys.
const clientCheckout = "checkout"

// products of the demo shop. Prices live here, never in the form.
var products = []views.Product{
	{ID: "lamp", Label: "checkout.product.lamp", Amount: 14900, Currency: "EUR"},
	{ID: "notebook", Label: "checkout.product.notebook", Amount: 2450, Currency: "USD"},
	{ID: "print", Label: "checkout.product.print", Amount: 12800, Currency: "JPY"},
	{ID: "topup", Label: "checkout.product.topup", Amount: 5000, Currency: "EUR"},
	{ID: "fault", Label: "checkout.product.fault", Amount: 66604, Currency: "EUR"},
}

// topUp is the product that credits the shopper's wallet.
const topUp = "topup"

// checkoutPage shows the form. The key born here is the customer's intent: the same
// page sent twice, reloaded or gone back to is the same payment.
func (s *Server) checkoutPage(c echo.Context) error {
	v := views.CheckoutView{Key: uuid.Must(uuid.NewV7()).String(), Product: products[0].ID,
		Name: "Ada Palmer", Email: "ada@example.org"}
	if names := s.providerNames(); len(names) > 0 {
		v.Provider = names[0]
	}
	return s.renderCheckout(c, http.StatusOK, v)
}

func (s *Server) renderCheckout(c echo.Context, status int, v views.CheckoutView) error {
	ctx := s.viewContext(c)
	v.Page, v.Products, v.Providers = s.publicPage(c, views.T(ctx, "checkout.title")), products, s.providerNames()
	return s.render(c, status, views.Checkout(v))
}

// publicPage is the frame of a page for customers: how they read, and nothing of the
// console, even when a member of staff looks.
func (s *Server) publicPage(c echo.Context, title string) views.Page {
	t := s.tasteOf(c)
	return views.Page{Title: title, ZoneUTC: t.utc || t.own == nil, ZoneName: t.ownName, Here: here(c)}
}

// postCheckout takes the order. It answers at once: the charge is a job.
func (s *Server) postCheckout(c echo.Context) error {
	ctx := s.viewContext(c)
	v := views.CheckoutView{Key: c.FormValue("key"), Product: c.FormValue("product"), Provider: c.FormValue("provider"),
		Name: strings.TrimSpace(c.FormValue("name")), Email: strings.TrimSpace(c.FormValue("email"))}
	product, ok := s.checkCheckout(ctx, &v)
	if !ok {
		return s.renderCheckout(c, http.StatusUnprocessableEntity, v)
	}
	order := store.NewPayment{ClientID: clientCheckout, IdempotencyKey: v.Key, OrderRef: "SHOP-" + strings.ToUpper(v.Key[24:]),
		Provider: v.Provider, Amount: product.Amount, Currency: product.Currency, Description: "Lantern & Co.: " + product.ID,
		CustomerName: v.Name, CustomerEmail: v.Email, Metadata: map[string]string{"product": product.ID}}
	by := store.Actor{Kind: "client", ID: clientCheckout, Name: clientCheckout, RequestID: requestIDOf(c)}
	if product.ID == topUp {
		w, _, err := s.cfg.Store.CreateWallet(ctx, "shopper:"+strings.ToLower(v.Email), product.Currency, by)
		if err != nil {
			return err
		}
		order.WalletID = &w.ID
	}
	created, err := s.cfg.Store.CreatePayment(ctx, order, by)
	if errors.Is(err, store.ErrKeyReused) {
		v.Key = uuid.Must(uuid.NewV7()).String()
		v.Errors = map[string]string{"key": views.T(ctx, "checkout.bad.reused")}
		return s.renderCheckout(c, http.StatusUnprocessableEntity, v)
	}
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, views.PathCheckout+"/"+created.Payment.ID.String())
}

// checkCheckout validates the form, in the customer's words.
func (s *Server) checkCheckout(ctx context.Context, v *views.CheckoutView) (views.Product, bool) {
	v.Errors = map[string]string{}
	if key, err := uuid.Parse(v.Key); err != nil || key.String() != v.Key {
		v.Key = uuid.Must(uuid.NewV7()).String()
		v.Errors["key"] = views.T(ctx, "checkout.bad.key")
	}
	var product views.Product
	for _, p := range products {
		if p.ID == v.Product {
			product = p
		}
	}
	if product.ID == "" {
		v.Product, v.Errors["product"] = products[0].ID, views.T(ctx, "checkout.bad.product")
	}
	if _, ok := s.settings(v.Provider); !ok {
		v.Errors["provider"] = views.T(ctx, "checkout.bad.provider")
	}
	if n := utf8.RuneCountInString(v.Name); n == 0 || n > 200 {
		v.Errors["name"] = views.T(ctx, "checkout.bad.name")
	}
	if a, err := mail.ParseAddress(v.Email); err != nil || a.Address != v.Email || len(v.Email) > 200 {
		v.Errors["email"] = views.T(ctx, "checkout.bad.email")
	}
	return product, len(v.Errors) == 0
}

// receiptPage says how the payment stands: 202 and refreshing by itself while it is not
// final, without JavaScript.
func (s *Server) receiptPage(c echo.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	p, err := s.cfg.Store.Payment(c.Request().Context(), id)
	if err != nil {
		return err
	}
	if p.ClientID != clientCheckout { // other payments are nobody's business here
		return store.ErrNotFound
	}
	ctx := s.viewContext(c)
	v := views.ReceiptView{Page: s.publicPage(c, views.T(ctx, "checkout.title")), ID: p.ID.String(), OrderRef: p.OrderRef,
		Status: string(p.Status), Email: p.CustomerEmail, Amount: p.Amount, Currency: p.Currency}
	status := http.StatusOK
	if !p.Status.Final() {
		status, v.Refresh = http.StatusAccepted, refreshAfter(s.cfg.Now().Sub(p.CreatedAt))
	}
	return s.render(c, status, views.Receipt(v))
}

// refreshAfter slows the polling of a customer who waits long.
func refreshAfter(age time.Duration) string {
	switch {
	case age < 30*time.Second:
		return "2"
	case age < 5*time.Minute:
		return "5"
	}
	return "30"
}
