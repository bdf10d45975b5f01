package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptrace"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fusebox/store/localpg"
)

// PageOptions of Page.
type PageOptions struct {
	DatabaseURL string // of an empty database; empty: a private server
	RedisURL    string // empty: a private redis-server
	Payments    int    // default 1,000,000
	Events      int    // timeline rows of each payment; default 3
	Webhooks    int    // default 1,000,000
	Rounds      int    // each page is asked for once in each
	Watch       time.Duration
	Viewers     []int // how many watch the live overview at a time
	JSON        bool
	Progress    io.Writer
	// Only limits the pages, by name; empty: all.
	Only []string
	// Serve starts the console on these stores.
	Serve func(ctx context.Context, databaseURL, redisURL string) (Console, error)
}

// Console is a running console.
type Console struct {
	Pool     *pgxpool.Pool // its own
	Queries  *atomic.Int64 // statements that it has sent to the database
	URL      string
	Email    string
	Password string
	Close    func()
}

// PageReport is what Page measured. Times are those of a page's first byte.
type PageReport struct {
	Postgres string                `json:"postgres"`
	Redis    string                `json:"redis"`
	CPUs     int                   `json:"cpus"`
	Go       string                `json:"go"`
	Rounds   int                   `json:"rounds"`
	Rows     map[string]int        `json:"rows"`
	Floor    PageTime              `json:"floor"` // /healthz: a request that reads nothing
	Pages    map[string]PageTime   `json:"pages"`
	PerTick  map[string]float64    `json:"queries_per_tick"`   // by number of viewers
	Fetches  map[string]float64    `json:"fragments_per_tick"` // what those viewers fetched
	Queries  map[string]PageCounts `json:"queries"`
}

// PageTime is how long a page's first byte took.
type PageTime struct {
	P50 float64 `json:"p50_ms"`
	P95 float64 `json:"p95_ms"`
	Max float64 `json:"max_ms"`
}

// PageCounts is what one page costs.
type PageCounts struct {
	Statements float64 `json:"statements"`
	Bytes      int     `json:"bytes"`
}

// Page loads books of a million payments and measures every page of the console on
// them, and what watching the overview costs the database.
func Page(ctx context.Context, o PageOptions, out io.Writer) error {
	if o.Rounds < 1 || o.Watch <= 0 || o.Payments < 1000 || o.Events < 1 || o.Webhooks < 0 {
		return errors.New("--rounds, --watch, --events: must be positive; --payments: at least 1000")
	}
	console, r, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer console.Close()
	jar, _ := cookiejar.New(nil) // never fails
	m := &pageMeter{console: console, client: &http.Client{Jar: jar, CheckRedirect: noRedirect}}
	if err := m.signIn(ctx); err != nil {
		return err
	}
	pages, err := o.pages(ctx, console.Pool)
	if err != nil {
		return err
	}
	if err := o.measure(ctx, m, pages, &r); err != nil {
		return err
	}
	r.PerTick, r.Fetches = map[string]float64{}, map[string]float64{}
	for _, n := range o.Viewers {
		o.say("%d viewers of the live overview", n)
		w, err := o.watch(ctx, console, n)
		if err != nil {
			return err
		}
		r.PerTick[fmt.Sprint(n)], r.Fetches[fmt.Sprint(n)] = w.queries, w.fetches
	}
	if o.JSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return r.print(out)
}

func (o PageOptions) say(format string, a ...any) {
	if o.Progress != nil {
		fmt.Fprintf(o.Progress, format+"\n", a...)
	}
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// open starts the stores and the console, and loads the books.
func (o PageOptions) open(ctx context.Context) (Console, PageReport, error) {
	var closers []func()
	undo := func() {
		for _, fn := range slices.Backward(closers) {
			fn()
		}
	}
	r := PageReport{CPUs: runtime.NumCPU(), Go: runtime.Version(), Rounds: o.Rounds,
		Rows:  map[string]int{"payments": o.Payments, "payment_events": o.Payments * o.Events, "webhook_events": o.Webhooks},
		Pages: map[string]PageTime{}, Queries: map[string]PageCounts{}}
	if o.DatabaseURL == "" {
		o.say("starting a private PostgreSQL")
		pg, err := localpg.Start(ctx, localpg.Options{})
		if err != nil {
			return Console{}, r, err
		}
		closers = append(closers, func() { _ = pg.Stop() }) // it ends with this process in any case
		o.DatabaseURL = pg.DSN("postgres")
	}
	redis, err := openRedis(ctx, o.RedisURL)
	if err != nil {
		undo()
		return Console{}, r, err
	}
	closers = append(closers, redis.stop)
	r.Redis = redis.version
	console, err := o.Serve(ctx, o.DatabaseURL, redis.url)
	if err != nil {
		undo()
		return Console{}, r, err
	}
	closers = append(closers, console.Close)
	console.Close = undo
	err = console.Pool.QueryRow(ctx, `SHOW server_version`).Scan(&r.Postgres)
	if err == nil {
		b := books{payments: o.Payments, events: o.Events, webhooks: o.Webhooks, now: time.Now()}
		err = b.load(ctx, console.Pool, o.say)
	}
	if err != nil {
		undo()
		return Console{}, r, err
	}
	runtime.GC() // of what loading left behind
	return console, r, nil
}

// page is one page to ask for; each round takes the next of its paths.
type page struct {
	name  string
	paths []string
}

// pages are the console's, with real arguments.
func (o PageOptions) pages(ctx context.Context, pool *pgxpool.Pool) ([]page, error) {
	list := func(sql string, args ...any) ([]string, error) {
		rows, err := pool.Query(ctx, sql, args...)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowTo[string])
	}
	var pages []page
	for _, p := range pagePaths {
		args := []string{""}
		if p.args != "" {
			var err error
			if args, err = list(p.args); err != nil {
				return nil, fmt.Errorf("arguments of %s: %w", p.name, err)
			}
			if len(args) == 0 {
				return nil, fmt.Errorf("%s: the books have nothing to show", p.name)
			}
		}
		if len(o.Only) > 0 && !slices.Contains(o.Only, p.name) {
			continue
		}
		pg := page{name: p.name}
		for _, a := range args {
			pg.paths = append(pg.paths, strings.ReplaceAll(p.path, "{}", url.PathEscape(a)))
		}
		pages = append(pages, pg)
	}
	return pages, nil
}

