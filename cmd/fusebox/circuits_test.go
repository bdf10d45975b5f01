package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/jobs"
	"fusebox/provider/simulator"
	"fusebox/store"
)

// TestUnknownSettlesWhileChargesAreBlocked: the provider's charges fail, its circuit of
// charges opens and stays open, and lookups go on settling what became unknown: what
// was booked behind a lost answer is succeeded, and nothing more is sent.
func TestUnknownSettlesWhileChargesAreBlocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "outage")
	w.env = append(w.env, "FUSEBOX_CIRCUIT_OPEN_FOR=1h", "PROVIDER_OUTAGE_ABSENT_HORIZON=1h")
	w.setFaults("outage", func(f simulator.Faults) simulator.Faults { f.Outage = simulator.OutageCharges; return f })
	var all []store.Payment
	for i := range 40 {
		all = append(all, w.pay("outage", fmt.Sprintf("blocked %d", i)))
	}
	w.serve()
	w.work("FUSEBOX_WORKER=one")
	w.work("FUSEBOX_WORKER=two")
	w.eventually(30*time.Second, "the circuit of charges opened", func() bool {
		return w.scalar(`SELECT count(*) FROM breaker_events WHERE class = 'charge' AND to_state = 'open'`) == 1
	})
	w.eventually(20*time.Second, "nothing is under way", func() bool {
		return w.scalar(`SELECT count(*) FROM attempts WHERE outcome IS NULL`) == 0
	})
	sent := w.scalar(`SELECT count(*) FROM attempts`)
	require.Less(t, sent, len(all), "the circuit kept the rest")

	booked := 0
	for _, p := range all {
		if w.charges("outage", p.ID) == 0 {
			continue
		}
		booked++
		got := w.settled(p.ID, 20*time.Second)
		require.Equal(t, store.Succeeded, got.Status)
		require.True(t, got.UnknownSeen)
		require.Equal(t, "lookup", got.StatusEvidence)
	}
	require.Positive(t, booked)
	require.Equal(t, sent-booked, w.count("outage", store.Unknown), "what is not booked is looked for on")
	require.Equal(t, len(all)-sent, w.count("outage", store.Pending))
	require.Equal(t, sent, w.scalar(`SELECT count(*) FROM attempts`), "no charge went out meanwhile")
	require.Zero(t, w.scalar(`SELECT count(*) FROM breaker_events WHERE class = 'status'`))

	reader := w.reader()
	page := reader.get("/providers")
	require.Equal(t, "open", circuitOnPage(t, page, "outage", classCharge))
	require.Equal(t, "closed", circuitOnPage(t, page, "outage", classStatus))
	for _, p := range all {
		if w.payment(p.ID).Status == store.Succeeded {
			require.Contains(t, reader.get("/payments/"+p.ID.String()), "Asked the provider")
			break
		}
	}
}

// TestAKilledProcessFreesItsSlots: a worker killed in the middle of a charge holds the
// only slot of its provider's global bulkhead until the lease ends, and not longer.
func TestAKilledProcessFreesItsSlots(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "steady")
	w.env = append(w.env, "PROVIDER_STEADY_MAX_IN_FLIGHT=1")
	w.pay("steady", "of the dead")
	w.work("FUSEBOX_FAILPOINT="+jobs.PointAfterMark, "FUSEBOX_WORKER=doomed").killed(30 * time.Second)
	p := w.pay("steady", "of the living")
	w.work("FUSEBOX_WORKER=survivor")
	require.Equal(t, store.Succeeded, w.settled(p.ID, 30*time.Second).Status)
	require.Equal(t, 1, w.scalar(`SELECT count(*) FROM payment_events WHERE payment_id = $1 AND kind = 'snoozed' AND evidence ->> 'why' = 'saturated'`, p.ID),
		"it had to wait for the dead one's slot")
	require.Equal(t, 1, w.scalar(`SELECT count(*) FROM attempts WHERE payment_id = $1`, p.ID))
	require.Equal(t, 1, w.charges("steady", p.ID))
}

// TestAProbeIsPrecededByARead: after a whole outage the probe of the real adapter looks
// at /health first; while that fails no payment is sent, and afterwards all are.
func TestAProbeIsPrecededByARead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, place{}, "outage")
	w.env = append(w.env, "FUSEBOX_CIRCUIT_OPEN_FOR=1s", "FUSEBOX_CIRCUIT_OPEN_MAX=2s")
	w.setFaults("outage", func(f simulator.Faults) simulator.Faults { f.Outage = simulator.OutageError; return f })
	for i := range 20 {
		w.pay("outage", fmt.Sprintf("probed %d", i))
	}
	w.work("FUSEBOX_WORKER=one")
	w.work("FUSEBOX_WORKER=two")
	w.eventually(30*time.Second, "a read failed in the place of a probe", func() bool {
		return w.scalar(`SELECT count(*) FROM payment_events WHERE kind = 'probe_read' AND reason = 'http_503'`) >= 1
	})
	sent := w.scalar(`SELECT count(*) FROM attempts`)
	w.eventually(30*time.Second, "another one did", func() bool {
		return w.scalar(`SELECT count(*) FROM payment_events WHERE kind = 'probe_read' AND reason = 'http_503'`) >= 2
	})
	require.Equal(t, sent, w.scalar(`SELECT count(*) FROM attempts`), "no charge was risked")
	w.setFaults("outage", func(f simulator.Faults) simulator.Faults { f.Outage = simulator.OutageNone; return f })
	w.eventually(60*time.Second, "all are settled", func() bool { return w.count("outage", store.Succeeded) == 20 })
	require.Positive(t, w.scalar(`SELECT count(*) FROM payment_events WHERE kind = 'probe_read' AND reason = 'answered'`))
	w.clean()
}

// circuitState is how the provider page marks a circuit's state.
var circuitState = regexp.MustCompile(`circuit-(open|half_open|closed)\b`)

// circuitOnPage reads a circuit's state off the provider page.
func circuitOnPage(t *testing.T, page, name, class string) string {
	t.Helper()
	_, section, ok := strings.Cut(page, `id="`+name+"-"+class+`"`)
	require.True(t, ok, "no circuit %s/%s on the page", name, class)
	found := circuitState.FindStringSubmatch(section)
	require.NotNil(t, found, "it shows no state")
	return found[1]
}

// reader is a person who is signed in and reads pages.
type reader struct {
	w      *world
	client *http.Client
}

// reader signs a new person in.
func (w *world) reader() reader {
	w.t.Helper()
	const password = "correct horse battery staple"
	email := "reader-" + uuid.NewString()[:8] + "@example.org"
	_, err := w.store.CreateUser(w.t.Context(), store.NewUser{Email: email, Name: "Reader", Role: store.RoleAdmin, Password: password}, commandLine)
	require.NoError(w.t, err)
	jar, err := cookiejar.New(nil)
	require.NoError(w.t, err)
	r := reader{w: w, client: &http.Client{Jar: jar, Timeout: 10 * time.Second}}
	resp, err := r.client.PostForm(w.url+"/signin", url.Values{"email": {email}, "password": {password}, "next": {"/providers"}})
	require.NoError(w.t, err)
	require.NoError(w.t, resp.Body.Close())
	require.Equal(w.t, http.StatusOK, resp.StatusCode)
	return r
}

// get reads a page.
func (r reader) get(path string) string {
	r.w.t.Helper()
	resp, err := r.client.Get(r.w.url + path)
	require.NoError(r.w.t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(r.w.t, http.StatusOK, resp.StatusCode, path)
	b, err := io.ReadAll(resp.Body)
	require.NoError(r.w.t, err)
	return string(b)
}
