package adyen

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

var (
	euros = provider.Money{Amount: 4900, Currency: "EUR"}
	order = provider.ChargeRequest{
		PaymentID: "0198f3a2-5b7c-7d11-8a44-0d6a3c1f2b90", OrderRef: "ORD-7", Money: euros, Description: "Two chairs",
		CustomerName: "Ada Palmer", CustomerEmail: "ada@example.org", PaymentMethod: "8415718415172204", CustomerID: "shopper_1",
	}
)

func TestTheRequestIsAdyens(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t, func(s *provider.Settings) { s.Account = testAccount + " https://shop.example/return" })
	body, err := a.Freeze(order)
	require.NoError(t, err)
	require.JSONEq(t, `{"merchantAccount":"ShopECOM","amount":{"currency":"EUR","value":4900},
		"reference":"0198f3a2-5b7c-7d11-8a44-0d6a3c1f2b90","merchantOrderReference":"ORD-7",
		"paymentMethod":{"type":"scheme","storedPaymentMethodId":"8415718415172204"},"shopperReference":"shopper_1",
		"shopperInteraction":"ContAuth","recurringProcessingModel":"UnscheduledCardOnFile","returnUrl":"https://shop.example/return"}`, string(body))
	require.NotContains(t, string(body), "Ada", "Adyen knows the shopper by a reference")
	got := a.Charge(t.Context(), "charge-"+order.PaymentID, body, euros)
	require.Equal(t, provider.Succeeded, got.Outcome, "%+v", got.Classification)
	h := f.headers[0]
	require.Equal(t, testKey, h.Get("X-API-Key"))
	require.Equal(t, "charge-"+order.PaymentID, h.Get("Idempotency-Key"))
	require.Equal(t, "application/json", h.Get("Content-Type"))
	require.Equal(t, "8535296650153317", got.Exchange.RequestID)

	r := order
	r.PaymentMethod = "sepadirectdebit:8415"
	body, err = a.Freeze(r)
	require.NoError(t, err)
	require.Contains(t, string(body), `"paymentMethod":{"type":"sepadirectdebit","storedPaymentMethodId":"8415"}`)
}

func TestFreezeNamesTheField(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	for field, spoil := range map[string]func(*provider.ChargeRequest){
		"reference":               func(r *provider.ChargeRequest) { r.PaymentID = "a:b" },
		"metadata.payment_method": func(r *provider.ChargeRequest) { r.PaymentMethod = "" },
		"metadata.customer_id":    func(r *provider.ChargeRequest) { r.CustomerID = "ab" },
		"order_ref":               func(r *provider.ChargeRequest) { r.OrderRef = strings.Repeat("é", 1001) },
		"amount":                  func(r *provider.ChargeRequest) { r.Money.Amount = 0 },
		"currency":                func(r *provider.ChargeRequest) { r.Money.Currency = "XQQ" },
	} {
		r := order
		spoil(&r)
		_, err := a.Freeze(r)
		var fe *provider.FieldError
		require.ErrorAs(t, err, &fe, field)
		require.Equal(t, field, fe.Field)
	}
}

// M-01, M-02: literals of Adyen's table, never a value converted by our own inverse.
func TestM01_WireAmounts(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	for _, c := range []struct {
		amount   int64
		currency string
		want     string
	}{
		{4900, "EUR", `{"currency":"EUR","value":4900}`},
		{500, "JPY", `{"currency":"JPY","value":500}`},
		{18600, "KWD", `{"currency":"KWD","value":18600}`},
		{18605, "KWD", `{"currency":"KWD","value":18605}`},
		{5000, "UGX", `{"currency":"UGX","value":5000}`},
		{2790, "ISK", `{"currency":"ISK","value":279000}`},
		{150, "HUF", `{"currency":"HUF","value":150}`},
		{990, "CLP", `{"currency":"CLP","value":99000}`},
		{150000, "IDR", `{"currency":"IDR","value":1500}`},
		{1200, "CVE", `{"currency":"CVE","value":12}`},
	} {
		r := order
		r.Money = provider.Money{Amount: c.amount, Currency: c.currency}
		body, err := a.Freeze(r)
		require.NoError(t, err, c.currency)
		require.Contains(t, string(body), `"amount":`+c.want)
	}
}

// The number that comes back is read from its own token.
func TestM01_AmountsReadBack(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]provider.Money{
		`{"currency":"EUR","value":4900}`:   {Amount: 4900, Currency: "EUR"},
		`{"currency":"ISK","value":279000}`: {Amount: 2790, Currency: "ISK"},
		`{"currency":"IDR","value":1500}`:   {Amount: 150000, Currency: "IDR"},
		`{"currency":"KWD","value":18605}`:  {Amount: 18605, Currency: "KWD"},
	} {
		var w wireMoney
		require.NoError(t, json.Unmarshal([]byte(in), &w))
		m, ok := w.money()
		require.True(t, ok, in)
		require.Equal(t, want, m)
	}
	for _, in := range []string{
		`{"currency":"ISK","value":550}`, `{"currency":"EUR","value":1000.5}`, `{"currency":"EUR","value":1e3}`, `{"currency":"EUR","value":-1}`,
		`{"currency":"EUR","value":9223372036854775808}`, `{"currency":"XQQ","value":1}`, `{"currency":"EUR"}`, `{"currency":"EUR","value":"007"}`,
	} {
		var w wireMoney
		require.NoError(t, json.Unmarshal([]byte(in), &w))
		_, ok := w.money()
		require.False(t, ok, in)
	}
}

