package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// WebhookReport is what RunWebhook measured. Rates are events per second, medians over
// the rounds: stored is from the first delivery to the last 2xx, applied to the last
// event that had its say about its payment.
type WebhookReport struct {
	Postgres string  `json:"postgres"`
	CPUs     int     `json:"cpus"`
	Go       string  `json:"go"`
	Clients  int     `json:"clients"`
	Rounds   int     `json:"rounds"`
	Delay    float64 `json:"commit_delay_ms,omitempty"` // added to what the disk takes
	Floor    float64 `json:"floor_inserts_per_s"`
	Stored   float64 `json:"stored_per_s"`
	Applied  float64 `json:"applied_per_s"`

	RatioVsFloor float64 `json:"ratio_vs_floor"` // applied
	StoredVs     float64 `json:"stored_vs_floor"`
	AnswerP50    float64 `json:"answer_p50_ms"`
	AnswerP99    float64 `json:"answer_p99_ms"`
	FloorP50     float64 `json:"floor_p50_ms"`
	FloorP99     float64 `json:"floor_p99_ms"`
}

// RunWebhook measures an event's way from its signed delivery to the payment it is about,
// beside its floor: one committed INSERT of the same bytes. The payments are made and
// settled before; each gets the event that confirms it.
func RunWebhook(ctx context.Context, o ChargeOptions, sign func(raw []byte, at time.Time) (header, value string), out io.Writer) error {
	if o.Clients < 1 || o.Payments < o.Clients || o.Rounds < 1 {
		return errors.New("--clients and --rounds: must be positive; --events: at least one for each client")
	}
	r, err := o.measureWebhook(ctx, sign)
	if err != nil {
		return err
	}
	if o.JSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "PostgreSQL %s, %d CPUs, %s; %d clients, median of %d rounds\n", r.Postgres, r.CPUs, r.Go, r.Clients, r.Rounds)
	fmt.Fprintf(w, "\tevents/s\tp50 ms\tp99 ms\t\n")
	fmt.Fprintf(w, "floor: one committed INSERT\t%.0f\t%.2f\t%.2f\t\n", r.Floor, r.FloorP50, r.FloorP99)
	fmt.Fprintf(w, "stored and answered\t%.0f\t%.2f\t%.2f\t\n", r.Stored, r.AnswerP50, r.AnswerP99)
	fmt.Fprintf(w, "applied\t%.0f\t\t\t\n", r.Applied)
	fmt.Fprintf(w, "applied / floor %.2f, stored / floor %.2f\t\n", r.RatioVsFloor, r.StoredVs)
	return w.Flush()
}

func (o ChargeOptions) measureWebhook(ctx context.Context, sign func([]byte, time.Time) (string, string)) (r WebhookReport, err error) {
	r = WebhookReport{CPUs: runtime.NumCPU(), Go: runtime.Version(), Clients: o.Clients, Rounds: o.Rounds, Delay: ms(o.CommitDelay)}
	stop, err := o.openStores(ctx)
	if err != nil {
		return r, err
	}
	defer stop()
	f, err := o.Start(ctx, o.DatabaseURL, o.RedisURL)
	if err != nil {
		return r, err
	}
	defer f.Close()
	if err := f.Pool.QueryRow(ctx, `SHOW server_version`).Scan(&r.Postgres); err != nil {
		return r, err
	}
	conns, err := openConns(ctx, o.DatabaseURL, o.Clients)
	if err != nil {
		return r, err
	}
	defer conns.Close()
	if _, err := conns.Exec(ctx, `CREATE TABLE IF NOT EXISTS bench_events (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		provider text NOT NULL, event_key text NOT NULL, raw bytea NOT NULL, received_at timestamptz NOT NULL, UNIQUE (provider, event_key))`); err != nil {
		return r, err
	}
	var floor, stored, applied []float64
	answers, commits := &histogram{}, &histogram{}
	for round := range o.Rounds + 1 { // the first warms and does not count
		n := o.Payments
		if round == 0 {
			n = o.Clients
		}
		events, err := f.settledEvents(ctx, o.Clients, n)
		if err != nil {
			return r, err
		}
		insert := func() (rate float64, err error) {
			began := time.Now()
			err = each(o.Clients, events, commits, round > 0, func(_ int, e rawEvent) error {
				_, err := conns.Exec(ctx, `INSERT INTO bench_events (provider, event_key, raw, received_at) VALUES ($1, $2, $3, now())`, f.Provider, e.key, e.raw)
				return err
			})
			return float64(n) / time.Since(began).Seconds(), err
		}
		var rateFloor float64
		if round%2 == 0 {
			if rateFloor, err = insert(); err != nil {
				return r, err
			}
		}
		rateStored, rateApplied, err := f.deliver(ctx, o.Clients, events, answers, round > 0, sign)
		if err != nil {
			return r, err
		}
		if round%2 == 1 {
			if rateFloor, err = insert(); err != nil {
				return r, err
			}
		}
		if round == 0 {
			continue
		}
		o.say("round %d: floor %.0f, stored %.0f, applied %.0f events/s", round, rateFloor, rateStored, rateApplied)
		floor, stored, applied = append(floor, rateFloor), append(stored, rateStored), append(applied, rateApplied)
	}
	middle := func(list []float64) float64 { return slices.Sorted(slices.Values(list))[len(list)/2] }
	ms := func(h *histogram, q float64) float64 { return float64(h.quantile(q).Microseconds()) / 1000 }
	r.Floor, r.Stored, r.Applied = middle(floor), middle(stored), middle(applied)
	r.RatioVsFloor, r.StoredVs = r.Applied/r.Floor, r.Stored/r.Floor
	r.AnswerP50, r.AnswerP99, r.FloorP50, r.FloorP99 = ms(answers, 0.5), ms(answers, 0.99), ms(commits, 0.5), ms(commits, 0.99)
	return r, nil
}

