package web

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"image/png"
	"net/http"
	"strings"

	"github.com/a-h/templ"
	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/labstack/echo/v4"
	"github.com/pquerna/otp"
	"github.com/pquerna/otp/totp"

	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
)

// sessionAppURL holds the authenticator app's secret until its first code confirms it.
const sessionAppURL = "app_url"

// qrSize of the picture, in pixels: two to each that is shown.
const qrSize = 464

// registerFactors adds setting up and removing second factors.
func (s *Server) registerFactors(recent *echo.Group) {
	s.console.GET(views.PathFactors, s.factorsPage)
	recent.GET(views.PathFactors+"/app", s.appForm)
	recent.POST(views.PathFactors+"/app", s.postApp)
	recent.GET(views.PathFactors+"/app/remove", s.confirmRemoveApp)
	recent.POST(views.PathFactors+"/app/remove", s.postRemoveApp)
	recent.GET(views.PathFactors+"/codes", s.confirmCodes)
	recent.POST(views.PathFactors+"/codes", s.postCodes)
	if s.passkeys != nil {
		recent.POST(views.PathFactors+"/passkeys/begin", s.beginPasskey)
		recent.POST(views.PathFactors+"/passkeys", s.postPasskey)
	}
	recent.GET(views.PathFactors+"/passkeys/:id", s.confirmRemovePasskey)
	recent.POST(views.PathFactors+"/passkeys/:id", s.postRemovePasskey)
}

// factors reads what the person has, for their pages.
func (s *Server) factors(c echo.Context) (views.FactorsView, error) {
	f, err := s.cfg.Store.Factors(c.Request().Context(), s.user(c).ID)
	if err != nil {
		return views.FactorsView{}, err
	}
	v := views.FactorsView{AppSince: f.AppSince, CodesLeft: f.CodesLeft, Any: f.AppSince != nil || len(f.Passkeys) > 0, ByName: s.passkeys != nil}
	for _, k := range f.Passkeys {
		v.Passkeys = append(v.Passkeys, views.PasskeyRow{ID: k.ID.String(), Name: k.Name, Created: k.CreatedAt, Used: k.LastUsedAt})
	}
	return v, nil
}

func (s *Server) factorsPage(c echo.Context) error { return s.renderFactors(c, http.StatusOK, "") }

func (s *Server) renderFactors(c echo.Context, status int, problem string) error {
	f, err := s.factors(c)
	if err != nil {
		return err
	}
	u := s.user(c)
	f.Required = s.cfg.RequireFactor && !u.HasFactor && u.Role.AtLeast(store.RoleOperator)
	p := s.page(c, "settings", views.T(s.viewContext(c), "factors.title"))
	return s.render(c, status, views.Factors(views.FactorsPage{Page: p, Factors: f, Problem: problem}))
}

// appForm shows a new secret, or the one shown before when the page is loaded again.
func (s *Server) appForm(c echo.Context) error {
	ctx := c.Request().Context()
	key, err := otp.NewKeyFromURL(s.sessions.GetString(ctx, sessionAppURL))
	if err != nil || key.Secret() == "" {
		key, err = totp.Generate(totp.GenerateOpts{Issuer: "Fusebox", AccountName: s.user(c).Email, Period: appPeriod, SecretSize: 20})
		if err != nil {
			return err
		}
		s.sessions.Put(ctx, sessionAppURL, key.URL())
	}
	return s.renderApp(c, http.StatusOK, key, false)
}

func (s *Server) renderApp(c echo.Context, status int, key *otp.Key, wrong bool) error {
	picture, err := key.Image(qrSize, qrSize)
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	if err := png.Encode(&buf, picture); err != nil {
		return err
	}
	p := s.page(c, "settings", views.T(s.viewContext(c), "app.title"))
	return s.render(c, status, views.SetUpApp(views.AppPage{Page: p, Secret: key.Secret(), Wrong: wrong,
		QR: "data:image/png;base64," + base64.StdEncoding.EncodeToString(buf.Bytes())}))
}

// postApp takes the first code: it proves that the app has the secret.
func (s *Server) postApp(c echo.Context) error {
	ctx, u := s.viewContext(c), s.user(c)
	key, err := otp.NewKeyFromURL(s.sessions.GetString(ctx, sessionAppURL))
	if err != nil || key.Secret() == "" {
		return c.Redirect(http.StatusSeeOther, views.PathFactors+"/app")
	}
	step, ok := appStep(key.Secret(), c.FormValue("code"), s.cfg.Now())
	if !ok {
		return s.renderApp(c, http.StatusUnprocessableEntity, key, true)
	}
	codes, err := s.cfg.Store.AddApp(ctx, u.ID, key.Secret(), step, s.actor(c))
	if err != nil {
		return err
	}
	s.sessions.Remove(ctx, sessionAppURL)
	return s.factorAdded(c, codes)
}

// factorAdded shows the recovery codes that came with the first factor.
func (s *Server) factorAdded(c echo.Context, codes []string) error {
	ctx := s.viewContext(c)
	if len(codes) == 0 {
		s.flash(c, "ok", views.T(ctx, "factors.added"))
		return c.Redirect(http.StatusSeeOther, views.PathSettings+"#signing-in")
	}
	return s.renderCodes(c, codes)
}

