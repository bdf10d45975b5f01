package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ChargeOptions of Charge.
type ChargeOptions struct {
	DatabaseURL string // of an empty database; empty: a private, durable server
	RedisURL    string // empty: a private redis-server
	Clients     int    // callers at a time, and connections of floor and peer
	Payments    int    // in one turn of one arm
	Rounds      int
	Load        int           // payments that are there before, with their timelines and webhooks; 0: none
	Grow        int           // payments of a second database that is measured beside the first; 0: none
	CommitDelay time.Duration // makes every flush of the private server's log take that much longer; 0: as the disk is
	Alone       bool          // without floor and peer, to see where Fusebox's own time goes
	JSON        bool
	Progress    io.Writer
	// Start starts Fusebox on these stores, in processes of its own, with a provider
	// that answers at once in another.
	Start func(ctx context.Context, databaseURL, redisURL string) (Charger, error)
}

// Charger is a running Fusebox.
type Charger struct {
	Pool     *pgxpool.Pool // a connection of the benchmark's own to its database
	URL      string
	APIKey   string
	Provider string
	Second   string // a second provider, paid in turn with the first; empty: none
	Email    string // of somebody who may see the console
	Password string
	Close    func()
}

// ChargeReport is what Charge measured. Rates are payments per second, from the first
// request to the last payment settled; medians over the rounds.
type ChargeReport struct {
	Postgres string            `json:"postgres"`
	CPUs     int               `json:"cpus"`
	Go       string            `json:"go"`
	Clients  int               `json:"clients"`
	Rounds   int               `json:"rounds"`
	Before   int               `json:"payments_before"`
	Delay    float64           `json:"commit_delay_ms,omitempty"` // added to what the disk takes
	Arms     map[string]Charge `json:"arms"`

	RatioVsFloor      float64 `json:"ratio_vs_floor,omitempty"`
	RatioVsPlainRiver float64 `json:"ratio_vs_plain_river,omitempty"`
	AcceptVsFloor     float64 `json:"p99_accept_vs_floor_commit,omitempty"` // lower is better

	Growth      *Growth `json:"growth,omitempty"`
	Ratio10mVs0 float64 `json:"ratio_10m_vs_0,omitempty"` // with ten million payments in Growth
}

// Charge is one arm's figures.
type Charge struct {
	PerS      float64   `json:"payments_per_s"`
	EachRound []float64 `json:"each_round"`
	AcceptP50 float64   `json:"accept_p50_ms"` // floor and peer: their first commit
	AcceptP99 float64   `json:"accept_p99_ms"`
}

// chargeArm settles n payments with that many clients.
type chargeArm struct {
	name  string
	run   func(ctx context.Context, clients, n int, accept *histogram) error
	close func()
}

// RunCharge measures a payment's way from the API to its settled row against its floor,
// two committed statements on the same server, and its peer, River used plainly.
func RunCharge(ctx context.Context, o ChargeOptions, out io.Writer) error {
	if o.Clients < 1 || o.Payments < o.Clients || o.Rounds < 1 || o.Load < 0 || o.Grow < 0 || o.Grow > 0 && o.Grow < 1000 {
		return errors.New("--clients and --rounds: must be positive; --payments: at least one for each client; --grow: at least 1000")
	}
	r, err := o.measure(ctx)
	if err != nil {
		return err
	}
	if o.JSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return r.print(out)
}

func (o ChargeOptions) say(format string, a ...any) {
	if o.Progress != nil {
		fmt.Fprintf(o.Progress, format+"\n", a...)
	}
}

