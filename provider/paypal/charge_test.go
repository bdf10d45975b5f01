package paypal

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

var asked49 = provider.Money{Amount: 4900, Currency: "EUR"}

func request(m provider.Money) provider.ChargeRequest {
	return provider.ChargeRequest{
		PaymentID: "p1", OrderRef: "o1", Money: m, Description: "Two tickets",
		CustomerName: "Zoë", CustomerEmail: "zoe@example.com", PaymentMethod: "card:8kk8451t",
	}
}

// The bytes that are stored and sent, to the letter.
func TestFrozenRequest(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	body, err := a.Freeze(request(asked49))
	require.NoError(t, err)
	require.JSONEq(t, `{"intent":"CAPTURE","purchase_units":[{"custom_id":"p1","invoice_id":"p1","description":"Two tickets",
		"amount":{"currency_code":"EUR","value":"49.00"}}],"payment_source":{"card":{"vault_id":"8kk8451t",
		"stored_credential":{"payment_initiator":"MERCHANT","payment_type":"UNSCHEDULED","usage":"SUBSEQUENT"}}}}`, string(body))
	r := request(asked49)
	r.PaymentMethod, r.Description = "paypal:nkq2-y9g", strings.Repeat("é", 200)
	body, err = a.Freeze(r)
	require.NoError(t, err)
	require.Contains(t, string(body), `"payment_source":{"paypal":{"vault_id":"nkq2-y9g"}}`)
	require.Contains(t, string(body), `"`+strings.Repeat("é", maxText)+`"`, "for people: PayPal refuses a longer one")
}

// Literals as PayPal documents them, never a value converted by our own inverse.
func TestM01_WireAmounts(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	for _, tt := range []struct {
		money provider.Money
		wire  string // empty: refused
		field string
	}{
		{provider.Money{Amount: 1, Currency: "EUR"}, "0.01", ""},
		{provider.Money{Amount: 500, Currency: "JPY"}, "500", ""},
		{provider.Money{Amount: 104500, Currency: "HUF"}, "1045", ""},
		{provider.Money{Amount: 80000, Currency: "TWD"}, "800", ""},
		{provider.Money{Amount: 104550, Currency: "HUF"}, "", "amount"},
		{provider.Money{Amount: 80001, Currency: "TWD"}, "", "amount"},
		{provider.Money{Amount: 18600, Currency: "KWD"}, "", "currency"},
		{provider.Money{Amount: 500, Currency: "ISK"}, "", "currency"},
		{provider.Money{Amount: 500, Currency: "UGX"}, "", "currency"},
		{provider.Money{Amount: 500, Currency: "QQQ"}, "", "currency"},
	} {
		body, err := a.Freeze(request(tt.money))
		if tt.wire == "" {
			var field *provider.FieldError
			require.ErrorAs(t, err, &field, "%+v", tt.money)
			require.Equal(t, tt.field, field.Field)
			continue
		}
		require.NoError(t, err, "%+v", tt.money)
		require.Contains(t, string(body), `"amount":{"currency_code":"`+tt.money.Currency+`","value":"`+tt.wire+`"}`)
	}
}

// What PayPal says is read to the minor unit, or not at all.
func TestM02_AmountsBack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		value, currency string
		minor           int64
	}{
		{"49.00", "EUR", 4900}, {"49", "EUR", 4900}, {"49.000", "EUR", 4900}, {"500", "JPY", 500}, {"500.00", "JPY", 500},
		{"1045", "HUF", 104500}, {"1045.00", "HUF", 104500}, {"800", "TWD", 80000},
		{"49.005", "EUR", 0}, {"500.5", "JPY", 0}, {"500.", "JPY", 0}, {"-49.00", "EUR", 0}, {"4,900.00", "EUR", 0}, {"4.9e3", "EUR", 0}, {"", "EUR", 0},
		{"0.00", "EUR", 0}, {"49.00", "QQQ", 0}, {"99999999999999999999.00", "EUR", 0}, {".", "EUR", 0},
	} {
		m, err := amount{Currency: tt.currency, Value: tt.value}.money()
		require.Equal(t, tt.minor, m.Amount, "%+v", tt)
		require.Equal(t, tt.minor == 0, err != nil, "%+v", tt)
	}
}