// rawEvent is an event as a provider sends it.
type rawEvent struct {
	key string
	raw []byte
}

// each calls fn for every event from that many goroutines and, if it counts, notes how
// long each call took.
func each(clients int, events []rawEvent, h *histogram, counts bool, fn func(client int, e rawEvent) error) error {
	var mu sync.Mutex
	next := make(chan rawEvent, len(events))
	for _, e := range events {
		next <- e
	}
	return spread(clients, len(events), func(client int) error {
		began := time.Now()
		if err := fn(client, <-next); err != nil {
			return err
		}
		took := time.Since(began)
		mu.Lock()
		defer mu.Unlock()
		if counts {
			h.add(took)
		}
		return nil
	})
}

// settledEvents makes n payments, waits until they have succeeded, and returns the
// events that say so.
func (f Charger) settledEvents(ctx context.Context, clients, n int) ([]rawEvent, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	first, err := uuid.NewV7() // the payments have later ones
	if err != nil {
		return nil, err
	}
	time.Sleep(2 * time.Millisecond) // version 7 counts milliseconds
	prefix := "webhook-" + first.String()
	keys := make(chan string, n)
	for i := range n {
		keys <- fmt.Sprintf("%s-%d", prefix, i)
	}
	if err := spread(clients, n, func(int) error { return f.pay(ctx, client, <-keys) }); err != nil {
		return nil, err
	}
	if err := f.settled(ctx, first, n); err != nil {
		return nil, err
	}
	rows, err := f.Pool.Query(ctx, `SELECT id, provider_payment_id FROM payments WHERE id > $1 AND starts_with(order_ref, $2)`, first, prefix)
	if err != nil {
		return nil, err
	}
	type paid struct {
		ID     uuid.UUID
		Object string
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[paid])
	if err != nil {
		return nil, err
	}
	at := time.Now().UTC().Format(time.RFC3339Nano)
	events := make([]rawEvent, len(list))
	for i, p := range list {
		key := "evt_" + uuid.NewString()
		events[i] = rawEvent{key, fmt.Appendf(nil, `{"id":%q,"type":"payment.succeeded","created_at":%q,"data":{"id":%q,"reference":%q,`+
			`"status":"succeeded","amount":4900,"currency":"EUR","created_at":%q}}`, key, at, p.Object, p.ID, at)}
	}
	if len(events) != n {
		return nil, fmt.Errorf("%d of %d payments were found", len(events), n)
	}
	return events, nil
}

// deliver posts the events as their provider does and waits until all of them have had
// their say. It returns how many a second were answered, and how many did have it.
func (f Charger) deliver(ctx context.Context, clients int, events []rawEvent, h *histogram, counts bool,
	sign func([]byte, time.Time) (string, string)) (stored, applied float64, err error) {
	posters := make([]*poster, clients)
	for i := range posters {
		if posters[i], err = newPoster(ctx, f.URL+"/webhooks/"+f.Provider); err != nil {
			return 0, 0, err
		}
		defer posters[i].close()
	}
	began := time.Now()
	err = each(clients, events, h, counts, func(client int, e rawEvent) error {
		header, value := sign(e.raw, time.Now())
		return posters[client].post(e.raw, header, value)
	})
	if err != nil {
		return 0, 0, err
	}
	stored = float64(len(events)) / time.Since(began).Seconds()
	applied, err = f.applied(ctx, events, began)
	return stored, applied, err
}

// applied waits until all events have had their say, and returns how many did so a second
// since began.
func (f Charger) applied(ctx context.Context, events []rawEvent, began time.Time) (perS float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	keys := make([]string, len(events))
	for i, e := range events {
		keys[i] = e.key
	}
	// As long as one waits, the index of states answers: looking at all of them would take
	// the processor from what is measured.
	for waits := true; waits; {
		if err := f.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM webhook_events WHERE state = 'received')`).Scan(&waits); err != nil {
			return 0, err
		}
		if !waits {
			break
		}
		select {
		case <-ctx.Done():
			return 0, errors.New("not all events were applied in time")
		case <-time.After(20 * time.Millisecond):
		}
	}
	perS = float64(len(events)) / time.Since(began).Seconds()
	var done int
	if err := f.Pool.QueryRow(ctx, `SELECT count(*) FROM webhook_events WHERE provider = $1 AND event_key = ANY($2) AND state = 'applied'`,
		f.Provider, keys).Scan(&done); err != nil {
		return 0, err
	}
	if done != len(events) {
		return 0, fmt.Errorf("%d events were not applied", len(events)-done)
	}
	return perS, nil
}
