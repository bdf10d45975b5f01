package stripe

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/webhook"

	"fusebox/provider"
)

// SignatureHeader carries an event's signature.
const SignatureHeader = "Stripe-Signature"

const (
	maxSignatures = 16      // v1 entries looked at; further ones are ignored
	maxHeader     = 8 << 10 // bytes of the header
)

// Verify implements provider.Adapter. Every active secret is tried, so that either side
// can rotate first. stripe-go compares the signatures; the time is judged here, after
// them and both ways, because a stranger's timestamp says nothing about our clock.
func (a *Adapter) Verify(h http.Header, raw []byte, now time.Time) provider.Verification {
	at, header, verdict := parseSignature(strings.Join(h.Values(SignatureHeader), ","))
	if verdict != "" {
		return provider.Verification{Verdict: verdict}
	}
	label := ""
	for i, secret := range a.settings.WebhookSecrets {
		if secret != "" && webhook.ValidatePayloadIgnoringTolerance(raw, header, secret) == nil {
			label = strconv.Itoa(i + 1)
			break
		}
	}
	if label == "" {
		return provider.Verification{Verdict: provider.SignatureInvalid}
	}
	v := provider.Verification{Verdict: provider.SignatureValid, SecretLabel: label}
	const tolerance = int64(webhook.DefaultTolerance / time.Second)
	switch age := now.Unix() - at; {
	case age > tolerance:
		v.Verdict, v.TimeReject = provider.SignatureTooOld, true
	case age < -tolerance:
		v.Verdict, v.TimeReject = provider.SignatureInFuture, true
	}
	return v
}

// parseSignature reads "t=UNIX,v1=HEX,…" and renders it again with the first v1 entries
// only. verdict is empty when there is something to verify. Entries of other versions
// (v0) are skipped; a second t is an attempt at confusion.
func parseSignature(header string) (at int64, cleaned, verdict string) {
	if strings.TrimSpace(header) == "" {
		return 0, "", provider.SignatureMissing
	}
	var stamp string
	var sigs []string
	for part := range strings.SplitSeq(header[:min(len(header), maxHeader)], ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case name == "t" && (stamp != "" || !validStamp(value)):
			return 0, "", provider.SignatureInvalid
		case name == "t":
			stamp = value
		case name == "v1" && len(sigs) < maxSignatures:
			sigs = append(sigs, "v1="+value)
		}
	}
	switch {
	case len(sigs) == 0:
		return 0, "", provider.SignatureMissing
	case stamp == "":
		return 0, "", provider.SignatureInvalid
	}
	at, _ = strconv.ParseInt(stamp, 10, 64) // validStamp has seen to it
	return at, "t=" + stamp + "," + strings.Join(sigs, ","), ""
}

// validStamp reports whether s is a Unix time as Stripe writes it: plain digits, without
// leading zeros, since stripe-go signs the number and not its text.
func validStamp(s string) bool {
	n, err := strconv.ParseInt(s, 10, 64)
	return err == nil && n >= 0 && len(s) <= 12 && strconv.FormatInt(n, 10) == s
}

// eventTypes are the events about a charge, with the outcomes each may announce.
var eventTypes = map[sdk.EventType][]provider.Outcome{
	sdk.EventTypePaymentIntentSucceeded:               {provider.Succeeded},
	sdk.EventTypePaymentIntentProcessing:              {provider.Processing},
	sdk.EventTypePaymentIntentAmountCapturableUpdated: {provider.Processing},
	sdk.EventTypePaymentIntentRequiresAction:          {provider.RequiresAction},
	sdk.EventTypePaymentIntentPaymentFailed:           {provider.Failed, provider.RequiresAction},
	sdk.EventTypePaymentIntentCanceled:                {provider.Failed},
}

var (
	errEvent  = errors.New("event without an id or type")
	errIntent = errors.New("event about a charge without the charge's id")
)

