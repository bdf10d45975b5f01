package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
)

func TestAmounts(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]int64{"1": 1, "4900": 4900, strconv.FormatInt(provider.MaxAmount, 10): provider.MaxAmount} {
		n, reason := amountOf(raw)
		require.Equal(t, want, n)
		require.Empty(t, reason)
	}
	for raw, want := range map[string]string{
		`100.5`: "without point", `100.0`: "without point", `1e3`: "without point", `1E3`: "without point", `-1.5`: "without point",
		`"100"`: "not text", `"1e3"`: "not text", `-1`: "greater than zero", `0`: "greater than zero", `-0`: "greater than zero",
		`true`: "must be an integer", `[]`: "must be an integer", `{}`: "must be an integer",
		`1000000000001`: "larger than", `9223372036854775808`: "larger than", strings.Repeat("9", 400): "larger than",
	} {
		n, reason := amountOf(raw)
		require.Zero(t, n, raw)
		require.Contains(t, reason, want, raw)
	}
}

// paymentServer reads payments without a database.
func paymentServer() *Server {
	return &Server{cfg: Config{Registry: provider.NewRegistry(&fakeAdapter{name: "atlas"})}}
}

// readErrors parses a create body and returns its refused fields.
func readErrors(t testing.TB, body string) (store.NewPayment, fieldErrors) {
	t.Helper()
	o, err := parseObject([]byte(body))
	require.NoError(t, err)
	n, err := paymentServer().readPayment(o)
	var fields fieldErrors
	if err != nil {
		require.ErrorAs(t, err, &fields)
	}
	return n, fields
}

func TestReadPayment(t *testing.T) {
	t.Parallel()
	n, errs := readErrors(t, `{"order_ref":"A-1","provider":"atlas","amount":4900,"currency":"EUR","description":"Shoes — größe 42",
		"customer":{"name":"Олена","email":"olena@example.org"},"wallet_id":"0197a1f0-0000-7000-8000-000000000000",
		"metadata":{"cart":"7","empty":""},"allow_concurrent":true}`)
	require.Empty(t, errs)
	require.Equal(t, "A-1", n.OrderRef)
	require.Equal(t, int64(4900), n.Amount)
	require.Equal(t, "Олена", n.CustomerName)
	require.Equal(t, map[string]string{"cart": "7", "empty": ""}, n.Metadata)
	require.NotNil(t, n.WalletID)
	require.True(t, n.AllowConcurrent)

	n, errs = readErrors(t, `{"order_ref":"A-1","provider":"atlas","amount":1,"currency":"EUR","description":null,"customer":null,"wallet_id":null}`)
	require.Empty(t, errs, "null is as absent")
	require.Nil(t, n.WalletID)
}

