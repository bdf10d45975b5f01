package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"fusebox/store"
	"fusebox/views"
)

// sessionChallenge holds what a passkey has to answer, once.
const sessionChallenge = "challenge"

// errPasskey: the passkey's answer was not accepted.
var errPasskey = errors.New("web: passkey not accepted")

// newPasskeys returns the checker for the console's own address. It is nil when that is a
// bare IP address: passkeys belong to a name.
func newPasskeys(origin string) (*webauthn.WebAuthn, error) {
	u, err := url.Parse(origin)
	if err != nil {
		return nil, err
	}
	if net.ParseIP(u.Hostname()) != nil {
		return nil, nil
	}
	return webauthn.New(&webauthn.Config{RPID: u.Hostname(), RPDisplayName: "Fusebox", RPOrigins: []string{origin},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{ResidentKey: protocol.ResidentKeyRequirementRequired,
			RequireResidentKey: protocol.ResidentKeyRequired(), UserVerification: protocol.VerificationRequired}})
}

// keyOwner is a person as the checker sees them.
type keyOwner struct {
	user store.User
	keys []webauthn.Credential
}

// WebAuthnID is the person's id: no address, so that it may be kept on a device.
func (o keyOwner) WebAuthnID() []byte                         { return o.user.ID[:] }
func (o keyOwner) WebAuthnName() string                       { return o.user.Email }
func (o keyOwner) WebAuthnDisplayName() string                { return o.user.Name }
func (o keyOwner) WebAuthnCredentials() []webauthn.Credential { return o.keys }

func (s *Server) keyOwner(ctx context.Context, u store.User) (keyOwner, error) {
	f, err := s.cfg.Store.Factors(ctx, u.ID)
	if err != nil {
		return keyOwner{}, err
	}
	o := keyOwner{user: u}
	for _, k := range f.Passkeys {
		var cred webauthn.Credential
		if err := json.Unmarshal(k.Credential, &cred); err != nil {
			return keyOwner{}, fmt.Errorf("passkey %s: %w", k.ID, err)
		}
		o.keys = append(o.keys, cred)
	}
	return o, nil
}

// challenge keeps what has to be answered and sends it to the script.
func (s *Server) challenge(c echo.Context, options any, data *webauthn.SessionData, err error) error {
	if err != nil {
		return err
	}
	kept, err := json.Marshal(data)
	if err != nil {
		return err
	}
	s.sessions.Put(c.Request().Context(), sessionChallenge, string(kept))
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return c.JSON(http.StatusOK, options)
}

// takeChallenge returns what has to be answered and forgets it: an answer counts once.
func (s *Server) takeChallenge(c echo.Context) (data webauthn.SessionData, err error) {
	kept := s.sessions.PopString(c.Request().Context(), sessionChallenge)
	if kept == "" || json.Unmarshal([]byte(kept), &data) != nil {
		return data, errPasskey
	}
	return data, nil
}

// beginPasskeySignIn asks for any passkey of this console: who comes is in the answer.
func (s *Server) beginPasskeySignIn(c echo.Context) error {
	options, data, err := s.passkeys.BeginDiscoverableLogin()
	return s.challenge(c, options, data, err)
}

// passkeySignIn signs in with a passkey alone: the device checked its owner, so it is
// possession and knowledge in one.
func (s *Server) passkeySignIn(c echo.Context) error {
	next := safeNext(c.FormValue("next"))
	try, wait := s.attempt(c, "passkey")
	if wait > 0 {
		return s.signInAgain(c, tooMany(c, wait), views.SignInPage{Next: next, Error: views.SignInTooMany})
	}
	u, err := s.checkPasskey(c, nil)
	if errors.Is(err, errPasskey) {
		try.refused(c)
		return s.signInAgain(c, http.StatusUnprocessableEntity, views.SignInPage{Next: next, Error: views.SignInCode})
	}
	if err != nil {
		return err
	}
	try.succeeded(c)
	return s.enter(c, u, next)
}

// beginFor asks for one of a known person's passkeys.
func (s *Server) beginFor(c echo.Context, u store.User) error {
	o, err := s.keyOwner(c.Request().Context(), u)
	if err != nil {
		return err
	}
	if len(o.keys) == 0 {
		return store.ErrNotFound
	}
	options, data, err := s.passkeys.BeginLogin(o)
	return s.challenge(c, options, data, err)
}

