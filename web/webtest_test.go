package web

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
	"fusebox/store/storetest"
	"fusebox/web/browsertest"
)

func TestMain(m *testing.M) {
	code := storetest.Main(m)
	browsertest.Stop()
	os.Exit(code)
}

// webtest is a server on a database of its own, with everything around it in hand.
type webtest struct {
	t        *testing.T
	db       *storetest.DB
	store    *store.Store
	server   *Server
	clock    *testClock
	circuits *fakeBreaker
	jobs     *recorder
	log      *syncBuffer // the request log, JSON lines
}

// newWebtest starts a server with the providers "atlas" and "borealis". The clock
// stands at storetest.Epoch plus one hour.
func newWebtest(t *testing.T, change ...func(*Config)) *webtest {
	t.Helper()
	w := &webtest{t: t, db: storetest.New(t), clock: &testClock{at: storetest.Epoch.Add(time.Hour)},
		circuits: newFakeBreaker(), jobs: &recorder{}, log: &syncBuffer{}}
	w.store = store.New(w.db.Pool, store.Options{Enqueuer: w.jobs, Now: w.clock.now})
	cfg := Config{
		Store: w.store, Breaker: w.circuits, PublicURL: "http://fusebox.test", Version: "test",
		Providers: []provider.Settings{
			provider.Settings{Name: "atlas"}.WithDefaults(), provider.Settings{Name: "borealis"}.WithDefaults()},
		Registry: provider.NewRegistry(&fakeAdapter{name: "atlas"}, &fakeAdapter{name: "borealis"}),
		Log:      slog.New(slog.NewJSONHandler(w.log, nil)), Now: w.clock.now,
	}
	for _, fn := range change {
		fn(&cfg)
	}
	var err error
	w.server, err = New(cfg)
	require.NoError(t, err)
	t.Cleanup(w.server.Close)
	return w
}

// breakDB closes the pool: every query from now on fails as with a database that is gone.
func (w *webtest) breakDB() { w.db.Pool.Close() }

// testClock is a clock that a test moves.
type testClock struct {
	mu sync.Mutex
	at time.Time
}

func (c *testClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *testClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// browser is one person's browser: it keeps cookies and follows no redirect.
type browser struct {
	w       *webtest
	user    store.User
	cookies map[string]string
	header  http.Header // sent with every request
}

// stranger is a browser that is not signed in.
func (w *webtest) stranger() *browser {
	return &browser{w: w, cookies: map[string]string{}, header: http.Header{}}
}

// signedIn is a browser of a new person with that role.
func (w *webtest) signedIn(role store.Role) *browser {
	w.t.Helper()
	b := w.stranger()
	id := uuid.Must(uuid.NewV7())
	w.db.Exec(w.t, `INSERT INTO users (id, email, name, role, password_hash, created_at) VALUES ($1, $2, $3, $4, 'none', $5)`,
		id, string(role)+"-"+id.String()[24:]+"@example.org", "Olena", role, w.clock.now())
	var err error
	b.user, err = w.store.User(w.t.Context(), id)
	require.NoError(w.t, err)
	b.cookies[w.server.sessions.Cookie.Name] = w.session(b.user)
	return b
}

// session stores a session for u, without the sign-in form, and returns its token.
func (w *webtest) session(u store.User) string {
	w.t.Helper()
	ctx := store.TrackSession(w.t.Context())
	store.OwnSession(ctx, store.SessionOwner{User: u.ID, At: w.clock.now(), Device: "test", Address: "192.0.2.1"})
	ctx, err := w.server.sessions.Load(ctx, "")
	require.NoError(w.t, err)
	w.server.sessions.Put(ctx, sessionUser, u.ID.String())
	w.server.sessions.Put(ctx, sessionKey, u.SessionKey)
	w.server.sessions.Put(ctx, sessionSeen, w.clock.now().Unix())
	w.server.sessions.Put(ctx, sessionAuth, w.clock.now().Unix())
	token, _, err := w.server.sessions.Commit(ctx)
	require.NoError(w.t, err)
	return token
}

// reply is an answer with its body read.
type reply struct {
	*http.Response
	body string
}

func (b *browser) get(path string) reply { return b.send(http.MethodGet, path, nil, nil) }

// htmx asks for a fragment as htmx does.
func (b *browser) htmx(path string) reply {
	return b.send(http.MethodGet, path, nil, http.Header{"Hx-Request": {"true"}})
}

func (b *browser) post(path string, form url.Values) reply {
	return b.send(http.MethodPost, path, form, nil)
}

// postHTMX posts a form as htmx does.
func (b *browser) postHTMX(path string, form url.Values) reply {
	return b.send(http.MethodPost, path, form, http.Header{"Hx-Request": {"true"}})
}

func (b *browser) send(method, path string, form url.Values, extra http.Header) reply {
	b.w.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r := httptest.NewRequest(method, "http://fusebox.test"+path, body)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, h := range []http.Header{b.header, extra} {
		for name, values := range h {
			r.Header[name] = values
		}
	}
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	res := b.w.do(r)
	for _, c := range res.Cookies() {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c.Value
		}
	}
	return res
}

