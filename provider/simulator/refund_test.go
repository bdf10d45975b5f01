package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// refundOrder is what a test refunds.
type refundOrder struct {
	Reference string `json:"reference"`
	Amount    int64  `json:"amount"`
	Currency  string `json:"currency"`
}

// back is a refund of 10.00 EUR.
func back(reference string) refundOrder { return refundOrder{reference, 1000, "EUR"} }

// charged makes a charge that took 49.00 EUR, and returns its id.
func (b *bench) charged(reference, orderRef string) string {
	b.t.Helper()
	a := b.charge("charge-"+reference, one(reference, orderRef))
	require.Equal(b.t, http.StatusOK, a.status, "%s", a.body)
	return a.object(b.t).ID
}

// refund asks for a refund and wants an answer.
func (b *bench) refund(charge, key string, o refundOrder) answer {
	b.t.Helper()
	a, err := b.tryRefund(b.t.Context(), charge, key, o)
	require.NoError(b.t, err)
	require.NoError(b.t, a.err)
	return a
}

func (b *bench) tryRefund(ctx context.Context, charge, key string, o refundOrder) (answer, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return answer{}, err
	}
	return b.send(ctx, http.MethodPost, "/payments/"+charge+"/refunds", key, "application/json", body)
}

// refund reads the answer as a refund.
func (a answer) refund(t *testing.T) refundObject {
	t.Helper()
	var o refundObject
	require.NoError(t, json.Unmarshal(a.body, &o), "%s", a.body)
	return o
}

// foundRefunds asks the provider for several refunds.
func (b *bench) foundRefunds(path string) []refundObject {
	b.t.Helper()
	a := b.get(path)
	require.Equal(b.t, http.StatusOK, a.status, "%s", a.body)
	var p struct{ Data []refundObject }
	require.NoError(b.t, json.Unmarshal(a.body, &p))
	require.NotNil(b.t, p.Data)
	return p.Data
}

// refunded returns what was really given back of a charge.
func (b *bench) refunded(charge string) []Charge {
	b.t.Helper()
	all, err := b.Refunds()
	require.NoError(b.t, err)
	var out []Charge
	for _, r := range all {
		if r.Of == charge {
			out = append(out, r)
		}
	}
	return out
}

func TestRefundSucceeds(t *testing.T) {
	t.Parallel()
	b := start(t)
	id := b.charged("p1", "")
	a := b.refund(id, "r1", back("op1"))
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	o := a.refund(t)
	require.True(t, strings.HasPrefix(o.ID, "ref_"), o.ID)
	require.Equal(t, refundObject{
		ID: o.ID, PaymentID: id, PaymentReference: "p1", Reference: "op1", Status: "succeeded", Amount: 1000, Currency: "EUR",
		CreatedAt: o.CreatedAt, Key: "r1",
	}, o)
	require.Equal(t, o, b.get("/refunds/"+o.ID).refund(t))
	require.Equal(t, []refundObject{o}, b.foundRefunds("/refunds?reference=op1"))
	require.Equal(t, []refundObject{o}, b.foundRefunds("/refunds?idempotency_key=r1"))
	require.Equal(t, []refundObject{o}, b.foundRefunds("/refunds"))

	charge := b.get("/payments/" + id).object(t)
	require.Equal(t, "succeeded", charge.Status, "a refund is no status of its charge")
	require.Equal(t, &totals{Captured: 4900, Refunded: 1000}, charge.Totals)
	require.Len(t, b.found("/payments?created_to=2100-01-01T00:00:00Z"), 1, "a refund is no charge")
	require.Empty(t, b.found("/payments?reference=op1"))
	require.Empty(t, b.found("/payments?idempotency_key=r1"))
	require.Equal(t, http.StatusNotFound, b.get("/payments/"+o.ID).status)
	require.Equal(t, http.StatusNotFound, b.get("/refunds/"+id).status)
	require.Empty(t, b.foundRefunds("/refunds?reference=p1"))
}

