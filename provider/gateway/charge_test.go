package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

var asked = provider.Money{Amount: 4900, Currency: "EUR"}

// answering returns an adapter on a server that answers every request the same way,
// and the count of requests.
func answering(t *testing.T, status int, contentType, body string) (*Adapter, *atomic.Int32) {
	t.Helper()
	n := &atomic.Int32{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n.Add(1)
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	f := &fake{url: srv.URL}
	return f.adapter(t), n
}

func frozen(t *testing.T, a *Adapter) []byte {
	t.Helper()
	body, err := a.Freeze(provider.ChargeRequest{PaymentID: "p1", OrderRef: "o1", Money: asked})
	require.NoError(t, err)
	return body
}

// charged makes one charge against a fixed answer.
func charged(t *testing.T, status int, contentType, body string) provider.Charged {
	t.Helper()
	a, n := answering(t, status, contentType, body)
	got := a.Charge(t.Context(), "k1", frozen(t, a), asked)
	require.EqualValues(t, 1, n.Load())
	require.Equal(t, 1, got.Exchange.WireSends)
	return got
}

const (
	jsonType = "application/json"
	htmlType = "text/html; charset=utf-8"
)

func TestC06_ProviderSaidYesOurParserSaidNo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		health     provider.Verdict
		alert      string
		hint       string
	}{
		{"amount is an object", `{"id":"pay_1","status":"succeeded","amount":{"value":3400}}`, provider.HealthNeutral, provider.AlertContract, "pay_1"},
		{"amount is text", `{"amount":"4900","id":"pay_1","status":"succeeded","currency":"EUR"}`, provider.HealthNeutral, provider.AlertContract, "pay_1"},
		{"amount has a fraction", `{"id":"pay_1","status":"succeeded","amount":4900.0,"currency":"EUR"}`, provider.HealthNeutral, provider.AlertContract, "pay_1"},
		{"amount has an exponent", `{"id":"pay_1","status":"succeeded","amount":49e2,"currency":"EUR"}`, provider.HealthNeutral, provider.AlertContract, "pay_1"},
		{"amount overflows", `{"id":"pay_1","status":"succeeded","amount":18446744073709556516,"currency":"EUR"}`, provider.HealthNeutral, provider.AlertContract, "pay_1"},
		{"id is a number", `{"id":123,"status":"succeeded","amount":4900,"currency":"EUR"}`, provider.HealthNeutral, provider.AlertContract, ""},
		{"a list", `[{"id":"pay_1"}]`, provider.HealthNeutral, provider.AlertContract, ""},
		{"zero bytes", ``, provider.HealthFail, "", ""},
		{"cut JSON", `{"id":"pay_1","status":"succ`, provider.HealthFail, "", "pay_1"},
		{"cut inside the id", `{"status":"succeeded","id":"pay_1`, provider.HealthFail, "", ""},
		{"two values", `{"id":"pay_1"}{"id":"pay_2"}`, provider.HealthFail, "", "pay_1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := charged(t, 200, jsonType, tt.body)
			require.Equal(t, provider.Unknown, got.Outcome)
			require.Equal(t, tt.health, got.Health)
			require.Equal(t, tt.alert, got.Alert)
			require.Equal(t, provider.NextReconcile, got.Next)
			if tt.hint == "" {
				require.Nil(t, got.Object)
				return
			}
			require.Equal(t, provider.Object{ID: tt.hint}, *got.Object, "a hint, without a meaning")
		})
	}
}

func TestC07_GatewayPages(t *testing.T) {
	t.Parallel()
	for _, status := range []int{502, 503, 504} {
		got := charged(t, status, htmlType, fmt.Sprintf("<html><h1>%d</h1></html>", status))
		require.Equal(t, provider.Unknown, got.Outcome)
		require.Equal(t, fmt.Sprintf("gateway_%d", status), got.Reason)
		require.Equal(t, provider.HealthFail, got.Health)
		require.True(t, got.Quick)
		require.Equal(t, htmlType, got.Exchange.ContentType)
		require.Contains(t, string(got.Exchange.Body), "<h1>")
	}
	got := charged(t, 502, htmlType, "<html>"+strings.Repeat("x", 5<<20))
	require.Equal(t, "gateway_502", got.Reason)
	require.LessOrEqual(t, len(got.Exchange.Body), provider.MaxMoneyBody)
	require.Equal(t, "provider_500", charged(t, 500, jsonType, `{"error":{"code":"internal"}}`).Reason)
}

