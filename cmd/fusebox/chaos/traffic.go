package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// inFlight bounds the clients at a time: more wait for nothing while everything is down.
	inFlight = 192
	drawn    = 4 // most that one draw asks for
)

// traffic is what the business does: payments, what follows from them, and wallets.
type traffic struct {
	w      *world
	client *client
	slots  chan struct{}

	mu       sync.Mutex
	rng      *rand.Rand
	wallets  []string
	orders   int
	paid     []paid            // to give back, the oldest first
	held     []paid            // whose money is only held
	acked    map[string]paid   // payments the API said it has, by id
	moved    map[string]moving // wallet movements the API said it made, by operation id
	skipped  int               // draws for which no client was free
	toStripe int               // payments asked of it
}

// paid is a payment the API accepted.
type paid struct {
	id       string
	amount   int64
	provider string
}

// moving is a movement of a wallet.
type moving struct {
	wallet string
	amount int64 // signed
}

func newTraffic(w *world) *traffic {
	return &traffic{
		w: w, client: newClient(w.apis, w.apiKey), slots: make(chan struct{}, inFlight),
		rng: rand.New(rand.NewPCG(w.o.Seed, 2)), acked: map[string]paid{}, moved: map[string]moving{}, //nolint:gosec // no secret
	}
}

// wallets there are, and what each has in the beginning: refunds of top-ups must not
// fail for want of money, since that takes a person.
const (
	walletCount = 8
	walletStart = 100_000_000
)

func (t *traffic) open(ctx context.Context) error {
	for i := range walletCount {
		var made struct{ ID string }
		body := map[string]any{"owner_ref": fmt.Sprintf("customer:%d", i), "currency": "EUR"}
		if status, err := t.client.ask(ctx, http.MethodPost, "/api/v1/wallets", "", body, &made); err != nil || status/100 != 2 {
			return fmt.Errorf("opening a wallet: %d %w", status, err)
		}
		t.wallets = append(t.wallets, made.ID)
		t.move(ctx, made.ID, "start-"+made.ID, walletStart)
	}
	return nil
}

// run draws what to do until ctx ends, and returns when all of it was answered.
func (t *traffic) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(time.Duration(float64(time.Second) / t.w.o.Rate))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if len(t.slots) > inFlight-drawn {
			t.mu.Lock()
			t.skipped++
			t.mu.Unlock()
			continue
		}
		for _, do := range t.draw() {
			t.slots <- struct{}{}
			wg.Go(func() { defer func() { <-t.slots }(); do(ctx) })
		}
	}
}

// draw is one payment, and sometimes something else beside it.
func (t *traffic) draw() (do []func(context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	body, repeats := t.drawPayment()
	do = append(do, func(ctx context.Context) { t.pay(ctx, body, repeats) })
	if t.rng.IntN(2) == 0 {
		wallet, amount := t.wallets[t.rng.IntN(len(t.wallets))], 1+t.rng.Int64N(500)
		if t.rng.IntN(2) == 0 {
			amount = -amount
		}
		again := t.rng.IntN(4) == 0
		do = append(do, func(ctx context.Context) {
			id := uuid.NewString()
			t.move(ctx, wallet, id, amount)
			if again { // a client that forgot that it had asked
				t.move(ctx, wallet, id, amount)
			}
		})
	}
	if len(t.held) > 20 {
		p := t.held[0]
		t.held = t.held[1:]
		do = append(do, func(ctx context.Context) { t.decide(ctx, p) })
	}
	if len(t.paid) > 60 {
		p, part := t.paid[0], t.rng.IntN(2) == 0
		t.paid = t.paid[1:]
		if t.rng.IntN(5) == 0 {
			do = append(do, func(ctx context.Context) { t.refund(ctx, p, part) })
		}
	}
	return do
}

// stripeMost is how many payments stripe gets in a run: with more of them in the stretch of
// time that a lookup has to read, its adapter cannot read the list to its end, and what
// is not there is left to a person.
const stripeMost = 800

// drawProvider is held by the caller's lock.
func (t *traffic) drawProvider() string {
	switch t.orders % 5 {
	case 0:
		if t.toStripe < stripeMost {
			t.toStripe++
			return "stripe"
		}
	case 1, 2:
		return "nokeys"
	}
	return "steady"
}

// drawPayment is held by the caller's lock.
func (t *traffic) drawPayment() (body map[string]any, repeats int) {
	t.orders++
	name := t.drawProvider()
	body = map[string]any{
		"order_ref": fmt.Sprintf("C-%d-%06d", t.w.o.Seed, t.orders), "provider": name,
		"amount": 100 + t.rng.Int64N(20_000), "currency": "EUR", "description": "Chaos",
	}
	if t.rng.IntN(3) == 0 {
		body["wallet_id"] = t.wallets[t.rng.IntN(len(t.wallets))]
	}
	if name != "nokeys" && !strings.Contains(body["order_ref"].(string), "fault:") && t.rng.IntN(6) == 0 {
		body["capture"] = "manual"
	}
	repeats = 1
	if t.rng.IntN(10) == 0 {
		repeats = 3 // an impatient client: the same intent three times at once
	}
	return body, repeats
}

// pay asks for one payment, from several callers at once if repeats says so. All of them
// must be told the same payment.
func (t *traffic) pay(ctx context.Context, body map[string]any, repeats int) {
	key := uuid.NewString()
	ids := make([]string, repeats)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			var made struct{ ID string }
			// 409: another request with this key is at work on it.
			for range 20 {
				status, err := t.client.ask(ctx, http.MethodPost, "/api/v1/payments", key, body, &made)
				if err == nil && status == http.StatusConflict {
					pause(context.WithoutCancel(ctx), 500*time.Millisecond)
					continue
				}
				if err == nil && status != http.StatusAccepted {
					t.w.finds("a payment was answered with %d", status)
				}
				break
			}
			ids[i] = made.ID
		})
	}
	wg.Wait()
	id := ""
	for _, other := range ids {
		switch {
		case other == "":
		case id == "":
			id = other
		case id != other:
			t.w.finds("one key, two payments: %s and %s", id, other)
		}
	}
	if id == "" {
		return
	}
	t.client.count("payments")
	p := paid{id: id, amount: body["amount"].(int64), provider: body["provider"].(string)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acked[id] = p
	if body["capture"] != nil {
		t.held = append(t.held, p)
	} else {
		t.paid = append(t.paid, p)
	}
}

