package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/net/html"
	"golang.org/x/sync/errgroup"
)

// tick is how often the console looks at the world while somebody watches.
const tick = 2 * time.Second

// watched is what one number of viewers cost per tick.
type watched struct{ queries, fetches float64 }

// watch lets n people, each with a session of their own, keep the overview open as a
// browser does: a stream that says what changed, and a fetch of each region that follows
// it. Payments arrive meanwhile, so that there is something to see on every tick.
func (o PageOptions) watch(ctx context.Context, console Console, n int) (watched, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	traffic := make(chan error, 1)
	go func() { traffic <- arrivals(ctx, console) }()
	v := &viewing{console: console}
	g, viewing := errgroup.WithContext(ctx)
	for range n {
		w, err := v.viewer(ctx)
		if err != nil {
			return watched{}, err
		}
		g.Go(func() error { return w.run(viewing) })
	}
	pause := time.After(2 * tick) // for the streams to open and the first fetches
	select {
	case <-pause:
	case <-viewing.Done():
		return watched{}, g.Wait()
	}
	queries, fetches := console.Queries.Load(), v.fetches.Load()
	began := time.Now()
	select {
	case <-time.After(o.Watch):
	case <-viewing.Done():
		return watched{}, g.Wait()
	}
	ticks := time.Since(began).Seconds() / tick.Seconds()
	out := watched{float64(console.Queries.Load()-queries) / ticks, float64(v.fetches.Load()-fetches) / ticks}
	stop()
	if err := g.Wait(); err != nil {
		return watched{}, err
	}
	return out, <-traffic
}

var arrivalColumns = []string{"id", "client_id", "idempotency_key", "request_hash", "order_ref", "provider", "amount", "currency", "status",
	"status_reason", "status_evidence", "created_at", "updated_at", "settled_at"}

// arrivals makes two payments a second on a connection of its own, whose statements are
// not the console's.
func arrivals(ctx context.Context, console Console) error {
	cfg := console.Pool.Config().ConnConfig.Copy()
	cfg.Tracer = nil
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	for {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		now := time.Now()
		row := []any{id, "bench", id.String(), []byte{0}, "LIVE", "atlas", int64(4900), "EUR", "succeeded", "answered", "answer", now, now, now}
		_, err = c.CopyFrom(ctx, pgx.Identifier{"payments"}, arrivalColumns, pgx.CopyFromRows([][]any{row}))
		if err == nil {
			_, err = c.Exec(ctx, `SELECT pg_notify('fusebox', 'payments')`)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// viewing counts what all viewers of one number fetch.
type viewing struct {
	console Console
	fetches atomic.Int64
}

// viewer is one person's open overview.
type viewer struct {
	*viewing
	meter   *pageMeter
	regions []*region
}

// region is a part of the page that follows a topic.
type region struct{ topic, path, rev string }

func (v *viewing) viewer(ctx context.Context) (*viewer, error) {
	jar, _ := cookiejar.New(nil) // never fails
	// Every browser has connections of its own.
	transport := &http.Transport{MaxIdleConnsPerHost: 6}
	m := &pageMeter{console: v.console, client: &http.Client{Jar: jar, CheckRedirect: noRedirect, Transport: transport}}
	if err := m.signIn(ctx); err != nil {
		return nil, err
	}
	res, err := m.request(ctx, "/", nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	doc, err := html.Parse(res.Body)
	if err != nil {
		return nil, err
	}
	w := &viewer{viewing: v, meter: m}
	w.find(doc)
	if len(w.regions) == 0 {
		return nil, errors.New("the overview has no live region")
	}
	return w, nil
}

// find collects the live regions below a node.
func (w *viewer) find(n *html.Node) {
	at := func(name string) string {
		for _, a := range n.Attr {
			if a.Key == name {
				return a.Val
			}
		}
		return ""
	}
	if topic := at("data-live"); topic != "" && at("hx-get") != "" {
		w.regions = append(w.regions, &region{topic, at("hx-get"), at("data-rev")})
	}
	for c := range n.ChildNodes() {
		w.find(c)
	}
}

// run reads the stream until ctx ends and fetches what changed.
func (w *viewer) run(ctx context.Context) error {
	res, err := w.meter.request(ctx, "/live", nil)
	if err != nil {
		return ended(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		revs := map[string]string{}
		if err := json.Unmarshal([]byte(data), &revs); err != nil {
			return fmt.Errorf("stream: %w", err)
		}
		var wg sync.WaitGroup
		errs := make([]error, len(w.regions))
		for i, r := range w.regions {
			if rev, ok := revs[r.topic]; ok && rev != r.rev {
				wg.Go(func() { errs[i] = w.fetch(ctx, r) })
			}
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return ended(ctx, err)
		}
	}
	return ended(ctx, lines.Err())
}

func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return err
}

func (w *viewer) fetch(ctx context.Context, r *region) error {
	res, err := w.meter.request(ctx, r.path, http.Header{"Hx-Request": {"true"}, "Fusebox-Rev": {r.rev}})
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	w.fetches.Add(1)
	if rev := res.Header.Get("Fusebox-Rev"); rev != "" {
		r.rev = rev
	}
	return nil
}

// request asks for a page and refuses any answer but 200 and 204.
func (m *pageMeter) request(ctx context.Context, path string, header http.Header) (*http.Response, error) {
	u, err := url.Parse(m.console.URL)
	if err != nil {
		return nil, err
	}
	at, err := u.Parse(path)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	res, err := m.client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusNoContent {
		_ = res.Body.Close()
		return nil, fmt.Errorf("%s answered %s", path, res.Status)
	}
	return res, nil
}
