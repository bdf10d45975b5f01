package web

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/views"
)

// passwordText finds a generated password on its page, apiKeyText a key.
var (
	passwordText = regexp.MustCompile(`\b[a-z2-7]{26}\b`)
	apiKeyText   = regexp.MustCompile(`\bfbk_[A-Za-z0-9_-]{43}`)
)

// audited counts the audit rows of an action.
func (w *webtest) audited(action string) int {
	w.t.Helper()
	return w.number(`SELECT count(*) FROM audit_log WHERE action = $1`, action)
}

// filled is the form of a page with these fields.
func (b *browser) filled(path string, fields ...string) url.Values {
	b.w.t.Helper()
	res := b.get(path)
	require.Equal(b.w.t, http.StatusOK, res.StatusCode, path)
	form := formOf(b.w.t, res.body)
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return form
}

// twice posts a form from the same browser twice at once, as an impatient hand does.
func (b *browser) twice(path string, form url.Values) (replies [2]reply) {
	var wg sync.WaitGroup
	for i := range replies {
		hand := &browser{w: b.w, cookies: maps.Clone(b.cookies), header: b.header}
		wg.Go(func() { replies[i] = hand.post(path, form) })
	}
	wg.Wait()
	return replies
}

func TestPeopleAreAddedChangedAndKeptOut(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	ana := w.person("ana@example.org", store.RoleAdmin)
	require.Equal(t, http.StatusBadRequest, ana.post("/settings/users/new", url.Values{"email": {"carl@example.org"}}).StatusCode, "no action id")
	for field, value := range map[string]string{"email": "not an address", "name": strings.Repeat("x", 101), "role": "root"} {
		form := ana.filled("/settings/users/new", "email", "carl@example.org", "name", "Carl", "role", "support")
		form.Set(field, value)
		res := ana.post("/settings/users/new", form)
		require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode, field)
		require.Contains(t, res.body, `href="#`+field+`"`)
	}
	res := ana.post("/settings/users/new", ana.filled("/settings/users/new", "email", "carl@example.org", "name", "Carl <b>", "role", "support"))
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	password := passwordText.FindString(res.body)
	res = ana.post("/settings/users/new", ana.filled("/settings/users/new", "email", "Carl@example.org", "role", "support"))
	require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode, "one person for an address")
	u, err := w.store.UserByEmail(t.Context(), "carl@example.org")
	require.NoError(t, err)
	require.Contains(t, ana.get(views.PathUsers).body, "Carl &lt;b&gt;")

	carl := w.stranger()
	signIn := func(password string) int { return carl.post("/signin", credentials(u.Email, password)).StatusCode }
	change := func(what string, fields ...string) reply {
		path := views.UserPath(u.ID.String()) + "/" + what
		return ana.post(path, ana.filled(path, fields...))
	}
	require.Equal(t, http.StatusSeeOther, signIn(password))
	carl.enrol()
	require.Contains(t, ana.get(views.UserPath(u.ID.String())).body, "Second factor")
	require.Equal(t, http.StatusSeeOther, change("reset-factor", "reason", "lost the phone").StatusCode)
	require.False(t, signedInStill(carl), "every change ends the sessions")
	require.Equal(t, http.StatusSeeOther, signIn(password))
	require.Equal(t, http.StatusOK, carl.get("/payments").StatusCode, "no second factor any more")
	require.Equal(t, http.StatusSeeOther, change("role", "role", "operator").StatusCode)
	require.Equal(t, http.StatusSeeOther, change("signout").StatusCode)
	require.Equal(t, http.StatusSeeOther, change("disable").StatusCode)
	require.Equal(t, http.StatusUnprocessableEntity, signIn(password))
	require.Contains(t, ana.get(views.UserPath(u.ID.String())+"/disable").body, "It is so already.")
	require.Equal(t, http.StatusSeeOther, change("enable").StatusCode)
	res = change("password")
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.Equal(t, http.StatusUnprocessableEntity, signIn(password), "the old one")
	require.Equal(t, http.StatusSeeOther, signIn(passwordText.FindString(res.body)))

	require.Equal(t, http.StatusUnprocessableEntity, change("signout", "reason", strings.Repeat("я", maxReason+1)).StatusCode)
	require.Equal(t, http.StatusBadRequest, change("signout", "version", "x").StatusCode)
	require.Equal(t, http.StatusNotFound, ana.get(views.UserPath(u.ID.String())+"/promote").StatusCode)
	require.Equal(t, http.StatusNotFound, ana.get(views.UserPath(uuid.NewString())).StatusCode)
	for _, action := range []string{"user.factor_reset", "user.role", "user.sign_out_everywhere", "user.disable", "user.enable", "user.passwd"} {
		require.Equal(t, 1, w.audited(action), action)
	}
}

