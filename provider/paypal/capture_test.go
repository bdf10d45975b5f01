package paypal

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// heldWith is an order that holds its money, with what else is in its payments.
func heldWith(status, more string) string {
	return `{"id":"O1","intent":"AUTHORIZE","status":"COMPLETED","purchase_units":[{"custom_id":"p1","amount":{"currency_code":"EUR","value":"49.00"},
		"payments":{"authorizations":[{"id":"A1","status":"` + status + `","amount":{"currency_code":"EUR","value":"49.00"},"custom_id":"p1",
		"create_time":"2026-02-02T02:40:00Z","update_time":"2026-02-20T00:00:00Z","expiration_time":"2026-03-03T02:40:00Z"}]` + more + `}}]}`
}

func captures(list string) string { return `,"captures":[` + list + `]` }

func partOf(status, value string) string {
	return `{"id":"C1","status":"` + status + `","amount":{"currency_code":"EUR","value":"` + value + `"},"custom_id":"p1"}`
}

// What an order that holds its money says of the charge.
func TestHeldOrders(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		raw     string
		outcome provider.Outcome
		reason  string
		amount  int64
	}{
		"held":                     {heldWith("CREATED", ""), provider.Processing, provider.ReasonAuthorised, 4900},
		"not decided":              {heldWith("PENDING", ""), provider.Processing, "", 4900},
		"refused":                  {heldWith("DENIED", ""), provider.Failed, "", 4900},
		"let go":                   {heldWith("VOIDED", ""), provider.Failed, provider.ReasonVoided, 4900},
		"lapsed, by the time":      {strings.Replace(heldWith("VOIDED", ""), "2026-02-20", "2026-03-04", 1), provider.Failed, provider.ReasonExpired, 4900},
		"lapsed, by the word":      {heldWith("EXPIRED", ""), provider.Failed, provider.ReasonExpired, 4900},
		"captured, by nothing":     {heldWith("CAPTURED", ""), "", "", 4900},
		"a word nobody knows":      {heldWith("LEVITATING", ""), "", "", 4900},
		"a part captured":          {heldWith("PARTIALLY_CAPTURED", captures(partOf("COMPLETED", "10.00"))), provider.Succeeded, "", 1000},
		"a part being captured":    {heldWith("CREATED", captures(partOf("PENDING", "10.00"))), provider.Processing, "", 4900},
		"a capture that failed":    {heldWith("CREATED", captures(partOf("DECLINED", "10.00"))), provider.Processing, provider.ReasonAuthorised, 4900},
		"captured twice":           {heldWith("CAPTURED", captures(partOf("COMPLETED", "10.00")+","+partOf("COMPLETED", "10.00"))), "", "", 1000},
		"held twice":               {strings.Replace(heldWith("CREATED", ""), `"authorizations":[`, `"authorizations":[{"id":"A0","status":"CREATED"},`, 1), "", provider.ReasonAuthorised, 4900},
		"held again":               {strings.Replace(heldWith("CREATED", ""), `"authorizations":[`, `"authorizations":[{"id":"A0","status":"VOIDED"},`, 1), provider.Processing, provider.ReasonAuthorised, 4900},
		"an order nobody knows":    {strings.Replace(heldWith("CREATED", ""), `"COMPLETED"`, `"SETTLING"`, 1), "", provider.ReasonAuthorised, 4900},
		"held, and says how much?": {strings.Replace(heldWith("CREATED", ""), `"amount":{"currency_code":"EUR","value":"49.00"},"custom_id":"p1",`, `"custom_id":"p1",`, 1), "", provider.ReasonAuthorised, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ord, err := decodeOrder([]byte(tt.raw))
			require.NoError(t, err)
			o := ord.object([]byte(tt.raw))
			require.Equal(t, tt.outcome, o.Outcome, "%+v", o)
			require.Equal(t, tt.reason, o.Reason)
			require.Equal(t, tt.amount, o.Money.Amount)
			require.Equal(t, "p1", o.Reference)
		})
	}
	ord, err := decodeOrder([]byte(heldWith("CREATED", "")))
	require.NoError(t, err)
	require.Equal(t, &provider.Totals{Authorised: 4900, AuthorisedUntil: time.Date(2026, 3, 3, 2, 40, 0, 0, time.UTC)}, ord.object(nil).Totals)
	ord, err = decodeOrder([]byte(heldWith("CAPTURED", captures(partOf("COMPLETED", "10.00")))))
	require.NoError(t, err)
	require.Equal(t, int64(1000), ord.object(nil).Totals.Captured)
	require.Equal(t, int64(4900), ord.object(nil).Totals.Authorised)
}