// Two refunds that differ in key and reference alone are two refunds; and a page of them
// is a page of refunds.
func TestW05_EqualRefundsAreTwo(t *testing.T) {
	t.Parallel()
	b := start(t)
	id := b.charged("p1", "")
	first, second := b.refund(id, "r1", back("op1")).refund(t), b.refund(id, "r2", back("op2")).refund(t)
	require.NotEqual(t, first.ID, second.ID)
	require.Equal(t, &totals{Captured: 4900, Refunded: 2000}, b.get("/payments/"+id).object(t).Totals)

	a := b.get("/refunds?limit=1")
	var p struct {
		Data []refundObject
		Next string
	}
	require.NoError(t, json.Unmarshal(a.body, &p))
	require.Equal(t, []refundObject{first}, p.Data)
	require.NotEmpty(t, p.Next)
	require.Equal(t, []refundObject{second}, b.foundRefunds("/refunds?limit=1&cursor="+p.Next))
}

func TestRefundsThatAreRefused(t *testing.T) {
	t.Parallel()
	b := start(t)
	id, other := b.charged("p1", ""), b.charged("p3", "")
	undecided := b.charge("c2", one("p2", "fault:async_202")).object(t).ID
	refund := b.refund(other, "r0", back("op0")).refund(t).ID
	for name, tt := range map[string]struct {
		charge, key string
		order       refundOrder
		status      int
		code, field string
	}{
		"no such charge":   {"pay_none", "k", back("op"), http.StatusNotFound, "not_found", ""},
		"a refund":         {refund, "k", back("op"), http.StatusNotFound, "not_found", ""},
		"undecided":        {undecided, "k", back("op"), http.StatusUnprocessableEntity, "not_refundable", ""},
		"more than it was": {id, "k", refundOrder{"op", 4901, "EUR"}, http.StatusUnprocessableEntity, "exceeds_refundable", "amount"},
		"more than left":   {other, "k", refundOrder{"op", 3901, "EUR"}, http.StatusUnprocessableEntity, "exceeds_refundable", "amount"},
		"other currency":   {id, "k", refundOrder{"op", 100, "USD"}, http.StatusUnprocessableEntity, "invalid_request", "currency"},
		"nothing":          {id, "k", refundOrder{"op", 0, "EUR"}, http.StatusUnprocessableEntity, "invalid_request", "amount"},
		"no reference":     {id, "k", refundOrder{"", 100, "EUR"}, http.StatusUnprocessableEntity, "invalid_request", "reference"},
		"no key":           {id, "", back("op"), http.StatusBadRequest, "invalid_request", keyField},
	} {
		t.Run(name, func(t *testing.T) {
			a := b.refund(tt.charge, tt.key, tt.order)
			require.Equal(t, tt.status, a.status, "%s", a.body)
			require.Equal(t, tt.code, a.problem(t).Code)
			require.Equal(t, tt.field, a.problem(t).Field)
			require.NotEmpty(t, a.problem(t).Message)
		})
	}
	require.Empty(t, b.refunded(id))
	require.Equal(t, http.StatusOK, b.refund(id, "k", refundOrder{"op", 4900, "EUR"}).status, "a refusal is not kept under the key")
}

// A key stands for one refund of one charge.
func TestC11_AKeyStandsForOneRefundOfOneCharge(t *testing.T) {
	t.Parallel()
	b := start(t)
	id, other := b.charged("p1", ""), b.charged("p2", "")
	first := b.refund(id, "r1", back("op1"))
	again := b.refund(id, "r1", back("op1"))
	require.Equal(t, first.body, again.body)
	require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
	require.Len(t, b.refunded(id), 1)
	require.Equal(t, 2, b.Stats().ByKey["r1"])

	for name, a := range map[string]answer{
		"other amount":     b.refund(id, "r1", refundOrder{"op1", 999, "EUR"}),
		"other charge":     b.refund(other, "r1", back("op1")),
		"the charge's key": b.refund(id, "charge-p1", back("op2")),
	} {
		require.Equal(t, http.StatusBadRequest, a.status, name)
		require.Equal(t, "idempotency_key_reused", a.problem(t).Code, name)
	}
	require.Len(t, b.refunded(id), 1)
	require.Empty(t, b.refunded(other))
}

