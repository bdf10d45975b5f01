package web

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/labstack/echo/v4"
	"golang.org/x/oauth2"

	"fusebox/store"
	"fusebox/views"
)

// OIDC is a provider where people may sign in, beside the password.
type OIDC struct {
	Name         string // on the button
	Issuer       string
	ClientID     string
	ClientSecret string
	Domains      []string // of email addresses that may; empty: all
	RoleClaim    string   // claim that holds a group or a list of them
	// Roles gives a group its role; a person has the highest of theirs, and with none of
	// the groups may not sign in. Empty: roles are given in Fusebox alone, and only
	// people who are in its list may sign in.
	Roles map[string]store.Role
}

// sessionOIDC holds what the provider's answer has to match, once.
const sessionOIDC = "oidc"

// oidcTimeout is how long the provider has for each answer.
const oidcTimeout = 5 * time.Second

// errOIDC: the provider's answer does not prove who somebody is.
var errOIDC = errors.New("web: sign-in provider's answer refused")

// errOIDCAway: the provider does not answer.
var errOIDCAway = errors.New("web: sign-in provider is away")

// oidcClient finds the provider when it is first needed: Fusebox starts without it.
type oidcClient struct {
	client *http.Client
	mu     sync.Mutex
	found  *oidc.Provider
}

func (o *oidcClient) provider(issuer string) (*oidc.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.found != nil {
		return o.found, nil
	}
	// Not the request's context: the provider fetches its keys with it later.
	p, err := oidc.NewProvider(oidc.ClientContext(context.Background(), o.client), issuer)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errOIDCAway, err)
	}
	o.found = p
	return p, nil
}

// oidcTrip is one visit to the provider.
type oidcTrip struct {
	State, Nonce, Verifier, Next string
	Again                        bool // a signed-in person proves who they are
	At                           int64
}

func (s *Server) oauth(p *oidc.Provider) oauth2.Config {
	return oauth2.Config{ClientID: s.cfg.OIDC.ClientID, ClientSecret: s.cfg.OIDC.ClientSecret, Endpoint: p.Endpoint(),
		RedirectURL: s.base + views.PathOIDC + "/callback", Scopes: []string{oidc.ScopeOpenID, "email", "profile"}}
}

// startOIDC sends the person to the provider.
func (s *Server) startOIDC(c echo.Context) error {
	p, err := s.oidc.provider(s.cfg.OIDC.Issuer)
	if err != nil {
		return s.oidcFailed(c, safeNext(c.QueryParam("next")), err)
	}
	trip := oidcTrip{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		Next: safeNext(c.QueryParam("next")), Again: c.QueryParam("again") == "1" && s.user(c).Email != "", At: s.cfg.Now().Unix()}
	kept, err := json.Marshal(trip)
	if err != nil {
		return err
	}
	s.sessions.Put(c.Request().Context(), sessionOIDC, string(kept))
	opts := []oauth2.AuthCodeOption{oidc.Nonce(trip.Nonce), oauth2.S256ChallengeOption(trip.Verifier)}
	if trip.Again {
		opts = append(opts, oauth2.SetAuthURLParam("prompt", "login"), oauth2.SetAuthURLParam("max_age", "0"))
	}
	cfg := s.oauth(p)
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return c.Redirect(http.StatusSeeOther, cfg.AuthCodeURL(trip.State, opts...))
}

// finishOIDC is where the provider sends the person back to.
func (s *Server) finishOIDC(c echo.Context) error {
	ctx := c.Request().Context()
	var trip oidcTrip
	kept := s.sessions.PopString(ctx, sessionOIDC)
	if kept == "" || json.Unmarshal([]byte(kept), &trip) != nil || c.QueryParam("state") != trip.State ||
		s.cfg.Now().Sub(time.Unix(trip.At, 0)) > pendingLife {
		return s.oidcFailed(c, "/", fmt.Errorf("%w: no such visit", errOIDC))
	}
	id, err := s.identify(c, trip)
	if err != nil {
		return s.oidcFailed(c, trip.Next, err)
	}
	by := store.Actor{Kind: "system", ID: "oidc", Name: s.cfg.OIDC.Name, RequestID: requestIDOf(c)}
	u, err := s.cfg.Store.SignInIdentity(ctx, id, by)
	switch {
	case err != nil:
		return s.oidcFailed(c, trip.Next, err)
	case trip.Again && u.ID == s.user(c).ID:
		return s.proved(c, trip.Next)
	}
	return s.proceed(c, u, trip.Next)
}