func (s *Server) beginSecondPasskey(c echo.Context) error {
	u, err := s.pending(c)
	if err != nil {
		return s.startOver(c, err)
	}
	return s.beginFor(c, u)
}

// secondPasskey takes a passkey as the second factor.
func (s *Server) secondPasskey(c echo.Context) error {
	u, err := s.pending(c)
	if err != nil {
		return s.startOver(c, err)
	}
	try, wait := s.attempt(c, u.ID.String())
	if wait > 0 {
		return s.askSecond(c, tooMany(c, wait), u, views.SignInTooMany)
	}
	_, err = s.checkPasskey(c, &u)
	if errors.Is(err, errPasskey) {
		try.refused(c)
		return s.askSecond(c, http.StatusUnprocessableEntity, u, views.SignInCode)
	}
	if err != nil {
		return err
	}
	try.succeeded(c)
	return s.enter(c, u, s.sessions.GetString(c.Request().Context(), pendingNext))
}

func (s *Server) beginAgainPasskey(c echo.Context) error { return s.beginFor(c, s.user(c)) }

// againPasskey takes a passkey as the fresh proof.
func (s *Server) againPasskey(c echo.Context) error {
	u, next := s.user(c), safeNext(c.FormValue("next"))
	_, err := s.checkPasskey(c, &u)
	if errors.Is(err, errPasskey) {
		return s.askAgain(c, http.StatusUnprocessableEntity, next, views.SignInCode)
	}
	if err != nil {
		return err
	}
	return s.proved(c, next)
}

// checkPasskey checks the posted answer: of known, or of whomever it names. errPasskey
// for every answer that does not prove it, and for people who are disabled.
func (s *Server) checkPasskey(c echo.Context, known *store.User) (store.User, error) {
	ctx := c.Request().Context()
	data, err := s.takeChallenge(c)
	if err != nil {
		return store.User{}, err
	}
	answer, err := protocol.ParseCredentialRequestResponseBytes([]byte(c.FormValue("credential")))
	if err != nil {
		return store.User{}, s.noPasskey(c, err)
	}
	var (
		owner keyOwner
		cred  *webauthn.Credential
		fault error // ours, not the answer's
	)
	if known != nil {
		if owner, err = s.keyOwner(ctx, *known); err != nil {
			return store.User{}, err
		}
		cred, err = s.passkeys.ValidateLogin(owner, data, answer)
	} else {
		_, cred, err = s.passkeys.ValidatePasskeyLogin(func(_, handle []byte) (webauthn.User, error) {
			owner, fault = s.ownerOf(ctx, handle)
			return owner, fault
		}, data, answer)
	}
	switch {
	case fault != nil && !errors.Is(fault, store.ErrNotFound):
		return store.User{}, fault
	case err != nil:
		return store.User{}, s.noPasskey(c, err)
	case owner.user.Disabled:
		return store.User{}, errPasskey
	case cred.Authenticator.CloneWarning:
		return store.User{}, s.noPasskey(c, errors.New("the counter went back: a copied key"))
	}
	kept, err := json.Marshal(cred)
	if err != nil {
		return store.User{}, err
	}
	err = s.cfg.Store.PasskeyUsed(ctx, owner.user.ID, cred.ID, kept, cred.Authenticator.SignCount)
	if errors.Is(err, store.ErrCodeUsed) {
		return store.User{}, s.noPasskey(c, err)
	}
	return owner.user, err
}

// ownerOf finds the person whose id a passkey carries. ErrNotFound.
func (s *Server) ownerOf(ctx context.Context, handle []byte) (keyOwner, error) {
	id, err := uuid.FromBytes(handle)
	if err != nil {
		return keyOwner{}, store.ErrNotFound
	}
	u, err := s.cfg.Store.User(ctx, id)
	if err != nil {
		return keyOwner{}, err
	}
	return s.keyOwner(ctx, u)
}

// noPasskey logs why an answer was refused; the person only learns that it was.
func (s *Server) noPasskey(c echo.Context, why error) error {
	note(c, slog.String("passkey", why.Error()))
	return errPasskey
}
