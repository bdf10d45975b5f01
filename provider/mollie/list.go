package mollie

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fusebox/provider"
)

// cursor is where a sync stands. Mollie cannot be asked for a time, so a sync first
// looks for its beginning, backwards from the newest payment, and then reads forward
// from there.
type cursor struct {
	seeking bool
	at      string // id the next page begins with; empty: the end of the list
	start   string // while seeking: the oldest payment seen that is still in the window
}

// String renders the cursor; parseCursor reads it. Ids hold no dot.
func (c cursor) String() string {
	if c.seeking {
		return "back." + c.at + "." + c.start
	}
	return "on." + c.at
}

func parseCursor(text string, from time.Time) (cursor, error) {
	parts := strings.Split(text, ".")
	usable := func(id string) bool { return id == "" || pathSafe(id) }
	switch {
	case text == "":
		return cursor{seeking: !from.IsZero()}, nil
	case parts[0] == "back" && len(parts) == 3 && usable(parts[1]) && usable(parts[2]):
		return cursor{seeking: true, at: parts[1], start: parts[2]}, nil
	case parts[0] == "on" && len(parts) == 2 && pathSafe(parts[1]):
		return cursor{at: parts[1]}, nil
	}
	return cursor{}, &provider.FieldError{Field: "cursor", Reason: "is malformed"}
}

// seekPages is how many pages one call may seek through. A call that does not reach the
// beginning returns an empty page and a cursor that goes on from there.
const seekPages = 8

// List implements provider.Adapter. Lower bound inclusive, upper exclusive.
func (a *Adapter) List(ctx context.Context, q provider.ListQuery) (provider.Page, error) {
	c, err := parseCursor(q.Cursor, q.From)
	if err != nil {
		return provider.Page{Health: provider.HealthNeutral}, fmt.Errorf("%s: list: %w", a.Name(), err)
	}
	for range seekPages {
		if !c.seeking {
			return a.forward(ctx, c, q)
		}
		p, health, err := a.listPage(ctx, c.at, newestFirst, pageSize)
		if err != nil {
			return provider.Page{Health: health}, err
		}
		var empty bool
		if c, empty = c.seek(p, q.From); empty {
			return provider.Page{Health: health}, nil
		}
	}
	if !c.seeking {
		return a.forward(ctx, c, q)
	}
	return provider.Page{Next: c.String(), Health: provider.HealthOK}, nil
}

// seek takes one page into account. empty: nothing in the list is as young as that.
func (c cursor) seek(p page, from time.Time) (next cursor, empty bool) {
	for _, e := range p.entries {
		if e.ID != "" && !e.CreatedAt.IsZero() && !e.CreatedAt.Before(from) {
			c.start = e.ID
		}
	}
	if p.next != "" && !p.before(from) {
		return cursor{seeking: true, at: p.next, start: c.start}, false
	}
	return cursor{at: c.start}, c.start == ""
}

// forward reads one page forward.
func (a *Adapter) forward(ctx context.Context, c cursor, q provider.ListQuery) (provider.Page, error) {
	limit := q.Limit
	if limit <= 0 || limit > pageSize {
		limit = pageSize
	}
	p, health, err := a.listPage(ctx, c.at, oldestFirst, limit)
	if err != nil {
		return provider.Page{Health: health}, err
	}
	out := provider.Page{Health: health}
	for _, e := range p.entries {
		if e.CreatedAt.Before(q.From) || !q.To.IsZero() && !e.CreatedAt.Before(q.To) {
			continue
		}
		o, err := e.object()
		if err != nil {
			return provider.Page{Health: provider.HealthNeutral}, fmt.Errorf("%s: list: %w", a.Name(), err)
		}
		out.Objects = append(out.Objects, o)
	}
	if p.next != "" && (q.To.IsZero() || !p.past(q.To)) {
		out.Next = cursor{at: p.next}.String()
	}
	return out, nil
}

// object is an entry in the engine's vocabulary. One that cannot be decoded must not
// stop a sync for good: it is listed by its id, without a meaning.
func (e entry) object() (provider.Object, error) {
	switch {
	case e.err == nil:
		return e.payment.object(e.raw), nil
	case e.ID == "":
		return provider.Object{}, fmt.Errorf("a payment without an id: %w", e.err)
	}
	return provider.Object{ID: e.ID, CreatedAt: e.CreatedAt.Time, Raw: provider.RedactRaw(e.raw)}, nil
}

// listPage asks for a page of a sync.
func (a *Adapter) listPage(ctx context.Context, from string, way direction, limit int) (page, provider.Verdict, error) {
	p, reading, _, _, err := a.fetchPage(ctx, from, way, limit)
	if reading.Verdict == provider.LookupNoAnswer {
		return page{}, reading.Health, fmt.Errorf("%s: list: %s: %w", a.Name(), reading.Reason, errors.Join(err, errPage))
	}
	if p.next != "" && p.next == from {
		return page{}, provider.HealthNeutral, fmt.Errorf("%s: list: %w", a.Name(), errStuck)
	}
	return p, reading.Health, nil
}

var (
	errPage  = errors.New("no page")
	errStuck = errors.New("the list does not move on")
)