// answering is an adapter on a server that always answers so.
func answering(t *testing.T, status int, header map[string]string, body string) *Adapter {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for k, v := range header {
			w.Header().Set(k, v)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(srv.Close)
	f := &fake{url: srv.URL}
	return f.adapter(t)
}

func TestAnswersOfAdyen(t *testing.T) {
	t.Parallel()
	const ref = `"merchantReference":"0198f3a2-5b7c-7d11-8a44-0d6a3c1f2b90"`
	transient := map[string]string{"transient-error": "true"}
	for name, c := range map[string]struct {
		status  int
		header  map[string]string
		body    string
		outcome provider.Outcome
		reason  string
	}{
		"authorised":               {200, nil, `{"pspReference":"A","resultCode":"Authorised","amount":{"currency":"EUR","value":4900},` + ref + `}`, provider.Succeeded, "succeeded"},
		"another case of our id":   {200, nil, `{"pspReference":"A","resultCode":"Authorised","amount":{"currency":"EUR","value":4900},"merchantReference":"0198F3A2-5B7C-7D11-8A44-0D6A3C1F2B90"}`, provider.Succeeded, "succeeded"},
		"no amount":                {200, nil, `{"pspReference":"A","resultCode":"Authorised",` + ref + `}`, provider.Unknown, "amount_mismatch"},
		"another amount":           {200, nil, `{"pspReference":"A","resultCode":"Authorised","amount":{"currency":"EUR","value":490},` + ref + `}`, provider.Unknown, "amount_mismatch"},
		"an amount with decimals":  {200, nil, `{"pspReference":"A","resultCode":"Authorised","amount":{"currency":"EUR","value":4900.0},` + ref + `}`, provider.Unknown, "unmapped_status"},
		"no id":                    {200, nil, `{"resultCode":"Authorised","amount":{"currency":"EUR","value":4900}}`, provider.Unknown, "no_object"},
		"nothing":                  {200, nil, `{}`, provider.Unknown, "no_object"},
		"another payment":          {200, nil, `{"pspReference":"A","resultCode":"Authorised","amount":{"currency":"EUR","value":4900},"merchantReference":"x"}`, provider.Unknown, "contradiction"},
		"received":                 {200, nil, `{"pspReference":"A","resultCode":"Received",` + ref + `}`, provider.Processing, "processing"},
		"pending":                  {200, nil, `{"pspReference":"A","resultCode":"Pending",` + ref + `}`, provider.Processing, "processing"},
		"redirect":                 {200, nil, `{"pspReference":"A","resultCode":"RedirectShopper"}`, provider.RequiresAction, "requires_action"},
		"identify":                 {200, nil, `{"pspReference":"A","resultCode":"IdentifyShopper"}`, provider.RequiresAction, "requires_action"},
		"present":                  {200, nil, `{"pspReference":"A","resultCode":"PresentToShopper"}`, provider.RequiresAction, "requires_action"},
		"cancelled":                {200, nil, `{"pspReference":"A","resultCode":"Cancelled"}`, provider.Failed, "declined"},
		"error":                    {200, nil, `{"pspReference":"A","resultCode":"Error","refusalReason":"Acquirer error","refusalReasonCode":"4"}`, provider.Failed, "declined"},
		"authentication finished":  {200, nil, `{"pspReference":"A","resultCode":"AuthenticationFinished"}`, provider.Unknown, "unmapped_status"},
		"in progress, 422":         {422, nil, `{"status":422,"errorCode":"704","message":"x"}`, provider.Unknown, "key_in_use"},
		"in progress, 409":         {409, nil, `{"status":409,"errorCode":"704","message":"x"}`, provider.Unknown, "key_in_use"},
		"704 elsewhere":            {400, nil, `{"status":400,"errorCode":"704","message":"x"}`, provider.Failed, "rejected"},
		"409 without a code":       {409, nil, `{"status":409}`, provider.Unknown, "unlisted_answer"},
		"transient, 422":           {422, transient, `{"status":422,"errorCode":"999","message":"x"}`, provider.Unknown, "key_in_use"},
		"transient, without JSON":  {409, transient, `busy`, provider.Unknown, "key_in_use"},
		"transient, 500":           {500, transient, `{"status":500,"errorCode":"999","message":"x"}`, provider.Unknown, "provider_500"},
		"transient, 403":           {403, transient, `{"status":403,"errorCode":"010","message":"x"}`, provider.NotExecuted, "forbidden"},
		"validation":               {422, map[string]string{"transient-error": "false"}, `{"status":422,"errorCode":"130","message":"x"}`, provider.Failed, "rejected"},
		"401":                      {401, nil, `{"status":401,"errorCode":"000","message":"x"}`, provider.NotExecuted, "unauthorized"},
		"an id that is no id":      {200, nil, `{"pspReference":"` + strings.Repeat("a", 101) + `","resultCode":"Authorised"}`, provider.Unknown, "contract_changed"},
		"an amount that is a text": {200, nil, `{"pspReference":"A","resultCode":"Authorised","amount":"49.00",` + ref + `}`, provider.Unknown, "contract_changed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := answering(t, c.status, c.header, c.body)
			body, err := a.Freeze(order)
			require.NoError(t, err)
			got := a.Charge(t.Context(), "k", body, euros)
			require.Equal(t, c.outcome, got.Outcome, "%+v", got.Classification)
			require.Equal(t, c.reason, got.Reason)
			require.Equal(t, 1, got.Exchange.WireSends)
		})
	}
}

