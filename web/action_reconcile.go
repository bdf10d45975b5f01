package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
	"fusebox/views/messages"
)

// triesPerWay is how many requests one way of asking may cost (money-rules §4).
const triesPerWay = 3

// actionForm is what every action's form posts beside its own fields.
type actionForm struct {
	actionID uuid.UUID
	version  int64
}

// readActionForm reads the one-time id and the version the person saw. A form without
// them was not made by us: 400.
func readActionForm(c echo.Context) (actionForm, error) {
	id, err := uuid.Parse(c.FormValue("action_id"))
	if err != nil {
		return actionForm{}, &badRequest{"action_id", "is missing; open the action again"}
	}
	version, err := strconv.ParseInt(c.FormValue("version"), 10, 64)
	if err != nil {
		return actionForm{}, &badRequest{"version", "is missing; open the action again"}
	}
	return actionForm{id, version}, nil
}

// conflictWords says who was first, in words: nothing was changed.
func conflictWords(ctx context.Context, e *store.ConflictError) string {
	return firstWords(ctx, e, e.What == "operator", views.Opt(ctx, "status.", string(e.Status)))
}

// firstWords says who was first, about something whose status goes by these words now;
// decided: what they did was a decision about that very thing.
func firstWords(ctx context.Context, e *store.ConflictError, decided bool, status string) string {
	at := messages.Clock(ctx, e.At)
	if decided {
		return views.T(ctx, "conflict.marked", "By", e.By, "Status", status, "Time", at)
	}
	return views.T(ctx, "conflict.moved", "What", views.Opt(ctx, "timeline.kind.", e.What), "Status", status, "Time", at)
}

// actionFacts say which payment an action is about.
func actionFacts(ctx context.Context, p store.Payment) []components.Term {
	return []components.Term{
		{Label: views.T(ctx, "act.payment"), Value: views.Money(ctx, p.Amount, p.Currency) + " · " + p.OrderRef},
		{Label: views.T(ctx, "act.now"), Body: components.Status(string(p.Status))},
		{Label: views.T(ctx, "fact.provider"), Value: p.Provider},
	}
}

// confirmReconcile asks before the provider is asked.
func (s *Server) confirmReconcile(c echo.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	p, err := s.cfg.Store.Payment(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return s.renderReconcile(c, http.StatusOK, p, "")
}

func (s *Server) renderReconcile(c echo.Context, status int, p store.Payment, problem string) error {
	ctx := s.viewContext(c)
	path := views.PaymentPath(p.ID.String())
	props := components.ConfirmProps{
		Title: views.T(ctx, "act.reconcile.title"), Lead: views.T(ctx, "act.reconcile.lead", "Provider", p.Provider),
		Problem: problem, Facts: actionFacts(ctx, p), Consequences: s.reconcileConsequences(ctx, p),
		Action: templ.SafeURL(path + "/reconcile"), Cancel: templ.SafeURL(path), ActionID: newActionID(),
		Hidden: []components.HiddenField{{Name: "version", Value: strconv.FormatInt(p.Version, 10)}},
		Submit: views.T(ctx, "act.reconcile.submit", "Provider", p.Provider),
	}
	if s.replays(p) {
		props = asReplay(ctx, p, props)
	}
	switch {
	case p.Status.Final() && len(p.NeedsReview) == 0:
		props.Blocked = views.T(ctx, "act.reconcile.final")
	case !s.canAsk(p):
		props.Blocked = views.T(ctx, "act.reconcile.none", "Provider", p.Provider)
	}
	if props.Blocked != "" {
		props.Consequences, props.Lead = nil, ""
	}
	return s.renderConfirm(c, status, "payments", props.Title, props)
}

// reconcileConsequences states the calls in numbers: each declared way of asking costs
// at most triesPerWay requests.
func (s *Server) reconcileConsequences(ctx context.Context, p store.Payment) []components.Consequence {
	return []components.Consequence{
		{Text: views.N(ctx, "act.reconcile.calls", int64(s.lookupRequests(p)), "Provider", p.Provider)},
		{Text: views.T(ctx, "act.reconcile.zero_charges")},
		{Text: views.T(ctx, "act.reconcile.may_settle")},
	}
}

func (s *Server) lookupRequests(p store.Payment) int {
	a, ok := s.cfg.Registry.Get(p.Provider)
	if !ok {
		return 0
	}
	n, caps := 0, a.Capabilities()
	for _, w := range []provider.Way{provider.ByReference, provider.ByKey} {
		if caps.Has(w) {
			n += triesPerWay
		}
	}
	if caps.Has(provider.ByID) && p.ProviderPaymentID != "" {
		n += triesPerWay
	}
	return n
}

// postReconcile queues the lookup, once per action id.
func (s *Server) postReconcile(c echo.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	form, err := readActionForm(c)
	if err != nil {
		return err
	}
	ctx := s.viewContext(c)
	p, err := s.cfg.Store.Payment(ctx, id)
	if err != nil {
		return err
	}
	if !s.canAsk(p) {
		return s.renderReconcile(c, http.StatusConflict, p, "")
	}
	_, err = s.cfg.Store.ReconcileNow(ctx, form.actionID, id, form.version, s.actor(c))
	var conflict *store.ConflictError
	switch {
	case errors.As(err, &conflict):
		return s.renderReconcile(c, http.StatusConflict, s.fresh(ctx, p), conflictWords(ctx, conflict))
	case errors.Is(err, store.ErrNotAllowed):
		return s.renderReconcile(c, http.StatusConflict, s.fresh(ctx, p), "")
	case err != nil:
		return err
	}
	done := "act.reconcile.done"
	if s.replays(p) {
		done = "act.replay.done"
	}
	s.flash(c, "ok", views.T(ctx, done, "Provider", p.Provider))
	return c.Redirect(http.StatusSeeOther, views.PaymentPath(p.ID.String()))
}

// fresh reads the payment again after a refusal; the old reading is better than none.
func (s *Server) fresh(ctx context.Context, p store.Payment) store.Payment {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if now, err := s.cfg.Store.Payment(ctx, p.ID); err == nil {
		return now
	}
	return p
}
