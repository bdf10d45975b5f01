package provider

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Classify reads one money call: what its answer means for the payment, what it says
// about the provider's health, and what to do next. It is pure; the table it
// implements is money-rules §3, and anything not listed there is unknown with review.
//
//	nothing written                         not_sent        fail     retry
//	broken after the first byte             unknown         fail     reconcile
//	2xx, all conditions hold                as it says      ok       –
//	2xx, not what we know                   unknown+review  neutral  reconcile
//	2xx, not JSON | JSON of another shape   unknown         fail | neutral+alert  reconcile
//	202                                     processing      ok       reconcile
//	3xx                                     unknown         fail     reconcile, alert
//	402 or a listed decline code            failed          ok       –
//	400 404 405 410 415 422                 failed          neutral  –
//	key reused with other parameters        unknown+review  neutral  reconcile
//	401 403                                 not_executed    neutral  pause, alert
//	408                                     unknown         fail     quick reconcile
//	key in use                              unknown         neutral  snooze, then look up
//	425 429                                 not_executed    neutral  snooze
//	5xx                                     unknown         fail (replayed: neutral)  quick reconcile
//	cancelled by us                         unknown | not_sent  neutral  reconcile | retry
//
// Sent or not is decided by the facts of the wire in ex, never by the text of ex.Err.
func Classify(ex Exchange, ans Answer, want Money) Classification {
	c := read(ex, ans, want)
	c.Message = ans.Message
	if ex.WireSends > 1 {
		c.Alert = AlertResent
	}
	return c
}

// MaybeSent reports whether a byte of the request may have reached the provider. Any
// sign of it counts.
func (e Exchange) MaybeSent() bool {
	return e.HeaderWritten || e.WireSends > 0 || e.Status != 0 || !e.FirstSentAt.IsZero() || !e.FirstByteAt.IsZero()
}

// oversized reports whether the body was cut by our own cap.
func (e Exchange) oversized() bool { return e.Err == nil && !e.BodyComplete }

func read(ex Exchange, ans Answer, want Money) Classification {
	switch {
	case !ex.MaybeSent():
		return readNotSent(ex)
	case ex.Err != nil || ex.Status == 0:
		return readBroken(ex)
	case ex.Status >= 300 && ex.Status < 400:
		return Classification{Outcome: Unknown, Reason: ReasonRedirect, Health: HealthFail, Next: NextReconcile, Alert: AlertRedirects}
	case ans.Foreign && ex.Status < 500:
		return review(ReasonContradiction, ReviewKeyReused)
	case ans.Foreign:
		return readServerError(ex, ans)
	case ans.Declined || ex.Status == http.StatusPaymentRequired:
		return readDecline(ex, ans, want)
	case ex.Status >= 500:
		return readServerError(ex, ans)
	case ans.KeyReused:
		return review(ReasonKeyReused, ReviewKeyReused)
	case ans.KeyInUse:
		return Classification{Outcome: Unknown, Reason: ReasonKeyInUse, Health: HealthNeutral, Next: NextSnooze, RetryAfter: retryAfter(ex)}
	case ans.AlreadyDone:
		return Classification{Outcome: Unknown, Reason: ReasonAlreadyDone, Health: HealthNeutral, Next: NextReconcile, Quick: true}
	case ex.Status >= 200 && ex.Status < 300:
		return readSuccess(ex, ans, want)
	}
	return readRefusal(ex, ans)
}

// review is an answer nobody may act on without evidence or a person.
func review(reason, why string) Classification {
	return Classification{Outcome: Unknown, Reason: reason, Review: why, Health: HealthNeutral, Next: NextReconcile}
}

// contract is review plus the alert that the provider answers what we do not know.
func contract(reason string) Classification {
	c := review(reason, ReviewUnmapped)
	c.Alert = AlertContract
	return c
}

func readNotSent(ex Exchange) Classification {
	c := Classification{Outcome: NotSent, Reason: notSentReason(ex), Health: HealthFail, Next: NextRetry}
	switch c.Reason {
	case ReasonShutdownBefore:
		c.Health = HealthNeutral
	case ReasonLocal: // says nothing about the provider, and every retry would end the same way
		c.Health, c.Alert = HealthNeutral, AlertContract
	}
	return c
}

func notSentReason(ex Exchange) string {
	var local *LocalError
	var conn *ConnectError
	switch {
	case errors.As(ex.Err, &local):
		return ReasonLocal
	case ex.Cancelled:
		return ReasonShutdownBefore
	case errors.As(ex.Err, &conn):
		return conn.Phase
	case ex.Expired:
		return ReasonDeadlineBefore
	}
	return ReasonNothingWritten
}

// readBroken is a call that left and has no whole answer: whatever status line came is
// evidence for people and nothing else.
func readBroken(ex Exchange) Classification {
	c := Classification{Outcome: Unknown, Reason: brokenReason(ex), Health: HealthFail, Next: NextReconcile}
	if ex.Cancelled {
		c.Health = HealthNeutral
	}
	c.Quick = ex.Status >= 500
	return c
}

func brokenReason(ex Exchange) string {
	switch {
	case ex.Cancelled:
		return ReasonShutdownAfter
	case ex.Status == 0 && ex.Expired:
		return ReasonTimeoutAfter
	case ex.Status == 0:
		return ReasonCutAfterSend
	case ex.Status >= 500:
		return fmt.Sprintf("gateway_%d", ex.Status)
	case ex.Expired:
		return ReasonBodyTimeout
	}
	return ReasonBodyCut
}