func TestReadPaymentRefusals(t *testing.T) {
	t.Parallel()
	const rest = `"order_ref":"A-1","provider":"atlas","currency":"EUR"`
	for body, want := range map[string]string{
		`{"amount":100.5,` + rest + `}`:                                                 "amount must be an integer in minor units, without point or exponent",
		`{"amount":"100",` + rest + `}`:                                                 "amount must be an integer in minor units, not text",
		`{"amount":1e3,` + rest + `}`:                                                   "amount must be an integer in minor units, without point or exponent",
		`{"amount":-5,` + rest + `}`:                                                    "amount must be greater than zero",
		`{"amount":null,` + rest + `}`:                                                  "amount is required",
		`{` + rest + `}`:                                                                "amount is required",
		`{"amount":1,"amount":1,` + rest + `}`:                                          "amount is there more than once",
		`{"amount":1,"amount":2,` + rest + `}`:                                          "amount is there more than once",
		`{"amount":1,"tip":1,` + rest + `}`:                                             "tip is not a known field",
		`{"amount":1,"Amount":1,` + rest + `}`:                                          "Amount is not a known field",
		`{"amount":1,"a\u0000":1,` + rest + `}`:                                         `"a\x00" is not a known field`,
		`{"amount":1,"customer":[],` + rest + `}`:                                       "customer must be an object",
		`{"amount":1,"customer":{"name":"x","phone":"1"},` + rest + `}`:                 "customer.phone is not a known field",
		`{"amount":1,"customer":{"name":"x","name":"y"},` + rest + `}`:                  "customer.name is there more than once",
		`{"amount":1,"customer":{"email":"nobody"},` + rest + `}`:                       "customer.email is not an email address",
		`{"amount":1,"customer":{"email":"a@b.example\r\nBcc: x"},` + rest + `}`:        "customer.email contains control characters",
		`{"amount":1,"metadata":{"a":1},` + rest + `}`:                                  "metadata.a must be text",
		`{"amount":1,"metadata":{"":"x"},` + rest + `}`:                                 "metadata has a name that is empty, too long or not printable",
		`{"amount":1,"metadata":"x",` + rest + `}`:                                      "metadata must be an object",
		`{"amount":1,"wallet_id":"7",` + rest + `}`:                                     "wallet_id is not an id",
		`{"amount":1,"allow_concurrent":"true",` + rest + `}`:                           "allow_concurrent must be true or false",
		`{"amount":1,"description":"a\u0007b",` + rest + `}`:                            "description contains control characters",
		`{"amount":1,"description":"\u202Etxt",` + rest + `}`:                           "description contains control characters",
		`{"amount":1,"description":"` + strings.Repeat("ы", 501) + `",` + rest + `}`:    "description is longer than 500 characters",
		`{"amount":1,"order_ref":" ","provider":"atlas","currency":"EUR"}`:              "order_ref is required",
		`{"amount":1,"order_ref":" A","provider":"atlas","currency":"EUR"}`:             "order_ref begins or ends with a space",
		`{"amount":1,"order_ref":7,"provider":"atlas","currency":"EUR"}`:                "order_ref must be text",
		`{"amount":1,"order_ref":"A","provider":"zeus","currency":"EUR"}`:               "provider is not configured",
		`{"amount":1,"order_ref":"A","provider":"atlas","currency":"eur"}`:              "currency is not a known ISO 4217 currency",
		`{"amount":1,"order_ref":"A","provider":"atlas","currency":"XYZ"}`:              "currency is not a known ISO 4217 currency",
		`{"amount":1,"order_ref":"A","provider":"atlas","currency":"JPY"}`:              "currency is not taken by this provider",
		`{"amount":1,"order_ref":"A","provider":"atlas","currency":"EUROS"}`:            "currency is longer than 3 characters",
		`{"amount":1,"order_ref":"` + strings.Repeat("x", 101) + `",` + rest[18:] + `}`: "order_ref is longer than 100 characters",
		`{"amount":1,"metadata":{` + manyMembers(maxMetadata+1) + `},` + rest + `}`:     "metadata has more than 20 members",
		`{"amount":1,"metadata":{"a":"` + strings.Repeat("x", 501) + `"},` + rest + `}`: "metadata.a is longer than 500 characters",
		`{"amount":1,"metadata":{"` + strings.Repeat("k", 41) + `":"x"},` + rest + `}`:  "metadata has a name that is empty, too long or not printable",
		`{"amount":1,"description":"\ud800",` + rest + `}`:                              "description contains control characters",
	} {
		_, errs := readErrors(t, body)
		require.Equal(t, want, errs.Error(), body)
	}
}

// manyMembers is the inside of an object with n texts.
func manyMembers(n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = `"k` + strconv.Itoa(i) + `":"v"`
	}
	return strings.Join(parts, ",")
}

func TestAllThatIsWrongIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	_, errs := readErrors(t, `{"amount":"1","tip":true}`)
	require.Equal(t, fieldErrors{
		{"order_ref", "is required"}, {"provider", "is required"}, {"amount", "must be an integer in minor units, not text"},
		{"currency", "is required"}, {"tip", "is not a known field"},
	}, errs)
}

