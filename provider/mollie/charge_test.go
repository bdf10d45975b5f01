package mollie

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

func request(m provider.Money) provider.ChargeRequest {
	return provider.ChargeRequest{
		PaymentID: "p1", OrderRef: "o1", Money: m, Description: "Two tickets",
		CustomerName: "Zoë", CustomerEmail: "zoe@example.com", CustomerID: "cst_1", PaymentMethod: "mdt_1",
	}
}

var asked49 = provider.Money{Amount: 4900, Currency: "EUR"}

// The bytes that are stored and sent, to the letter.
func TestFrozenRequest(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	body, err := f.adapter(t).Freeze(request(asked49))
	require.NoError(t, err)
	require.JSONEq(t, `{"amount":{"currency":"EUR","value":"49.00"},"description":"Two tickets","sequenceType":"recurring",
		"customerId":"cst_1","mandateId":"mdt_1","metadata":{"payment_id":"p1","order_ref":"o1"}}`, string(body))

	classic := f.adapter(t, func(s *provider.Settings) {
		s.WebhookSecrets = []string{"https://pay.example/webhooks/mollie-nl"}
	})
	r := request(asked49)
	r.Description, r.PaymentMethod = "", ""
	body, err = classic.Freeze(r)
	require.NoError(t, err)
	require.Contains(t, string(body), `"webhookUrl":"https://pay.example/webhooks/mollie-nl"`)
	require.Contains(t, string(body), `"description":"o1"`, "Mollie wants one")
	require.NotContains(t, string(body), "mandateId", "without one Mollie takes the customer's")
}

// Literals as Mollie documents them, never a value converted by our own inverse.
func TestM01_WireAmounts(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	for _, tt := range []struct {
		money provider.Money
		wire  string // empty: refused
	}{
		{provider.Money{Amount: 1, Currency: "EUR"}, "0.01"},
		{provider.Money{Amount: 100000, Currency: "EUR"}, "1000.00"},
		{provider.Money{Amount: 500, Currency: "JPY"}, "500"},
		{provider.Money{Amount: 1045, Currency: "HUF"}, "10.45"},
		{provider.Money{Amount: 5, Currency: "ISK"}, "5"},
		{provider.Money{Amount: 18600, Currency: "KWD"}, "18.600"},
		{provider.Money{Amount: 18605, Currency: "KWD"}, "18.605"},
		{provider.Money{Amount: 100, Currency: "QQQ"}, ""},
		{provider.Money{Amount: 0, Currency: "EUR"}, ""},
	} {
		body, err := a.Freeze(request(tt.money))
		if tt.wire == "" {
			var field *provider.FieldError
			require.ErrorAs(t, err, &field, "%+v", tt.money)
			continue
		}
		require.NoError(t, err, "%+v", tt.money)
		require.Contains(t, string(body), `"amount":{"currency":"`+tt.money.Currency+`","value":"`+tt.wire+`"}`)
	}
}

// What Mollie says is read to the minor unit, or not at all.
func TestM02_AmountsBack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		value, currency string
		minor           int64
	}{
		{"49.00", "EUR", 4900}, {"49", "EUR", 4900}, {"500", "JPY", 500}, {"18.600", "KWD", 18600}, {"18.605", "KWD", 18605},
		{"49.005", "EUR", 0}, {"500.5", "JPY", 0}, {"-49.00", "EUR", 0}, {"4,900.00", "EUR", 0}, {"49.00", "eur", 0}, {"4.9e3", "EUR", 0},
		{"", "EUR", 0}, {"0.00", "EUR", 0}, {"１０", "JPY", 0}, {"99999999999999999999.00", "EUR", 0},
	} {
		m, err := amount{Currency: tt.currency, Value: tt.value}.money()
		require.Equal(t, tt.minor, m.Amount, "%+v", tt)
		require.Equal(t, tt.minor == 0, err != nil, "%+v", tt)
	}
}

