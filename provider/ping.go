package provider

import (
	"context"
	"net/http"
)

// Pinger is an Adapter with a cheap read, declared by Capabilities.Ping: one request
// that moves nothing and costs the provider next to nothing, served by what serves its
// charges. Before a charge probes a half-open circuit the engine asks once: while the
// provider is plainly not there, no payment is put at risk to find out.
//
// It has to stand apart from lookups. With the status API broken alone, its failure
// would keep charges blocked that would go through.
type Pinger interface {
	// Ping makes one request and does not retry. Only HealthFail holds the charge back;
	// what the read cannot tell, the charge finds out.
	Ping(ctx context.Context) Pinged
}

// Pinged is what a Ping found.
type Pinged struct {
	Health   Verdict
	Reason   string // ReasonAnswered, http_503, dial, not_found, ...
	Exchange Exchange
}

// ReasonAnswered: the provider answered a read as it should.
const ReasonAnswered = "answered"

// AsPinger returns the adapter's cheap read, if it declares one.
func AsPinger(a Adapter) (Pinger, bool) {
	p, ok := a.(Pinger)
	return p, ok && a.Capabilities().Ping
}

// ClassifyPing reads the answer to a Ping. readable says that a 2xx carried what the
// provider documents; a page for people under a 200 is a proxy's and no life sign.
//
//	2xx as documented                     ok
//	3xx 408 5xx, other 2xx, transport     fail (cancelled by us: neutral)
//	everything else                       neutral: somebody is there, and says nothing about health
func ClassifyPing(ex Exchange, readable bool) Pinged {
	p := Pinged{Exchange: ex}
	if ex.Err == nil && ex.Status >= 200 && ex.Status < 300 && ex.BodyComplete && readable {
		p.Health, p.Reason = HealthOK, ReasonAnswered
		return p
	}
	if ex.Err == nil && ex.Status >= 200 && ex.Status < 300 {
		p.Health, p.Reason = HealthFail, ReasonNotJSON
		return p
	}
	r := ClassifyLookup(ex, LookupAnswer{}, false)
	p.Health, p.Reason = r.Health, r.Reason
	if ex.Err == nil && ex.Status == http.StatusNotFound {
		p.Health = HealthNeutral // no such read here: the declaration is wrong, not the provider ill
	}
	return p
}

// AskOnce makes a request that moves no money, without retries.
func (c *Caller) AskOnce(ctx context.Context, call Call) Exchange {
	return c.once(ctx, c.query, call, MaxMoneyBody)
}
