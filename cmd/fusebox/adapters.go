package main

import (
	"context"
	"errors"
	"maps"
	"time"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/provider/adyen"
	"fusebox/provider/gateway"
	"fusebox/provider/mollie"
	"fusebox/provider/paypal"
	"fusebox/provider/stripe"
	"fusebox/store"
)

// kinds is where an adapter is registered: one line per kind of provider. Built from here,
// adapters stand before no circuits: for commands that make a call or two.
var kinds = provider.Kinds{
	"adyen":   adyen.Build,
	"gateway": func(s provider.Settings) (provider.Adapter, error) { return gateway.New(s, gateway.Options{}) },
	"mollie":  mollie.Build,
	"paypal":  paypal.Build,
	"stripe":  stripe.Build,
}

// guarded are the kinds with this process's circuits before what charges and lookups both
// depend on. Circuits that are connected later are found when a call asks.
func (a *app) guarded() provider.Kinds {
	k := maps.Clone(kinds)
	k[paypal.Kind] = func(s provider.Settings) (provider.Adapter, error) {
		return paypal.New(s, paypal.Options{TokenGuard: a.guard(breaker.Key{Name: s.Name, Class: provider.ClassToken})})
	}
	return k
}

// guard is a circuit as adapters know one. A process without circuits lets calls through.
func (a *app) guard(k breaker.Key) provider.Guard {
	return func(ctx context.Context) (provider.Report, error) {
		if a.circuits == nil {
			return provider.Guard(nil).Ask(ctx)
		}
		permit, err := a.circuits.Permit(ctx, k)
		var denied *breaker.Denied
		switch {
		case errors.As(err, &denied):
			return nil, &provider.HeldBackError{RetryAfter: denied.RetryAfter, Err: denied}
		case err != nil:
			return nil, err
		}
		return func(v provider.Verdict, latency time.Duration, reason string) {
			permit.Report(context.WithoutCancel(ctx), breaker.Verdict(v), latency, reason, "")
			a.noteCall(ctx, k, v, latency, reason)
		}, nil
	}
}

// callNoted is how long what waits for a token may wait for its call to be written down.
const callNoted = 2 * time.Second

// noteCall keeps a guarded call among the provider's calls, with nothing of what was asked
// or answered but the reason's word. Whoever waits for the call needs no such row, so that
// it could not be written is only logged.
func (a *app) noteCall(ctx context.Context, k breaker.Key, v provider.Verdict, latency time.Duration, reason string) {
	if a.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callNoted)
	defer cancel()
	c := store.CallOutcome{Provider: k.Name, Class: k.Class, Verdict: string(v), Outcome: "token", Latency: latency, Worker: a.cfg.workerName()}
	if v != provider.HealthOK {
		c.Outcome, c.ErrorClass = "no_token", reason
	}
	if err := a.store.RecordCall(ctx, nil, c); err != nil {
		a.log.WarnContext(ctx, "a call was not recorded", "circuit", k.String(), "error", err)
	}
}

// classesOf are the operation classes of a provider's circuits, in the order they are shown.
func (a *app) classesOf(name string) []string {
	classes := []string{classCharge, classStatus}
	if adapter, ok := a.registry.Get(name); ok && adapter.Capabilities().TokenCircuit {
		classes = append(classes, provider.ClassToken)
	}
	return classes
}
