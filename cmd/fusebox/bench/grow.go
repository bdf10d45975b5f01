package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// grownDatabase is made beside the one that stays small.
const grownDatabase = "fusebox_bench_grown"

// Growth compares Fusebox on a table of many payments with Fusebox on a new one, in turns
// on the same server.
type Growth struct {
	Payments    int       `json:"payments_before"`
	PerS        float64   `json:"payments_per_s"`
	EachRound   []float64 `json:"each_round"`
	PerSAt0     float64   `json:"payments_per_s_at_0"`
	EachAt0     []float64 `json:"each_round_at_0"`
	Ratio       float64   `json:"ratio_vs_0"`
	Overview    PageTime  `json:"overview"` // first byte
	OverviewAt0 PageTime  `json:"overview_at_0"`
}

// overviews is how often the overview is asked for in each round.
const overviews = 40

// grow measures on a second database with o.Grow payments, beside small, which has those
// of the turns only.
func (o ChargeOptions) grow(ctx context.Context, small Charger) (g Growth, err error) {
	big, stop, err := o.startGrown(ctx, small)
	if err != nil {
		return g, err
	}
	defer stop()
	arms := []chargeArm{ourCharges(small, o.Clients), ourCharges(big, o.Clients)}
	arms[0].name, arms[1].name = "at 0", fmt.Sprintf("at %d", o.Grow)
	var r ChargeReport
	r.Arms = map[string]Charge{}
	if err := o.turns(ctx, arms, &r); err != nil {
		return g, err
	}
	at0, grown := r.Arms[arms[0].name], r.Arms[arms[1].name]
	g = Growth{Payments: o.Grow, PerS: grown.PerS, EachRound: grown.EachRound, PerSAt0: at0.PerS, EachAt0: at0.EachRound, Ratio: grown.PerS / at0.PerS}
	g.OverviewAt0, g.Overview, err = o.overviews(ctx, small, big)
	return g, err
}

// overviews asks both consoles for the overview in turns.
func (o ChargeOptions) overviews(ctx context.Context, consoles ...Charger) (at0, grown PageTime, err error) {
	took := make([][]time.Duration, len(consoles))
	meters := make([]*pageMeter, len(consoles))
	for i, c := range consoles {
		jar, _ := cookiejar.New(nil) // never fails
		meters[i] = &pageMeter{console: Console{URL: c.URL, Email: c.Email, Password: c.Password}, client: &http.Client{Jar: jar, CheckRedirect: noRedirect}}
		if err := meters[i].signIn(ctx); err != nil {
			return at0, grown, err
		}
	}
	for n := range o.Rounds*overviews + 1 {
		for i, m := range meters {
			t, _, err := m.get(ctx, "/")
			if err != nil {
				return at0, grown, err
			}
			if n > 0 { // the first one warms
				took[i] = append(took[i], t)
			}
		}
	}
	return timesOf(took[0]), timesOf(took[1]), nil
}

// startGrown starts a Fusebox of its own on a database with o.Grow payments.
func (o ChargeOptions) startGrown(ctx context.Context, small Charger) (c Charger, stop func(), err error) {
	redis, err := url.Parse(o.RedisURL)
	if err != nil {
		return c, nil, errors.New("the Redis URL is not valid")
	}
	redis.Path = "/1" // circuits and limits of its own
	database, drop, err := beside(ctx, o.DatabaseURL, grownDatabase)
	if err != nil {
		return c, nil, err
	}
	if c, err = o.Start(ctx, database, redis.String()); err != nil {
		drop()
		return c, nil, err
	}
	if err := o.loadPayments(ctx, c.Pool); err != nil {
		c.Close()
		drop()
		return c, nil, err
	}
	return c, func() { c.Close(); drop() }, nil
}

// loadPayments writes o.Grow payments. Indexes other than those of constraints are made
// anew after it, which takes less time than keeping them.
func (o ChargeOptions) loadPayments(ctx context.Context, pool *pgxpool.Pool) error {
	payments := books{payments: o.Grow, now: time.Now()}.paymentRows()
	var made []string
	err := withConn(ctx, pool, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, `SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema AND tablename = $1
			AND NOT EXISTS (SELECT FROM pg_constraint WHERE conname = indexname) ORDER BY indexname`, payments.name)
		if err != nil {
			return err
		}
		var name, def string
		var names []string
		if _, err := pgx.ForEachRow(rows, []any{&name, &def}, func() error {
			names, made = append(names, name), append(made, def)
			return nil
		}); err != nil {
			return err
		}
		for _, name := range names {
			if _, err := c.Exec(ctx, `DROP INDEX `+pgx.Identifier{name}.Sanitize()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := payments.copyTo(ctx, pool, o.say); err != nil {
		return err
	}
	o.say("making %d indexes", len(made))
	return withConn(ctx, pool, func(c *pgx.Conn) error {
		for _, sql := range append(made, `VACUUM (ANALYZE) payments`, `CHECKPOINT`) {
			if _, err := c.Exec(ctx, sql); err != nil {
				return fmt.Errorf("%w in %.60s", err, sql)
			}
		}
		return nil
	})
}