// However many ask at once, a charge is not given back more than once.
func TestRefundsNeverExceedTheirCharge(t *testing.T) {
	t.Parallel()
	b := start(t)
	id := b.charged("p1", "")
	statuses := make([]int, 20)
	var wg sync.WaitGroup
	for i := range statuses {
		wg.Go(func() {
			name := fmt.Sprintf("op%d", i)
			a, err := b.tryRefund(t.Context(), id, name, back(name))
			if err == nil {
				statuses[i] = a.status
			}
		})
	}
	wg.Wait()
	done := 0
	for _, s := range statuses {
		if s == http.StatusOK {
			done++
		} else {
			require.Equal(t, http.StatusUnprocessableEntity, s)
		}
	}
	require.Equal(t, 4, done, "4 × 10.00 of 49.00")
	require.Equal(t, &totals{Captured: 4900, Refunded: 4000}, b.get("/payments/"+id).object(t).Totals)
}

// Every charge fault happens to refunds too: what is booked is the truth, and no answer
// tells more than it.
func TestFaultsOfRefunds(t *testing.T) {
	t.Parallel()
	for fault, want := range map[Fault]struct {
		status int // 0: no answer
		booked string
	}{
		ChargedThenCut:       {0, StatusSucceeded},
		ChargedThenReset:     {0, StatusSucceeded},
		ChargedThen502:       {http.StatusBadGateway, StatusSucceeded},
		ChargedThenTruncated: {-1, StatusSucceeded},
		ChargedThenHTML:      {http.StatusOK, StatusSucceeded},
		ChargedThenRedirect:  {http.StatusTemporaryRedirect, StatusSucceeded},
		ChargedThenSilent:    {0, StatusSucceeded},
		Slow:                 {http.StatusOK, StatusSucceeded},
		Drip:                 {http.StatusOK, StatusSucceeded},
		Hang:                 {0, ""},
		Error500:             {http.StatusInternalServerError, ""},
		Error500Charged:      {http.StatusInternalServerError, StatusSucceeded},
		InProgress409:        {http.StatusOK, StatusSucceeded},
		Throttle429:          {http.StatusTooManyRequests, ""},
		Decline:              {http.StatusPaymentRequired, StatusFailed},
		Rejected422:          {http.StatusUnprocessableEntity, ""},
		Async202:             {http.StatusAccepted, StatusProcessing},
		RequiresAction:       {http.StatusAccepted, StatusProcessing},
		AmountAltered:        {http.StatusOK, StatusSucceeded},
		AmountMisreported:    {http.StatusOK, StatusSucceeded},
		WrongShape:           {http.StatusOK, StatusSucceeded},
		UnmappedStatus:       {http.StatusOK, StatusSucceeded},
		Unauthorized401:      {http.StatusUnauthorized, ""},
		Forbidden403:         {http.StatusForbidden, ""},
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			b := start(t, func(o *Options) { o.Faults.Timing.Async, o.Faults.Timing.Action = time.Hour, time.Hour })
			id := b.charged("p1", "")
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			if fault == ChargedThenSilent || fault == Hang {
				ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
			}
			defer cancel()
			a, err := b.tryRefund(ctx, id, "r1", back("op1-fault:"+string(fault)))
			switch want.status {
			case 0:
				require.Error(t, err)
			case -1:
				require.NoError(t, err)
				require.Error(t, a.err)
			default:
				require.NoError(t, err)
				require.Equal(t, want.status, a.status, "%s", a.body)
			}
			require.Equal(t, 1, b.Stats().Faults[fault])
			booked := b.refunded(id)
			if want.booked == "" {
				require.Empty(t, booked)
				return
			}
			require.Len(t, booked, 1)
			require.Equal(t, want.booked, booked[0].Status)
			require.Equal(t, fault, booked[0].Fault)
			sum := booked[0].Amount
			if want.booked != StatusSucceeded {
				sum = 0
			}
			require.Equal(t, sum, b.ledger("p1")[0].Refunded)
		})
	}
}

