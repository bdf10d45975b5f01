package web

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/views"
	"fusebox/web/browsertest"
)

// newNamedWebtest is a server behind an address with a name, which passkeys need.
func newNamedWebtest(t *testing.T) (w *webtest, base string) {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	base = "http://localhost:" + port
	w = newWebtest(t, func(c *Config) { c.PublicURL = base })
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: w.server.Handler()}}
	srv.Start()
	t.Cleanup(srv.Close)
	t.Cleanup(w.server.Close) // before: streams would keep the address open
	return w, base
}

// credentialsInto fills in the sign-in form and sends it.
func credentialsInto(b *browsertest.Tab, email string) {
	b.Open("/signin")
	b.Type("#email", email)
	b.Type("#password", testPassword)
	b.Click("form[action='/signin'] button[type=submit]")
}

func TestBrowserAuthenticatorApp(t *testing.T) {
	t.Parallel()
	w, base := newNamedWebtest(t)
	ana := w.person("ana@example.org", store.RoleOperator)
	b := browsertest.Open(t, base)
	b.SignIn("ana@example.org", testPassword)
	b.Open(views.PathSettings)
	b.Click(`a[href="` + views.PathFactors + `/app"]`)
	b.Wait("#code")
	require.True(t, browsertest.Eval[bool](b, `document.querySelector(".settings-app img").naturalWidth > 200`))
	secret := secretText.FindString(b.Text("main"))
	b.Type("#code", ana.code(secret))
	b.Click("form[action='" + views.PathFactors + "/app'] button[type=submit]")
	b.Wait(".settings-codes")
	recovery := unique(recoveryText.FindAllString(b.Text("main"), -1))
	require.Len(t, recovery, store.RecoveryCodes)
	browsertest.Axe(t, b)
	b.Viewport(360)
	b.Fits()
	b.Viewport(1280)
	b.Open(views.PathSettings)
	b.Sees(5*time.Second, "main", "10 unused codes are left")
	browsertest.AxeEverywhere(t, b, views.PathFactors+"/app")
	b.Pictures("access-app", views.PathFactors+"/app")

	w.clock.advance(time.Minute)
	other := browsertest.Open(t, base)
	credentialsInto(other, "ana@example.org")
	other.Wait("#code")
	other.Type("#code", ana.code(secret))
	other.Click("form[action='/signin/second'] button[type=submit]")
	other.Wait("nav")

	// The phone is lost: a recovery code lets her in.
	third := browsertest.Open(t, base)
	credentialsInto(third, "ana@example.org")
	third.Wait("#code")
	browsertest.AxeEverywhere(t, third, views.PathSecond)
	third.Pictures("access-second", views.PathSecond)
	third.Viewport(1280)
	third.Click("summary")
	third.Type("#recovery", recovery[0])
	third.Click("details button[type=submit]")
	third.Wait("nav")
}

func TestBrowserPasskey(t *testing.T) {
	t.Parallel()
	w, base := newNamedWebtest(t)
	w.newUser("ana@example.org", store.RoleAdmin)
	b := browsertest.Open(t, base)
	_, err := chromedp.Call(b.Context(), webauthn.Enable, webauthn.EnableParams{})
	require.NoError(t, err)
	b.Open("/signin") // no authenticator yet: it says so, and the button works again
	b.Run(chromedp.Evaluate[chromedp.Void](`navigator.credentials.get = () => Promise.reject(new Error("none"))`))
	for range 2 {
		b.Click("form[data-passkey=get] button[type=submit]")
		b.Sees(10*time.Second, ".passkey-problem", "The passkey did not work")
		b.Run(chromedp.Evaluate[chromedp.Void](`document.querySelector(".passkey-problem").textContent = ""`))
	}
	_, err = chromedp.Call(b.Context(), webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{
		Options: &webauthn.VirtualAuthenticatorOptions{Protocol: "ctap2", Transport: "internal", HasResidentKey: true,
			HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true}})
	require.NoError(t, err)
	b.SignIn("ana@example.org", testPassword)
	b.Open(views.PathSettings)
	b.Type("#passkey-name", "Work laptop")
	b.Click("form[data-passkey=create] button[type=submit]")
	b.Wait(".settings-codes")
	b.Open(views.PathSettings)
	b.Sees(5*time.Second, ".settings-list", "Work laptop")

	// Alone it signs in, to where she wanted to go.
	b.Open(views.PathSettings)
	b.Run(chromedp.Evaluate[chromedp.Void](`document.querySelector("form[action='/signout']").submit()`))
	b.Wait("#email")
	b.Open("/signin?next=" + views.PathUsers)
	b.Click("form[data-passkey=get] button[type=submit]")
	b.Wait("nav")
	require.Equal(t, base+views.PathUsers, b.Location())

	// After a while a change asks again, and the passkey answers that too. A script that
	// is told so goes there instead of calling the passkey broken.
	w.clock.advance(recentFor + time.Second)
	b.Open(views.PathSettings)
	b.Type("#passkey-name", "Phone")
	b.Click("form[data-passkey=create] button[type=submit]")
	b.Wait("form[action='" + views.PathAgain + "']")
	browsertest.Axe(t, b)
	b.Pictures("access-again", views.PathAgain)
	b.Viewport(1280)
	b.Open(views.PathAgain + "?next=" + views.PathFactors)
	b.Click("form[data-passkey=get] button[type=submit]")
	b.Wait("form[data-passkey=create]")
	require.Equal(t, base+views.PathFactors, b.Location())
}

