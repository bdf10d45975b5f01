package provider

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var (
	asked   = Money{Amount: 4900, Currency: "EUR"}
	errWire = errors.New("read tcp: connection reset by peer")
)

// answered is a whole answer with a status.
func answered(status int) Exchange {
	return Exchange{
		Status: status, WireSends: 1, HeaderWritten: true, BodyComplete: true,
		DoneAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
}

// with changes an exchange.
func with(ex Exchange, change func(*Exchange)) Exchange {
	change(&ex)
	return ex
}

// object is an answer that carries an object with a meaning.
func object(o Outcome) Answer {
	return Answer{Object: &Object{ID: "pay_1", Outcome: o, Money: asked}}
}

// Every row of money-rules §3.
func TestClassifyEveryRow(t *testing.T) {
	t.Parallel()
	throttled := with(answered(429), func(ex *Exchange) { ex.RetryAfter = "7" })
	for _, tt := range []struct {
		name string
		ex   Exchange
		ans  Answer
		want Classification
	}{
		// Nothing written.
		{"DNS", Exchange{Err: &ConnectError{ReasonDNS, errWire}}, Answer{}, Classification{Outcome: NotSent, Reason: ReasonDNS, Health: HealthFail, Next: NextRetry}},
		{"dial", Exchange{Err: &ConnectError{ReasonDial, errWire}}, Answer{}, Classification{Outcome: NotSent, Reason: ReasonDial, Health: HealthFail, Next: NextRetry}},
		{"TLS", Exchange{Err: &ConnectError{ReasonTLS, errWire}}, Answer{}, Classification{Outcome: NotSent, Reason: ReasonTLS, Health: HealthFail, Next: NextRetry}},
		{"deadline before a connection", Exchange{Err: errWire, Expired: true}, Answer{}, Classification{Outcome: NotSent, Reason: ReasonDeadlineBefore, Health: HealthFail, Next: NextRetry}},
		{"nothing written", Exchange{Err: errWire}, Answer{}, Classification{Outcome: NotSent, Reason: ReasonNothingWritten, Health: HealthFail, Next: NextRetry}},
		{"request not built", Exchange{Err: &LocalError{errWire}}, Answer{}, Classification{Outcome: NotSent, Reason: ReasonLocal, Health: HealthNeutral, Next: NextRetry, Alert: AlertContract}},

		// Broken after the first byte.
		{"cut after send", Exchange{Err: errWire, HeaderWritten: true, WireSends: 1}, Answer{}, Classification{Outcome: Unknown, Reason: ReasonCutAfterSend, Health: HealthFail, Next: NextReconcile}},
		{"timeout after send", Exchange{Err: errWire, HeaderWritten: true, Expired: true}, Answer{}, Classification{Outcome: Unknown, Reason: ReasonTimeoutAfter, Health: HealthFail, Next: NextReconcile}},
		{"body cut", with(answered(200), func(ex *Exchange) { ex.Err, ex.BodyComplete = errWire, false }), object(Succeeded), Classification{Outcome: Unknown, Reason: ReasonBodyCut, Health: HealthFail, Next: NextReconcile}},
		{"body dripping", with(answered(200), func(ex *Exchange) { ex.Err, ex.BodyComplete, ex.Expired = errWire, false, true }), Answer{}, Classification{Outcome: Unknown, Reason: ReasonBodyTimeout, Health: HealthFail, Next: NextReconcile}},
		{"402 with the body cut", with(answered(402), func(ex *Exchange) { ex.Err, ex.BodyComplete = errWire, false }), Answer{Declined: true}, Classification{Outcome: Unknown, Reason: ReasonBodyCut, Health: HealthFail, Next: NextReconcile}},
		{"502 with the body cut", with(answered(502), func(ex *Exchange) { ex.Err, ex.BodyComplete = errWire, false }), Answer{}, Classification{Outcome: Unknown, Reason: "gateway_502", Health: HealthFail, Next: NextReconcile, Quick: true}},
		{"200 beyond the cap", with(answered(200), func(ex *Exchange) { ex.BodyComplete = false }), object(Succeeded), Classification{Outcome: Unknown, Reason: ReasonBodyTooLarge, Health: HealthFail, Next: NextReconcile}},
		{"truncated 2xx", answered(200), Answer{Malformed: true}, Classification{Outcome: Unknown, Reason: ReasonNotJSON, Health: HealthFail, Next: NextReconcile}},
		{"HTML with 200", answered(200), Answer{Malformed: true, Object: &Object{ID: "hint"}}, Classification{Outcome: Unknown, Reason: ReasonNotJSON, Health: HealthFail, Next: NextReconcile}},
		{"undecodable by us", answered(200), Answer{DecodeErr: errWire}, Classification{Outcome: Unknown, Reason: ReasonContract, Health: HealthNeutral, Next: NextReconcile, Alert: AlertContract}},

		// 2xx.
		{"succeeded", answered(200), object(Succeeded), Classification{Outcome: Succeeded, Reason: ReasonSucceeded, Health: HealthOK, Next: NextNone}},
		{"created", answered(201), object(Succeeded), Classification{Outcome: Succeeded, Reason: ReasonSucceeded, Health: HealthOK, Next: NextNone}},
		{"processing", answered(200), object(Processing), Classification{Outcome: Processing, Reason: ReasonProcessing, Health: HealthOK, Next: NextNone}},
		{"requires action", answered(200), object(RequiresAction), Classification{Outcome: RequiresAction, Reason: ReasonAction, Health: HealthOK, Next: NextNone}},
		{"failed object", answered(200), object(Failed), Classification{Outcome: Failed, Reason: ReasonDeclined, Health: HealthOK, Next: NextNone}},
		{"failed object that names no amount", answered(200), Answer{Object: &Object{ID: "pay_1", Outcome: Failed}}, Classification{Outcome: Failed, Reason: ReasonDeclined, Health: HealthOK, Next: NextNone}},
		{"other amount", answered(200), Answer{Object: &Object{ID: "pay_1", Outcome: Succeeded, Money: Money{4901, "EUR"}}}, Classification{Outcome: Unknown, Reason: ReasonAmount, Review: ReviewAmountMismatch, Health: HealthNeutral, Next: NextReconcile}},
		{"other currency", answered(200), Answer{Object: &Object{ID: "pay_1", Outcome: Succeeded, Money: Money{4900, "USD"}}}, Classification{Outcome: Unknown, Reason: ReasonAmount, Review: ReviewAmountMismatch, Health: HealthNeutral, Next: NextReconcile}},
		{"no amount", answered(200), Answer{Object: &Object{ID: "pay_1", Outcome: Succeeded}}, Classification{Outcome: Unknown, Reason: ReasonAmount, Review: ReviewAmountMismatch, Health: HealthNeutral, Next: NextReconcile}},
		{"unmapped word", answered(200), Answer{Object: &Object{ID: "pay_1", Status: "paid_out", Money: asked}}, Classification{Outcome: Unknown, Reason: ReasonUnmapped, Review: ReviewUnmapped, Health: HealthNeutral, Next: NextReconcile, Alert: AlertContract}},
		{"no id", answered(200), Answer{Object: &Object{Outcome: Succeeded, Money: asked}}, Classification{Outcome: Unknown, Reason: ReasonNoObject, Review: ReviewUnmapped, Health: HealthNeutral, Next: NextReconcile, Alert: AlertContract}},
		{"no object", answered(200), Answer{}, Classification{Outcome: Unknown, Reason: ReasonNoObject, Review: ReviewUnmapped, Health: HealthNeutral, Next: NextReconcile, Alert: AlertContract}},
		{"another payment's object", answered(200), Answer{Object: object(Succeeded).Object, Foreign: true}, Classification{Outcome: Unknown, Reason: ReasonContradiction, Review: ReviewKeyReused, Health: HealthNeutral, Next: NextReconcile}},

		// 202.
		{"202 processing", answered(202), object(Processing), Classification{Outcome: Processing, Reason: ReasonProcessing, Health: HealthOK, Next: NextReconcile}},
		{"202 succeeded is not decided yet", answered(202), object(Succeeded), Classification{Outcome: Processing, Reason: ReasonProcessing, Health: HealthOK, Next: NextReconcile}},
		{"202 other amount", answered(202), Answer{Object: &Object{ID: "pay_1", Outcome: Processing, Money: Money{1, "EUR"}}}, Classification{Outcome: Unknown, Reason: ReasonAmount, Review: ReviewAmountMismatch, Health: HealthNeutral, Next: NextReconcile}},
		{"202 empty", answered(202), Answer{Malformed: true}, Classification{Outcome: Unknown, Reason: ReasonNotJSON, Health: HealthFail, Next: NextReconcile}},

		// 3xx.
		{"307", answered(307), object(Succeeded), Classification{Outcome: Unknown, Reason: ReasonRedirect, Health: HealthFail, Next: NextReconcile, Alert: AlertRedirects}},

		// Declines.
		{"402", answered(402), Answer{Malformed: true}, Classification{Outcome: Failed, Reason: ReasonDeclined, Health: HealthOK, Next: NextNone}},
		{"402 with the failed object", answered(402), object(Failed), Classification{Outcome: Failed, Reason: ReasonDeclined, Health: HealthOK, Next: NextNone}},
		{"402 authentication required", answered(402), object(RequiresAction), Classification{Outcome: RequiresAction, Reason: ReasonAction, Health: HealthOK, Next: NextNone}},
		{"402 with a success inside", answered(402), object(Succeeded), Classification{Outcome: Unknown, Reason: ReasonContradiction, Review: ReviewKeyReused, Health: HealthNeutral, Next: NextReconcile}},

		// Rejections.
		{"400 with a success inside", answered(400), object(Succeeded), Classification{Outcome: Unknown, Reason: ReasonContradiction, Review: ReviewKeyReused, Health: HealthNeutral, Next: NextReconcile}},
		{"400 beyond the cap", with(answered(400), func(ex *Exchange) { ex.BodyComplete = false }), Answer{Malformed: true}, Classification{Outcome: Unknown, Reason: ReasonBodyTooLarge, Health: HealthFail, Next: NextReconcile}},
		{"key reused", answered(400), Answer{KeyReused: true}, Classification{Outcome: Unknown, Reason: ReasonKeyReused, Review: ReviewKeyReused, Health: HealthNeutral, Next: NextReconcile}},
		{"already processed", answered(422), Answer{AlreadyDone: true}, Classification{Outcome: Unknown, Reason: ReasonAlreadyDone, Health: HealthNeutral, Next: NextReconcile, Quick: true}},

		// Not executed.
		{"401", answered(401), Answer{}, Classification{Outcome: NotExecuted, Reason: ReasonUnauthorized, Health: HealthNeutral, Next: NextPause, Alert: AlertConfig}},
		{"403", answered(403), Answer{Malformed: true}, Classification{Outcome: NotExecuted, Reason: ReasonForbidden, Health: HealthNeutral, Next: NextPause, Alert: AlertConfig}},
		{"425", answered(425), Answer{}, Classification{Outcome: NotExecuted, Reason: ReasonThrottled, Health: HealthNeutral, Next: NextSnooze}},
		{"429", throttled, Answer{}, Classification{Outcome: NotExecuted, Reason: ReasonThrottled, Health: HealthNeutral, Next: NextSnooze, RetryAfter: 7 * time.Second}},

		// In flight, and the provider's own timeout.
		{"408", answered(408), Answer{}, Classification{Outcome: Unknown, Reason: ReasonTimeout408, Health: HealthFail, Next: NextReconcile, Quick: true}},
		{"409 key in use", with(answered(409), func(ex *Exchange) { ex.RetryAfter = "2" }), Answer{KeyInUse: true}, Classification{Outcome: Unknown, Reason: ReasonKeyInUse, Health: HealthNeutral, Next: NextSnooze, RetryAfter: 2 * time.Second}},
		{"409 of another kind", answered(409), Answer{}, Classification{Outcome: Unknown, Reason: ReasonUnlisted, Review: ReviewUnmapped, Health: HealthNeutral, Next: NextReconcile, Alert: AlertContract}},

		// 5xx.
		{"500 in its own words", answered(500), Answer{}, Classification{Outcome: Unknown, Reason: "provider_500", Health: HealthFail, Next: NextReconcile, Quick: true}},
		{"503 HTML", answered(503), Answer{Malformed: true}, Classification{Outcome: Unknown, Reason: "gateway_503", Health: HealthFail, Next: NextReconcile, Quick: true}},
		{"500 replayed", with(answered(500), func(ex *Exchange) { ex.Replayed = true }), Answer{}, Classification{Outcome: Unknown, Reason: "provider_500", Health: HealthNeutral, Next: NextReconcile, Quick: true}},
		{"500 with a success inside", answered(500), object(Succeeded), Classification{Outcome: Unknown, Reason: "provider_500", Health: HealthFail, Next: NextReconcile, Quick: true}},
		{"500 about another payment", answered(500), Answer{Foreign: true, Declined: true}, Classification{Outcome: Unknown, Reason: "provider_500", Health: HealthFail, Next: NextReconcile, Quick: true}},

		// Our own cancellation.
		{"shutdown, sent", Exchange{Err: errWire, HeaderWritten: true, Cancelled: true}, Answer{}, Classification{Outcome: Unknown, Reason: ReasonShutdownAfter, Health: HealthNeutral, Next: NextReconcile}},
		{"shutdown in the body", with(answered(200), func(ex *Exchange) { ex.Err, ex.BodyComplete, ex.Cancelled = errWire, false, true }), Answer{}, Classification{Outcome: Unknown, Reason: ReasonShutdownAfter, Health: HealthNeutral, Next: NextReconcile}},
		{"shutdown, not sent", Exchange{Err: errWire, Cancelled: true}, Answer{}, Classification{Outcome: NotSent, Reason: ReasonShutdownBefore, Health: HealthNeutral, Next: NextRetry}},

		// What the rules do not list.
		{"418", answered(418), Answer{}, Classification{Outcome: Unknown, Reason: ReasonUnlisted, Review: ReviewUnmapped, Health: HealthNeutral, Next: NextReconcile, Alert: AlertContract}},
		{"101", answered(101), Answer{}, Classification{Outcome: Unknown, Reason: ReasonUnlisted, Review: ReviewUnmapped, Health: HealthNeutral, Next: NextReconcile, Alert: AlertContract}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, Classify(tt.ex, tt.ans, asked))
		})
	}
}

