package web

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/views"
	"fusebox/web/browsertest"
)

// The words a person typed in these tests, which nothing may lose.
const (
	typedReason   = "Found as paid in the dashboard of atlas"
	typedEvidence = "TICKET-7"
	soon          = 10 * time.Second
)

// errorTest is an unknown payment and an operator's tab.
type errorTest struct {
	*webtest
	t       *testing.T
	base    string
	payment store.Payment
	who     *browser
	fault   *fault
	b       *browsertest.Tab
}

func newErrorTest(t *testing.T) *errorTest {
	t.Helper()
	w := newWebtest(t, askableAtlas)
	e := &errorTest{webtest: w, t: t, payment: unknownPayment(t, w), fault: w.faulty(), base: w.serve()}
	e.who = w.signedIn(store.RoleOperator)
	e.b = w.tabOf(e.base, e.who)
	return e
}

func (e *errorTest) path() string { return views.PaymentPath(e.payment.ID.String()) }

// dialog opens the resolve dialog and fills it in.
func (e *errorTest) dialog() {
	e.t.Helper()
	e.b.Open(e.path())
	e.b.Click("a[href$='/resolve?to=succeeded']")
	e.b.Wait("dialog[open] #reason")
	e.fill("dialog[open] ")
}

// page opens the same form as a page without scripts and fills it in.
func (e *errorTest) page() {
	e.t.Helper()
	e.b.WithoutScripts().Open(e.path())
	e.b.Click("a[href$='/resolve?to=succeeded']")
	e.b.Wait("#reason")
	e.fill("")
}

func (e *errorTest) fill(in string) {
	e.t.Helper()
	e.b.Type(in+"#reason", typedReason)
	e.b.Type(in+"#evidence", typedEvidence)
}

// kept checks that the form still holds what was typed.
func (e *errorTest) kept(in string) {
	e.t.Helper()
	require.Equal(e.t, typedReason, e.b.Value(in+"#reason"))
	require.Equal(e.t, typedEvidence, e.b.Value(in+"#evidence"))
}

func (e *errorTest) submit() {
	e.t.Helper()
	e.b.Click("form[action*='/resolve'] [data-mutates]")
}

// settledOnce waits for the payment's page and checks that one decision was made.
func (e *errorTest) settledOnce() {
	e.t.Helper()
	e.b.Sees(soon, "#verdict", "Paid")
	e.once()
}

func (e *errorTest) once() {
	e.t.Helper()
	require.Equal(e.t, 1, e.number(`SELECT count(*) FROM audit_log WHERE action = 'payment.resolve'`))
}

// focused reports whether the focus is on an element of the selector or in it.
func (e *errorTest) focused(selector string) bool {
	e.t.Helper()
	return browsertest.Eval[bool](e.b, `!!document.activeElement.closest("`+selector+`")`)
}

// signIn signs a person with a password in and returns how.
func (e *errorTest) signIn() (email, password string) {
	e.t.Helper()
	u, err := e.store.CreateUser(e.t.Context(), store.NewUser{Email: "ana@example.org", Name: "Ana", Role: store.RoleOperator,
		Password: testPassword}, store.System("test"))
	require.NoError(e.t, err)
	e.b = e.tabOf(e.base, e.stranger())
	e.b.SignIn(u.Email, testPassword)
	return u.Email, testPassword
}

// signedOut ends every session, as an admin or time does.
func (e *errorTest) signedOut() {
	e.t.Helper()
	e.db.Exec(e.t, `DELETE FROM sessions`)
}

// signBackIn fills in the sign-in form that the browser was led to.
func (e *errorTest) signBackIn(email, password string) {
	e.t.Helper()
	e.b.Wait("input[name=password]")
	require.Contains(e.t, e.b.Location(), "/signin?next=")
	e.b.Type("input[name=email]", email)
	e.b.Type("input[name=password]", password)
	e.b.Click("form[action='/signin'] button[type=submit]")
}

func TestBrowserErrorSignedOut(t *testing.T) {
	t.Parallel()
	e := newErrorTest(t)
	email, password := e.signIn()
	e.dialog()
	e.signedOut()
	e.submit()
	e.signBackIn(email, password)
	e.b.Wait("dialog[open] #reason") // back on the page, in the dialog, with the words
	require.Contains(t, e.b.Location(), e.path())
	e.b.Holds(soon, `document.querySelector("dialog[open] #reason").value !== ""`)
	e.kept("dialog[open] ")
	e.submit()
	e.settledOnce()
}

func TestBrowserErrorSignedOutWithoutScripts(t *testing.T) {
	t.Parallel()
	e := newErrorTest(t)
	email, password := e.signIn()
	e.page()
	e.signedOut()
	e.submit()
	e.signBackIn(email, password)
	e.b.Wait("#reason") // back on the form
	require.Contains(t, e.b.Location(), e.path()+"/resolve")
}

