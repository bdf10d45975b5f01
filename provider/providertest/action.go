package providertest

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

// ActionFake is what the Fake of an adapter that declares captures and voids is as well.
// It holds the money of a charge that was asked to be captured by hand. "Charge…"
// behaviours carry the capture or void out before they misbehave.
type ActionFake interface {
	Fake
	// NextAction makes the following captures and voids behave so, in order; later ones
	// succeed.
	NextAction(...Behaviour)
	// ReceivedActions returns the captures and voids that arrived, in order.
	ReceivedActions() []ReceivedOperation
	// Lapse lets go of a held charge, as the provider does by itself.
	Lapse(id string)
}

// ActionEventFake is what the Fake of an adapter is as well some of whose captures and
// voids are settled by an event.
type ActionEventFake interface {
	// ActionEvent renders the event that tells that a capture or void of a held charge was
	// made.
	ActionEvent(id string, kind provider.OperationKind, charge provider.Object, money provider.Money, at time.Time) (http.Header, []byte)
}

// RefusalFake is what the Fake of an adapter with Refusals is as well.
type RefusalFake interface {
	// ActionRefusal renders the event that tells that a capture or void of ours, with
	// reference operation, of a held charge was refused, or failed later. With RefusalsByID
	// operation is the id that the answer told, and from now on the books say so as well.
	ActionRefusal(id string, kind provider.OperationKind, operation string, charge provider.Object, money provider.Money, at time.Time) (http.Header, []byte)
}

// action is an adapter that can capture and void, with a charge that is held.
type action struct {
	provider.Adapter
	provider.Operator
	fake   ActionFake
	kind   provider.OperationKind
	charge provider.Object
	money  provider.Money // of a capture a part, of a void all of it
	later  bool           // an answer is an acknowledgement only
}

// eachAction runs a test of captures, and of voids. Those of an adapter that declares
// neither are skipped.
func eachAction(test func(*testing.T, Harness, func(*testing.T) action)) func(*testing.T, Harness) {
	return func(t *testing.T, h Harness) {
		for _, kind := range []provider.OperationKind{provider.OpCapture, provider.OpVoid} {
			t.Run(string(kind), func(t *testing.T) {
				t.Parallel()
				test(t, h, func(t *testing.T) action { t.Helper(); return h.action(t, kind) })
			})
		}
	}
}

func (h Harness) action(t *testing.T, kind provider.OperationKind) action {
	t.Helper()
	a, fake := h.New(t)
	if !a.Capabilities().Can(kind) {
		t.Skip("the adapter declares no " + string(kind))
	}
	op, ok := a.(provider.Operator)
	require.True(t, ok, "Capabilities.Operations promises an Operator")
	f, ok := fake.(ActionFake)
	require.True(t, ok, "the fake of an adapter that declares captures has to be an ActionFake")
	r := h.request("p1")
	r.ManualCapture = true
	body, err := a.Freeze(r)
	require.NoError(t, err)
	plain, err := a.Freeze(h.request("p1"))
	require.NoError(t, err)
	require.NotEqual(t, plain, body, "the provider is told to hold")
	got := a.Charge(t.Context(), "charge-key", body, h.Money)
	require.Equal(t, provider.Processing, got.Outcome, "held is neither success nor failure: %+v", got.Classification)
	require.Equal(t, provider.ReasonAuthorised, got.Object.Reason)
	require.NotNil(t, got.Object.Totals)
	require.Equal(t, h.Money.Amount, got.Object.Totals.Authorised)
	money := h.Money
	if kind == provider.OpCapture {
		money.Amount = h.Money.Amount / 10
	}
	return action{a, op, f, kind, *got.Object, money, slices.Contains(h.ActionsLater, kind)}
}

func (a action) request(id string) provider.OperationRequest {
	return provider.OperationRequest{
		OperationID: id, Kind: a.kind, PaymentID: "p1", ProviderPaymentID: a.charge.ID, Charged: a.charge.Money, Money: a.money,
	}
}

