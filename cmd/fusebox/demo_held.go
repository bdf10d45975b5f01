package main

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Held payments of the demo: about one in holdEvery is only authorised. Some payments
// later its shop captures it, whole or in part, or lets it go.
const (
	holdEvery = 10
	holdAfter = 6 // held payments later
)

func (t *traffic) keepHeld(p charged) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held = append(t.held, p)
}

// drawHeld takes the oldest held payment once there are enough younger ones.
func (t *traffic) drawHeld() (p charged, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.held) < holdAfter {
		return charged{}, false
	}
	p, t.held = t.held[0], t.held[1:]
	return p, true
}

// decide captures or voids a held payment, or keeps it for later: its charge may still be
// on its way, and a capture that failed leaves the money held.
func (t *traffic) decide(ctx context.Context, p charged) {
	done, err := t.ask(ctx, p)
	if err != nil {
		t.log.Warn("demo traffic", "error", err)
	}
	if !done {
		t.keepHeld(p)
	}
}

// ask reports done when the payment is decided. A client that looks before it asks: while
// a capture or void is under way nothing can be captured.
func (t *traffic) ask(ctx context.Context, p charged) (done bool, err error) {
	var now struct{ Status string }
	if err := t.get(ctx, "/api/v1/payments/"+p.id, &now); err != nil {
		return false, err
	}
	if now.Status == "succeeded" || now.Status == "failed" {
		return true, nil
	}
	var held struct{ Capturable int64 }
	if err := t.get(ctx, "/api/v1/payments/"+p.id+"/captures", &held); err != nil || held.Capturable == 0 {
		return false, err
	}
	action, body := t.drawAction(held.Capturable)
	return false, t.post(ctx, "/api/v1/payments/"+p.id+"/"+action, uuid.NewString(), body, nil)
}

// drawAction picks what becomes of held money: half of it is captured whole, the rest in
// part, or let go.
func (t *traffic) drawAction(held int64) (action string, body map[string]any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	body = map[string]any{"expected_capturable": held}
	switch t.rng.IntN(4) {
	case 0:
		body["reason"] = "The shop ran out of it."
		return "void", body
	case 1:
		body["amount"], body["reason"] = (held+1)/2, "One of two was sent."
	default:
		body["reason"] = "The parcel left."
	}
	return "capture", body
}

// decideAll decides every payment that is still held, until none is or ctx ends.
func (t *traffic) decideAll(ctx context.Context) {
	for sleep(ctx, 500*time.Millisecond) {
		t.mu.Lock()
		held := t.held
		t.held = nil
		t.mu.Unlock()
		if len(held) == 0 {
			return
		}
		for _, p := range held {
			if ctx.Err() == nil {
				t.decide(ctx, p)
			}
		}
	}
}
