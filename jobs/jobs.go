// Package jobs runs Fusebox's background work on River: charges, lookups, syncs,
// sweeps, webhook application and alerts, each provider in queues of its own.
package jobs

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

// Points of a charge where a test may kill the process, see Config.At.
const (
	PointBeforeMark  = "before_mark"
	PointAfterMark   = "after_mark"
	PointAfterSend   = "after_send"   // request handed to the connection; its last bytes may not have left yet
	PointAfterAnswer = "after_answer" // answer read, outcome not committed
	PointAfterCommit = "after_commit" // outcome committed, job not returned
)

// EventSource delivers breaker transitions; breaker.Redis implements it. Next blocks
// until events after the given position are there, or ctx ends.
type EventSource interface {
	Next(ctx context.Context, after string) (events []breaker.Event, position string, err error)
}

// AlertSink is a place alerts are posted to.
type AlertSink struct {
	Name string // unique, for the delivery log
	Kind string // generic | slack
	URL  string
}

// Config of a Runner.
type Config struct {
	Store     *store.Store
	Registry  *provider.Registry
	Providers []provider.Settings
	Breaker   breaker.Breaker
	Events    EventSource // may be nil
	// Circuits returns the settings in force of a circuit: jobs it denied return at the
	// pace of its ramp. nil: no ramp.
	Circuits func(breaker.Key) breaker.Settings
	Sinks    []AlertSink
	Only     []string // limit the bulkheads this process works; empty: all, and the default queue always
	Worker   string   // name of this process in attempts and evidence, e.g. host:pid
	// SweepEvery, UnknownAged: zero means 1 min, 15 min.
	SweepEvery  time.Duration
	UnknownAged time.Duration
	CallsKept   time.Duration // call_outcomes older than this are pruned (default 14 days)
	Log         *slog.Logger
	Now         func() time.Time
	// At is called at the Point… constants with the payment id; tests kill the process there.
	At func(point, paymentID string)
}

// withDefaults returns c with every zero field set to its default and every
// provider's settings completed.
func (c Config) withDefaults() Config {
	c.SweepEvery = cmp.Or(c.SweepEvery, time.Minute)
	c.UnknownAged = cmp.Or(c.UnknownAged, 15*time.Minute)
	c.CallsKept = cmp.Or(c.CallsKept, 14*24*time.Hour)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Circuits == nil {
		c.Circuits = func(breaker.Key) breaker.Settings { return breaker.Settings{} }
	}
	if c.At == nil {
		c.At = func(string, string) {}
	}
	settings := make([]provider.Settings, len(c.Providers))
	for i, s := range c.Providers {
		settings[i] = s.WithDefaults()
	}
	c.Providers = settings
	return c
}