// do serves one request.
func (w *webtest) do(r *http.Request) reply {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.server.Handler().ServeHTTP(rec, r)
	res := rec.Result()
	body, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	return reply{res, string(body)}
}

// page is one console route for exercise.
type page struct {
	method string // GET or POST
	path   string // of something that exists
	form   url.Values
	role   store.Role // the least that may
	absent string     // path of something that does not exist; empty: not tried
	bad    string     // path with a query nobody can read; empty: not tried
}

// exercise checks what every console route owes everybody: no session, not enough
// of a role, something that is not there, a bad query, and a broken database. It
// closes the database, so it comes last.
func (w *webtest) exercise(p page) {
	t := w.t
	t.Helper()
	send := func(b *browser, path string) reply { return b.send(p.method, path, p.form, nil) }

	res := send(w.stranger(), p.path)
	require.Equal(t, http.StatusSeeOther, res.StatusCode, "%s %s without a session", p.method, p.path)
	require.True(t, strings.HasPrefix(res.Header.Get("Location"), "/signin"))
	res = w.stranger().send(p.method, p.path, p.form, http.Header{"Hx-Request": {"true"}})
	require.Equal(t, http.StatusUnauthorized, res.StatusCode)
	require.True(t, strings.HasPrefix(res.Header.Get("HX-Redirect"), "/signin"))

	for _, role := range store.Roles {
		if !role.AtLeast(p.role) {
			res := send(w.signedIn(role), p.path)
			require.Equal(t, http.StatusForbidden, res.StatusCode, "%s %s as %s", p.method, p.path, role)
		}
	}
	able := w.signedIn(p.role)
	if p.absent != "" {
		require.Equal(t, http.StatusNotFound, send(able, p.absent).StatusCode, "%s %s", p.method, p.absent)
	}
	if p.bad != "" {
		require.Contains(t, []int{400, 422}, send(able, p.bad).StatusCode, "%s %s", p.method, p.bad)
	}
	w.breakDB()
	res = send(able, p.path)
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode, "%s %s without a database", p.method, p.path)
	require.NotContains(t, res.body, "pool", "no inner words on the page")
}

// syncBuffer is a buffer for concurrent writers.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// recorder is an Enqueuer that only remembers.
type recorder struct {
	mu   sync.Mutex
	jobs []string // "charge ID", "reconcile ID", "webhook 7", ...
}

func (r *recorder) add(kind, arg string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs = append(r.jobs, kind+" "+arg)
	return nil
}

// count counts the jobs of a kind.
func (r *recorder) count(kind string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, j := range r.jobs {
		if strings.HasPrefix(j, kind+" ") {
			n++
		}
	}
	return n
}

func (r *recorder) Charge(_ context.Context, _ pgx.Tx, id uuid.UUID, _ string, _ time.Time) error {
	return r.add("charge", id.String())
}

func (r *recorder) QueueCharges(_ context.Context, b *pgx.Batch, list []store.ChargeJob) error {
	for _, j := range list {
		b.Queue(`SELECT id FROM payments WHERE id = $1`, j.PaymentID).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				_ = r.add("charge", j.PaymentID.String()) // it never fails
			}
			return rows.Err()
		})
	}
	return nil
}

func (r *recorder) Recharge(_ context.Context, _ pgx.Tx, id uuid.UUID, _ string) error {
	return r.add("recharge", id.String())
}

func (r *recorder) Reconcile(_ context.Context, _ pgx.Tx, id uuid.UUID, _ string, _ time.Time) error {
	return r.add("reconcile", id.String())
}

func (r *recorder) Operation(_ context.Context, _ pgx.Tx, id uuid.UUID, _ string, _ time.Time) error {
	return r.add("operation", id.String())
}

func (r *recorder) ReplayOperation(_ context.Context, _ pgx.Tx, id uuid.UUID, _ string) error {
	return r.add("replay_operation", id.String())
}

func (r *recorder) OperationLookup(_ context.Context, _ pgx.Tx, id uuid.UUID, _ string, _ time.Time) error {
	return r.add("operation_lookup", id.String())
}

func (r *recorder) Webhook(_ context.Context, _ pgx.Tx, id int64) error {
	return r.add("webhook", strconv.FormatInt(id, 10))
}

func (r *recorder) QueueWebhooks(_ context.Context, _ *pgx.Batch, ids []int64) error {
	for _, id := range ids {
		_ = r.add("webhook", strconv.FormatInt(id, 10)) // it never fails
	}
	return nil
}

func (r *recorder) Alert(_ context.Context, _ pgx.Tx, id int64) error {
	return r.add("alert", strconv.FormatInt(id, 10))
}

func (r *recorder) Sync(_ context.Context, _ pgx.Tx, name, _ string) error {
	return r.add("sync", name)
}

func (r *recorder) Bulk(_ context.Context, _ pgx.Tx, id uuid.UUID, name string) error {
	return r.add("bulk", id.String()+" "+name)
}

// fakeBreaker holds circuits that a test sets, and admits what is not open.
type fakeBreaker struct {
	mu       sync.Mutex
	circuits map[breaker.Key]breaker.Snapshot
	degraded time.Time
	reports  []breaker.Verdict
}

