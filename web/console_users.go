package web

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
	"fusebox/views/messages"
)

// registerUsers adds the list of people and every change of one.
func (s *Server) registerUsers(admin, changes *echo.Group) {
	admin.GET(views.PathUsers, s.usersPage)
	changes.GET(views.PathUsers+"/new", s.newUserForm)
	changes.POST(views.PathUsers+"/new", s.postNewUser)
	admin.GET(views.PathUsers+"/:id", s.userPage)
	changes.GET(views.PathUsers+"/:id/:change", s.confirmUser)
	changes.POST(views.PathUsers+"/:id/:change", s.postUser)
}

func (s *Server) usersPage(c echo.Context) error {
	ctx := s.viewContext(c)
	list, err := s.cfg.Store.ListUsers(ctx)
	if err != nil {
		return err
	}
	v := views.UsersView{Page: s.page(c, "settings", views.T(ctx, "users.title")), Tabs: views.SettingsTabs(ctx, views.PathUsers, true)}
	for _, u := range list {
		v.Rows = append(v.Rows, s.userRow(c, u))
	}
	return s.render(c, http.StatusOK, views.Users(v))
}

func (s *Server) userRow(c echo.Context, u store.User) views.UserRow {
	return views.UserRow{ID: u.ID.String(), Name: u.Name, Email: u.Email, Role: string(u.Role), Disabled: u.Disabled,
		Factor: u.HasFactor, You: u.ID == s.user(c).ID, Seen: u.LastSeenAt}
}

// userParam reads the person a path names.
func (s *Server) userParam(c echo.Context) (store.User, error) {
	id, err := idParam(c)
	if err != nil {
		return store.User{}, err
	}
	return s.cfg.Store.User(c.Request().Context(), id)
}

func (s *Server) userPage(c echo.Context) error {
	u, err := s.userParam(c)
	if err != nil {
		return err
	}
	sessions, err := s.cfg.Store.SessionsOf(c.Request().Context(), u.ID)
	if err != nil {
		return err
	}
	v := views.UserView{Page: s.page(c, "settings", u.Name), User: s.userRow(c, u), Created: u.CreatedAt, Sessions: len(sessions)}
	for _, change := range store.UserChanges {
		if possible(u, change) {
			v.Changes = append(v.Changes, string(change))
		}
	}
	return s.render(c, http.StatusOK, views.User(v))
}

// possible reports whether the change would change anything.
func possible(u store.User, change store.UserChange) bool {
	switch change {
	case store.ChangeDisable:
		return !u.Disabled
	case store.ChangeEnable:
		return u.Disabled
	case store.ChangeResetFactor:
		return u.HasFactor
	}
	return true
}

// confirmUser says what a change does before it is made.
func (s *Server) confirmUser(c echo.Context) error {
	u, err := s.userParam(c)
	if err != nil {
		return err
	}
	return s.renderUser(c, http.StatusOK, u, "")
}

func (s *Server) renderUser(c echo.Context, status int, u store.User, problem string) error {
	change := store.UserChange(c.Param("change"))
	if !slices.Contains(store.UserChanges, change) {
		return store.ErrNotFound
	}
	ctx := s.viewContext(c)
	path := views.UserPath(u.ID.String())
	title := views.Opt(ctx, "users.do.", string(change))
	props := components.ConfirmProps{Title: title, Lead: views.Opt(ctx, "users.lead.", string(change), "Name", u.Name), Problem: problem,
		Facts: []components.Term{{Label: views.T(ctx, "signin.email"), Value: u.Email},
			{Label: views.T(ctx, "users.col.role"), Value: views.Opt(ctx, "role.", string(u.Role))}},
		Consequences: []components.Consequence{{Text: views.T(ctx, "users.ends_sessions", "Name", u.Name)}},
		Action:       templ.SafeURL(path + "/" + string(change)), Cancel: templ.SafeURL(path), ActionID: newActionID(),
		Hidden: []components.HiddenField{{Name: "version", Value: strconv.FormatInt(u.Version, 10)}},
		Submit: title, Danger: change == store.ChangeDisable || change == store.ChangeResetFactor,
		Reason: &components.Field{ID: "reason", Label: views.T(ctx, "ui.reason"), Hint: views.T(ctx, "ui.reason_hint"), Value: c.FormValue("reason"), Max: maxReason}}
	if !possible(u, change) {
		props.Blocked = views.T(ctx, "users.nothing")
	}
	if change == store.ChangeRole {
		return s.renderFramed(c, status, "settings", title, confirmWith(props, components.Select(s.roleField(ctx, or(c.FormValue("role"), string(u.Role))))))
	}
	return s.renderConfirm(c, status, "settings", title, props)
}

// confirmWith is Confirm with fields of the action's own.
func confirmWith(props components.ConfirmProps, fields ...templ.Component) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		return components.Confirm(props).Render(templ.WithChildren(ctx, templ.Join(fields...)), w)
	})
}

func (s *Server) roleField(ctx context.Context, value string) components.Field {
	f := components.Field{ID: "role", Label: views.T(ctx, "users.col.role"), Value: value, Required: true, Hint: views.T(ctx, "users.role_hint")}
	for _, r := range store.Roles {
		f.Options = append(f.Options, components.Option{Value: string(r), Label: views.Opt(ctx, "role.", string(r))})
	}
	return f
}

