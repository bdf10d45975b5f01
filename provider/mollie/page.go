package mollie

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

// pageSize is Mollie's largest page.
const pageSize = 250

// unevenness is how far apart the order of a list and the times in it may be.
const unevenness = time.Minute

var (
	errNoList = errors.New(`no "_embedded.payments" list`)
	// errNotFrom: a page that does not begin where it was asked to is about something
	// else, and its end is not the end.
	errNotFrom = errors.New("the list does not begin at the payment asked for")
	errOrder   = errors.New("the list is not in the order asked for")
)

// entry is one payment of a page. A payment that cannot be decoded must not hide the
// others: it is there by its id, with the error.
type entry struct {
	payment
	raw json.RawMessage
	err error
}

// page is a page of Mollie's list.
type page struct {
	entries []entry
	next    string // id of the first payment of the next page; empty on the last one
}

// where a page begins and which way it goes.
type direction string

const (
	newestFirst direction = "desc"
	oldestFirst direction = "asc"
)

// pageQuery asks for a page that begins with a payment, or at the end of the list.
func pageQuery(from string, way direction, limit int) url.Values {
	q := url.Values{"limit": {strconv.Itoa(limit)}, "sort": {string(way)}}
	if from != "" {
		q.Set("from", from)
	}
	return q
}

// readPage reads a page and checks that it is the one that was asked for.
func readPage(body []byte, from string, way direction) (page, provider.LookupAnswer) {
	if !json.Valid(body) {
		return page{}, provider.LookupAnswer{Malformed: true}
	}
	var shell struct {
		Embedded struct {
			Payments *[]json.RawMessage `json:"payments"`
		} `json:"_embedded"`
		Links struct {
			Next *struct {
				Href string `json:"href"`
			} `json:"next"`
		} `json:"_links"`
	}
	if err := json.Unmarshal(body, &shell); err != nil {
		return page{}, provider.LookupAnswer{DecodeErr: err}
	}
	if shell.Embedded.Payments == nil {
		return page{}, provider.LookupAnswer{DecodeErr: errNoList}
	}
	p := page{entries: readEntries(*shell.Embedded.Payments)}
	if shell.Links.Next != nil {
		if p.next = fromOf(shell.Links.Next.Href); p.next == "" {
			return page{}, provider.LookupAnswer{DecodeErr: errors.New("the link to the next page names no payment")}
		}
	}
	if from != "" && (len(p.entries) == 0 || p.entries[0].ID != from) {
		return page{}, provider.LookupAnswer{Ignored: true, DecodeErr: errNotFrom}
	}
	if !p.ordered(way) {
		return page{}, provider.LookupAnswer{DecodeErr: errOrder}
	}
	return p, provider.LookupAnswer{}
}

// fromOf takes the payment a link leads to out of it. The link itself is not followed:
// our key goes to the configured host and to nobody else.
func fromOf(href string) string {
	u, err := url.Parse(href)
	if err != nil {
		return ""
	}
	if from := u.Query().Get("from"); pathSafe(from) {
		return from
	}
	return ""
}

func readEntries(list []json.RawMessage) []entry {
	out := make([]entry, 0, len(list))
	for _, raw := range list {
		e := entry{raw: raw}
		if e.payment, e.err = decode(raw); e.err == nil && e.ID == "" {
			e.err = errID
		}
		if e.err != nil {
			e.payment = named(raw)
		}
		out = append(out, e)
	}
	return out
}

// named is as much of a payment as says which and when it was.
func named(raw []byte) payment {
	var p struct {
		ID        json.RawMessage `json:"id"`
		CreatedAt stamp           `json:"createdAt"`
	}
	_ = json.Unmarshal(raw, &p) // without an id it stays an entry without an id
	var id string
	if json.Unmarshal(p.ID, &id) != nil || !pathSafe(id) {
		id = ""
	}
	return payment{ID: id, CreatedAt: p.CreatedAt}
}

// ordered reports whether the times run the way that was asked for.
func (p page) ordered(way direction) bool {
	var last time.Time
	for _, e := range p.entries {
		at := e.CreatedAt.Time
		if at.IsZero() {
			continue
		}
		if way == newestFirst && !last.IsZero() && at.After(last.Add(unevenness)) ||
			way == oldestFirst && at.Before(last.Add(-unevenness)) {
			return false
		}
		last = at
	}
	return true
}

// before reports whether the page reaches back past a moment.
func (p page) before(at time.Time) bool {
	for _, e := range p.entries {
		if !e.CreatedAt.IsZero() && e.CreatedAt.Before(at.Add(-unevenness)) {
			return true
		}
	}
	return false
}

// begins reports whether everything that is not on the page and comes before it in a list
// of the newest first is younger than a moment.
func (p page) begins(at time.Time) bool {
	return len(p.entries) > 0 && !at.IsZero() && p.entries[0].CreatedAt.After(at.Add(unevenness))
}

// younger is the last payment of a page of the newest first before which all are younger
// than a moment; empty when there is none, or no moment.
func (p page) younger(than time.Time) (id string) {
	for _, e := range p.entries {
		if !than.IsZero() && e.ID != "" && e.CreatedAt.After(than.Add(unevenness)) {
			id = e.ID
		}
	}
	return id
}

// past reports whether the page reaches a moment and beyond.
func (p page) past(at time.Time) bool {
	for _, e := range p.entries {
		if e.CreatedAt.After(at.Add(unevenness)) {
			return true
		}
	}
	return false
}

// fetchPage asks for a page. The reading says no_answer when there is none to use.
func (a *Adapter) fetchPage(ctx context.Context, from string, way direction, limit int) (page, provider.LookupReading, provider.Exchange, int, error) {
	ex, n := a.caller.Ask(ctx, a.get(paymentsPath, pageQuery(from, way, limit)))
	var p page
	var ans provider.LookupAnswer
	if ex.Status == http.StatusOK && ex.Err == nil {
		p, ans = readPage(ex.Body, from, way)
	}
	err := errors.Join(ex.Err, ans.DecodeErr)
	if ans.Ignored { // not our decoder's fault: the provider answered something else
		ans.DecodeErr = nil
	}
	reading := provider.ClassifyLookup(ex, ans, true)
	if ex.Status == http.StatusNotFound { // of the list itself: there is no such endpoint
		reading.Verdict, reading.Alert = provider.LookupNoAnswer, provider.AlertContract
	}
	return p, reading, ex, n, err
}

// mentions reports whether the bytes of a payment that cannot be decoded hold our
// reference.
func (e entry) mentions(reference string) bool {
	return strings.Contains(strings.ToLower(string(e.raw)), strings.ToLower(reference))
}
