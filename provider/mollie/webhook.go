package mollie

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"fusebox/provider"
)

// SignatureHeader carries the signature of a next-generation webhook.
const SignatureHeader = "X-Mollie-Signature"

const (
	maxSignatures = 16      // signatures looked at; further ones are ignored
	maxHeader     = 8 << 10 // bytes of the header
	maxForm       = 1 << 10 // bytes of a classic webhook's form
)

// Verify implements provider.Adapter. Every active secret is tried against every
// signature, so that either side can rotate first. There is no time in it to judge.
func (a *Adapter) Verify(h http.Header, raw []byte, _ time.Time) provider.Verification {
	sigs, present := signatures(strings.Join(h.Values(SignatureHeader), ","))
	if !present {
		return provider.Verification{Verdict: provider.SignatureMissing}
	}
	v := provider.Verification{Verdict: provider.SignatureInvalid}
	for i, secret := range a.secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(raw)
		want := mac.Sum(nil)
		for _, sig := range sigs {
			if secret != "" && hmac.Equal(want, sig) && v.SecretLabel == "" {
				v = provider.Verification{Verdict: provider.SignatureValid, SecretLabel: strconv.Itoa(i + 1)}
			}
		}
	}
	return v
}

// signatures reads "sha256=HEX", several of them separated by commas. present is false
// when the header says nothing at all.
func signatures(header string) (sigs [][]byte, present bool) {
	for part := range strings.SplitSeq(header[:min(len(header), maxHeader)], ",") {
		text := strings.TrimSpace(part)
		if text == "" {
			continue
		}
		present = true
		sig, err := hex.DecodeString(strings.TrimPrefix(text, "sha256="))
		if err == nil && len(sig) == sha256.Size && len(sigs) < maxSignatures {
			sigs = append(sigs, sig)
		}
	}
	return sigs, present
}

// eventTypes are the events about a payment, with the outcome each announces.
var eventTypes = map[string]provider.Outcome{
	"payment.paid":       provider.Succeeded,
	"payment.pending":    provider.Processing,
	"payment.authorized": provider.Processing,
	"payment.failed":     provider.Failed,
	"payment.canceled":   provider.Failed,
	"payment.expired":    provider.Failed,
}

// The beginnings of the types of events about what belongs to a payment; the last word is
// the refund's or capture's status, or what happened to the chargeback.
const (
	refundEvents     = "refund."
	captureEvents    = "capture."
	chargebackEvents = "chargeback."
)

// event is a next-generation webhook.
type event struct {
	Resource  string `json:"resource"`
	ID        string `json:"id"`
	Type      string `json:"type"`
	EntityID  string `json:"entityId"`
	CreatedAt stamp  `json:"createdAt"`
	Embedded  struct {
		Entity json.RawMessage `json:"entity"`
	} `json:"_embedded"`
}

// bare reports whether the event names its payment and does not describe it.
func (e event) bare() bool {
	return len(e.Embedded.Entity) == 0 || string(e.Embedded.Entity) == "null"
}

var (
	errEvent   = errors.New("event without an id or type")
	errPayment = errors.New("event about a payment without a usable id")
)

// Parse implements provider.Adapter. It reads signed events only; what a hint is about
// has to be fetched.
func (a *Adapter) Parse(raw []byte) ([]provider.Event, error) {
	var e event
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, err
	}
	if !fits(e.ID) || !fits(e.Type) || e.Resource != "" && e.Resource != "event" {
		return nil, errEvent
	}
	out := provider.Event{Key: e.ID, Type: e.Type, OccurredAt: e.CreatedAt.Time}
	if word, ok := strings.CutPrefix(e.Type, refundEvents); ok && !e.bare() {
		return a.refundEvent(out, e, word)
	}
	if word, ok := strings.CutPrefix(e.Type, captureEvents); ok && !e.bare() {
		return a.captureEvent(out, e, word)
	}
	if word, ok := strings.CutPrefix(e.Type, chargebackEvents); ok && !e.bare() {
		return a.chargebackEvent(out, e, word)
	}
	announced, about := eventTypes[e.Type]
	if !about {
		return []provider.Event{out}, nil
	}
	p, err := decode(e.Embedded.Entity)
	if err != nil {
		return nil, err
	}
	if p.ID == "" || e.EntityID != "" && e.EntityID != p.ID {
		return nil, errPayment
	}
	if !a.ownMode(p.Mode) {
		return []provider.Event{out}, nil
	}
	out.Interesting, out.Object = true, p.object(e.Embedded.Entity)
	if out.Object.Outcome != announced {
		out.Object.Outcome = "" // type and snapshot contradict each other: for a lookup or a person
	}
	return []provider.Event{out}, nil
}

// refundEvent reads an event about a refund. A word that is not on the list is one for a
// lookup or a person, like a snapshot that contradicts it.
func (a *Adapter) refundEvent(out provider.Event, e event, word string) ([]provider.Event, error) {
	r, err := decodePart(e.Embedded.Entity, "refund")
	if err != nil {
		return nil, err
	}
	if r.ID == "" || e.EntityID != "" && e.EntityID != r.ID {
		return nil, errPayment
	}
	if !a.ownMode(r.Mode) {
		return []provider.Event{out}, nil
	}
	out.Interesting, out.Object = true, r.object(e.Embedded.Entity)
	if r.Status != word {
		out.Object.Outcome = ""
	}
	return []provider.Event{out}, nil
}

func fits(s string) bool { return s != "" && len(s) <= maxID }

// Hint implements provider.Fetcher. A classic webhook is a form with the payment's id; a
// signed event may come without a snapshot, and then is worth no more.
func (a *Adapter) Hint(_ http.Header, raw []byte) (string, bool) {
	if id, ok := classic(raw); ok {
		return id, true
	}
	var e event
	if json.Unmarshal(raw, &e) != nil || !e.bare() || !fits(e.ID) {
		return "", false
	}
	_, about := eventTypes[e.Type]
	return e.EntityID, about && isPaymentID(e.EntityID)
}

func classic(raw []byte) (id string, ok bool) {
	if len(raw) > maxForm {
		return "", false
	}
	form, err := url.ParseQuery(string(raw))
	if err != nil || len(form["id"]) != 1 || !isPaymentID(form["id"][0]) {
		return "", false
	}
	return form["id"][0], true
}

// Fetch implements provider.Fetcher. Any payment of the profile is an answer: whether it
// is one of ours is seen by its reference. Of a payment that was charged back, the latest
// chargeback is what there is to tell.
func (a *Adapter) Fetch(ctx context.Context, id string) provider.Fetched {
	l := a.newLookup(ctx, provider.LookupQuery{})
	if !isPaymentID(id) {
		return provider.Fetched{LookedUp: l.LookedUp}
	}
	l.embed = embedChargebacks
	l.byID(id)
	f := provider.Fetched{LookedUp: l.conclude()}
	switch {
	case len(f.Objects) > 0:
		o := f.Objects[0]
		f.Event = provider.Event{Key: stateKey(o), Type: "payment." + provider.Clip(o.Status, maxID), Interesting: true, Object: o}
		if e, ok := l.fetched.chargedBack(o); ok {
			f.Event = e
		}
	case l.vanished:
		f.Verdict = provider.LookupAbsent
	}
	return f
}

// stateKey is the key of what was fetched: one id is announced whenever anything about
// the payment changes, refunds included.
func stateKey(o provider.Object) string {
	key := o.ID + ":" + provider.Clip(o.Status, maxID)
	if o.Totals != nil && o.Totals.Refunded > 0 {
		key += fmt.Sprintf(":refunded=%d", o.Totals.Refunded)
	}
	return key
}