func (a action) call(t *testing.T, id, key string) provider.OperationCall {
	t.Helper()
	body, err := a.FreezeOperation(a.request(id))
	require.NoError(t, err)
	return provider.OperationCall{Kind: a.kind, OperationID: id, ProviderPaymentID: a.charge.ID, Key: key, Body: body, Want: a.money}
}

func (a action) query() provider.OperationQuery {
	return provider.OperationQuery{Kind: a.kind, OperationID: "op1", OperationKey: "k1", PaymentID: "p1", ProviderPaymentID: a.charge.ID, Want: a.money}
}

// requireDone checks the object of a capture or void that was made.
func (a action) requireDone(t *testing.T, o *provider.Object) {
	t.Helper()
	require.NotNil(t, o)
	require.Equal(t, provider.ObjectKind(a.kind), o.Kind)
	require.Equal(t, provider.Succeeded, o.Outcome)
	require.Equal(t, a.money, o.Money)
	charge := o.Child.Charge
	require.NotNil(t, charge, "what became of it shows in the charge alone")
	require.Equal(t, a.charge.ID, charge.ID)
	require.Equal(t, provider.ObjectCharge, charge.Kind)
	if a.kind == provider.OpVoid {
		require.Equal(t, provider.Failed, charge.Outcome)
		require.Equal(t, provider.ReasonVoided, charge.Reason)
		return
	}
	require.Equal(t, provider.Succeeded, charge.Outcome)
	require.Equal(t, a.money, charge.Money, "what was taken, not what was held")
}

// requireAnswered checks the object of an answer without a fault.
func (a action) requireAnswered(t *testing.T, o *provider.Object) {
	t.Helper()
	if !a.later {
		a.requireDone(t, o)
		return
	}
	require.NotNil(t, o)
	require.Equal(t, provider.ObjectKind(a.kind), o.Kind)
	require.Equal(t, provider.Processing, o.Outcome)
	require.Equal(t, a.charge.ID, o.Child.ChargeID)
}

func testActionFreeze(t *testing.T, _ Harness, held func(*testing.T) action) {
	a := held(t)
	first, err := a.FreezeOperation(a.request("op1"))
	require.NoError(t, err)
	again, err := a.FreezeOperation(a.request("op1"))
	require.NoError(t, err)
	require.Equal(t, first, again, "the same request freezes to the same bytes")
	for name, spoil := range map[string]func(*provider.OperationRequest){
		"no reference": func(q *provider.OperationRequest) { q.OperationID = "" },
		"a path":       func(q *provider.OperationRequest) { q.ProviderPaymentID = "../payments" },
		"nothing":      func(q *provider.OperationRequest) { q.Money.Amount = 0 },
		"too much":     func(q *provider.OperationRequest) { q.Money.Amount = q.Charged.Amount + 1 },
	} {
		q := a.request("op1")
		spoil(&q)
		_, err := a.FreezeOperation(q)
		var fe *provider.FieldError
		require.ErrorAs(t, err, &fe, name)
	}
	require.Empty(t, a.fake.ReceivedActions())
}

// testActionAnswers walks the behaviours: the answers to a capture or void mean what a
// charge's do.
func testActionAnswers(t *testing.T, _ Harness, held func(*testing.T) action) {
	for b, want := range with(map[Behaviour]meaning{
		NotAllowed:  {provider.Failed, provider.HealthNeutral, provider.NextNone, false, false, nil},
		ChargeJunk:  {provider.Unknown, provider.HealthFail, provider.NextReconcile, false, false, nil},
		ChargeOther: {provider.Unknown, provider.HealthNeutral, provider.NextReconcile, true, true, nil},
	}) {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			a := held(t)
			if want.needs != nil && !want.needs(a.Capabilities()) {
				return // the dialect has no such answer
			}
			want := want
			if b == Succeed && a.later {
				want = meanings[Accept]
			}
			call := a.call(t, "op1", "k1")
			a.fake.NextAction(b)
			got := a.Operate(t.Context(), call)
			require.Len(t, a.fake.ReceivedActions(), 1)
			requireMeaning(t, b, want, got)
			if got.Outcome == provider.Succeeded {
				a.requireDone(t, got.Object)
			}
			require.Len(t, a.fake.Received(), 1, "no charge call but the first")
		})
	}
}

