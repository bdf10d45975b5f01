package simulator

import (
	"fmt"
	"maps"
	"slices"
)

// Fault names one way of misbehaving.
type Fault string

// Charge faults: at most one of them happens to a charge request.
const (
	ChargedThenSilent    Fault = "charged_then_silent"     // booked, then never a byte of an answer
	ChargedThenCut       Fault = "charged_then_cut"        // booked, then FIN, also on a warm connection
	ChargedThenReset     Fault = "charged_then_reset"      // booked, then RST, also on a warm connection
	ChargedThen502       Fault = "charged_then_502"        // booked, then 502 with a proxy's HTML page
	ChargedThenTruncated Fault = "charged_then_truncated"  // booked, then half of the JSON under the full Content-Length
	Slow                 Fault = "slow"                    // booked, answered after Timing.Slow
	Drip                 Fault = "drip"                    // booked, header at once, then a byte per Timing.Drip
	Hang                 Fault = "hang"                    // not booked, silent
	Error500             Fault = "error_500"               // not booked; 500 stored and replayed under the key
	Error500Charged      Fault = "error_500_charged"       // booked; 500 stored and replayed under the key
	InProgress409        Fault = "in_progress_409"         // the call runs for Timing.InProgress (same key: 409), then is booked
	Throttle429          Fault = "throttle_429"            // not booked; Retry-After in seconds or as a date
	Decline              Fault = "decline"                 // 402, a failed object
	Rejected422          Fault = "rejected_422"            // not booked; 422 naming a field
	Async202             Fault = "async_202"               // processing, succeeded after Timing.Async
	Async202Failed       Fault = "async_202_failed"        // processing, failed after Timing.Async
	RequiresAction       Fault = "requires_action"         // waits for the customer; succeeded after Timing.Action or by its page
	ActionCanceled       Fault = "requires_action_dropped" // waits for the customer; canceled after Timing.Action
	DoubleObject         Fault = "double_object"           // two succeeded objects for one request
	AmountAltered        Fault = "amount_altered"          // booked with another amount, and says so everywhere
	AmountMisreported    Fault = "amount_misreported"      // booked as asked; only the answer names another amount
	ChargedThenHTML      Fault = "charged_then_html_200"   // booked, then 200 with an HTML page
	ChargedThenRedirect  Fault = "charged_then_redirect"   // booked, then 307 to another path
	WrongShape           Fault = "wrong_shape"             // booked; the 200 has an object where the amount should be
	UnmappedStatus       Fault = "unmapped_status"         // booked; the 200 has a status word outside the contract
	Unauthorized401      Fault = "unauthorized_401"        // not booked; the right key refused
	Forbidden403         Fault = "forbidden_403"           // not booked; the account is forbidden
)

// Webhook faults: drawn per event, each independently.
const (
	WebhookEarly        Fault = "webhook_early"         // delivered before the charge is answered
	WebhookLate         Fault = "webhook_late"          // first delivered after Timing.Late
	WebhookDuplicated   Fault = "webhook_duplicated"    // delivered again after it was acknowledged
	WebhookConcurrent   Fault = "webhook_concurrent"    // the same event several times in parallel
	WebhookOutOfOrder   Fault = "webhook_out_of_order"  // an older payment.processing follows the final event
	WebhookMissing      Fault = "webhook_missing"       // never delivered
	WebhookBadSignature Fault = "webhook_bad_signature" // the first delivery has a wrong HMAC
	WebhookOldTimestamp Fault = "webhook_old_timestamp" // the first delivery is signed ten minutes ago
	WebhookUnrelated    Fault = "webhook_unrelated"     // a signed event about something else comes along
)

// Lookup faults. Lag and not-found are drawn per reference, the rest per request.
const (
	LookupLag       Fault = "lookup_lag"       // the charge is invisible for Timing.Lag: 404 by id, empty lists
	LookupNotFound  Fault = "lookup_not_found" // every question about it is a 404 for Timing.NotFound
	LookupForbidden Fault = "lookup_forbidden" // 403
	LookupError     Fault = "lookup_error"     // 503
)

// Kind says what a fault happens to.
type Kind string

// Kinds of fault.
const (
	KindCharge  Kind = "charge"
	KindWebhook Kind = "webhook"
	KindLookup  Kind = "lookup"
)

// Info is a fault's entry in the Catalogue.
type Info struct {
	Name Fault  `json:"name"`
	Kind Kind   `json:"kind"`
	Code int64  `json:"code"` // the amount FaultAmount+Code picks the fault
	Text string `json:"text"` // one line for people
}

// FaultAmount is the amount in minor units above which a fault's code picks it.
const FaultAmount int64 = 66600

