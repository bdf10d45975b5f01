// Package check tells an operator whether a provider is configured right: reachability,
// clock, credentials and webhook secret, without moving money.
package check

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"fusebox/provider"
)

// Result of one check.
type Result string

// Results.
const (
	OK   Result = "ok"
	Warn Result = "warn" // works, or cannot be told; a person should look
	Fail Result = "fail"
)

// Finding is one check with what it found, in words for an operator.
type Finding struct {
	Check  string `json:"check"` // reachable, clock, credentials, webhooks
	Result Result `json:"result"`
	Detail string `json:"detail"`
}

// Deliveries is what the inbox knows of a provider's events.
type Deliveries struct {
	LastVerified time.Time // zero: none ever
	LastSecret   string    // label of the secret that signed it; "1" is the newest
	Rejected     int       // in the last 24 hours
	RejectedWhy  string    // signature verdict of the latest of these
}

// Options of Run.
type Options struct {
	Settings   provider.Settings
	Adapter    provider.Adapter
	Deliveries *Deliveries // nil: the inbox could not be read
	Now        func() time.Time
}

const (
	clockWarn  = 30 * time.Second  // of the ±300 s that signatures are given
	clockFail  = 240 * time.Second // beyond it, webhooks are or will soon be refused
	certWarn   = 21 * 24 * time.Hour
	quietAfter = 24 * time.Hour // an event this old may be silence, or an idle account
)

// Run makes every check, in the order in which one explains the next.
func Run(ctx context.Context, o Options) []Finding {
	if o.Now == nil {
		o.Now = time.Now
	}
	resp, reach := o.reach(ctx)
	out := []Finding{reach}
	if resp != nil {
		out = append(out, o.clock(resp), o.credentials(ctx))
	}
	return append(out, o.webhooks())
}

// Failed reports whether any check failed.
func Failed(list []Finding) bool {
	for _, f := range list {
		if f.Result == Fail {
			return true
		}
	}
	return false
}

// answer is what any answer tells: who is there, over what, and what time it is.
type answer struct {
	status   int
	date     time.Time
	asked    time.Time // half way between question and answer, by our clock
	took     time.Duration
	tls      *tls.ConnectionState
	redirect string
}

// reach asks the base URL without credentials. Whatever is answered proves that somebody
// is there.
func (o Options) reach(ctx context.Context) (*answer, Finding) {
	f := Finding{Check: "reachable", Result: Fail}
	a, err := o.get(ctx)
	if err != nil {
		f.Detail = fmt.Sprintf("%s does not answer: %s", host(o.Settings.BaseURL), trouble(err))
		return nil, f
	}
	f.Result = OK
	f.Detail = fmt.Sprintf("%s answers %d in %s", host(o.Settings.BaseURL), a.status, a.took.Round(time.Millisecond))
	switch {
	case a.redirect != "":
		f.Result = Fail
		f.Detail += "; it redirects to " + a.redirect + ", and redirects are never followed: use that address as BASE_URL if it is theirs"
	case a.tls == nil && !loopback(o.Settings.BaseURL):
		f.Result, f.Detail = Fail, f.Detail+"; without TLS, everybody on the way reads the credentials"
	case a.tls != nil:
		ends := a.tls.PeerCertificates[0].NotAfter
		f.Detail += "; certificate valid until " + ends.UTC().Format(time.DateOnly)
		if ends.Sub(o.Now()) < certWarn {
			f.Result = Warn
		}
	}
	return a, f
}

func (o Options) get(ctx context.Context) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Settings.ConnectTimeout+o.Settings.AnswerTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, o.Settings.BaseURL, nil)
	if err != nil {
		return nil, errors.New("BASE_URL is not a URL")
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{Timeout: o.Settings.ConnectTimeout}).DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	began := o.Now()
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	a := &answer{status: resp.StatusCode, took: o.Now().Sub(began), tls: resp.TLS}
	a.asked = began.Add(a.took / 2)
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		a.redirect = withoutSecrets(resp.Header.Get("Location"))
	}
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		a.date = at
	}
	return a, nil
}

// clock compares the provider's with ours: signatures of events are judged by ours.
func (o Options) clock(a *answer) Finding {
	f := Finding{Check: "clock", Result: OK}
	if a.date.IsZero() {
		return Finding{"clock", Warn, "the provider does not tell its time; compare this machine's with another"}
	}
	off := a.asked.Sub(a.date)
	if off > 0 && off < time.Second { // the header has whole seconds
		off = 0
	}
	switch d := off.Abs(); {
	case d > clockFail:
		f.Result = Fail
	case d > clockWarn:
		f.Result = Warn
	}
	switch {
	case off.Abs() < 2*time.Second:
		f.Detail = "ours agrees with the provider's"
	case off > 0:
		f.Detail = fmt.Sprintf("ours is %s ahead of the provider's", off.Round(time.Second))
	default:
		f.Detail = fmt.Sprintf("ours is %s behind the provider's", (-off).Round(time.Second))
	}
	if f.Result != OK {
		f.Detail += "; signatures more than 300 s off are refused: check time synchronisation"
	}
	return f
}