func testActionFrozenBytes(t *testing.T, _ Harness, held func(*testing.T) action) {
	a := held(t)
	call := a.call(t, "op1", "k1")
	got := a.Operate(t.Context(), call)
	a.requireAnswered(t, got.Object)
	arrived := a.fake.ReceivedActions()
	require.Len(t, arrived, 1)
	require.Equal(t, string(call.Body), string(arrived[0].Body), "what was frozen is what is sent")
	require.Equal(t, a.charge.ID, arrived[0].ChargeID)
	if a.Capabilities().IdempotencyKeys {
		require.Equal(t, "k1", arrived[0].Key, "C-11: a key of its own, never the charge's")
		a.requireAnswered(t, a.Operate(t.Context(), call).Object) // the first answer, brought back
	}
}

// testActionNotSent: what ends before the first byte was never sent.
func testActionNotSent(t *testing.T, _ Harness, held func(*testing.T) action) {
	a := held(t)
	late, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	got := a.Operate(late, a.call(t, "op1", "k1"))
	require.Equal(t, provider.NotSent, got.Outcome, "%+v", got.Classification)
	require.Zero(t, got.Exchange.WireSends)
	require.Empty(t, a.fake.ReceivedActions())
}

// testActionLookup: a lost one is found in the charge; while the charge is held there was
// none; one that lapsed cannot be captured any more, and needs no void.
func testActionLookup(t *testing.T, _ Harness, held func(*testing.T) action) {
	a := held(t)
	if !a.Capabilities().Has(provider.ByID) {
		got := a.LookupOperation(t.Context(), a.query())
		require.Equal(t, provider.LookupNoAnswer, got.Verdict)
		require.Zero(t, got.Requests)
		return
	}
	got := a.LookupOperation(t.Context(), a.query())
	require.Equal(t, provider.LookupAbsent, got.Verdict, "%+v", got)
	require.Equal(t, provider.HealthOK, got.Health)
	require.Empty(t, got.Objects)

	a.fake.NextAction(ChargeCut)
	require.Equal(t, provider.Unknown, a.Operate(t.Context(), a.call(t, "op1", "k1")).Outcome)
	before := a.fake.Questions()
	got = a.LookupOperation(t.Context(), a.query())
	require.Equal(t, provider.LookupFound, got.Verdict, "%+v", got)
	require.Len(t, got.Objects, 1)
	a.requireDone(t, &got.Objects[0])
	require.Equal(t, a.fake.Questions()-before, got.Requests)

	a = held(t)
	a.fake.Lapse(a.charge.ID)
	got = a.LookupOperation(t.Context(), a.query())
	require.Equal(t, provider.LookupFound, got.Verdict, "%+v", got)
	require.Equal(t, provider.ReasonExpired, got.Objects[0].Child.Charge.Reason)
	want := provider.Failed
	if a.kind == provider.OpVoid {
		want = provider.Succeeded
	}
	require.Equal(t, want, got.Objects[0].Outcome)
}

// testActionLookupNoAnswer: what proves nothing must never read as absence.
func testActionLookupNoAnswer(t *testing.T, _ Harness, held func(*testing.T) action) {
	for b, health := range map[AskBehaviour]provider.Verdict{
		AskForbidden: provider.HealthNeutral, AskDown: provider.HealthFail, AskHTML: provider.HealthFail, AskCut: provider.HealthFail,
	} {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			a := held(t)
			if !a.Capabilities().Has(provider.ByID) {
				return
			}
			a.fake.Ask(b)
			got := a.LookupOperation(t.Context(), a.query())
			require.Equal(t, provider.LookupNoAnswer, got.Verdict, "%+v", got)
			require.Equal(t, health, got.Health)
			require.Empty(t, got.Objects)
		})
	}
}