// measure asks for every page in turn, round after round, so that no page has the quiet
// moments to itself. The first round warms and does not count.
func (o PageOptions) measure(ctx context.Context, m *pageMeter, pages []page, r *PageReport) error {
	times := map[string][]time.Duration{}
	pages = append([]page{{name: "", paths: []string{"/healthz"}}}, pages...)
	for round := range o.Rounds + 1 {
		if round%10 == 0 {
			o.say("pages: round %d of %d", round, o.Rounds)
		}
		order := rand.Perm(len(pages))
		for _, i := range order {
			p := pages[i]
			before := m.console.Queries.Load()
			took, size, err := m.get(ctx, p.paths[round%len(p.paths)])
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			if round == 0 {
				continue
			}
			times[p.name] = append(times[p.name], took)
			c := r.Queries[p.name]
			c.Bytes = max(c.Bytes, size)
			c.Statements += float64(m.console.Queries.Load()-before) / float64(o.Rounds)
			r.Queries[p.name] = c
		}
	}
	for _, p := range pages {
		t := timesOf(times[p.name])
		if p.name == "" {
			r.Floor = t
			delete(r.Queries, "")
			continue
		}
		r.Pages[p.name] = t
	}
	return nil
}

func timesOf(all []time.Duration) PageTime {
	slices.Sort(all)
	at := func(q float64) float64 {
		return float64(all[int(q*float64(len(all)-1)+0.5)].Microseconds()) / 1000
	}
	return PageTime{P50: at(0.5), P95: at(0.95), Max: at(1)}
}

// pageMeter asks for pages as one signed-in person.
type pageMeter struct {
	console Console
	client  *http.Client
}

// signIn takes the way a person takes.
func (m *pageMeter) signIn(ctx context.Context) error {
	form := url.Values{"email": {m.console.Email}, "password": {m.console.Password}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.console.URL+"/signin", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := m.client.Do(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusSeeOther {
		return fmt.Errorf("sign-in answered %s", res.Status)
	}
	return nil
}

// get asks for a page and returns the time to its first byte and its size.
func (m *pageMeter) get(ctx context.Context, path string) (time.Duration, int, error) {
	var first time.Time
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { first = time.Now() }})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.console.URL+path, nil)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	res, err := m.client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = res.Body.Close() }()
	n, err := io.Copy(io.Discard, res.Body)
	if err != nil {
		return 0, 0, err
	}
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusSeeOther {
		return 0, 0, fmt.Errorf("%s answered %s", path, res.Status)
	}
	return first.Sub(began), int(n), nil
}

func (r PageReport) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "PostgreSQL %s, %d CPUs, %s; %d payments, %d timeline rows, %d webhooks; %d rounds\n",
		r.Postgres, r.CPUs, r.Go, r.Rows["payments"], r.Rows["payment_events"], r.Rows["webhook_events"], r.Rounds)
	fmt.Fprintf(w, "page\tp50 ms\tp95 ms\tmax ms\tstatements\tkB\t\n")
	fmt.Fprintf(w, "(nothing)\t%.1f\t%.1f\t%.1f\t\t\t\n", r.Floor.P50, r.Floor.P95, r.Floor.Max)
	for _, p := range pagePaths {
		if t, ok := r.Pages[p.name]; ok {
			c := r.Queries[p.name]
			fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t\n", p.name, t.P50, t.P95, t.Max, c.Statements, c.Bytes/1000)
		}
	}
	for _, n := range slices.Sorted(func(yield func(string) bool) {
		for n := range r.PerTick {
			if !yield(n) {
				return
			}
		}
	}) {
		fmt.Fprintf(w, "%s viewers: %.1f statements and %.1f fragments a tick\t\n", n, r.PerTick[n], r.Fetches[n])
	}
	return w.Flush()
}
