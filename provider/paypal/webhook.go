package paypal

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"slices"
	"strconv"
	"time"

	"fusebox/provider"
)

// Headers of a delivery.
const (
	headerID   = "Paypal-Transmission-Id"
	headerTime = "Paypal-Transmission-Time"
	headerSig  = "Paypal-Transmission-Sig"
	headerCert = "Paypal-Cert-Url"
	headerAlgo = "Paypal-Auth-Algo"
)

// signatureAlgorithm is the one PayPal signs with, and the only one taken: the header
// that names it is not signed.
const signatureAlgorithm = "SHA256withRSA"

// tolerance is how far a delivery's time may be from ours, either way, inclusive.
const tolerance = 300 * time.Second

const maxHeader = 1000 // bytes of one header

// delivery is what the headers of a delivery say.
type delivery struct {
	id, stamp, certURL string
	at                 time.Time
	sig                []byte
	sigText            string
}

// Verify implements provider.Adapter. Every webhook id is tried, and the time is judged
// after the signature: a stranger's timestamp says nothing about our clock.
func (a *Adapter) Verify(h http.Header, raw []byte, now time.Time) provider.Verification {
	d, verdict := readHeaders(h)
	if verdict != "" {
		return provider.Verification{Verdict: verdict}
	}
	v := provider.Verification{Verdict: provider.SignatureInvalid}
	for i, hook := range a.hooks {
		switch verdict := a.judge(hook, d, raw, now); verdict {
		case provider.SignatureValid:
			v = provider.Verification{Verdict: verdict, SecretLabel: strconv.Itoa(i + 1)}
		case provider.SignatureUnchecked:
			v.Verdict = verdict
			continue
		default:
			continue
		}
		break
	}
	if v.Verdict != provider.SignatureValid {
		return v
	}
	switch age := now.Sub(d.at); {
	case age > tolerance:
		v.Verdict, v.TimeReject = provider.SignatureTooOld, true
	case age < -tolerance:
		v.Verdict, v.TimeReject = provider.SignatureInFuture, true
	}
	return v
}

// readHeaders reads the headers. verdict is empty when there is something to verify.
func readHeaders(h http.Header) (d delivery, verdict string) {
	d = delivery{id: h.Get(headerID), stamp: h.Get(headerTime), certURL: h.Get(headerCert), sigText: h.Get(headerSig)}
	if d.sigText == "" {
		return d, provider.SignatureMissing
	}
	for _, text := range []string{d.id, d.stamp, d.certURL, d.sigText} {
		if text == "" || len(text) > maxHeader || !provider.Printable(text) {
			return d, provider.SignatureInvalid
		}
	}
	var err1, err2 error
	d.at, err1 = time.Parse(time.RFC3339, d.stamp)
	d.sig, err2 = base64.StdEncoding.DecodeString(d.sigText)
	if err1 != nil || err2 != nil || h.Get(headerAlgo) != signatureAlgorithm {
		return d, provider.SignatureInvalid
	}
	return d, ""
}

// judge checks a delivery against one webhook.
func (a *Adapter) judge(hk hook, d delivery, raw []byte, now time.Time) string {
	if hk.askAPI {
		return a.askPayPal(hk.id, d, raw)
	}
	key, err := a.certs.key(d.certURL, now)
	switch {
	case errors.Is(err, errUnreachable):
		return provider.SignatureUnchecked
	case err != nil:
		return provider.SignatureInvalid
	}
	sum := sha256.Sum256([]byte(signed(d.id, d.stamp, hk.id, raw)))
	if rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], d.sig) != nil {
		return provider.SignatureInvalid
	}
	return provider.SignatureValid
}

// signed is the text PayPal signs.
func signed(id, stamp, hookID string, raw []byte) string {
	return fmt.Sprintf("%s|%s|%s|%d", id, stamp, hookID, crc32.ChecksumIEEE(raw))
}

// askPayPal lets PayPal verify a delivery. The event goes out byte for byte: PayPal sums
// what it gets.
func (a *Adapter) askPayPal(hookID string, d delivery, raw []byte) string {
	if !json.Valid(raw) {
		return provider.SignatureInvalid
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*a.settings.AnswerTimeout)
	defer cancel()
	tok, err := a.tokens.get(ctx)
	if err != nil {
		return provider.SignatureUnchecked
	}
	head, err := json.Marshal(map[string]string{
		"auth_algo": signatureAlgorithm, "cert_url": d.certURL, "transmission_id": d.id,
		"transmission_sig": d.sigText, "transmission_time": d.stamp, "webhook_id": hookID,
	})
	if err != nil {
		return provider.SignatureInvalid
	}
	body := slices.Concat(head[:len(head)-1], []byte(`,"webhook_event":`), raw, []byte("}"))
	h := header(tok.text)
	h.Set("Content-Type", "application/json")
	ex := a.caller.AskOnce(ctx, provider.Call{Method: http.MethodPost, Path: "v1/notifications/verify-webhook-signature", Header: h, Body: body})
	if ex.Status == http.StatusUnauthorized {
		a.tokens.drop(tok)
	}
	return readVerdict(ex)
}

