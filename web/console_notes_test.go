package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/views"
)

func TestNotesAreWrittenByEverybodyAndStay(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	p := w.db.SeedPayment(t, nil)
	path := views.PaymentPath(p.ID.String())
	b := w.signedIn(store.RoleSupport)
	require.Contains(t, b.get(path).body, `href="`+path+`/note"`)
	form := formOf(t, b.get(path+"/note").body)
	form.Set("note", "Customer called.\r\n"+hostile)
	for range 2 { // a double click is one note
		res := b.post(path+"/note", form)
		require.Equal(t, http.StatusSeeOther, res.StatusCode, res.body)
		require.Equal(t, path, res.Header.Get("Location"))
	}
	body := b.get(path).body
	require.Equal(t, 1, strings.Count(body, "Customer called.\n&lt;script&gt;"), "as written, and harmless")
	require.Contains(t, body, "1 note<")
	require.Contains(t, body, "Olena")
	require.Contains(t, b.get(path+"?who=people").body, "Customer called.")
	require.NotContains(t, b.get(path+"?who=provider").body, "Customer called.")
	require.Contains(t, b.get(path+"/evidence").body, "Customer called.")
}

func TestNotesSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	p := w.db.SeedPayment(t, nil)
	path := views.PaymentPath(p.ID.String()) + "/note"
	b := w.signedIn(store.RoleSupport)
	for text, want := range map[string]string{"": "This is required.", "  \n ": "This is required.", strings.Repeat("я", 2001): "At most 2000 characters.",
		"card 4111 1111 1111 1111 please": "This looks like a card number (… 1111)."} {
		form := formOf(t, b.get(path).body)
		form.Set("note", text)
		res := b.post(path, form)
		require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode, text)
		require.Contains(t, res.body, want)
		require.Equal(t, form.Get("action_id"), formOf(t, res.body).Get("action_id"), "nothing happened under it yet")
	}
	require.Equal(t, http.StatusBadRequest, b.post(path, url.Values{"note": {"x"}}).StatusCode)
	require.Equal(t, http.StatusNotFound, b.get(views.PaymentPath(uuid.NewString())+"/note").StatusCode)
}

func TestRevealingShowsWhatWasStoredAndTells(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, askableAtlas)
	p := w.db.SeedPayment(t, nil)
	a := w.db.SeedAttempt(t, p, func(a *store.Attempt) {
		a.Request = []byte(`{"amount":4900,"customer":{"name":"Ada Palmer"},"payment_method":"pm_123"}`)
		a.ResponseBody, a.ContentType = []byte(`{"status":"failed","holder":"Ada Palmer","note":"`+`<script>alert(\"1\")</script>`+`"}`), "application/json"
	})
	path := views.PaymentPath(p.ID.String())
	support, operator := w.signedIn(store.RoleSupport), w.signedIn(store.RoleOperator)
	body := operator.get(path).body
	require.NotContains(t, body, "holder&#34;: &#34;Ada Palmer", "nobody sees a name unasked")
	require.NotContains(t, body, "pm_123")
	require.Contains(t, body, "&#34;status&#34;: &#34;failed&#34;")
	require.Contains(t, body, digest(a.Request))
	reveal := path + "/reveal?attempt=" + a.ID.String()
	require.Contains(t, body, reveal)
	require.NotContains(t, support.get(path).body, reveal)
	require.Contains(t, support.get(path).body, "denied-why")
	require.Equal(t, http.StatusForbidden, support.get(reveal).StatusCode)
	require.Equal(t, http.StatusForbidden, support.post(path+"/reveal", url.Values{}).StatusCode)

	form := formOf(t, operator.get(reveal).body)
	form.Set("reason", "short")
	require.Equal(t, http.StatusUnprocessableEntity, operator.post(path+"/reveal", form).StatusCode)
	form.Set("reason", "chargeback case 17")
	for range 2 { // a reload shows the same and tells nothing twice
		res := operator.post(path+"/reveal", form)
		require.Equal(t, http.StatusOK, res.StatusCode, res.body)
		require.Contains(t, res.body, "Ada Palmer")
		require.NotContains(t, res.body, "<script>alert")
		require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	}
	body = support.get(path).body
	require.Equal(t, 1, strings.Count(body, "A person looked at a stored answer"))
	require.Contains(t, body, "chargeback case 17")
	require.Contains(t, operator.get("/audit?action=payment.reveal").body, "chargeback case 17")
	for _, bad := range []string{"", "?attempt=" + uuid.NewString(), "?attempt=x", "?object=pay_none"} {
		require.Equal(t, http.StatusNotFound, operator.get(path+"/reveal"+bad).StatusCode, bad)
	}
}

func TestNotesAndEvidenceOweEverybodyTheSame(t *testing.T) {
	t.Parallel()
	gone := views.PaymentPath(uuid.NewString())
	for name, p := range map[string]page{
		"note":     {path: "/note", absent: gone + "/note"},
		"evidence": {path: "/evidence", absent: gone + "/evidence"},
		"reveal":   {path: "/reveal?object=pay_1", role: store.RoleOperator, absent: gone + "/reveal?object=pay_1"},
		"part":     {path: "?who=people", bad: "?before=yesterday"},
		"voice":    {path: "", bad: "?who=nobody"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWebtest(t)
			pay := w.db.SeedPayment(t, nil)
			w.db.SeedObject(t, pay, func(o *store.ProviderObject) { o.ObjectID = "pay_1" })
			at := views.PaymentPath(pay.ID.String())
			p.method, p.path = http.MethodGet, at+p.path
			if p.role == "" {
				p.role = store.RoleSupport
			}
			if p.bad != "" {
				p.bad = at + p.bad
			}
			w.exercise(p)
		})
	}
}

func TestListsSayThatPeopleWroteSomething(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	p := w.db.SeedPayment(t, func(p *store.Payment) { p.Status = store.Unknown })
	w.db.SeedPayment(t, func(p *store.Payment) { p.Status = store.Unknown })
	b := w.signedIn(store.RoleOperator)
	require.NotContains(t, b.get("/payments").body, "note-count")
	for _, text := range []string{"one", "two"} {
		_, err := w.store.AddNote(t.Context(), uuid.New(), p.ID, text, store.Actor{Kind: "user", ID: b.user.ID.String(), Name: "Olena"})
		require.NoError(t, err)
	}
	for _, path := range []string{"/payments", "/queue"} {
		body := b.get(path).body
		require.Equal(t, 1, strings.Count(body, `class="note-count"`), path)
		require.Contains(t, body, `href="`+views.PaymentPath(p.ID.String())+`?who=people#timeline-title"`, path)
		require.Contains(t, body, "2 notes", path)
	}
}