// The bytes of a hold, a capture and a void, to the letter.
func TestCaptureOnTheWire(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	charge := request(asked49)
	charge.ManualCapture = true
	body, err := a.Freeze(charge)
	require.NoError(t, err)
	require.Contains(t, string(body), `{"intent":"AUTHORIZE",`)
	r := provider.OperationRequest{OperationID: "op1", Kind: provider.OpCapture, PaymentID: "p1", ProviderPaymentID: "O1",
		Charged: provider.Money{Amount: 104500, Currency: "HUF"}, Money: provider.Money{Amount: 4500, Currency: "HUF"}}
	body, err = a.FreezeOperation(r)
	require.NoError(t, err)
	require.JSONEq(t, `{"amount":{"currency_code":"HUF","value":"45"},"final_capture":true}`, string(body))
	r.Money.Amount = 4550
	_, err = a.FreezeOperation(r)
	require.ErrorContains(t, err, "amount", "taken without decimals")
	r.Kind, r.Money = provider.OpVoid, r.Charged
	body, err = a.FreezeOperation(r)
	require.NoError(t, err)
	require.Equal(t, `{}`, string(body))
}

// An answer that the hold was used up already is looked up, not believed.
func TestCapturesThatWereMadeBefore(t *testing.T) {
	t.Parallel()
	for _, issue := range []string{"AUTHORIZATION_ALREADY_CAPTURED", "AUTHORIZATION_VOIDED", "PREVIOUSLY_CAPTURED", "PREVIOUSLY_VOIDED"} {
		ans := readActed(provider.Exchange{Status: http.StatusUnprocessableEntity, Body: []byte(`{"name":"UNPROCESSABLE_ENTITY","details":[{"issue":"` + issue + `"}]}`)},
			provider.OperationCall{Kind: provider.OpCapture}, authorization{})
		require.True(t, ans.AlreadyDone, issue)
	}
	// A capture that took nothing leaves the hold as it was.
	ans := readActed(provider.Exchange{Status: http.StatusCreated, Body: []byte(partOf("DECLINED", "10.00"))},
		provider.OperationCall{Kind: provider.OpCapture, ProviderPaymentID: "O1"}, authorization{ID: "A1", CustomID: "p1"})
	require.Equal(t, provider.Failed, ans.Object.Outcome)
	require.Nil(t, ans.Object.Child.Charge)
	require.False(t, ans.Foreign)
	for _, kind := range []provider.OperationKind{provider.OpCapture, provider.OpVoid} {
		c := provider.OperationCall{Kind: kind, ProviderPaymentID: "O1"}
		require.Nil(t, readActed(provider.Exchange{Status: http.StatusOK, Body: []byte(`{}`)}, c, authorization{}).Object)
		require.Error(t, readActed(provider.Exchange{Status: http.StatusOK, Body: []byte(`{"id":1}`)}, c, authorization{}).DecodeErr)
		require.True(t, readActed(provider.Exchange{Status: http.StatusNoContent}, c, authorization{}).Malformed, "a void that says nothing is looked up")
	}
}

