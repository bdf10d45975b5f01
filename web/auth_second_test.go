package web

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"
	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/require"

	"fusebox/store"
)

var secretText = regexp.MustCompile(`\b[A-Z2-7]{32}\b`)
var recoveryText = regexp.MustCompile(`\b[a-z2-7]{4}(?:-[a-z2-7]{4}){3}\b`)

// person signs in through the form, as a new person with that role.
func (w *webtest) person(email string, role store.Role) *browser {
	w.t.Helper()
	w.newUser(email, role)
	b := w.stranger()
	require.Equal(w.t, http.StatusSeeOther, b.post("/signin", credentials(email, testPassword)).StatusCode)
	return b
}

// enrol sets up an authenticator app and returns its secret and the recovery codes.
func (b *browser) enrol() (secret string, codes []string) {
	t := b.w.t
	t.Helper()
	res := b.get("/settings/factors/app")
	require.Equal(t, http.StatusOK, res.StatusCode)
	secret = secretText.FindString(res.body)
	require.NotEmpty(t, secret)
	require.Contains(t, res.body, "data:image/png;base64,")
	require.Equal(t, secret, secretText.FindString(b.get("/settings/factors/app").body), "a reload shows the same secret")
	require.Equal(t, http.StatusUnprocessableEntity, b.post("/settings/factors/app", url.Values{"code": {"000000"}}).StatusCode)
	res = b.post("/settings/factors/app", url.Values{"code": {b.code(secret)}})
	require.Equal(t, http.StatusOK, res.StatusCode)
	codes = recoveryText.FindAllString(res.body, -1)
	return secret, unique(codes)
}

func unique(list []string) (out []string) {
	seen := map[string]bool{}
	for _, x := range list {
		if !seen[x] {
			seen[x], out = true, append(out, x)
		}
	}
	return out
}

func (b *browser) code(secret string) string {
	code, err := totp.GenerateCode(secret, b.w.clock.now())
	require.NoError(b.w.t, err)
	return code
}

func TestAppAsSecondFactor(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.person("olena@example.org", store.RoleOperator)
	secret, codes := b.enrol()
	require.Len(t, codes, store.RecoveryCodes)

	b = w.stranger()
	form := credentials("olena@example.org", testPassword)
	form.Set("next", "/payments")
	res := b.post("/signin", form)
	require.Equal(t, "/signin/second", res.Header.Get("Location"))
	planted := b.cookies["fusebox_session"]
	require.Equal(t, http.StatusSeeOther, b.get("/payments").StatusCode, "half signed in is not signed in")
	require.Equal(t, http.StatusOK, b.get("/signin/second").StatusCode)

	used := b.code(secret)
	require.Equal(t, http.StatusUnprocessableEntity, b.post("/signin/second", url.Values{"code": {used}}).StatusCode, "the code that set it up is used")
	w.clock.advance(30 * time.Second)
	code := b.code(secret)
	require.Equal(t, http.StatusUnprocessableEntity, b.post("/signin/second", url.Values{"code": {"12345"}}).StatusCode)
	res = b.post("/signin/second", url.Values{"code": {code}})
	require.Equal(t, "/payments", res.Header.Get("Location"))
	require.NotEqual(t, planted, b.cookies["fusebox_session"], "the token changes with the second factor")
	require.Equal(t, http.StatusOK, b.get("/settings").StatusCode)

	other := w.stranger()
	other.post("/signin", form)
	require.Equal(t, http.StatusUnprocessableEntity, other.post("/signin/second", url.Values{"code": {code}}).StatusCode, "a code counts once")
	require.Equal(t, http.StatusSeeOther, other.post("/signin/second", url.Values{"recovery": {strings.ToUpper(codes[0])}}).StatusCode)
	third := w.stranger()
	third.post("/signin", form)
	require.Equal(t, http.StatusUnprocessableEntity, third.post("/signin/second", url.Values{"recovery": {codes[0]}}).StatusCode, "so does a recovery code")

	w.clock.advance(pendingLife + time.Second)
	require.Equal(t, "/signin", third.post("/signin/second", url.Values{"recovery": {codes[1]}}).Header.Get("Location"), "the first proof is too old")
}

