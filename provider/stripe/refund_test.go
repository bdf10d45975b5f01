package stripe

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

var part = provider.Money{Amount: 300, Currency: "EUR"}

func refundRequest() provider.OperationRequest {
	return provider.OperationRequest{OperationID: "op1", Kind: provider.OpRefund, PaymentID: "p1", ProviderPaymentID: "pi_1", Charged: asked, Money: part}
}

// refunded is a Refund of 3.00 EUR in JSON, with changes.
func refunded(changes ...any) string {
	r := map[string]any{"id": "re_1", "object": "refund", "status": "succeeded", "amount": 300, "currency": "eur", "created": 1_770_000_000,
		"payment_intent": "pi_1", "charge": "ch_1", "metadata": map[string]string{"operation_id": "op1", "payment_id": "p1"}}
	for i := 0; i+1 < len(changes); i += 2 {
		r[changes[i].(string)] = changes[i+1]
	}
	b, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func refundCall(t *testing.T, a *Adapter) provider.OperationCall {
	t.Helper()
	body, err := a.FreezeOperation(refundRequest())
	require.NoError(t, err)
	return provider.OperationCall{Kind: provider.OpRefund, OperationID: "op1", ProviderPaymentID: "pi_1", Key: "refund-op1", Body: body, Want: part}
}

func TestFrozenRefund(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	body, err := a.FreezeOperation(refundRequest())
	require.NoError(t, err)
	require.Equal(t, "amount=300&metadata[operation_id]=op1&metadata[payment_id]=p1&payment_intent=pi_1", string(body))
	r := refundRequest()
	r.Money = provider.Money{Amount: 5, Currency: "UGX"}
	body, err = a.FreezeOperation(r)
	require.NoError(t, err)
	require.Contains(t, string(body), "amount=500&")
	for field, edit := range map[string]func(*provider.OperationRequest){
		"kind":                func(r *provider.OperationRequest) { r.Kind = "gift" },
		"operation_id":        func(r *provider.OperationRequest) { r.OperationID = "" },
		"provider_payment_id": func(r *provider.OperationRequest) { r.ProviderPaymentID = "pi/1" },
		"amount":              func(r *provider.OperationRequest) { r.Money.Amount = 0 },
		"currency":            func(r *provider.OperationRequest) { r.Money.Currency = "IQD" },
	} {
		r := refundRequest()
		edit(&r)
		_, err := a.FreezeOperation(r)
		var refused *provider.FieldError
		require.ErrorAs(t, err, &refused, field)
		require.Equal(t, field, refused.Field)
	}
}

func TestRefundAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status  int
		body    string
		outcome provider.Outcome
		reason  string
		review  string
	}{
		"succeeded":        {200, refunded(), provider.Succeeded, provider.ReasonSucceeded, ""},
		"pending":          {200, refunded("status", "pending"), provider.Processing, provider.ReasonProcessing, ""},
		"requires_action":  {200, refunded("status", "requires_action"), provider.Processing, provider.ReasonProcessing, ""},
		"failed":           {200, refunded("status", "failed", "failure_reason", "lost_or_stolen_card"), provider.Failed, provider.ReasonDeclined, ""},
		"canceled":         {200, refunded("status", "canceled"), provider.Failed, provider.ReasonDeclined, ""},
		"another word":     {200, refunded("status", "settling"), provider.Unknown, provider.ReasonUnmapped, provider.ReviewUnmapped},
		"another amount":   {200, refunded("amount", 400), provider.Unknown, provider.ReasonAmount, provider.ReviewAmountMismatch},
		"of another one":   {200, refunded("metadata", map[string]string{"operation_id": "op2"}), provider.Unknown, provider.ReasonContradiction, provider.ReviewKeyReused},
		"of other money":   {200, refunded("payment_intent", "pi_2"), provider.Unknown, provider.ReasonContradiction, provider.ReviewKeyReused},
		"expanded charge":  {200, refunded("payment_intent", map[string]any{"id": "pi_1", "object": "payment_intent"}), provider.Succeeded, provider.ReasonSucceeded, ""},
		"a charge":         {200, said(), provider.Unknown, provider.ReasonContract, ""},
		"nothing left":     {400, `{"error":{"type":"invalid_request_error","code":"charge_already_refunded"}}`, provider.Failed, provider.ReasonRejected, ""},
		"too much":         {400, `{"error":{"type":"invalid_request_error","param":"amount"}}`, provider.Failed, provider.ReasonRejected, ""},
		"key in use":       {409, `{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}`, provider.Unknown, provider.ReasonKeyInUse, ""},
		"key reused":       {400, `{"error":{"type":"idempotency_error"}}`, provider.Unknown, provider.ReasonKeyReused, provider.ReviewKeyReused},
		"throttled":        {429, `{"error":{"type":"invalid_request_error","code":"lock_timeout"}}`, provider.NotExecuted, provider.ReasonThrottled, ""},
		"a 500":            {500, `{"error":{"type":"api_error"}}`, provider.Unknown, "provider_500", ""},
		"a page":           {502, `<html>`, provider.Unknown, "gateway_502", ""},
		"cut short":        {200, `{"id":"re_1","status":"succ`, provider.Unknown, provider.ReasonNotJSON, ""},
		"an empty object":  {200, `{}`, provider.Unknown, provider.ReasonNoObject, provider.ReviewUnmapped},
		"amount as string": {200, refunded("amount", "300"), provider.Unknown, provider.ReasonContract, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := answering(t, tt.status, tt.body)
			got := a.Operate(t.Context(), refundCall(t, a))
			require.Equal(t, tt.outcome, got.Outcome, "%+v", got.Classification)
			require.Equal(t, tt.reason, got.Reason)
			require.Equal(t, tt.review, got.Review)
			require.Equal(t, 1, got.Exchange.WireSends)
		})
	}
}

