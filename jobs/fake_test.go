package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// fake is a provider in memory: a ledger, and a script of what each call does. It
// lets tests hold a call at an exact point, which a provider over HTTP cannot.
type fake struct {
	name string
	caps provider.Capabilities

	mu      sync.Mutex
	script  []answer // answers of the next charges; the last one repeats
	ledger  map[string][]provider.Object
	sends   []sent
	lookups int
	lists   int
	lookup  func(provider.LookupQuery) (provider.LookedUp, bool) // overrides the ledger's answer
	list    func(provider.ListQuery) (provider.Page, error)
	pings   int
	ping    func(context.Context) provider.Pinged
}

// sent is one wire send as the provider saw it.
type sent struct {
	key  string
	body string
	at   time.Time
}

// answer is one scripted reaction to a charge.
type answer func(ctx context.Context, f *fake, key string, body []byte, want provider.Money) provider.Charged

func newFake(name string) *fake {
	return &fake{name: name, ledger: map[string][]provider.Object{}, caps: provider.Capabilities{
		IdempotencyKeys: true, KeyLife: 24 * time.Hour, Listing: true,
		Ways: []provider.Way{provider.ByReference, provider.ByKey},
	}}
}

// on sets the script.
func (f *fake) on(script ...answer) *fake {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script = script
	return f
}

func (f *fake) Name() string { return f.name }

func (f *fake) Capabilities() provider.Capabilities {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.caps
}

// frozen is the fake's wire format.
type frozen struct {
	Reference string `json:"reference"`
	Amount    int64  `json:"amount"`
	Currency  string `json:"currency"`
	Nonce     int    `json:"nonce"` // differs with every Freeze: later attempts must repeat the stored bytes
}

var nonce struct {
	sync.Mutex
	n int
}

func (f *fake) Freeze(r provider.ChargeRequest) ([]byte, error) {
	if r.Money.Currency == "XTS" {
		return nil, &provider.FieldError{Field: "currency", Reason: "not taken"}
	}
	if r.PaymentMethod == "pm_gone" && r.CustomerID == "cus_1" {
		return nil, &provider.FieldError{Field: "metadata.payment_method", Reason: "is gone"}
	}
	nonce.Lock()
	defer nonce.Unlock()
	nonce.n++
	return json.Marshal(frozen{r.PaymentID, r.Money.Amount, r.Money.Currency, nonce.n})
}

func (f *fake) Charge(ctx context.Context, key string, body []byte, want provider.Money) provider.Charged {
	f.mu.Lock()
	next := succeeds
	if len(f.script) > 0 {
		next = f.script[0]
		if len(f.script) > 1 {
			f.script = f.script[1:]
		}
	}
	f.mu.Unlock()
	began := time.Now()
	c := next(ctx, f, key, body, want)
	c.Exchange.StartedAt, c.Exchange.DoneAt = began, time.Now()
	return c
}

// book notes a wire send and, if charge, the money moved; the same key moves it once.
func (f *fake) book(ctx context.Context, key string, body []byte, charge bool) provider.Object {
	var r frozen
	if err := json.Unmarshal(body, &r); err != nil {
		panic(err)
	}
	defer wrote(ctx) // after the ledger moved: a process killed here never learns of it
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sends = append(f.sends, sent{key, string(body), time.Now()})
	for _, o := range f.ledger[r.Reference] {
		if o.OperationKey == key && f.caps.IdempotencyKeys {
			return o
		}
	}
	o := provider.Object{
		ID: fmt.Sprintf("pay_%s_%d", r.Reference, len(f.ledger[r.Reference])), Reference: r.Reference, OperationKey: key,
		Status: "succeeded", Outcome: provider.Succeeded, Money: provider.Money{Amount: r.Amount, Currency: r.Currency},
		CreatedAt: time.Now(), Raw: []byte(`{}`),
	}
	if charge {
		f.ledger[r.Reference] = append(f.ledger[r.Reference], o)
	}
	return o
}

// wrote tells the engine's trace that the request is on the wire.
func wrote(ctx context.Context) {
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.WroteRequest != nil {
		trace.WroteRequest(httptrace.WroteRequestInfo{})
	}
}

// written are the facts of a call whose request left.
func written(status int) provider.Exchange {
	return provider.Exchange{WireSends: 1, HeaderWritten: true, FirstSentAt: time.Now(), Status: status, BodyComplete: true}
}

func classified(ex provider.Exchange, o *provider.Object, want provider.Money) provider.Charged {
	ans := provider.Answer{Object: o}
	return provider.Charged{Classification: provider.Classify(ex, ans, want), Exchange: ex, Object: o}
}

// succeeds charges and says so.
func succeeds(ctx context.Context, f *fake, key string, body []byte, want provider.Money) provider.Charged {
	o := f.book(ctx, key, body, true)
	return classified(written(http.StatusOK), &o, want)
}

// says charges nothing and answers with a status.
func says(status int, retryAfter string) answer {
	return func(ctx context.Context, f *fake, key string, body []byte, want provider.Money) provider.Charged {
		f.book(ctx, key, body, false)
		ex := written(status)
		ex.RetryAfter = retryAfter
		return classified(ex, nil, want)
	}
}

// inUse answers that the key's first call is still running.
func inUse(ctx context.Context, f *fake, key string, body []byte, want provider.Money) provider.Charged {
	f.book(ctx, key, body, false)
	ex := written(http.StatusConflict)
	ex.RetryAfter = "1"
	return provider.Charged{Classification: provider.Classify(ex, provider.Answer{KeyInUse: true}, want), Exchange: ex}
}

// refuses never lets a byte out.
func refuses(ctx context.Context, _ *fake, _ string, _ []byte, want provider.Money) provider.Charged {
	ex := provider.Exchange{Err: &provider.ConnectError{Phase: provider.ReasonDial, Err: errors.New("connection refused")}}
	return classified(ex, nil, want)
}

