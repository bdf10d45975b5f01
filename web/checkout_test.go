package web

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/store"
)

// order opens the checkout and fills the form.
func order(t *testing.T, b *browser) url.Values {
	t.Helper()
	res := b.get("/checkout")
	require.Equal(t, http.StatusOK, res.StatusCode)
	key := regexp.MustCompile(`name="key" value="([0-9a-f-]{36})"`).FindStringSubmatch(res.body)
	require.Len(t, key, 2, "the key is born with the page")
	return url.Values{"key": {key[1]}, "product": {"lamp"}, "provider": {"atlas"}, "name": {"Ada"}, "email": {"ada@example.org"}}
}

func TestItem15_DoubleClickedCheckoutIsOnePayment(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, inDemo)
	customer := w.stranger()
	form := order(t, customer)
	locations := make([]string, 20)
	var wg sync.WaitGroup
	for i := range locations {
		wg.Go(func() {
			res := w.stranger().post("/checkout", form)
			require.Equal(t, http.StatusSeeOther, res.StatusCode)
			locations[i] = res.Header.Get("Location")
		})
	}
	wg.Wait()
	for _, l := range locations {
		require.Equal(t, locations[0], l)
	}
	require.Equal(t, 1, w.number(`SELECT count(*) FROM payments`))
	require.Equal(t, 1, w.jobs.count("charge"))
	require.NotEqual(t, form.Get("key"), order(t, customer).Get("key"), "a new page is a new intent")
}

func TestReceiptPollsWithoutScriptUntilFinal(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, inDemo)
	res := w.stranger().post("/checkout", order(t, w.stranger()))
	path := res.Header.Get("Location")
	for status, want := range map[store.Status]struct {
		code    int
		words   string
		refresh bool
	}{
		store.Pending:        {202, "Being processed", true},
		store.Processing:     {202, "Being processed", true},
		store.Unknown:        {202, "We are checking", true},
		store.RequiresAction: {202, "Confirm at your bank", true},
		store.Succeeded:      {200, "Thank you, it is paid", false},
		store.Failed:         {200, "It did not go through", false},
	} {
		w.db.Exec(t, `UPDATE payments SET status = $1`, status)
		res := w.stranger().get(path)
		require.Equal(t, want.code, res.StatusCode, status)
		require.Contains(t, res.body, want.words, status)
		require.Equal(t, want.refresh, strings.Contains(res.body, `http-equiv="refresh"`), status)
		if status != store.Failed {
			require.NotContains(t, res.body, "did not go through", "only a failed payment is called failed: "+string(status))
		}
	}
}

func TestReceiptIsOnlyForCheckoutPayments(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, inDemo)
	p := w.db.SeedPayment(t, nil)
	require.Equal(t, http.StatusNotFound, w.stranger().get("/checkout/"+p.ID.String()).StatusCode)
	require.Equal(t, http.StatusNotFound, w.stranger().get("/checkout/"+uuid.NewString()).StatusCode)
	require.Equal(t, http.StatusNotFound, w.stranger().get("/checkout/1").StatusCode)
}

func TestCheckoutRefusesBadInput(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, inDemo)
	b := w.stranger()
	for field, bad := range map[string][]string{
		"key": {"", "1", strings.ToUpper(uuid.NewString())}, "product": {"", "yacht"}, "provider": {"", "nobody"},
		"name": {"", strings.Repeat("x", 201)}, "email": {"", "ada", "Ada <ada@example.org>", "a@b\r\nBcc: x"},
	} {
		for _, value := range bad {
			form := order(t, b)
			form.Set(field, value)
			res := b.post("/checkout", form)
			require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode, "%s=%q", field, value)
			require.Contains(t, res.body, `role="alert"`)
		}
	}
	require.Zero(t, w.number(`SELECT count(*) FROM payments`))

	form := order(t, b)
	require.Equal(t, http.StatusSeeOther, b.post("/checkout", form).StatusCode)
	form.Set("product", "print")
	res := b.post("/checkout", form)
	require.Equal(t, http.StatusUnprocessableEntity, res.StatusCode, "the same key for another order")
	require.Contains(t, res.body, "used for another order")
	require.NotContains(t, res.body, form.Get("key"))
	require.Equal(t, 1, w.number(`SELECT count(*) FROM payments`))
}

func TestTopUpNamesTheShoppersWallet(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, inDemo)
	form := order(t, w.stranger())
	form.Set("product", "topup")
	for range 2 {
		require.Equal(t, http.StatusSeeOther, w.stranger().post("/checkout", form).StatusCode)
	}
	require.Equal(t, 1, w.number(`SELECT count(*) FROM payments p JOIN wallets w ON w.id = p.wallet_id WHERE owner_ref = 'shopper:ada@example.org'`))
}

func TestDemoPagesExistOnlyInTheDemo(t *testing.T) {
	t.Parallel()
	w := newWebtest(t)
	b := w.signedIn(store.RoleAdmin)
	for _, path := range []string{"/checkout", "/demo/checkout", "/demo/faults"} {
		require.Equal(t, http.StatusNotFound, b.get(path).StatusCode, path)
		require.Contains(t, []int{http.StatusNotFound, http.StatusMethodNotAllowed}, b.post(path, url.Values{}).StatusCode, path)
	}
}

func TestDemoAddressesLeadOn(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, inDemo)
	res := w.stranger().post("/demo/checkout", url.Values{})
	require.Equal(t, http.StatusPermanentRedirect, res.StatusCode, "a form sent there arrives")
	require.Equal(t, "/checkout", res.Header.Get("Location"))
	require.Equal(t, "/demo/faults", w.stranger().get("/demo").Header.Get("Location"))
}

func TestFaultPanelSwitchesASimulator(t *testing.T) {
	t.Parallel()
	sim, told := sims(t, `{"rates":{"decline":0.25},"outage":"refuse"}`, http.StatusOK)
	broken, _ := sims(t, `{}`, http.StatusInternalServerError)
	w := newWebtest(t, func(c *Config) {
		c.Demo = &Demo{Simulators: map[string]string{"atlas": sim.URL, "borealis": broken.URL + "/"}}
	})
	b := w.signedIn(store.RoleSupport)
	page := b.get("/demo/faults")
	require.Contains(t, page.body, "Refuse connections")
	require.Contains(t, page.body, "25")
	require.Contains(t, page.body, "HTTP 500", "a simulator that does not answer says so and spares the rest")

	for fault, want := range map[string]string{
		"refuse": `{"preset":"healthy","outage":"refuse"}`, "heal": `{"preset":"healthy","outage":"none"}`,
		"charged_then_502": `{"preset":"healthy","rates":{"charged_then_502":1},"outage":"none"}`,
	} {
		res := b.post("/demo/faults", url.Values{"provider": {"atlas"}, "fault": {fault}})
		require.Equal(t, http.StatusSeeOther, res.StatusCode)
		require.Equal(t, "/_sim/faults "+want, told())
	}
	require.Contains(t, b.get("/demo/faults").body, "atlas changed")
	require.Equal(t, http.StatusSeeOther, b.post("/demo/faults", url.Values{"provider": {"borealis"}, "fault": {"heal"}}).StatusCode)
	require.Contains(t, b.get("/demo/faults").body, "does not answer")
	for _, form := range []url.Values{{"provider": {"http://evil"}, "fault": {"heal"}}, {"provider": {"atlas"}, "fault": {"x"}}, {}} {
		require.Equal(t, http.StatusUnprocessableEntity, b.post("/demo/faults", form).StatusCode)
	}
}
