package provider

import (
	"net/http"
	"time"
)

// Outcome is the meaning of a provider's answer for a payment. It is pure
// vocabulary: store maps it to a payment status.
type Outcome string

// Outcomes of a money call.
const (
	NotSent        Outcome = "not_sent"        // provably no byte of the request left: the payment stays pending
	NotExecuted    Outcome = "not_executed"    // the provider answered that it did not execute (401, 403, 425, 429): stays pending
	Unknown        Outcome = "unknown"         // bytes may have arrived and there is no trustworthy answer
	Processing     Outcome = "processing"      // acknowledged, not decided
	RequiresAction Outcome = "requires_action" // the customer has to act
	Succeeded      Outcome = "succeeded"
	Failed         Outcome = "failed" // declined or rejected; was not and will not be executed
)

// Verdict is what a call says about the provider's health, for the breaker.
type Verdict string

// Verdicts.
const (
	HealthOK      Verdict = "ok"
	HealthFail    Verdict = "fail"
	HealthNeutral Verdict = "neutral" // says nothing about health: never counts, never closes a half-open circuit
)

// Next is what the engine does after a charge call.
type Next string

// Next steps.
const (
	NextNone      Next = "none"      // final, or waiting for the customer
	NextRetry     Next = "retry"     // same job, same key, same bytes, after a growing pause; uses an attempt
	NextSnooze    Next = "snooze"    // after RetryAfter; uses no attempt
	NextReconcile Next = "reconcile" // a lookup decides; after Delay
	NextPause     Next = "pause"     // configuration alarm: the provider's charge queue pauses until the fix
)

// Review reasons a classification can raise; the set of all of them is in money-rules §1.
const (
	ReviewAmountMismatch = "amount_mismatch"
	ReviewUnmapped       = "unmapped_status"
	ReviewKeyReused      = "contradiction"
)

// Alert kinds a classification can raise.
const (
	AlertConfig    = "config_alarm"     // 401/403: credentials
	AlertContract  = "contract_changed" // the provider answered something our decoder or list does not know
	AlertRedirects = "provider_redirects"
	AlertResent    = "wire_resent" // more than one wire send in one attempt: an incident
)

// Classification is the reading of one money call, made by Classify.
type Classification struct {
	Outcome    Outcome
	Reason     string // machine-readable: gateway_502, cut_after_send, declined, dial, timeout_after_send, ...
	Message    string // the provider's words for people, if any; hostile text
	Review     string // review reason, or empty
	Health     Verdict
	Next       Next
	RetryAfter time.Duration // for NextSnooze: clamped 1 s to 15 min; 0 means the engine's backoff
	Quick      bool          // for NextReconcile: ask soon (10 s after a 5xx, 408) instead of after a minute
	Alert      string        // alert kind, or empty
}

// Reasons of a classification: machine-readable, stable, and what screens and
// alerts translate. A status may be appended (gateway_502, provider_500).
const (
	ReasonSucceeded      = "succeeded"
	ReasonProcessing     = "processing"
	ReasonAction         = "requires_action"
	ReasonDeclined       = "declined"
	ReasonRejected       = "rejected"
	ReasonDNS            = "dns"
	ReasonDial           = "dial"
	ReasonTLS            = "tls"
	ReasonConnectTimeout = "connect_timeout"
	ReasonNothingWritten = "nothing_written"      // a connection was there and the kernel took no byte of the request
	ReasonDeadlineBefore = "deadline_before_send" // our deadline passed before the first byte
	ReasonShutdownBefore = "shutdown_before_send" // we cancelled before the first byte
	ReasonLocal          = "local"                // our own fault: the request could not be built
	ReasonCutAfterSend   = "cut_after_send"       // sent, then the connection broke
	ReasonTimeoutAfter   = "timeout_after_send"   // sent, then no status line within the deadline
	ReasonShutdownAfter  = "shutdown_after_send"  // sent, then we cancelled
	ReasonBodyCut        = "body_cut"             // a status line, then the body broke off
	ReasonBodyTimeout    = "body_timeout"         // a status line, then the body dripped past the deadline
	ReasonBodyTooLarge   = "body_too_large"       // more than the cap
	ReasonNotJSON        = "not_json"             // HTML, nothing, or JSON cut short under a 2xx
	ReasonContract       = "contract_changed"     // JSON our decoder does not understand
	ReasonNoObject       = "no_object"            // a 2xx without a provider id
	ReasonUnmapped       = "unmapped_status"      // a status word that is not on the list
	ReasonAmount         = "amount_mismatch"      // amount or currency is not what we asked
	ReasonContradiction  = "contradiction"        // the answer says two things, or names another payment
	ReasonRedirect       = "redirect"             // 3xx; never followed
	ReasonUnauthorized   = "unauthorized"         // 401
	ReasonForbidden      = "forbidden"            // 403
	ReasonTimeout408     = "provider_timeout"     // 408
	ReasonKeyInUse       = "key_in_use"           // the first call under this key is still running
	ReasonKeyReused      = "key_reused"           // the key was used with other parameters
	ReasonAlreadyDone    = "already_processed"    // the provider says it has seen this payment
	ReasonThrottled      = "throttled"            // 425, 429
	ReasonUnlisted       = "unlisted_answer"      // a status the rules do not know
	ReasonFound          = "found"                // lookup
	ReasonNotFound       = "not_found"            // lookup
	ReasonFilterIgnored  = "filter_ignored"       // lookup: the answer is about other payments than asked
	ReasonVanished       = "vanished"             // lookup: an id the provider once gave is unknown to it
	ReasonProxyNotFound  = "proxy_404"            // lookup: a 404 page nobody can take for the provider's word
	ReasonNoWay          = "no_way"               // lookup: nothing to ask
)

// Exchange holds the facts of one HTTP call, as gathered by Caller.Do.
type Exchange struct {
	Method        string
	URL           string
	WireSends     int  // requests written to a connection, by httptrace; more than 1 is an incident
	HeaderWritten bool // at least one header byte was written: "maybe sent"
	StartedAt     time.Time
	FirstSentAt   time.Time // first header byte written; zero if none
	FirstByteAt   time.Time // first answer byte; zero if none
	DoneAt        time.Time
	Status        int // 0 without a status line
	ContentType   string
	Server        string
	RequestID     string      // the provider's request id header
	Location      string      // of a 3xx; stored, never visited
	RetryAfter    string      // raw header
	Replayed      bool        // the provider marked the answer as a replay of a stored one
	Kept          http.Header // of CallerOptions.KeepHeaders those that came
	Body          []byte      // capped
	BodyComplete  bool        // read to its end within cap and deadline
	Err           error       // transport error, or nil
	Cancelled     bool        // our own context was cancelled by us (shutdown), not by its deadline
	Expired       bool        // our attempt deadline passed
}

// Latency is the time from start to the end of the call.
func (e Exchange) Latency() time.Duration { return e.DoneAt.Sub(e.StartedAt) }
