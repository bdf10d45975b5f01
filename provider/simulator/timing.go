package simulator

import (
	"encoding/json"
	"time"
)

// Timing holds how long each fault lasts. A zero field means its default.
type Timing struct {
	Silent     time.Duration // silence before the connection is dropped (60 s)
	Slow       time.Duration // pause before a slow answer (3 s)
	Drip       time.Duration // pause between two bytes (300 ms)
	InProgress time.Duration // how long an in_progress_409 call runs (6 s)
	RetryAfter time.Duration // what a 429 asks for (2 s; whole seconds)
	Async      time.Duration // processing to final (2 s)
	Action     time.Duration // requires_action to final (8 s)
	Late       time.Duration // delay of a late event (4 s)
	Lag        time.Duration // invisibility to lookups (5 s)
	NotFound   time.Duration // 404 on lookups (5 s)
	Webhook    time.Duration // pause before any event's first delivery (30 ms)
	EarlyWait  time.Duration // longest an answer waits for its early event (2 s)

	Authorisation time.Duration // how long a charge is held until it lapses (7 days)
}

// DefaultTiming returns the timings used where nothing else is said. They suit
// an attempt deadline of 5 s.
func DefaultTiming() Timing {
	return Timing{
		Silent: time.Minute, Slow: 3 * time.Second, Drip: 300 * time.Millisecond,
		InProgress: 6 * time.Second, RetryAfter: 2 * time.Second,
		Async: 2 * time.Second, Action: 8 * time.Second, Late: 4 * time.Second,
		Lag: 5 * time.Second, NotFound: 5 * time.Second,
		Webhook: 30 * time.Millisecond, EarlyWait: 2 * time.Second,
		Authorisation: 7 * 24 * time.Hour,
	}
}

// timingField is one timing under the name it has in JSON.
type timingField struct {
	name string
	d    *time.Duration
}

// fields lists the timings in a fixed order.
func (t *Timing) fields() []timingField {
	return []timingField{
		{"silent", &t.Silent}, {"slow", &t.Slow}, {"drip", &t.Drip},
		{"in_progress", &t.InProgress}, {"retry_after", &t.RetryAfter},
		{"async", &t.Async}, {"action", &t.Action}, {"late", &t.Late},
		{"lag", &t.Lag}, {"not_found", &t.NotFound},
		{"webhook", &t.Webhook}, {"early_wait", &t.EarlyWait}, {"authorisation", &t.Authorisation},
	}
}

// set changes one timing by its JSON name from text such as "1.5s".
func (t *Timing) set(name, text string) error {
	for _, f := range t.fields() {
		if f.name != name {
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return &FieldError{"timing." + name, `must be a duration such as "1.5s"`}
		}
		*f.d = d
		return nil
	}
	return &FieldError{"timing." + name, "unknown timing"}
}

func (t Timing) validate() error {
	for _, f := range t.fields() {
		if *f.d < 0 {
			return &FieldError{"timing." + f.name, "must not be negative"}
		}
	}
	return nil
}

func (t Timing) withDefaults() Timing {
	def := DefaultTiming()
	want := def.fields()
	for i, f := range t.fields() {
		if *f.d == 0 {
			*f.d = *want[i].d
		}
	}
	return t
}

// MarshalJSON writes durations as text ("3s").
func (t Timing) MarshalJSON() ([]byte, error) {
	out := map[string]string{}
	for _, f := range t.fields() {
		out[f.name] = f.d.String()
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads durations from text; absent ones keep their value.
func (t *Timing) UnmarshalJSON(b []byte) error {
	var in map[string]string
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	for name, text := range in {
		if err := t.set(name, text); err != nil {
			return err
		}
	}
	return nil
}