func TestC08_HTTPSaysOKBodySaysNo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status int
		body   string
		want   provider.Outcome
		health provider.Verdict
		review bool
	}{
		{200, `{"resultCode":"Ok","transaction":{"responseCode":"3","errors":[{"code":"6"}]}}`, provider.Unknown, provider.HealthNeutral, true},
		{200, `{"success":true}`, provider.Unknown, provider.HealthNeutral, true},
		{200, `{}`, provider.Unknown, provider.HealthNeutral, true},
		{200, `null`, provider.Unknown, provider.HealthNeutral, true},
		{200, `<html>ok</html>`, provider.Unknown, provider.HealthFail, false},
		{200, `{"id":"pay_1","status":"SUCCEEDED","amount":4900,"currency":"EUR"}`, provider.Unknown, provider.HealthNeutral, true},
		{200, `{"status":"succeeded","amount":4900,"currency":"EUR"}`, provider.Unknown, provider.HealthNeutral, true},
		{200, `{"id":"pay_1","status":"succeeded","currency":"EUR"}`, provider.Unknown, provider.HealthNeutral, true},
		{200, `{"id":"pay_1","status":"succeeded","amount":4900,"currency":"eur"}`, provider.Unknown, provider.HealthNeutral, true},
		{200, `{"id":"pay_1","status":"succeeded","amount":4900,"currency":"EUR","reference":"p2"}`, provider.Unknown, provider.HealthNeutral, true},
		{200, `{"id":"pay_1","status":"succeeded","amount":4900,"currency":"EUR","idempotency_key":"k2"}`, provider.Unknown, provider.HealthNeutral, true},
		{200, `{"id":"pay_1","status":"failed","amount":4900,"currency":"EUR"}`, provider.Failed, provider.HealthOK, false},
		{200, `{"id":"pay_1","status":"canceled","amount":4900,"currency":"EUR"}`, provider.Failed, provider.HealthOK, false},
		{200, `{"error":{"code":"insufficient_funds"}}`, provider.Failed, provider.HealthOK, false},
		{200, `{"id":"pay_1","status":"succeeded","amount":4900,"currency":"EUR","error":{"code":"card_declined"}}`, provider.Unknown, provider.HealthNeutral, true},
		{500, `{"error":{"code":"card_declined"}}`, provider.Failed, provider.HealthOK, false},
		{405, `<html>405</html>`, provider.Failed, provider.HealthNeutral, false},
		{402, `{"error":{"code":"never_heard_of"}}`, provider.Failed, provider.HealthOK, false},
	} {
		got := charged(t, tt.status, jsonType, tt.body)
		require.Equal(t, tt.want, got.Outcome, tt.body)
		require.Equal(t, tt.health, got.Health, tt.body)
		require.Equal(t, tt.review, got.Review != "", tt.body)
	}
}

func TestC09_TheSameKeyIsStillInFlight(t *testing.T) {
	t.Parallel()
	got := charged(t, 409, jsonType, `{"error":{"code":"idempotency_key_in_use","message":"try later"}}`)
	require.Equal(t, provider.ReasonKeyInUse, got.Reason)
	require.Equal(t, provider.Unknown, got.Outcome)
	require.Equal(t, provider.NextSnooze, got.Next)
	require.Equal(t, provider.HealthNeutral, got.Health)
	// By status and code, never by text.
	got = charged(t, 409, jsonType, `{"error":{"code":"conflict","message":"idempotency_key_in_use"}}`)
	require.Equal(t, provider.ReasonUnlisted, got.Reason)

	// The call that comes after the first has ended settles once.
	f := newFake(t)
	a := f.adapter(t)
	f.Next(providertest.ChargeHang, providertest.KeyInUse)
	body := frozen(t, a)
	require.Equal(t, provider.Unknown, a.Charge(t.Context(), "k1", body, asked).Outcome)
	require.Equal(t, provider.NextSnooze, a.Charge(t.Context(), "k1", body, asked).Next)
	last := a.Charge(t.Context(), "k1", body, asked)
	require.Equal(t, provider.Succeeded, last.Outcome)
	require.True(t, last.Exchange.Replayed)
	require.Len(t, f.Booked(), 1)
}