func TestARefusalKeepsItsCodeAndNoCardData(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	body, err := a.Freeze(order)
	require.NoError(t, err)
	f.Next(providertest.Decline)
	got := a.Charge(t.Context(), "k", body, euros)
	require.Equal(t, provider.Failed, got.Outcome)
	require.Equal(t, "12", got.Object.Reason)
	require.Equal(t, "NOT_ENOUGH_BALANCE", got.Message)
	for _, kept := range []string{string(got.Exchange.Body), string(got.Object.Raw)} {
		require.Contains(t, kept, "Refused")
		require.NotContains(t, kept, "1111")
		require.NotContains(t, kept, "3/2030")
		require.NotContains(t, kept, "O'Neill")
	}
}

func TestTheKeyFitsAdyen(t *testing.T) {
	t.Parallel()
	require.Equal(t, "charge-0198f3a2-5b7c-7d11-8a44-0d6a3c1f2b90", wireKey("charge-0198f3a2-5b7c-7d11-8a44-0d6a3c1f2b90"))
	require.Equal(t, strings.Repeat("k", 64), wireKey(strings.Repeat("k", 64)))
	long := wireKey(strings.Repeat("k", 65))
	require.Len(t, long, 64)
	require.Equal(t, long, wireKey(strings.Repeat("k", 65)), "the same every time")
	require.NotEqual(t, long, wireKey(strings.Repeat("k", 66)))

	f := newFake(t)
	a := f.adapter(t)
	for _, key := range []string{"", "a b", "a\n", "é"} {
		got := a.Charge(t.Context(), key, []byte(`{}`), euros)
		require.Equal(t, provider.NotSent, got.Outcome, "%q", key)
	}
	require.Empty(t, f.Received())
}

func TestSettingsAreRefusedByField(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		field string
		spoil func(*provider.Settings)
	}{
		"no account":       {"account", func(s *provider.Settings) { s.Account = "" }},
		"a colon":          {"account", func(s *provider.Settings) { s.Account = "a:b" }},
		"a bad return":     {"account", func(s *provider.Settings) { s.Account = "Shop http://x" }},
		"a long key life":  {"key_life", func(s *provider.Settings) { s.KeyLife = 8 * 24 * time.Hour }},
		"not hexadecimal":  {"webhook_secrets", func(s *provider.Settings) { s.WebhookSecrets = []string{"whsec"} }},
		"a short HMAC key": {"webhook_secrets", func(s *provider.Settings) { s.WebhookSecrets = []string{testHMAC, "4478"} }},
		"no base URL":      {"base_url", func(s *provider.Settings) { s.BaseURL = "" }},
	} {
		s := newFake(t).settings()
		c.spoil(&s)
		_, err := Build(s)
		var fe *provider.FieldError
		require.ErrorAs(t, err, &fe, name)
		require.Equal(t, c.field, fe.Field, name)
	}
}

func TestWhichWorldAnEndpointIsOf(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]mode{
		"https://checkout-test.adyen.com/v71":                               modeTest,
		"https://1797a841fbb37ca7-Shop-checkout-live.adyenpayments.com/v71": modeLive,
		"https://checkout-live.adyen.com":                                   modeLive,
		"http://127.0.0.1:9000":                                             modeUnsaid,
		"https://checkout-test.adyen.com.evil.example/":                     modeUnsaid,
		"://": modeUnsaid,
	} {
		require.Equal(t, want, modeOf(base), base)
	}
}

func TestCapabilitiesWithoutKeys(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t, func(s *provider.Settings) { s.NoKeys, s.KeyLife = true, 0 })
	c := a.Capabilities()
	require.Equal(t, []provider.Way{provider.WebhookOnly}, c.Ways)
	require.False(t, c.CanReplay())
	require.True(t, f.adapter(t).Capabilities().CanReplay())
	require.Equal(t, "[accepted]", a.Acknowledgement())
	require.Equal(t, provider.ReasonNoWay, a.Lookup(t.Context(), provider.LookupQuery{}).Reason)
	_, err := a.List(t.Context(), provider.ListQuery{})
	require.Error(t, err)
	body, err := a.Freeze(order)
	require.NoError(t, err)
	require.Equal(t, provider.Succeeded, a.Charge(t.Context(), "", body, euros).Outcome)
	require.Empty(t, f.Received()[0].Key)
}
