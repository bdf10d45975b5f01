package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/labstack/echo/v4"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
	"fusebox/views/messages"
)

// maxReason bounds what people write into the audit log, in characters.
const maxReason = 500

// resetSlack is how far the clocks of Postgres and Redis may be apart when a person's
// reset is matched with the circuit's last change.
const resetSlack = 2 * time.Second

// resetForm is what the confirm page of a reset posts.
type resetForm struct {
	key      breaker.Key
	settings provider.Settings
	actionID uuid.UUID
	epoch    string // of the circuit the person saw
	reason   string
	problem  string // why the last try changed nothing
	wrong    string // what is wrong with the reason
}

// circuitOf reads which circuit the path names. echo.ErrNotFound for none of ours.
func (s *Server) circuitOf(c echo.Context) (resetForm, error) {
	p, ok := s.settings(c.Param("provider"))
	class := c.Param("class")
	if !ok || !contains(circuitClasses, class) {
		return resetForm{}, echo.ErrNotFound
	}
	return resetForm{key: breaker.Key{Name: p.Name, Class: class}, settings: p}, nil
}

// resetConfirm says in numbers what closing the circuit does.
func (s *Server) resetConfirm(c echo.Context) error {
	f, err := s.circuitOf(c)
	if err != nil {
		return err
	}
	f.actionID = uuid.New()
	return s.renderReset(c, http.StatusOK, f)
}

// resetCircuit closes the circuit if it is still the one the person saw, once per
// action id, with its audit row.
func (s *Server) resetCircuit(c echo.Context) error {
	f, err := s.circuitOf(c)
	if err != nil {
		return err
	}
	if f.actionID, err = uuid.Parse(c.FormValue("action_id")); err != nil {
		return &badRequest{"action_id", "is missing; open the page again"}
	}
	ctx := s.viewContext(c)
	f.epoch, f.reason = c.FormValue("epoch"), strings.TrimSpace(c.FormValue("reason"))
	if f.reason == "" || len([]rune(f.reason)) > maxReason {
		f.wrong = views.T(ctx, "reset.reason_needed")
		return s.renderReset(c, http.StatusUnprocessableEntity, f)
	}
	switch err := s.doReset(ctx, f, s.actor(c)); {
	case errors.Is(err, breaker.ErrEpoch):
		f.problem, f.actionID = s.resetConflict(ctx, f.key), uuid.New()
		return s.renderReset(c, http.StatusConflict, f)
	case errors.Is(err, breaker.ErrUnavailable):
		f.problem, f.actionID = views.T(ctx, "reset.unavailable"), uuid.New()
		return s.renderReset(c, http.StatusServiceUnavailable, f)
	case err != nil:
		return err
	}
	if _, err := s.cfg.Store.WakeWaiting(ctx, f.key.Name, f.key.Class == "charge"); err != nil {
		// The circuit is closed and audited; what waits comes back at its own time.
		s.cfg.Log.ErrorContext(ctx, "waking what waited for the circuit", "circuit", f.key.String(), "error", err)
	}
	s.a.hub.touch(store.TopicProviders, topicOverview, topicBanners)
	s.a.now.forget()
	s.flash(c, "ok", views.T(ctx, "reset.done", "Provider", f.key.Name, "Class", views.Opt(ctx, "class.", f.key.Class)))
	return c.Redirect(http.StatusSeeOther, views.PathProviders)
}

// doReset claims the action id, closes the circuit and writes the audit row, in that
// order and in one transaction: a repeat finds the claim, a refusal leaves nothing.
// Redis answers within its own short deadline, so the row is held for milliseconds.
func (s *Server) doReset(ctx context.Context, f resetForm, by store.Actor) error {
	const action = "circuit.reset"
	target := "circuit:" + f.key.String()
	var before, after breaker.Snapshot
	closed := false // InTx may run the function again; the circuit is closed once
	return s.cfg.Store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		first, _, err := s.cfg.Store.ClaimAction(ctx, tx, f.actionID, by, action, target, "closed")
		if err != nil || !first {
			return err
		}
		if !closed {
			if before, err = s.cfg.Breaker.Snapshot(ctx, f.key); err != nil {
				return err
			}
			if after, err = s.cfg.Breaker.Reset(ctx, f.key, f.epoch, by.Name, f.reason); err != nil {
				return err
			}
			closed = true
		}
		if err := s.cfg.Store.Audit(ctx, tx, by, action, target, f.reason, circuitFacts(before), circuitFacts(after)); err != nil {
			return err
		}
		return store.Notify(ctx, tx, store.TopicProviders)
	})
}

func circuitFacts(c breaker.Snapshot) map[string]any {
	return map[string]any{"state": string(c.State), "epoch": c.Epoch, "consecutive": c.Consecutive, "reason": c.OpenReason}
}