func TestBodiesThatAreNoObject(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"": "empty", " \n": "empty", "{": "not valid JSON", `{"a":1,}`: "not valid JSON", `{"a":1}{"a":2}`: "not valid JSON",
		"[]": "must be a JSON object", "null": "must be a JSON object", `"x"`: "must be a JSON object", "{\"a\":\"\xff\"}": "UTF-8",
		strings.Repeat(`{"a":`, 20_000): "not valid JSON", `{"a":01}`: "not valid JSON", "\ufeff{}": "not valid JSON",
	} {
		_, err := parseObject([]byte(body))
		var bad *badRequest
		require.ErrorAs(t, err, &bad, body)
		require.Contains(t, bad.reason, want, body)
	}
}

func TestContentTypes(t *testing.T) {
	t.Parallel()
	read := func(kind string) error {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
		r.Header.Set("Content-Type", kind)
		_, err := readJSON(echo.New().NewContext(r, httptest.NewRecorder()))
		return err
	}
	for _, kind := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"} {
		require.NoError(t, read(kind), kind)
	}
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "application/jsonp", "application/json; =", "text/json"} {
		require.ErrorIs(t, read(kind), echo.ErrUnsupportedMediaType, kind)
	}
}

// FuzzReadPayment: whatever arrives is refused with a field or a reason, or read into
// values that keep every promise; it never panics and never turns into a 500.
func FuzzReadPayment(f *testing.F) {
	for _, seed := range []string{
		`{"order_ref":"A-1","provider":"atlas","amount":4900,"currency":"EUR"}`,
		`{"order_ref":"A-1","provider":"atlas","amount":1e3,"currency":"EUR","metadata":{"a":"b"},"customer":{"email":"a@b.example"}}`,
		`{"amount":1,"amount":2}`, `{"customer":{"name":{}}}`, `[`, `{"a":"\ud800"}`, `{"wallet_id":"urn:uuid:0197a1f0-0000-7000-8000-000000000000"}`,
		`{"order_ref":"\u202e","provider":"atlas","amount":9223372036854775807,"currency":"KWD","allow_concurrent":true}`,
	} {
		f.Add([]byte(seed))
	}
	s := paymentServer()
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := parseObject(raw)
		if err == nil {
			var n store.NewPayment
			if n, err = s.readPayment(o); err == nil {
				checkPromises(t, raw, n)
				return
			}
		}
		p := problemOf(err)
		require.Contains(t, []int{400, 422}, p.Status)
		require.NotEmpty(t, p.Errors)
		for _, e := range p.Errors {
			require.NotEmpty(t, e.Reason)
			require.True(t, utf8.ValidString(e.Field))
		}
		_, err = json.Marshal(p)
		require.NoError(t, err)
	})
}

// checkPromises holds an accepted payment to what the store is told about it.
func checkPromises(t *testing.T, raw []byte, n store.NewPayment) {
	t.Helper()
	require.True(t, n.Amount > 0 && n.Amount <= provider.MaxAmount)
	require.Equal(t, "atlas", n.Provider)
	require.Len(t, n.Currency, 3)
	require.NotEmpty(t, strings.TrimSpace(n.OrderRef))
	for _, s := range []string{n.OrderRef, n.Description, n.CustomerName, n.CustomerEmail} {
		require.True(t, utf8.ValidString(s))
		require.NotContains(t, s, "\x00")
	}
	var loose struct{ Amount json.Number }
	require.NoError(t, json.Unmarshal(raw, &loose))
	require.Equal(t, strconv.FormatInt(n.Amount, 10), loose.Amount.String(), "the amount is the literal, digit by digit")
}

func TestBodyErrorsKeepTheSize(t *testing.T) {
	t.Parallel()
	require.Equal(t, http.StatusRequestEntityTooLarge, problemOf(bodyError(&http.MaxBytesError{Limit: 7})).Status)
	require.Equal(t, http.StatusBadRequest, problemOf(bodyError(errors.New("unexpected EOF"))).Status)
}
