package web

import (
	"context"
	"strings"
	"time"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
	"fusebox/views/messages"
	"fusebox/web/circuits"
)

// circuitText is the id of one of the action's texts: title, lead, submit, done,
// already, conflict_by.
func circuitText(a circuits.Action, part string) string {
	if a == circuits.Reset {
		return "reset." + part
	}
	return "act.circuit." + string(a) + "." + part
}

func circuitState(ctx context.Context, s breaker.Snapshot) string {
	return strings.ToLower(views.Opt(ctx, "circuit.", string(s.State)))
}

func circuitUnavailable(ctx context.Context, a circuits.Action) string {
	if a == circuits.Reset {
		return views.T(ctx, "reset.unavailable")
	}
	return views.T(ctx, "act.circuit.unavailable")
}

// circuitBlocked says why the action makes no sense now; empty: it does.
func circuitBlocked(ctx context.Context, a circuits.Action, s breaker.Snapshot) string {
	switch {
	case s.Degraded:
		return circuitUnavailable(ctx, a)
	case a.Offered(s):
		return ""
	case a == circuits.ProbeOnce && s.Mode == breaker.ForcedOpen:
		return views.T(ctx, "act.circuit.probe_once.forced")
	}
	return views.T(ctx, circuitText(a, "already"))
}

// circuitDone says what was done, with the end of an override.
func circuitDone(ctx context.Context, f circuitForm, res circuits.Result) string {
	done := views.T(ctx, circuitText(f.action, "done"), "Provider", f.key.Name, "Class", views.Opt(ctx, "class.", f.key.Class))
	if until := res.After.ModeUntil; f.action.Override() && !until.IsZero() && !res.Repeated {
		done += " " + views.T(ctx, "act.circuit.ends", "Time", messages.Clock(ctx, until))
	}
	return done
}

// choices are the fields that say how long an override lasts.
func (f circuitForm) choices(ctx context.Context) []components.Field {
	if !f.action.Override() {
		return nil
	}
	now := messages.From(ctx).Now
	span := components.Field{ID: "for", Label: views.T(ctx, "act.circuit.for"), Value: f.lasts, Error: f.errors["for"]}
	for _, value := range circuitSpans {
		d, _ := time.ParseDuration(value) // the list is ours
		span.Options = append(span.Options, components.Option{Value: value,
			Label: views.T(ctx, "act.circuit.for_option", "Span", messages.Span(ctx, d), "Time", messages.Clock(ctx, now.Add(d)))})
	}
	if f.action != circuits.ForcedOpen {
		span.Options = append(span.Options, components.Option{Value: circuitForever, Label: views.T(ctx, "act.circuit.until_reset")})
	}
	return []components.Field{span, {ID: "minutes", Label: views.T(ctx, "act.circuit.minutes"), Hint: views.T(ctx, "act.circuit.minutes_hint"),
		Value: f.minutes, Error: f.errors["minutes"], InputMode: "numeric", Autocomplete: "off"}}
}

// summary names each refused field beside what is wrong with it.
func (f circuitForm) summary(ctx context.Context) []components.FieldError {
	var out []components.FieldError
	for _, field := range []struct{ id, label string }{
		{"for", views.T(ctx, "act.circuit.for")}, {"minutes", views.T(ctx, "act.circuit.minutes")}, {"typed", ""}, {"reason", ""}} {
		text := f.errors[field.id]
		if text == "" {
			continue
		}
		if field.label != "" {
			text = field.label + ": " + text
		}
		out = append(out, components.FieldError{FieldID: field.id, Text: text})
	}
	return out
}

// circuitFacts are what the person decides on.
func circuitFacts(ctx context.Context, s breaker.Snapshot) []components.Term {
	facts := []components.Term{{Label: views.T(ctx, "reset.state"), Body: components.Circuit(string(s.State))}}
	if !s.Since.IsZero() {
		facts = append(facts, components.Term{Label: views.T(ctx, "reset.opened"), Body: components.Ago(s.Since)})
	}
	if s.Mode != "" {
		end := views.T(ctx, "act.circuit.until_reset")
		if !s.ModeUntil.IsZero() {
			end = views.T(ctx, "act.circuit.until", "Time", messages.Clock(ctx, s.ModeUntil))
		}
		facts = append(facts, components.Term{Label: views.T(ctx, "act.circuit.override"),
			Value: views.Opt(ctx, "mode.", string(s.Mode)) + ", " + end})
	}
	if s.State == breaker.Open && s.OpenUntil.After(messages.From(ctx).Now) {
		facts = append(facts, components.Term{Label: views.T(ctx, "reset.next"), Body: components.Ago(s.OpenUntil)})
	}
	if s.State != breaker.Closed && s.OpenReason != "" {
		facts = append(facts, components.Term{Label: views.T(ctx, "reset.why"), Value: views.Opt(ctx, "circuit.reason.", s.OpenReason)})
	}
	return facts
}