// Nothing is sent where nothing is held.
func TestActionsThatCannotBegin(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.ours("ORD1", time.Now())
	a := f.adapter(t)
	for _, kind := range []provider.OperationKind{provider.OpCapture, provider.OpVoid} {
		got := a.Operate(t.Context(), provider.OperationCall{Kind: kind, OperationID: "op1", ProviderPaymentID: "ORD1", Key: "k1", Body: []byte(`{}`), Want: asked49})
		require.Equal(t, provider.NotSent, got.Outcome, "%+v", got.Classification)
		require.Equal(t, provider.ReasonLocal, got.Reason)
	}
	require.Empty(t, f.ReceivedActions())
}

// A hold whose answer was lost is found by our reference: the search names it, and its
// order says what became of it.
func TestAHoldIsFoundByReference(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	r := request(asked49)
	r.ManualCapture = true
	body, err := a.Freeze(r)
	require.NoError(t, err)
	f.Next(providertest.ChargeCut)
	require.Equal(t, provider.Unknown, a.Charge(t.Context(), "k1", body, asked49).Outcome)
	got := a.Lookup(t.Context(), provider.LookupQuery{PaymentID: "p1", Want: asked49, SentFrom: time.Now(), SentTo: time.Now()})
	require.Equal(t, provider.LookupFound, got.Verdict, "%+v", got)
	require.Len(t, got.Objects, 1)
	require.Equal(t, provider.Processing, got.Objects[0].Outcome)
	require.Equal(t, provider.ReasonAuthorised, got.Objects[0].Reason)
	require.Equal(t, 3, got.Requests, "the search, the authorisation, its order")
}

func TestEventsOfHolds(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	hold := func(status string) string {
		return `{"id":"A1","status":"` + status + `","amount":{"currency_code":"EUR","value":"49.00"},"custom_id":"p1",
			"supplementary_data":{"related_ids":{"order_id":"O1"}}}`
	}
	part := func(status string) string {
		return `{"id":"C1","status":"` + status + `","amount":{"currency_code":"EUR","value":"10.00"},"custom_id":"p1",
			"supplementary_data":{"related_ids":{"order_id":"O1","authorization_id":"A1"}}}`
	}
	for name, tt := range map[string]struct {
		raw     []byte
		outcome provider.Outcome
		reason  string
		amount  int64
	}{
		"held":                  {event("PAYMENT.AUTHORIZATION.CREATED", hold("CREATED")), provider.Processing, provider.ReasonAuthorised, 4900},
		"let go":                {event("PAYMENT.AUTHORIZATION.VOIDED", hold("VOIDED")), provider.Failed, provider.ReasonVoided, 4900},
		"a contradiction":       {event("PAYMENT.AUTHORIZATION.VOIDED", hold("CREATED")), "", provider.ReasonAuthorised, 4900},
		"a part captured":       {event("PAYMENT.CAPTURE.COMPLETED", part("COMPLETED")), provider.Succeeded, "", 1000},
		"a part being captured": {event("PAYMENT.CAPTURE.PENDING", part("PENDING")), provider.Processing, "", 0},
	} {
		got, err := a.Parse(tt.raw)
		require.NoError(t, err, name)
		require.True(t, got[0].Interesting, name)
		o := got[0].Object
		require.Equal(t, provider.ObjectCharge, o.Kind, name)
		require.Equal(t, "O1", o.ID, name)
		require.Equal(t, "p1", o.Reference, name)
		require.Equal(t, tt.outcome, o.Outcome, name)
		require.Equal(t, tt.reason, o.Reason, name)
		require.Equal(t, tt.amount, o.Money.Amount, name)
	}
	for _, raw := range []string{`{"id":1}`, `{"id":"A1","status":"CREATED","custom_id":"p1"}`, `{"id":"` + strings.Repeat("A", 101) + `"}`} {
		_, err := a.Parse(event("PAYMENT.AUTHORIZATION.CREATED", raw))
		require.Error(t, err, "%.80s", raw)
	}
}

