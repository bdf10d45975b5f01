package stripe

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"fusebox/provider"
)

// pageSize is Stripe's largest page.
const pageSize = 100

// lookup is one Lookup under way.
type lookup struct {
	*Adapter
	provider.LookedUp
	ctx      context.Context
	q        provider.LookupQuery
	most     int  // requests it may cost in all
	absent   bool // the whole stretch was read, and we were not in it
	vanished bool // the id is unknown to Stripe
}

// Lookup implements provider.Adapter. It asks by id when one is known, and reads the list
// of the time in question, which alone can show a duplicate. Transport trouble,
// throttling and refusals end it: asking on would cost requests and prove nothing.
func (a *Adapter) Lookup(ctx context.Context, q provider.LookupQuery) provider.LookedUp {
	l := lookup{Adapter: a, ctx: ctx, q: q, LookedUp: provider.Unanswered()}
	if a.settings.NoStatusAPI {
		return l.LookedUp
	}
	_, l.most = a.settings.WorstCase(a.Capabilities())
	going := true
	if q.ProviderPaymentID != "" && pathSafe(q.ProviderPaymentID) {
		going = l.byID(q.ProviderPaymentID)
	}
	if going && q.PaymentID != "" {
		l.byReference()
	}
	return l.conclude()
}

// byID fetches one intent and reports whether to ask on.
func (l *lookup) byID(id string) bool {
	ex, ok := l.ask(intentsPath+"/"+id, nil)
	if !ok {
		return false
	}
	var ans provider.LookupAnswer
	if ex.Status == http.StatusOK && ex.Err == nil {
		ans = l.readOne(ex.Body, id)
	}
	return l.took(ex, ans)
}

// took takes the answer about one id and reports whether to ask on.
func (l *lookup) took(ex provider.Exchange, ans provider.LookupAnswer) bool {
	reading := provider.ClassifyLookup(ex, ans, false)
	l.Note(provider.ByID, reading)
	l.Merge(ans.Objects)
	l.vanished = l.vanished || reading.Reason == provider.ReasonNotFound
	return reading.Verdict == provider.LookupFound || reading.Reason == provider.ReasonNotFound
}

func (l *lookup) readOne(body []byte, id string) provider.LookupAnswer {
	if !json.Valid(body) {
		return provider.LookupAnswer{Malformed: true}
	}
	p, err := decodeIntent(body)
	if err != nil {
		return provider.LookupAnswer{DecodeErr: err}
	}
	if p.ID != id || !l.ours(p) {
		return provider.LookupAnswer{Ignored: true}
	}
	return provider.LookupAnswer{Objects: []provider.Object{p.object(body)}}
}

// ours reports whether nothing in an intent says that it is another payment's.
func (l *lookup) ours(p intent) bool {
	ref := p.reference()
	return l.ownMode(p.Livemode) && (ref == "" || l.q.PaymentID == "" || strings.EqualFold(ref, l.q.PaymentID))
}

// byReference reads through the list of the time the charge was sent, on from where the
// last lookup stopped. Where that is too long, the search index may still know where our
// charge is.
func (l *lookup) byReference() {
	from, to := l.stretch()
	r := provider.ResumeListRead(l.q, l.now(), l.settings.AbsentHorizon)
	for n := 1; ; n++ {
		next, read := l.page(from, to, r.At)
		switch {
		case read == readAll:
			l.absent = len(l.Objects) == 0
			r.Done(&l.LookedUp)
			return
		case read == readNothing:
			r.Broken(&l.LookedUp)
			return
		case read == readMore && (next == "" || next == r.At): // it would go round for ever
			r = provider.ListRead{}
		case read == readMore:
			r.At = next
		}
		if read == readEnough || r.At == "" || n == listPages || r.Enough(l.ctx, l.settings.AnswerTimeout) {
			break
		}
	}
	if len(l.Objects) == 0 {
		r.Stopped(&l.LookedUp)
	}
	l.bySearch()
}