// circuitConsequences says what will happen, in numbers.
func (s *Server) circuitConsequences(ctx context.Context, f circuitForm, snap breaker.Snapshot, w store.WaitingCharges) []components.Consequence {
	name, charges := f.key.Name, f.key.Class == "charge"
	var list []components.Consequence
	add := func(tone components.Tone, text string) {
		list = append(list, components.Consequence{Tone: tone, Text: text})
	}
	if f.key.Class == provider.ClassToken {
		return []components.Consequence{{Text: views.T(ctx, "act.circuit.token", "Provider", name)}}
	}
	switch f.action {
	case circuits.ProbeOnce:
		return probeConsequences(ctx, f, snap, w)
	case circuits.ForcedOpen:
		return openConsequences(ctx, f, snap, w)
	case circuits.Reset, circuits.ForcedClosed, circuits.MetricsOnly:
		if !charges {
			add("", views.T(ctx, "reset.lookups", "Provider", name))
			break
		}
		add("", s.queuedText(ctx, f.settings, w))
		if f.action == circuits.Reset {
			add(components.ToneWarn, views.N(ctx, "reset.risk", int64(w.Unknown), "Provider", name))
		} else {
			add(components.ToneWarn, views.N(ctx, "act.circuit.risk", int64(w.Unknown), "Provider", name))
		}
	}
	switch f.action {
	case circuits.Reset:
		add("", views.N(ctx, "reset.threshold", int64(snap.Settings.Failures)))
	case circuits.ForcedClosed:
		add(components.ToneWarn, views.T(ctx, "act.circuit.forced_closed.never_opens", "Provider", name))
	case circuits.MetricsOnly:
		add(components.ToneWarn, views.T(ctx, "act.circuit.metrics_only.refuses_nothing", "Provider", name))
	}
	return list
}

// probeConsequences: one payment goes, the rest waits for its answer.
func probeConsequences(ctx context.Context, f circuitForm, s breaker.Snapshot, w store.WaitingCharges) []components.Consequence {
	name, probes := f.key.Name, max(s.Settings.Probes, s.Settings.Successes, 1)
	var list []components.Consequence
	switch {
	case f.key.Class != "charge":
		list = append(list, components.Consequence{Text: views.N(ctx, "act.circuit.probe_once.lookups", int64(probes), "Provider", name)})
	case w.Pending == 0:
		list = append(list, components.Consequence{Text: views.T(ctx, "act.circuit.probe_once.none", "Provider", name)})
	default:
		sent := min(probes, w.Pending)
		list = append(list, components.Consequence{Text: views.N(ctx, "act.circuit.probe_once.sends", int64(sent), "Provider", name)},
			components.Consequence{Text: views.N(ctx, "act.circuit.probe_once.others", int64(w.Pending-sent))},
			components.Consequence{Tone: components.ToneWarn, Text: views.T(ctx, "act.circuit.probe_once.risk", "Provider", name)})
	}
	if s.Settings.OpenFor > 0 {
		list = append(list, components.Consequence{Text: views.T(ctx, "act.circuit.probe_once.then", "Span", messages.Span(ctx, s.Settings.OpenFor))})
	}
	return list
}

// openConsequences: nothing goes until the end that is chosen.
func openConsequences(ctx context.Context, f circuitForm, s breaker.Snapshot, w store.WaitingCharges) []components.Consequence {
	name := f.key.Name
	var list []components.Consequence
	if f.key.Class == "charge" {
		text := views.N(ctx, "act.circuit.forced_open.waits", int64(w.Pending), "Time", f.endText(ctx))
		if len(w.Amounts) > 0 {
			text += " " + views.T(ctx, "reset.amounts", "Amounts", amountsText(ctx, w))
		}
		list = append(list, components.Consequence{Text: text},
			components.Consequence{Text: views.T(ctx, "act.circuit.forced_open.accepts", "Provider", name)},
			components.Consequence{Text: views.N(ctx, "act.circuit.forced_open.lookups_go_on", int64(w.Unknown))})
	} else {
		list = append(list, components.Consequence{Tone: components.ToneWarn,
			Text: views.N(ctx, "act.circuit.forced_open.no_lookups", int64(w.Unknown), "Time", f.endText(ctx))})
	}
	if s.InFlight > 0 {
		list = append(list, components.Consequence{Text: views.N(ctx, "act.circuit.forced_open.in_flight", int64(s.InFlight))})
	}
	return append(list, components.Consequence{Text: views.T(ctx, "act.circuit.forced_open.then")})
}

// endText is when the chosen time is over.
func (f circuitForm) endText(ctx context.Context) string {
	d := (&circuitForm{action: f.action, lasts: f.lasts, minutes: f.minutes, errors: map[string]string{}}).check(ctx)
	if d == 0 {
		d, _ = time.ParseDuration(circuitDefault)
	}
	return messages.Clock(ctx, messages.From(ctx).Now.Add(d))
}

// queuedText says how many payments are sent, what they are worth and how fast.
func (s *Server) queuedText(ctx context.Context, p provider.Settings, w store.WaitingCharges) string {
	if w.Pending == 0 {
		return views.T(ctx, "reset.queued_none")
	}
	text := views.N(ctx, "reset.queued", int64(w.Pending), "Provider", p.Name) + " " +
		views.T(ctx, "reset.amounts", "Amounts", amountsText(ctx, w))
	span := max(time.Second, s.cfg.Store.WakeSpan(p.Name, true, w.Pending))
	return text + " " + views.T(ctx, "reset.last_due", "Span", messages.Span(ctx, span), "Workers", p.ChargeWorkers)
}

func amountsText(ctx context.Context, w store.WaitingCharges) string {
	sums := make([]string, len(w.Amounts))
	for i, a := range w.Amounts {
		sums[i] = views.Money(ctx, a.Amount, a.Currency)
	}
	return strings.Join(sums, " + ")
}
