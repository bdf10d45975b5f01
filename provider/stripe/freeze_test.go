package stripe

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

func request(m provider.Money) provider.ChargeRequest {
	return provider.ChargeRequest{PaymentID: "p1", OrderRef: "o1", Money: m, Description: "Two tickets",
		CustomerName: "Zoë", CustomerEmail: "zoe@example.com"}
}

// The bytes that are stored and sent, to the letter: a new stripe-go that encodes
// otherwise must not go unseen.
func TestFrozenRequest(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	body, err := a.Freeze(request(provider.Money{Amount: 4900, Currency: "EUR"}))
	require.NoError(t, err)
	require.Equal(t, "amount=4900"+
		"&automatic_payment_methods[allow_redirects]=never&automatic_payment_methods[enabled]=true"+
		"&capture_method=automatic&confirm=true&currency=eur&description=Two+tickets"+
		"&metadata[customer_email]=zoe%40example.com&metadata[customer_name]=Zo%C3%AB&metadata[order_ref]=o1&metadata[payment_id]=p1"+
		"&off_session=true&payment_method=pm_card_visa", string(body))
}

// Literals as Stripe documents them, never a value converted by our own inverse.
func TestM01_WireAmounts(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	for _, tt := range []struct {
		money provider.Money
		wire  string // empty: refused
	}{
		{provider.Money{Amount: 1000, Currency: "EUR"}, "1000"},
		{provider.Money{Amount: 500, Currency: "JPY"}, "500"},
		{provider.Money{Amount: 500, Currency: "KRW"}, "500"},
		{provider.Money{Amount: 500, Currency: "CLP"}, "500"},
		{provider.Money{Amount: 500, Currency: "VND"}, "500"},
		{provider.Money{Amount: 500, Currency: "XOF"}, "500"},
		{provider.Money{Amount: 5, Currency: "UGX"}, "500"},
		{provider.Money{Amount: 5, Currency: "ISK"}, "500"},
		{provider.Money{Amount: 1045, Currency: "HUF"}, "1045"},
		{provider.Money{Amount: 80045, Currency: "TWD"}, "80045"},
		{provider.Money{Amount: 18600, Currency: "KWD"}, "18600"},
		{provider.Money{Amount: 18605, Currency: "KWD"}, ""},
		{provider.Money{Amount: 5124, Currency: "TND"}, ""},
		{provider.Money{Amount: 1500, Currency: "MGA"}, "15"},
		{provider.Money{Amount: 1550, Currency: "MGA"}, ""},
		{provider.Money{Amount: 100, Currency: "LYD"}, ""},
		{provider.Money{Amount: 100, Currency: "XXX"}, ""},
		{provider.Money{Amount: provider.MaxAmount, Currency: "UGX"}, "100000000000000"},
	} {
		body, err := a.Freeze(request(tt.money))
		if tt.wire == "" {
			var field *provider.FieldError
			require.ErrorAs(t, err, &field, "%+v", tt.money)
			require.Contains(t, []string{"amount", "currency"}, field.Field)
			continue
		}
		require.NoError(t, err, "%+v", tt.money)
		form, err := url.ParseQuery(string(body))
		require.NoError(t, err)
		require.Equal(t, tt.wire, form.Get("amount"), tt.money.Currency)
		require.Equal(t, strings.ToLower(tt.money.Currency), form.Get("currency"))
	}
}

// What Stripe says in its units is read in ours, or not at all.
func TestM02_AmountsBack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		units int64
		code  string
		minor int64
		ok    bool
	}{
		{1000, "EUR", 1000, true}, {500, "JPY", 500, true}, {500, "UGX", 5, true}, {550, "UGX", 0, false}, {500, "ISK", 5, true},
		{1045, "HUF", 1045, true}, {18600, "KWD", 18600, true}, {15, "MGA", 1500, true}, {1, "QQQ", 0, false}, {-1, "EUR", 0, false},
		{1 << 62, "MGA", 0, false},
	} {
		got, ok := fromUnits(tt.units, tt.code)
		require.Equal(t, tt.ok, ok, "%d %s", tt.units, tt.code)
		require.Equal(t, tt.minor, got.Amount, "%d %s", tt.units, tt.code)
	}
}

func TestFreezeNamesTheField(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxText+1)
	a := newFake(t).adapter(t)
	for field, edit := range map[string]func(*provider.ChargeRequest){
		"reference":               func(r *provider.ChargeRequest) { r.PaymentID = "" },
		"description":             func(r *provider.ChargeRequest) { r.Description = long },
		"order_ref":               func(r *provider.ChargeRequest) { r.OrderRef = long },
		"customer.name":           func(r *provider.ChargeRequest) { r.CustomerName = long },
		"customer.email":          func(r *provider.ChargeRequest) { r.CustomerEmail = long },
		"metadata.customer_id":    func(r *provider.ChargeRequest) { r.CustomerID = long },
		"metadata.payment_method": func(r *provider.ChargeRequest) { r.PaymentMethod = long },
	} {
		r := request(provider.Money{Amount: 100, Currency: "EUR"})
		edit(&r)
		_, err := a.Freeze(r)
		var refused *provider.FieldError
		require.ErrorAs(t, err, &refused, field)
		require.Equal(t, field, refused.Field)
	}
}

// A live account has no test card: without a stored payment method nothing is sent.
func TestLiveChargesNeedAPaymentMethod(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	live := f.adapter(t, func(s *provider.Settings) { s.APIKey, s.BaseURL = "sk_live_abc", "https://stripe.test" })
	r := request(provider.Money{Amount: 100, Currency: "EUR"})
	_, err := live.Freeze(r)
	var refused *provider.FieldError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "metadata.payment_method", refused.Field)

	r.PaymentMethod, r.CustomerID = "pm_1", "cus_1"
	body, err := live.Freeze(r)
	require.NoError(t, err)
	form, err := url.ParseQuery(string(body))
	require.NoError(t, err)
	require.Equal(t, "pm_1", form.Get("payment_method"))
	require.Equal(t, "cus_1", form.Get("customer"))
}
