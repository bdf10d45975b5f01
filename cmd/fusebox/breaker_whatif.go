package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"fusebox/breaker"
	"fusebox/views/messages"
	opcircuits "fusebox/web/circuits"
)

// whatIfCall is the command line of fusebox breaker whatif, read.
type whatIfCall struct {
	key      breaker.Key
	proposal opcircuits.Proposal
	given    map[string]bool // flags that were set; the others are the settings in force
	from, to time.Time
	asJSON   bool
}

// whatIf replays recorded calls against other settings. It reads the books only, so it
// works while Redis is down.
func whatIf(ctx context.Context, args []string, out io.Writer) error {
	call, err := readWhatIf(args, time.Now())
	if err != nil {
		return err
	}
	cfg, err := loadConfig(os.Environ())
	if err != nil {
		return err
	}
	return call.run(ctx, cfg, out)
}

func (c whatIfCall) run(ctx context.Context, cfg config, out io.Writer) error {
	a, err := buildReader(ctx, cfg, "whatif")
	if err != nil {
		return err
	}
	defer a.close()
	if _, ok := a.settings(c.key.Name); !ok {
		return fmt.Errorf("--provider: %q is not in FUSEBOX_PROVIDERS", c.key.Name)
	}
	inForce := a.circuitSettings(c.key)
	settings, err := c.settings(inForce)
	if err != nil {
		return err
	}
	r, err := opcircuits.WhatIf(ctx, a.store, c.key, inForce, settings, c.from, c.to)
	if err != nil {
		return err
	}
	if c.asJSON {
		return printReportJSON(out, r)
	}
	return printReport(out, r)
}

// readWhatIf reads the flags. Times are RFC 3339; a bare --since looks back from now.
func readWhatIf(args []string, now time.Time) (whatIfCall, error) {
	c := whatIfCall{given: map[string]bool{}}
	p := &c.proposal
	fs := newFlags("breaker whatif", "")
	fs.StringVar(&c.key.Name, "provider", "", "whose recorded calls to replay (required)")
	fs.StringVar(&c.key.Class, "class", "charge", "charge or status")
	fs.IntVar(&p.Failures, "failures", 0, "failures that open it; 0: rule off (default as in force)")
	fs.DurationVar(&p.Window, "window", 0, "within this time, successes in between or not; 0: in a row (default as in force)")
	fs.Float64Var(&p.Rate, "rate", 0, "share of failed calls that opens it, 0 to 1; 0: rule off (default as in force)")
	fs.IntVar(&p.MinCalls, "min-calls", 0, "calls below which no share counts (default as in force)")
	fs.DurationVar(&p.Slow, "slow", 0, "a call this long is slow; 0: rule off (default as in force)")
	fs.DurationVar(&p.OpenFor, "open-for", 0, "how long it stays open (default as in force)")
	since := fs.Duration("since", 24*time.Hour, "how far to look back")
	from := fs.String("from", "", "begin, RFC 3339, instead of --since")
	to := fs.String("to", "", "end, RFC 3339 (default now)")
	fs.BoolVar(&c.asJSON, "json", false, "print JSON")
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	for _, name := range []string{"failures", "window", "rate", "min-calls", "slow", "open-for"} {
		c.given[name] = given(fs, name)
	}
	switch {
	case fs.NArg() > 0:
		return c, fmt.Errorf("breaker whatif: %q is no flag", fs.Arg(0))
	case c.key.Name == "":
		return c, errors.New("--provider: is required")
	case !slices.Contains(circuitClasses, c.key.Class):
		return c, fmt.Errorf("--class: %q is not one of %s", c.key.Class, strings.Join(circuitClasses, ", "))
	case *from != "" && given(fs, "since"):
		return c, errors.New("--since and --from: give one of them")
	case *since <= 0:
		return c, errors.New("--since: must be positive")
	}
	return c, c.between(*from, *to, *since, now)
}

func (c *whatIfCall) between(from, to string, since time.Duration, now time.Time) error {
	var err error
	if c.to = now; to != "" {
		if c.to, err = time.Parse(time.RFC3339, to); err != nil {
			return fmt.Errorf("--to: %q is not a time like 2026-03-01T14:00:00Z", to)
		}
	}
	if c.from = c.to.Add(-since); from != "" {
		if c.from, err = time.Parse(time.RFC3339, from); err != nil {
			return fmt.Errorf("--from: %q is not a time like 2026-03-01T14:00:00Z", from)
		}
	}
	if !c.from.Before(c.to) {
		return errors.New("--from: is not before --to")
	}
	return nil
}

// settings are those in force with the given flags in their place.
func (c whatIfCall) settings(inForce breaker.Settings) (breaker.Settings, error) {
	p := opcircuits.ProposalOf(inForce)
	put(c, "failures", &p.Failures, c.proposal.Failures)
	put(c, "window", &p.Window, c.proposal.Window)
	put(c, "rate", &p.Rate, c.proposal.Rate)
	put(c, "min-calls", &p.MinCalls, c.proposal.MinCalls)
	put(c, "slow", &p.Slow, c.proposal.Slow)
	put(c, "open-for", &p.OpenFor, c.proposal.OpenFor)
	s, bad := p.Settings(inForce)
	errs := make([]error, 0, len(bad))
	for _, b := range bad {
		errs = append(errs, fmt.Errorf("--%s: %s", strings.ReplaceAll(b.Field, "_", "-"), plain(opcircuits.BadWords(english(c.to), b))))
	}
	return s, errors.Join(errs...)
}