func TestTwoAdminsDoNotOverwriteEachOther(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	ana, boris := w.person("ana@example.org", store.RoleAdmin), w.person("boris@example.org", store.RoleAdmin)
	carl := w.newUser("carl@example.org", store.RoleSupport)
	path := views.UserPath(carl.ID.String()) + "/role"
	hers, his := ana.filled(path, "role", "admin", "reason", "vacation cover"), boris.filled(path, "role", "operator")
	require.Equal(t, http.StatusSeeOther, boris.post(path, his).StatusCode)
	res := ana.post(path, hers)
	require.Equal(t, http.StatusConflict, res.StatusCode)
	require.Contains(t, res.body, "boris changed this person at")
	require.Contains(t, res.body, "(the role)")
	require.Contains(t, res.body, "vacation cover", "what she wrote is still there")
	now, err := w.store.User(t.Context(), carl.ID)
	require.NoError(t, err)
	require.Equal(t, store.RoleOperator, now.Role)
	require.Equal(t, 1, w.audited("user.role"))

	again := formOf(t, res.body)
	again.Set("role", "admin")
	require.Equal(t, http.StatusSeeOther, ana.post(path, again).StatusCode, "having seen it, she may")
}

func TestTheLastAdminStays(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	ana := w.person("ana@example.org", store.RoleAdmin)
	u, err := w.store.UserByEmail(t.Context(), "ana@example.org")
	require.NoError(t, err)
	for _, change := range []string{"role", "disable"} {
		path := views.UserPath(u.ID.String()) + "/" + change
		res := ana.post(path, ana.filled(path, "role", "support"))
		require.Equal(t, http.StatusConflict, res.StatusCode, change)
		require.Contains(t, res.body, "the last admin")
	}
	require.Equal(t, http.StatusOK, ana.get(views.PathUsers).StatusCode)
}

// Every form of these pages, sent twice at once, has one effect.
func TestAccessFormsCountOnce(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.person("ana@example.org", store.RoleAdmin)
	u, err := w.store.UserByEmail(t.Context(), "ana@example.org")
	require.NoError(t, err)
	carl := w.newUser("carl@example.org", store.RoleSupport)
	key, _, err := w.store.CreateAPIKey(t.Context(), "shop", store.System("test"))
	require.NoError(t, err)
	b.enrol()
	b.addPasskey(u)
	f, err := w.store.Factors(t.Context(), u.ID)
	require.NoError(t, err)
	other := &browser{w: w, cookies: map[string]string{w.server.sessions.Cookie.Name: w.session(u)}}
	require.True(t, signedInStill(other))
	session := w.otherSession(u.ID, b)
	require.Equal(t, 1, w.audited("user.add")-1, "carl, and ana before") // both by the test
	users := w.audited("user.add")

	for _, do := range []struct {
		path, action string
		fields       []string
		before       int
	}{
		{views.PathUsers + "/new", "user.add", []string{"email", "dora@example.org", "role", "support"}, users},
		{views.UserPath(carl.ID.String()) + "/password", "user.passwd", nil, 0},
		{views.PathKeys + "/new", "apikey.add", []string{"name", "batch", "scope", "payments"}, 1},
		{views.PathKeys + "/" + key.ID.String() + "/revoke", "apikey.revoke", nil, 0},
		{views.PathSessions + "/" + session, "user.sessions_revoked", nil, 0},
		{views.PathSessions + "/others", "user.sessions_revoked", nil, 1},
		{views.PathFactors + "/codes", "user.recovery_codes", nil, 0},
		{views.PathFactors + "/passkeys/" + f.Passkeys[0].ID.String(), "user.factor_remove", nil, 0},
		{views.PathFactors + "/app/remove", "user.factor_remove", nil, 1},
		{views.PathPassword, "user.passwd", []string{"password", "a better password", "repeat", "a better password"}, 1},
	} {
		form := b.filled(do.path, do.fields...)
		require.Equal(t, do.before, w.audited(do.action), "before %s", do.path)
		shown := 0
		for _, res := range b.twice(do.path, form) {
			require.Less(t, res.StatusCode, 400, do.path)
			if res.StatusCode == http.StatusOK {
				shown++
			}
		}
		require.LessOrEqual(t, shown, 1, "%s: a secret is shown once", do.path)
		require.Equal(t, do.before+1, w.audited(do.action), "after %s", do.path)
		form.Del("action_id")
		if do.path != views.PathPassword { // this browser's session is renewed
			require.Equal(t, http.StatusBadRequest, b.post(do.path, form).StatusCode, do.path)
		}
	}
	require.False(t, signedInStill(other))
}

