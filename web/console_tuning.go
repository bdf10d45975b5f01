package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"fusebox/breaker"
	"fusebox/views"
	"fusebox/views/components"
	"fusebox/views/messages"
	"fusebox/web/circuits"
)

// tuningSlots is how many replays run at once in a process: each may hold
// store.MaxReplayCalls calls in memory and keep a core busy for a moment.
const tuningSlots = 2

// tuningRanges are how far back a replay reaches; call_outcomes is kept 14 days by
// default.
var tuningRanges = []struct {
	value string
	span  time.Duration
}{
	{"15m", 15 * time.Minute}, {"1h", time.Hour}, {"6h", 6 * time.Hour}, {"24h", 24 * time.Hour}, {"3d", 72 * time.Hour}, {"7d", 7 * 24 * time.Hour}, {"14d", 14 * 24 * time.Hour},
}

// tuningRangeDefault is the one a page opens with: a shift's worth, so that the page is
// there at once even where a provider is called a hundred thousand times a day.
const tuningRangeDefault = "6h"

// untilLayout is what an <input type="datetime-local"> sends.
const untilLayout = "2006-01-02T15:04"

// registerTuning adds the page. Everybody may look: it changes nothing.
func (s *Server) registerTuning() {
	slots := make(chan struct{}, tuningSlots)
	s.console.GET(views.PathProviders+"/:provider/:class/tuning", func(c echo.Context) error {
		return s.tuningPage(c, slots)
	})
}

// tuningQuery is the form as typed and as meant.
type tuningQuery struct {
	key      breaker.Key
	inForce  breaker.Settings
	settings breaker.Settings // what is replayed
	typed    map[string]string
	from, to time.Time
	errors   map[string]string // by field, in words
}

