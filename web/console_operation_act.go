package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
)

// This file is what a person's acts on refunds, captures and voids have in common. What
// they are about, and the words for it, is in console_refund_act.go and
// console_capture_act.go.

// operationForm is the part of an act's form that does not depend on what the operation is.
func operationForm(o store.Operation, path, place string) components.ConfirmProps {
	return components.ConfirmProps{Action: templ.SafeURL(path), Cancel: templ.SafeURL(place), ActionID: newActionID(),
		Hidden: []components.HiddenField{{Name: "version", Value: strconv.FormatInt(o.Version, 10)}}}
}

// lookupCalls says how many requests asking about an object costs at most.
func (s *Server) lookupCalls(ctx context.Context, o store.Operation, objectID string) components.Consequence {
	n := s.lookupRequests(store.Payment{Provider: o.Provider, ProviderPaymentID: objectID})
	return components.Consequence{Text: views.N(ctx, "act.reconcile.calls", int64(n), "Provider", o.Provider)}
}

// askOperation queues a lookup, once per action id, and leads to place. again answers the
// form once more: refused says that the store did, and conflict who was first, if anybody.
func (s *Server) askOperation(c echo.Context, o store.Operation, place string, again func(refused bool, conflict *store.ConflictError) error) error {
	form, err := readActionForm(c)
	if err != nil {
		return err
	}
	if !s.canAskRefund(o) {
		return again(false, nil)
	}
	ctx := s.viewContext(c)
	_, err = s.cfg.Store.LookUpOperationNow(ctx, form.actionID, o.ID, form.version, s.actor(c))
	var conflict *store.ConflictError
	if errors.As(err, &conflict) || errors.Is(err, store.ErrNotAllowed) {
		return again(true, conflict)
	}
	if err != nil {
		return err
	}
	s.flash(c, "ok", views.T(ctx, "act.reconcile.done", "Provider", o.Provider))
	return c.Redirect(http.StatusSeeOther, place)
}

// undecided reports whether a person may still mark the operation so.
func undecided(o store.Operation, to store.Status) bool {
	return mayDecide(o) || (to == o.Status && len(o.NeedsReview) > 0)
}

// mayDecide reports whether a person may say what became of the operation: nobody knows,
// or it was acknowledged and has been without a decision for too long.
func mayDecide(o store.Operation) bool {
	return o.Status == store.Unknown || (o.Status == store.Processing && len(o.NeedsReview) > 0)
}

// decisionProps completes an act's form for a decision, as it was typed.
func decisionProps(ctx context.Context, props components.ConfirmProps, f resolveForm) components.ConfirmProps {
	props.Problem, props.ActionID, props.Danger, props.Errors = f.problem, f.action(), true, f.summary(ctx)
	props.Hidden = append(props.Hidden, components.HiddenField{Name: "to", Value: string(f.to)})
	props.Reason = &components.Field{ID: "reason", Label: views.T(ctx, "ui.reason"), Hint: views.T(ctx, "act.resolve.reason_hint"),
		Value: f.reason, Error: f.errors["reason"], Required: true, Max: maxReason}
	return props
}
