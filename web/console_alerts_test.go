package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/store/storetest"
	"fusebox/web/browsertest"
)

// seedAlerts writes an alert per severity, in that order; ids begin at 1.
func (w *webtest) seedAlerts(severities ...string) {
	w.t.Helper()
	for i, severity := range severities {
		w.db.Exec(w.t, `INSERT INTO alerts (kind, severity, provider, title, detail, dedupe_key, created_at)
			VALUES ('new_kind', $1, 'atlas', 'Alert '||$2, 'd', $2, $3)`, severity, string(rune('A'+i)), storetest.Epoch)
	}
}

func ack(extra ...string) url.Values {
	v := url.Values{"action_id": {uuid.NewString()}}
	for i := 0; i < len(extra); i += 2 {
		v.Set(extra[i], extra[i+1])
	}
	return v
}

func TestAcknowledgingSaysWhoWasFirst(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.seedAlerts("critical", "info", "warning")
	olena, taras := w.signedIn(store.RoleOperator), w.signedIn(store.RoleOperator)
	w.db.Exec(t, `UPDATE users SET name = 'Taras' WHERE id = $1`, taras.user.ID)
	require.Regexp(t, `id="open-alerts"(?s:.{0,300})>\s*2`, olena.get("/payments").body)

	form := ack("note", "calling <b>them</b>")
	for range 2 { // a double click
		res := olena.post("/alerts/1/acknowledge", form)
		require.Equal(t, http.StatusSeeOther, res.StatusCode, res.body)
	}
	late := taras.post("/alerts/1/acknowledge", ack("note", "mine"))
	require.Equal(t, http.StatusConflict, late.StatusCode)
	require.Contains(t, late.body, "Olena acknowledged this at 15:02:11")
	require.Contains(t, late.body, "calling &lt;b&gt;them&lt;/b&gt;")
	require.Contains(t, taras.get("/alerts/1/acknowledge").body, "Olena acknowledged this")

	list := taras.get("/alerts")
	require.Contains(t, list.body, "calling &lt;b&gt;them&lt;/b&gt;", "it stays on the list, with what was said")
	require.Regexp(t, `id="open-alerts"(?s:.{0,300})>\s*1`, list.body)
	require.NotContains(t, taras.get("/alerts?state=open").body, "Alert A")
	require.Contains(t, taras.get("/alerts?state=acknowledged").body, "Alert A")
	require.NotContains(t, taras.get("/alerts?state=acknowledged").body, "Alert C")
	require.Contains(t, taras.get("/audit").body, "alert.acknowledge")

	for note, words := range map[string]string{strings.Repeat("x", store.MaxAlertNote+1): "At most 500", "card 4111 1111 1111 1111": "card"} {
		res := taras.post("/alerts/3/acknowledge", ack("note", note))
		require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)
		require.Contains(t, res.body, words)
	}
	require.Contains(t, w.signedIn(store.RoleSupport).get("/alerts").body, "perator", "who may not is told who may")
}

// TestAnAlertSaysThatItsCauseIsGone: whoever reads the list in the morning sees what is
// over by now, acknowledged or not, and can look at that alone.
func TestAnAlertSaysThatItsCauseIsGone(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.seedAlerts("critical", "warning")
	w.db.Exec(t, `UPDATE alerts SET dedupe_key = 'config_alarm:atlas:then' WHERE id = 1`)
	b := w.signedIn(store.RoleSupport)
	over := b.get("/alerts?state=over").body
	require.Contains(t, over, "Alert A")
	require.NotContains(t, over, "Alert B")
	require.Contains(t, over, "What it was about is no longer so.")
	require.Contains(t, b.get("/alerts?state=open").body, "Alert A", "nobody took notice yet")
	w.db.Exec(t, `INSERT INTO provider_state (provider, charges_paused, paused_reason, paused_at) VALUES ('atlas', true, 'forbidden', now())`)
	require.NotContains(t, b.get("/alerts").body, "no longer so")
}