func TestARefundIsAnObjectOfItsOwn(t *testing.T) {
	t.Parallel()
	a := answering(t, 200, refunded("status", "failed", "failure_reason", "expired_or_canceled_card"))
	got := a.Operate(t.Context(), refundCall(t, a))
	o := got.Object
	require.Equal(t, provider.ObjectRefund, o.Kind)
	require.Equal(t, "re_1", o.ID)
	require.Equal(t, "op1", o.Reference)
	require.Equal(t, provider.Child{ChargeID: "pi_1", PaymentID: "p1"}, o.Child)
	require.Equal(t, part, o.Money)
	require.Equal(t, "expired_or_canceled_card", o.Reason)

	c := refundCall(t, a)
	c.Kind = "gift"
	require.Equal(t, provider.ReasonLocal, a.Operate(t.Context(), c).Reason)
	c = refundCall(t, a)
	c.Key = ""
	require.Equal(t, provider.ReasonLocal, a.Operate(t.Context(), c).Reason)
}

// refundServer is Stripe's list of one charge's refunds.
type refundServer struct {
	mu   sync.Mutex
	all  []string // newest first
	asks int
}

func (s *refundServer) adapter(t *testing.T) *Adapter {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/refunds/{id}", func(w http.ResponseWriter, r *http.Request) {
		for _, raw := range s.items() {
			if strings.Contains(raw, `"`+r.PathValue("id")+`"`) {
				reply(w, http.StatusOK, json.RawMessage(raw))
				return
			}
		}
		fail(w, http.StatusNotFound, "invalid_request_error", "resource_missing")
	})
	mux.HandleFunc("GET /v1/refunds", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("payment_intent") != "pi_1" {
			fail(w, http.StatusBadRequest, "invalid_request_error", "")
			return
		}
		items := s.items()
		after := r.URL.Query().Get("starting_after")
		from := slices.IndexFunc(items, func(raw string) bool { return after != "" && strings.Contains(raw, `"`+after+`"`) }) + 1
		to := min(from+pageSize, len(items))
		data := []json.RawMessage{}
		for _, raw := range items[from:to] {
			data = append(data, json.RawMessage(raw))
		}
		reply(w, http.StatusOK, map[string]any{"object": "list", "has_more": to < len(items), "data": data})
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	a, err := New(provider.Settings{Name: "s", BaseURL: srv.URL, APIKey: testKey, WebhookSecrets: []string{testSecret}}, Options{Sleep: noSleep})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a
}

func (s *refundServer) items() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks++
	return s.all
}

func refundQuery() provider.OperationQuery {
	return provider.OperationQuery{Kind: provider.OpRefund, OperationID: "op1", OperationKey: "refund-op1", PaymentID: "p1", ProviderPaymentID: "pi_1", Want: part}
}

