package views

import (
	"context"

	"fusebox/views/messages"
)

// CircuitPath is the confirm page of an action on a circuit: probe, reset, open,
// close, metrics.
func CircuitPath(provider, class, verb string) string {
	return PathProviders + "/" + provider + "/" + class + "/" + verb
}

// circuitAction is one button of a circuit.
type circuitAction struct{ verb, label, icon string }

// The buttons, in the order they are offered: the probe risks one payment, the reset
// all that wait. Overrides are rarer and come behind one more step.
var (
	probeAction   = circuitAction{"probe", "act.circuit.probe_once.label", "send"}
	resetAction   = circuitAction{"reset", "circuit.reset", "refresh"}
	endAction     = circuitAction{"reset", "act.circuit.end_override", "refresh"}
	openAction    = circuitAction{"open", "act.circuit.forced_open.label", "pause"}
	extendAction  = circuitAction{"open", "act.circuit.forced_open.again", "clock"}
	closeAction   = circuitAction{"close", "act.circuit.forced_closed.label", "play"}
	measureAction = circuitAction{"metrics", "act.circuit.metrics_only.label", "shield"}
)

// acts are the actions that make sense now: the first are offered openly, the
// overrides behind a disclosure.
func (c CircuitView) acts() (first, overrides []circuitAction) {
	if c.State == "open" && c.Mode == "" {
		first = append(first, probeAction)
	}
	switch {
	case c.State == "closed" && c.Mode != "":
		first = append(first, endAction)
	case c.State != "closed" || c.Mode != "":
		first = append(first, resetAction)
	}
	if c.Mode == "forced_open" {
		overrides = append(overrides, extendAction)
	} else {
		overrides = append(overrides, openAction)
	}
	if c.Mode != "forced_closed" {
		overrides = append(overrides, closeAction)
	}
	if c.Mode != "metrics_only" {
		overrides = append(overrides, measureAction)
	}
	return first, overrides
}

// operable reports whether an action could reach every process.
func (c CircuitView) operable() bool { return !c.Local && c.State != "unreadable" }

// modeEnd says how long the override in force lasts.
func (c CircuitView) modeEnd(ctx context.Context) string {
	if c.ModeUntil.IsZero() {
		return T(ctx, "act.circuit.until_reset")
	}
	return T(ctx, "act.circuit.until", "Time", messages.Clock(ctx, c.ModeUntil))
}
