package simulator

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestControlFaults(t *testing.T) {
	t.Parallel()
	b := start(t)
	a := b.ctl(http.MethodPut, "/_sim/faults", `{"rates":{"hang":0.25,"webhook_late":1},"timing":{"slow":"1.5s"}}`)
	require.Equal(t, http.StatusOK, a.status)
	var v struct {
		Name        string
		Rates       map[string]float64
		Outage      string
		OutageUntil *time.Time `json:"outage_until"`
		Timing      map[string]string
	}
	require.NoError(t, json.Unmarshal(a.body, &v))
	require.Equal(t, "atlas", v.Name)
	require.Equal(t, map[string]float64{"hang": 0.25, "webhook_late": 1}, v.Rates)
	require.Equal(t, "none", v.Outage)
	require.Nil(t, v.OutageUntil)
	require.Equal(t, "1.5s", v.Timing["slow"])
	require.Equal(t, "100ms", v.Timing["async"], "the others stay")
	require.JSONEq(t, string(a.body), string(b.ctl(http.MethodGet, "/_sim/faults", "").body))

	// A patch changes what it names; 0 ends a fault.
	b.ctl(http.MethodPut, "/_sim/faults", `{"rates":{"hang":0,"slow":0.5}}`)
	require.Equal(t, map[Fault]float64{WebhookLate: 1, Slow: 0.5}, b.Faults().Rates)
	b.ctl(http.MethodPut, "/_sim/faults", `{"preset":"every_fault","rates":{"decline":0}}`)
	require.Equal(t, EveryFault().Without(Decline).Rates, b.Faults().Rates)
	require.Equal(t, 1500*time.Millisecond, b.Faults().Timing.Slow)
}

func TestControlOutage(t *testing.T) {
	t.Parallel()
	b := start(t)
	a := b.ctl(http.MethodPut, "/_sim/faults", `{"outage":"error","outage_for":"1h"}`)
	var v faultsView
	require.NoError(t, json.Unmarshal(a.body, &v))
	require.WithinDuration(t, time.Now().Add(time.Hour), *v.OutageUntil, time.Minute)
	require.Equal(t, http.StatusServiceUnavailable, b.get("/payments").status)

	// Other changes leave the end as it is.
	a = b.ctl(http.MethodPut, "/_sim/faults", `{"rates":{"slow":0.1}}`)
	var after faultsView
	require.NoError(t, json.Unmarshal(a.body, &after))
	require.Equal(t, v.OutageUntil, after.OutageUntil)

	require.Equal(t, http.StatusOK, b.ctl(http.MethodPut, "/_sim/faults", `{"outage":"none"}`).status)
	require.Equal(t, http.StatusOK, b.get("/payments").status)
}

func TestControlRefusesBadPatches(t *testing.T) {
	t.Parallel()
	b := start(t, faulty(map[Fault]float64{Slow: 0.5}))
	before := b.Faults()
	for body, field := range map[string]string{
		`{"rate":{}}`:                                   "rate",
		`{"rates":{"oops":0.1}}`:                        "rates.oops",
		`{"rates":{"hang":2}}`:                          "rates.hang",
		`{"rates":{"hang":"often"}}`:                    "rates",
		`{"rates":{"hang":0.6}}`:                        "rates",
		`{"rates":{"decline":0.1},"outage":"flood"}`:    "outage",
		`{"outage":5}`:                                  "outage",
		`{"outage_for":"5s"}`:                           "outage_for",
		`{"outage":"error","outage_for":"soon"}`:        "outage_for",
		`{"outage":"error","outage_for":"-5s"}`:         "outage_for",
		`{"rates":{"decline":0.1},"timing":{"x":"1s"}}`: "timing.x",
		`{"timing":{"slow":"-1s"}}`:                     "timing.slow",
		`{"timing":{"slow":3}}`:                         "timing",
		`{"preset":"chaos"}`:                            "preset",
		`[]`:                                            "body",
		`{`:                                             "body",
		``:                                              "body",
	} {
		a := b.ctl(http.MethodPut, "/_sim/faults", body)
		require.Equal(t, http.StatusBadRequest, a.status, body)
		var p struct{ Error struct{ Errors []FieldError } }
		require.NoError(t, json.Unmarshal(a.body, &p))
		require.Len(t, p.Error.Errors, 1, body)
		require.Equal(t, field, p.Error.Errors[0].Field, body)
		require.NotEmpty(t, p.Error.Errors[0].Reason, body)
		require.Equal(t, before, b.Faults(), "all of a patch or nothing: %s", body)
	}
}

func TestControlLedgerAndStats(t *testing.T) {
	t.Parallel()
	b := start(t)
	require.JSONEq(t, `[]`, string(b.ctl(http.MethodGet, "/_sim/ledger", "").body))
	o := b.charge("k1", one("p1", "")).object(t)
	b.charge("k1", one("p1", ""))
	var ledger []map[string]any
	require.NoError(t, json.Unmarshal(b.ctl(http.MethodGet, "/_sim/ledger", "").body, &ledger))
	require.Len(t, ledger, 1)
	for field, want := range map[string]any{
		"id": o.ID, "reference": "p1", "key": "k1", "amount": 4900.0, "currency": "EUR",
		"status": "succeeded", "created_at": o.CreatedAt.Format(time.RFC3339Nano),
	} {
		require.Equal(t, want, ledger[0][field], field)
	}
	var stats Stats
	require.NoError(t, json.Unmarshal(b.ctl(http.MethodGet, "/_sim/stats", "").body, &stats))
	require.Equal(t, 2, stats.Posts)
	require.Equal(t, map[string]int{"k1": 2}, stats.ByKey)
	require.Equal(t, map[string]int{"p1": 2}, stats.ByReference)
}