func (s *Server) renderCodes(c echo.Context, codes []string) error {
	ctx := s.viewContext(c)
	return s.render(c, http.StatusOK, views.Secrets(views.SecretsPage{Page: s.page(c, "settings", views.T(ctx, "settings.codes")),
		Title: views.T(ctx, "settings.codes"), Lead: views.T(ctx, "codes.lead"), Label: views.T(ctx, "second.recovery_code"),
		Secrets: codes, Back: views.PathSettings}))
}

// beginPasskey asks the browser for a new passkey.
func (s *Server) beginPasskey(c echo.Context) error {
	o, err := s.keyOwner(c.Request().Context(), s.user(c))
	if err != nil {
		return err
	}
	options, data, err := s.passkeys.BeginRegistration(o, webauthn.WithExclusions(webauthn.Credentials(o.keys).CredentialDescriptors()))
	return s.challenge(c, options, data, err)
}

// postPasskey keeps a new passkey.
func (s *Server) postPasskey(c echo.Context) error {
	ctx := s.viewContext(c)
	cred, err := s.newPasskey(c)
	if errors.Is(err, errPasskey) {
		return s.renderFactors(c, http.StatusUnprocessableEntity, views.T(ctx, "passkey.failed"))
	}
	if err != nil {
		return err
	}
	kept, err := json.Marshal(cred)
	if err != nil {
		return err
	}
	name := []rune(strings.TrimSpace(c.FormValue("name")))
	if len(name) == 0 {
		name = []rune(views.T(ctx, "settings.passkey_unnamed"))
	}
	codes, err := s.cfg.Store.AddPasskey(ctx, s.user(c).ID, string(name[:min(len(name), 60)]), cred.ID, kept, cred.Authenticator.SignCount, s.actor(c))
	if err != nil {
		return err
	}
	return s.factorAdded(c, codes)
}

// newPasskey checks the browser's answer. errPasskey.
func (s *Server) newPasskey(c echo.Context) (*webauthn.Credential, error) {
	data, err := s.takeChallenge(c)
	if err != nil {
		return nil, err
	}
	answer, err := protocol.ParseCredentialCreationResponseBytes([]byte(c.FormValue("credential")))
	if err != nil {
		return nil, s.noPasskey(c, err)
	}
	o, err := s.keyOwner(c.Request().Context(), s.user(c))
	if err != nil {
		return nil, err
	}
	cred, err := s.passkeys.CreateCredential(o, data, answer)
	if err != nil {
		return nil, s.noPasskey(c, err)
	}
	return cred, nil
}

// confirmFactor asks before a change of factors.
func (s *Server) confirmFactor(c echo.Context, title, lead, path, submit string) error {
	return s.renderConfirm(c, http.StatusOK, "settings", title, components.ConfirmProps{Title: title, Lead: lead,
		Action: templ.SafeURL(path), Cancel: views.PathSettings, ActionID: newActionID(), Submit: submit})
}

func (s *Server) confirmRemoveApp(c echo.Context) error {
	ctx := s.viewContext(c)
	return s.confirmFactor(c, views.T(ctx, "app.remove"), views.T(ctx, "factors.remove_lead"), views.PathFactors+"/app/remove", views.T(ctx, "settings.remove"))
}

func (s *Server) postRemoveApp(c echo.Context) error {
	action, err := actionID(c)
	if err != nil {
		return err
	}
	return s.factorRemoved(c, s.cfg.Store.RemoveApp(c.Request().Context(), action, s.user(c).ID, s.actor(c)))
}

func (s *Server) confirmRemovePasskey(c echo.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	ctx := s.viewContext(c)
	return s.confirmFactor(c, views.T(ctx, "passkey.remove"), views.T(ctx, "factors.remove_lead"),
		views.PathFactors+"/passkeys/"+id.String(), views.T(ctx, "settings.remove"))
}

func (s *Server) postRemovePasskey(c echo.Context) error {
	id, err := idParam(c)
	if err != nil {
		return err
	}
	action, err := actionID(c)
	if err != nil {
		return err
	}
	return s.factorRemoved(c, s.cfg.Store.RemovePasskey(c.Request().Context(), action, s.user(c).ID, id, s.actor(c)))
}

// factorRemoved says so.
func (s *Server) factorRemoved(c echo.Context, err error) error {
	if err != nil && !doneOrGone(err) {
		return err
	}
	s.flash(c, "ok", views.T(s.viewContext(c), "factors.removed"))
	return c.Redirect(http.StatusSeeOther, views.PathSettings+"#signing-in")
}

func (s *Server) confirmCodes(c echo.Context) error {
	ctx := s.viewContext(c)
	return s.confirmFactor(c, views.T(ctx, "settings.codes_new"), views.T(ctx, "codes.new_lead"), views.PathFactors+"/codes", views.T(ctx, "settings.codes_new"))
}

// postCodes replaces the recovery codes and shows the new ones, once.
func (s *Server) postCodes(c echo.Context) error {
	if !s.user(c).HasFactor {
		return store.ErrNotAllowed
	}
	action, err := actionID(c)
	if err != nil {
		return err
	}
	codes, err := s.cfg.Store.NewRecoveryCodes(c.Request().Context(), action, s.user(c).ID, s.actor(c))
	if errors.Is(err, store.ErrActionDone) {
		s.flash(c, "warning", views.T(s.viewContext(c), "codes.made"))
		return c.Redirect(http.StatusSeeOther, views.PathSettings+"#signing-in")
	}
	if err != nil {
		return err
	}
	return s.renderCodes(c, codes)
}