func TestClassifyRejections(t *testing.T) {
	t.Parallel()
	for status, alert := range map[int]string{400: "", 422: "", 404: AlertContract, 405: AlertContract, 410: AlertContract, 415: AlertContract} {
		want := Classification{Outcome: Failed, Reason: ReasonRejected, Message: "no", Health: HealthNeutral, Next: NextNone, Alert: alert}
		require.Equal(t, want, Classify(answered(status), Answer{Message: "no"}, asked), status)
		require.Equal(t, Failed, Classify(answered(status), Answer{Malformed: true}, asked).Outcome, status)
	}
}

// A listed decline code counts in whatever status it comes.
func TestClassifyDeclineCodeInAnyStatus(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 202, 400, 401, 402, 403, 404, 409, 422, 429, 500, 503} {
		got := Classify(answered(status), Answer{Declined: true}, asked)
		require.Equal(t, Classification{Outcome: Failed, Reason: ReasonDeclined, Health: HealthOK, Next: NextNone}, got, status)
	}
}

func TestB05_DeclinesAndBadRequestsAreNotFailures(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]Verdict{
		200: HealthOK, 402: HealthOK,
		400: HealthNeutral, 401: HealthNeutral, 403: HealthNeutral, 404: HealthNeutral, 405: HealthNeutral,
		409: HealthNeutral, 410: HealthNeutral, 415: HealthNeutral, 422: HealthNeutral, 425: HealthNeutral, 429: HealthNeutral,
		301: HealthFail, 308: HealthFail, 408: HealthFail, 500: HealthFail, 502: HealthFail, 503: HealthFail, 504: HealthFail, 599: HealthFail,
	} {
		ans := Answer{}
		if status == 200 {
			ans = object(Succeeded)
		}
		require.Equal(t, want, Classify(answered(status), ans, asked).Health, status)
	}
}

