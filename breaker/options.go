package breaker

import (
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"time"
)

// Options of NewRedis and NewLocal.
type Options struct {
	// Settings returns the settings of a circuit; nil: the defaults. It is asked once
	// per circuit. Settings that do not validate are replaced by the defaults, loudly.
	Settings func(Key) Settings
	// Names are the third parties whose events Next delivers, beside those this
	// process has asked for a permit.
	Names []string
	// Worker names this process in evidence and leases (default host:pid).
	Worker string
	// Prefix of all keys (default "fusebox:cb:").
	Prefix string
	// Timeout of one trip to Redis (default 50 ms).
	Timeout time.Duration
	// Recheck is how long, ± half, a process decides alone before it tries Redis again
	// (default 1 s).
	Recheck time.Duration
	// Poll is how often Next looks for events (default 250 ms).
	Poll time.Duration
	// Now is this process's clock. It decides nothing while Redis is there.
	Now func() time.Time
	// Rand returns a number in [0, 1), for jitter.
	Rand func() float64
	Log  *slog.Logger
	// OnEvent is told the transitions of a Local circuit, under its lock: it must be
	// quick and must not call the breaker.
	OnEvent func(Event)

	// await has every report waited for: tests look at a circuit through another worker.
	await bool
}

func (o Options) withDefaults() Options {
	if o.Settings == nil {
		o.Settings = func(Key) Settings { return Settings{} }
	}
	if o.Worker == "" {
		host, _ := os.Hostname()
		o.Worker = host + ":" + strconv.Itoa(os.Getpid())
	}
	o.Worker = clean(o.Worker)
	orDefault(&o.Prefix, "fusebox:cb:")
	orDefault(&o.Timeout, 50*time.Millisecond)
	orDefault(&o.Recheck, time.Second)
	orDefault(&o.Poll, 250*time.Millisecond)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// settings returns the validated settings of a circuit.
func (o Options) settings(k Key) Settings {
	s := o.Settings(k)
	if err := s.Validate(); err != nil {
		o.Log.Error("breaker: settings refused, using defaults", "circuit", k.String(), "error", err)
		s = Settings{}
	}
	return s.WithDefaults()
}

// jittered is d ± half of it.
func (o Options) jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.5 + o.Rand()))
}