var catalogue = []Info{
	{ChargedThenSilent, KindCharge, 1, "charged, then silence"},
	{ChargedThenCut, KindCharge, 2, "charged, then the connection closes"},
	{ChargedThenReset, KindCharge, 3, "charged, then the connection is reset"},
	{ChargedThen502, KindCharge, 4, "charged, then 502 with an HTML page"},
	{ChargedThenTruncated, KindCharge, 5, "charged, then half an answer"},
	{Slow, KindCharge, 6, "charged, answered late"},
	{Drip, KindCharge, 7, "charged, answered a byte at a time"},
	{Hang, KindCharge, 8, "not charged, silence"},
	{Error500, KindCharge, 9, "not charged, 500 replayed under the key"},
	{Error500Charged, KindCharge, 10, "charged, 500 replayed under the key"},
	{InProgress409, KindCharge, 11, "runs long (409 for the same key), then charged"},
	{Throttle429, KindCharge, 12, "not charged, 429 with Retry-After"},
	{Decline, KindCharge, 13, "declined by the bank"},
	{Rejected422, KindCharge, 14, "rejected as invalid"},
	{Async202, KindCharge, 15, "processing, succeeds later"},
	{Async202Failed, KindCharge, 16, "processing, fails later"},
	{RequiresAction, KindCharge, 17, "waits for the customer, then succeeds"},
	{ActionCanceled, KindCharge, 18, "waits for the customer, who never comes"},
	{DoubleObject, KindCharge, 19, "charged twice by the provider"},
	{AmountAltered, KindCharge, 20, "charged with another amount"},
	{AmountMisreported, KindCharge, 21, "charged as asked, answered with another amount"},
	{ChargedThenHTML, KindCharge, 22, "charged, then 200 with an HTML page"},
	{ChargedThenRedirect, KindCharge, 23, "charged, then a redirect"},
	{WrongShape, KindCharge, 24, "charged, then JSON of another shape"},
	{UnmappedStatus, KindCharge, 25, "charged, then a status nobody knows"},
	{Unauthorized401, KindCharge, 26, "not charged, the key is refused"},
	{Forbidden403, KindCharge, 27, "not charged, the account is forbidden"},
	{WebhookEarly, KindWebhook, 41, "event before the answer"},
	{WebhookLate, KindWebhook, 42, "event late"},
	{WebhookDuplicated, KindWebhook, 43, "event again and again"},
	{WebhookConcurrent, KindWebhook, 44, "event several times at once"},
	{WebhookOutOfOrder, KindWebhook, 45, "older event after the final one"},
	{WebhookMissing, KindWebhook, 46, "event never comes"},
	{WebhookBadSignature, KindWebhook, 47, "event badly signed at first"},
	{WebhookOldTimestamp, KindWebhook, 48, "event signed too long ago at first"},
	{WebhookUnrelated, KindWebhook, 49, "an unrelated event comes along"},
	{LookupLag, KindLookup, 61, "lookups lag behind"},
	{LookupNotFound, KindLookup, 62, "lookups answer 404"},
	{LookupForbidden, KindLookup, 63, "lookups answer 403"},
	{LookupError, KindLookup, 64, "lookups answer 503"},
}

// Catalogue lists every fault in the order they are drawn.
func Catalogue() []Info { return slices.Clone(catalogue) }

// info finds a fault's entry.
func info(name Fault) (Info, bool) {
	i := slices.IndexFunc(catalogue, func(in Info) bool { return in.Name == name })
	if i < 0 {
		return Info{}, false
	}
	return catalogue[i], true
}

// Outage is a failure of the whole provider, or of all its charges.
type Outage string

// Outage modes.
const (
	OutageNone      Outage = "none"
	OutageRefuse    Outage = "refuse"     // connections are refused, open ones cut
	OutageBlackHole Outage = "black_hole" // connections are accepted and requests read; nothing is answered
	OutageError     Outage = "error"      // 503 to everything
	OutageCharges   Outage = "charges"    // 503 to every charge, half of them booked; questions and /health are answered, events wait
)

// Faults is what a simulator does wrong at the moment.
type Faults struct {
	Rates  map[Fault]float64 `json:"rates"`  // 0 to 1; the charge faults' rates add up to at most 1
	Outage Outage            `json:"outage"` // empty means OutageNone
	Timing Timing            `json:"timing"` // zero fields mean the defaults
}

// Clone returns an independent copy.
func (f Faults) Clone() Faults {
	f.Rates = maps.Clone(f.Rates)
	return f
}

// With returns a copy with one rate set.
func (f Faults) With(name Fault, rate float64) Faults {
	c := f.Clone()
	if c.Rates == nil {
		c.Rates = map[Fault]float64{}
	}
	c.Rates[name] = rate
	return c
}

// Without returns a copy in which the named faults do not happen by rate.
func (f Faults) Without(names ...Fault) Faults {
	c := f.Clone()
	for _, n := range names {
		delete(c.Rates, n)
	}
	return c
}

// FieldError names the field of a setting or a control request that was refused.
type FieldError struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// Error implements error.
func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

// Validate refuses unknown names, rates outside 0 to 1, and charge rates that
// together promise more than every request. The error is a *FieldError.
func (f Faults) Validate() error {
	for _, name := range slices.Sorted(maps.Keys(f.Rates)) {
		rate := f.Rates[name]
		if _, ok := info(name); !ok {
			return &FieldError{"rates." + string(name), "unknown fault"}
		}
		if !(rate >= 0 && rate <= 1) { // also refuses NaN
			return &FieldError{"rates." + string(name), "must be between 0 and 1"}
		}
	}
	// A hair of slack: ten times 0.1 is not exactly 1.
	if sum := f.chargeRate(); sum > 1+1e-9 {
		return &FieldError{"rates", fmt.Sprintf("the charge faults add up to %.3g, more than 1", sum)}
	}
	switch f.Outage {
	case "", OutageNone, OutageRefuse, OutageBlackHole, OutageError, OutageCharges:
	default:
		return &FieldError{"outage", "must be none, refuse, black_hole, error or charges"}
	}
	return f.Timing.validate()
}

// chargeRate is the share of charge requests that draw a fault.
func (f Faults) chargeRate() float64 {
	var sum float64
	for _, in := range catalogue {
		if in.Kind == KindCharge {
			sum += f.Rates[in.Name]
		}
	}
	return sum
}

// normal returns f with an outage mode, timings and a map of its own.
func (f Faults) normal() Faults {
	c := f.Clone()
	if c.Rates == nil {
		c.Rates = map[Fault]float64{}
	}
	maps.DeleteFunc(c.Rates, func(_ Fault, r float64) bool { return r == 0 })
	if c.Outage == "" {
		c.Outage = OutageNone
	}
	c.Timing = c.Timing.withDefaults()
	return c
}