// given reports whether a flag was set.
func given(fs *flag.FlagSet, name string) bool {
	found := false
	fs.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

func put[T any](c whatIfCall, flag string, to *T, v T) {
	if c.given[flag] {
		*to = v
	}
}

// english is the language of the command line; times are UTC.
func english(now time.Time) context.Context {
	return messages.With(context.Background(), messages.Locale{Lang: messages.English, Zone: time.UTC, Now: now})
}

// plain replaces the no-break spaces that only a page needs.
func plain(s string) string { return strings.ReplaceAll(s, "\u00a0", " ") }

func printReport(out io.Writer, r opcircuits.Report) error {
	ctx := english(r.To)
	fmt.Fprintf(out, "%s, %s to %s UTC, %s calls\n", r.Key, r.From.UTC().Format(time.DateTime), r.To.UTC().Format(time.DateTime), messages.Num(ctx, int64(r.Calls)))
	fmt.Fprintln(out, "Replayed: "+plain(opcircuits.Rules(ctx, r.Settings))+".")
	fmt.Fprintln(out, plain(strings.Join(opcircuits.Headline(ctx, r), " ")))
	if len(r.Replayed)+len(r.Real) > 0 {
		fmt.Fprintln(out)
		w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
		fmt.Fprintln(w, "OPENING\tOPENED\tCLOSED\tWHY\tCOMPARED")
		for _, o := range r.Replayed {
			fmt.Fprintf(w, "replayed\t%s\t%s\n", openingColumns(o.Period, r.To), plain(opcircuits.ComparedWords(ctx, o)))
		}
		for _, o := range r.Real {
			fmt.Fprintf(w, "real\t%s\t%s\n", openingColumns(o.Period, r.To), opcircuits.RealWords(ctx, o))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "\n"+messages.T(ctx, "tuning.cannot")+":")
	for _, s := range opcircuits.Cannot(ctx, r) {
		fmt.Fprintln(out, "- "+plain(s))
	}
	return nil
}

func openingColumns(p opcircuits.Period, now time.Time) string {
	closed := "still open"
	if !p.Until.IsZero() {
		closed = moment(p.Until, now)
	}
	return strings.Join([]string{moment(p.At, now), closed, p.Reason}, "\t")
}

// reportJSON is the report for programs: times in RFC 3339, durations in seconds.
type reportJSON struct {
	Provider  string        `json:"provider"`
	Class     string        `json:"class"`
	Rules     string        `json:"rules"`
	From      time.Time     `json:"from"`
	To        time.Time     `json:"to"`
	Truncated bool          `json:"truncated"`
	Calls     int           `json:"calls"`
	Made      int           `json:"made"`
	Spared    int           `json:"spared"` // failed calls that would not have been made
	Lost      int           `json:"lost"`   // good calls that would not have been made
	Replayed  []openingJSON `json:"replayed"`
	Real      []openingJSON `json:"real"`
	Sentences []string      `json:"sentences"`
	Cannot    []string      `json:"cannot_know"`
}

type openingJSON struct {
	OpenedAt time.Time  `json:"opened_at"`
	ClosedAt *time.Time `json:"closed_at"` // null: still open at the end
	Reason   string     `json:"reason"`
	Failures int        `json:"failures"`

	Compared string  `json:"compared,omitempty"`        // replayed: earlier, same, extra, blind
	Earlier  float64 `json:"earlier_seconds,omitempty"` // replayed
	Sound    *bool   `json:"sound,omitempty"`           // replayed: recorded calls prove it
	Missed   bool    `json:"missed,omitempty"`          // real: not opened by then in the replay
	ByHand   bool    `json:"by_hand,omitempty"`         // real: forced open by a person
}

func newOpeningJSON(p opcircuits.Period) openingJSON {
	o := openingJSON{OpenedAt: p.At.UTC(), Reason: p.Reason, Failures: p.Failures}
	if !p.Until.IsZero() {
		closed := p.Until.UTC()
		o.ClosedAt = &closed
	}
	return o
}

func printReportJSON(out io.Writer, r opcircuits.Report) error {
	ctx := english(r.To)
	j := reportJSON{Provider: r.Key.Name, Class: r.Key.Class, Rules: plain(opcircuits.Rules(ctx, r.Settings)), From: r.From.UTC(), To: r.To.UTC(),
		Truncated: r.Truncated, Calls: r.Calls, Made: r.Made, Spared: r.Spared, Lost: r.Lost, Replayed: []openingJSON{}, Real: []openingJSON{}}
	for _, o := range r.Replayed {
		line, sound := newOpeningJSON(o.Period), o.Sound()
		line.Compared, line.Earlier, line.Sound = string(o.Compared), o.Earlier.Seconds(), &sound
		j.Replayed = append(j.Replayed, line)
	}
	for _, o := range r.Real {
		line := newOpeningJSON(o.Period)
		line.Missed, line.ByHand = o.Missed, o.ByHand
		j.Real = append(j.Real, line)
	}
	for _, s := range opcircuits.Headline(ctx, r) {
		j.Sentences = append(j.Sentences, plain(s))
	}
	for _, s := range opcircuits.Cannot(ctx, r) {
		j.Cannot = append(j.Cannot, plain(s))
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(j)
}