// A capture that was declined later is told by its own id, and says nothing of its order:
// however the event says that the money was held first.
func TestEventsOfDeclinedCaptures(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	part := func(more string) string {
		return `{"id":"C1","status":"DECLINED","amount":{"currency_code":"EUR","value":"10.00"},"custom_id":"p1"` + more + `}`
	}
	related := `,"supplementary_data":{"related_ids":{"order_id":"O1","authorization_id":"A1"}}`
	link := `,"supplementary_data":{"related_ids":{"order_id":"O1"}},"links":[{"rel":"self","href":"https://api-m.paypal.com/v2/payments/captures/C1"},
		{"rel":"up","href":"https://api-m.paypal.com/v2/payments/authorizations/A1"}]`
	details := `,"status_details":{"reason":"DECLINED_BY_RISK_FRAUD_FILTERS"}`
	for name, tt := range map[string]struct{ kind, more, reason string }{
		"by the related ids": {"PAYMENT.CAPTURE.DECLINED", related, "capture_declined"},
		"by the link":        {"PAYMENT.CAPTURE.DENIED", link, "capture_declined"},
		"and says why":       {"PAYMENT.CAPTURE.DECLINED", related + details, "DECLINED_BY_RISK_FRAUD_FILTERS"},
	} {
		got, err := a.Parse(event(tt.kind, part(tt.more)))
		require.NoError(t, err, name)
		require.True(t, got[0].Interesting, name)
		o := got[0].Object
		require.Equal(t, provider.ObjectCapture, o.Kind, name)
		require.Equal(t, "C1", o.ID, name)
		require.Empty(t, o.Reference, name)
		require.Equal(t, provider.Failed, o.Outcome, name)
		require.Equal(t, tt.reason, o.Reason, name)
		require.Equal(t, provider.Money{Amount: 1000, Currency: "EUR"}, o.Money, name)
		require.Equal(t, provider.Child{ChargeID: "O1", PaymentID: "p1"}, o.Child, name)
	}
	got, err := a.Parse(event("PAYMENT.CAPTURE.DECLINED", part(`,"supplementary_data":{"related_ids":{"order_id":"O1"}},"links":{}`)))
	require.NoError(t, err)
	require.Equal(t, provider.ObjectCharge, got[0].Object.Kind, "of an order that took its money at once, it is the charge's")
	require.Equal(t, "O1", got[0].Object.ID)
}

