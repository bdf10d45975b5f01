package circuits

import (
	"time"

	"fusebox/breaker"
)

// View is a circuit as programs see it: in the API and in `fusebox breaker list --json`.
type View struct {
	Provider string        `json:"provider"`
	Class    string        `json:"class"`
	State    breaker.State `json:"state"` // closed, open, half_open
	Epoch    string        `json:"epoch"` // send it back with an action
	Since    *string       `json:"since"` // null: it never changed

	OpenReason *string   `json:"open_reason"` // why it opened last
	OpenUntil  *string   `json:"open_until"`  // when it probes by itself; null unless open
	Override   *Override `json:"override"`

	FailuresInRow int     `json:"failures_in_row"`
	Threshold     int     `json:"threshold"` // failures in a row that open it
	LastError     *string `json:"last_error"`
	Reopens       int     `json:"reopens"`
	InFlight      int     `json:"in_flight"`     // over all processes; counted only with a limit
	MaxInFlight   *int    `json:"max_in_flight"` // null: no limit
	Probes        []Lease `json:"probes"`
	Window        Counts  `json:"window"` // latest calls of this era

	Degraded bool     `json:"degraded"` // shared state is gone: one process's own view
	Actions  []string `json:"actions"`  // that make sense now
}

// Override is a mode in force.
type Override struct {
	Mode  breaker.Mode `json:"mode"`
	Until *string      `json:"until"` // null: until reset
}

// Lease is a probe under way.
type Lease struct {
	Holder string `json:"holder"`
	Until  string `json:"until"`
}

// Counts of finished calls.
type Counts struct {
	OK      int `json:"ok"`
	Fail    int `json:"fail"`
	Neutral int `json:"neutral"`
	Slow    int `json:"slow"`
}

// NewView shows a snapshot.
func NewView(s breaker.Snapshot) View {
	v := View{
		Provider: s.Key.Name, Class: s.Key.Class, State: s.State, Epoch: s.Epoch, Since: wireTime(s.Since),
		OpenReason: text(s.OpenReason), OpenUntil: wireTime(s.OpenUntil), FailuresInRow: s.Consecutive,
		Threshold: max(s.Settings.Failures, 0), LastError: text(s.LastError), Reopens: s.Reopens, InFlight: s.InFlight,
		Probes: []Lease{}, Window: Counts{s.Window.OK, s.Window.Fail, s.Window.Neutral, s.Window.Slow},
		Degraded: s.Degraded, Actions: []string{},
	}
	if s.Mode != "" {
		v.Override = &Override{Mode: s.Mode, Until: wireTime(s.ModeUntil)}
	}
	if n := s.Settings.MaxInFlight; n > 0 {
		v.MaxInFlight = &n
	}
	for _, p := range s.Probes {
		v.Probes = append(v.Probes, Lease{p.Token, p.Until.UTC().Format(wireLayout)})
	}
	if s.Degraded {
		return v // nothing a person does now would reach the other processes
	}
	for _, a := range Actions {
		if a.Offered(s) {
			v.Actions = append(v.Actions, a.Verb())
		}
	}
	return v
}

// wireLayout is RFC 3339 in UTC, to the microsecond.
const wireLayout = "2006-01-02T15:04:05.999999Z07:00"

func wireTime(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return text(t.UTC().Format(wireLayout))
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
