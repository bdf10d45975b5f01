package mollie

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"fusebox/provider"
)

// lookup is one Lookup under way.
type lookup struct {
	*Adapter
	provider.LookedUp
	ctx      context.Context
	q        provider.LookupQuery
	most     int  // requests it may cost in all
	absent   bool // the whole stretch was read, and we were not in it
	vanished bool // the id is unknown to Mollie

	embed   string  // what to ask for with a payment
	fetched payment // by id
}

// Lookup implements provider.Adapter. It asks by id when one is known, and reads the
// list, which alone can show a duplicate. Transport trouble, throttling and refusals end
// it: asking on would cost requests and prove nothing.
func (a *Adapter) Lookup(ctx context.Context, q provider.LookupQuery) provider.LookedUp {
	l := a.newLookup(ctx, q)
	if a.settings.NoStatusAPI {
		return l.LookedUp
	}
	going := true
	if pathSafe(q.ProviderPaymentID) {
		going = l.byID(q.ProviderPaymentID)
	}
	if going && q.PaymentID != "" {
		l.byReference()
	}
	return l.conclude()
}

func (a *Adapter) newLookup(ctx context.Context, q provider.LookupQuery) *lookup {
	_, most := a.settings.WorstCase(a.Capabilities())
	return &lookup{Adapter: a, ctx: ctx, q: q, most: most, LookedUp: provider.Unanswered()}
}

// byID fetches one payment and reports whether to ask on.
func (l *lookup) byID(id string) bool {
	var query url.Values
	if l.embed != "" {
		query = url.Values{"embed": {l.embed}}
	}
	ex, n := l.caller.Ask(l.ctx, l.get(paymentsPath+"/"+id, query))
	l.Asked(ex, n)
	var ans provider.LookupAnswer
	if ex.Status == http.StatusOK && ex.Err == nil {
		ans = l.readOne(ex.Body, id)
	}
	reading := provider.ClassifyLookup(ex, ans, false)
	if ex.Status == http.StatusGone { // Mollie's word for what was there and was removed
		reading = provider.ClassifyLookup(provider.Exchange{Status: http.StatusNotFound, BodyComplete: true}, ans, false)
	}
	l.Note(provider.ByID, reading)
	l.Merge(ans.Objects)
	l.vanished = l.vanished || reading.Reason == provider.ReasonNotFound
	return reading.Verdict == provider.LookupFound || reading.Reason == provider.ReasonNotFound
}

func (l *lookup) readOne(body []byte, id string) provider.LookupAnswer {
	if !json.Valid(body) {
		return provider.LookupAnswer{Malformed: true}
	}
	p, err := decode(body)
	if err != nil {
		return provider.LookupAnswer{DecodeErr: err}
	}
	if p.ID != id || !l.ours(p) {
		return provider.LookupAnswer{Ignored: true}
	}
	l.fetched = p
	return provider.LookupAnswer{Objects: []provider.Object{p.object(body)}}
}

// ours reports whether nothing in a payment says that it is another one's.
func (l *lookup) ours(p payment) bool {
	ref := p.reference()
	return l.ownMode(p.Mode) && (ref == "" || l.q.PaymentID == "" || strings.EqualFold(ref, l.q.PaymentID))
}

// byReference reads the list backwards to the time the charge was sent, on from where the
// last lookup stopped, or else from the end of that time on, if a payment there is known:
// Mollie can be asked for a payment's place in its list, and for no time. Without a word
// from the engine about the time, only the whole list could show an absence.
func (l *lookup) byReference() {
	since, to := l.q.Stretch(l.settings.AnswerTimeout)
	r := provider.ResumeListRead(l.q, l.now(), l.settings.AbsentHorizon)
	for n := 1; l.Requests+provider.AskTries <= l.most; n++ {
		p, reading := l.fetch(r.At)
		if r.AtStart() && !p.begins(to) && l.answered() {
			r.At, r.Start = "", "" // that payment is no place to begin at
			continue
		}
		if !l.take(p, reading) {
			r.Broken(&l.LookedUp)
			return
		}
		if id := p.younger(to); id != "" {
			r.Start = id
		}
		if p.next == "" || p.before(since) {
			l.absent = len(l.Objects) == 0
			r.Done(&l.LookedUp)
			return
		}
		if p.next == r.At {
			r = provider.ListRead{} // it would go round for ever
			break
		}
		r.At = p.next
		if n > listPages || r.Enough(l.ctx, l.settings.AnswerTimeout) {
			break
		}
	}
	if len(l.Objects) == 0 {
		r.Stopped(&l.LookedUp)
	}
}

// answered reports whether the last question got an answer about the payment it named.
func (l *lookup) answered() bool {
	switch l.Exchange.Status {
	case http.StatusOK, http.StatusBadRequest, http.StatusNotFound, http.StatusGone:
		return true
	}
	return false
}

// fetch reads one page.
func (l *lookup) fetch(from string) (page, provider.LookupReading) {
	p, reading, ex, n, _ := l.fetchPage(l.ctx, from, newestFirst, pageSize)
	l.Asked(ex, n)
	return p, reading
}

// take picks our payments out of a page. ok: there may be another one.
func (l *lookup) take(p page, reading provider.LookupReading) (ok bool) {
	l.Note(provider.ByReference, reading)
	if reading.Verdict == provider.LookupNoAnswer {
		return false
	}
	for _, e := range p.entries {
		switch {
		case e.err != nil && e.mentions(l.q.PaymentID): // ours, perhaps, and unreadable
			l.Note(provider.ByReference, provider.LookupReading{
				Health: provider.HealthNeutral, Reason: provider.ReasonContract, Alert: provider.AlertContract,
			})
			return false
		case e.err == nil && e.reference() != "" && l.ours(e.payment):
			l.Merge([]provider.Object{e.payment.object(e.raw)})
		}
	}
	return true
}

func (l *lookup) conclude() provider.LookedUp {
	l.Conclude(l.absent, l.vanished)
	return l.LookedUp
}
