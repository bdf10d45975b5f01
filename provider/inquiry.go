package provider

import "slices"

// What every lookup does that may take several questions, whatever the provider's dialect.

// Unanswered is a lookup before its first question.
func Unanswered() LookedUp {
	return LookedUp{Verdict: LookupNoAnswer, Health: HealthNeutral, Reason: ReasonNoWay}
}

// Asked counts what a question cost and keeps its exchange, without secrets.
func (l *LookedUp) Asked(ex Exchange, requests int) {
	l.Requests += requests
	l.Exchange = ex
	l.Exchange.Body = Redact(ex.Body)
}

// Note keeps what a reading says. What was found stays found, whatever a later question's
// fate.
func (l *LookedUp) Note(way Way, r LookupReading) {
	if len(l.Objects) == 0 {
		l.Way, l.Reason, l.Health = way, r.Reason, r.Health
	}
	if r.Alert != "" {
		l.Alert = r.Alert
	}
}

// Holds reports whether an object was found, by the provider's id.
func (l *LookedUp) Holds(id string) bool {
	return slices.ContainsFunc(l.Objects, func(o Object) bool { return o.ID == id })
}

// Merge adds objects not found yet.
func (l *LookedUp) Merge(objects []Object) {
	for _, o := range objects {
		if !l.Holds(o.ID) {
			l.Objects = append(l.Objects, o)
		}
	}
}

// Conclude sets the verdict. absent: a question of our own showed that there is none.
// vanished: the provider does not know an id that it gave us once; with an absence that is
// lag or a contradiction, and not the absence of a charge.
func (l *LookedUp) Conclude(absent, vanished bool) {
	switch {
	case len(l.Objects) > 0:
		l.Verdict, l.Reason, l.More = LookupFound, ReasonFound, false
	case absent && vanished:
		l.Verdict, l.Reason = LookupNoAnswer, ReasonVanished
	case absent:
		l.Verdict, l.Reason = LookupAbsent, ReasonNotFound
	}
}
