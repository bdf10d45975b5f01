package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"fusebox/provider"
)

// SignatureHeader carries an event's signature.
const SignatureHeader = "Fusebox-Signature"

// Tolerance is how far an event's time may be from ours, either way, inclusive.
const Tolerance = 300 * time.Second

const (
	maxSignatures = 16      // v1 entries looked at; further ones are ignored
	maxHeader     = 8 << 10 // bytes of the header
)

// Verify implements provider.Adapter. Every active secret is tried against every
// signature, so that either side can rotate first. The time is judged only after the
// signature: a stranger's timestamp says nothing about our clock.
func (a *Adapter) Verify(h http.Header, raw []byte, now time.Time) provider.Verification {
	stamp, sigs, verdict := parseSignature(strings.Join(h.Values(SignatureHeader), ","))
	if verdict != "" {
		return provider.Verification{Verdict: verdict}
	}
	label := match(a.settings.WebhookSecrets, stamp, sigs, raw)
	if label == "" {
		return provider.Verification{Verdict: provider.SignatureInvalid}
	}
	v := provider.Verification{Verdict: provider.SignatureValid, SecretLabel: label}
	t, _ := strconv.ParseInt(stamp, 10, 64) // parseSignature has seen to it
	switch age := now.Unix() - t; {
	case age > int64(Tolerance/time.Second):
		v.Verdict, v.TimeReject = provider.SignatureTooOld, true
	case age < -int64(Tolerance/time.Second):
		v.Verdict, v.TimeReject = provider.SignatureInFuture, true
	}
	return v
}

// Sign returns the header value for a body under secrets, as a provider makes it: one
// signature per secret. Tests and the simulator use it.
func Sign(raw []byte, at time.Time, secrets ...string) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	var b strings.Builder
	b.WriteString("t=" + stamp)
	for _, s := range secrets {
		b.WriteString(",v1=" + hex.EncodeToString(mac(s, stamp, raw)))
	}
	return b.String()
}

func mac(secret, stamp string, raw []byte) []byte {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(stamp + "."))
	m.Write(raw)
	return m.Sum(nil)
}

// match returns the label of the secret a signature was made with ("1" is the newest),
// or nothing. An empty secret matches nothing.
func match(secrets []string, stamp string, sigs [][]byte, raw []byte) (label string) {
	for i, secret := range secrets {
		if secret == "" {
			continue
		}
		want := mac(secret, stamp, raw)
		for _, sig := range sigs {
			if hmac.Equal(want, sig) && label == "" {
				label = strconv.Itoa(i + 1)
			}
		}
	}
	return label
}

// parseSignature reads "t=UNIX,v1=HEX,…". verdict is empty when there is something to
// verify. Unknown entries (v0) are skipped; a second t is an attempt at confusion.
func parseSignature(header string) (stamp string, sigs [][]byte, verdict string) {
	if strings.TrimSpace(header) == "" {
		return "", nil, provider.SignatureMissing
	}
	if len(header) > maxHeader {
		header = header[:maxHeader]
	}
	signed := false
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			if stamp != "" || !validStamp(value) {
				return "", nil, provider.SignatureInvalid
			}
			stamp = value
		case "v1":
			signed = true
			if sig, err := hex.DecodeString(value); err == nil && len(sig) == sha256.Size && len(sigs) < maxSignatures {
				sigs = append(sigs, sig)
			}
		}
	}
	switch {
	case !signed:
		return "", nil, provider.SignatureMissing
	case stamp == "" || len(sigs) == 0:
		return "", nil, provider.SignatureInvalid
	}
	return stamp, sigs, ""
}

// validStamp reports whether s is a Unix time in plain digits.
func validStamp(s string) bool {
	if s == "" || len(s) > 12 {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

// eventTypes are the events about a charge, with the outcome each announces.
var eventTypes = map[string]provider.Outcome{
	"payment.succeeded":       provider.Succeeded,
	"payment.failed":          provider.Failed,
	"payment.processing":      provider.Processing,
	"payment.requires_action": provider.RequiresAction,
	"payment.authorised":      provider.Processing,
	"charge.refunded":         provider.Succeeded, // it took its money; the totals say what went back
}

var (
	errEvent   = errors.New("event without an id or type")
	errPayment = errors.New("event about a payment without the payment's id")
)

// Parse implements provider.Adapter. The provider's event id is unique, so it is the key.
func (a *Adapter) Parse(raw []byte) ([]provider.Event, error) {
	var e struct {
		ID        string          `json:"id"`
		Type      string          `json:"type"`
		CreatedAt string          `json:"created_at"`
		Data      json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, err
	}
	if e.ID == "" || len(e.ID) > maxID || e.Type == "" || len(e.Type) > maxID {
		return nil, errEvent
	}
	at, _ := time.Parse(time.RFC3339Nano, e.CreatedAt) // for the timeline; order never depends on it
	event := provider.Event{Key: e.ID, Type: e.Type, OccurredAt: at}
	read := objectReader(e.Type)
	if read == nil {
		return []provider.Event{event}, nil
	}
	var err error
	if event.Object, err = read(e.Data); err != nil {
		return nil, err
	}
	event.Interesting = true
	return []provider.Event{event}, nil
}

// objectReader returns what reads the object of an event; nil if none of it is ours.
func objectReader(eventType string) func(raw []byte) (provider.Object, error) {
	if announced, ok := eventTypes[eventType]; ok {
		return func(raw []byte) (provider.Object, error) { return readPaymentOf(raw, announced) }
	}
	if word, ok := disputeWord(eventType); ok {
		return func(raw []byte) (provider.Object, error) { return readDispute(raw, word) }
	}
	if eventType == "refund.updated" {
		return readRefundOf
	}
	return nil
}

// readPaymentOf reads the payment of an event that announces an outcome.
func readPaymentOf(raw []byte, announced provider.Outcome) (provider.Object, error) {
	o, err := readPayment(raw)
	if err == nil && o.ID == "" {
		err = errPayment
	}
	if err != nil {
		return provider.Object{}, err
	}
	if o.Outcome != announced {
		o.Outcome = "" // type and object contradict each other: for a lookup or a person
	}
	return o, nil
}

// readRefundOf reads the refund of an event.
func readRefundOf(raw []byte) (provider.Object, error) {
	o, err := readRefund(raw)
	if err == nil && o.ID == "" {
		err = errRefund
	}
	if err != nil {
		return provider.Object{}, err
	}
	return o, nil
}
