package mollie

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/provider/providertest"
)

// metadataOf reads the metadata of a request.
func metadataOf(body []byte) map[string]string {
	var m struct {
		Metadata map[string]string `json:"metadata"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		panic(err)
	}
	return m.Metadata
}

func euros(value string) map[string]string {
	return map[string]string{"currency": "EUR", "value": value}
}

// The bytes of a hold, a capture and a release, to the letter.
func TestCaptureOnTheWire(t *testing.T) {
	t.Parallel()
	a := newFake(t).adapter(t)
	charge := request(asked49)
	charge.ManualCapture = true
	body, err := a.Freeze(charge)
	require.NoError(t, err)
	require.Contains(t, string(body), `,"captureMode":"manual"}`)
	r := refundOf(back10)
	r.Kind = provider.OpCapture
	body, err = a.FreezeOperation(r)
	require.NoError(t, err)
	require.JSONEq(t, `{"amount":{"currency":"EUR","value":"10.00"},"description":"Capture op1","metadata":{"operation_id":"op1","payment_id":"p1"}}`, string(body))
	r.Kind, r.Money = provider.OpVoid, asked49
	body, err = a.FreezeOperation(r)
	require.NoError(t, err)
	require.Equal(t, `{}`, string(body))
}

// What a payment that holds its money, or held it, says of the charge.
func TestHeldPayments(t *testing.T) {
	t.Parallel()
	manual := func(changes ...any) string { return said(append([]any{"captureMode", "manual"}, changes...)...) }
	for name, tt := range map[string]struct {
		raw     string
		outcome provider.Outcome
		reason  string
		amount  int64
	}{
		"held":                       {manual("status", "authorized"), provider.Processing, provider.ReasonAuthorised, 4900},
		"held, nothing taken":        {manual("status", "authorized", "amountCaptured", euros("0.00")), provider.Processing, provider.ReasonAuthorised, 4900},
		"a part taken, held still":   {manual("status", "authorized", "amountCaptured", euros("10.00")), provider.Succeeded, "", 1000},
		"a part taken":               {manual("amountCaptured", euros("10.00")), provider.Succeeded, "", 1000},
		"all of it":                  {manual("amountCaptured", euros("49.00")), provider.Succeeded, "", 4900},
		"taken, and no word of it":   {manual(), provider.Succeeded, "", 4900},
		"paid and nothing taken":     {manual("amountCaptured", euros("0.00")), "", "", 4900},
		"paid, nobody reads what":    {manual("amountCaptured", euros("1e3")), "", "", 4900},
		"let go":                     {manual("status", "canceled"), provider.Failed, provider.ReasonVoided, 4900},
		"lapsed":                     {manual("status", "expired"), provider.Failed, provider.ReasonExpired, 4900},
		"refused":                    {manual("status", "failed"), provider.Failed, "failed", 4900},
		"canceled, with a reason":    {manual("status", "canceled", "statusReason", map[string]string{"code": "fraud"}), provider.Failed, "fraud", 4900},
		"canceled, and never held":   {said("status", "canceled"), provider.Failed, "canceled", 4900},
		"authorized by its method":   {said("status", "authorized"), provider.Processing, provider.ReasonAuthorised, 4900},
		"held, an amount of nothing": {manual("status", "authorized", "amount", euros("x")), "", "", 0},
	} {
		p, err := decode([]byte(tt.raw))
		require.NoError(t, err, name)
		o := p.object([]byte(tt.raw))
		require.Equal(t, tt.outcome, o.Outcome, name)
		require.Equal(t, tt.reason, o.Reason, name)
		require.Equal(t, tt.amount, o.Money.Amount, name)
	}
	for _, until := range []string{"2027-01-31", "2027-01-31T00:00:00+00:00"} {
		p, err := decode([]byte(manual("status", "authorized", "captureBefore", until)))
		require.NoError(t, err)
		require.Equal(t, &provider.Totals{Authorised: 4900, AuthorisedUntil: time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)}, p.object(nil).Totals)
	}
}

func TestAnswersToCapturesAndReleases(t *testing.T) {
	t.Parallel()
	taken := func(status string, m provider.Money) string {
		raw, err := json.Marshal(renderedCapture("cpt_1", "op1", "tr_1", status, m))
		require.NoError(t, err)
		return string(raw)
	}
	for name, tt := range map[string]struct {
		kind    provider.OperationKind
		status  int
		body    string
		outcome provider.Outcome
		reason  string
		charge  bool
	}{
		"succeeded":         {provider.OpCapture, 201, taken("succeeded", back10), provider.Succeeded, provider.ReasonSucceeded, true},
		"pending":           {provider.OpCapture, 201, taken("pending", back10), provider.Processing, provider.ReasonProcessing, false},
		"failed":            {provider.OpCapture, 201, taken("failed", back10), provider.Failed, provider.ReasonDeclined, false},
		"another amount":    {provider.OpCapture, 201, taken("succeeded", asked49), provider.Unknown, provider.ReasonAmount, true},
		"unlisted":          {provider.OpCapture, 201, taken("levitating", back10), provider.Unknown, provider.ReasonUnmapped, false},
		"nothing":           {provider.OpCapture, 201, `{}`, provider.Unknown, provider.ReasonNoObject, false},
		"a payment":         {provider.OpCapture, 201, said(), provider.Unknown, provider.ReasonContract, false},
		"too late":          {provider.OpCapture, 422, `{"status":422,"title":"Unprocessable Entity","detail":"No."}`, provider.Failed, provider.ReasonRejected, false},
		"accepted":          {provider.OpVoid, 202, `{}`, provider.Processing, provider.ReasonProcessing, false},
		"accepted, silent":  {provider.OpVoid, 202, ``, provider.Processing, provider.ReasonProcessing, false},
		"no content":        {provider.OpVoid, 204, ``, provider.Processing, provider.ReasonProcessing, false},
		"silent":            {provider.OpVoid, 200, ``, provider.Unknown, provider.ReasonNotJSON, false},
		"empty":             {provider.OpVoid, 200, `{}`, provider.Unknown, provider.ReasonNoObject, false},
		"true":              {provider.OpVoid, 202, `true`, provider.Unknown, provider.ReasonContract, false},
		"still held":        {provider.OpVoid, 200, said("captureMode", "manual", "status", "authorized"), provider.Processing, provider.ReasonProcessing, true},
		"let go at once":    {provider.OpVoid, 200, said("captureMode", "manual", "status", "canceled"), provider.Succeeded, provider.ReasonSucceeded, true},
		"captured before":   {provider.OpVoid, 200, said("captureMode", "manual"), provider.Failed, provider.ReasonDeclined, true},
		"another payment's": {provider.OpVoid, 200, said("id", "tr_2", "status", "canceled"), provider.Unknown, provider.ReasonContradiction, true},
		"the other mode":    {provider.OpVoid, 200, said("mode", "live", "status", "canceled"), provider.Unknown, provider.ReasonContradiction, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := back10
			if tt.kind == provider.OpVoid {
				want = asked49
			}
			got := answering(t, tt.status, tt.body).Operate(t.Context(), provider.OperationCall{
				Kind: tt.kind, OperationID: "op1", ProviderPaymentID: "tr_1", Key: "k1", Body: []byte(`{}`), Want: want})
			require.Equal(t, tt.outcome, got.Outcome, "%+v", got.Classification)
			require.Equal(t, tt.reason, got.Reason)
			require.Equal(t, tt.charge, got.Object != nil && got.Object.Child.Charge != nil)
		})
	}
}

// A capture that Mollie has not decided is there; without the list nobody knows.
func TestCapturesUnderWay(t *testing.T) {
	t.Parallel()
	held := func(embedded any) string {
		return said("captureMode", "manual", "status", "authorized", "_embedded", embedded)
	}
	list := func(of ...any) any { return map[string]any{"captures": append([]any{}, of...)} }
	one := func(operation, status string) any { return renderedCapture("cpt_1", operation, "tr_1", status, back10) }
	for name, tt := range map[string]struct {
		body    string
		verdict provider.LookupVerdict
		outcome provider.Outcome
	}{
		"none":              {held(list()), provider.LookupAbsent, ""},
		"no list":           {held(nil), provider.LookupNoAnswer, ""},
		"another's":         {held(list(one("op2", "pending"))), provider.LookupAbsent, ""},
		"failed":            {held(list(one("op1", "failed"))), provider.LookupFound, provider.Failed},
		"another's failed":  {held(list(one("op2", "failed"))), provider.LookupAbsent, ""},
		"failed, and again": {held(list(one("op1", "pending"), one("op1", "failed"))), provider.LookupFound, provider.Processing},
		"pending":           {held(list(one("op1", "failed"), one("op1", "pending"))), provider.LookupFound, provider.Processing},
		"ahead of its time": {held(list(one("op1", "succeeded"))), provider.LookupFound, provider.Succeeded},
		"cannot be read":    {held(list(map[string]any{"amount": 1})), provider.LookupNoAnswer, ""},
		"without an id":     {held(list(renderedCapture("", "op1", "tr_1", "failed", back10))), provider.LookupNoAnswer, ""},
		"a pending payment": {said("status", "pending"), provider.LookupFound, provider.Processing},
	} {
		q := provider.OperationQuery{Kind: provider.OpCapture, OperationID: "op1", PaymentID: "p1", ProviderPaymentID: "tr_1", Want: back10}
		got := answering(t, http.StatusOK, tt.body).LookupOperation(t.Context(), q)
		require.Equal(t, tt.verdict, got.Verdict, name)
		if tt.outcome != "" {
			require.Len(t, got.Objects, 1, name)
			require.Equal(t, tt.outcome, got.Objects[0].Outcome, name)
			require.Equal(t, provider.ObjectCapture, got.Objects[0].Kind, name)
		}
	}
	got := answering(t, http.StatusOK, said("captureMode", "manual", "status", "failed")).LookupOperation(t.Context(),
		provider.OperationQuery{Kind: provider.OpVoid, OperationID: "op1", PaymentID: "p1", ProviderPaymentID: "tr_1", Want: asked49})
	require.Equal(t, provider.Failed, got.Objects[0].Outcome, "a payment that was refused was not let go")
}

func TestEventsOfHolds(t *testing.T) {
	t.Parallel()
	a := verifier(t, "s")
	parse := func(kind, id string, entity any) ([]provider.Event, error) {
		_, raw := signedEvent("event_1", kind, id, entity, eventTime)
		return a.Parse(raw)
	}
	got, err := parse("capture.succeeded", "cpt_1", renderedCapture("cpt_1", "op1", "tr_1", "succeeded", back10))
	require.NoError(t, err)
	require.Equal(t, provider.ObjectCharge, got[0].Object.Kind)
	require.Equal(t, provider.Succeeded, got[0].Object.Outcome)
	require.Equal(t, back10, got[0].Object.Money)
	require.Equal(t, "tr_1", got[0].Object.ID)
	require.Equal(t, "p1", got[0].Object.Reference)
	got, err = parse("capture.succeeded", "cpt_1", renderedCapture("cpt_1", "op1", "tr_1", "failed", back10))
	require.NoError(t, err)
	require.Empty(t, got[0].Object.Outcome, "a contradiction")
	got, err = parse("capture.failed", "cpt_1", renderedCapture("cpt_1", "op1", "tr_1", "failed", back10))
	require.NoError(t, err)
	require.True(t, got[0].Interesting)
	require.Equal(t, provider.ObjectCapture, got[0].Object.Kind)
	require.Equal(t, "cpt_1", got[0].Object.ID, "its own id: a charge may have several")
	require.Equal(t, "op1", got[0].Object.Reference)
	require.Equal(t, provider.Failed, got[0].Object.Outcome)
	require.Equal(t, "capture_failed", got[0].Object.Reason)
	require.Equal(t, provider.Child{ChargeID: "tr_1", PaymentID: "p1"}, got[0].Object.Child, "the charge is as it was")
	got, err = parse("capture.failed", "cpt_1", renderedCapture("cpt_1", "op1", "tr_1", "succeeded", back10))
	require.NoError(t, err)
	require.Equal(t, provider.ObjectCapture, got[0].Object.Kind)
	require.Empty(t, got[0].Object.Outcome, "a contradiction")
	require.Nil(t, got[0].Object.Child.Charge)
	got, err = parse("capture.failed", "cpt_1", renderedCapture("cpt_1", "", "tr_1", "failed", back10))
	require.NoError(t, err)
	require.False(t, got[0].Interesting, "made elsewhere: nothing here waits for it")
	got, err = parse("capture.pending", "cpt_1", renderedCapture("cpt_1", "op1", "tr_1", "pending", back10))
	require.NoError(t, err)
	require.False(t, got[0].Interesting)
	for _, bad := range []any{renderedCapture("cpt_2", "op1", "tr_1", "succeeded", back10), renderedCapture("cpt_1", "op1", "", "succeeded", back10), map[string]any{"amount": 1}, map[string]any{}} {
		_, err = parse("capture.succeeded", "cpt_1", bad)
		require.Error(t, err, "%v", bad)
	}
}

func TestChargebacks(t *testing.T) {
	t.Parallel()
	a := verifier(t, "s")
	about := provider.Object{ID: "chb_1", Reason: "Fraud", Money: back10, CreatedAt: eventTime, Status: provider.DisputeOpened, Child: provider.Child{ChargeID: "tr_1"}}
	parse := func(kind, id string, entity any) ([]provider.Event, error) {
		_, raw := signedEvent("event_1", kind, id, entity, eventTime)
		return a.Parse(raw)
	}
	open := renderedChargeback(about, eventTime)
	about.Status = provider.DisputeWon
	won := renderedChargeback(about, eventTime.Add(time.Hour))
	for _, tt := range []struct {
		kind   string
		entity any
		word   string // empty: an error
	}{
		{"chargeback.received", open, provider.DisputeOpened}, {"chargeback.reversed", won, provider.DisputeWon},
		{"chargeback.received", won, provider.DisputeWon}, {"chargeback.reversed", open, ""},
		{"chargeback.received", map[string]any{"id": "chb_1"}, ""}, {"chargeback.received", map[string]any{"id": 1}, ""},
		{"chargeback.received", said(), ""},
	} {
		got, err := parse(tt.kind, "chb_1", tt.entity)
		require.Equal(t, tt.word == "", err != nil, "%+v", tt)
		if err == nil {
			require.Equal(t, provider.ObjectDispute, got[0].Object.Kind)
			require.Equal(t, tt.word, got[0].Object.Status)
			require.Equal(t, "Fraud", got[0].Object.Reason)
			require.Equal(t, back10, got[0].Object.Money)
			require.Equal(t, "tr_1", got[0].Object.Child.ChargeID)
		}
	}
	got, err := parse("chargeback.settled", "chb_1", open)
	require.NoError(t, err)
	require.False(t, got[0].Interesting)
	open["reason"] = nil
	got, err = parse("chargeback.received", "chb_1", open)
	require.NoError(t, err)
	require.Empty(t, got[0].Object.Reason)
}

// After a classic webhook the chargeback stands in the payment that is fetched.
func TestFetchedChargebacks(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := f.adapter(t)
	f.ours("tr_1", noon)
	first := provider.Object{ID: "chb_1", Reason: "Fraud", Money: back10, CreatedAt: noon, Status: provider.DisputeOpened, Child: provider.Child{ChargeID: "tr_1"}}
	second := first
	second.ID, second.Status = "chb_2", provider.DisputeWon
	stranger := second
	stranger.ID, stranger.Child.ChargeID = "chb_3", "tr_2"
	put := func(list ...any) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.actions.chargebacks = map[string][]any{"tr_1": list}
	}
	put(renderedChargeback(first, noon))
	got := a.Fetch(t.Context(), "tr_1")
	require.Equal(t, "tr_1:chb_1:opened", got.Event.Key)
	require.Equal(t, provider.ObjectDispute, got.Event.Object.Kind)
	require.Equal(t, provider.Child{ChargeID: "tr_1", PaymentID: "p1"}, got.Event.Object.Child)
	require.Equal(t, noon.UTC(), got.Event.OccurredAt)
	put(renderedChargeback(second, noon.Add(time.Hour)), renderedChargeback(first, noon), renderedChargeback(stranger, noon.Add(2*time.Hour)), map[string]any{"id": 1})
	got = a.Fetch(t.Context(), "tr_1")
	require.Equal(t, "tr_1:chb_2:won", got.Event.Key, "the latest news")
	require.Equal(t, noon.Add(time.Hour).UTC(), got.Event.OccurredAt)
	put(map[string]any{"id": 1})
	require.Equal(t, "tr_1:paid", a.Fetch(t.Context(), "tr_1").Event.Key, "what cannot be read hides nothing")
}

// A hold whose answer was lost is found by our reference.
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
	require.Equal(t, provider.Processing, got.Objects[0].Outcome)
	require.Equal(t, provider.ReasonAuthorised, got.Objects[0].Reason)
}