func TestBrowserErrorConflict(t *testing.T) {
	t.Parallel()
	for name, scripts := range map[string]bool{"dialog": true, "page without scripts": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newErrorTest(t)
			in := ""
			if scripts {
				in = "dialog[open] "
				e.dialog()
			} else {
				e.page()
			}
			other := e.signedIn(store.RoleOperator)
			require.Equal(t, http.StatusSeeOther, other.post(resolvePath(e.payment), decision(t, other, e.payment, "succeeded")).StatusCode)
			e.submit()
			e.b.Sees(soon, in+"[role=alert]", "Olena")
			e.b.Sees(soon, in+".kept", typedReason) // there is nothing to decide any more, so no fields
			e.b.Sees(soon, in+".kept", typedEvidence)
			e.once()
			if scripts {
				require.True(t, e.focused("dialog [role=alert]"), "the focus is on what happened")
				browsertest.Axe(t, e.b)
			}
		})
	}
}

func TestBrowserErrorRefused(t *testing.T) {
	t.Parallel()
	for name, scripts := range map[string]bool{"dialog": true, "page without scripts": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newErrorTest(t)
			in := ""
			if scripts {
				in = "dialog[open] "
				e.dialog()
			} else {
				e.page()
			}
			e.b.Fill(in+"#reason", "short")
			e.submit()
			e.b.Sees(soon, in+".form-errors", "characters")
			require.Equal(t, "short", e.b.Value(in+"#reason"))
			require.Equal(t, typedEvidence, e.b.Value(in+"#evidence"))
			if scripts {
				require.True(t, e.focused("dialog .form-errors"), "the focus is on what is wrong")
				browsertest.Axe(t, e.b)
			}
			e.b.Fill(in+"#reason", typedReason)
			e.submit()
			e.settledOnce()
		})
	}
}

// TestBrowserErrorServer: a server that breaks (500) or lost its database (503) while
// somebody sends a form costs nothing of what was typed, names the request, and takes the
// same form again.
func TestBrowserErrorServer(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"500": errors.New("broken"), "503": io.ErrUnexpectedEOF} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newErrorTest(t)
			e.fault.set(http.MethodGet, e.path()+"/", err) // opening a dialog
			e.b.Open(e.path())
			e.b.Click("a[data-dialog]")
			e.b.Sees(soon, "#toasts", "Request id")
			browsertest.Axe(t, e.b)
			e.fault.heal()
			e.b.Click("#toasts button")
			e.b.Wait("dialog[open] form")

			e.dialog()
			e.fault.set(http.MethodPost, e.path(), err)
			e.submit()
			e.b.Sees(soon, "dialog[open] [role=alert]", "Request id")
			e.b.Sees(soon, "dialog[open] [role=alert]", "counts once")
			e.kept("dialog[open] ")
			browsertest.Axe(t, e.b)
			e.fault.heal()
			e.b.Click("dialog[open] [data-retry]")
			e.settledOnce()
		})
	}
}

func TestBrowserErrorServerWithoutScripts(t *testing.T) {
	t.Parallel()
	e := newErrorTest(t)
	e.page()
	e.fault.set(http.MethodPost, e.path(), io.ErrUnexpectedEOF)
	e.submit()
	e.b.Sees(soon, ".again", typedReason)
	e.b.Sees(soon, "main", "Request id")
	e.fault.heal()
	e.b.Click(".again [type=submit]")
	e.settledOnce()

	e.fault.set(http.MethodGet, e.path(), errors.New("broken"))
	e.b.Open(e.path())
	e.b.Sees(soon, "main", "Something broke")
	e.fault.heal()
	e.b.Click("main a.btn-primary") // the same page again
	e.b.Wait("#verdict")
}

// TestBrowserErrorNoNetwork: a form sent into a network that is gone says that nobody
// knows, and can be sent again; the page says since when it is old.
func TestBrowserErrorNoNetwork(t *testing.T) {
	t.Parallel()
	e := newErrorTest(t)
	e.b.Open(e.path())
	e.b.Offline(true)
	e.b.Click("a[data-dialog]")
	e.b.Sees(soon, "#toasts", "cannot be reached")
	e.b.Offline(false)
	e.b.Click("#toasts button")
	e.b.Wait("dialog[open] form")

	e.dialog()
	isLive(e.b)
	e.b.Offline(true)
	e.submit()
	e.b.Sees(soon, "dialog[open] [role=alert]", "No answer came")
	e.kept("dialog[open] ")
	e.b.Holds(time.Minute, `document.getElementById("live-pill").dataset.state === "stale"`)
	e.b.Holds(soon, `document.querySelector("dialog[open] [data-mutates]").getAttribute("aria-disabled") === "true"`)
	browsertest.Axe(t, e.b)
	e.b.Offline(false)
	isLive(e.b)
	e.b.Click("dialog[open] [data-retry]")
	e.settledOnce()
}

// TestBrowserDoubleClickIsOneEffect: two clicks, and the same form in two tabs, do one thing.
func TestBrowserDoubleClickIsOneEffect(t *testing.T) {
	t.Parallel()
	e := newErrorTest(t)
	e.dialog()
	twin := e.b.Second()
	twin.Open(resolvePath(e.payment) + "?to=succeeded")
	twin.Type("#reason", typedReason)
	twin.Type("#evidence", typedEvidence)
	require.True(t, browsertest.Eval[bool](e.b, `(() => {
		const button = document.querySelector("dialog[open] [data-mutates]");
		button.click();
		const off = button.getAttribute("aria-disabled") === "true";
		button.click();
		return off; })()`), "the button is out of use after the first click")
	e.settledOnce()
	twin.Click("form[action*='/resolve'] [data-mutates]")
	twin.Sees(soon, "[role=alert]", "Nothing was changed")
	e.once()
}
