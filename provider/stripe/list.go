package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"fusebox/provider"
)

// listing is a page of Stripe's list, newest first.
type listing struct {
	data []json.RawMessage
	more bool   // has_more: there are older ones
	last string // id of the oldest one on the page
	// objects are data in the engine's vocabulary, oldest first; only a sync fills them in.
	objects []provider.Object
}

var errNoData = errors.New(`no "data" list`)

// readList reads a page; data has to be there, if only empty.
func readList(body []byte) (listing, provider.LookupAnswer) {
	if !json.Valid(body) {
		return listing{}, provider.LookupAnswer{Malformed: true}
	}
	var shell struct {
		Data *[]json.RawMessage `json:"data"`
		More bool               `json:"has_more"`
	}
	if err := json.Unmarshal(body, &shell); err != nil {
		return listing{}, provider.LookupAnswer{DecodeErr: err}
	}
	if shell.Data == nil {
		return listing{}, provider.LookupAnswer{DecodeErr: errNoData}
	}
	page := listing{data: *shell.Data, more: shell.More}
	if n := len(page.data); n > 0 {
		var id struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(page.data[n-1], &id) // without an id there is no next page to ask for
		page.last = id.ID
	}
	return page, provider.LookupAnswer{}
}

// cursor is where a sync stands. Stripe lists newest first and a sync reads oldest first,
// so the time is cut into slices that hold no more than a page each.
type cursor struct {
	at    int64  // start of the next slice, Unix seconds
	width int64  // its length in seconds
	after string // id within a slice of one second that holds more than a page
}

// beginning is before Stripe's first charge.
const beginning = 1_262_304_000 // 2010

// String renders the cursor; parseCursor reads it.
func (c cursor) String() string {
	return strconv.FormatInt(c.at, 10) + "." + strconv.FormatInt(c.width, 10) + "." + c.after
}

func parseCursor(text string, from, to int64) (cursor, error) {
	if text == "" {
		return cursor{at: from, width: max(to-from, 1)}, nil
	}
	parts := strings.SplitN(text, ".", 3)
	if len(parts) != 3 {
		return cursor{}, &provider.FieldError{Field: "cursor", Reason: "is malformed"}
	}
	at, err1 := strconv.ParseInt(parts[0], 10, 64)
	width, err2 := strconv.ParseInt(parts[1], 10, 64)
	if err1 != nil || err2 != nil || width < 1 || at < 0 || !pathSafe(parts[2]) && parts[2] != "" {
		return cursor{}, &provider.FieldError{Field: "cursor", Reason: "is malformed"}
	}
	return cursor{at: at, width: width, after: parts[2]}, nil
}

// listRequests is how many slices one call may try. A call that finds none small enough
// returns an empty page and a cursor that goes on from there.
const listRequests = 8

// List implements provider.Adapter. Lower bound inclusive, upper exclusive, in Stripe's
// whole seconds.
func (a *Adapter) List(ctx context.Context, q provider.ListQuery) (provider.Page, error) {
	from, to := a.bounds(q)
	c, err := parseCursor(q.Cursor, from, to)
	if err != nil {
		return provider.Page{Health: provider.HealthNeutral}, fmt.Errorf("%s: list: %w", a.Name(), err)
	}
	limit := q.Limit
	if limit <= 0 || limit > pageSize {
		limit = pageSize
	}
	health := provider.HealthOK
	for try := 0; c.at < to && try < listRequests; try++ {
		end := min(c.at+c.width, to)
		page, verdict, err := a.slice(ctx, c, end, limit)
		if health = verdict; err != nil {
			return provider.Page{Health: verdict}, err
		}
		var whole bool
		if c, whole = c.step(page, end); whole && len(page.objects) > 0 {
			return provider.Page{Objects: page.objects, Next: c.next(to), Health: health}, nil
		}
	}
	return provider.Page{Next: c.next(to), Health: health}, nil
}

