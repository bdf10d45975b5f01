package web

import (
	"net/http"
	"strings"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
)

// resumeForm is what the confirm page of a resume posts.
type resumeForm struct {
	provider string
	reason   string
	wrong    string // what is wrong with the reason
}

// resumeConfirm says in numbers what lifting a provider's pause does.
func (s *Server) resumeConfirm(c echo.Context) error {
	p, ok := s.settings(c.Param("provider"))
	if !ok {
		return echo.ErrNotFound
	}
	return s.renderResume(c, http.StatusOK, resumeForm{provider: p.Name})
}

// resumeCharges lifts the pause. Doing it twice does it once: charges that run
// already are left alone.
func (s *Server) resumeCharges(c echo.Context) error {
	p, ok := s.settings(c.Param("provider"))
	if !ok {
		return echo.ErrNotFound
	}
	ctx := s.viewContext(c)
	f := resumeForm{provider: p.Name, reason: strings.TrimSpace(c.FormValue("reason"))}
	if f.reason == "" || len([]rune(f.reason)) > maxReason {
		f.wrong = views.T(ctx, "reset.reason_needed")
		return s.renderResume(c, http.StatusUnprocessableEntity, f)
	}
	if err := s.cfg.Store.ResumeCharges(ctx, p.Name, s.actor(c), f.reason); err != nil {
		return err
	}
	s.a.hub.touch(store.TopicProviders, topicOverview, topicBanners)
	s.a.now.forget()
	s.flash(c, "ok", views.T(ctx, "resume.done", "Provider", p.Name))
	return c.Redirect(http.StatusSeeOther, views.PathProviders)
}

func (s *Server) renderResume(c echo.Context, status int, f resumeForm) error {
	ctx := s.viewContext(c)
	switches, err := s.cfg.Store.ProviderSwitches(ctx)
	if err != nil {
		return err
	}
	var now store.ProviderSwitch
	for _, sw := range switches {
		if sw.Provider == f.provider {
			now = sw
		}
	}
	waiting, err := s.cfg.Store.WaitingCharges(ctx, f.provider)
	if err != nil {
		return err
	}
	title := views.T(ctx, "resume.title", "Provider", f.provider)
	href := templ.SafeURL(views.ResumePath(f.provider))
	props := components.ConfirmProps{Title: title, Action: href, Cancel: views.PathProviders, ActionID: uuid.NewString(),
		Submit: views.T(ctx, "resume.submit")}
	if !now.Paused {
		props.Blocked = views.T(ctx, "resume.already")
		return s.renderConfirm(c, status, "providers", title, props)
	}
	props.Lead = views.T(ctx, "resume.lead", "Provider", f.provider)
	props.Facts = []components.Term{{Label: views.T(ctx, "resume.why"), Value: views.Opt(ctx, "reason.", now.PausedReason)}}
	if now.PausedAt != nil {
		props.Facts = append(props.Facts, components.Term{Label: views.T(ctx, "resume.since"), Body: components.Ago(*now.PausedAt)})
	}
	p, _ := s.settings(f.provider)
	props.Consequences = []components.Consequence{{Text: s.queuedText(ctx, p, waiting)},
		{Text: views.T(ctx, "resume.again", "Provider", f.provider)}}
	props.Reason = &components.Field{ID: "reason", Label: views.T(ctx, "ui.reason"), Hint: views.T(ctx, "ui.reason_hint"),
		Value: f.reason, Error: f.wrong, Required: true, Max: maxReason}
	return s.renderConfirm(c, status, "providers", title, props)
}