// What reading a page came to.
const (
	readNothing = iota // no answer: the lookup ends
	readEnough         // the lookup's requests are used up
	readMore           // there are further pages
	readAll            // it was the last page
)

// stretch is the time to search. Without a word from the engine it is the life of a key:
// a key is sent no longer than that.
func (l *lookup) stretch() (from, to time.Time) {
	from, to = l.q.Stretch(l.settings.AnswerTimeout)
	if from.IsZero() {
		from = l.now().Add(-l.settings.KeyLife - time.Hour)
	}
	if to.IsZero() {
		_, to = provider.LookupQuery{SentTo: l.now()}.Stretch(l.settings.AnswerTimeout)
	}
	return from, to
}

// page reads one page of the stretch, from the charge before it on. next is the one to
// go on from.
func (l *lookup) page(from, to time.Time, after string) (next string, read int) {
	q := url.Values{
		"limit":        {strconv.Itoa(pageSize)},
		"created[gte]": {unix(from)}, "created[lte]": {unix(to)},
	}
	if after != "" {
		q.Set("starting_after", after)
	}
	ex, ok := l.ask(intentsPath, q)
	if !ok {
		return "", readEnough
	}
	var page listing
	var ans provider.LookupAnswer
	if ex.Status == http.StatusOK && ex.Err == nil {
		page, ans = l.readPage(ex.Body, from, to)
	}
	// A page without us is no absence yet, so it is read as if it had been the last.
	reading := provider.ClassifyLookup(ex, ans, true)
	l.Note(provider.ByReference, reading)
	l.Merge(ans.Objects)
	switch {
	case reading.Verdict == provider.LookupNoAnswer:
		return "", readNothing
	case page.more:
		return page.last, readMore
	}
	return "", readAll
}

// readPage picks our charges out of a page.
func (l *lookup) readPage(body []byte, from, to time.Time) (listing, provider.LookupAnswer) {
	page, ans := readList(body)
	if ans.Malformed || ans.DecodeErr != nil {
		return page, ans
	}
	for _, raw := range page.data {
		p, err := decodeIntent(raw)
		switch {
		case err != nil && strings.Contains(string(raw), l.q.PaymentID):
			return page, provider.LookupAnswer{DecodeErr: err} // ours, perhaps
		case err != nil:
		case p.Created != 0 && (int64(p.Created) < from.Unix() || int64(p.Created) > to.Unix()):
			return page, provider.LookupAnswer{Ignored: true}
		case p.reference() != "" && p.ID != "" && l.ours(p):
			ans.Objects = append(ans.Objects, p.object(raw))
		}
	}
	return page, ans
}

// bySearch asks Stripe's search index, which lags: what it names is fetched and judged as
// it is now, and what it does not name may be there all the same.
func (l *lookup) bySearch() {
	query := "metadata['" + metaPayment + "']:'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(l.q.PaymentID) + "'"
	ex, ok := l.ask(intentsPath+"/search", url.Values{"query": {query}, "limit": {"10"}})
	if !ok || ex.Status != http.StatusOK || ex.Err != nil {
		return
	}
	page, _ := readList(ex.Body)
	for _, raw := range page.data {
		p, err := decodeIntent(raw)
		if err != nil || p.reference() == "" || !l.ours(p) || p.ID == "" || !pathSafe(p.ID) || l.Holds(p.ID) {
			continue
		}
		if !l.byID(p.ID) {
			return
		}
	}
}

// incomplete notes that the list was not read to its end.
func (l *lookup) incomplete() {
	if len(l.Objects) == 0 {
		l.Reason = provider.ReasonListIncomplete
	}
}

// ask makes one question, unless its worst case would cost more than one lookup may.
func (l *lookup) ask(path string, query url.Values) (provider.Exchange, bool) {
	if l.Requests+provider.AskTries > l.most {
		return provider.Exchange{}, false
	}
	ex, n := l.client.get(l.ctx, path, query)
	l.Asked(ex, n)
	return ex, true
}

func (l *lookup) conclude() provider.LookedUp {
	l.Conclude(l.absent, l.vanished)
	return l.LookedUp
}

func unix(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
