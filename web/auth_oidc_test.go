package web

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"fusebox/store"
)

// idp is a small sign-in provider: discovery, keys, and the code flow with PKCE.
type idp struct {
	t      *testing.T
	srv    *httptest.Server
	key    *rsa.PrivateKey
	mu     sync.Mutex
	codes  map[string]url.Values // code → what was asked with
	claims map[string]any        // of the next token, over the honest ones
	forged bool                  // the next token is signed with another key
	plain  bool                  // the next token is not signed at all
}

func newIDP(t *testing.T, now func() time.Time) *idp {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p := &idp{t: t, key: key, codes: map[string]url.Values{}, claims: map[string]any{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		p.json(w, map[string]any{"issuer": p.srv.URL, "authorization_endpoint": p.srv.URL + "/auth", "token_endpoint": p.srv.URL + "/token",
			"jwks_uri": p.srv.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		p.json(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "1", Algorithm: "RS256", Use: "sig"}}})
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) { p.token(w, r, now()) })
	p.srv = httptest.NewServer(mux)
	t.Cleanup(p.srv.Close)
	return p
}

func (p *idp) json(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// token trades a code for a token, if the PKCE verifier fits.
func (p *idp) token(w http.ResponseWriter, r *http.Request, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked, ok := p.codes[r.FormValue("code")]
	delete(p.codes, r.FormValue("code"))
	if !ok || s256(r.FormValue("code_verifier")) != asked.Get("code_challenge") {
		w.WriteHeader(http.StatusBadRequest)
		p.json(w, map[string]string{"error": "invalid_grant"})
		return
	}
	claims := map[string]any{"iss": p.srv.URL, "aud": "fusebox", "sub": "olena-1", "exp": now.Add(time.Hour).Unix(), "iat": now.Unix(),
		"nonce": asked.Get("nonce"), "email": "olena@example.org", "email_verified": true, "name": "Olena"}
	for name, v := range p.claims {
		claims[name] = v
	}
	p.json(w, map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": p.sign(claims)})
}

func (p *idp) sign(claims map[string]any) string {
	body, err := json.Marshal(claims)
	require.NoError(p.t, err)
	if p.plain {
		return b64(`{"alg":"none"}`) + "." + b64(string(body)) + "."
	}
	key := p.key
	if p.forged {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
		require.NoError(p.t, err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}}, nil)
	require.NoError(p.t, err)
	signed, err := signer.Sign(body)
	require.NoError(p.t, err)
	token, err := signed.CompactSerialize()
	require.NoError(p.t, err)
	return token
}

// visit goes to the provider and back, as a browser does.
func (p *idp) visit(b *browser) reply {
	res := b.get("/signin/oidc?next=/queue")
	require.Equal(p.t, http.StatusSeeOther, res.StatusCode, res.body)
	to, err := url.Parse(res.Header.Get("Location"))
	require.NoError(p.t, err)
	asked := to.Query()
	require.Equal(p.t, "S256", asked.Get("code_challenge_method"))
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = asked
	p.mu.Unlock()
	return b.get("/signin/oidc/callback?" + url.Values{"code": {code}, "state": {asked.Get("state")}}.Encode())
}

func withOIDC(t *testing.T, roles map[string]store.Role) (*webtest, *idp) {
	t.Helper()
	var w *webtest
	p := newIDP(t, func() time.Time { return w.clock.now() })
	w = newWebtest(t, func(c *Config) {
		c.OIDC = &OIDC{Name: "Acme", Issuer: p.srv.URL, ClientID: "fusebox", ClientSecret: "s", Domains: []string{"example.org"}, RoleClaim: "groups", Roles: roles}
	})
	return w, p
}

func TestSignInAtAProvider(t *testing.T) {
	t.Parallel()
	w, p := withOIDC(t, nil)
	require.Contains(t, w.stranger().get("/signin").body, "Sign in with Acme")
	require.Equal(t, http.StatusForbidden, p.visit(w.stranger()).StatusCode, "nobody here has the address")
	u := w.newUser("olena@example.org", store.RoleSupport)
	b := w.stranger()
	require.Equal(t, "/queue", p.visit(b).Header.Get("Location"))
	require.Equal(t, http.StatusOK, b.get("/settings").StatusCode)

	p.claims = map[string]any{"email": "new-name@example.org"}
	require.Equal(t, "/queue", p.visit(w.stranger()).Header.Get("Location"), "the subject is the person, whatever the address")
	p.claims = map[string]any{"sub": "somebody-else"}
	require.Equal(t, http.StatusForbidden, p.visit(w.stranger()).StatusCode, "the address was given to another person")
	p.claims = nil
	require.NoError(t, w.store.SetDisabled(t.Context(), u.Email, true, store.System("test")))
	require.Equal(t, http.StatusForbidden, p.visit(w.stranger()).StatusCode)
}

func TestAProvidersGroupsGiveTheRole(t *testing.T) {
	t.Parallel()
	w, p := withOIDC(t, map[string]store.Role{"ops": store.RoleOperator, "help": store.RoleSupport})
	require.Equal(t, http.StatusForbidden, p.visit(w.stranger()).StatusCode)
	p.claims = map[string]any{"groups": []string{"help", "ops", "choir"}}
	require.Equal(t, "/queue", p.visit(w.stranger()).Header.Get("Location"))
	u, err := w.store.UserByEmail(t.Context(), "olena@example.org")
	require.NoError(t, err)
	require.Equal(t, store.RoleOperator, u.Role)
	p.claims = map[string]any{"groups": "help"}
	require.Equal(t, "/queue", p.visit(w.stranger()).Header.Get("Location"))
	u, err = w.store.UserByEmail(t.Context(), "olena@example.org")
	require.NoError(t, err)
	require.Equal(t, store.RoleSupport, u.Role)
}

func TestHostileAnswersOfAProvider(t *testing.T) {
	t.Parallel()
	w, p := withOIDC(t, nil)
	w.newUser("olena@example.org", store.RoleAdmin)
	for name, claims := range map[string]map[string]any{
		"another visit's nonce": {"nonce": "other"},
		"for another client":    {"aud": "shop"},
		"expired":               {"exp": w.clock.now().Add(-time.Hour).Unix()},
		"another issuer":        {"iss": "https://evil.example"},
		"address not verified":  {"email_verified": false},
		"no address":            {"email": ""},
	} {
		p.claims = claims
		b := w.stranger()
		require.Equal(t, http.StatusUnprocessableEntity, p.visit(b).StatusCode, name)
		require.Equal(t, http.StatusSeeOther, b.get("/queue").StatusCode, name)
	}
	p.claims = map[string]any{"email": "olena@evil.example"}
	require.Equal(t, http.StatusForbidden, p.visit(w.stranger()).StatusCode, "a domain that is not allowed")
	p.claims, p.plain = nil, true
	require.Equal(t, http.StatusUnprocessableEntity, p.visit(w.stranger()).StatusCode, "unsigned")
	p.plain, p.forged = false, true
	require.Equal(t, http.StatusUnprocessableEntity, p.visit(w.stranger()).StatusCode, "signed by somebody else")
	p.forged = false
	require.Equal(t, http.StatusUnprocessableEntity, w.stranger().get("/signin/oidc/callback?code=x&state=y").StatusCode, "a visit nobody began")
	b := w.stranger()
	b.get("/signin/oidc")
	require.Equal(t, http.StatusUnprocessableEntity, b.get("/signin/oidc/callback?code=x&state=y").StatusCode, "another visit's state")
}

func TestAProviderThatIsAwayLeavesThePassword(t *testing.T) {
	t.Parallel()
	w, p := withOIDC(t, nil)
	w.newUser("olena@example.org", store.RoleAdmin)
	p.srv.Close()
	b := w.stranger()
	res := b.get("/signin/oidc")
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	require.Contains(t, res.body, "Your password still works")
	require.Equal(t, http.StatusSeeOther, b.post("/signin", credentials("olena@example.org", testPassword)).StatusCode)
}

func b64(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func s256(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