func (o ChargeOptions) measure(ctx context.Context) (r ChargeReport, err error) {
	r = ChargeReport{CPUs: runtime.NumCPU(), Go: runtime.Version(), Clients: o.Clients, Rounds: o.Rounds, Before: o.Load, Delay: ms(o.CommitDelay), Arms: map[string]Charge{}}
	stop, err := o.openStores(ctx)
	if err != nil {
		return r, err
	}
	defer stop()
	fusebox, err := o.Start(ctx, o.DatabaseURL, o.RedisURL)
	if err != nil {
		return r, err
	}
	defer fusebox.Close()
	if err := fusebox.Pool.QueryRow(ctx, `SHOW server_version`).Scan(&r.Postgres); err != nil {
		return r, err
	}
	if o.Load > 0 {
		b := books{payments: o.Load, events: 3, webhooks: o.Load, now: time.Now()}
		if err := b.load(ctx, fusebox.Pool, o.say); err != nil {
			return r, err
		}
	}
	arms, err := o.arms(ctx, fusebox)
	if err != nil {
		return r, err
	}
	defer func() {
		for _, a := range arms {
			a.close()
		}
	}()
	if err := o.turns(ctx, arms, &r); err != nil {
		return r, err
	}
	if ours, floor, peer := r.Arms["ours"], r.Arms["floor"], r.Arms["plain_river"]; !o.Alone {
		r.RatioVsFloor, r.RatioVsPlainRiver = ours.PerS/floor.PerS, ours.PerS/peer.PerS
		r.AcceptVsFloor = ours.AcceptP99 / floor.AcceptP99
	}
	if o.Grow > 0 {
		g, err := o.grow(ctx, fusebox)
		if err != nil {
			return r, err
		}
		if r.Growth = &g; o.Grow == 10_000_000 {
			r.Ratio10mVs0 = g.Ratio
		}
	}
	return r, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// turns lets every arm have a turn in each round, in changing order, after one that
// warms and does not count.
func (o ChargeOptions) turns(ctx context.Context, arms []chargeArm, r *ChargeReport) error {
	rates, accepts := map[string][]float64{}, map[string]*histogram{}
	for round := range o.Rounds + 1 {
		for i := range arms {
			a := arms[(i+round)%len(arms)]
			n, accept := o.Payments, &histogram{}
			if round == 0 {
				n = o.Clients
			}
			began := time.Now()
			if err := a.run(ctx, o.Clients, n, accept); err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
			rate := float64(n) / time.Since(began).Seconds()
			if round == 0 {
				continue
			}
			o.say("round %d: %s %.0f payments/s", round, a.name, rate)
			rates[a.name] = append(rates[a.name], rate)
			if accepts[a.name] == nil {
				accepts[a.name] = &histogram{}
			}
			accepts[a.name].merge(accept)
		}
	}
	for name, each := range rates {
		sorted := slices.Sorted(slices.Values(each))
		r.Arms[name] = Charge{PerS: sorted[len(sorted)/2], EachRound: each, AcceptP50: ms(accepts[name].quantile(0.5)), AcceptP99: ms(accepts[name].quantile(0.99))}
	}
	return nil
}

func (o ChargeOptions) arms(ctx context.Context, fusebox Charger) (arms []chargeArm, err error) {
	if o.Alone {
		return []chargeArm{ourCharges(fusebox, o.Clients)}, nil
	}
	floor, err := floorCharges(ctx, o.DatabaseURL, o.Clients)
	if err != nil {
		return nil, err
	}
	peer, err := plainRiver(ctx, o.DatabaseURL, o.Clients)
	if err != nil {
		floor.close()
		return nil, err
	}
	return []chargeArm{floor, ourCharges(fusebox, o.Clients), peer}, nil
}

// spread calls fn n times from that many goroutines.
func spread(clients, n int, fn func(client int) error) error {
	var wg sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, clients)
	for c := range clients {
		wg.Go(func() {
			for next.Add(1) <= int64(n) && errs[c] == nil {
				errs[c] = fn(c)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// ourCharges asks the API for payments and waits until all of them have succeeded.
func ourCharges(f Charger, clients int) chargeArm {
	var posters []*poster
	hangUp := func() {
		for _, p := range posters {
			p.close()
		}
	}
	seq := &atomic.Int64{}
	// Not in decimal: as many digits in a row could be a card's number, which the log masks.
	prefix := "bench-" + strconv.FormatInt(time.Now().UnixNano(), 36) + "-"
	run := func(ctx context.Context, clients, n int, accept *histogram) error {
		var mu sync.Mutex
		first, err := uuid.NewV7() // the turn's payments have later ones
		if err != nil {
			return err
		}
		time.Sleep(2 * time.Millisecond) // version 7 counts milliseconds
		for len(posters) < clients {
			p, err := newPoster(ctx, f.URL+"/api/v1/payments")
			if err != nil {
				return err
			}
			posters = append(posters, p)
		}
		post := func(client int) error {
			began := time.Now()
			n := seq.Add(1)
			key := prefix + strconv.FormatInt(n, 10)
			body := newPayment(f.paid()[int(n)%len(f.paid())], key)
			if err := posters[client].post(body, "Authorization", "Bearer "+f.APIKey, "Idempotency-Key", key); err != nil {
				return err
			}
			took := time.Since(began)
			mu.Lock()
			accept.add(took)
			mu.Unlock()
			return nil
		}
		if err := spread(clients, n, post); err != nil {
			return err
		}
		return f.settled(ctx, first, n)
	}
	return chargeArm{"ours", run, hangUp}
}

// paid are the providers that ours pays at.
func (f Charger) paid() []string {
	if f.Second == "" {
		return []string{f.Provider}
	}
	return []string{f.Provider, f.Second}
}

// pay makes one payment through the API, for an order of its own.
func (f Charger) pay(ctx context.Context, client *http.Client, key string) error {
	return f.payAt(ctx, client, f.Provider, key)
}

// newPayment is the body of a request for one.
func newPayment(provider, order string) []byte {
	return fmt.Appendf(nil, `{"provider":%q,"amount":4900,"currency":"EUR","order_ref":%q}`, provider, order)
}

func (f Charger) payAt(ctx context.Context, client *http.Client, provider, key string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.URL+"/api/v1/payments", bytes.NewReader(newPayment(provider, key)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+f.APIKey)
	req.Header.Set("Idempotency-Key", key)
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 4096))
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("a payment was answered %s: %s", res.Status, answer)
	}
	return err
}

// settled waits until n of the charger's payments made after that id have succeeded.
func (f Charger) settled(ctx context.Context, first uuid.UUID, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	// The questions must not take the processor from what they measure: first about the
	// payment that was made last, by its id; then about any, by the index of open payments.
	for _, question := range []string{
		`SELECT status <> 'succeeded' AND id > $1 AND provider = ANY($2) FROM payments ORDER BY id DESC LIMIT 1`,
		`SELECT EXISTS (SELECT FROM payments WHERE status IN ('pending', 'processing', 'requires_action', 'unknown')
			AND next_check_at IS NOT NULL AND id > $1 AND provider = ANY($2))`,
	} {
		for open := true; open; {
			if err := f.Pool.QueryRow(ctx, question, first, f.paid()).Scan(&open); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return errors.New("not all payments were settled in time")
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	var done int
	if err := f.Pool.QueryRow(ctx, `SELECT count(*) FROM payments WHERE id > $1 AND provider = ANY($2) AND status = 'succeeded'`, first, f.paid()).Scan(&done); err != nil {
		return err
	}
	if done != n {
		return fmt.Errorf("%d payments did not succeed", n-done)
	}
	return nil
}

func (r ChargeReport) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "PostgreSQL %s, %d CPUs, %s; %d clients, %d payments there before, median of %d rounds\n",
		r.Postgres, r.CPUs, r.Go, r.Clients, r.Before, r.Rounds)
	if r.Delay > 0 {
		fmt.Fprintf(w, "every commit is delayed by %.0f ms, as by a slower disk\n", r.Delay)
	}
	fmt.Fprintf(w, "\tpayments/s\taccept p50 ms\tp99 ms\t\n")
	for _, name := range []string{"floor", "plain_river", "ours"} {
		a, measured := r.Arms[name]
		if !measured {
			continue
		}
		fmt.Fprintf(w, "%s\t%.0f\t%.2f\t%.2f\t\n", name, a.PerS, a.AcceptP50, a.AcceptP99)
	}
	if r.RatioVsFloor > 0 {
		fmt.Fprintf(w, "ours / floor %.2f, ours / plain River %.2f, accept p99 / floor's commit %.2f\t\n",
			r.RatioVsFloor, r.RatioVsPlainRiver, r.AcceptVsFloor)
	}
	if g := r.Growth; g != nil {
		fmt.Fprintf(w, "with %d payments there: %.0f payments/s, without: %.0f, ratio %.2f\t\n", g.Payments, g.PerS, g.PerSAt0, g.Ratio)
		fmt.Fprintf(w, "overview's first byte, p50 and p95: %.1f and %.1f ms, without: %.1f and %.1f ms\t\n",
			g.Overview.P50, g.Overview.P95, g.OverviewAt0.P50, g.OverviewAt0.P95)
	}
	return w.Flush()
}
