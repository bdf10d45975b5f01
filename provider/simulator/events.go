package simulator

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Event types of the contract, and one that is none of its business.
const (
	eventSucceeded      = "payment.succeeded"
	eventFailed         = "payment.failed"
	eventProcessing     = "payment.processing"
	eventRequiresAction = "payment.requires_action"
	eventHeld           = "payment.authorised"
	eventUnrelated      = "balance.updated"
	eventRefund         = "refund.updated"
	eventRefunded       = "charge.refunded"
)

// heldFor is the longest an out-of-order event waits for the final one.
const heldFor = 10 * time.Second

// eventType names the event that tells a status.
func eventType(status string) string {
	switch status {
	case StatusSucceeded:
		return eventSucceeded
	case StatusProcessing:
		return eventProcessing
	case StatusRequiresAction:
		return eventRequiresAction
	case StatusHeld:
		return eventHeld
	default:
		return eventFailed
	}
}

// firstEvents makes the events about a charge that was just made.
func (s *Server) firstEvents(c Charge, f Faults, now time.Time) []event {
	out := s.newEvents(c, f, now)
	if s.notifies() && s.eventFault(f, WebhookOutOfOrder, c) {
		out = s.disordered(out, c, f.Timing, now)
	}
	return out
}

// newEvents makes the events about a charge in its present status, with the
// delivery faults drawn for them. Without a destination there are none, except those
// that can be asked for.
func (s *Server) newEvents(c Charge, f Faults, now time.Time) []event {
	var out []event
	switch unsent := !s.notifies() || s.eventFault(f, WebhookMissing, c); {
	case !unsent:
		ev := s.newEvent("", c, f.Timing, now)
		out = append(out, s.spoiled(ev, c, f))
	case faceOf(c.Face).keepsEvents():
		ev := s.newEvent("", c, f.Timing, now)
		ev.Unsent = true
		out = append(out, ev)
	}
	if s.notifies() && s.eventFault(f, WebhookUnrelated, c) {
		out = append(out, s.unrelated(c.Face, now))
	}
	return out
}

// notifies reports whether there is anyone to tell.
func (s *Server) notifies() bool {
	to, _ := s.events.target()
	return to != ""
}

// eventFault reports whether a fault hits the event of the charge's present
// status, and counts it.
func (s *Server) eventFault(f Faults, name Fault, c Charge) bool {
	hit := f.happens(s.opts.Seed, name, c.subject(), c.Status, 1)
	if hit {
		s.tally.fault(name)
	}
	return hit
}

// spoiled gives an event the faults of its delivery.
func (s *Server) spoiled(ev event, c Charge, f Faults) event {
	happens := func(name Fault) bool { return s.eventFault(f, name, c) }
	times := func(name Fault, habit int) int {
		if !happens(name) {
			return 0
		}
		if n := picksOf(c.OrderRef, c.subject().amount)[name]; n > 0 {
			return n
		}
		return habit
	}
	if happens(WebhookLate) {
		ev.Due = ev.Due.Add(f.Timing.Late)
	}
	ev.Early = happens(WebhookEarly)
	ev.Copies = times(WebhookDuplicated, 2)
	ev.Parallel = times(WebhookConcurrent, 5)
	ev.BadSigs = times(WebhookBadSignature, 1)
	ev.OldSigs = times(WebhookOldTimestamp, 1)
	return ev
}

// disordered sees to it that payment.processing arrives after the final event:
// an undecided charge's own event waits, a decided charge gets an older one.
func (s *Server) disordered(events []event, c Charge, t Timing, now time.Time) []event {
	if !c.final() {
		for i := range events {
			events[i].Held, events[i].Due = true, events[i].Due.Add(heldFor)
		}
		return events
	}
	before := c
	before.Status, before.Code, before.Message = StatusProcessing, "", ""
	ev := s.newEvent("", before, t, now.Add(-time.Second))
	ev.Held, ev.Due = true, ev.Due.Add(heldFor)
	return append(events, ev)
}

// newEvent renders an event about a charge as it stands; an empty kind is the one that
// belongs to the status.
func (s *Server) newEvent(kind string, c Charge, t Timing, at time.Time) event {
	speak := faceOf(c.Face)
	if kind == "" {
		kind = speak.eventType(c)
	}
	ev := event{ID: newID("evt"), Type: kind, ChargeID: c.ID, Face: c.Face, Due: time.Now().Add(t.Webhook)}
	ev.Body = speak.eventBody(ev, at, c, s.publicURL())
	return ev
}

func (s *Server) unrelated(face string, at time.Time) event {
	ev := event{ID: newID("evt"), Face: face, Due: time.Now()}
	ev.Type, ev.Body = faceOf(face).unrelated(ev, at, s.opts.Name)
	return ev
}

func eventBody(ev event, at time.Time, data any) string {
	body, err := json.Marshal(struct {
		ID        string    `json:"id"`
		Type      string    `json:"type"`
		CreatedAt time.Time `json:"created_at"`
		Live      bool      `json:"live"`
		Data      any       `json:"data"`
	}{ev.ID, ev.Type, at, false, data})
	if err != nil { // only types of ours come here, and all of them marshal
		panic(err)
	}
	return string(body)
}

// publish hands events to the dispatcher and returns, for each early one, a
// channel that closes when its first delivery is over.
func (s *Server) publish(events []event) []<-chan struct{} {
	var early []<-chan struct{}
	for _, ev := range events {
		if ev.Unsent {
			continue
		}
		if tried := s.events.add(ev); ev.Early {
			early = append(early, tried)
		}
	}
	return early
}

// Sign returns the Fusebox-Signature header for a body sent at a time, with one
// v1 per secret.
func Sign(body []byte, at time.Time, secrets ...string) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	parts := []string{"t=" + stamp}
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(stamp + "."))
		mac.Write(body)
		parts = append(parts, "v1="+hex.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(parts, ",")
}