func TestAppCodesOfTheNeighbouringSteps(t *testing.T) {
	t.Parallel()
	const secret = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
	now := time.Unix(1_700_000_010, 0)
	for off, ok := range map[time.Duration]bool{-60: false, -30: true, 0: true, 30: true, 60: false} {
		code, err := totp.GenerateCode(secret, now.Add(off*time.Second))
		require.NoError(t, err)
		step, got := appStep(secret, code[:3]+" "+code[3:], now)
		require.Equal(t, ok, got, off)
		if ok {
			require.Equal(t, now.Add(off*time.Second).Unix()/30, step)
		}
	}
}

func TestSecondFactorIsLimited(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	secret, _ := w.person("olena@example.org", store.RoleOperator).enrol()
	w.clock.advance(time.Minute)
	b := w.stranger()
	b.post("/signin", credentials("olena@example.org", testPassword))
	for range guardPerPair {
		require.Equal(t, http.StatusUnprocessableEntity, b.post("/signin/second", url.Values{"code": {"000000"}}).StatusCode)
	}
	res := b.post("/signin/second", url.Values{"code": {b.code(secret)}})
	require.Equal(t, http.StatusTooManyRequests, res.StatusCode)
	require.NotEmpty(t, res.Header.Get("Retry-After"))
	require.Equal(t, http.StatusTooManyRequests, b.post("/signin/second", url.Values{"recovery": {"aaaa"}}).StatusCode)
	var rows int
	require.NoError(t, w.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM audit_log WHERE action = 'user.sign_in_failed'`).Scan(&rows))
	require.Equal(t, 2, rows, "the first wrong one and the first refused one")
}

func TestTheCountIsSharedAndItsFailureLocksNobodyOut(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.newUser("olena@example.org", store.RoleSupport)
	for range guardPerPair {
		w.stranger().post("/signin", credentials("olena@example.org", "wrong password"))
	}
	w.server.guard = newSignInGuard(w.clock.now) // another process has no memory of it
	require.Equal(t, http.StatusTooManyRequests, w.stranger().post("/signin", credentials("olena@example.org", testPassword)).StatusCode)

	w.server.guard = newSignInGuard(w.clock.now)
	w.db.Exec(t, `ALTER TABLE sign_in_tries RENAME TO gone`)
	for range guardPerPair {
		require.Equal(t, http.StatusUnprocessableEntity, w.stranger().post("/signin", credentials("olena@example.org", "wrong password")).StatusCode)
	}
	require.Equal(t, http.StatusTooManyRequests, w.stranger().post("/signin", credentials("olena@example.org", testPassword)).StatusCode, "this process counts alone")
	w.clock.advance(guardWindow)
	require.Equal(t, http.StatusSeeOther, w.stranger().post("/signin", credentials("olena@example.org", testPassword)).StatusCode)
}

// device is a person's authenticator.
type device struct {
	rp   virtualwebauthn.RelyingParty
	auth virtualwebauthn.Authenticator
	cred virtualwebauthn.Credential
}

func newDevice(handle []byte) *device {
	return &device{rp: virtualwebauthn.RelyingParty{Name: "Fusebox", ID: "fusebox.test", Origin: "http://fusebox.test"},
		auth: virtualwebauthn.NewAuthenticatorWithOptions(virtualwebauthn.AuthenticatorOptions{UserHandle: handle}),
		cred: virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeRSA)}
}

func (d *device) answer(b *browser, begin string) string {
	res := b.post(begin, nil)
	require.Equal(b.w.t, http.StatusOK, res.StatusCode, begin)
	options, err := virtualwebauthn.ParseAssertionOptions(res.body)
	require.NoError(b.w.t, err)
	d.cred.Counter++
	return virtualwebauthn.CreateAssertionResponse(d.rp, d.auth, d.cred, *options)
}

// addPasskey registers a new device of b's person.
func (b *browser) addPasskey(u store.User) (*device, reply) {
	t := b.w.t
	t.Helper()
	d := newDevice(u.ID[:])
	res := b.post("/settings/factors/passkeys/begin", nil)
	require.Equal(t, http.StatusOK, res.StatusCode)
	options, err := virtualwebauthn.ParseAttestationOptions(res.body)
	require.NoError(t, err)
	res = b.post("/settings/factors/passkeys", url.Values{"name": {"Laptop"},
		"credential": {virtualwebauthn.CreateAttestationResponse(d.rp, d.auth, d.cred, *options)}})
	d.auth.AddCredential(d.cred)
	return d, res
}

func TestPasskeys(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.person("olena@example.org", store.RoleAdmin)
	u, err := w.store.UserByEmail(t.Context(), "olena@example.org")
	require.NoError(t, err)
	d, res := b.addPasskey(u)
	require.Equal(t, http.StatusOK, res.StatusCode, res.body)
	require.Len(t, unique(recoveryText.FindAllString(res.body, -1)), store.RecoveryCodes)
	require.Contains(t, b.get("/settings").body, "Laptop")

	// Alone it signs in.
	alone := w.stranger()
	answer := d.answer(alone, "/signin/passkey/begin")
	res = alone.post("/signin/passkey", url.Values{"credential": {answer}, "next": {"/queue"}})
	require.Equal(t, "/queue", res.Header.Get("Location"), res.body)
	require.Equal(t, http.StatusOK, alone.get("/settings").StatusCode)

	// The same answer is worth nothing again, with or without its challenge.
	require.Equal(t, http.StatusUnprocessableEntity, w.stranger().post("/signin/passkey", url.Values{"credential": {answer}}).StatusCode)
	thief := w.stranger()
	thief.post("/signin/passkey/begin", nil)
	require.Equal(t, http.StatusUnprocessableEntity, thief.post("/signin/passkey", url.Values{"credential": {answer}}).StatusCode)
	require.Equal(t, http.StatusUnprocessableEntity, thief.post("/signin/passkey", url.Values{"credential": {"{}"}}).StatusCode)

	// After the password it is the second factor.
	second := w.stranger()
	require.Equal(t, "/signin/second", second.post("/signin", credentials("olena@example.org", testPassword)).Header.Get("Location"))
	res = second.post("/signin/second/passkey", url.Values{"credential": {d.answer(second, "/signin/second/passkey/begin")}})
	require.Equal(t, http.StatusSeeOther, res.StatusCode, res.body)
	require.Equal(t, http.StatusOK, second.get("/settings").StatusCode)

	// A counter that went back means a copied key.
	d.cred.Counter = 0
	copied := w.stranger()
	require.Equal(t, http.StatusUnprocessableEntity, copied.post("/signin/passkey", url.Values{"credential": {d.answer(copied, "/signin/passkey/begin")}}).StatusCode)

	// Without the device's own check of its owner it is refused.
	d.cred.Counter = 100
	d.auth.Options.UserNotVerified = true
	lazy := w.stranger()
	require.Equal(t, http.StatusUnprocessableEntity, lazy.post("/signin/passkey", url.Values{"credential": {d.answer(lazy, "/signin/passkey/begin")}}).StatusCode)
}

func TestChangesAskAgain(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.person("olena@example.org", store.RoleAdmin)
	require.Equal(t, http.StatusOK, b.get("/settings/users/new").StatusCode)
	w.clock.advance(recentFor + time.Second)
	res := b.get("/settings/users/new")
	require.Equal(t, "/signin/again?next=%2Fsettings%2Fusers%2Fnew", res.Header.Get("Location"))
	require.Equal(t, http.StatusSeeOther, b.post("/settings/keys/new", url.Values{"name": {"x"}}).StatusCode)
	require.Equal(t, "/signin/again?next=%2Fsettings%2Ffactors", b.post("/settings/factors/passkeys/begin", nil).Header.Get("Location"))
	require.Equal(t, http.StatusUnauthorized, b.htmx("/settings/users/new").StatusCode)
	require.Equal(t, http.StatusOK, b.get("/signin/again?next=/settings/users/new").StatusCode)
	form := url.Values{"password": {"wrong password"}, "next": {"/settings/users/new"}}
	require.Equal(t, http.StatusUnprocessableEntity, b.post("/signin/again", form).StatusCode)
	form.Set("password", testPassword)
	require.Equal(t, "/settings/users/new", b.post("/signin/again", form).Header.Get("Location"))
	require.Equal(t, http.StatusOK, b.get("/settings/users/new").StatusCode)
}

func TestASecondFactorCanBeRequired(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, func(c *Config) { c.RequireFactor = true })
	require.Equal(t, http.StatusOK, w.person("petro@example.org", store.RoleSupport).get("/payments").StatusCode)
	b := w.person("olena@example.org", store.RoleOperator)
	for _, path := range []string{"/", "/payments", "/settings"} {
		require.Equal(t, "/settings/factors?required=1", b.get(path).Header.Get("Location"), path)
	}
	require.Equal(t, http.StatusOK, b.get("/settings/factors").StatusCode)
	b.enrol()
	require.Equal(t, http.StatusOK, b.get("/payments").StatusCode)
}
