package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
)

// revealed is the answer that somebody wants to see.
type revealed struct {
	payment store.Payment
	attempt uuid.UUID
	object  string
	title   string // in words
}

// revealTarget reads which answer is meant; the form and its address say it alike.
func (s *Server) revealTarget(c echo.Context) (revealed, error) {
	d, err := s.resolveDossier(c)
	if err != nil {
		return revealed{}, err
	}
	r, ctx := revealed{payment: d.Payment}, s.viewContext(c)
	if r.object = c.FormValue("object"); r.object != "" {
		if !slices.ContainsFunc(d.Objects, func(o store.ProviderObject) bool { return o.ObjectID == r.object && len(o.Raw) > 0 }) {
			return revealed{}, store.ErrNotFound
		}
		r.title = views.T(ctx, "reveal.object", "Provider", d.Payment.Provider, "Object", r.object)
		return r, nil
	}
	all := slices.Clone(d.Attempts)
	for _, list := range d.OperationAttempts {
		all = append(all, list...)
	}
	for _, a := range all {
		if a.ID.String() == c.FormValue("attempt") && len(a.ResponseBody) > 0 {
			r.attempt, r.title = a.ID, views.T(ctx, "reveal.attempt", "N", a.Seq)
			return r, nil
		}
	}
	return revealed{}, store.ErrNotFound
}

// confirmReveal says that looking is recorded, and asks why.
func (s *Server) confirmReveal(c echo.Context) error {
	r, err := s.revealTarget(c)
	if err != nil {
		return err
	}
	return s.renderReveal(c, http.StatusOK, r, newActionID(), "", "")
}

func (s *Server) renderReveal(c echo.Context, status int, r revealed, action, reason, problem string) error {
	ctx := s.viewContext(c)
	path := views.PaymentPath(r.payment.ID.String())
	props := components.ConfirmProps{Title: views.T(ctx, "reveal.title"), Lead: views.T(ctx, "reveal.lead", "Provider", r.payment.Provider),
		Facts:        append(actionFacts(ctx, r.payment), components.Term{Label: views.T(ctx, "reveal.what"), Value: r.title}),
		Consequences: []components.Consequence{{Text: views.T(ctx, "reveal.recorded")}, {Text: views.T(ctx, "reveal.never")}},
		Action:       templ.SafeURL(path + "/reveal"), Cancel: templ.SafeURL(path), ActionID: action, Submit: views.T(ctx, "reveal.submit"),
		Reason: &components.Field{ID: "reason", Label: views.T(ctx, "ui.reason"), Hint: views.T(ctx, "reveal.reason_hint"), Value: reason,
			Error: problem, Required: true, Max: maxReason}}
	if r.object != "" {
		props.Hidden = []components.HiddenField{{Name: "object", Value: r.object}}
	} else {
		props.Hidden = []components.HiddenField{{Name: "attempt", Value: r.attempt.String()}}
	}
	if problem != "" {
		props.Errors = []components.FieldError{{FieldID: "reason", Text: views.T(ctx, "ui.reason") + ": " + problem}}
	}
	return s.renderConfirm(c, status, "payments", props.Title, props)
}

// postReveal records the looking and shows the answer. Nothing is kept for a later page:
// a reload repeats the same action, which is recorded once.
func (s *Server) postReveal(c echo.Context) error {
	r, err := s.revealTarget(c)
	if err != nil {
		return err
	}
	action, err := uuid.Parse(c.FormValue("action_id"))
	if err != nil {
		return &badRequest{"action_id", "is missing; open the action again"}
	}
	ctx, reason := s.viewContext(c), strings.TrimSpace(c.FormValue("reason"))
	if problem := badReason(ctx, reason); problem != "" {
		return s.renderReveal(c, http.StatusUnprocessableEntity, r, action.String(), reason, problem)
	}
	got, err := s.cfg.Store.Reveal(ctx, store.RevealParams{ActionID: action, PaymentID: r.payment.ID, AttemptID: r.attempt,
		ObjectID: r.object, Reason: reason, By: s.actor(c)})
	if err != nil {
		return err
	}
	v := views.RevealedView{Title: r.title, Who: s.user(c).Name, Reason: reason, Body: pretty(got.Body), ContentType: got.ContentType,
		Back: views.PaymentPath(r.payment.ID.String())}
	return s.renderFramed(c, http.StatusOK, "payments", views.T(ctx, "reveal.shown.title"), views.Revealed(v))
}

// badReason says what is wrong with a reason that any words will do for.
func badReason(ctx context.Context, reason string) string {
	switch n := utf8.RuneCountInString(reason); {
	case n == 0:
		return views.T(ctx, "act.bad.required")
	case n < minResolveReason:
		return views.T(ctx, "act.bad.short", "N", minResolveReason)
	case n > maxReason:
		return views.T(ctx, "act.bad.long", "N", maxReason)
	}
	return ""
}

// revealAttempt and revealObject lead to the stored answers; nil: nothing was stored.
func revealAttempt(p store.Payment, a store.Attempt, needs string) *views.ActionLink {
	if len(a.ResponseBody) == 0 {
		return nil
	}
	return revealAction(p, "attempt", a.ID.String(), needs)
}

func revealObject(p store.Payment, o store.ProviderObject, needs string) *views.ActionLink {
	if len(o.Raw) == 0 {
		return nil
	}
	return revealAction(p, "object", o.ObjectID, needs)
}

func revealAction(p store.Payment, kind, id, needs string) *views.ActionLink {
	return &views.ActionLink{Label: "reveal.act", Href: views.PaymentPath(p.ID.String()) + "/reveal?" + url.Values{kind: {id}}.Encode(), Needs: needs}
}
