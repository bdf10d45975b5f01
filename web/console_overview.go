package web

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"
	"golang.org/x/sync/singleflight"

	"fusebox/breaker"
	"fusebox/store"
	"fusebox/views"
	"fusebox/views/components"
	"fusebox/views/messages"
)

// unknownAged is how long a payment may be unknown before everybody is told.
const unknownAged = 15 * time.Minute

// circuitClasses are the operation classes of each provider, in screen order.
var circuitClasses = []string{"charge", "status"}

// reading is one immutable look at everything the overview, the provider page and
// the banners show. All viewers share it.
type reading struct {
	at       time.Time
	overview store.Overview
	health   map[string]store.CallHealth // by provider/class
	queues   map[string]store.QueueDepth // by queue
	switches map[string]store.ProviderSwitch
	circuits map[string]breaker.Snapshot // by provider/class; absent: unreadable
	history  []store.BreakerEvent
	degraded time.Time
	past     circuitPast
	children store.ChildCounts
	pauses   []store.QueuePause
}

// nowBoard keeps the latest reading: read on the hub's tick while somebody looks,
// else on demand, and never by two at once.
type nowBoard struct {
	s      *Server
	flight singleflight.Group
	mu     sync.Mutex
	last   *reading
	sums   map[string][sha256.Size]byte // of what each topic shows, by topic
}

func newNowBoard(s *Server) *nowBoard {
	return &nowBoard{s: s, sums: map[string][sha256.Size]byte{}}
}

// get returns a reading not older than snapshotAge.
func (b *nowBoard) get(ctx context.Context) (*reading, error) {
	b.mu.Lock()
	last := b.last
	b.mu.Unlock()
	if last != nil && b.s.cfg.Now().Sub(last.at).Abs() < snapshotAge {
		return last, nil
	}
	return b.refresh(ctx)
}

func (b *nowBoard) refresh(ctx context.Context) (*reading, error) {
	v, err, _ := b.flight.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		r, err := b.read(ctx)
		if err != nil {
			return nil, err
		}
		b.mu.Lock()
		b.last = r
		b.mu.Unlock()
		return r, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*reading), nil //nolint:forcetypeassert // the function above returns nothing else
}

// forget makes the next look read again, after a person changed something.
func (b *nowBoard) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = nil
}

// watch is a source of the hub: it reads again and says which topics look different.
func (b *nowBoard) watch(ctx context.Context) []string {
	r, err := b.refresh(ctx)
	if err != nil {
		b.s.cfg.Log.WarnContext(ctx, "live: reading failed", slog.Any("error", err))
		return nil
	}
	parts := map[string]any{
		topicOverview: []any{r.overviewFacts(), r.children, r.health, r.queues, r.circuits, r.switches},
		"providers":   []any{r.health, r.queues, r.circuits, r.switches, r.history, r.past.settled, r.past.acts},
		topicBanners:  []any{r.openCircuits(), r.degraded.IsZero(), r.overview.AgedUnknown, r.waiting(), r.switches, r.pauses},
	}
	var changed []string
	b.mu.Lock()
	defer b.mu.Unlock()
	for topic, part := range parts {
		body, err := json.Marshal(part)
		if err != nil {
			continue // plain data always marshals
		}
		if sum := sha256.Sum256(body); sum != b.sums[topic] {
			b.sums[topic] = sum
			changed = append(changed, topic)
		}
	}
	return changed
}

// overviewFacts is the overview without the moment it was read at.
func (r *reading) overviewFacts() store.Overview {
	o := r.overview
	o.At = time.Time{}
	return o
}

func (r *reading) openCircuits() map[string]string {
	open := map[string]string{}
	for key, c := range r.circuits {
		if c.State != breaker.Closed {
			open[key] = string(c.State) + c.Epoch
		}
	}
	return open
}

