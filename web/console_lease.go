package web

import (
	"context"
	"errors"
	"net/http"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
	"fusebox/views/messages"
)

// takeNext gives the person the most urgent payment that nobody holds.
func (s *Server) takeNext(c echo.Context) error {
	action, err := uuid.Parse(c.FormValue("action_id"))
	if err != nil {
		return &badRequest{"action_id", "is missing; open the queue again"}
	}
	name := c.FormValue("provider")
	if _, ok := s.settings(name); name != "" && !ok {
		return invalid("provider", "is not configured")
	}
	ctx := s.viewContext(c)
	id, err := s.cfg.Store.TakeNext(ctx, action, name, s.actor(c))
	switch {
	case errors.Is(err, store.ErrNotFound):
		s.flash(c, "ok", views.T(ctx, "answer.next.none"))
		return c.Redirect(http.StatusSeeOther, views.PathQueue)
	case err != nil:
		return err
	}
	return c.Redirect(http.StatusSeeOther, views.AnswerPath(id.String()))
}

// confirmTake asks before a payment is taken, or taken over from somebody by name.
func (s *Server) confirmTake(c echo.Context) error {
	p, err := s.paymentParam(c)
	if err != nil {
		return err
	}
	return s.renderTake(c, http.StatusOK, p, "")
}

func (s *Server) renderTake(c echo.Context, status int, p store.Payment, problem string) error {
	ctx := s.viewContext(c)
	l, live, err := s.cfg.Store.LeaseOf(ctx, p.ID)
	if err != nil {
		return err
	}
	path := views.AnswerPath(p.ID.String())
	props := components.ConfirmProps{Title: views.T(ctx, "answer.take.title"), Lead: views.T(ctx, "answer.take.lead"), Problem: problem,
		Facts: actionFacts(ctx, p), Action: templ.SafeURL(path + "/take"), Cancel: templ.SafeURL(path), ActionID: newActionID(),
		Submit: views.T(ctx, "answer.take"),
		Consequences: []components.Consequence{{Text: views.T(ctx, "answer.take.minutes", "N", views.Num(ctx, int64(store.LeaseFor.Minutes())))},
			{Text: views.T(ctx, "answer.take.evidence")}}}
	if live && l.Holder != s.user(c).ID {
		args := []any{"Name", l.Name, "Time", messages.Clock(ctx, l.Until)}
		props.Title, props.Submit, props.Danger = views.T(ctx, "answer.takeover.title"), views.T(ctx, "answer.takeover"), true
		props.Lead = views.T(ctx, "answer.takeover.lead", args...)
		props.Consequences = append(props.Consequences, components.Consequence{Text: views.T(ctx, "answer.takeover.refused", "Name", l.Name), Tone: components.ToneWarn})
		props.Hidden = []components.HiddenField{{Name: "from", Value: l.Holder.String()}}
	}
	if p.Status != store.Unknown && len(p.NeedsReview) == 0 {
		props.Blocked = views.T(ctx, "answer.take.answered", "Status", views.Opt(ctx, "status.", string(p.Status)))
		props.Consequences, props.Lead = nil, ""
	}
	return s.renderConfirm(c, status, "queue", props.Title, props)
}

// postTake takes it, once per action id. The form names the holder the person saw, so
// that nobody takes from somebody they did not mean.
func (s *Server) postTake(c echo.Context) error {
	p, action, err := s.leaseForm(c)
	if err != nil {
		return err
	}
	ctx := s.viewContext(c)
	if from := c.FormValue("from"); from != "" {
		holder, err := uuid.Parse(from)
		if err != nil {
			return &badRequest{"from", "is not a person; open the action again"}
		}
		_, err = s.cfg.Store.TakeOver(ctx, action, p.ID, holder, s.actor(c))
		return s.took(c, p, err)
	}
	_, err = s.cfg.Store.Take(ctx, action, p.ID, s.actor(c))
	return s.took(c, p, err)
}

func (s *Server) took(c echo.Context, p store.Payment, err error) error {
	ctx := s.viewContext(c)
	var held *store.HeldError
	switch {
	case errors.As(err, &held):
		return s.renderTake(c, http.StatusConflict, s.fresh(ctx, p), heldWords(ctx, held.Lease))
	case errors.Is(err, store.ErrNotAllowed):
		return s.renderTake(c, http.StatusConflict, s.fresh(ctx, p), "")
	case err != nil:
		return err
	}
	s.flash(c, "ok", views.T(ctx, "answer.take.done"))
	return c.Redirect(http.StatusSeeOther, views.AnswerPath(p.ID.String()))
}

// leaseForm reads what every form about a lease posts.
func (s *Server) leaseForm(c echo.Context) (p store.Payment, action uuid.UUID, err error) {
	if p, err = s.paymentParam(c); err != nil {
		return p, action, err
	}
	if action, err = uuid.Parse(c.FormValue("action_id")); err != nil {
		return p, action, &badRequest{"action_id", "is missing; open the action again"}
	}
	return p, action, nil
}

// heldWords say who is at work on it: nothing was changed.
func heldWords(ctx context.Context, l store.Lease) string {
	return views.T(ctx, "answer.held", "Name", l.Name, "Time", messages.Clock(ctx, l.Until))
}

// confirmRelease asks before a payment goes back to the queue.
func (s *Server) confirmRelease(c echo.Context) error {
	p, err := s.paymentParam(c)
	if err != nil {
		return err
	}
	return s.renderRelease(c, http.StatusOK, p, "")
}

func (s *Server) renderRelease(c echo.Context, status int, p store.Payment, problem string) error {
	ctx := s.viewContext(c)
	path := views.AnswerPath(p.ID.String())
	props := components.ConfirmProps{Title: views.T(ctx, "answer.release.title"), Lead: views.T(ctx, "answer.release.lead"), Problem: problem,
		Facts: actionFacts(ctx, p), Action: templ.SafeURL(path + "/release"), Cancel: templ.SafeURL(path), ActionID: newActionID(),
		Submit: views.T(ctx, "answer.release"), Consequences: []components.Consequence{{Text: views.T(ctx, "answer.release.others")}}}
	if problem != "" {
		props.Blocked, props.Lead, props.Consequences = views.T(ctx, "conflict.look"), "", nil
	}
	return s.renderConfirm(c, status, "queue", props.Title, props)
}

// postRelease gives it back, once per action id.
func (s *Server) postRelease(c echo.Context) error {
	p, action, err := s.leaseForm(c)
	if err != nil {
		return err
	}
	ctx := s.viewContext(c)
	var held *store.HeldError
	switch err := s.cfg.Store.Release(ctx, action, p.ID, s.actor(c)); {
	case errors.As(err, &held):
		return s.renderRelease(c, http.StatusConflict, p, heldWords(ctx, held.Lease))
	case err != nil:
		return err
	}
	s.flash(c, "ok", views.T(ctx, "answer.release.done"))
	return c.Redirect(http.StatusSeeOther, views.PathQueue)
}
