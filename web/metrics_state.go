package web

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fusebox/breaker"
	"fusebox/store"
)

// How long numbers read from Postgres and Redis serve every scrape, and how long
// reading them may take.
const (
	stateFresh = 10 * time.Second
	stateWait  = 3 * time.Second
)

// stateCollector shows the books and the circuits to Prometheus. All processes show
// the same numbers; take one of them, or the maximum.
type stateCollector struct {
	cfg  Config
	desc struct{ open, settled, oldest, inbox, review, circuit, failures, degraded, up *prometheus.Desc }

	mu     sync.Mutex
	readAt time.Time
	gauges store.Gauges
	ok     bool
}

func newStateCollector(cfg Config) *stateCollector {
	c := &stateCollector{cfg: cfg}
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("fusebox_"+name, help, labels, nil)
	}
	c.desc.open = d("payments_open", "Payments that are not final.", "provider", "status")
	c.desc.settled = d("payments_settled_last_hour", "Payments that became final within the last hour.", "provider", "status")
	c.desc.oldest = d("payments_unknown_oldest_seconds", "Age of the oldest unknown payment.", "provider")
	c.desc.inbox = d("webhook_inbox", "Webhook events stored and not applied.", "provider", "state")
	c.desc.review = d("payments_needing_review", "Payments that need a person.")
	c.desc.circuit = d("circuit_state", "1 for the state a circuit is in, 0 for the others.", "provider", "class", "state")
	c.desc.failures = d("circuit_consecutive_failures", "Failures in a row.", "provider", "class")
	c.desc.degraded = d("breaker_degraded", "1 while Redis is gone and this process decides alone.")
	c.desc.up = d("books_readable", "1 when the books could be read for this scrape.")
	return c
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.desc.open, c.desc.settled, c.desc.oldest, c.desc.inbox, c.desc.review,
		c.desc.circuit, c.desc.failures, c.desc.degraded, c.desc.up} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. What cannot be read is left out, never
// shown as an old number: an alert on absence then fires.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), stateWait)
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(c.desc.degraded, flag(!c.cfg.Breaker.Degraded().IsZero()))
	c.collectCircuits(ctx, gauge)
	g, ok := c.books(ctx)
	gauge(c.desc.up, flag(ok))
	if ok {
		c.collectBooks(g, gauge)
	}
}

func (c *stateCollector) collectBooks(g store.Gauges, gauge func(*prometheus.Desc, float64, ...string)) {
	for _, x := range g.Open {
		gauge(c.desc.open, float64(x.Count), x.Provider, x.Name)
		if !x.Oldest.IsZero() {
			gauge(c.desc.oldest, max(0, c.cfg.Now().Sub(x.Oldest).Seconds()), x.Provider)
		}
	}
	for _, x := range g.Settled {
		gauge(c.desc.settled, float64(x.Count), x.Provider, x.Name)
	}
	for _, x := range g.Inbox {
		gauge(c.desc.inbox, float64(x.Count), x.Provider, x.Name)
	}
	gauge(c.desc.review, float64(g.Review))
}

func (c *stateCollector) collectCircuits(ctx context.Context, gauge func(*prometheus.Desc, float64, ...string)) {
	for _, p := range c.cfg.Providers {
		for _, class := range c.cfg.classesOf(p.Name) {
			snap, err := c.cfg.Breaker.Snapshot(ctx, breaker.Key{Name: p.Name, Class: class})
			if err != nil {
				continue
			}
			for _, state := range []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen} {
				gauge(c.desc.circuit, flag(snap.State == state), p.Name, class, string(state))
			}
			gauge(c.desc.failures, float64(snap.Consecutive), p.Name, class)
		}
	}
}

// books returns the numbers, read at most every stateFresh however many scrape.
func (c *stateCollector) books(ctx context.Context) (store.Gauges, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.cfg.Now()
	if age := now.Sub(c.readAt); c.readAt.IsZero() || age < 0 || age >= stateFresh {
		g, err := c.cfg.Store.Gauges(ctx)
		if err != nil {
			c.cfg.Log.WarnContext(ctx, "metrics: the books could not be read", "error", err)
		}
		c.gauges, c.ok, c.readAt = g, err == nil, now
	}
	return c.gauges, c.ok
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