func TestFreezeNamesTheField(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", maxText+1)
	a := newFake(t).adapter(t)
	for field, edit := range map[string]func(*provider.ChargeRequest){
		"reference":      func(r *provider.ChargeRequest) { r.PaymentID = "" },
		"customer.id":    func(r *provider.ChargeRequest) { r.CustomerID = "" },
		"description":    func(r *provider.ChargeRequest) { r.Description = long },
		"order_ref":      func(r *provider.ChargeRequest) { r.OrderRef = long },
		"payment_method": func(r *provider.ChargeRequest) { r.PaymentMethod = long },
		"currency":       func(r *provider.ChargeRequest) { r.Money.Currency = "XX" },
	} {
		r := request(asked49)
		edit(&r)
		_, err := a.Freeze(r)
		var refused *provider.FieldError
		require.ErrorAs(t, err, &refused, field)
		require.Equal(t, field, refused.Field)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	good := provider.Settings{Name: "m", BaseURL: "https://api.mollie.com/v2", APIKey: "live_x", WebhookSecrets: []string{"s"}}
	for name, tt := range map[string]struct {
		edit  func(*provider.Settings)
		field string
	}{
		"as documented":         {func(*provider.Settings) {}, ""},
		"an organisation's":     {func(s *provider.Settings) { s.APIKey = "access_x" }, "api_key"},
		"a day":                 {func(s *provider.Settings) { s.KeyLife = 24 * time.Hour }, "key_life"},
		"half an hour":          {func(s *provider.Settings) { s.KeyLife = 30 * time.Minute }, ""},
		"the address alone":     {func(s *provider.Settings) { s.WebhookSecrets = []string{"https://pay.example/w"} }, ""},
		"in the open":           {func(s *provider.Settings) { s.WebhookSecrets = []string{"http://pay.example/w"} }, "webhook_secrets"},
		"two addresses":         {func(s *provider.Settings) { s.WebhookSecrets = []string{"https://a.example", "https://b.example"} }, "webhook_secrets"},
		"no secret, no webhook": {func(s *provider.Settings) { s.WebhookSecrets = nil }, "webhook_secrets"},
	} {
		s := good
		tt.edit(&s)
		a, err := New(s, Options{})
		if tt.field == "" {
			require.NoError(t, err, name)
			require.LessOrEqual(t, a.Capabilities().KeyLife, time.Hour)
			continue
		}
		var refused *provider.FieldError
		require.ErrorAs(t, err, &refused, name)
		require.Equal(t, tt.field, refused.Field, name)
	}
	_, err := provider.Kinds{Kind: Build}.Build([]provider.Settings{{Name: "m", Kind: Kind, BaseURL: "https://api.mollie.com", APIKey: "x", KeyLife: time.Hour, WebhookSecrets: []string{"s"}}})
	require.ErrorContains(t, err, "api_key")
}

// said is a payment as an answer, with changes.
func said(changes ...any) string {
	p := rendered(provider.Object{ID: "tr_1", Reference: "p1", Outcome: provider.Succeeded, Money: asked49, CreatedAt: time.Unix(1_770_000_000, 0)})
	for i := 0; i+1 < len(changes); i += 2 {
		p[changes[i].(string)] = changes[i+1]
	}
	raw, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// answering is an adapter on a server that gives one answer to everything.
func answering(t *testing.T, status int, body string) *Adapter {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/hal+json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(srv.Close)
	s := (&fake{url: srv.URL}).settings()
	a, err := New(s, Options{Sleep: noSleep})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status  int
		body    string
		outcome provider.Outcome
		reason  string
		review  bool
	}{
		"paid":                       {201, said(), provider.Succeeded, provider.ReasonSucceeded, false},
		"pending":                    {201, said("status", "pending"), provider.Processing, provider.ReasonProcessing, false},
		"authorized":                 {201, said("status", "authorized"), provider.Processing, provider.ReasonProcessing, false},
		"open":                       {201, said("status", "open"), provider.RequiresAction, provider.ReasonAction, false},
		"failed":                     {201, said("status", "failed"), provider.Failed, provider.ReasonDeclined, false},
		"canceled":                   {201, said("status", "canceled"), provider.Failed, provider.ReasonDeclined, false},
		"expired":                    {201, said("status", "expired"), provider.Failed, provider.ReasonDeclined, false},
		"another payment's":          {201, said("metadata", map[string]string{"payment_id": "p2"}), provider.Unknown, provider.ReasonContradiction, true},
		"metadata in a string":       {201, said("metadata", `{"payment_id":"p1"}`), provider.Succeeded, provider.ReasonSucceeded, false},
		"no metadata":                {201, said("metadata", nil), provider.Succeeded, provider.ReasonSucceeded, false},
		"the other mode":             {201, said("mode", "live"), provider.Unknown, provider.ReasonContradiction, true},
		"the amount as a number":     {201, said("amount", map[string]any{"currency": "EUR", "value": 49}), provider.Unknown, provider.ReasonContract, false},
		"a tenth of a cent":          {201, said("amount", map[string]any{"currency": "EUR", "value": "49.001"}), provider.Unknown, provider.ReasonUnmapped, true},
		"without an amount":          {201, said("amount", nil), provider.Unknown, provider.ReasonUnmapped, true},
		"in another currency":        {201, said("amount", map[string]any{"currency": "USD", "value": "49.00"}), provider.Unknown, provider.ReasonAmount, true},
		"without an id":              {201, said("id", ""), provider.Unknown, provider.ReasonNoObject, true},
		"an id nobody can use":       {201, said("id", strings.Repeat("t", 101)), provider.Unknown, provider.ReasonContract, false},
		"an order":                   {201, said("resource", "order"), provider.Unknown, provider.ReasonContract, false},
		"nothing":                    {200, `{}`, provider.Unknown, provider.ReasonNoObject, true},
		"empty":                      {200, ``, provider.Unknown, provider.ReasonNotJSON, false},
		"400 without a field":        {400, `{"status":400,"title":"Bad Request","detail":"No."}`, provider.Unknown, provider.ReasonKeyReused, true},
		"400 by somebody in between": {400, `<html>`, provider.Unknown, provider.ReasonKeyReused, true},
		"422":                        {422, `{"status":422,"title":"Unprocessable Entity","detail":"No.","field":"amount"}`, provider.Failed, provider.ReasonRejected, false},
		"404":                        {404, `{"status":404,"title":"Not Found","detail":"No."}`, provider.Failed, provider.ReasonRejected, false},
		"402":                        {402, `{"status":402,"title":"Payment Required"}`, provider.Failed, provider.ReasonDeclined, false},
		"409":                        {409, `{"status":409}`, provider.Unknown, provider.ReasonKeyInUse, false},
		"503":                        {503, `{"status":503,"title":"Service Unavailable"}`, provider.Unknown, "provider_503", false},
		"202":                        {202, said(), provider.Processing, provider.ReasonProcessing, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := answering(t, tt.status, tt.body)
			body, err := a.Freeze(request(asked49))
			require.NoError(t, err)
			got := a.Charge(t.Context(), "k1", body, asked49)
			require.Equal(t, tt.outcome, got.Outcome, "%+v", got.Classification)
			require.Equal(t, tt.reason, got.Reason)
			require.Equal(t, tt.review, got.Review != "")
			require.Equal(t, 1, got.Exchange.WireSends)
		})
	}
}