func TestC09_KeyInUseKeepsUnknownAndUsesNoAttempt(t *testing.T) {
	t.Parallel()
	got := Classify(answered(http.StatusConflict), Answer{KeyInUse: true}, asked)
	require.Equal(t, Classification{Outcome: Unknown, Reason: ReasonKeyInUse, Health: HealthNeutral, Next: NextSnooze}, got)
	settled := Classify(answered(200), object(Succeeded), asked)
	require.Equal(t, Succeeded, settled.Outcome)
}

func TestC11_KeyReusedNeverEndsThePayment(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 409, 422} {
		got := Classify(answered(status), Answer{KeyReused: true}, asked)
		require.Equal(t, Classification{Outcome: Unknown, Reason: ReasonKeyReused, Review: ReviewKeyReused, Health: HealthNeutral, Next: NextReconcile}, got)
	}
}

func TestC17_RequiresActionIsNeitherSuccessNorFailure(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 201, 202, 402} {
		got := Classify(answered(status), object(RequiresAction), asked)
		require.Equal(t, Classification{Outcome: RequiresAction, Reason: ReasonAction, Health: HealthOK, Next: NextNone}, got, status)
	}
}

func TestMoreThanOneWireSendIsAnIncident(t *testing.T) {
	t.Parallel()
	twice := with(answered(200), func(ex *Exchange) { ex.WireSends = 2 })
	got := Classify(twice, object(Succeeded), asked)
	require.Equal(t, AlertResent, got.Alert)
	require.Equal(t, Succeeded, got.Outcome)
}

