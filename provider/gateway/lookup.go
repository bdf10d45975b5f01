package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"fusebox/provider"
)

// question is one way of asking about a charge or refund.
type question struct {
	way  provider.Way
	call provider.Call
	// about reports whether an object is an answer to the question.
	about func(provider.Object) bool
	// read decodes one object.
	read reader
}

// Lookup implements provider.Adapter. It asks by id when one is known, by key, and by
// reference. Found by id or key, the reference is still asked, because only its answer
// can show a duplicate. Absent means absent by every question of our own: a key the
// provider has forgotten is no proof while the reference finds the charge. Transport
// trouble, throttling and refusals end the round; asking on would cost requests and
// prove nothing.
func (a *Adapter) Lookup(ctx context.Context, q provider.LookupQuery) provider.LookedUp {
	return a.lookup(ctx, a.questions(q))
}

// lookup asks the questions in order.
func (a *Adapter) lookup(ctx context.Context, qs []question) provider.LookedUp {
	l := round{LookedUp: provider.Unanswered()}
	for _, qu := range qs {
		if qu.way == provider.ByKey && len(l.Objects) > 0 {
			continue
		}
		if !l.take(qu, a.ask(ctx, qu)) {
			break
		}
	}
	l.conclude()
	return l.LookedUp
}

func (a *Adapter) questions(q provider.LookupQuery) []question {
	caps := a.Capabilities()
	list := func(filter, value string) provider.Call {
		return provider.Call{Method: http.MethodGet, Path: "payments", Query: url.Values{filter: {value}}}
	}
	var qs []question
	if caps.Has(provider.ByID) && pathSafe(q.ProviderPaymentID) {
		qs = append(qs, question{
			way:   provider.ByID,
			call:  provider.Call{Method: http.MethodGet, Path: "payments/" + url.PathEscape(q.ProviderPaymentID)},
			about: func(o provider.Object) bool { return o.ID == q.ProviderPaymentID && ours(o, q) },
			read:  readPayment,
		})
	}
	if caps.Has(provider.ByKey) && q.OperationKey != "" {
		qs = append(qs, question{provider.ByKey, list("idempotency_key", q.OperationKey), func(o provider.Object) bool {
			return ours(o, q) && (o.OperationKey == q.OperationKey || o.OperationKey == "" && o.Reference != "")
		}, readPayment})
	}
	if caps.Has(provider.ByReference) && q.PaymentID != "" {
		qs = append(qs, question{provider.ByReference, list("reference", q.PaymentID), func(o provider.Object) bool {
			return o.Reference != "" && ours(o, q)
		}, readPayment})
	}
	return qs
}

// pathSafe reports whether an id a provider gave us can be a path segment as it is.
func pathSafe(id string) bool { return provider.PathSafe(id, maxID) }

// ours reports whether nothing in the object says that it is another payment's.
func ours(o provider.Object, q provider.LookupQuery) bool {
	return o.Reference == "" || q.PaymentID == "" || strings.EqualFold(o.Reference, q.PaymentID)
}

// answer is what one question brought.
type answer struct {
	reading  provider.LookupReading
	objects  []provider.Object
	exchange provider.Exchange
	requests int
}

func (a *Adapter) ask(ctx context.Context, q question) answer {
	q.call.Header = a.headers()
	ex, n := a.caller.Ask(ctx, q.call)
	var ans provider.LookupAnswer
	if ex.Status == http.StatusOK && ex.Err == nil {
		ans = readAsked(ex.Body, q)
	}
	got := answer{reading: provider.ClassifyLookup(ex, ans, q.way != provider.ByID), objects: ans.Objects, exchange: ex, requests: n}
	got.exchange.Body = provider.Redact(ex.Body)
	return got
}

func readAsked(body []byte, q question) provider.LookupAnswer {
	if !json.Valid(body) {
		return provider.LookupAnswer{Malformed: true}
	}
	raws, next := []json.RawMessage{body}, ""
	if q.way != provider.ByID {
		var err error
		if raws, next, err = decodeList(body); err != nil {
			return provider.LookupAnswer{DecodeErr: err}
		}
	}
	ans := provider.LookupAnswer{More: next != ""}
	for _, raw := range raws {
		o, err := q.read(raw)
		if err != nil {
			return provider.LookupAnswer{DecodeErr: err}
		}
		if o.ID != "" && q.about(o) {
			ans.Objects = append(ans.Objects, o)
		}
	}
	ans.Ignored = len(raws) > 0 && len(ans.Objects) == 0
	return ans
}

// round gathers the answers to one Lookup.
type round struct {
	provider.LookedUp
	asked    int // questions of our own answered "absent"
	vanished bool
}

// take adds an answer and reports whether to ask on.
func (r *round) take(q question, got answer) bool {
	r.Requests += got.requests
	r.Exchange = got.exchange
	r.Note(q.way, got.reading)
	switch {
	case got.reading.Verdict == provider.LookupFound:
		r.Merge(got.objects)
		return true
	case got.reading.Verdict == provider.LookupAbsent:
		r.asked++
		return true
	case q.way == provider.ByID && got.reading.Reason == provider.ReasonNotFound:
		r.vanished = true
		return true
	}
	r.asked = 0
	return false
}

func (r *round) conclude() { r.Conclude(r.asked > 0, r.vanished) }