// postUser makes the change, once, if nobody changed the person meanwhile.
func (s *Server) postUser(c echo.Context) error {
	u, err := s.userParam(c)
	if err != nil {
		return err
	}
	ctx := s.viewContext(c)
	e := store.UserEdit{Change: store.UserChange(c.Param("change")), Role: store.Role(c.FormValue("role")), Reason: strings.TrimSpace(c.FormValue("reason"))}
	if !slices.Contains(store.UserChanges, e.Change) {
		return store.ErrNotFound
	}
	if e.ActionID, err = actionID(c); err != nil {
		return err
	}
	if e.Version, err = strconv.ParseInt(c.FormValue("version"), 10, 64); err != nil || e.Version < 1 {
		return &badRequest{"version", "is missing; open the action again"}
	}
	if len([]rune(e.Reason)) > maxReason {
		return invalid("reason", "is longer than "+strconv.Itoa(maxReason)+" characters")
	}
	if e.Change == store.ChangePassword {
		e.Password = newPassword()
	}
	first, err := s.cfg.Store.EditUser(ctx, u.ID, e, s.actor(c))
	var conflict *store.UserConflictError
	switch {
	case errors.As(err, &conflict):
		return s.renderUser(c, http.StatusConflict, u, views.T(ctx, "users.conflict", "By", conflict.By,
			"Time", messages.Clock(ctx, conflict.At), "What", views.Opt(ctx, "users.what.", strings.TrimPrefix(conflict.Action, "user."))))
	case errors.Is(err, store.ErrLastAdmin):
		return s.renderUser(c, http.StatusConflict, u, views.T(ctx, "users.last_admin", "Name", u.Name))
	case err != nil:
		return err
	case first && e.Change == store.ChangePassword:
		return s.showPassword(c, u, e.Password)
	}
	s.flash(c, "ok", views.T(ctx, "users.done", "Name", u.Name))
	return c.Redirect(http.StatusSeeOther, views.UserPath(u.ID.String()))
}

// newPassword has 130 bits, in letters and digits that are easy to type.
func newPassword() string { return strings.ToLower(rand.Text()) }

// showPassword shows a generated password, the only time it is known.
func (s *Server) showPassword(c echo.Context, u store.User, password string) error {
	ctx := s.viewContext(c)
	title := views.T(ctx, "users.password_of", "Name", u.Name)
	return s.render(c, http.StatusOK, views.Secrets(views.SecretsPage{Page: s.page(c, "settings", title), Title: title,
		Lead: views.T(ctx, "users.password_lead", "Email", u.Email), Label: views.T(ctx, "signin.password"),
		Secrets: []string{password}, Back: views.UserPath(u.ID.String())}))
}

func (s *Server) newUserForm(c echo.Context) error { return s.renderNewUser(c, http.StatusOK, nil) }

// renderNewUser asks who; bad is what was wrong with the last try.
func (s *Server) renderNewUser(c echo.Context, status int, bad *provider.FieldError) error {
	ctx := s.viewContext(c)
	title := views.T(ctx, "users.add")
	props := components.ConfirmProps{Title: title, Action: views.PathUsers + "/new", Cancel: views.PathUsers, ActionID: newActionID(), Submit: title,
		Lead: views.T(ctx, "users.add_lead"), Fields: []components.Field{
			{ID: "email", Label: views.T(ctx, "signin.email"), Type: "email", Value: c.FormValue("email"), Required: true, Max: 254, Autocomplete: "off"},
			{ID: "name", Label: views.T(ctx, "users.col.name"), Value: c.FormValue("name"), Max: 100, Autocomplete: "off", Hint: views.T(ctx, "users.name_hint")}}}
	if bad != nil {
		for i, f := range props.Fields {
			if f.ID == bad.Field {
				props.Fields[i].Error = views.Opt(ctx, "users.bad.", bad.Field)
			}
		}
		props.Errors = []components.FieldError{{FieldID: bad.Field, Text: views.Opt(ctx, "users.bad.", bad.Field)}}
	}
	return s.renderFramed(c, status, "settings", title, confirmWith(props, components.Select(s.roleField(ctx, or(c.FormValue("role"), "support")))))
}

// postNewUser adds a person and shows the password, the only time it is known.
func (s *Server) postNewUser(c echo.Context) error {
	action, err := actionID(c)
	if err != nil {
		return err
	}
	n := store.NewUser{Email: c.FormValue("email"), Name: c.FormValue("name"), Role: store.Role(c.FormValue("role")), Password: newPassword()}
	u, err := s.cfg.Store.CreateUserOnce(c.Request().Context(), action, n, s.actor(c))
	var bad *provider.FieldError
	switch {
	case errors.Is(err, store.ErrActionDone):
		s.flash(c, "warning", views.T(s.viewContext(c), "users.made"))
		return c.Redirect(http.StatusSeeOther, views.PathUsers)
	case errors.Is(err, store.ErrUserExists):
		bad = &provider.FieldError{Field: "email", Reason: "has a user already"}
		return s.renderNewUser(c, http.StatusUnprocessableEntity, bad)
	case errors.As(err, &bad):
		return s.renderNewUser(c, http.StatusUnprocessableEntity, bad)
	case err != nil:
		return err
	}
	return s.showPassword(c, u, n.Password)
}