func TestOverviewSaysWhoKnowsOfAnAlert(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.seedAlerts("critical")
	b := w.signedIn(store.RoleOperator)
	require.NoError(t, w.store.AcknowledgeAlert(t.Context(), uuid.New(), 1, "", store.Actor{Kind: "user", ID: b.user.ID.String(), Name: "Olena"}))
	require.Contains(t, b.get("/").body, "acknowledged by Olena")
}

func TestAcknowledgingAllLeavesWhatCameAfter(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.seedAlerts("critical", "warning", "info")
	b := w.signedIn(store.RoleOperator)
	page := b.get("/alerts")
	href := strings.ReplaceAll(between(t, page.body, `href="/alerts/acknowledge`, `"`), "&amp;", "&")
	require.Contains(t, b.get("/alerts/acknowledge"+href).body, "Acknowledge 3 open alerts?")
	w.db.Exec(t, `INSERT INTO alerts (kind, severity, title, dedupe_key, created_at) VALUES ('k', 'critical', 'Later', 'later', now())`)
	form := ack("up_to", "3")
	for range 2 {
		require.Equal(t, http.StatusSeeOther, b.post("/alerts/acknowledge", form).StatusCode)
	}
	require.Contains(t, b.get("/alerts").body, "3 alerts acknowledged.")
	require.Contains(t, b.get("/alerts?state=open").body, "Later")
	require.Contains(t, b.get("/alerts/acknowledge?up_to=3").body, "None of them is open")
	for _, bad := range []string{"", "?up_to=0", "?up_to=3&severity=loud"} {
		require.Equal(t, http.StatusBadRequest, b.get("/alerts/acknowledge"+bad).StatusCode, bad)
	}
}

func TestAcknowledgingOwesEverybodyTheSame(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]page{
		"form": {method: "GET", path: "/alerts/1/acknowledge", absent: "/alerts/9/acknowledge"},
		"post": {method: "POST", path: "/alerts/1/acknowledge", form: ack(), absent: "/alerts/x/acknowledge"},
		"all":  {method: "POST", path: "/alerts/acknowledge", form: ack("up_to", "1")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWebtest(t)
			w.seedAlerts("critical")
			p.role = store.RoleOperator
			w.exercise(p)
		})
	}
}

// TestBrowserAcknowledge: two people have the list open. One acknowledges in the dialog;
// the count falls on both screens, and the other, whose form was open already, is told.
func TestBrowserAcknowledge(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	w.seedAlerts("critical", "warning")
	base := w.serve()
	olena, taras := w.tab(base, store.RoleOperator), w.tab(base, store.RoleOperator)
	for _, b := range []*browsertest.Tab{olena, taras} {
		b.Open("/alerts")
		isLive(b)
		b.Sees(soon, "#open-alerts", "2")
		b.Click("#alert-1 [href='/alerts/1/acknowledge']")
		b.Wait("dialog[open] #note")
	}
	browsertest.Axe(t, olena)
	olena.Type("#note", "calling them")
	require.True(t, browsertest.Eval[bool](olena, `(() => {
		const button = document.querySelector("dialog[open] [data-mutates]");
		button.click(); button.click();
		return true; })()`))
	olena.Sees(soon, "#alert-1", "calling them")
	olena.Sees(soon, "#open-alerts", "1")
	taras.Sees(soon, "#open-alerts", "1")
	taras.Click("dialog[open] [data-mutates]")
	taras.Sees(soon, "dialog[open] [role=alert]", "acknowledged this")
	require.Equal(t, 1, browsertest.Eval[int](taras, `document.querySelectorAll("#alert-1 .known").length`), "the list behind the dialog is fresh")
	taras.Open("/alerts?state=open")
	taras.Sees(soon, "main", "Alert B")
	require.NotContains(t, taras.Text("main"), "Alert A")
	browsertest.Axe(t, taras)
}
