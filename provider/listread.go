package provider

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// clockTolerance is how far a provider's clock may be from ours: as much as a webhook's
	// signature allows. Further off, every delivery is refused and people are told.
	clockTolerance = 5 * time.Minute
	// lateArrival is how long after our deadline a request may still be carried out: what the
	// kernel holds of it goes out for some minutes, and the provider takes its time.
	lateArrival = 3 * time.Minute
)

// Stretch is the time, by the provider's clock, in which a charge of the query can have
// been made; answer is the deadline of one send. Zero where the query does not say when
// the first or the last one was.
func (q LookupQuery) Stretch(answer time.Duration) (from, to time.Time) {
	if !q.SentFrom.IsZero() {
		from = q.SentFrom.Add(-clockTolerance)
	}
	if !q.SentTo.IsZero() {
		to = q.SentTo.Add(answer + lateArrival + clockTolerance)
	}
	return from, to
}

// ReasonListIncomplete is a lookup that did not come to the end of its stretch of the list.
const ReasonListIncomplete = "list_incomplete"

// listParts is how many lookups one reading of a stretch may take. A longer one is not read
// to its end, and never shows an absence.
const listParts = 25

// ListRead is the reading of a stretch of a provider's list that may be too long for one
// lookup: the next one goes on where this one stopped. Parts of it prove together what one
// reading proves as long as the stretch cannot change any more, so only those count that
// were begun after the horizon of an absence.
type ListRead struct {
	At    string // id of a charge at which the next page begins, or after which; empty: the newest
	Start string // id of a charge that is younger than all of the stretch; empty: none is known

	began   time.Time
	parts   int  // lookups, with this one
	settled bool // it is late enough to go on next time
}

// ResumeListRead goes on where the query's cursor stopped, or begins a reading. horizon is
// Settings.AbsentHorizon.
func ResumeListRead(q LookupQuery, now time.Time, horizon time.Duration) ListRead {
	settled := q.SentTo.Add(horizon)
	r := ListRead{began: now, parts: 1, settled: !q.SentTo.IsZero() && !now.Before(settled)}
	before, ok := parseListRead(q.Cursor)
	if !ok {
		return r
	}
	r.At, r.Start = before.Start, before.Start
	if r.settled && before.At != "" && before.parts < listParts && !before.began.Before(settled) && !before.began.After(now) {
		before.parts++
		before.settled = true
		return before
	}
	return r
}

// AtStart reports whether the next page would be the first of the reading, and begins at
// Start.
func (r ListRead) AtStart() bool { return r.Start != "" && r.At == r.Start }

// Enough reports whether the lookup has no time left for another page, whose request may
// take as long as answer.
func (ListRead) Enough(ctx context.Context, answer time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < answer
}

// Stopped writes down where a reading stopped that found nothing: before the end of the
// stretch.
func (r ListRead) Stopped(l *LookedUp) {
	l.Reason, l.More = ReasonListIncomplete, r.settled && r.parts < listParts
	if !l.More {
		r.At = ""
	}
	l.Cursor = r.String()
}

// Broken writes down where a reading stopped that got no answer. What was read stays read,
// unless the provider refused the question: then the place to go on from may be at fault.
func (r ListRead) Broken(l *LookedUp) {
	if s := l.Exchange.Status; !r.settled || s >= 200 && s < 500 && s != http.StatusTooManyRequests {
		r.At = ""
	}
	l.Cursor = r.String()
}

// Done writes down what is worth knowing of a reading that came to its end.
func (r ListRead) Done(l *LookedUp) {
	r.At = ""
	l.Cursor = r.String()
}

// String renders a reading as a cursor; empty when there is nothing to go on from.
func (r ListRead) String() string {
	if r.At == "" && r.Start == "" {
		return ""
	}
	at, start := r.At, r.Start
	if at == "" {
		at = "-"
	}
	return strings.TrimSpace(strings.Join([]string{strconv.FormatInt(r.began.UnixMilli(), 10), strconv.Itoa(r.parts), at, start}, " "))
}

// parseListRead reads a cursor. One that is not ours is none.
func parseListRead(text string) (r ListRead, ok bool) {
	parts := strings.Fields(text)
	if len(parts) < 3 || len(parts) > 4 {
		return ListRead{}, false
	}
	began, err1 := strconv.ParseInt(parts[0], 10, 64)
	n, err2 := strconv.Atoi(parts[1])
	if err1 != nil || err2 != nil || n < 1 {
		return ListRead{}, false
	}
	r = ListRead{began: time.UnixMilli(began), parts: n}
	if parts[2] != "-" {
		r.At = parts[2]
	}
	if len(parts) == 4 {
		r.Start = parts[3]
	}
	return r, true
}