func (b *nowBoard) read(ctx context.Context) (*reading, error) {
	st := b.s.cfg.Store
	r := &reading{at: b.s.cfg.Now(), health: map[string]store.CallHealth{}, queues: map[string]store.QueueDepth{},
		switches: map[string]store.ProviderSwitch{}, circuits: map[string]breaker.Snapshot{}, degraded: b.s.cfg.Breaker.Degraded()}
	var err error
	if r.overview, err = st.Overview(ctx, unknownAged); err != nil {
		return nil, err
	}
	if r.children, err = st.ChildCounts(ctx); err != nil {
		return nil, err
	}
	health, err := st.CallHealths(ctx)
	if err != nil {
		return nil, err
	}
	for _, h := range health {
		r.health[h.Provider+"/"+h.Class] = h
	}
	queues, err := st.Queues(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		r.queues[q.Queue] = q
	}
	switches, err := st.ProviderSwitches(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range switches {
		r.switches[p.Provider] = p
	}
	if r.pauses, err = st.QueuePauses(ctx); err != nil {
		return nil, err
	}
	if r.history, err = st.BreakerHistory(ctx, keptTransitions); err != nil {
		return nil, err
	}
	for _, p := range b.s.cfg.Providers {
		for _, class := range b.s.cfg.classesOf(p.Name) {
			k := breaker.Key{Name: p.Name, Class: class}
			if snap, err := b.s.cfg.Breaker.Snapshot(ctx, k); err == nil {
				r.circuits[k.String()] = snap
			}
		}
	}
	r.past, err = b.s.readPast(ctx, r)
	return r, err
}

// overviewPage shows the first page.
func (s *Server) overviewPage(c echo.Context) error {
	title := views.T(s.viewContext(c), "nav.overview")
	return s.livePage(c, "overview", title, topicOverview, func(ctx context.Context, rev string) (templ.Component, error) {
		r, err := s.a.now.get(ctx)
		if err != nil {
			return nil, err
		}
		v := s.overviewView(ctx, r)
		v.Live = components.LiveRegion{ID: "overview", Topic: topicOverview, URL: "/", Rev: rev}
		return views.Overview(v), nil
	})
}

func (s *Server) overviewView(ctx context.Context, r *reading) views.OverviewView {
	o := r.overview
	v := views.OverviewView{
		At: r.at, UnknownCount: o.UnknownCount(), OldestUnknown: o.OldestUnknown, Processing: o.Processing,
		Waiting: o.RequiresAction, Pending: o.Pending, OldestPending: o.OldestPending, NeedsReview: o.NeedsReview,
		Succeeded: hourView(o.Succeeded), Failed: hourView(o.Failed), Buckets: bucketTimes(o.Start),
		Webhooks: views.WebhookStrip{Rejected: o.WebhookDay.Rejected, Unparsed: o.WebhookDay.Unparsed,
			Unmatched: o.WebhookDay.Unmatched, Cap: store.CountCap, Last: o.WebhookDay.LastReceived},
		Alerts:  alertRows(o.Alerts),
		Refunds: r.children.Waiting(), Disputes: r.children.OpenDisputes, DisputeDue: r.children.NextDue,
	}
	for _, u := range o.Unknown {
		v.Unknown = append(v.Unknown, views.SumView{Currency: u.Currency, Payments: u.Payments, Amount: u.Amount})
	}
	for _, p := range s.cfg.Providers {
		v.Strip = append(v.Strip, s.strip(ctx, r, p.Name))
	}
	for _, run := range o.LastRuns {
		at := run.StartedAt
		if run.FinishedAt != nil {
			at = *run.FinishedAt
		}
		v.Runs = append(v.Runs, views.RunStrip{Href: templ.SafeURL(views.RunPath(run.ID.String())), Provider: run.Provider,
			State: run.State, At: at, Matched: run.Matched,
			Exceptions: run.OursOnly + run.TheirsOnly + run.AmountDiffers + run.StatusDiffers + run.Duplicate})
	}
	return v
}

func hourView(h store.HourSeries) views.HourView {
	return views.HourView{Total: h.Total, WeekBefore: h.WeekBefore, Now: h.Now, Before: h.Before}
}

func bucketTimes(start time.Time) []time.Time {
	out := make([]time.Time, store.OverviewBuckets)
	for i := range out {
		out[i] = start.Add(time.Duration(i) * store.OverviewStep)
	}
	return out
}

// strip is one provider in one line.
func (s *Server) strip(ctx context.Context, r *reading, name string) views.ProviderStrip {
	q := r.queues["charge_"+name]
	p := views.ProviderStrip{Name: name, Charge: r.state(name, "charge"), Status: r.state(name, "status"),
		Since: r.circuits[name+"/charge"].Since, Until: r.circuits[name+"/charge"].OpenUntil, Depth: q.Depth(), Running: q.Running, Oldest: q.Oldest, Paused: r.switches[name].Paused}
	h := r.health[name+"/charge"]
	p.Rate, p.Slow = rateOf(ctx, h)
	if h.Calls() > 0 {
		p.P95 = messages.Latency(ctx, h.P95)
	}
	return p
}

// state is a circuit's state, or that it cannot be read.
func (r *reading) state(name, class string) string {
	c, ok := r.circuits[name+"/"+class]
	if !ok {
		return "unreadable"
	}
	return string(c.State)
}

// rateOf prints a success rate and says whether it is worth a look.
func rateOf(ctx context.Context, h store.CallHealth) (text string, low bool) {
	rate, ok := h.Rate()
	if !ok {
		return "", false
	}
	return messages.Percent(ctx, rate), rate < 0.9
}

// banners says what everybody has to know now. It never fails a page: a console that
// cannot read shows its pages' own errors.
func (s *Server) banners(ctx context.Context) views.BannerView {
	v := views.BannerView{Rev: s.a.hub.rev(topicBanners)}
	r, err := s.a.now.get(ctx)
	if err != nil {
		return v
	}
	if !r.degraded.IsZero() {
		v.Items = append(v.Items, views.Banner{ID: "banner-degraded", Tone: components.ToneBad, Href: views.PathProviders,
			Text: views.T(ctx, "banner.degraded", "Since", messages.Clock(ctx, r.degraded))})
	}
	for _, p := range s.cfg.Providers {
		v.Items = append(v.Items, s.providerBanners(ctx, r, p.Name)...)
	}
	v.Items = append(v.Items, pauseBanners(ctx, r.pauses)...)
	if n := r.overview.AgedUnknown; n > 0 {
		v.Items = append(v.Items, views.Banner{ID: "banner-aged", Tone: components.ToneWarn, Href: views.PathQueue,
			Text: views.N(ctx, "banner.unknown_aged", int64(n), "Limit", messages.Span(ctx, unknownAged))})
	}
	return v
}

func (s *Server) providerBanners(ctx context.Context, r *reading, name string) (list []views.Banner) {
	href := templ.SafeURL(views.PathProviders + "#" + name)
	if p := r.switches[name]; p.Paused {
		list = append(list, views.Banner{ID: "banner-paused-" + name, Tone: components.ToneBad, Href: href,
			Text: views.T(ctx, "banner.paused", "Provider", name, "Why", views.Opt(ctx, "reason.", p.PausedReason))})
	}
	for _, class := range s.cfg.classesOf(name) {
		c, ok := r.circuits[name+"/"+class]
		if !ok || c.State == breaker.Closed {
			continue
		}
		id, tone := "banner.circuit_open", components.ToneBad
		if c.State == breaker.HalfOpen { // calls go through again, a few at a time: not open, and not well yet
			id, tone = "banner.circuit_half_open", components.ToneWarn
		}
		list = append(list, views.Banner{ID: "banner-" + name + "-" + class, Tone: tone, Href: href,
			Text: views.T(ctx, id, "Provider", name, "Class", views.Opt(ctx, "class.", class),
				"Why", views.Opt(ctx, "circuit.reason.", c.OpenReason))})
	}
	return list
}

func (s *Server) bannersFragment(c echo.Context) error {
	return s.fragment(c, topicBanners, func(ctx context.Context, rev string) (templ.Component, error) {
		v := s.banners(ctx)
		v.Rev = rev
		return views.Banners(v), nil
	})
}

// waiting is the count beside "Needs an answer".
func (s *Server) waiting(ctx context.Context) views.WaitingView {
	v := views.WaitingView{Rev: s.a.hub.rev(topicBanners)}
	r, err := s.a.now.get(ctx)
	if err != nil {
		return v
	}
	if n := r.waiting(); n > 0 {
		v.Count = messages.Num(ctx, int64(n))
	}
	return v
}

// waiting is how many payments, refunds and disputes a person has to look at.
func (r *reading) waiting() int {
	return r.overview.UnknownCount() + r.overview.NeedsReview + r.children.Waiting() + r.children.OpenDisputes
}

func (s *Server) waitingFragment(c echo.Context) error {
	return s.fragment(c, topicBanners, func(ctx context.Context, rev string) (templ.Component, error) {
		v := s.waiting(ctx)
		v.Rev = rev
		return views.Waiting(v), nil
	})
}