// Where the order holds all its money, a capture's own id decides, if it says that it failed
// and nothing else.
func TestACaptureIsAskedAboutByItsOwnID(t *testing.T) {
	t.Parallel()
	const amount, related = `"amount":{"currency_code":"EUR","value":"10.00"}`, `"supplementary_data":{"related_ids":{"order_id":"O1","authorization_id":"A1"}}`
	for name, tt := range map[string]struct {
		status  int
		body    string
		verdict provider.LookupVerdict
		reason  string
	}{
		"declined":        {200, `{"id":"C1","status":"DECLINED","custom_id":"p1",` + amount + `,` + related + `}`, provider.LookupFound, provider.ReasonFound},
		"failed":          {200, `{"id":"C1","status":"FAILED","custom_id":"p1",` + amount + `}`, provider.LookupFound, provider.ReasonFound},
		"not decided":     {200, `{"id":"C1","status":"PENDING","custom_id":"p1",` + amount + `,` + related + `}`, provider.LookupNoAnswer, provider.ReasonContradiction},
		"taken":           {200, `{"id":"C1","status":"COMPLETED","custom_id":"p1",` + amount + `,` + related + `}`, provider.LookupNoAnswer, provider.ReasonContradiction},
		"of another":      {200, `{"id":"C1","status":"DECLINED","custom_id":"p2",` + amount + `}`, provider.LookupNoAnswer, provider.ReasonFilterIgnored},
		"another one":     {200, `{"id":"C2","status":"DECLINED","custom_id":"p1",` + amount + `}`, provider.LookupNoAnswer, provider.ReasonFilterIgnored},
		"gone":            {404, `{"name":"RESOURCE_NOT_FOUND"}`, provider.LookupNoAnswer, provider.ReasonVanished},
		"not to be asked": {403, `{"name":"NOT_AUTHORIZED"}`, provider.LookupNoAnswer, provider.ReasonForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mux := http.NewServeMux()
			say := func(status int, body string) http.HandlerFunc {
				return func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(status)
					_, _ = io.WriteString(w, body)
				}
			}
			mux.HandleFunc("POST /v1/oauth2/token", say(200, `{"access_token":"t","token_type":"Bearer","expires_in":32400}`))
			mux.HandleFunc("GET /v2/checkout/orders/O1", say(200, heldWith("CREATED", captures(partOf("DECLINED", "10.00")))))
			mux.HandleFunc("GET /v2/payments/captures/C1", say(tt.status, tt.body))
			srv := httptest.NewServer(mux)
			t.Cleanup(srv.Close)
			a := (&fake{url: srv.URL}).adapter(t)
			q := provider.OperationQuery{Kind: provider.OpCapture, OperationID: "op1", PaymentID: "p1", ProviderPaymentID: "O1", ProviderOperationID: "C1",
				Want: provider.Money{Amount: 1000, Currency: "EUR"}}
			got := a.LookupOperation(t.Context(), q)
			require.Equal(t, tt.verdict, got.Verdict, "%+v", got)
			require.Equal(t, tt.reason, got.Reason)
			require.Equal(t, 2, got.Requests)
			if tt.verdict != provider.LookupFound {
				require.Empty(t, got.Objects)
				return
			}
			require.Equal(t, "C1", got.Objects[0].ID)
			require.Equal(t, "O1", got.Objects[0].Child.ChargeID)
			require.Nil(t, got.Objects[0].Child.Charge)
		})
	}
}

func TestDisputes(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	d := func(status, more string) string {
		return `{"dispute_id":"PP-D-1","status":"` + status + `","disputed_transactions":[{"seller_transaction_id":"C1","invoice_number":"p1"}]` + more + `}`
	}
	end := func(code string) string { return d("RESOLVED", `,"dispute_outcome":{"outcome_code":"`+code+`"}`) }
	for raw, want := range map[string]string{
		d("OPEN", ""): provider.DisputeOpened, d("UNDER_REVIEW", ""): provider.DisputeOpened,
		end("RESOLVED_BUYER_FAVOUR"): provider.DisputeLost, end("ACCEPTED"): provider.DisputeLost,
		end("RESOLVED_SELLER_FAVOUR"): provider.DisputeWon, end("RESOLVED_WITH_PAYOUT"): provider.DisputeWon,
		end("CANCELED_BY_BUYER"): provider.DisputeWon, end("DENIED"): provider.DisputeWon,
		end("NONE"): "", d("RESOLVED", ""): "", d("LEVITATING", ""): "", `[]`: "", `{"status":"OPEN"}`: "",
		`{"dispute_id":"PP-D-1","status":"OPEN"}`: "", `{"dispute_id":"PP-D-1","status":"OPEN","disputed_transactions":[{},{}]}`: "",
		`{"dispute_id":"PP-D-1","status":"OPEN","disputed_transactions":[{"custom":"` + strings.Repeat("p", 200) + `"}]}`: "",
	} {
		got, err := a.Parse(event("CUSTOMER.DISPUTE.UPDATED", raw))
		if want == "" {
			require.Error(t, err, raw)
			continue
		}
		require.NoError(t, err, raw)
		require.Equal(t, want, got[0].Object.Status, raw)
		require.Equal(t, "p1", got[0].Object.Child.PaymentID)
		require.Zero(t, got[0].Object.Money, "not said")
	}
}