// genExchange draws any exchange, consistent or not.
func genExchange(t *rapid.T) Exchange {
	var err error
	if rapid.Bool().Draw(t, "err") {
		err = rapid.SampledFrom([]error{errWire, &ConnectError{ReasonDial, errWire}, &LocalError{errWire}}).Draw(t, "which")
	}
	return Exchange{
		Status: rapid.OneOf(rapid.Just(0), rapid.IntRange(100, 599)).Draw(t, "status"), Err: err,
		WireSends: rapid.IntRange(0, 2).Draw(t, "sends"), HeaderWritten: rapid.Bool().Draw(t, "written"),
		BodyComplete: rapid.Bool().Draw(t, "complete"), Replayed: rapid.Bool().Draw(t, "replayed"),
		Cancelled: rapid.Bool().Draw(t, "cancelled"), Expired: rapid.Bool().Draw(t, "expired"),
		RetryAfter: rapid.SampledFrom([]string{"", "3", "junk", "Sun, 01 Mar 2026 12:00:09 GMT"}).Draw(t, "retry"),
	}
}

func genAnswer(t *rapid.T) Answer {
	a := Answer{
		Malformed: rapid.Bool().Draw(t, "malformed"), Declined: rapid.Bool().Draw(t, "declined"),
		KeyInUse: rapid.Bool().Draw(t, "in use"), KeyReused: rapid.Bool().Draw(t, "reused"),
		AlreadyDone: rapid.Bool().Draw(t, "done"), Foreign: rapid.Bool().Draw(t, "foreign"),
	}
	if rapid.Bool().Draw(t, "decode") {
		a.DecodeErr = errWire
	}
	if rapid.Bool().Draw(t, "object") {
		a.Object = &Object{
			ID:      rapid.SampledFrom([]string{"", "pay_1"}).Draw(t, "id"),
			Outcome: rapid.SampledFrom([]Outcome{"", Succeeded, Failed, Processing, RequiresAction, NotSent, "odd"}).Draw(t, "outcome"),
			Money:   rapid.SampledFrom([]Money{{}, asked, {4901, "EUR"}, {4900, "USD"}}).Draw(t, "money"),
		}
	}
	return a
}