// move credits or debits a wallet under an operation id.
func (t *traffic) move(ctx context.Context, wallet, operation string, amount int64) {
	verb, size := "credit", amount
	if amount < 0 {
		verb, size = "debit", -amount
	}
	status, err := t.client.ask(ctx, http.MethodPost, "/api/v1/wallets/"+wallet+"/"+verb, "",
		map[string]any{"amount": size, "operation_id": operation}, nil)
	if err != nil || status/100 != 2 {
		if status != 0 && status != http.StatusConflict {
			t.w.finds("a wallet movement was answered with %d", status)
		}
		return
	}
	t.client.count("wallet_" + verb + "s")
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moved[operation] = moving{wallet, amount}
}

// refund gives a payment back, if it was paid: a client that looks before it asks.
func (t *traffic) refund(ctx context.Context, p paid, part bool) {
	var now struct {
		Status     string
		Refundable int64
	}
	status, err := t.client.ask(ctx, http.MethodGet, "/api/v1/payments/"+p.id, "", nil, &now)
	if err != nil || status != http.StatusOK || now.Status != "succeeded" || now.Refundable == 0 {
		return
	}
	body := map[string]any{"reason": "The customer sent it back.", "expected_refundable": now.Refundable}
	if part && p.amount >= 3 {
		body["amount"] = p.amount / 3
	}
	if status, err = t.client.ask(ctx, http.MethodPost, "/api/v1/payments/"+p.id+"/refunds", uuid.NewString(), body, nil); err == nil && status/100 == 2 {
		t.client.count("refunds")
	}
}

// decide captures held money or lets it go; what is not held yet is decided later.
func (t *traffic) decide(ctx context.Context, p paid) {
	if !t.decided(ctx, p) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.held = append(t.held, p)
	}
}

func (t *traffic) decided(ctx context.Context, p paid) bool {
	var now struct{ Status string }
	status, err := t.client.ask(ctx, http.MethodGet, "/api/v1/payments/"+p.id, "", nil, &now)
	if err != nil || status != http.StatusOK {
		return false
	}
	if now.Status == "succeeded" || now.Status == "failed" {
		return true
	}
	var held struct{ Capturable int64 }
	status, err = t.client.ask(ctx, http.MethodGet, "/api/v1/payments/"+p.id+"/captures", "", nil, &held)
	if err != nil || status != http.StatusOK || held.Capturable == 0 {
		return false
	}
	action, body := "capture", map[string]any{"expected_capturable": held.Capturable, "reason": "The parcel left."}
	t.mu.Lock()
	switch t.rng.IntN(4) {
	case 0:
		action, body["reason"] = "void", "Sold out."
	case 1:
		body["amount"] = (held.Capturable + 1) / 2
	}
	t.mu.Unlock()
	if status, err = t.client.ask(ctx, http.MethodPost, "/api/v1/payments/"+p.id+"/"+action, uuid.NewString(), body, nil); err == nil && status/100 == 2 {
		t.client.count(action + "s")
	}
	return false // until it is settled
}

// decideAll decides everything held until nothing is, or ctx ends.
func (t *traffic) decideAll(ctx context.Context) {
	for pause(ctx, 500*time.Millisecond) {
		t.mu.Lock()
		held := t.held
		t.held = nil
		t.mu.Unlock()
		var wg sync.WaitGroup
		slots := make(chan struct{}, 16)
		for _, p := range held {
			slots <- struct{}{}
			wg.Go(func() { defer func() { <-slots }(); t.decide(ctx, p) })
		}
		wg.Wait()
	}
}
