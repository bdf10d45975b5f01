package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
	"fusebox/views/messages"
	"fusebox/web/circuits"
)

// maxReason bounds what people write into the audit log, in characters.
const maxReason = circuits.MaxReason

// circuitForm is what the confirm page of an action on a circuit posts.
type circuitForm struct {
	key      breaker.Key
	settings provider.Settings
	action   circuits.Action
	actionID uuid.UUID
	epoch    string // of the circuit the person saw
	reason   string
	typed    string            // the provider's name, typed to say it is meant
	lasts    string            // the chosen time of an override; circuitForever: until reset
	minutes  string            // typed instead of a choice
	problem  string            // why the last try changed nothing
	errors   map[string]string // field → translated
}

// operations does what the console and the API ask of circuits.
func (s *Server) operations() circuits.Operations {
	return circuits.Operations{Store: s.cfg.Store, Breaker: s.cfg.Breaker, Log: s.cfg.Log}
}

// registerCircuits adds a confirm page for each action on a circuit.
func (s *Server) registerCircuits(operator *echo.Group) {
	for _, a := range circuits.Actions {
		path := views.PathProviders + "/:provider/:class/" + a.Verb()
		operator.GET(path, func(c echo.Context) error { return s.confirmCircuit(c, a) })
		operator.POST(path, func(c echo.Context) error { return s.operateCircuit(c, a) })
	}
}

// circuitOf reads which circuit the path names. echo.ErrNotFound for none of ours.
func (s *Server) circuitOf(c echo.Context) (breaker.Key, provider.Settings, error) {
	p, ok := s.settings(c.Param("provider"))
	class := c.Param("class")
	if !ok || !contains(s.cfg.classesOf(p.Name), class) {
		return breaker.Key{}, provider.Settings{}, echo.ErrNotFound
	}
	return breaker.Key{Name: p.Name, Class: class}, p, nil
}

// confirmCircuit says in numbers what the action does.
func (s *Server) confirmCircuit(c echo.Context, a circuits.Action) error {
	f := circuitForm{action: a, actionID: uuid.New(), lasts: circuitDefault}
	var err error
	if f.key, f.settings, err = s.circuitOf(c); err != nil {
		return err
	}
	return s.renderCircuit(c, http.StatusOK, f)
}

// operateCircuit does the action if the circuit is still the one the person saw, once
// per action id.
func (s *Server) operateCircuit(c echo.Context, a circuits.Action) error {
	f := circuitForm{action: a, errors: map[string]string{}}
	var err error
	if f.key, f.settings, err = s.circuitOf(c); err != nil {
		return err
	}
	if f.actionID, err = uuid.Parse(c.FormValue("action_id")); err != nil {
		return &badRequest{"action_id", "is missing; open the page again"}
	}
	ctx := s.viewContext(c)
	f.epoch, f.reason, f.typed = c.FormValue("epoch"), strings.TrimSpace(c.FormValue("reason")), strings.TrimSpace(c.FormValue("typed"))
	f.lasts, f.minutes = c.FormValue("for"), strings.TrimSpace(c.FormValue("minutes"))
	r := circuits.Request{Key: f.key, Action: a, Epoch: f.epoch, ActionID: f.actionID, By: s.actor(c), Reason: f.reason}
	if r.For = f.check(ctx); len(f.errors) > 0 {
		return s.renderCircuit(c, http.StatusUnprocessableEntity, f)
	}
	res, err := s.operations().Do(ctx, r)
	if err != nil {
		return s.circuitRefused(c, f, res, err)
	}
	s.circuitsMoved()
	s.flash(c, "ok", circuitDone(ctx, f, res))
	return c.Redirect(http.StatusSeeOther, views.PathProviders)
}

// circuitsMoved makes every page read the circuits anew.
func (s *Server) circuitsMoved() {
	s.a.hub.touch(store.TopicProviders, topicOverview, topicBanners)
	s.a.now.forget()
}

// circuitRefused shows the form again with why nothing was changed and what is now.
func (s *Server) circuitRefused(c echo.Context, f circuitForm, res circuits.Result, err error) error {
	ctx, status := s.viewContext(c), http.StatusConflict
	switch {
	case errors.Is(err, breaker.ErrEpoch):
		f.problem = s.circuitConflict(ctx, f.key)
	case errors.Is(err, breaker.ErrNotOpen):
		f.problem = views.T(ctx, "act.circuit.not_open", "State", circuitState(ctx, res.After))
	case errors.Is(err, store.ErrKeyReused):
		f.problem = views.T(ctx, "act.circuit.form_used")
	case errors.Is(err, breaker.ErrUnavailable):
		f.problem, status = circuitUnavailable(ctx, f.action), http.StatusServiceUnavailable
	default:
		return err
	}
	f.actionID = uuid.New()
	return s.renderCircuit(c, status, f)
}