func TestRefundLookup(t *testing.T) {
	t.Parallel()
	other := refunded("id", "re_other", "metadata", map[string]string{"operation_id": "op0"})
	dashboard := refunded("id", "re_dash", "metadata", map[string]string{})
	var many []string
	for i := range 250 {
		many = append(many, refunded("id", fmt.Sprintf("re_x%d", i), "metadata", map[string]string{}))
	}
	endless := slices.Repeat(many, 9)
	for i := range endless {
		endless[i] = refunded("id", fmt.Sprintf("re_y%d", i), "metadata", map[string]string{})
	}
	for name, tt := range map[string]struct {
		all     []string
		edit    func(*provider.OperationQuery)
		verdict provider.LookupVerdict
		ids     []string
		way     provider.Way
	}{
		"by reference":       {[]string{other, refunded(), dashboard}, nil, provider.LookupFound, []string{"re_1"}, provider.ByReference},
		"on a later page":    {append(slices.Clone(many), refunded()), nil, provider.LookupFound, []string{"re_1"}, provider.ByReference},
		"twice":              {[]string{refunded("id", "re_2"), refunded()}, nil, provider.LookupFound, []string{"re_2", "re_1"}, provider.ByReference},
		"by id":              {[]string{refunded()}, func(q *provider.OperationQuery) { q.ProviderOperationID = "re_1" }, provider.LookupFound, []string{"re_1"}, provider.ByID},
		"absent":             {[]string{other, dashboard}, nil, provider.LookupAbsent, nil, provider.ByReference},
		"none at all":        {nil, nil, provider.LookupAbsent, nil, provider.ByReference},
		"an id that is gone": {nil, func(q *provider.OperationQuery) { q.ProviderOperationID = "re_1" }, provider.LookupNoAnswer, nil, provider.ByReference},
		"filter ignored":     {[]string{refunded("payment_intent", "pi_9")}, nil, provider.LookupNoAnswer, nil, provider.ByReference},
		"not decodable":      {[]string{refunded("amount", "x")}, nil, provider.LookupNoAnswer, nil, provider.ByReference},
		"theirs is odd":      {[]string{`{"id":"re_o","amount":"x"}`}, nil, provider.LookupAbsent, nil, provider.ByReference},
		"too many to read":   {endless, nil, provider.LookupNoAnswer, nil, provider.ByReference},
		"a gift":             {[]string{refunded()}, func(q *provider.OperationQuery) { q.Kind = "gift" }, provider.LookupNoAnswer, nil, ""},
		"no charge to ask":   {[]string{refunded()}, func(q *provider.OperationQuery) { q.ProviderPaymentID = "" }, provider.LookupNoAnswer, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &refundServer{all: tt.all}
			a := s.adapter(t)
			q := refundQuery()
			if tt.edit != nil {
				tt.edit(&q)
			}
			got := a.LookupOperation(t.Context(), q)
			require.Equal(t, tt.verdict, got.Verdict, "%+v", got.Reason)
			require.Equal(t, tt.way, got.Way)
			var ids []string
			for _, o := range got.Objects {
				ids = append(ids, o.ID)
				require.Equal(t, provider.ObjectRefund, o.Kind)
			}
			require.Equal(t, tt.ids, ids)
			require.LessOrEqual(t, s.asks, requests(a))
			require.Equal(t, s.asks, got.Requests)
		})
	}
}

func TestRefundLookupThatProvesNothing(t *testing.T) {
	t.Parallel()
	for status, health := range map[int]provider.Verdict{403: provider.HealthNeutral, 503: provider.HealthFail, 429: provider.HealthNeutral} {
		got := answering(t, status, `{"error":{"type":"api_error"}}`).LookupOperation(t.Context(), refundQuery())
		require.Equal(t, provider.LookupNoAnswer, got.Verdict)
		require.Equal(t, health, got.Health, status)
	}
}

