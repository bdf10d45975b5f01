package simulator

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	patience = 15 * time.Second // for things that must happen
	glance   = 10 * time.Millisecond
)

// quick are timings that keep the tests short; silences stay long, so that a test
// which gets an answer out of one has found a fault.
func quick() Timing {
	return Timing{
		Silent: time.Minute, Slow: 150 * time.Millisecond, Drip: 2 * time.Millisecond,
		InProgress: 300 * time.Millisecond, RetryAfter: 2 * time.Second,
		Async: 100 * time.Millisecond, Action: 100 * time.Millisecond,
		Late: 300 * time.Millisecond, Lag: time.Hour, NotFound: time.Hour,
		Webhook: time.Millisecond, EarlyWait: 10 * time.Second,
	}
}

// bench is a simulator with a client of its own.
type bench struct {
	t *testing.T
	*Server
	client *http.Client
}

// start runs a simulator for the test, after edits to its options.
func start(t *testing.T, edits ...func(*Options)) *bench {
	t.Helper()
	opts := Options{Name: "atlas", APIKey: "sk", Seed: 7, Faults: Faults{Timing: quick()}}
	for _, edit := range edits {
		edit(&opts)
	}
	s, err := Start(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &bench{t: t, Server: s, client: &http.Client{
		Transport: tr,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}
}

// faulty sets the rates; timings stay quick.
func faulty(rates map[Fault]float64) func(*Options) {
	return func(o *Options) { o.Faults.Rates = rates }
}

// answer is a response read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error // of reading the body
}

// object reads the answer as a payment.
func (a answer) object(t *testing.T) object {
	t.Helper()
	var o object
	require.NoError(t, json.Unmarshal(a.body, &o), "%s", a.body)
	return o
}

// code reads the answer as an error.
func (a answer) problem(t *testing.T) errorBody {
	t.Helper()
	var p struct{ Error errorBody }
	require.NoError(t, json.Unmarshal(a.body, &p), "%s", a.body)
	return p.Error
}

// order is what a test charges.
type order struct {
	Reference string `json:"reference"`
	Amount    int64  `json:"amount"`
	Currency  string `json:"currency"`
	OrderRef  string `json:"order_ref,omitempty"`
}

// one is an order of 49.00 EUR.
func one(reference, orderRef string) order {
	return order{Reference: reference, Amount: 4900, Currency: "EUR", OrderRef: orderRef}
}

// charge posts an order and wants an answer.
func (b *bench) charge(key string, o order) answer {
	b.t.Helper()
	a, err := b.tryCharge(b.t.Context(), key, o)
	require.NoError(b.t, err)
	require.NoError(b.t, a.err)
	return a
}

// tryCharge posts an order, once on the wire: without GetBody net/http cannot
// send it again by itself.
func (b *bench) tryCharge(ctx context.Context, key string, o order) (answer, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return answer{}, err
	}
	return b.send(ctx, http.MethodPost, "/payments", key, "application/json", body)
}

func (b *bench) send(ctx context.Context, method, path, key, contentType string, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, b.URL()+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.GetBody = nil
	req.Header.Set("Authorization", "Bearer "+b.APIKey())
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	return b.do(req)
}

func (b *bench) do(req *http.Request) (answer, error) {
	res, err := b.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, body, err}, nil
}

// get asks the provider.
func (b *bench) get(path string) answer {
	b.t.Helper()
	a, err := b.send(b.t.Context(), http.MethodGet, path, "", "", nil)
	require.NoError(b.t, err)
	return a
}

// found asks the provider for several payments.
func (b *bench) found(path string) []object {
	b.t.Helper()
	a := b.get(path)
	require.Equal(b.t, http.StatusOK, a.status, "%s", a.body)
	var p page
	require.NoError(b.t, json.Unmarshal(a.body, &p))
	return p.Data
}

// ledger returns what was really booked for a reference.
func (b *bench) ledger(reference string) []Charge {
	b.t.Helper()
	all, err := b.Charges()
	require.NoError(b.t, err)
	var out []Charge
	for _, c := range all {
		if c.Reference == reference {
			out = append(out, c)
		}
	}
	return out
}

// ctl calls the control API.
func (b *bench) ctl(method, path, body string) answer {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.ControlURL()+path, bytes.NewBufferString(body))
	require.NoError(b.t, err)
	a, err := b.do(req)
	require.NoError(b.t, err)
	return a
}

// delivery of an event as the receiver saw it.
type received struct {
	ID     string
	Type   string
	Live   *bool
	Data   object
	body   []byte
	header http.Header
	at     time.Time
}

// inbox is a webhook receiver.
type inbox struct {
	t    *testing.T
	url  string
	mu   sync.Mutex
	got  []received
	busy int // deliveries being answered
	most int // highest busy seen
	// answer decides the status of the nth delivery (from 1); nil means 200.
	answer func(n int, r received) int
	gate   chan struct{} // if set, deliveries wait for it
}

func newInbox(t *testing.T) *inbox {
	in := &inbox{t: t}
	srv := httptest.NewServer(in)
	t.Cleanup(srv.Close)
	in.url = srv.URL
	return in
}

// into sends a simulator's events to the inbox.
func into(in *inbox) func(*Options) {
	return func(o *Options) { o.WebhookURL, o.WebhookSecrets = in.url+"/hook", []string{"whsec_1"} }
}

// ServeHTTP implements http.Handler.
func (in *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	got := received{body: body, header: r.Header, at: time.Now()}
	if err := json.Unmarshal(body, &got); err != nil {
		in.t.Errorf("event is not JSON: %s", body)
	}
	in.mu.Lock()
	in.got = append(in.got, got)
	n := len(in.got)
	in.busy++
	in.most = max(in.most, in.busy)
	answer, gate := in.answer, in.gate
	in.mu.Unlock()
	if gate != nil {
		<-gate
	}
	status := http.StatusOK
	if answer != nil {
		status = answer(n, got)
	}
	in.mu.Lock()
	in.busy--
	in.mu.Unlock()
	w.WriteHeader(status)
}

// all returns the deliveries so far.
func (in *inbox) all() []received {
	in.mu.Lock()
	defer in.mu.Unlock()
	return append([]received(nil), in.got...)
}

// wait waits for at least n deliveries and returns them.
func (in *inbox) wait(n int) []received {
	in.t.Helper()
	require.Eventually(in.t, func() bool { return len(in.all()) >= n }, patience, glance, "want %d deliveries", n)
	return in.all()
}

// told returns the status that each type of event told of.
func (in *inbox) told() map[string]string {
	out := map[string]string{}
	for _, r := range in.all() {
		out[r.Type] = r.Data.Status
	}
	return out
}

// quiet waits until every event of the simulator was acknowledged.
func (b *bench) quiet() {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.Stats().Webhooks.Pending == 0 }, patience, glance)
}
