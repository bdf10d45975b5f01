package paypal

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"fusebox/provider"
)

const (
	// How far beyond the first and last send a search reads: our clock and PayPal's differ.
	searchBefore = 5 * time.Minute
	searchAfter  = 15 * time.Minute
	// longestSearch is the longest stretch PayPal searches.
	longestSearch = 31 * 24 * time.Hour
	searchSize    = 500
)

// reasonLags is a search that did not find us: it may not know yet.
const reasonLags = "search_lags"

// lookup is one Lookup under way.
type lookup struct {
	*Adapter
	provider.LookedUp
	ctx   context.Context
	q     provider.LookupQuery
	token string
	most  int // requests it may cost in all
}

// Lookup implements provider.Adapter. It asks by id when one is known, and the search,
// which alone can show a duplicate and an order whose answer was lost. Transport trouble,
// throttling and refusals end it. It never reports an absence.
func (a *Adapter) Lookup(ctx context.Context, q provider.LookupQuery) provider.LookedUp {
	l := a.newLookup(ctx, q)
	if a.settings.NoStatusAPI || q.PaymentID == "" && q.ProviderPaymentID == "" {
		return l.LookedUp
	}
	tok, err := a.tokens.get(ctx)
	if err != nil {
		return l.withoutToken(err)
	}
	l.token = tok.text
	going := true
	if pathSafe(q.ProviderPaymentID) {
		going = l.byID(q.ProviderPaymentID)
	}
	if going && q.PaymentID != "" {
		l.byReference()
	}
	if l.Exchange.Status == http.StatusUnauthorized {
		a.tokens.drop(tok)
	}
	if len(l.Objects) > 0 {
		l.Verdict, l.Reason = provider.LookupFound, provider.ReasonFound
	}
	return l.LookedUp
}

func (a *Adapter) newLookup(ctx context.Context, q provider.LookupQuery) *lookup {
	_, most := a.settings.WorstCase(a.Capabilities())
	return &lookup{Adapter: a, ctx: ctx, q: q, most: most, LookedUp: provider.Unanswered()}
}

// withoutToken is a question that was not asked.
func (l *lookup) withoutToken(err error) provider.LookedUp {
	l.Reason = reasonAuthDown
	var te *tokenError
	if errors.As(err, &te) {
		if l.Reason = te.reason; te.reason == reasonAuthRefused {
			l.Alert = provider.AlertConfig
		}
	}
	return l.LookedUp
}

// byID fetches one order and reports whether to ask on.
func (l *lookup) byID(id string) bool {
	ex, ok := l.ask(ordersPath+"/"+id, nil)
	if !ok {
		return false
	}
	ans := readOne(ex, func(body []byte) (provider.Object, bool, error) {
		o, err := decodeOrder(body)
		return o.object(body), o.ID == id && l.ours(o.reference()), err
	})
	reading := provider.ClassifyLookup(ex, ans, false)
	l.Note(provider.ByID, reading)
	l.Merge(ans.Objects)
	return reading.Verdict == provider.LookupFound || reading.Reason == provider.ReasonNotFound
}

// readOne reads an answer that is one object, if it is about the question.
func readOne(ex provider.Exchange, read func([]byte) (o provider.Object, about bool, err error)) provider.LookupAnswer {
	if ex.Status != http.StatusOK || ex.Err != nil {
		return provider.LookupAnswer{}
	}
	if !json.Valid(ex.Body) {
		return provider.LookupAnswer{Malformed: true}
	}
	o, about, err := read(ex.Body)
	switch {
	case err != nil:
		return provider.LookupAnswer{DecodeErr: err}
	case !about:
		return provider.LookupAnswer{Ignored: true}
	}
	return provider.LookupAnswer{Objects: []provider.Object{o}}
}

// ours reports whether nothing in a reference says that it is another payment's.
func (l *lookup) ours(ref string) bool {
	return ref == "" || l.q.PaymentID == "" || strings.EqualFold(ref, l.q.PaymentID)
}

// byReference searches the time the charge was sent, page by page, and reads the captures
// it names.
func (l *lookup) byReference() {
	from, to := l.stretch()
	for n := 1; ; n++ {
		p, ok := l.search(from, to, n)
		if !ok {
			return
		}
		for _, id := range p.naming(l.q.PaymentID, codePayment) {
			if !l.byCapture(id) {
				return
			}
		}
		for _, id := range p.naming(l.q.PaymentID, codeHold) {
			if !l.byAuthorization(id) {
				return
			}
		}
		if n >= p.Pages {
			break
		}
	}
	if len(l.Objects) == 0 {
		l.Reason = reasonLags
	}
}

// stretch is the time to search. Without a word from the engine it reaches back a day
// further than a key lives.
func (l *lookup) stretch() (from, to time.Time) {
	now := l.now()
	from, to = l.q.SentFrom.Add(-searchBefore), l.q.SentTo.Add(searchAfter)
	if l.q.SentFrom.IsZero() {
		from = now.Add(-l.settings.KeyLife - 24*time.Hour)
	}
	if l.q.SentTo.IsZero() || to.After(now) {
		to = now.Add(time.Minute)
	}
	if earliest := to.Add(-longestSearch); from.Before(earliest) {
		from = earliest
	}
	return from, to
}