// resetConflict names who was first, or what the circuit did by itself.
func (s *Server) resetConflict(ctx context.Context, k breaker.Key) string {
	snap, err := s.cfg.Breaker.Snapshot(ctx, k)
	if err != nil {
		return views.T(ctx, "reset.unavailable")
	}
	last, err := s.cfg.Store.LastCircuitAction(ctx, "circuit:"+k.String())
	if err == nil && !last.At.Before(snap.Since.Add(-resetSlack)) {
		return views.T(ctx, "reset.conflict_by", "Who", or(last.ActorName, last.Actor), "Time", messages.Clock(ctx, last.At))
	}
	return views.T(ctx, "reset.conflict", "State", strings.ToLower(views.Opt(ctx, "circuit.", string(snap.State))),
		"Time", messages.Clock(ctx, snap.Since))
}

// renderReset shows the confirm page with the circuit as it is now.
func (s *Server) renderReset(c echo.Context, status int, f resetForm) error {
	ctx := s.viewContext(c)
	snap, err := s.cfg.Breaker.Snapshot(ctx, f.key)
	if err != nil {
		return fmt.Errorf("%w: %w", breaker.ErrUnavailable, err)
	}
	waiting, err := s.cfg.Store.WaitingCharges(ctx, f.key.Name)
	if err != nil {
		return err
	}
	class := views.Opt(ctx, "class.", f.key.Class)
	title := views.T(ctx, "reset.title", "Provider", f.key.Name, "Class", class)
	props := components.ConfirmProps{
		Title: title, Lead: views.T(ctx, "reset.lead"), Problem: f.problem,
		Facts:        resetFacts(ctx, snap),
		Consequences: resetConsequences(ctx, f, snap, waiting),
		Action:       templ.SafeURL(views.ResetPath(f.key.Name, f.key.Class)), Cancel: views.PathProviders,
		ActionID: f.actionID.String(), Hidden: []components.HiddenField{{Name: "epoch", Value: snap.Epoch}},
		Reason: &components.Field{ID: "reason", Label: views.T(ctx, "ui.reason"), Hint: views.T(ctx, "ui.reason_hint"),
			Value: f.reason, Error: f.wrong, Required: true, Max: maxReason},
		Submit: views.T(ctx, "reset.submit"), Danger: true,
	}
	if snap.State == breaker.Closed {
		props.Blocked, props.Reason, props.Lead = views.T(ctx, "reset.already"), nil, ""
		props.Consequences = nil
	}
	return s.renderConfirm(c, status, "providers", title, props)
}

// renderConfirm answers a confirm page: framed to a browser, bare to a dialog.
func (s *Server) renderConfirm(c echo.Context, status int, active, title string, props components.ConfirmProps) error {
	if isHTMX(c) {
		return s.render(c, status, components.Confirm(props))
	}
	return s.render(c, status, views.Framed(s.page(c, active, title), components.Confirm(props)))
}

func resetFacts(ctx context.Context, snap breaker.Snapshot) []components.Term {
	facts := []components.Term{
		{Label: views.T(ctx, "reset.state"), Body: components.Circuit(string(snap.State))},
		{Label: views.T(ctx, "reset.opened"), Body: components.Ago(snap.Since)},
	}
	if snap.State == breaker.Open && snap.OpenUntil.After(messages.From(ctx).Now) {
		facts = append(facts, components.Term{Label: views.T(ctx, "reset.next"), Body: components.Ago(snap.OpenUntil)})
	}
	if snap.State != breaker.Closed && snap.OpenReason != "" {
		facts = append(facts, components.Term{Label: views.T(ctx, "reset.why"), Value: views.Opt(ctx, "circuit.reason.", snap.OpenReason)})
	}
	return facts
}

// resetConsequences says what will happen, in numbers.
func resetConsequences(ctx context.Context, f resetForm, snap breaker.Snapshot, w store.WaitingCharges) []components.Consequence {
	name := f.key.Name
	var list []components.Consequence
	if f.key.Class != "charge" {
		list = append(list, components.Consequence{Text: views.T(ctx, "reset.lookups", "Provider", name)})
	} else {
		list = append(list, components.Consequence{Text: queuedText(ctx, f, w)},
			components.Consequence{Tone: components.ToneWarn, Text: views.N(ctx, "reset.risk", int64(w.Unknown), "Provider", name)})
	}
	return append(list, components.Consequence{Text: views.N(ctx, "reset.threshold", int64(snap.Settings.Failures))})
}

func queuedText(ctx context.Context, f resetForm, w store.WaitingCharges) string {
	if w.Pending == 0 {
		return views.T(ctx, "reset.queued_none")
	}
	text := views.N(ctx, "reset.queued", int64(w.Pending), "Provider", f.key.Name)
	sums := make([]string, len(w.Amounts))
	for i, a := range w.Amounts {
		sums[i] = views.Money(ctx, a.Amount, a.Currency)
	}
	text += " " + views.T(ctx, "reset.amounts", "Amounts", strings.Join(sums, " + "))
	// store.WakeWaiting lets them go one after another, from now on.
	span := max(time.Second, time.Duration(w.Pending)*time.Second/store.WakePace)
	return text + " " + views.T(ctx, "reset.last_due", "Span", messages.Span(ctx, span), "Workers", f.settings.ChargeWorkers)
}