// identify trades the code for a token and checks it: signature, issuer, audience, age,
// nonce, and that the provider knows the address to be theirs.
func (s *Server) identify(c echo.Context, trip oidcTrip) (store.Identity, error) {
	refuse := func(why string, args ...any) (store.Identity, error) {
		return store.Identity{}, fmt.Errorf("%w: %w", errOIDC, fmt.Errorf(why, args...))
	}
	if word := c.QueryParam("error"); word != "" {
		return refuse("it says %q", word)
	}
	p, err := s.oidc.provider(s.cfg.OIDC.Issuer)
	if err != nil {
		return store.Identity{}, err
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(c.Request().Context(), s.oidc.client), oidcTimeout)
	defer cancel()
	cfg := s.oauth(p)
	token, err := cfg.Exchange(ctx, c.QueryParam("code"), oauth2.VerifierOption(trip.Verifier))
	var said *oauth2.RetrieveError
	switch {
	case errors.As(err, &said) && said.Response.StatusCode < 500:
		return refuse("code: %w", err)
	case err != nil:
		return store.Identity{}, fmt.Errorf("%w: %w", errOIDCAway, err)
	}
	raw, _ := token.Extra("id_token").(string)
	checked, err := p.Verifier(&oidc.Config{ClientID: cfg.ClientID, Now: s.cfg.Now}).Verify(ctx, raw)
	if err != nil {
		return refuse("token: %w", err)
	}
	if checked.Nonce != trip.Nonce {
		return refuse("nonce is another visit's")
	}
	return s.identityOf(checked, trip)
}

// identityOf reads a checked token's claims.
func (s *Server) identityOf(token *oidc.IDToken, trip oidcTrip) (store.Identity, error) {
	var who struct {
		Email    string `json:"email"`
		Verified bool   `json:"email_verified"`
		Name     string `json:"name"`
		AuthTime int64  `json:"auth_time"`
	}
	var all map[string]any
	if err := errors.Join(token.Claims(&who), token.Claims(&all)); err != nil {
		return store.Identity{}, fmt.Errorf("%w: %w", errOIDC, err)
	}
	id := store.Identity{Issuer: token.Issuer, Subject: token.Subject, Email: store.NormalEmail(who.Email), Name: who.Name,
		Role: highestRole(s.cfg.OIDC.Roles, all[s.cfg.OIDC.RoleClaim])}
	_, domain, _ := strings.Cut(id.Email, "@")
	switch {
	case !who.Verified || store.CheckEmail(id.Email) != nil:
		return id, fmt.Errorf("%w: the address is not verified", errOIDC)
	case len(s.cfg.OIDC.Domains) > 0 && !slices.Contains(s.cfg.OIDC.Domains, domain):
		return id, fmt.Errorf("%w: the domain %q is not allowed", store.ErrUnknownIdentity, domain)
	case len(s.cfg.OIDC.Roles) > 0 && id.Role == "":
		return id, fmt.Errorf("%w: no group of theirs has a role", store.ErrUnknownIdentity)
	case trip.Again && who.AuthTime < trip.At-60:
		return id, fmt.Errorf("%w: they did not sign in anew", errOIDC)
	}
	if runes := []rune(id.Name); len(runes) > 100 {
		id.Name = string(runes[:100])
	}
	return id, nil
}

// highestRole reads a claim that is a word or a list of them.
func highestRole(roles map[string]store.Role, claim any) (highest store.Role) {
	groups, _ := claim.([]any)
	if one, ok := claim.(string); ok {
		groups = []any{one}
	}
	for _, g := range groups {
		name, _ := g.(string)
		if role, ok := roles[name]; ok && (highest == "" || role.AtLeast(highest)) {
			highest = role
		}
	}
	return highest
}

// oidcFailed shows the sign-in page with what went wrong; the password still works.
func (s *Server) oidcFailed(c echo.Context, next string, err error) error {
	form := views.SignInPage{Next: next}
	status := http.StatusUnprocessableEntity
	switch {
	case errors.Is(err, errOIDCAway):
		form.Error, status = views.SignInAway, http.StatusServiceUnavailable
	case errors.Is(err, errOIDC):
		form.Error = views.SignInOIDC
	case errors.Is(err, store.ErrUnknownIdentity), errors.Is(err, store.ErrBadCredentials):
		form.Error, status = views.SignInNobody, http.StatusForbidden
	default:
		return err
	}
	note(c, slog.String("oidc", err.Error()))
	return s.signInAgain(c, status, form)
}