// Parse implements provider.Adapter. Stripe's event id is unique, so it is the key. The
// API version the event was rendered in does not matter: the members read here are the
// same in all of them.
func (a *Adapter) Parse(raw []byte) ([]provider.Event, error) {
	var e struct {
		ID       string        `json:"id"`
		Type     sdk.EventType `json:"type"`
		Account  string        `json:"account"` // of a connected account; the key's own is not named
		Livemode *bool         `json:"livemode"`
		Created  stamp         `json:"created"`
		Data     struct {
			Object json.RawMessage `json:"object"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, err
	}
	if e.ID == "" || len(e.ID) > maxID || e.Type == "" || len(e.Type) > maxID {
		return nil, errEvent
	}
	event := provider.Event{Key: e.ID, Type: string(e.Type), OccurredAt: e.Created.time()}
	read := objectReader(e.Type)
	if read == nil || e.Account != a.settings.Account || !a.ownMode(e.Livemode) {
		return []provider.Event{event}, nil
	}
	var err error
	if event.Object, err = read(e.Data.Object); err != nil {
		return nil, err
	}
	event.Interesting = true
	return []provider.Event{event}, nil
}

// objectReader returns what reads the object of an event; nil if none of it is ours.
func objectReader(t sdk.EventType) func(raw []byte) (provider.Object, error) {
	if announced, ok := eventTypes[t]; ok {
		return func(raw []byte) (provider.Object, error) { return readIntentOf(raw, announced) }
	}
	switch t {
	case sdk.EventTypeRefundCreated, sdk.EventTypeRefundUpdated, sdk.EventTypeRefundFailed, sdk.EventTypeChargeRefundUpdated:
		return readRefund
	case sdk.EventTypeChargeRefunded:
		return readTotals
	case sdk.EventTypeChargeDisputeCreated, sdk.EventTypeChargeDisputeUpdated, sdk.EventTypeChargeDisputeClosed:
		return readDispute
	}
	return nil
}

// readIntentOf reads the intent of an event that announces one of some outcomes. Where
// type and object contradict each other there is no outcome: for a lookup or a person.
func readIntentOf(raw []byte, announced []provider.Outcome) (provider.Object, error) {
	p, err := decodeIntent(raw)
	if err != nil {
		return provider.Object{}, err
	}
	if p.ID == "" {
		return provider.Object{}, errIntent
	}
	o := p.object(raw)
	if !slices.Contains(announced, o.Outcome) {
		o.Outcome = ""
	}
	return o, nil
}

// readTotals reads charge.refunded: the charge behind an intent, with all that was taken
// and given back so far. A charge without an intent is none of ours.
func readTotals(raw []byte) (provider.Object, error) {
	var c struct {
		intent
		Intent   expandable `json:"payment_intent"`
		Captured amount     `json:"amount_captured"`
		Refunded amount     `json:"amount_refunded"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return provider.Object{}, err
	}
	if c.Intent == "" || len(c.Intent) > maxID || len(c.reference()) > maxText || c.Object != "charge" {
		return provider.Object{}, errIntent
	}
	c.ID, c.Received = string(c.Intent), &c.Captured
	o := c.object(raw)
	currency := strings.ToUpper(c.Currency)
	captured, ok1 := fromUnits(int64(c.Captured), currency)
	refunded, ok2 := fromUnits(int64(c.Refunded), currency)
	if ok1 && ok2 && o.Outcome == provider.Succeeded {
		o.Totals = &provider.Totals{Authorised: o.Money.Amount, Captured: captured.Amount, Refunded: refunded.Amount}
	} else {
		o.Outcome = "" // a refund of what was not taken: for a lookup or a person
	}
	return o, nil
}

// readRefund reads the refund of an event.
func readRefund(raw []byte) (provider.Object, error) {
	r, err := decodeRefund(raw)
	if err == nil && r.ID == "" {
		err = errIntent
	}
	if err != nil {
		return provider.Object{}, err
	}
	return r.object(raw), nil
}