// Mollie said yes and our parser said no: unknown, with the id as a hint.
func TestC06_UnreadableAnswersKeepTheID(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"another shape": `{"id":"tr_7","status":"paid","amount":{"currency":"EUR","value":4900}}`,
		"cut":           `{"resource":"payment","id":"tr_7","status":"pa`,
	} {
		a := answering(t, http.StatusCreated, body)
		got := a.Charge(t.Context(), "k1", []byte(`{}`), asked49)
		require.Equal(t, provider.Unknown, got.Outcome, name)
		require.NotNil(t, got.Object, name)
		require.Equal(t, "tr_7", got.Object.ID, name)
		require.Empty(t, got.Object.Outcome, name)
		require.NotEmpty(t, got.Exchange.Body, name)
	}
}

func TestDeclinesSayWhy(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	f.Next(providertest.Decline)
	body, err := a.Freeze(request(asked49))
	require.NoError(t, err)
	got := a.Charge(t.Context(), "k1", body, asked49)
	require.Equal(t, "insufficient_funds", got.Object.Reason)
	require.Equal(t, "The card has insufficient funds.", got.Message)

	a = answering(t, http.StatusUnprocessableEntity, `{"status":422,"title":"Unprocessable Entity","detail":"The customer has no valid mandates","field":"customerId"}`)
	require.Equal(t, "customerId: The customer has no valid mandates", a.Charge(t.Context(), "k1", body, asked49).Message)
}

func TestKeysMollieCannotTake(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	for _, key := range []string{"", "with space", "ключ", strings.Repeat("k", 256)} {
		got := a.Charge(t.Context(), key, []byte(`{}`), asked49)
		require.Equal(t, provider.NotSent, got.Outcome)
		require.Equal(t, provider.ReasonLocal, got.Reason)
	}
	require.Empty(t, f.Received())
}

// Neither the key nor anything like a card number is kept.
func TestSecretsAreNotKept(t *testing.T) {
	t.Parallel()
	a := answering(t, http.StatusCreated, said("details", map[string]any{"cardNumber": "4242424242424242", "token": "tkn_secret"}))
	got := a.Charge(t.Context(), "k1", []byte(`{}`), asked49)
	raw, err := json.Marshal(got)
	require.NoError(t, err)
	for _, secret := range []string{testKey, "4242424242424242", "tkn_secret"} {
		require.NotContains(t, string(raw), secret)
		require.NotContains(t, string(got.Exchange.Body), secret)
		require.NotContains(t, string(got.Object.Raw), secret)
	}
}