// What must hold for any answer whatever.
func TestClassifyInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ex, ans := genExchange(t), genAnswer(t)
		requireSound(t, ex, ans, Classify(ex, ans, asked))
	})
}

// tester is what rapid, testing and fuzzing have in common.
type tester interface {
	require.TestingT
	Helper()
}

func requireSound(t tester, ex Exchange, ans Answer, c Classification) {
	t.Helper()
	note := fmt.Sprintf("%+v %+v → %+v", ex, ans, c)
	require.Contains(t, []Outcome{NotSent, NotExecuted, Unknown, Processing, RequiresAction, Succeeded, Failed}, c.Outcome, note)
	require.Contains(t, []Verdict{HealthOK, HealthFail, HealthNeutral}, c.Health, note)
	require.NotEmpty(t, c.Reason, note)
	whole := ex.Err == nil && ex.Status != 0
	switch c.Outcome {
	case Succeeded:
		o := ans.Object
		require.True(t, whole && ex.BodyComplete && ex.Status/100 == 2 && ex.Status != 202, note)
		require.True(t, o != nil && o.ID != "" && o.Money == asked && o.Outcome == Succeeded, note)
		require.False(t, ans.Malformed || ans.DecodeErr != nil || ans.Foreign || ans.Declined || ans.KeyReused, note)
	case Failed:
		require.True(t, whole, "failed is impossible from a transport error: %s", note)
		require.False(t, ans.Object != nil && ans.Object.Outcome == Succeeded, note)
	case NotSent:
		require.False(t, ex.HeaderWritten || ex.WireSends > 0 || ex.Status != 0, note)
	case Unknown:
		require.NotEqual(t, NextRetry, c.Next, note)
		require.NotEqual(t, NextNone, c.Next, note)
		require.NotEqual(t, HealthOK, c.Health, note)
	case NotExecuted, Processing, RequiresAction:
		require.True(t, whole, note)
	}
	if c.Next == NextRetry {
		require.Equal(t, NotSent, c.Outcome, note)
	}
	if ex.Cancelled && ex.Err != nil {
		require.Equal(t, HealthNeutral, c.Health, note)
	}
	require.True(t, c.RetryAfter == 0 || c.RetryAfter >= MinRetryAfter && c.RetryAfter <= MaxRetryAfter, note)
}

func FuzzClassify(f *testing.F) {
	f.Add(200, true, true, false, 1, uint8(0), "pay_1", "succeeded", int64(4900), "EUR", "7")
	f.Add(402, true, true, false, 1, uint8(4), "", "", int64(0), "", "")
	f.Add(0, false, false, true, 0, uint8(0), "", "", int64(0), "", "junk")
	f.Fuzz(func(t *testing.T, status int, written, complete, broken bool, sends int, flags uint8, id, outcome string, amount int64, currency, retry string) {
		ex := Exchange{Status: status, HeaderWritten: written, BodyComplete: complete, WireSends: sends, RetryAfter: retry}
		if broken {
			ex.Err = errWire
		}
		bit := func(n int) bool { return flags>>n&1 == 1 }
		ans := Answer{Malformed: bit(0), Declined: bit(2), KeyInUse: bit(3), KeyReused: bit(4), AlreadyDone: bit(5), Foreign: bit(6)}
		if bit(7) {
			ans.Object = &Object{ID: id, Outcome: Outcome(outcome), Money: Money{Amount: amount, Currency: currency}}
		}
		requireSound(t, ex, ans, Classify(ex, ans, asked))
	})
}