// Mistakes of the provider end where the money does.
func TestFaultyRefundsStayWithinTheirCharge(t *testing.T) {
	t.Parallel()
	b := start(t)
	twice, whole, one := b.charged("p1", ""), b.charged("p2", ""), b.charged("p3", "")
	b.refund(twice, "r1", back("op1-fault:double_object"))
	require.Len(t, b.refunded(twice), 2)
	b.refund(whole, "r2", refundOrder{"op2-fault:double_object", 4900, "EUR"})
	require.Len(t, b.refunded(whole), 1)
	b.refund(one, "r3", refundOrder{"op3", 4895, "EUR"})
	b.refund(one, "r4", refundOrder{"op4-fault:amount_altered", 5, "EUR"})
	require.Equal(t, int64(4900), b.ledger("p3")[0].Refunded)
}

// How the faults of a refund are chosen.
func TestPicksOfRefunds(t *testing.T) {
	t.Parallel()
	b := start(t, faulty(map[Fault]float64{Throttle429: 1}))
	for name, tt := range map[string]struct {
		orderRef, reference string
		amount              int64
		want                Fault
	}{
		"none by the charge":  {"refunds:none", "op", 100, ""},
		"by the charge":       {"fault:none,refunds:error_500", "op", 100, Error500},
		"the charge's own":    {"fault:none", "op", 100, ""},
		"by reference":        {"fault:none", "fault:decline", 100, Decline},
		"reference is closer": {"fault:none,refunds:error_500", "fault:decline", 100, Decline},
		"by amount":           {"fault:none", "op", FaultAmount + 22, ChargedThenHTML},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := b.AddCharge(Manual{Reference: name, Amount: 100_000, Currency: "EUR", OrderRef: tt.orderRef})
			require.NoError(t, err)
			req := b.withPicks(chargeRequest{Reference: tt.reference, Currency: "EUR", minor: tt.amount, of: s.ID})
			require.Equal(t, tt.want, b.Faults().chargeFault(7, req.subject(), 1))
		})
	}
	require.Equal(t, Throttle429, b.Faults().chargeFault(7, b.withPicks(chargeRequest{Reference: "op", of: "none"}).subject(), 1))
}

// While charges are down, so are refunds: half of them are booked before the answer is lost.
func TestRefundsWhileChargesAreDown(t *testing.T) {
	t.Parallel()
	b := start(t)
	id := b.charged("p1", "")
	require.NoError(t, b.SetOutage(OutageCharges, 0))
	for i := range 20 {
		name := fmt.Sprintf("op%d", i)
		require.Equal(t, http.StatusServiceUnavailable, b.refund(id, name, refundOrder{name, 10, "EUR"}).status)
	}
	n := len(b.refunded(id))
	require.Greater(t, n, 3)
	require.Less(t, n, 17)
	require.Len(t, b.foundRefunds("/refunds"), n, "questions are answered")
}

func TestRefundsWithoutKeysOrQuestions(t *testing.T) {
	t.Parallel()
	b := start(t, func(o *Options) { o.NoKeys, o.NoStatusAPI = true, true })
	id := b.charged("p1", "")
	b.refund(id, "r1", back("op1"))
	b.refund(id, "r1", back("op1"))
	require.Len(t, b.refunded(id), 2)
	require.Empty(t, b.refunded(id)[0].Key)
	for _, path := range []string{"/refunds", "/refunds?reference=op1", "/refunds/" + b.refunded(id)[0].ID} {
		require.Equal(t, http.StatusMethodNotAllowed, b.get(path).status, path)
	}
}

// Lookups of refunds have the faults of lookups.
func TestLookupFaultsOfRefunds(t *testing.T) {
	t.Parallel()
	b := start(t)
	id := b.charged("p1", "")
	for fault, status := range map[Fault]int{
		LookupLag: http.StatusOK, LookupNotFound: http.StatusNotFound, LookupForbidden: http.StatusForbidden, LookupError: http.StatusServiceUnavailable,
	} {
		ref := "op-fault:" + string(fault)
		made := b.refund(id, ref, refundOrder{ref, 100, "EUR"}).refund(t)
		a := b.get("/refunds?reference=" + ref)
		require.Equal(t, status, a.status, fault)
		if fault == LookupLag {
			require.JSONEq(t, `{"data":[]}`, string(a.body))
			status = http.StatusNotFound
		}
		require.Equal(t, status, b.get("/refunds/"+made.ID).status, fault)
		require.Equal(t, http.StatusOK, b.get("/payments/"+id).status, "its charge is none of it")
	}
}