// credentials asks about a payment that cannot exist, or reads a list.
func (o Options) credentials(ctx context.Context) Finding {
	c := o.Adapter.Capabilities()
	switch {
	case c.CanAsk():
		return o.ask(ctx)
	case c.Listing:
		return o.list(ctx)
	}
	return Finding{"credentials", Warn, "this provider has nothing to read; only a charge would tell"}
}

func (o Options) ask(ctx context.Context) Finding {
	now := o.Now()
	id := uuid.NewString()
	l := o.Adapter.Lookup(ctx, provider.LookupQuery{PaymentID: id, OperationKey: "charge-" + id,
		Want: provider.Money{Amount: 100, Currency: "EUR"}, SentFrom: now, SentTo: now})
	switch {
	case l.Verdict == provider.LookupAbsent:
		return Finding{"credentials", OK, "accepted: the provider knows no payment under an id made up now"}
	case l.Verdict == provider.LookupFound:
		return Finding{"credentials", Fail, "accepted, but the provider claims to know a payment under an id made up now: its lookups prove nothing"}
	case refused(l.Reason):
		return Finding{"credentials", Fail, "refused (" + l.Reason + "): API_KEY is not this account's, or may not read payments"}
	}
	return Finding{"credentials", Warn, "not refused, but a lookup did not answer: " + l.Reason}
}

func (o Options) list(ctx context.Context) Finding {
	now := o.Now()
	page, err := o.Adapter.List(ctx, provider.ListQuery{From: now.Add(-time.Hour), To: now, Limit: 1})
	switch {
	case err == nil:
		return Finding{"credentials", OK, "accepted: the list of payments can be read"}
	case strings.Contains(err.Error(), provider.ReasonUnauthorized), strings.Contains(err.Error(), provider.ReasonForbidden):
		return Finding{"credentials", Fail, "refused: API_KEY is not this account's, or may not read payments"}
	case page.Health == provider.HealthNeutral:
		return Finding{"credentials", Warn, "not refused, but the list cannot be read: " + err.Error()}
	}
	return Finding{"credentials", Warn, "the list did not answer: " + err.Error()}
}

func refused(reason string) bool {
	return reason == provider.ReasonUnauthorized || reason == provider.ReasonForbidden
}

// webhooks judges the secret by the deliveries it has met.
func (o Options) webhooks() Finding {
	f := Finding{Check: "webhooks", Result: Warn}
	if !o.Adapter.Capabilities().Webhooks {
		return Finding{"webhooks", OK, "this provider sends no events"}
	}
	d := o.Deliveries
	switch {
	case d == nil:
		f.Detail = "the inbox cannot be read: DATABASE_URL"
	case d.LastVerified.IsZero() && d.Rejected > 0:
		f.Result = Fail
		f.Detail = fmt.Sprintf("no event was ever verified, %d refused in 24 h (%s): WEBHOOK_SECRETS is not the one they sign with", d.Rejected, d.RejectedWhy)
	case d.LastVerified.IsZero():
		f.Detail = "no event has come yet: register " + "/webhooks/" + o.Settings.Name + " with the provider and send its test event"
	default:
		f.Result = OK
		f.Detail = fmt.Sprintf("last verified event %s ago, signed with secret %s of %d", o.Now().Sub(d.LastVerified).Round(time.Second), d.LastSecret, max(len(o.Settings.WebhookSecrets), 1))
		if d.Rejected > 0 {
			f.Result = Warn
			f.Detail += fmt.Sprintf("; %d refused in 24 h (%s)", d.Rejected, d.RejectedWhy)
		}
		if o.Now().Sub(d.LastVerified) > quietAfter {
			f.Result = Warn
			f.Detail += "; an idle account, or deliveries that no longer arrive"
		}
	}
	return f
}

func host(raw string) string {
	if u, err := url.Parse(raw); err == nil && u.Host != "" {
		return u.Host
	}
	return "BASE_URL"
}

func loopback(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || (ip != nil && ip.IsLoopback())
}

// withoutSecrets keeps of an address what may be printed.
func withoutSecrets(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "an address that cannot be read"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// trouble names an error without the address it carries.
func trouble(err error) string {
	var dns *net.DNSError
	var u *url.Error
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &dns):
		return "its name is not known (" + dns.Name + ")"
	case errors.As(err, &cert):
		return "its certificate is not trusted: " + cert.Err.Error()
	case errors.As(err, &u) && u.Timeout():
		return "no answer in time"
	case errors.As(err, &u):
		return u.Err.Error()
	}
	return err.Error()
}