// otherSession is the id of a session of the person that is not b's.
func (w *webtest) otherSession(user uuid.UUID, b *browser) string {
	w.t.Helper()
	list, err := w.store.SessionsOf(w.t.Context(), user)
	require.NoError(w.t, err)
	body := b.get(views.PathSettings).body
	for _, s := range list {
		if strings.Contains(body, `href="`+views.PathSessions+"/"+s.ID.String()+`"`) {
			return s.ID.String()
		}
	}
	w.t.Fatal("no other session")
	return ""
}

func TestOnlyAdminsManagePeopleAndKeys(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	support, operator := w.signedIn(store.RoleSupport), w.signedIn(store.RoleOperator)
	tried := 0
	for _, r := range w.server.echo.Routes() {
		if !strings.HasPrefix(r.Path, views.PathUsers) && !strings.HasPrefix(r.Path, views.PathKeys) {
			continue
		}
		tried++
		path := strings.NewReplacer(":id", uuid.NewString(), ":change", "role").Replace(r.Path)
		for _, b := range []*browser{support, operator} {
			res := b.send(r.Method, path, nil, nil)
			require.Equal(t, http.StatusForbidden, res.StatusCode, "%s %s", r.Method, path)
			require.Contains(t, strings.ToLower(res.body), "only admin")
		}
		require.Equal(t, http.StatusSeeOther, w.stranger().send(r.Method, path, nil, nil).StatusCode)
	}
	require.Equal(t, 11, tried)
	body := support.get(views.PathSettings).body
	require.NotContains(t, body, views.PathUsers)
	require.NotContains(t, body, views.PathKeys)
}

func TestUsersPageOwesWhatEveryPageDoes(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	u := w.newUser("carl@example.org", store.RoleSupport)
	w.exercise(page{method: http.MethodGet, path: views.UserPath(u.ID.String()), role: store.RoleAdmin,
		absent: views.UserPath("x")})
}

func TestKeysPageOwesWhatEveryPageDoes(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.exercise(page{method: http.MethodGet, path: views.PathKeys, role: store.RoleAdmin, absent: views.PathKeys + "/" + uuid.NewString() + "/revoke"})
}

func TestKeysAreMadeUsedAndRevoked(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.person("ana@example.org", store.RoleAdmin)
	require.Contains(t, b.get(views.PathKeys).body, "No API keys")
	res := b.post(views.PathKeys+"/new", b.filled(views.PathKeys+"/new", "name", " ", "scope", "circuits"))
	require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)
	require.Contains(t, res.body, "Give it a name")
	res = b.post(views.PathKeys+"/new", b.filled(views.PathKeys+"/new", "name", "Shop <checkout>", "scope", "payments"))
	require.Equal(t, http.StatusOK, res.StatusCode)
	secret := apiKeyText.FindString(res.body)
	require.NotEmpty(t, secret)
	body := b.get(views.PathKeys).body
	require.Contains(t, body, "Shop &lt;checkout&gt;")
	require.NotContains(t, body, secret, "shown once")

	k, err := w.store.APIKeyBySecret(t.Context(), secret)
	require.NoError(t, err)
	path := views.PathKeys + "/" + k.ID.String() + "/revoke"
	require.Equal(t, http.StatusSeeOther, b.post(path, b.filled(path)).StatusCode)
	_, err = w.store.APIKeyBySecret(t.Context(), secret)
	require.ErrorIs(t, err, store.ErrNotFound)
	body = b.get(path).body
	require.Contains(t, body, "Revoked")
	require.NotContains(t, body, `<button type="submit" class="btn btn-danger`)
	require.Equal(t, http.StatusSeeOther, b.post(path, b.filled(path)).StatusCode, "revoked is revoked")
	require.Equal(t, 1, w.audited("apikey.revoke"))
}

