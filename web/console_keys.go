package web

import (
	"errors"
	"net/http"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
)

// registerKeys adds the API keys.
func (s *Server) registerKeys(admin, changes *echo.Group) {
	admin.GET(views.PathKeys, s.keysPage)
	changes.GET(views.PathKeys+"/new", s.newKeyForm)
	changes.POST(views.PathKeys+"/new", s.postNewKey)
	changes.GET(views.PathKeys+"/:id/revoke", s.confirmRevokeKey)
	changes.POST(views.PathKeys+"/:id/revoke", s.postRevokeKey)
}

func (s *Server) keysPage(c echo.Context) error {
	ctx := s.viewContext(c)
	list, err := s.cfg.Store.ListAPIKeys(ctx)
	if err != nil {
		return err
	}
	v := views.KeysView{Page: s.page(c, "settings", views.T(ctx, "keys.title")), Tabs: views.SettingsTabs(ctx, views.PathKeys, true)}
	for _, k := range list {
		v.Rows = append(v.Rows, views.KeyRow{ID: k.ID.String(), Name: k.Name, Prefix: k.Prefix, Scopes: scopeWords(k.Scopes),
			Created: k.CreatedAt, Used: k.LastUsedAt, Revoked: k.RevokedAt})
	}
	return s.render(c, http.StatusOK, views.Keys(v))
}

func scopeWords(scopes []store.Scope) []string {
	out := make([]string, len(scopes))
	for i, scope := range scopes {
		out[i] = string(scope)
	}
	return out
}

func (s *Server) newKeyForm(c echo.Context) error {
	return s.renderNewKey(c, http.StatusOK, []string{string(store.ScopePayments)}, "")
}

func (s *Server) renderNewKey(c echo.Context, status int, chosen []string, bad string) error {
	p := s.page(c, "settings", views.T(s.viewContext(c), "keys.add"))
	return s.render(c, status, views.NewKey(views.NewKeyPage{Page: p, ActionID: newActionID(), Name: c.FormValue("name"), NameBad: bad,
		Scopes: scopeWords(store.Scopes), Chosen: chosen}))
}

// postNewKey makes a key and shows its secret, the only time it is known. The form's id
// is the key's: sent twice, the second finds it made.
func (s *Server) postNewKey(c echo.Context) error {
	action, err := actionID(c)
	if err != nil {
		return err
	}
	ctx := s.viewContext(c)
	var scopes []store.Scope
	for _, scope := range c.Request().PostForm["scope"] {
		scopes = append(scopes, store.Scope(scope))
	}
	k, secret, err := s.cfg.Store.CreateAPIKeyOnce(ctx, action, c.FormValue("name"), s.actor(c), scopes...)
	var bad *provider.FieldError
	switch {
	case errors.As(err, &bad) && bad.Field == "name":
		return s.renderNewKey(c, http.StatusUnprocessableEntity, scopeWords(scopes), views.T(ctx, "keys.bad_name"))
	case errors.Is(err, store.ErrActionDone):
		s.flash(c, "warning", views.T(ctx, "keys.made"))
		return c.Redirect(http.StatusSeeOther, views.PathKeys)
	case err != nil:
		return err
	}
	title := views.T(ctx, "keys.secret_of", "Name", k.Name)
	return s.render(c, http.StatusOK, views.Secrets(views.SecretsPage{Page: s.page(c, "settings", title), Title: title,
		Lead: views.T(ctx, "keys.secret_lead"), Label: views.T(ctx, "keys.secret"), Secrets: []string{secret}, Back: views.PathKeys}))
}

// keyParam reads the key a path names.
func (s *Server) keyParam(c echo.Context) (store.APIKey, error) {
	id, err := idParam(c)
	if err != nil {
		return store.APIKey{}, err
	}
	list, err := s.cfg.Store.ListAPIKeys(c.Request().Context())
	if err != nil {
		return store.APIKey{}, err
	}
	for _, k := range list {
		if k.ID == id {
			return k, nil
		}
	}
	return store.APIKey{}, store.ErrNotFound
}

func (s *Server) confirmRevokeKey(c echo.Context) error {
	k, err := s.keyParam(c)
	if err != nil {
		return err
	}
	ctx := s.viewContext(c)
	title := views.T(ctx, "keys.revoke_named", "Name", k.Name)
	used := components.Term{Label: views.T(ctx, "keys.col.used"), Body: components.AgoPtr(k.LastUsedAt)}
	props := components.ConfirmProps{Title: title, Lead: views.T(ctx, "keys.revoke_lead"), Facts: []components.Term{used},
		Consequences: []components.Consequence{{Text: views.T(ctx, "keys.revoke_now"), Tone: components.ToneWarn}},
		Action:       templ.SafeURL(views.PathKeys + "/" + k.ID.String() + "/revoke"), Cancel: views.PathKeys, ActionID: newActionID(),
		Submit: views.T(ctx, "keys.revoke"), Danger: true}
	if k.RevokedAt != nil {
		props.Blocked = views.T(ctx, "keys.revoked")
	}
	return s.renderConfirm(c, http.StatusOK, "settings", title, props)
}

// postRevokeKey ends a key. Twice is once: the first time stays.
func (s *Server) postRevokeKey(c echo.Context) error {
	k, err := s.keyParam(c)
	if err != nil {
		return err
	}
	action, err := actionID(c)
	if err != nil {
		return err
	}
	ctx := s.viewContext(c)
	if err := s.cfg.Store.RevokeAPIKeyOnce(ctx, action, k.ID, s.actor(c)); err != nil && !errors.Is(err, store.ErrActionDone) {
		return err
	}
	s.flash(c, "ok", views.T(ctx, "keys.revoke_done", "Name", k.Name))
	return c.Redirect(http.StatusSeeOther, views.PathKeys)
}