func newFakeBreaker() *fakeBreaker {
	return &fakeBreaker{circuits: map[breaker.Key]breaker.Snapshot{}}
}

// set puts a circuit into a state.
func (f *fakeBreaker) set(s breaker.Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.circuits[s.Key] = s
}

func (f *fakeBreaker) Permit(_ context.Context, k breaker.Key) (breaker.Permit, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.circuits[k].State == breaker.Open {
		return nil, &breaker.Denied{Key: k, Reason: "open", RetryAfter: time.Minute}
	}
	return fakePermit{f}, nil
}

func (f *fakeBreaker) Snapshot(_ context.Context, k breaker.Key) (breaker.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s, ok := f.circuits[k]; ok {
		return s, nil
	}
	return breaker.Snapshot{Key: k, State: breaker.Closed, Epoch: "1"}, nil
}

func (f *fakeBreaker) Reset(_ context.Context, k breaker.Key, epoch, _, _ string) (breaker.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.degraded.IsZero() {
		return breaker.Snapshot{}, breaker.ErrUnavailable
	}
	if f.circuits[k].Epoch != epoch {
		return f.circuits[k], breaker.ErrEpoch
	}
	f.circuits[k] = breaker.Snapshot{Key: k, State: breaker.Closed, Epoch: epoch + "1"}
	return f.circuits[k], nil
}

func (f *fakeBreaker) Degraded() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.degraded
}

type fakePermit struct{ f *fakeBreaker }

func (p fakePermit) Report(_ context.Context, v breaker.Verdict, _ time.Duration, _, _ string) {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	p.f.reports = append(p.f.reports, v)
}

func (fakePermit) Probe() bool { return false }

// fakeSecret signs fakeAdapter's deliveries.
const fakeSecret = "whsec_test"

// fakeAdapter is a provider that is never called: it signs with HMAC-SHA256 over
// "t.body" like the gateway, and takes every currency but JPY.
type fakeAdapter struct{ name string }

func (a *fakeAdapter) Name() string { return a.name }
func (a *fakeAdapter) Capabilities() provider.Capabilities {
	return provider.Capabilities{Webhooks: true}
}

func (a *fakeAdapter) Freeze(r provider.ChargeRequest) ([]byte, error) {
	if r.Money.Currency == "JPY" {
		return nil, &provider.FieldError{Field: "currency", Reason: "is not taken by this provider"}
	}
	if r.PaymentMethod == "pm_gone" && r.CustomerID == "cus_1" {
		return nil, &provider.FieldError{Field: "metadata.payment_method", Reason: "is gone"}
	}
	return json.Marshal(r)
}

func (a *fakeAdapter) Charge(context.Context, string, []byte, provider.Money) provider.Charged {
	panic("the web never charges")
}

func (a *fakeAdapter) Lookup(context.Context, provider.LookupQuery) provider.LookedUp {
	panic("the web never looks up")
}

func (a *fakeAdapter) List(context.Context, provider.ListQuery) (provider.Page, error) {
	panic("the web never lists")
}

// sign returns the signature header of a delivery.
func sign(secret string, at time.Time, raw string) string {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(t + "." + raw))
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

func (a *fakeAdapter) Verify(h http.Header, raw []byte, now time.Time) provider.Verification {
	got := h.Get("Fusebox-Signature")
	t, _, _ := strings.Cut(strings.TrimPrefix(got, "t="), ",")
	unix, err := strconv.ParseInt(t, 10, 64)
	switch at := time.Unix(unix, 0); {
	case got == "" || err != nil:
		return provider.Verification{Verdict: provider.SignatureMissing}
	case got != sign(fakeSecret, at, string(raw)):
		return provider.Verification{Verdict: provider.SignatureInvalid}
	case now.Sub(at) > 300*time.Second:
		return provider.Verification{Verdict: provider.SignatureTooOld, TimeReject: true}
	case at.Sub(now) > 300*time.Second:
		return provider.Verification{Verdict: provider.SignatureInFuture, TimeReject: true}
	}
	return provider.Verification{Verdict: provider.SignatureValid, SecretLabel: "1"}
}

// fakeEvent is the body of a fakeAdapter's delivery.
type fakeEvent struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Ref  string `json:"reference"`
}

func (a *fakeAdapter) Parse(raw []byte) ([]provider.Event, error) {
	var e fakeEvent
	if err := json.Unmarshal(raw, &e); err != nil || e.ID == "" {
		return nil, errors.New("not an event")
	}
	return []provider.Event{{
		Key: e.ID, Type: e.Type, Interesting: strings.HasPrefix(e.Type, "payment."),
		Object: provider.Object{ID: "pay_" + e.ID, Reference: e.Ref, Status: "succeeded", Outcome: provider.Succeeded,
			Money: provider.Money{Amount: 4900, Currency: "EUR"}},
	}}, nil
}

type echoContext = echo.Context

// okHandler stands for any page.
func okHandler(c echo.Context) error { return c.String(http.StatusOK, "ok") }