// search reads one page of the transaction search.
func (l *lookup) search(from, to time.Time, n int) (p found, ok bool) {
	ex, ok := l.ask("v1/reporting/transactions", url.Values{
		"start_date": {from.UTC().Format(time.RFC3339)}, "end_date": {to.UTC().Format(time.RFC3339)},
		"fields": {"transaction_info"}, "page_size": {strconv.Itoa(searchSize)}, "page": {strconv.Itoa(n)},
	})
	if !ok {
		return p, false
	}
	var ans provider.LookupAnswer
	if ex.Status == http.StatusOK && ex.Err == nil {
		p, ans = readFound(ex.Body, from, to)
	}
	reading := provider.ClassifyLookup(ex, ans, false)
	l.Note(provider.ByReference, reading)
	if ex.Status != http.StatusOK || reading.Reason != provider.ReasonNotFound {
		return p, false
	}
	return p, true
}

// found is a page of the search.
type found struct {
	Details *[]struct {
		Info struct {
			ID      string `json:"transaction_id"`
			Code    string `json:"transaction_event_code"`
			Custom  string `json:"custom_field"`
			Began   stamp  `json:"transaction_initiation_date"`
			Updated stamp  `json:"transaction_updated_date"`
		} `json:"transaction_info"`
	} `json:"transaction_details"`
	Pages int `json:"total_pages"`
}

var errNoDetails = errors.New(`no "transaction_details" list`)

// readFound reads a page, and sees from its times whether the question was heard.
func readFound(body []byte, from, to time.Time) (found, provider.LookupAnswer) {
	var p found
	if !json.Valid(body) {
		return p, provider.LookupAnswer{Malformed: true}
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return p, provider.LookupAnswer{DecodeErr: err}
	}
	if p.Details == nil {
		return p, provider.LookupAnswer{DecodeErr: errNoDetails}
	}
	inside := func(at stamp) bool {
		return !at.IsZero() && !at.Before(from.Add(-time.Minute)) && !at.After(to.Add(time.Minute))
	}
	for _, d := range *p.Details {
		if known := !d.Info.Began.IsZero() || !d.Info.Updated.IsZero(); known && !inside(d.Info.Began) && !inside(d.Info.Updated) {
			return p, provider.LookupAnswer{Ignored: true}
		}
	}
	return p, provider.LookupAnswer{}
}

// Beginnings of the search's event codes. A hit without a code may be a payment.
const (
	codePayment = "T00"
	codeHold    = "T13" // an authorisation
)

// naming returns the hits of a kind that carry our reference.
func (p found) naming(reference, code string) (ids []string) {
	for _, d := range *p.Details {
		i := d.Info
		if strings.EqualFold(i.Custom, reference) && pathSafe(i.ID) && (i.Code == "" && code == codePayment || strings.HasPrefix(i.Code, code)) {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// byCapture reads a capture the search named and reports whether to ask on.
func (l *lookup) byCapture(id string) bool {
	ex, ok := l.ask(capturesPath+id, nil)
	if !ok {
		return false
	}
	ans := readOne(ex, func(body []byte) (provider.Object, bool, error) {
		c, err := decodeCapture(body)
		return c.object(body), c.ID == id && c.Related.IDs.OrderID != "" && c.CustomID != "" && l.ours(c.CustomID), err
	})
	reading := provider.ClassifyLookup(ex, ans, false)
	l.Note(provider.ByReference, reading)
	l.Merge(ans.Objects)
	return reading.Verdict == provider.LookupFound
}

// byAuthorization reads the order behind an authorisation the search named, and reports
// whether to ask on. The search lists voids under such codes too: those have no
// authorisation of their own.
func (l *lookup) byAuthorization(id string) bool {
	ex, ok := l.ask(authorizationsPath+id, nil)
	if !ok {
		return false
	}
	var h authorization
	ans := readOne(ex, func(body []byte) (o provider.Object, about bool, err error) {
		h, err = decodeAuthorization(body)
		return h.object(body), h.ID == id && pathSafe(h.Related.IDs.OrderID) && h.CustomID != "" && l.ours(h.CustomID), err
	})
	reading := provider.ClassifyLookup(ex, ans, false)
	l.Note(provider.ByReference, reading)
	if reading.Verdict != provider.LookupFound {
		return reading.Reason == provider.ReasonNotFound
	}
	return l.byID(h.Related.IDs.OrderID)
}

// ask makes one question, unless its worst case would cost more than one lookup may.
func (l *lookup) ask(path string, query url.Values) (provider.Exchange, bool) {
	if l.Requests+provider.AskTries > l.most {
		return provider.Exchange{}, false
	}
	ex, n := l.caller.Ask(l.ctx, get(l.token, path, query))
	l.Asked(ex, n)
	return ex, true
}

var errNoList = errors.New("PayPal has no list of orders")

// List implements provider.Adapter. There is none.
func (a *Adapter) List(context.Context, provider.ListQuery) (provider.Page, error) {
	return provider.Page{Health: provider.HealthNeutral}, errNoList
}