func TestFreezeNamesTheField(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	for text, field := range map[string]string{
		"": "payment_method", "8kk8451t": "payment_method", "token:8kk": "payment_method", "card:": "payment_method",
		"card:a b": "payment_method", `card:"`: "payment_method", "card:" + strings.Repeat("a", 256): "payment_method",
	} {
		r := request(asked49)
		r.PaymentMethod = text
		_, err := a.Freeze(r)
		var refused *provider.FieldError
		require.ErrorAs(t, err, &refused, text)
		require.Equal(t, field, refused.Field)
	}
	for _, id := range []string{"", strings.Repeat("p", 128)} {
		r := request(asked49)
		r.PaymentID = id
		_, err := a.Freeze(r)
		require.ErrorContains(t, err, "reference")
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	good := provider.Settings{Name: "p", BaseURL: "https://api-m.sandbox.paypal.com", APIKey: "id:secret", WebhookSecrets: []string{"1JE42"}}
	for name, tt := range map[string]struct {
		edit  func(*provider.Settings)
		field string
	}{
		"as documented":      {func(*provider.Settings) {}, ""},
		"without a secret":   {func(s *provider.Settings) { s.APIKey = "id" }, "api_key"},
		"with an empty one":  {func(s *provider.Settings) { s.APIKey = "id:" }, "api_key"},
		"with three parts":   {func(s *provider.Settings) { s.APIKey = "a:b:c" }, "api_key"},
		"a day":              {func(s *provider.Settings) { s.KeyLife = 24 * time.Hour }, "key_life"},
		"an hour":            {func(s *provider.Settings) { s.KeyLife = time.Hour }, ""},
		"verified by PayPal": {func(s *provider.Settings) { s.WebhookSecrets = []string{"api:1JE42", "2KF53"} }, ""},
		"no webhook id":      {func(s *provider.Settings) { s.WebhookSecrets = []string{"whsec_lower"} }, "webhook_secrets"},
		"an empty one":       {func(s *provider.Settings) { s.WebhookSecrets = []string{"api:"} }, "webhook_secrets"},
	} {
		s := good
		tt.edit(&s)
		a, err := New(s, Options{})
		if tt.field == "" {
			require.NoError(t, err, name)
			require.LessOrEqual(t, a.Capabilities().KeyLife, KeyLife)
			continue
		}
		var refused *provider.FieldError
		require.ErrorAs(t, err, &refused, name)
		require.Equal(t, tt.field, refused.Field, name)
		require.NotContains(t, err.Error(), "secret;", "a refusal does not repeat the credentials")
	}
	_, err := provider.Kinds{Kind: Build}.Build([]provider.Settings{{Name: "p", Kind: Kind, BaseURL: good.BaseURL, APIKey: "x", KeyLife: time.Hour, WebhookSecrets: []string{"X"}}})
	require.ErrorContains(t, err, "api_key")
}

// unitWith is the purchase unit of an order with these captures.
func unitWith(captures ...string) string {
	return `{"custom_id":"p1","amount":{"currency_code":"EUR","value":"49.00"},"payments":{"captures":[` + strings.Join(captures, ",") + `]}}`
}

func oneCapture(status string) string {
	return `{"id":"C1","status":"` + status + `","amount":{"currency_code":"EUR","value":"49.00"},"custom_id":"p1","processor_response":{"response_code":"5120"}}`
}

func orderWith(status string, units ...string) string {
	return `{"id":"5O190127TN364715T","status":"` + status + `","purchase_units":[` + strings.Join(units, ",") + `]}`
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	bare := `{"custom_id":"p1","amount":{"currency_code":"EUR","value":"49.00"}}`
	issue := func(name, issue string) string {
		return `{"name":"` + name + `","message":"No.","details":[{"issue":"` + issue + `","description":"Because."}]}`
	}
	for name, tt := range map[string]struct {
		status  int
		body    string
		outcome provider.Outcome
		reason  string
		review  bool
	}{
		"completed":                   {201, orderWith("COMPLETED", unitWith(oneCapture("COMPLETED"))), provider.Succeeded, provider.ReasonSucceeded, false},
		"replayed":                    {200, orderWith("COMPLETED", unitWith(oneCapture("COMPLETED"))), provider.Succeeded, provider.ReasonSucceeded, false},
		"replayed after a refund":     {200, orderWith("COMPLETED", unitWith(oneCapture("REFUNDED"))), provider.Succeeded, provider.ReasonSucceeded, false},
		"partly refunded":             {200, orderWith("COMPLETED", unitWith(oneCapture("PARTIALLY_REFUNDED"))), provider.Succeeded, provider.ReasonSucceeded, false},
		"pending":                     {201, orderWith("COMPLETED", unitWith(oneCapture("PENDING"))), provider.Processing, provider.ReasonProcessing, false},
		"declined":                    {201, orderWith("COMPLETED", unitWith(oneCapture("DECLINED"))), provider.Failed, provider.ReasonDeclined, false},
		"failed":                      {201, orderWith("COMPLETED", unitWith(oneCapture("FAILED"))), provider.Failed, provider.ReasonDeclined, false},
		"declined, then taken":        {201, orderWith("COMPLETED", unitWith(oneCapture("DECLINED"), oneCapture("COMPLETED"))), provider.Succeeded, provider.ReasonSucceeded, false},
		"taken twice":                 {201, orderWith("COMPLETED", unitWith(oneCapture("COMPLETED"), oneCapture("COMPLETED"))), provider.Unknown, provider.ReasonUnmapped, true},
		"a capture nobody knows":      {201, orderWith("COMPLETED", unitWith(oneCapture("SETTLING"))), provider.Unknown, provider.ReasonUnmapped, true},
		"an order nobody knows":       {201, orderWith("SETTLING", unitWith(oneCapture("COMPLETED"))), provider.Unknown, provider.ReasonUnmapped, true},
		"completed, no capture":       {201, orderWith("COMPLETED", bare), provider.Unknown, provider.ReasonUnmapped, true},
		"created":                     {201, orderWith("CREATED", bare), provider.RequiresAction, provider.ReasonAction, false},
		"wants the payer":             {200, orderWith("PAYER_ACTION_REQUIRED", bare), provider.RequiresAction, provider.ReasonAction, false},
		"approved":                    {201, orderWith("APPROVED", bare), provider.Processing, provider.ReasonProcessing, false},
		"saved":                       {201, orderWith("SAVED", bare), provider.Processing, provider.ReasonProcessing, false},
		"voided":                      {201, orderWith("VOIDED", bare), provider.Failed, provider.ReasonDeclined, false},
		"minimal":                     {201, `{"id":"5O190127TN364715T","status":"COMPLETED"}`, provider.Unknown, provider.ReasonUnmapped, true},
		"two units":                   {201, orderWith("COMPLETED", bare, bare), provider.Unknown, provider.ReasonContract, false},
		"another payment's":           {200, strings.ReplaceAll(orderWith("COMPLETED", unitWith(oneCapture("COMPLETED"))), "p1", "p2"), provider.Unknown, provider.ReasonContradiction, true},
		"another amount":              {201, strings.ReplaceAll(orderWith("COMPLETED", unitWith(oneCapture("COMPLETED"))), "49.00", "49.01"), provider.Unknown, provider.ReasonAmount, true},
		"the amount as a number":      {201, strings.ReplaceAll(orderWith("COMPLETED", unitWith(oneCapture("COMPLETED"))), `"49.00"`, `49.00`), provider.Unknown, provider.ReasonContract, false},
		"no amount":                   {201, strings.ReplaceAll(orderWith("COMPLETED", unitWith(oneCapture("COMPLETED"))), `"amount"`, `"total"`), provider.Unknown, provider.ReasonUnmapped, true},
		"nothing":                     {200, `{}`, provider.Unknown, provider.ReasonNoObject, true},
		"no id":                       {200, `{"status":"COMPLETED"}`, provider.Unknown, provider.ReasonNoObject, true},
		"empty":                       {200, ``, provider.Unknown, provider.ReasonNotJSON, false},
		"declined by name":            {422, issue("UNPROCESSABLE_ENTITY", "INSTRUMENT_DECLINED"), provider.Failed, provider.ReasonDeclined, false},
		"the payer has to act":        {422, issue("UNPROCESSABLE_ENTITY", "PAYER_ACTION_REQUIRED"), provider.Failed, provider.ReasonDeclined, false},
		"not acceptable":              {422, issue("UNPROCESSABLE_ENTITY", "DECIMAL_PRECISION"), provider.Failed, provider.ReasonRejected, false},
		"not readable":                {400, issue("INVALID_REQUEST", "MISSING_REQUIRED_PARAMETER"), provider.Failed, provider.ReasonRejected, false},
		"exists by its invoice id":    {422, issue("UNPROCESSABLE_ENTITY", "DUPLICATE_INVOICE_ID"), provider.Unknown, provider.ReasonAlreadyDone, false},
		"exists already":              {422, issue("UNPROCESSABLE_ENTITY", "ORDER_ALREADY_CAPTURED"), provider.Unknown, provider.ReasonAlreadyDone, false},
		"still running":               {409, issue("RESOURCE_CONFLICT", "PREVIOUS_REQUEST_IN_PROGRESS"), provider.Unknown, provider.ReasonKeyInUse, false},
		"still running, by 422":       {422, issue("UNPROCESSABLE_ENTITY", "PREVIOUS_REQUEST_IN_PROGRESS"), provider.Unknown, provider.ReasonKeyInUse, false},
		"a request id used elsewhere": {422, issue("UNPROCESSABLE_ENTITY", "DUPLICATE_REQUEST_ID"), provider.Unknown, provider.ReasonKeyReused, true},
		"a conflict nobody knows":     {409, issue("RESOURCE_CONFLICT", "OTHER"), provider.Unknown, provider.ReasonUnlisted, true},
		"forbidden":                   {403, issue("NOT_AUTHORIZED", "PERMISSION_DENIED"), provider.NotExecuted, provider.ReasonForbidden, false},
		"their fault":                 {500, issue("INTERNAL_SERVER_ERROR", "INSTRUMENT_DECLINED"), provider.Unknown, "provider_500", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			a := f.adapter(t)
			a.caller = answering(t, tt.status, tt.body)
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

// PayPal said yes and our parser said no: unknown, with the id as a hint.
func TestC06_UnreadableAnswersKeepTheID(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"another shape": `{"id":"5O190127TN364715T","status":"COMPLETED","purchase_units":{"0":{}}}`,
		"cut":           `{"id":"5O190127TN364715T","status":"COMP`,
	} {
		a := newFake(t).adapter(t)
		a.caller = answering(t, http.StatusCreated, body)
		got := a.Charge(t.Context(), "k1", []byte(`{}`), asked49)
		require.Equal(t, provider.Unknown, got.Outcome, name)
		require.NotNil(t, got.Object, name)
		require.Equal(t, "5O190127TN364715T", got.Object.ID, name)
		require.Empty(t, got.Object.Outcome, name)
	}
}

func TestWhatIsToldOfACharge(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	a.caller = answering(t, 201, orderWith("COMPLETED", unitWith(oneCapture("DECLINED"))))
	got := a.Charge(t.Context(), "k1", []byte(`{}`), asked49)
	require.Equal(t, "5120", got.Object.Reason)
	require.Equal(t, "DECLINED", got.Object.Status, "PayPal's own word about the money")

	a.caller = answering(t, 200, `{"id":"5O190127TN364715T","status":"COMPLETED","purchase_units":[{"custom_id":"p1","payments":{"captures":[`+
		oneCapture("PARTIALLY_REFUNDED")+`],"refunds":[{"status":"COMPLETED","amount":{"currency_code":"EUR","value":"10.00"}},
		{"status":"CANCELLED","amount":{"currency_code":"EUR","value":"5.00"}}]}}]}`)
	got = a.Charge(t.Context(), "k1", []byte(`{}`), asked49)
	require.Equal(t, &provider.Totals{Captured: 4900, Refunded: 1000}, got.Object.Totals)

	a.caller = answering(t, 422, `{"name":"UNPROCESSABLE_ENTITY","message":"No.","details":[{"field":"/purchase_units","issue":"X","description":"Card 4242424242424242 is odd."}]}`)
	got = a.Charge(t.Context(), "k1", []byte(`{}`), asked49)
	require.Equal(t, "/purchase_units: Card [card 4242] is odd.", got.Message)
}

func TestRequestHeaders(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	body, err := a.Freeze(request(asked49))
	require.NoError(t, err)
	got := a.Charge(t.Context(), "k1", body, asked49)
	require.Equal(t, provider.Succeeded, got.Outcome)
	require.Equal(t, "f1a2b3", got.Exchange.RequestID)
	h := f.headers[0]
	require.Equal(t, "k1", h.Get("PayPal-Request-Id"))
	require.Equal(t, "return=representation", h.Get("Prefer"))
	require.Equal(t, "application/json", h.Get("Content-Type"))
	require.Empty(t, h.Get("Idempotency-Key"))

	for _, key := range []string{"", "with space", "ключ", strings.Repeat("k", 109)} {
		got := a.Charge(t.Context(), key, body, asked49)
		require.Equal(t, provider.NotSent, got.Outcome)
		require.Equal(t, provider.ReasonLocal, got.Reason)
	}
	require.Len(t, f.Received(), 1)

	raw, err := json.Marshal(got)
	require.NoError(t, err)
	for _, secret := range []string{testSecret, "A21AAtoken"} {
		require.NotContains(t, string(raw), secret)
	}
}
