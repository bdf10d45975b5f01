package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"fusebox/provider"
	"fusebox/provider/simulator"
)

// demoProvider is one simulated provider: what it is like, and how Fusebox is
// configured for it.
type demoProvider struct {
	name   string
	kind   string // adapter; default gateway
	faults simulator.Faults
	// noKeys and noStatusAPI are what the provider lacks.
	noKeys, noStatusAPI bool
	sim                 *simulator.Server
	settings            provider.Settings
}

// demoProviders are the six the demo runs. Their names say what to expect.
func demoProviders() []*demoProvider {
	flaky := simulator.Settling()
	flaky.Timing = demoTiming()
	return []*demoProvider{
		{name: "steady", faults: timed(simulator.Healthy())},
		{name: "flaky", faults: flaky},
		{name: "outage", faults: timed(simulator.Healthy())},
		// The same faults through Stripe's API and its adapter.
		{name: "stripe", kind: "stripe", faults: flaky},
		// Without keys nothing may be resent before a lookup by reference.
		{name: "nokeys", noKeys: true, faults: timed(simulator.Healthy().
			With(simulator.ChargedThenCut, 0.05).With(simulator.ChargedThen502, 0.05).
			With(simulator.Hang, 0.02).With(simulator.WebhookDuplicated, 0.1).With(simulator.Decline, 0.05))},
		// Without a status API only the provider's event settles an unknown payment, so
		// its events may be late here, not missing.
		{name: "nostatus", noStatusAPI: true, faults: timed(simulator.Healthy().
			With(simulator.ChargedThenCut, 0.06).With(simulator.ChargedThen502, 0.06).
			With(simulator.WebhookLate, 0.2).With(simulator.WebhookConcurrent, 0.1).With(simulator.Decline, 0.05))},
	}
}

func timed(f simulator.Faults) simulator.Faults {
	f.Timing = demoTiming()
	return f
}

// demoTiming squeezes the faults' durations so that 45 seconds show all of them.
// They fit demoSettings: an absence counts only after the slowest charge is visible.
func demoTiming() simulator.Timing {
	return simulator.Timing{
		Silent: 8 * time.Second, Slow: 900 * time.Millisecond, Drip: 120 * time.Millisecond,
		InProgress: 2500 * time.Millisecond, RetryAfter: time.Second,
		Async: 1500 * time.Millisecond, Action: 5 * time.Second, Late: 2 * time.Second,
		Lag: 1500 * time.Millisecond, NotFound: 1500 * time.Millisecond,
	}
}

// start runs the provider on listeners of its own.
func (p *demoProvider) start(ctx context.Context, dir, webhookURL string, seed uint64, log *slog.Logger) error {
	apiKey, secret := "sk_test_"+randomSecret(), randomSecret() // as Stripe's look; the others take any
	sim, err := simulator.Start(ctx, simulator.Options{
		Name: p.name, Listen: "127.0.0.1:0", ControlListen: "127.0.0.1:0",
		LedgerPath: filepath.Join(dir, p.name+".jsonl"), APIKey: apiKey,
		WebhookURL: webhookURL, WebhookSecrets: []string{secret},
		Seed: seed, NoKeys: p.noKeys, NoStatusAPI: p.noStatusAPI, Faults: p.faults, Log: log,
	})
	if err != nil {
		return fmt.Errorf("simulator %s: %w", p.name, err)
	}
	p.sim = sim
	p.settings = p.demoSettings(sim, apiKey, secret)
	return nil
}

// demoSettings has the pace of a demo: seconds where production has minutes.
func (p *demoProvider) demoSettings(sim *simulator.Server, apiKey, secret string) provider.Settings {
	s := provider.Settings{
		Name: p.name, Kind: cmp.Or(p.kind, "gateway"), BaseURL: sim.URL(), APIKey: apiKey,
		WebhookSecrets: []string{secret}, LedgerURL: sim.ControlURL() + "/_sim/ledger",
		NoKeys: p.noKeys, NoStatusAPI: p.noStatusAPI,
		ConnectTimeout: 500 * time.Millisecond, AnswerTimeout: 1500 * time.Millisecond,
		ChargeWorkers: 8, StatusWorkers: 4,
		AbsentHorizon: 7 * time.Second, OnAbsent: "recharge",
		RetryPauses:     []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second},
		ReconcilePauses: []time.Duration{2 * time.Second, 3 * time.Second, 5 * time.Second},
		QuickReconcile:  time.Second,
		SyncEvery:       20 * time.Second, SyncOverlap: time.Minute, SyncPause: 10 * time.Second,
	}
	if p.noKeys || p.noStatusAPI { // nothing to send again under, or nobody to say that it is absent
		s.OnAbsent = "fail"
	}
	return s.WithDefaults()
}

// demoCircuits has the pace of a demo, unless the environment says otherwise: circuits
// open within an outage, and close again soon after it. "Answer late" is slow here.
var demoCircuits = map[string]string{
	"OPEN_FOR": "8s", "OPEN_MAX": "12s", "SLOW": "800ms", "MIN_CALLS": "10", "RATE_WINDOW": "30s",
	"RAMP_FOR": "10s", "RAMP_START": "2", "RAMP_FULL": "20",
}

// phase is a part of an outage.
type phase struct {
	mode simulator.Outage
	long time.Duration
}

// outagePhases are the three that matter most to tell apart: only charges fail, so that
// lookups settle the unknown ones while the circuit of charges is open; connections are
// refused (provably not sent); everything vanishes (unknown, and nobody to ask).
func outagePhases(down time.Duration, turn int) []phase {
	phases := []phase{{simulator.OutageCharges, down * 4 / 10}, {simulator.OutageBlackHole, down * 3 / 10}, {simulator.OutageRefuse, down * 3 / 10}}
	if turn%2 == 1 {
		phases[1].mode, phases[2].mode = phases[2].mode, phases[1].mode
	}
	return phases
}

// outages takes the provider down for a while, then back, again and again. In a
// run of limited length it is down once, early enough to recover before the end.
func outages(ctx context.Context, p *demoProvider, length time.Duration, log *slog.Logger) {
	up, down, pause := 20*time.Second, 50*time.Second, 2*time.Minute
	if length > 0 {
		up, down, pause = length/6, length/3, 24*time.Hour
	}
	defer setOutage(p, simulator.OutageNone, log)
	for turn := 0; sleep(ctx, up); turn++ {
		for _, ph := range outagePhases(down, turn) {
			setOutage(p, ph.mode, log)
			if !sleep(ctx, ph.long) {
				return
			}
		}
		setOutage(p, simulator.OutageNone, log)
		up = pause
	}
}

func setOutage(p *demoProvider, mode simulator.Outage, log *slog.Logger) {
	f := p.sim.Faults()
	f.Outage = mode
	if err := p.sim.SetFaults(f); err != nil {
		log.Error("demo outage", "provider", p.name, "error", err)
		return
	}
	log.Info("demo outage", "provider", p.name, "mode", mode)
}

// sleep waits for d and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