func TestControlReset(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.charge("k1", one("p1", ""))
	require.NoError(t, b.SetOutage(OutageRefuse, 0))
	require.Equal(t, http.StatusNoContent, b.ctl(http.MethodPost, "/_sim/reset", "").status)
	require.Empty(t, b.ledger("p1"))
	require.Equal(t, http.StatusOK, b.charge("k1", one("p1", "")).status)
}

func TestControlComplete(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t, into(in), func(o *Options) { o.Faults.Timing.Async = time.Hour })
	id := b.charge("k1", one("p1", "fault:async_202")).object(t).ID
	path := "/_sim/payments/" + id + "/complete"
	require.Equal(t, http.StatusBadRequest, b.ctl(http.MethodPost, path, `{"status":"done"}`).status)
	require.Equal(t, http.StatusBadRequest, b.ctl(http.MethodPost, path, `{"state":"succeeded"}`).status)
	require.Equal(t, http.StatusNotFound, b.ctl(http.MethodPost, "/_sim/payments/x/complete", `{"status":"failed"}`).status)
	require.Equal(t, http.StatusOK, b.ctl(http.MethodPost, path, `{"status":"failed"}`).status)
	require.Equal(t, http.StatusConflict, b.ctl(http.MethodPost, path, `{"status":"succeeded"}`).status, "decided once")
	in.wait(2) // in whichever order
	require.Equal(t, map[string]string{eventProcessing: StatusProcessing, eventFailed: StatusFailed}, in.told())
	require.Equal(t, StatusFailed, b.ledger("p1")[0].Status)
}

// The customer's action may lead to processing first; the timer still decides.
func TestActionThenProcessing(t *testing.T) {
	t.Parallel()
	b := start(t, func(o *Options) { o.Faults.Timing.Action = 300 * time.Millisecond })
	id := b.charge("k1", one("p1", "fault:requires_action")).object(t).ID
	c, err := b.Complete(id, StatusProcessing)
	require.NoError(t, err)
	require.Equal(t, StatusProcessing, c.Status)
	require.Eventually(t, func() bool { return b.ledger("p1")[0].Status == StatusSucceeded }, patience, glance)
}

func TestControlWebhook(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	b := start(t)
	require.Equal(t, http.StatusNoContent, b.ctl(http.MethodPut, "/_sim/webhook", `{"url":"`+in.url+`","secrets":["s"]}`).status)
	b.charge("k1", one("p1", ""))
	ok, _ := signedBy(t, in.wait(1)[0], "s")
	require.True(t, ok)
	require.Equal(t, http.StatusBadRequest, b.ctl(http.MethodPut, "/_sim/webhook", `{"url":"nowhere"}`).status)
}

func TestControlCatalogue(t *testing.T) {
	t.Parallel()
	b := start(t)
	var got []Info
	require.NoError(t, json.Unmarshal(b.ctl(http.MethodGet, "/_sim/catalogue", "").body, &got))
	require.Equal(t, Catalogue(), got)
	require.Equal(t, http.StatusNotFound, b.get("/_sim/ledger").status, "not on the provider's own listener")
}

// A page in someone's browser cannot switch faults on a private address.
func TestControlRefusesOtherOrigins(t *testing.T) {
	t.Parallel()
	b := start(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.ControlURL()+"/_sim/reset", nil)
	require.NoError(t, err)
	req.Header.Set("Origin", "https://evil.example")
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	a, err := b.do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusForbidden, a.status)
}

// The customer's page, without signing in.
func TestActionPage(t *testing.T) {
	t.Parallel()
	for choice, want := range map[string]string{"succeeded": StatusSucceeded, "failed": StatusFailed} {
		t.Run(choice, func(t *testing.T) {
			t.Parallel()
			b := start(t, func(o *Options) { o.Faults.Timing.Action = time.Hour })
			o := b.charge("k1", order{Reference: "<p1>", Amount: 4900, Currency: "EUR", OrderRef: "fault:requires_action"}).object(t)
			page := func() string {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, o.ActionURL, nil)
				require.NoError(t, err)
				a, err := b.do(req)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, a.status)
				return string(a.body)
			}
			require.Contains(t, page(), "&lt;p1&gt;")
			require.Contains(t, page(), "Approve")
			post := func(to, status string) int {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, strings.NewReader(url.Values{"status": {status}}.Encode()))
				require.NoError(t, err)
				req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				a, err := b.do(req)
				require.NoError(t, err)
				return a.status
			}
			require.Equal(t, http.StatusBadRequest, post(o.ActionURL, "canceled"))
			require.Equal(t, http.StatusNotFound, post(b.URL()+"/actions/pay_x", choice))
			require.Equal(t, http.StatusSeeOther, post(o.ActionURL, choice))
			require.Equal(t, http.StatusSeeOther, post(o.ActionURL, "succeeded"), "a second click changes nothing")
			require.Equal(t, want, b.ledger("<p1>")[0].Status)
			require.NotContains(t, page(), "Approve")
		})
	}
}