// testActionEvents: what an acknowledged capture or void came to is told by an event, in
// the words of its charge.
func testActionEvents(t *testing.T, _ Harness, held func(*testing.T) action) {
	a := held(t)
	if !a.later {
		t.Skip("the answer says what became of it")
	}
	f, ok := a.fake.(ActionEventFake)
	require.True(t, ok, "the fake has to be an ActionEventFake")
	now := time.Now()
	header, raw := f.ActionEvent("evt_1", a.kind, a.charge, a.money, now)
	require.Equal(t, provider.SignatureValid, a.Verify(header, raw, now).Verdict)
	charge := parsed(t, a.Adapter, raw).Object
	require.Equal(t, provider.ObjectCharge, charge.Kind)
	require.Equal(t, a.charge.ID, charge.ID)
	if a.kind == provider.OpVoid {
		require.Equal(t, provider.Failed, charge.Outcome)
		require.Equal(t, provider.ReasonVoided, charge.Reason)
		return
	}
	require.Equal(t, provider.Succeeded, charge.Outcome)
	require.Equal(t, a.money, charge.Money, "what was taken, not what was held")
}

// acknowledged makes a capture or void that is not decided yet, and returns the id of its
// own that the answer told.
func (a action) acknowledged(t *testing.T) string {
	t.Helper()
	a.fake.NextAction(Accept)
	got := a.Operate(t.Context(), a.call(t, "op1", "k1"))
	require.Equal(t, provider.Processing, got.Outcome, "%+v", got.Classification)
	require.NotEmpty(t, got.Object.ID)
	require.NotEqual(t, a.charge.ID, got.Object.ID)
	return got.Object.ID
}

// testActionRefusals: that an acknowledged capture or void was not made is said of that
// operation, by our own reference or the id that the answer told. Its charge is held as
// before, so nothing is said of it.
func testActionRefusals(t *testing.T, h Harness, held func(*testing.T) action) {
	a := held(t)
	if !slices.Contains(h.Refusals, a.kind) {
		t.Skip("the provider declares no event about a refused " + string(a.kind))
	}
	f, ok := a.fake.(RefusalFake)
	require.True(t, ok, "the fake has to be a RefusalFake")
	now := time.Now()
	name, byID := "op1", slices.Contains(h.RefusalsByID, a.kind)
	if byID {
		name = a.acknowledged(t)
	}
	header, raw := f.ActionRefusal("evt_1", a.kind, name, a.charge, a.money, now)
	require.Equal(t, provider.SignatureValid, a.Verify(header, raw, now).Verdict)
	o := parsed(t, a.Adapter, raw).Object
	require.Equal(t, provider.ObjectKind(a.kind), o.Kind)
	require.Equal(t, a.charge.ID, o.Child.ChargeID)
	require.NotEqual(t, a.charge.ID, o.ID, "an id of its own: a charge may have several")
	if byID {
		require.Equal(t, name, o.ID)
		require.Empty(t, o.Reference)
		a.requireRefused(t, name)
	} else {
		require.Equal(t, name, o.Reference)
	}
	require.Equal(t, provider.Failed, o.Outcome)
	require.NotEmpty(t, o.Reason)
	require.Nil(t, o.Child.Charge)
}

// requireRefused: a question about the capture or void by its own id says that it failed,
// and one that knows no id finds none.
func (a action) requireRefused(t *testing.T, id string) {
	t.Helper()
	q := a.query()
	require.Equal(t, provider.LookupAbsent, a.LookupOperation(t.Context(), q).Verdict)
	q.ProviderOperationID = id
	before := a.fake.Questions()
	got := a.LookupOperation(t.Context(), q)
	require.Equal(t, provider.LookupFound, got.Verdict, "%+v", got)
	require.Equal(t, a.fake.Questions()-before, got.Requests)
	require.Len(t, got.Objects, 1)
	o := got.Objects[0]
	require.Equal(t, provider.ObjectKind(a.kind), o.Kind)
	require.Equal(t, id, o.ID)
	require.Equal(t, provider.Failed, o.Outcome)
	require.NotEmpty(t, o.Reason)
	require.Nil(t, o.Child.Charge)
}