func (s *Server) tuningPage(c echo.Context, slots chan struct{}) error {
	p, ok := s.settings(c.Param("provider"))
	key := breaker.Key{Name: p.Name, Class: c.Param("class")}
	if !ok || !slices.Contains(s.cfg.classesOf(p.Name), key.Class) {
		return echo.ErrNotFound
	}
	ctx := s.viewContext(c)
	snap, err := s.cfg.Breaker.Snapshot(ctx, key)
	if err != nil {
		return err
	}
	q := readTuning(ctx, key, snap.Settings, c.QueryParams())
	v := q.view(ctx)
	title := views.T(ctx, "tuning.title", "Provider", key.Name, "Class", views.Opt(ctx, "class.", key.Class))
	if v.Refused {
		return s.render(c, http.StatusUnprocessableEntity, views.Framed(s.page(c, "providers", title), views.Tuning(v)))
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	r, err := circuits.WhatIf(ctx, s.cfg.Store, key, q.inForce, q.settings, q.from, q.to)
	if err != nil {
		return err
	}
	showReport(ctx, &v, r)
	return s.render(c, http.StatusOK, views.Framed(s.page(c, "providers", title), views.Tuning(v)))
}

// readTuning reads the address. A field that is absent means the setting in force.
func readTuning(ctx context.Context, key breaker.Key, inForce breaker.Settings, values url.Values) tuningQuery {
	q := tuningQuery{key: key, inForce: inForce.WithDefaults(), typed: map[string]string{}, errors: map[string]string{}}
	p := circuits.ProposalOf(q.inForce)
	read := func(name, shown string, parse func(text string) bool) {
		text := shown
		if values.Has(name) {
			text = strings.TrimSpace(values.Get(name))
		}
		if q.typed[name] = text; text != shown && !parse(text) {
			q.errors[name] = circuits.BadWords(ctx, circuits.Bad{Field: name, Why: circuits.BadNumber})
		}
	}
	read("failures", strconv.Itoa(p.Failures), wholeNumber(&p.Failures))
	read("window", inSeconds(p.Window), duration(&p.Window))
	read("rate", decimal(p.Rate*100), percentage(&p.Rate))
	read("min_calls", strconv.Itoa(p.MinCalls), wholeNumber(&p.MinCalls))
	read("slow", inSeconds(p.Slow), duration(&p.Slow))
	read("open_for", inSeconds(p.OpenFor), duration(&p.OpenFor))
	settings, bad := p.Settings(q.inForce)
	for _, b := range bad {
		if q.errors[b.Field] == "" {
			q.errors[b.Field] = circuits.BadWords(ctx, b)
		}
	}
	q.settings = settings
	q.readRange(ctx, values)
	return q
}

// readRange reads how far back the replay reaches, and until when.
func (q *tuningQuery) readRange(ctx context.Context, values url.Values) {
	l := messages.From(ctx)
	q.typed["range"], q.typed["until"] = or(values.Get("range"), tuningRangeDefault), values.Get("until")
	q.to = l.Now
	if text := q.typed["until"]; text != "" {
		at, err := time.ParseInLocation(untilLayout, text, l.Zone)
		if err != nil {
			q.errors["until"] = views.T(ctx, "tuning.bad.until")
		} else if at.Before(q.to) {
			q.to = at
		}
	}
	for _, r := range tuningRanges {
		if r.value == q.typed["range"] {
			q.from = q.to.Add(-r.span)
		}
	}
	if q.from.IsZero() {
		q.errors["range"] = views.T(ctx, "tuning.bad.choice")
	}
}

// tuningFields in the order of the form, with the label of each.
var tuningFields = []struct{ name, label string }{
	{"failures", "tuning.field.failures"}, {"window", "tuning.field.window"}, {"rate", "tuning.field.rate"},
	{"min_calls", "tuning.field.min_calls"}, {"slow", "tuning.field.slow"}, {"open_for", "tuning.field.open_for"},
	{"range", "tuning.field.range"}, {"until", "tuning.field.until"},
}

func (q tuningQuery) view(ctx context.Context) views.TuningView {
	v := views.TuningView{Provider: q.key.Name, Class: q.key.Class, Refused: len(q.errors) > 0,
		InForce: circuits.Rules(ctx, q.inForce)}
	for _, f := range tuningFields {
		field := components.Field{ID: "t-" + f.name, Name: f.name, Label: views.T(ctx, f.label), Value: q.typed[f.name],
			Error: q.errors[f.name], Max: 20, InputMode: "decimal", Autocomplete: "off"}
		switch f.name {
		case "range":
			field = components.Field{ID: field.ID, Name: field.Name, Label: field.Label, Value: field.Value, Error: field.Error, Options: rangeOptions(ctx)}
		case "until":
			field.Type, field.InputMode, field.Max = "datetime-local", "", 0
		case "failures", "min_calls":
			field.InputMode = "numeric"
		}
		v.Fields = append(v.Fields, field)
		if field.Error != "" {
			v.Errors = append(v.Errors, components.FieldError{FieldID: field.ID, Text: field.Label + ": " + field.Error})
		}
	}
	shown := circuits.ProposalOf(q.inForce)
	v.Changed = v.Refused || circuits.ProposalOf(q.settings) != shown || q.typed["range"] != tuningRangeDefault || q.typed["until"] != ""
	return v
}

func rangeOptions(ctx context.Context) []components.Option {
	out := make([]components.Option, 0, len(tuningRanges))
	for _, r := range tuningRanges {
		label := messages.Span(ctx, r.span)
		if r.span == 24*time.Hour {
			label = "24\u00a0" + views.T(ctx, "time.unit.hour")
		}
		out = append(out, components.Option{Value: r.value, Label: label})
	}
	return out
}

// wholeNumber, percentage and duration read what people type; they report whether it
// could be read. Bounds are the proposal's business.
func wholeNumber(to *int) func(string) bool {
	return func(text string) bool {
		n, err := strconv.Atoi(text)
		*to = n
		return err == nil
	}
}

func percentage(to *float64) func(string) bool {
	return func(text string) bool {
		v, ok := readDecimal(strings.TrimSpace(strings.TrimSuffix(text, "%")))
		*to = v / 100
		return ok
	}
}

// duration reads seconds, with a decimal point or comma, or Go's form: 90, 1.5, 2m30s.
func duration(to *time.Duration) func(string) bool {
	return func(text string) bool {
		if v, ok := readDecimal(text); ok {
			*to = time.Duration(min(max(v, -1), 1e7) * float64(time.Second))
			return true
		}
		d, err := time.ParseDuration(text)
		*to = d
		return err == nil
	}
}

// readDecimal reads plain digits with at most one point or comma.
func readDecimal(text string) (float64, bool) {
	text = strings.Replace(text, ",", ".", 1)
	if strings.Trim(text, "-0123456789.") != "" {
		return 0, false // no exponents, no "inf"
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func inSeconds(d time.Duration) string { return decimal(d.Seconds()) }

// showReport fills in what the replay found.
func showReport(ctx context.Context, v *views.TuningView, r circuits.Report) {
	num := func(n int) string { return messages.Num(ctx, int64(n)) }
	v.Headline, v.Cannot = circuits.Headline(ctx, r), circuits.Cannot(ctx, r)
	v.Figures = []views.TuningFigure{
		{Label: views.T(ctx, "tuning.figure.calls"), Value: num(r.Calls)}, {Label: views.T(ctx, "tuning.figure.made"), Value: num(r.Made)},
		{Label: views.T(ctx, "tuning.figure.spared"), Value: num(r.Spared)}, {Label: views.T(ctx, "tuning.figure.lost"), Value: num(r.Lost)},
	}
	v.Chart = views.ChartView{From: r.From, To: r.To}
	for _, b := range r.Buckets {
		v.Chart.Buckets = append(v.Chart.Buckets, views.ChartBucket(b))
	}
	for _, o := range r.Replayed {
		row := openingOn(o.Period)
		row.Compared, row.Tone, row.Icon = circuits.ComparedWords(ctx, o), components.ToneOK, "check"
		if !o.Sound() {
			row.Tone, row.Icon = components.ToneWarn, "warn"
		}
		v.Replayed = append(v.Replayed, row)
		v.Chart.Replayed = append(v.Chart.Replayed, stretch(ctx, o.Period, r.To, !o.Sound()))
	}
	for _, o := range r.Real {
		row := openingOn(o.Period)
		row.Compared, row.Tone, row.Icon = circuits.RealWords(ctx, o), components.ToneInfo, "info"
		v.Real = append(v.Real, row)
		v.Chart.Real = append(v.Chart.Real, stretch(ctx, o.Period, r.To, false))
	}
}

func openingOn(p circuits.Period) views.TuningOpening {
	return views.TuningOpening{At: p.At, Until: p.Until, Reason: p.Reason, Failures: p.Failures}
}

func stretch(ctx context.Context, p circuits.Period, to time.Time, guess bool) views.ChartPeriod {
	s := views.ChartPeriod{At: p.At, Until: p.Until, Guess: guess}
	if s.Until.IsZero() {
		s.Until = to
	}
	s.Label = messages.Clock(ctx, s.At) + "–" + messages.Clock(ctx, s.Until)
	return s
}