// A session that is ended in one browser is over in the other: on its next page, and on a
// page that is left open.
func TestBrowserRevokedSessionEndsEverywhere(t *testing.T) {
	t.Parallel()
	w, base := newNamedWebtest(t)
	w.newUser("ana@example.org", store.RoleSupport)
	here, there := browsertest.Open(t, base), browsertest.Open(t, base)
	here.SignIn("ana@example.org", testPassword)
	there.SignIn("ana@example.org", testPassword)
	here.Open(views.PathSettings)
	here.Click(`a[href^="` + views.PathSessions + `/"]:not([href$="others"])`)
	here.Wait("#dialog form")
	browsertest.Axe(t, here)
	here.Click("#dialog button[type=submit]")
	here.Sees(10*time.Second, "main", "The session is over.")
	w.clock.advance(2 * watchFresh) // the page left open is asked about again
	w.server.a.hub.touch("payments")
	w.server.a.hub.flush()
	there.Holds(20*time.Second, `location.pathname === "/signin"`)
	here.Open("/payments")
	here.Wait("nav")
}

// The pages of people, keys and settings as an admin has them.
func TestBrowserAccessPages(t *testing.T) {
	t.Parallel()
	w, base := newNamedWebtest(t)
	w.newUser("ana@example.org", store.RoleAdmin)
	w.newUser("a.rather.long.mailbox.of.somebody@subsidiary.example.org", store.RoleSupport)
	_, _, err := w.store.CreateAPIKey(t.Context(), "Shop checkout, production", store.System("test"), store.Scopes...)
	require.NoError(t, err)
	gone, _, err := w.store.CreateAPIKey(t.Context(), "Old batch", store.System("test"))
	require.NoError(t, err)
	require.NoError(t, w.store.RevokeAPIKey(t.Context(), gone.ID, store.System("test")))
	stranger := browsertest.Open(t, base)
	browsertest.AxeEverywhere(t, stranger, "/signin")
	stranger.Pictures("access-signin", "/signin")

	b := browsertest.Open(t, base)
	b.SignIn("ana@example.org", testPassword)
	b.Open(views.PathUsers)
	b.Click(`a[href="` + views.PathUsers + `/new"]`)
	b.Wait("#dialog #email")
	b.Type("#dialog #email", "carl@example.org")
	b.Click("#dialog button[type=submit]")
	b.Wait(".settings-codes")
	password := passwordText.FindString(b.Text("#dialog .settings-codes"))
	require.NotEmpty(t, password)
	browsertest.Axe(t, b)
	carl, err := w.store.Authenticate(t.Context(), "carl@example.org", password)
	require.NoError(t, err)

	b.Open(views.UserPath(carl.ID.String()))
	b.Click(`a[href$="/role"]`)
	b.Wait("#dialog #role")
	browsertest.Axe(t, b)
	b.Run(chromedp.SetValue(chromedp.CSS("#dialog #role"), "operator"))
	b.Click("#dialog button[type=submit]")
	b.Sees(10*time.Second, "main", "Operator")

	user := views.UserPath(carl.ID.String())
	for name, path := range map[string]string{"settings": views.PathSettings, "users": views.PathUsers, "user": user, "user-role": user + "/role",
		"keys": views.PathKeys, "key-new": views.PathKeys + "/new", "password": views.PathPassword} {
		if name == "user-role" || name == "key-new" { // the walk over all pages has the others
			browsertest.AxeEverywhere(t, b, path)
		}
		b.Pictures("access-"+name, path)
	}
	b.Viewport(1280)
	b.Open("/audit?who=people&action=user.role")
	b.Click(`td a[href="` + user + `"]`)
	b.Sees(10*time.Second, "h1", "carl")
	require.True(t, strings.HasSuffix(b.Location(), user))
}
