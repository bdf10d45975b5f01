package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
)

// traffic creates payments through the public API, as an integrator would.
type traffic struct {
	url    string // of the console's server
	apiKey string
	names  []string // providers, drawn evenly
	client *http.Client
	log    *slog.Logger

	mu      sync.Mutex
	rng     *rand.Rand
	wallets []string
	orders  int
	paid    []charged // payments to give back, the oldest first

	holds map[string]bool // providers that hold money until it is captured
	held  []charged       // payments whose money is only held, the oldest first
}

// charged is a payment that was asked for; whether it was paid is looked up later.
type charged struct {
	id     string
	amount int64
}

func newTraffic(url, apiKey string, names []string, seed uint64, log *slog.Logger) *traffic {
	return &traffic{
		url: url, apiKey: apiKey, names: names, log: log,
		client: &http.Client{Timeout: 10 * time.Second},
		rng:    rand.New(rand.NewPCG(seed, 1)),
	}
}

var demoGoods = []struct {
	name   string
	amount int64
	money  string
}{
	{"Field notebook", 1490, "EUR"}, {"Desk lamp", 4900, "EUR"}, {"Mechanical keyboard", 12900, "EUR"},
	{"Concert ticket", 7350, "GBP"}, {"Train pass, monthly", 8600, "GBP"}, {"Coffee, 1 kg", 2250, "USD"},
	{"Running shoes", 13999, "USD"}, {"Tea set", 6800, "JPY"}, {"Rain jacket", 18900, "EUR"}, {"Gift card", 5000, "EUR"},
}

var demoPeople = []string{"Ana Ruiz", "Oksana Bondar", "Luc Martin", "Priya Nair", "Tom Becker", "Maja Lind", "Kenji Mori", "Iryna Koval"}

// openWallets makes a few wallets that top-ups go to.
func (t *traffic) openWallets(ctx context.Context) error {
	for _, owner := range demoPeople[:4] {
		var w struct{ ID string }
		body := map[string]any{"owner_ref": "customer:" + owner, "currency": "EUR"}
		if err := t.post(ctx, "/api/v1/wallets", uuid.NewString(), body, &w); err != nil {
			return fmt.Errorf("opening a wallet: %w", err)
		}
		t.wallets = append(t.wallets, w.ID)
	}
	return nil
}

// run creates about perSecond payments a second until ctx ends, each from a
// goroutine of its own so that a slow answer delays no other.
func (t *traffic) run(ctx context.Context, perSecond float64) {
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			body, repeats := t.draw()
			wg.Go(func() { t.create(context.WithoutCancel(ctx), body, repeats) })
			if p, ok := t.drawHeld(); ok {
				wg.Go(func() { t.decide(context.WithoutCancel(ctx), p) })
			}
			if p, part, ok := t.drawRefund(); ok {
				wg.Go(func() { t.giveBack(context.WithoutCancel(ctx), p, part) })
			}
		}
	}
}

// draw makes the next payment; repeats is how many clients send it at once.
func (t *traffic) draw() (body map[string]any, repeats int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.orders++
	goods := demoGoods[t.rng.IntN(len(demoGoods))]
	person := demoPeople[t.rng.IntN(len(demoPeople))]
	body = map[string]any{
		"order_ref": fmt.Sprintf("W-%05d", 10000+t.orders),
		"provider":  t.names[t.orders%len(t.names)],
		"amount":    goods.amount, "currency": goods.money, "description": goods.name,
		"customer": map[string]string{"name": person},
	}
	if goods.money == "EUR" && len(t.wallets) > 0 && t.rng.IntN(4) == 0 {
		body["wallet_id"] = t.wallets[t.rng.IntN(len(t.wallets))]
		body["description"] = "Wallet top-up"
	}
	if t.holds[body["provider"].(string)] && t.rng.IntN(holdEvery) == 0 {
		body["capture"] = "manual"
	}
	repeats = 1
	if t.rng.IntN(12) == 0 {
		repeats = 3 // an impatient client: the same intent three times at once
	}
	return body, repeats
}

func (t *traffic) create(ctx context.Context, body map[string]any, repeats int) {
	key := uuid.NewString()
	var wg sync.WaitGroup
	var made struct {
		ID     string
		Amount int64
	}
	for i := range repeats {
		wg.Go(func() {
			into := any(nil)
			if i == 0 {
				into = &made
			}
			if err := t.post(ctx, "/api/v1/payments", key, body, into); err != nil {
				t.log.Warn("demo traffic", "error", err)
			}
		})
	}
	wg.Wait()
	switch {
	case made.ID == "":
	case body["capture"] != nil:
		t.keepHeld(charged{made.ID, made.Amount})
	default:
		t.remember(charged{made.ID, made.Amount})
	}
}

// Refunds of the demo: about one payment in refundEvery, some time after it was made,
// half of them in part. The rest of a payment that was given back in part stays.
const (
	refundEvery = 12
	refundAfter = 40 // payments later
)

func (t *traffic) remember(p charged) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paid = append(t.paid, p)
}

// drawRefund picks a payment to give back, now and then; part is how much of it, 0 for
// all that is refundable.
func (t *traffic) drawRefund() (p charged, part int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.paid) < refundAfter {
		return charged{}, 0, false
	}
	p, t.paid = t.paid[0], t.paid[1:]
	if t.rng.IntN(2) == 0 {
		part = p.amount / 3
	}
	return p, part, t.rng.IntN(refundEvery) == 0
}

// giveBack refunds a payment if it was paid: a client that looks before it asks.
func (t *traffic) giveBack(ctx context.Context, p charged, part int64) {
	var now struct {
		Status     string
		Refundable int64
	}
	if err := t.get(ctx, "/api/v1/payments/"+p.id, &now); err != nil {
		t.log.Warn("demo traffic", "error", err)
		return
	}
	if now.Status != "succeeded" || now.Refundable == 0 {
		return // unknown, or declined: nothing to give back for sure
	}
	body := map[string]any{"reason": "The customer sent it back.", "expected_refundable": now.Refundable}
	if part > 0 {
		body["amount"] = part
	}
	if err := t.post(ctx, "/api/v1/payments/"+p.id+"/refunds", uuid.NewString(), body, nil); err != nil {
		t.log.Warn("demo traffic", "error", err)
	}
}

func (t *traffic) post(ctx context.Context, path, key string, body, into any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	return t.do(req, into)
}

func (t *traffic) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url+path, nil)
	if err != nil {
		return err
	}
	return t.do(req, into)
}

func (t *traffic) do(req *http.Request, into any) error {
	req.Header.Set("Authorization", "Bearer "+t.apiKey)
	resp, err := t.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", req.Method, req.URL.Path, resp.Status, answer)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}