func readVerdict(ex provider.Exchange) string {
	var answer struct {
		Status string `json:"verification_status"`
	}
	switch {
	case ex.Err != nil || ex.Status == http.StatusTooManyRequests || ex.Status >= 500,
		ex.Status == http.StatusUnauthorized, ex.Status == http.StatusForbidden:
		return provider.SignatureUnchecked
	case ex.Status != http.StatusOK: // 400, 422: what we passed on is not what PayPal signs
		return provider.SignatureInvalid
	case json.Unmarshal(ex.Body, &answer) != nil:
		return provider.SignatureUnchecked
	case answer.Status == "SUCCESS":
		return provider.SignatureValid
	}
	return provider.SignatureInvalid
}

// captureEvents, orderEvents and authorizationEvents are the events about a charge,
// refundEvents those about a refund, with the outcomes each may announce.
var (
	captureEvents = map[string][]provider.Outcome{
		"PAYMENT.CAPTURE.COMPLETED": {provider.Succeeded},
		"PAYMENT.CAPTURE.PENDING":   {provider.Processing},
		"PAYMENT.CAPTURE.DECLINED":  {provider.Failed},
		"PAYMENT.CAPTURE.DENIED":    {provider.Failed},
	}
	orderEvents = map[string][]provider.Outcome{
		"CHECKOUT.ORDER.APPROVED":  {provider.Processing, provider.Succeeded},
		"CHECKOUT.ORDER.COMPLETED": {provider.Succeeded, provider.Processing, provider.Failed},
	}
	authorizationEvents = map[string][]provider.Outcome{
		"PAYMENT.AUTHORIZATION.CREATED": {provider.Processing},
		"PAYMENT.AUTHORIZATION.VOIDED":  {provider.Failed},
	}
	refundEvents = map[string][]provider.Outcome{
		"PAYMENT.CAPTURE.REFUNDED": {provider.Succeeded, provider.Processing},
		"PAYMENT.REFUND.PENDING":   {provider.Processing},
		"PAYMENT.REFUND.FAILED":    {provider.Failed},
	}
)

var (
	errEvent  = errors.New("event without an id or type")
	errObject = errors.New("event about a charge of ours without a usable id")
)

// Parse implements provider.Adapter. PayPal's event id is unique, so it is the key.
func (a *Adapter) Parse(raw []byte) ([]provider.Event, error) {
	var e struct {
		ID       string          `json:"id"`
		Type     string          `json:"event_type"`
		Created  stamp           `json:"create_time"`
		Resource json.RawMessage `json:"resource"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, err
	}
	if e.ID == "" || len(e.ID) > maxID || e.Type == "" || len(e.Type) > maxID {
		return nil, errEvent
	}
	out := provider.Event{Key: e.ID, Type: e.Type, OccurredAt: e.Created.Time}
	if disputeEvents[e.Type] {
		var err error
		out.Object, err = readDispute(e.Resource)
		out.Interesting = err == nil
		return []provider.Event{out}, err
	}
	o, announced, err := readResource(e.Type, e.Resource)
	if err != nil {
		return nil, err
	}
	switch {
	case announced == nil, o.ID == "" && o.Reference == "": // not about a charge, or not about an order
		return []provider.Event{out}, nil
	case o.ID == "":
		return nil, errObject
	}
	if !slices.Contains(announced, o.Outcome) {
		o.Outcome = "" // type and resource contradict each other: for a lookup or a person
	}
	out.Interesting, out.Object = true, o
	return []provider.Event{out}, nil
}

// readResource reads what an event is about. announced is nil for other events.
func readResource(kind string, raw json.RawMessage) (o provider.Object, announced []provider.Outcome, err error) {
	if list, ok := captureEvents[kind]; ok {
		c, err := decodeCapture(raw)
		if err == nil && c.ofHold() && captureOutcomes[c.Status] == provider.Failed {
			return c.refused(raw), list, err // of the capture alone: the charge is as it was
		}
		return c.object(raw), list, err
	}
	if list, ok := authorizationEvents[kind]; ok {
		h, err := decodeAuthorization(raw)
		return h.object(raw), list, err
	}
	if list, ok := orderEvents[kind]; ok {
		ord, err := decodeOrder(raw)
		return ord.object(raw), list, err
	}
	if list, ok := refundEvents[kind]; ok {
		r, err := decodeRefund(raw)
		return r.object(raw, ""), list, err
	}
	return provider.Object{}, nil, nil
}
