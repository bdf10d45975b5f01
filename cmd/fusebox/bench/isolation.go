package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
)

// IsolationOptions of RunIsolation.
type IsolationOptions struct {
	DatabaseURL string // of an empty database; empty: a private, durable server
	RedisURL    string // empty: a private redis-server
	Rounds      int
	Queued      int           // payments that wait at the provider that hangs
	For         time.Duration // length of one turn
	Rate        int           // payments per second at the healthy provider
	JSON        bool
	Progress    io.Writer
	// Start starts Fusebox with a healthy provider, Charger.Provider, and hangs, a second
	// one that takes every connection and never answers.
	Start func(ctx context.Context, databaseURL, redisURL string) (f Charger, hangs string, err error)
}

// IsolationReport is what a provider that hangs does to the charges of another: from the
// row's creation to its settled status, in milliseconds, medians over the rounds.
type IsolationReport struct {
	Postgres string      `json:"postgres"`
	CPUs     int         `json:"cpus"`
	Go       string      `json:"go"`
	Rounds   int         `json:"rounds"`
	Queued   int         `json:"queued"`
	Rate     int         `json:"payments_per_s"`
	Alone    Latency     `json:"alone"`
	Beside   Latency     `json:"beside_hanging"`
	Each     [][]float64 `json:"p99_each_round"` // alone, beside
	P99Ratio float64     `json:"p99_ratio"`
}

// Latency in milliseconds.
type Latency struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
}

// RunIsolation measures the charges of a healthy provider alone and while another one
// hangs with its queue full, in turns.
func RunIsolation(ctx context.Context, o IsolationOptions, out io.Writer) error {
	if o.Rounds < 1 || o.Queued < 1 || o.Rate < 1 || o.For < time.Second {
		return errors.New("--rounds, --queued and --rate: must be positive; --for: at least 1s")
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
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "PostgreSQL %s, %d CPUs, %s; %d payments/s, median of %d rounds\n", r.Postgres, r.CPUs, r.Go, r.Rate, r.Rounds)
	fmt.Fprintf(w, "\tcharge p50 ms\tp99 ms\t\n")
	fmt.Fprintf(w, "alone\t%.1f\t%.1f\t\n", r.Alone.P50, r.Alone.P99)
	fmt.Fprintf(w, "beside a hanging provider with %d queued\t%.1f\t%.1f\t\n", r.Queued, r.Beside.P50, r.Beside.P99)
	fmt.Fprintf(w, "p99 beside / alone %.2f\t\n", r.P99Ratio)
	return w.Flush()
}

func (o IsolationOptions) measure(ctx context.Context) (r IsolationReport, err error) {
	r = IsolationReport{CPUs: runtime.NumCPU(), Go: runtime.Version(), Rounds: o.Rounds, Queued: o.Queued, Rate: o.Rate}
	stop, err := openStores(ctx, &o.DatabaseURL, &o.RedisURL)
	if err != nil {
		return r, err
	}
	defer stop()
	f, hangs, err := o.Start(ctx, o.DatabaseURL, o.RedisURL)
	if err != nil {
		return r, err
	}
	defer f.Close()
	if err := f.Pool.QueryRow(ctx, `SHOW server_version`).Scan(&r.Postgres); err != nil {
		return r, err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}, Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	if _, err := f.steady(ctx, client, o.Rate, time.Second); err != nil { // warms
		return r, err
	}
	var alone, beside []Latency
	for round := range o.Rounds {
		a, err := f.steady(ctx, client, o.Rate, o.For)
		if err != nil {
			return r, err
		}
		if err := f.pile(ctx, client, hangs, o.Queued, round); err != nil {
			return r, err
		}
		b, err := f.steady(ctx, client, o.Rate, o.For)
		if err != nil {
			return r, err
		}
		if err := f.clear(ctx, hangs); err != nil {
			return r, err
		}
		if o.Progress != nil {
			fmt.Fprintf(o.Progress, "round %d: p99 alone %.1f ms, beside %.1f ms\n", round+1, a.P99, b.P99)
		}
		alone, beside = append(alone, a), append(beside, b)
		r.Each = append(r.Each, []float64{a.P99, b.P99})
	}
	middle := func(list []Latency, of func(Latency) float64) float64 {
		var v []float64
		for _, l := range list {
			v = append(v, of(l))
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	p50, p99 := func(l Latency) float64 { return l.P50 }, func(l Latency) float64 { return l.P99 }
	r.Alone, r.Beside = Latency{middle(alone, p50), middle(alone, p99)}, Latency{middle(beside, p50), middle(beside, p99)}
	r.P99Ratio = r.Beside.P99 / r.Alone.P99
	return r, nil
}

// steady makes payments at a steady rate, whatever becomes of those before, and returns
// how long their charges took.
func (f Charger) steady(ctx context.Context, client *http.Client, rate int, d time.Duration) (l Latency, err error) {
	first, err := uuid.NewV7() // the turn's payments have later ones
	if err != nil {
		return l, err
	}
	time.Sleep(2 * time.Millisecond) // version 7 counts milliseconds
	n := int(d.Seconds() * float64(rate))
	errs := make(chan error, n)
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for i := range n {
		<-tick.C
		go func() { errs <- f.pay(ctx, client, fmt.Sprintf("steady-%s-%d", first, i)) }()
	}
	for range n {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		return l, err
	}
	if err := f.settled(ctx, first, n); err != nil {
		return l, err
	}
	err = f.Pool.QueryRow(ctx, `SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY ms), percentile_cont(0.99) WITHIN GROUP (ORDER BY ms)
		FROM (SELECT extract(epoch FROM settled_at - created_at)::float8 * 1000 AS ms FROM payments
			WHERE id > $1 AND provider = $2 AND status = 'succeeded') x`, first, f.Provider).Scan(&l.P50, &l.P99)
	return l, err
}

// pile queues payments at the provider that hangs.
func (f Charger) pile(ctx context.Context, client *http.Client, hangs string, n, round int) error {
	f.Provider = hangs
	keys := make(chan string, n)
	for i := range n {
		keys <- fmt.Sprintf("pile-%d-%d", round, i)
	}
	if err := spread(16, n, func(int) error { return f.pay(ctx, client, <-keys) }); err != nil {
		return err
	}
	time.Sleep(500 * time.Millisecond) // let its workers take what they can
	return nil
}

// clear takes the jobs of the provider that hangs away, and waits for those that run.
func (f Charger) clear(ctx context.Context, hangs string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err := f.Pool.Exec(ctx, `DELETE FROM river_job WHERE args->>'provider' = $1 AND state <> 'running'`, hangs)
		if err != nil {
			return err
		}
		var left int
		err = f.Pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE args->>'provider' = $1`, hangs).Scan(&left)
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New("the jobs of the hanging provider did not end")
		case <-time.After(100 * time.Millisecond):
		}
	}
}