func readServerError(ex Exchange, ans Answer) Classification {
	kind := "provider" // the provider's own words
	if ans.Malformed || ans.DecodeErr != nil || ex.oversized() {
		kind = "gateway" // something in front of it, or nobody
	}
	c := Classification{
		Outcome: Unknown, Reason: fmt.Sprintf("%s_%d", kind, ex.Status),
		Health: HealthFail, Next: NextReconcile, Quick: true,
	}
	if ex.Replayed { // a stored answer is no new evidence of ill health
		c.Health = HealthNeutral
	}
	return c
}

func readDecline(ex Exchange, ans Answer, want Money) Classification {
	if ex.oversized() { // the code we cannot read could turn the meaning round
		return Classification{Outcome: Unknown, Reason: ReasonBodyTooLarge, Health: HealthFail, Next: NextReconcile}
	}
	if o := ans.Object; o != nil {
		switch o.Outcome {
		case RequiresAction: // 402 authentication_required carries the payment that waits for its customer
			return readSuccess(ex, ans, want)
		case Succeeded, Processing:
			return review(ReasonContradiction, ReviewKeyReused)
		}
	}
	if ans.KeyReused || ans.KeyInUse || ans.AlreadyDone {
		return review(ReasonContradiction, ReviewKeyReused)
	}
	return Classification{Outcome: Failed, Reason: ReasonDeclined, Health: HealthOK, Next: NextNone}
}

func readSuccess(ex Exchange, ans Answer, want Money) Classification {
	switch {
	case ex.oversized():
		return Classification{Outcome: Unknown, Reason: ReasonBodyTooLarge, Health: HealthFail, Next: NextReconcile}
	case ans.Malformed:
		return Classification{Outcome: Unknown, Reason: ReasonNotJSON, Health: HealthFail, Next: NextReconcile}
	case ans.DecodeErr != nil:
		return Classification{Outcome: Unknown, Reason: ReasonContract, Health: HealthNeutral, Next: NextReconcile, Alert: AlertContract}
	case ans.Object == nil || ans.Object.ID == "":
		return contract(ReasonNoObject)
	}
	return readObject(ex.Status, *ans.Object, want)
}

// readObject holds the last conditions of success: a known word, and our own amount
// and currency to the minor unit.
func readObject(status int, o Object, want Money) Classification {
	c := Classification{Outcome: o.Outcome, Health: HealthOK, Next: NextNone}
	switch o.Outcome {
	case Succeeded:
		c.Reason = ReasonSucceeded
	case Processing:
		c.Reason = ReasonProcessing
	case RequiresAction:
		c.Reason = ReasonAction
	case Failed:
		c.Reason = ReasonDeclined
	default:
		return contract(ReasonUnmapped)
	}
	silent := o.Outcome == Failed && o.Money == Money{} // a failure need not repeat the amount
	if o.Money != want && !silent {
		return review(ReasonAmount, ReviewAmountMismatch)
	}
	if status == http.StatusAccepted && o.Outcome != RequiresAction {
		// Accepted is not decided, whatever word comes with it; the lookup will tell.
		c.Outcome, c.Reason, c.Next = Processing, ReasonProcessing, NextReconcile
	}
	return c
}

// readRefusal reads a status below 200 or from 400 to 499 that carries none of the
// special codes.
func readRefusal(ex Exchange, ans Answer) Classification {
	if o := ans.Object; o != nil && (o.Outcome == Succeeded || o.Outcome == Processing || o.Outcome == RequiresAction) {
		return review(ReasonContradiction, ReviewKeyReused)
	}
	switch ex.Status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		if ex.oversized() { // "key reused" could stand in the part we did not read
			return Classification{Outcome: Unknown, Reason: ReasonBodyTooLarge, Health: HealthFail, Next: NextReconcile}
		}
		return rejected("")
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusUnsupportedMediaType:
		return rejected(AlertContract) // the endpoint refuses: every payment will end like this one
	case http.StatusUnauthorized:
		return Classification{Outcome: NotExecuted, Reason: ReasonUnauthorized, Health: HealthNeutral, Next: NextPause, Alert: AlertConfig}
	case http.StatusForbidden:
		return Classification{Outcome: NotExecuted, Reason: ReasonForbidden, Health: HealthNeutral, Next: NextPause, Alert: AlertConfig}
	case http.StatusRequestTimeout:
		return Classification{Outcome: Unknown, Reason: ReasonTimeout408, Health: HealthFail, Next: NextReconcile, Quick: true}
	case http.StatusTooEarly, http.StatusTooManyRequests:
		return Classification{Outcome: NotExecuted, Reason: ReasonThrottled, Health: HealthNeutral, Next: NextSnooze, RetryAfter: retryAfter(ex)}
	}
	return contract(ReasonUnlisted)
}

func rejected(alert string) Classification {
	return Classification{Outcome: Failed, Reason: ReasonRejected, Health: HealthNeutral, Next: NextNone, Alert: alert}
}

func retryAfter(ex Exchange) time.Duration { return ParseRetryAfter(ex.RetryAfter, ex.DoneAt) }