func TestOwnPassword(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b, elsewhere := w.person("ana@example.org", store.RoleSupport), w.stranger()
	require.Equal(t, http.StatusSeeOther, elsewhere.post("/signin", credentials("ana@example.org", testPassword)).StatusCode)
	const better = "a much better password"
	for _, bad := range [][]string{{"password", better, "repeat", better + "!"}, {"password", "short", "repeat", "short"}} {
		require.Equal(t, http.StatusUnprocessableEntity, b.post(views.PathPassword, b.filled(views.PathPassword, bad...)).StatusCode)
	}
	old := b.cookies[w.server.sessions.Cookie.Name]
	res := b.post(views.PathPassword, b.filled(views.PathPassword, "password", better, "repeat", better))
	require.Equal(t, views.PathSettings, res.Header.Get("Location"))
	require.NotEqual(t, old, b.cookies[w.server.sessions.Cookie.Name], "a new token")
	require.True(t, signedInStill(b))
	require.False(t, signedInStill(elsewhere))
	require.Equal(t, http.StatusUnprocessableEntity, w.stranger().post("/signin", credentials("ana@example.org", testPassword)).StatusCode)
	require.Equal(t, http.StatusSeeOther, w.stranger().post("/signin", credentials("ana@example.org", better)).StatusCode)
}

func TestOwnSessionsEndOneByOneOrAllOthers(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.person("ana@example.org", store.RoleSupport)
	u, err := w.store.UserByEmail(t.Context(), "ana@example.org")
	require.NoError(t, err)
	cookie := w.server.sessions.Cookie.Name
	second := &browser{w: w, cookies: map[string]string{cookie: w.session(u)}}
	path := views.PathSessions + "/" + w.otherSession(u.ID, b)
	require.Equal(t, http.StatusSeeOther, b.post(path, b.filled(path)).StatusCode)
	require.False(t, signedInStill(second))

	third, fourth := &browser{w: w, cookies: map[string]string{cookie: w.session(u)}}, &browser{w: w, cookies: map[string]string{cookie: w.session(u)}}
	res := b.get(views.PathSessions + "/others")
	require.Contains(t, res.body, "End your 2 other sessions?")
	require.Equal(t, http.StatusSeeOther, b.post(views.PathSessions+"/others", formOf(t, res.body)).StatusCode)
	require.False(t, signedInStill(third))
	require.False(t, signedInStill(fourth))
	require.True(t, signedInStill(b))

	stranger := w.signedIn(store.RoleSupport)
	list, err := w.store.SessionsOf(t.Context(), stranger.user.ID)
	require.NoError(t, err)
	path = views.PathSessions + "/" + list[0].ID.String()
	b.post(path, b.filled(path))
	require.True(t, signedInStill(stranger), "nobody ends another person's session this way")
	require.Equal(t, http.StatusNotFound, b.get(views.PathSessions+"/nothing").StatusCode)
}

func TestSecondFactorsAreRemoved(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.person("ana@example.org", store.RoleSupport)
	u, err := w.store.UserByEmail(t.Context(), "ana@example.org")
	require.NoError(t, err)
	require.Equal(t, http.StatusConflict, b.post(views.PathFactors+"/codes", b.filled(views.PathFactors+"/codes")).StatusCode, "codes of no factor")
	_, codes := b.enrol()
	_, res := b.addPasskey(u)
	require.Equal(t, http.StatusSeeOther, res.StatusCode, "the codes are there already")
	res = b.post(views.PathFactors+"/codes", b.filled(views.PathFactors+"/codes"))
	renewed := unique(recoveryText.FindAllString(res.body, -1))
	require.Len(t, renewed, store.RecoveryCodes)
	require.NotContains(t, renewed, codes[0])

	f, err := w.store.Factors(t.Context(), u.ID)
	require.NoError(t, err)
	require.Equal(t, store.RecoveryCodes, f.CodesLeft)
	path := views.PathFactors + "/passkeys/" + f.Passkeys[0].ID.String()
	require.Equal(t, http.StatusSeeOther, b.post(path, b.filled(path)).StatusCode)
	require.Equal(t, "/signin/second", w.stranger().post("/signin", credentials("ana@example.org", testPassword)).Header.Get("Location"))
	require.Equal(t, http.StatusSeeOther, b.post(views.PathFactors+"/app/remove", b.filled(views.PathFactors+"/app/remove")).StatusCode)
	require.Equal(t, "/", w.stranger().post("/signin", credentials("ana@example.org", testPassword)).Header.Get("Location"))
	require.Zero(t, w.number(`SELECT count(*) FROM user_recovery_codes`), "they go with the last factor")
}