func TestC11_KeyReusedWithOtherParameters(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 409, 422} {
		got := charged(t, status, jsonType, `{"error":{"code":"idempotency_key_reused"}}`)
		require.Equal(t, provider.Unknown, got.Outcome, status)
		require.Equal(t, provider.ReasonKeyReused, got.Reason)
		require.NotEmpty(t, got.Review)
		require.Equal(t, provider.HealthNeutral, got.Health)
		require.Equal(t, provider.NextReconcile, got.Next)
	}
	// An oddity beside the code must not hide it.
	got := charged(t, 400, jsonType, `{"error":{"code":"idempotency_key_reused"},"amount":"?"}`)
	require.Equal(t, provider.ReasonKeyReused, got.Reason)
}

func TestC14_AlreadyProcessedIsEvidenceNotFailure(t *testing.T) {
	t.Parallel()
	got := charged(t, 422, jsonType, `{"error":{"code":"already_processed"}}`)
	require.Equal(t, provider.Unknown, got.Outcome)
	require.Equal(t, provider.NextReconcile, got.Next)
	require.True(t, got.Quick)
}

func TestC17_RequiresActionOnTheWire(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 402} {
		got := charged(t, status, jsonType, `{"id":"pay_1","status":"requires_action","amount":4900,"currency":"EUR","action_url":"https://x","error":{"code":"authentication_required"}}`)
		require.Equal(t, provider.RequiresAction, got.Outcome, status)
		require.Equal(t, provider.HealthOK, got.Health)
		require.Equal(t, provider.NextNone, got.Next)
	}
	got := charged(t, 200, jsonType, `{"id":"pay_1","status":"requires_capture","amount":4900,"currency":"EUR"}`)
	require.Equal(t, provider.Processing, got.Outcome, "held, and neither success nor failure")
	require.Equal(t, provider.HealthOK, got.Health)
	got = charged(t, 200, jsonType, `{"id":"pay_1","status":"requires_funding","amount":4900,"currency":"EUR"}`)
	require.Equal(t, provider.ReasonUnmapped, got.Reason)
	require.Equal(t, provider.AlertContract, got.Alert)
}

func TestM01_TheWireCarriesTheISOMinorUnit(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	for _, tt := range []struct {
		money provider.Money
		want  string
	}{
		{provider.Money{Amount: 500, Currency: "JPY"}, `{"reference":"p1","amount":500,"currency":"JPY"}`},
		{provider.Money{Amount: 500, Currency: "KRW"}, `{"reference":"p1","amount":500,"currency":"KRW"}`},
		{provider.Money{Amount: 1999, Currency: "EUR"}, `{"reference":"p1","amount":1999,"currency":"EUR"}`},
		{provider.Money{Amount: 1000000000000, Currency: "EUR"}, `{"reference":"p1","amount":1000000000000,"currency":"EUR"}`},
	} {
		body, err := a.Freeze(provider.ChargeRequest{PaymentID: "p1", Money: tt.money})
		require.NoError(t, err)
		require.Equal(t, tt.want, string(body))
	}
}

func TestM02_ThreeDecimalsOnTheWire(t *testing.T) {
	t.Parallel()
	body, err := newFake(t).adapter(t).Freeze(provider.ChargeRequest{PaymentID: "p1", Money: provider.Money{Amount: 18600, Currency: "KWD"}})
	require.NoError(t, err)
	want := `{"reference":"p1","amount":18600,"currency":"KWD"}`
	require.Equal(t, want, string(body))
}

// 2^53+1 survives only where no float is in the way.
func TestNumbersNeverPassThroughAFloat(t *testing.T) {
	t.Parallel()
	p, err := decodePayment([]byte(`{"id":"pay_1","amount":9007199254740993}`))
	require.NoError(t, err)
	require.EqualValues(t, 9007199254740993, p.Amount)
}

func TestFreezeCarriesEverything(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	body, err := a.Freeze(provider.ChargeRequest{
		PaymentID: "p1", OrderRef: "o1", Money: asked, Description: "Zwei <Karten> & \"mehr\"", CustomerName: "Олена\xff", CustomerEmail: "o@example.com",
	})
	require.NoError(t, err)
	want := `{"reference":"p1","amount":4900,"currency":"EUR","description":"Zwei <Karten> & \"mehr\"","order_ref":"o1","customer":{"name":"Олена\ufffd","email":"o@example.com"}}`
	require.Equal(t, want, string(body))
	_, err = a.Freeze(provider.ChargeRequest{PaymentID: "p1", Money: asked, Description: strings.Repeat("x", 501)})
	require.ErrorContains(t, err, "description")
}