// bounds are whole seconds that hold everything asked for.
func (a *Adapter) bounds(q provider.ListQuery) (from, to int64) {
	from, to = beginning, a.now().Unix()+1
	if !q.From.IsZero() {
		from = max(from, q.From.Unix())
	}
	if !q.To.IsZero() {
		to = q.To.Unix()
		if q.To.Nanosecond() > 0 {
			to++
		}
	}
	return from, to
}

// next is the cursor for the page after this one; empty at the end.
func (c cursor) next(to int64) string {
	if c.at >= to {
		return ""
	}
	return c.String()
}

// step decides about the page of a slice: cut off, the slice was too long and is halved,
// or is one second and is read on. Otherwise the next slice follows, and may be longer.
func (c cursor) step(page listing, end int64) (next cursor, whole bool) {
	length := end - c.at
	switch {
	case page.more && length > 1:
		return cursor{at: c.at, width: (length + 1) / 2}, false
	case page.more:
		return cursor{at: c.at, width: 1, after: page.last}, true
	}
	return cursor{at: end, width: min(c.width, 1<<40) * 2}, true
}

// slice asks for one slice's newest page.
func (a *Adapter) slice(ctx context.Context, c cursor, end int64, limit int) (listing, provider.Verdict, error) {
	query := url.Values{
		"limit":        {strconv.Itoa(limit)},
		"created[gte]": {strconv.FormatInt(c.at, 10)}, "created[lt]": {strconv.FormatInt(end, 10)},
	}
	if c.after != "" {
		query.Set("starting_after", c.after)
	}
	ex, _ := a.client.get(ctx, intentsPath, query)
	var page listing
	var ans provider.LookupAnswer
	if ex.Status == http.StatusOK && ex.Err == nil {
		page, ans = readList(ex.Body)
		ans.DecodeErr = errors.Join(ans.DecodeErr, page.inside(c.at, end), page.read())
	}
	reading := provider.ClassifyLookup(ex, ans, true)
	if ex.Status != http.StatusOK || reading.Verdict == provider.LookupNoAnswer {
		return listing{}, reading.Health, listError(a.Name(), reading.Reason, ex.Err, ans.DecodeErr)
	}
	if page.more && (page.last == "" || page.last == c.after) {
		return listing{}, provider.HealthNeutral, listError(a.Name(), "the list does not move on")
	}
	return page, reading.Health, nil
}

var errOutside = errors.New("the list holds charges of another time than asked for")

// inside reports an error if the filter by time was ignored: slices of such a list would
// repeat and omit charges.
func (l listing) inside(from, to int64) error {
	for _, raw := range l.data {
		var p struct {
			Created stamp `json:"created"`
		}
		if json.Unmarshal(raw, &p) == nil && p.Created != 0 && (int64(p.Created) < from || int64(p.Created) >= to) {
			return errOutside
		}
	}
	return nil
}

// read fills in the objects.
func (l *listing) read() error {
	for _, raw := range slices.Backward(l.data) {
		o, err := pageObject(raw)
		if err != nil {
			return err
		}
		l.objects = append(l.objects, o)
	}
	return nil
}

func listError(name, reason string, causes ...error) error {
	if err := errors.Join(causes...); err != nil {
		return fmt.Errorf("%s: list: %s: %w", name, reason, err)
	}
	return fmt.Errorf("%s: list: %s", name, reason)
}

// pageObject reads an intent of a list. One that cannot be decoded must not stop a sync
// for good: it is listed by its id, without a meaning.
func pageObject(raw json.RawMessage) (provider.Object, error) {
	p, err := decodeIntent(raw)
	if err == nil && p.ID != "" {
		return p.object(raw), nil
	}
	o := hint(raw, intentPrefix)
	if o == nil {
		return provider.Object{}, fmt.Errorf("a charge without an id: %w", errors.Join(err, errID))
	}
	o.Raw = provider.RedactRaw(raw)
	return *o, nil
}