// circuitConflict names who was first, or what the circuit did by itself.
func (s *Server) circuitConflict(ctx context.Context, k breaker.Key) string {
	snap, err := s.cfg.Breaker.Snapshot(ctx, k)
	if err != nil {
		return views.T(ctx, "act.circuit.unavailable")
	}
	last, ok, err := s.operations().LastChange(ctx, snap)
	if err == nil && ok {
		action := circuits.Action(strings.TrimPrefix(last.Action, "circuit."))
		return views.T(ctx, circuitText(action, "conflict_by"), "Who", or(last.ActorName, last.Actor), "Time", messages.Clock(ctx, last.At))
	}
	return views.T(ctx, "reset.conflict", "State", circuitState(ctx, snap), "Time", messages.Clock(ctx, snap.Since))
}

// Choices of how long an override lasts.
const (
	circuitDefault = "1h"
	circuitForever = "reset"
)

var circuitSpans = []string{"15m", "1h", "4h", "24h"}

// check says what is wrong with the fields, in the reader's words, and returns how
// long the override lasts.
func (f *circuitForm) check(ctx context.Context) time.Duration {
	if n := len([]rune(f.reason)); n == 0 || n > maxReason {
		f.errors["reason"] = views.T(ctx, "reset.reason_needed")
	}
	if f.typesName() && f.typed != f.key.Name {
		f.errors["typed"] = views.T(ctx, "act.bad.stated", "Object", f.key.Name)
	}
	if !f.action.Override() {
		return 0
	}
	if f.minutes != "" {
		n, err := strconv.Atoi(f.minutes)
		d := time.Duration(n) * time.Minute
		if most := int(circuits.MaxFor / time.Minute); err != nil || n < 1 || n > most {
			f.errors["minutes"] = views.T(ctx, "act.circuit.minutes_bad", "Most", views.Num(ctx, int64(most)))
			return 0
		}
		return d
	}
	if f.lasts == circuitForever && f.action != circuits.ForcedOpen {
		return 0
	}
	d, err := time.ParseDuration(f.lasts)
	if err != nil || !contains(circuitSpans, f.lasts) {
		f.errors["for"] = views.T(ctx, "act.circuit.for_needed")
		return 0
	}
	return d
}

// typesName reports whether the provider's name must be typed: after these the queue
// runs against a provider that failed.
func (f circuitForm) typesName() bool {
	return f.action == circuits.Reset || f.action == circuits.ForcedClosed
}

// renderCircuit shows the confirm page with the circuit as it is now.
func (s *Server) renderCircuit(c echo.Context, status int, f circuitForm) error {
	ctx := s.viewContext(c)
	snap, err := s.cfg.Breaker.Snapshot(ctx, f.key)
	if err != nil {
		return fmt.Errorf("%w: %w", breaker.ErrUnavailable, err)
	}
	waiting, err := s.cfg.Store.WaitingCharges(ctx, f.key.Name)
	if err != nil {
		return err
	}
	title := views.T(ctx, circuitText(f.action, "title"), "Provider", f.key.Name, "Class", views.Opt(ctx, "class.", f.key.Class))
	props := components.ConfirmProps{
		Title: title, Lead: views.T(ctx, circuitText(f.action, "lead")), Problem: f.problem,
		Facts: circuitFacts(ctx, snap), Consequences: s.circuitConsequences(ctx, f, snap, waiting),
		Action: templ.SafeURL(views.CircuitPath(f.key.Name, f.key.Class, f.action.Verb())), Cancel: views.PathProviders,
		ActionID: f.actionID.String(), Hidden: []components.HiddenField{{Name: "epoch", Value: snap.Epoch}},
		Reason: &components.Field{ID: "reason", Label: views.T(ctx, "ui.reason"), Hint: views.T(ctx, "ui.reason_hint"),
			Value: f.reason, Error: f.errors["reason"], Required: true, Max: maxReason},
		Submit: views.T(ctx, circuitText(f.action, "submit")), Danger: f.action != circuits.ProbeOnce, Errors: f.summary(ctx),
	}
	choices := f.choices(ctx)
	if f.typesName() {
		props.Fields = []components.Field{{ID: "typed", Label: views.T(ctx, "act.circuit.type_name", "Provider", f.key.Name),
			Value: f.typed, Error: f.errors["typed"], Required: true, Autocomplete: "off"}}
	}
	if props.Blocked = circuitBlocked(ctx, f.action, snap); props.Blocked != "" {
		props.Reason, props.Fields, props.Consequences, props.Lead, choices = nil, nil, nil, "", nil
	}
	return s.renderFramed(c, status, "providers", title, views.CircuitConfirm(props, choices))
}

// renderConfirm answers a confirm page.
func (s *Server) renderConfirm(c echo.Context, status int, active, title string, props components.ConfirmProps) error {
	kept := keptWords(s.viewContext(c), c.Request(), props)
	return s.renderFramed(c, status, active, title, components.ConfirmKept(props, kept))
}

// renderFramed answers a page: framed to a browser, bare to a dialog.
func (s *Server) renderFramed(c echo.Context, status int, active, title string, body templ.Component) error {
	if isHTMX(c) {
		return s.render(c, status, body)
	}
	return s.render(c, status, views.Framed(s.page(c, active, title), body))
}
