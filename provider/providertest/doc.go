// Package providertest is the conformance suite every provider adapter passes. An
// adapter's test supplies a Harness with a fake of its provider, which speaks the
// provider's own dialect and misbehaves on command; the suite knows only the meaning.
//
//	func TestConformance(t *testing.T) {
//		providertest.Run(t, providertest.Harness{New: newAdapterOnFake, …})
//	}
//
// Run it once per configuration the adapter has (with and without keys, and so on).
package providertest

import (
	"net/http"
	"testing"
	"time"

	"fusebox/provider"
)

// Behaviour is what the fake does with one charge call.
type Behaviour string

// Behaviours. "Charge…" ones book the charge before they misbehave.
const (
	Succeed         Behaviour = "succeed"
	Accept          Behaviour = "accept"            // acknowledged, decided later
	AskCustomer     Behaviour = "ask_customer"      // the customer has to act
	Decline         Behaviour = "decline"           // the payment method said no
	Reject          Behaviour = "reject"            // the request is not acceptable; not executed
	Unauthorized    Behaviour = "unauthorized"      // bad credentials; not executed
	Throttle        Behaviour = "throttle"          // too many requests, come back in 7 s; not executed
	KeyInUse        Behaviour = "key_in_use"        // the first call under this key still runs
	KeyReused       Behaviour = "key_reused"        // the key was used with other parameters
	ServerError     Behaviour = "server_error"      // the provider's own 500; nothing booked
	ChargeBadProxy  Behaviour = "charge_bad_proxy"  // 502 with a page for people
	ChargeCut       Behaviour = "charge_cut"        // connection cut before the answer
	ChargeTruncate  Behaviour = "charge_truncate"   // success, cut inside the body
	ChargeHTML      Behaviour = "charge_html"       // 200 with a page for people
	ChargeHang      Behaviour = "charge_hang"       // never answers
	ChargeOtherSum  Behaviour = "charge_other_sum"  // success over another amount
	ChargeOddStatus Behaviour = "charge_odd_status" // a status word nobody documented
	Redirect        Behaviour = "redirect"
)

// AskBehaviour is what the fake does with one question.
type AskBehaviour string

// Ask behaviours. The zero value answers truthfully.
const (
	AskTruth     AskBehaviour = ""
	AskForbidden AskBehaviour = "forbidden"
	AskDown      AskBehaviour = "down" // 503
	AskHTML      AskBehaviour = "html" // 200 with a page for people
	AskCut       AskBehaviour = "cut"  // connection cut
	AskAll       AskBehaviour = "all"  // ignores the filter and lists everything
)

// Received is one charge call as it arrived.
type Received struct {
	Key  string // empty when the dialect sent none
	Body []byte
}

// Fake is a provider under the suite's control.
type Fake interface {
	// Next makes the following charge calls behave so, in order; later ones succeed.
	Next(...Behaviour)
	// Ask makes every following question behave so, the cheap read of a Pinger included.
	Ask(AskBehaviour)
	// Received returns the charge calls that arrived, in order.
	Received() []Received
	// Questions returns how many questions arrived.
	Questions() int
	// Booked returns the charges in the books, oldest first.
	Booked() []provider.Object
	// Book puts a charge into the books as if made elsewhere.
	Book(provider.Object)
	// Event renders an event about a charge as the provider sends it, signed at a time.
	Event(id string, about provider.Object, at time.Time) (http.Header, []byte)
	// Unrelated renders a signed event that is not about a charge.
	Unrelated(id string, at time.Time) (http.Header, []byte)
}

// Harness is what an adapter's test supplies.
type Harness struct {
	// New returns an adapter on a fresh fake. Its answer timeout should be a few seconds
	// (one test waits for it, and a busy machine must not reach it in the others) and its
	// lookup pauses not slept.
	New func(t *testing.T) (provider.Adapter, Fake)
	// Money is an amount the provider takes.
	Money provider.Money
	// Refused are amounts it cannot carry; Freeze must say so.
	Refused []provider.Money
	// Refundable is the amount of one refund: a part of Money of which at least ten go into
	// it. Zero means all of Money, for a fake that does not count what is left.
	Refundable int64
	// RefundsLater says that the answer to a refund is never more than an acknowledgement:
	// what became of it is told by event. "succeed" then reads as processing.
	RefundsLater bool
	// ActionsLater are the captures and voids of which RefundsLater is true.
	ActionsLater []provider.OperationKind
	// Refusals are the captures and voids that may be refused, or fail, after they were
	// acknowledged, and of which an event tells that.
	Refusals []provider.OperationKind
	// RefusalsByID are the Refusals whose event carries no reference of ours: it names the id
	// of the capture or void itself, which the answer to it told.
	RefusalsByID []provider.OperationKind
	// Chargebacks says that disputes are told as money taken, and perhaps given back: none is
	// ever lost, and none has a deadline.
	Chargebacks bool
	// Secrets are credentials that the adapter was configured with. Whatever a provider
	// answers, none of them may show in what the adapter returns.
	Secrets []string
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Harness){
		"Capabilities":   testCapabilities,
		"Freeze":         testFreeze,
		"Answers":        testAnswers,
		"FrozenBytes":    testFrozenBytes,
		"Keys":           testKeys,
		"Cancellation":   testCancellation,
		"Parallel":       testParallel,
		"LookupFound":    testLookupFound,
		"LookupAbsent":   testLookupAbsent,
		"LookupNoAnswer": testLookupNoAnswer,
		"Duplicates":     testDuplicates,
		"List":           testList,
		"Ping":           testPing,
		"Signature":      testSignature,
		"Events":         testEvents,
		"Redaction":      testRedaction,

		"RefundFreeze":         testRefundFreeze,
		"RefundAnswers":        testRefundAnswers,
		"RefundFrozenBytes":    testRefundFrozenBytes,
		"RefundKeys":           testRefundKeys,
		"RefundNotSent":        testRefundNotSent,
		"RefundParallel":       testRefundParallel,
		"RefundTotals":         testRefundTotals,
		"RefundLookupFound":    testRefundLookupFound,
		"RefundLookupAbsent":   testRefundLookupAbsent,
		"RefundLookupNoAnswer": testRefundLookupNoAnswer,
		"RefundDuplicates":     testRefundDuplicates,
		"RefundList":           testRefundList,
		"RefundEvents":         testRefundEvents,
		"DisputeEvents":        testDisputeEvents,

		"ActionFreeze":         eachAction(testActionFreeze),
		"ActionAnswers":        eachAction(testActionAnswers),
		"ActionFrozenBytes":    eachAction(testActionFrozenBytes),
		"ActionNotSent":        eachAction(testActionNotSent),
		"ActionLookup":         eachAction(testActionLookup),
		"ActionLookupNoAnswer": eachAction(testActionLookupNoAnswer),
		"ActionEvents":         eachAction(testActionEvents),
		"ActionRefusals":       eachAction(testActionRefusals),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, h)
		})
	}
}

// request is a charge request with a reference of its own.
func (h Harness) request(id string) provider.ChargeRequest {
	return provider.ChargeRequest{
		PaymentID: id, OrderRef: "order-" + id, Money: h.Money, Description: "Two tickets",
		CustomerName: "Zoë <Quote\"> O'Neill", CustomerEmail: "zoe@example.com",
	}
}