func TestEventsOfRefundsAndDisputes(t *testing.T) {
	t.Parallel()
	a := verifier(t, "s")
	disputed := func(status string) string {
		return fmt.Sprintf(`{"id":"dp_1","object":"dispute","status":%q,"reason":"fraudulent","amount":4900,"currency":"eur","created":1770000000,
			"charge":"ch_1","payment_intent":"pi_1","evidence_details":{"due_by":1771000000,"submission_count":0}}`, status)
	}
	for name, tt := range map[string]struct {
		raw     []byte
		kind    provider.ObjectKind
		status  string
		outcome provider.Outcome
	}{
		"refund.created":         {event("refund.created", refunded("status", "pending")), provider.ObjectRefund, "pending", provider.Processing},
		"refund.updated":         {event("refund.updated", refunded()), provider.ObjectRefund, "succeeded", provider.Succeeded},
		"refund.failed":          {event("refund.failed", refunded("status", "failed")), provider.ObjectRefund, "failed", provider.Failed},
		"charge.refund.updated":  {event("charge.refund.updated", refunded()), provider.ObjectRefund, "succeeded", provider.Succeeded},
		"charge.dispute.created": {event("charge.dispute.created", disputed("needs_response")), provider.ObjectDispute, provider.DisputeOpened, ""},
		"charge.dispute.updated": {event("charge.dispute.updated", disputed("under_review")), provider.ObjectDispute, provider.DisputeOpened, ""},
		"won":                    {event("charge.dispute.closed", disputed("won")), provider.ObjectDispute, provider.DisputeWon, ""},
		"lost":                   {event("charge.dispute.closed", disputed("lost")), provider.ObjectDispute, provider.DisputeLost, ""},
		"a warning ends":         {event("charge.dispute.closed", disputed("warning_closed")), provider.ObjectDispute, provider.DisputeWon, ""},
	} {
		got, err := a.Parse(tt.raw)
		require.NoError(t, err, name)
		o := got[0].Object
		require.True(t, got[0].Interesting, name)
		require.Equal(t, tt.kind, o.Kind, name)
		require.Equal(t, tt.status, o.Status, name)
		require.Equal(t, tt.outcome, o.Outcome, name)
		require.Equal(t, "pi_1", o.Child.ChargeID, name)
		if tt.kind == provider.ObjectDispute {
			require.Equal(t, asked, o.Money)
			require.Equal(t, "fraudulent", o.Reason)
			require.Equal(t, time.Unix(1771000000, 0).UTC(), o.Child.DueBy)
		}
	}
	for _, raw := range [][]byte{
		event("refund.created", `{}`), event("refund.created", said()), event("charge.dispute.closed", disputed("lost in the post")),
		event("charge.dispute.created", `{"id":"dp_1","object":"refund"}`), event("charge.dispute.created", `[]`), event("refund.updated", `[]`),
	} {
		_, err := a.Parse(raw)
		require.Error(t, err)
	}
}

// charge.refunded brings the running figures of the charge: a check, never an addition.
func TestEventsOfTotals(t *testing.T) {
	t.Parallel()
	a := verifier(t, "s")
	charge := func(changes ...any) string {
		c := map[string]any{"id": "ch_1", "object": "charge", "payment_intent": "pi_1", "status": "succeeded", "currency": "eur",
			"amount": 4900, "amount_captured": 4900, "amount_refunded": 300, "created": 1_770_000_000, "metadata": map[string]string{"payment_id": "p1"}}
		for i := 0; i+1 < len(changes); i += 2 {
			c[changes[i].(string)] = changes[i+1]
		}
		b, err := json.Marshal(c)
		require.NoError(t, err)
		return string(b)
	}
	got, err := a.Parse(event("charge.refunded", charge()))
	require.NoError(t, err)
	o := got[0].Object
	require.True(t, got[0].Interesting)
	require.Equal(t, provider.ObjectCharge, o.Kind)
	require.Equal(t, "pi_1", o.ID, "the intent is the charge we know")
	require.Equal(t, "p1", o.Reference)
	require.Equal(t, provider.Succeeded, o.Outcome)
	require.Equal(t, asked, o.Money)
	require.Equal(t, &provider.Totals{Authorised: 4900, Captured: 4900, Refunded: 300}, o.Totals)

	for name, changes := range map[string][]any{
		"not taken": {"status", "failed"}, "no money we can say": {"currency", "ugx", "amount_refunded", 350}, "more than was there": {"amount_captured", 9900},
	} {
		got, err := a.Parse(event("charge.refunded", charge(changes...)))
		require.NoError(t, err, name)
		require.Empty(t, got[0].Object.Outcome, name)
	}
	for name, raw := range map[string]string{
		"no intent": charge("payment_intent", nil), "not a charge": charge("object", "refund"), "no number": charge("amount_refunded", "x"),
	} {
		_, err := a.Parse(event("charge.refunded", raw))
		require.Error(t, err, name)
	}
}

// The refund's requests are Stripe's, too; see TestStripeMockTakesEveryRequest.
func (a *Adapter) everyRefundRequest(t *testing.T) {
	t.Helper()
	got := a.Operate(t.Context(), refundCall(t, a))
	require.Equal(t, http.StatusOK, got.Exchange.Status, "%s", got.Exchange.Body)
	q := refundQuery()
	q.ProviderOperationID = "re_1"
	a.LookupOperation(t.Context(), q)
	l := lookup{Adapter: a, ctx: t.Context(), most: 100}
	l.refundByReference(q)
	ex, _ := l.ask(refundsPath, url.Values{"payment_intent": {"pi_1"}, "limit": {"100"}, "starting_after": {"re_1"}})
	require.Equal(t, http.StatusOK, ex.Status)
}
