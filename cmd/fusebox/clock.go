package main

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Limits of the clock.
const (
	clockEvery = 15 * time.Second
	// clockSlack is what a clock may be off: below it the machine's own time is steadier
	// than what a question over a network can tell.
	clockSlack = 250 * time.Millisecond
	// clockTrip is the longest a question about the time may take to say anything.
	clockTrip = 500 * time.Millisecond
	clockNews = time.Second // a machine that is off by more is told about
)

// clock is the time that the books are written in: the database's, which all processes
// share. Where a machine's own clock is right the two are the same; a machine whose clock
// is ten minutes ahead would otherwise plan every next step ten minutes late, and take
// others' calls for overdue and absences for proven ten minutes early.
type clock struct {
	machine func() time.Time
	log     *slog.Logger
	offset  atomic.Int64 // ns to add to the machine's
}

func newClock(machine func() time.Time, log *slog.Logger) *clock {
	return &clock{machine: machine, log: log}
}

// now is the time by the database's clock, as last heard.
func (c *clock) now() time.Time { return c.machine().Add(time.Duration(c.offset.Load())) }

// hear takes the database's time for a question that went out and came back at the
// machine's times. It reports whether the answer came soon enough to be believed.
func (c *clock) hear(asked, database, answered time.Time) bool {
	trip := answered.Sub(asked)
	if trip > clockTrip {
		return false
	}
	had, off := time.Duration(c.offset.Load()), database.Sub(asked.Add(trip/2))
	if off.Abs() <= clockSlack {
		off = 0
	}
	if (off-had).Abs() <= clockSlack && off != 0 {
		return true
	}
	c.offset.Store(int64(off))
	if off != had && max(off.Abs(), had.Abs()) >= clockNews {
		c.log.Warn("this machine's clock differs from the database's, which is used", "database_is_ahead_by", off.Round(time.Millisecond))
	}
	return true
}

// ask asks the database. No answer leaves the clock as it is.
func (c *clock) ask(ctx context.Context, pool *pgxpool.Pool) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := pool.Acquire(ctx) // not part of the trip
	if err != nil {
		return false
	}
	defer conn.Release()
	var database time.Time
	asked := c.machine()
	if err := conn.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&database); err != nil {
		return false
	}
	return c.hear(asked, database, c.machine())
}

// follow asks again and again until ctx ends.
func (c *clock) follow(ctx context.Context, pool *pgxpool.Pool) {
	for sleep(ctx, clockEvery) {
		c.ask(ctx, pool)
	}
}
