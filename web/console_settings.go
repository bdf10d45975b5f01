package web

import (
	"errors"
	"net/http"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
)

// registerSettings adds a person's own settings and the admin's pages of people and keys.
func (s *Server) registerSettings() {
	s.console.GET(views.PathSettings, s.settingsPage)
	recent := s.console.Group("", s.requireRecent)
	recent.GET(views.PathPassword, s.passwordForm)
	recent.POST(views.PathPassword, s.postPassword)
	s.console.GET(views.PathSessions+"/others", s.confirmOthers)
	s.console.POST(views.PathSessions+"/others", s.postOthers)
	s.console.GET(views.PathSessions+"/:id", s.confirmRevoke)
	s.console.POST(views.PathSessions+"/:id", s.postRevoke)
	s.registerFactors(recent)
	admin := s.console.Group("", s.requireRole(store.RoleAdmin))
	changes := s.console.Group("", s.requireRole(store.RoleAdmin), s.requireRecent)
	s.registerUsers(admin, changes)
	s.registerKeys(admin, changes)
}

// settingsPage answers how the person reads and signs in.
func (s *Server) settingsPage(c echo.Context) error {
	ctx, u := s.viewContext(c), s.user(c)
	f, err := s.factors(c)
	if err != nil {
		return err
	}
	sessions, err := s.cfg.Store.SessionsOf(ctx, u.ID)
	if err != nil {
		return err
	}
	v := views.SettingsView{Page: s.page(c, "settings", views.T(ctx, "settings.title")), Email: u.Email, Factors: f,
		Tabs: views.SettingsTabs(ctx, views.PathSettings, u.Role.AtLeast(store.RoleAdmin))}
	mine := s.sessionToken(c)
	for _, x := range sessions {
		v.Sessions = append(v.Sessions, views.SessionRow{ID: x.ID.String(), Device: x.Device, Address: x.Address,
			Started: x.StartedAt, Seen: x.SeenAt, Current: x.Token == mine})
	}
	return s.render(c, http.StatusOK, views.Settings(v))
}

// passwordForm asks for a new password; who asks proved the old one lately.
func (s *Server) passwordForm(c echo.Context) error {
	return s.renderPassword(c, http.StatusOK, "", "")
}

func (s *Server) renderPassword(c echo.Context, status int, bad, unequal string) error {
	ctx := s.viewContext(c)
	title := views.T(ctx, "settings.password_change")
	props := components.ConfirmProps{Title: title, Action: views.PathPassword, Cancel: views.PathSettings, ActionID: newActionID(),
		Consequences: []components.Consequence{{Text: views.T(ctx, "password.others")}}, Submit: title,
		Fields: []components.Field{
			{ID: "password", Label: views.T(ctx, "password.new"), Type: "password", Autocomplete: "new-password", Required: true,
				Max: store.MaxPassword, Error: bad, Hint: views.T(ctx, "password.hint", "Min", store.MinPassword)},
			{ID: "repeat", Label: views.T(ctx, "password.repeat"), Type: "password", Autocomplete: "new-password", Required: true,
				Max: store.MaxPassword, Error: unequal}}}
	return s.renderConfirm(c, status, "settings", title, props)
}

// postPassword changes the password; every other session of the person ends.
func (s *Server) postPassword(c echo.Context) error {
	ctx, u := s.viewContext(c), s.user(c)
	password := c.FormValue("password")
	if password != c.FormValue("repeat") {
		return s.renderPassword(c, http.StatusUnprocessableEntity, "", views.T(ctx, "password.unequal"))
	}
	action, err := actionID(c)
	if err != nil {
		return err
	}
	first, err := s.cfg.Store.EditUser(ctx, u.ID, store.UserEdit{Change: store.ChangePassword, ActionID: action, Password: password, Keep: s.sessionToken(c)}, s.actor(c))
	if field := (*provider.FieldError)(nil); errors.As(err, &field) {
		return s.renderPassword(c, http.StatusUnprocessableEntity, views.T(ctx, "password.hint", "Min", store.MinPassword), "")
	}
	if err != nil {
		return err
	}
	if !first { // the form sent before has changed it, and renewed the session
		return c.Redirect(http.StatusSeeOther, views.PathSettings)
	}
	if u, err = s.cfg.Store.User(ctx, u.ID); err != nil {
		return err
	}
	if err := s.startSession(c, u); err != nil { // a new token with the new password
		return err
	}
	s.flash(c, "ok", views.T(ctx, "password.done"))
	return c.Redirect(http.StatusSeeOther, views.PathSettings)
}

// confirmRevoke asks before a session ends.
func (s *Server) confirmRevoke(c echo.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	ctx := s.viewContext(c)
	title := views.T(ctx, "settings.session_end")
	return s.renderConfirm(c, http.StatusOK, "settings", title, components.ConfirmProps{Title: title, Lead: views.T(ctx, "settings.session_end_lead"),
		Action: templ.SafeURL(views.PathSessions + "/" + id.String()), Cancel: views.PathSettings, ActionID: newActionID(), Submit: title})
}

// postRevoke ends one of the person's own sessions. One that is over already is no error.
func (s *Server) postRevoke(c echo.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	action, err := actionID(c)
	if err != nil {
		return err
	}
	ctx := s.viewContext(c)
	err = s.cfg.Store.RevokeSession(ctx, action, s.user(c).ID, id, s.actor(c))
	if err != nil && !doneOrGone(err) {
		return err
	}
	s.flash(c, "ok", views.T(ctx, "settings.session_ended"))
	return c.Redirect(http.StatusSeeOther, views.PathSettings+"#sessions")
}

// confirmOthers asks before every other session ends.
func (s *Server) confirmOthers(c echo.Context) error {
	ctx := s.viewContext(c)
	sessions, err := s.cfg.Store.SessionsOf(ctx, s.user(c).ID)
	if err != nil {
		return err
	}
	title := views.T(ctx, "settings.sessions_others")
	props := components.ConfirmProps{Title: title, Action: views.PathSessions + "/others", Cancel: views.PathSettings, ActionID: newActionID(), Submit: title}
	if others := int64(len(sessions) - 1); others > 0 {
		props.Lead = views.N(ctx, "settings.sessions_others_lead", others)
	} else {
		props.Blocked = views.T(ctx, "settings.sessions_others_none")
	}
	return s.renderConfirm(c, http.StatusOK, "settings", title, props)
}

// postOthers ends every session of the person but this one.
func (s *Server) postOthers(c echo.Context) error {
	action, err := actionID(c)
	if err != nil {
		return err
	}
	ctx := s.viewContext(c)
	err = s.cfg.Store.RevokeOtherSessions(ctx, action, s.user(c).ID, s.sessionToken(c), s.actor(c))
	if err != nil && !doneOrGone(err) {
		return err
	}
	s.flash(c, "ok", views.T(ctx, "settings.sessions_ended"))
	return c.Redirect(http.StatusSeeOther, views.PathSettings+"#sessions")
}

// doneOrGone reports that there is nothing left to end or remove, which is what was
// asked for.
func doneOrGone(err error) bool {
	return errors.Is(err, store.ErrActionDone) || errors.Is(err, store.ErrNotFound)
}

// actionID reads the one-time id of a form.
func actionID(c echo.Context) (uuid.UUID, error) {
	id, err := uuid.Parse(c.FormValue("action_id"))
	if err != nil || id == uuid.Nil {
		return uuid.Nil, &badRequest{"action_id", "is missing; open the action again"}
	}
	return id, nil
}