// hangs never answers: the call ends with the context. charge says whether the money moved.
func hangs(charge bool) answer {
	return func(ctx context.Context, f *fake, key string, body []byte, want provider.Money) provider.Charged {
		f.book(ctx, key, body, charge)
		<-ctx.Done()
		return classified(ended(ctx, written(0)), nil, want)
	}
}

// dialHangs waits for a connection until the context ends; nothing is ever written.
func dialHangs(ctx context.Context, _ *fake, _ string, _ []byte, want provider.Money) provider.Charged {
	<-ctx.Done()
	return classified(ended(ctx, provider.Exchange{}), nil, want)
}

func ended(ctx context.Context, ex provider.Exchange) provider.Exchange {
	ex.Err, ex.BodyComplete = ctx.Err(), false
	ex.Cancelled = errors.Is(context.Cause(ctx), provider.ErrShutdown)
	ex.Expired = !ex.Cancelled
	return ex
}

// cut charges and drops the connection before the answer.
func cut(ctx context.Context, f *fake, key string, body []byte, want provider.Money) provider.Charged {
	f.book(ctx, key, body, true)
	ex := written(0)
	ex.Err, ex.BodyComplete = errors.New("connection reset"), false
	return classified(ex, nil, want)
}

// lost cuts the connection before the provider could do anything.
func lost(ctx context.Context, f *fake, key string, body []byte, want provider.Money) provider.Charged {
	f.book(ctx, key, body, false)
	ex := written(0)
	ex.Err, ex.BodyComplete = errors.New("connection reset"), false
	return classified(ex, nil, want)
}

// resent is a transport that repeated the request by itself.
func resent(ctx context.Context, f *fake, key string, body []byte, want provider.Money) provider.Charged {
	o := f.book(ctx, key, body, true)
	ex := written(http.StatusOK)
	ex.WireSends = 2
	return classified(ex, &o, want)
}

// holds waits for release before it answers with then.
func holds(entered chan<- struct{}, release <-chan struct{}, then answer) answer {
	return func(ctx context.Context, f *fake, key string, body []byte, want provider.Money) provider.Charged {
		entered <- struct{}{}
		<-release
		return then(ctx, f, key, body, want)
	}
}

func (f *fake) Lookup(ctx context.Context, q provider.LookupQuery) provider.LookedUp {
	f.mu.Lock()
	f.lookups++
	override, objects := f.lookup, f.ledger[q.PaymentID]
	f.mu.Unlock()
	if override != nil {
		if l, ok := override(q); ok {
			return l
		}
	}
	if len(objects) == 0 {
		return provider.LookedUp{Verdict: provider.LookupAbsent, Way: provider.ByReference, Health: provider.HealthOK, Reason: "not_found", Requests: 1}
	}
	return provider.LookedUp{Verdict: provider.LookupFound, Way: provider.ByReference, Objects: objects, Health: provider.HealthOK, Reason: "found", Requests: 1}
}

// unanswered makes every lookup fail with a reason.
func unanswered(reason string, health provider.Verdict) func(provider.LookupQuery) (provider.LookedUp, bool) {
	return func(provider.LookupQuery) (provider.LookedUp, bool) {
		return provider.LookedUp{Verdict: provider.LookupNoAnswer, Health: health, Reason: reason, Requests: 3}, true
	}
}

func (f *fake) setLookup(fn func(provider.LookupQuery) (provider.LookedUp, bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookup = fn
}

func (f *fake) List(_ context.Context, q provider.ListQuery) (provider.Page, error) {
	f.mu.Lock()
	f.lists++
	override := f.list
	f.mu.Unlock()
	if override != nil {
		return override(q)
	}
	return provider.Page{Health: provider.HealthOK}, nil
}

// pingable declares a cheap read that answers so.
func (f *fake) pingable(ping func(context.Context) provider.Pinged) *fake {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.caps.Ping, f.ping = true, ping
	return f
}

// pinged answers every read with a status.
func pinged(status int) func(context.Context) provider.Pinged {
	return func(context.Context) provider.Pinged { return provider.ClassifyPing(written(status), true) }
}

func (f *fake) Ping(ctx context.Context) provider.Pinged {
	f.mu.Lock()
	f.pings++
	ping := f.ping
	f.mu.Unlock()
	return ping(ctx)
}

func (f *fake) reads() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pings
}

func (f *fake) Verify(http.Header, []byte, time.Time) provider.Verification {
	return provider.Verification{Verdict: provider.SignatureValid}
}

// Parse reads {"id","type","reference","status","amount","currency"}.
func (f *fake) Parse(raw []byte) ([]provider.Event, error) {
	var e struct {
		ID, Type, Reference, Status, Currency string
		Amount                                int64
	}
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&e); err != nil {
		return nil, err
	}
	return []provider.Event{{Key: e.ID, Type: e.Type, Interesting: true, OccurredAt: time.Now(), Object: provider.Object{
		ID: "pay_" + e.Reference + "_0", Reference: e.Reference, Status: e.Status, Outcome: provider.Outcome(e.Status),
		Money: provider.Money{Amount: e.Amount, Currency: e.Currency}, CreatedAt: time.Now(), Raw: raw,
	}}}, nil
}

// seen returns the sends so far.
func (f *fake) seen() []sent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]sent(nil), f.sends...)
}

func (f *fake) counts() (sends, lookups, lists int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.sends), f.lookups, f.lists
}

var (
	_ provider.Adapter = (*fake)(nil)
	_ provider.Pinger  = (*fake)(nil)
)

// pgxTx shortens the closures of tests.
type pgxTx = pgx.Tx