func TestAKeyOutsideTheContractIsNotSent(t *testing.T) {
	t.Parallel()
	a, n := answering(t, 200, jsonType, `{}`)
	for _, key := range []string{"", "a b", "ключ", "a\nb", strings.Repeat("k", 256)} {
		got := a.Charge(t.Context(), key, frozen(t, a), asked)
		require.Equal(t, provider.NotSent, got.Outcome)
		require.Equal(t, provider.HealthNeutral, got.Health)
		require.Equal(t, provider.AlertContract, got.Alert)
	}
	require.Zero(t, n.Load())
}

func TestWhatIsStoredIsRedacted(t *testing.T) {
	t.Parallel()
	got := charged(t, 402, jsonType, `{"id":"pay_1","status":"failed","amount":4900,"currency":"EUR","card":{"number":"4111111111111111","cvc":"123"},
		"error":{"code":"card_declined","message":"card 4111 1111 1111 1111 refused `+strings.Repeat("é", 600)+`"}}`)
	require.Equal(t, provider.Failed, got.Outcome)
	for _, stored := range []string{string(got.Exchange.Body), string(got.Object.Raw), got.Message, got.Object.Message} {
		require.NotContains(t, strings.ReplaceAll(stored, " ", ""), "4111111111111111")
		require.NotContains(t, stored, `"123"`)
	}
	require.Len(t, []rune(got.Message), maxMessage)
	require.Equal(t, "card_declined", got.Object.Reason)
}

func TestCredentialsGoWhereTheyBelong(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	s := f.settings()
	s.APIKey = "wrong"
	a, err := New(s, Options{Sleep: noSleep})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	got := a.Charge(t.Context(), "k1", frozen(t, a), asked)
	require.Equal(t, provider.NotExecuted, got.Outcome)
	require.Equal(t, provider.NextPause, got.Next)
	require.Equal(t, provider.AlertConfig, got.Alert)
	require.Empty(t, f.Booked())
	require.NotContains(t, fmt.Sprintf("%+v", got), "wrong", "the key is in no record")
}

func TestNewRefusesBadSettings(t *testing.T) {
	t.Parallel()
	_, err := New(provider.Settings{}, Options{})
	require.Error(t, err)
	a, err := Build(newFake(t).settings())
	require.NoError(t, err)
	require.Equal(t, "atlas", a.Name())
	require.Equal(t, 24*time.Hour, a.Capabilities().KeyLife)
}

// The quick look at what was sent finds the reference that a decoder finds, or none.
func TestFrozenWithIsWhatADecoderFinds(t *testing.T) {
	t.Parallel()
	for _, reference := range []string{"p1", "019ad5c1-7c2e-7d3a-9f10-2b4c6d8e0f12", `a"b`, `a\b`, `a\`, "é", "", "p1\n"} {
		a := &Adapter{}
		sent, err := a.Freeze(provider.ChargeRequest{PaymentID: reference, Money: asked})
		if reference == "" {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
		require.False(t, a.foreign(provider.Object{Reference: reference}, "k", sent), reference)
		require.Equal(t, !strings.ContainsAny(reference, "\"\\\n"), frozenWith(sent, reference), reference)
		for _, other := range []string{reference[:len(reference)-1], reference + "x", `x`, `p1","amount":1`} {
			require.False(t, other != "" && frozenWith(sent, other), other)
			require.Equal(t, other != "", a.foreign(provider.Object{Reference: other}, "k", sent), other)
		}
	}
	require.False(t, frozenWith([]byte(`{"reference":"p1`), "p1"))
	require.False(t, frozenWith([]byte(`{"amount":1,"reference":"p1"}`), "p1"))
	require.True(t, (&Adapter{}).foreign(provider.Object{Reference: "p2"}, "k", []byte(`{"amount":1,"reference":"p1"}`)))
	require.False(t, (&Adapter{}).foreign(provider.Object{Reference: "P1"}, "k", []byte(`{"amount":1,"reference":"p1"}`)))
}
