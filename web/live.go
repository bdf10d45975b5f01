package web

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	mathrand "math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Topics beyond those writers notify: they are watched on the tick.
const (
	topicOverview = "overview"
	topicBanners  = "banners"
	topicQueues   = "queues"
)

// topics are all that a live region may follow.
var topics = []string{"payments", "webhooks", "providers", "alerts", "runs", "wallets", "bulks",
	topicOverview, topicBanners, topicQueues}

// Pacing of the hub.
const (
	flushEvery = time.Second     // revisions of a topic move at most this often
	tickEvery  = 2 * time.Second // watched sources are read this often, while somebody looks
	queueTicks = 2               // queue depths move on every second tick: River does not notify
	safeTicks  = 8               // every topic moves at least this often, should a notification be lost
	pollGrace  = 20 * time.Second
	listenPing = 10 * time.Second // without a notification for so long the database is asked for a sign of life
	listenWait = 5 * time.Second  // for each answer on the listening connection
)

// hub turns notifications of writers into revisions of topics and wakes the streams.
// One runs per process, and only after somebody looked: database cost does not grow
// with viewers, and is nothing without any.
type hub struct {
	id     string // tells this process's revisions from another's
	pool   *pgxpool.Pool
	log    *slog.Logger
	moved  func(topic string) // a revision moved: cached fragments of the topic are old
	ctx    context.Context
	cancel context.CancelFunc
	once   sync.Once
	beat   time.Duration // between a stream's signs of life
	life   time.Duration // of a stream

	mu       sync.Mutex
	revs     map[string]uint64
	dirty    map[string]bool
	viewers  map[chan struct{}]bool
	lastPoll time.Time
	watchers []func(context.Context) []string
}

func newHub(pool *pgxpool.Pool, log *slog.Logger, moved func(string)) *hub {
	var id [4]byte
	_, _ = rand.Read(id[:]) // never fails
	ctx, cancel := context.WithCancel(context.Background())
	h := &hub{id: hex.EncodeToString(id[:]), pool: pool, log: log, moved: moved, ctx: ctx, cancel: cancel,
		beat: heartbeat, life: streamLife, revs: map[string]uint64{}, dirty: map[string]bool{}, viewers: map[chan struct{}]bool{}}
	for _, t := range topics {
		h.revs[t] = 1
	}
	return h
}

// watch adds a source that is read on every tick and returns the topics it found
// changed. Call before the hub starts.
func (h *hub) watch(fn func(context.Context) []string) { h.watchers = append(h.watchers, fn) }

// start begins listening and ticking; calls after the first do nothing.
func (h *hub) start() {
	h.once.Do(func() {
		go h.listen()
		go h.pace()
	})
}

func (h *hub) close() { h.cancel() }

// rev is the topic's revision as an opaque word.
func (h *hub) rev(topic string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.word(topic)
}

func (h *hub) word(topic string) string { return h.id + "-" + strconv.FormatUint(h.revs[topic], 10) }

// changes returns the topics whose revision is not the one in seen, and updates seen.
func (h *hub) changes(seen map[string]string) map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]string{}
	for t := range h.revs {
		if w := h.word(t); seen[t] != w {
			seen[t], out[t] = w, w
		}
	}
	return out
}

// join adds a viewer; its channel gets a value when something changed.
func (h *hub) join() (wake chan struct{}, leave func()) {
	h.start()
	wake = make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wokenUp()
	h.viewers[wake] = true
	return wake, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.viewers, wake)
	}
}

// polled notes that somebody without a stream looks.
func (h *hub) polled() {
	h.start()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wokenUp()
	h.lastPoll = time.Now()
}

func (h *hub) watched() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.looking()
}

func (h *hub) looking() bool { return len(h.viewers) > 0 || time.Since(h.lastPoll) < pollGrace }

// wokenUp marks everything as changed when somebody looks after a time in which nobody
// did: what nobody notifies was not watched meanwhile, so what is cached may be old.
func (h *hub) wokenUp() {
	if h.looking() {
		return
	}
	for t := range h.revs {
		h.dirty[t] = true
	}
}

// touch marks topics as changed; their revisions move at the next flush.
func (h *hub) touch(changed ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range changed {
		if _, known := h.revs[t]; known {
			h.dirty[t] = true
		}
	}
}

// flush moves the revisions of dirty topics and wakes the viewers.
func (h *hub) flush() {
	h.mu.Lock()
	moved := make([]string, 0, len(h.dirty))
	for t := range h.dirty {
		h.revs[t]++
		moved = append(moved, t)
	}
	clear(h.dirty)
	if len(moved) > 0 {
		for wake := range h.viewers {
			select {
			case wake <- struct{}{}:
			default: // it has a wake-up waiting
			}
		}
	}
	h.mu.Unlock()
	for _, t := range moved {
		h.moved(t)
	}
}

// pace flushes at most once a second and ticks every two.
func (h *hub) pace() {
	flush, tick := time.NewTicker(flushEvery), time.NewTicker(tickEvery)
	defer flush.Stop()
	defer tick.Stop()
	for n := 1; ; {
		select {
		case <-h.ctx.Done():
			return
		case <-flush.C:
			h.flush()
		case <-tick.C:
			if h.watched() {
				h.tick(n)
				n++
			}
		}
	}
}

// tick reads the watched sources and moves what nobody notifies.
func (h *hub) tick(n int) {
	ctx, cancel := context.WithTimeout(h.ctx, 5*time.Second)
	defer cancel()
	for _, fn := range h.watchers {
		h.touch(fn(ctx)...)
	}
	if n%queueTicks == 0 {
		h.touch(topicQueues)
	}
	if n%safeTicks == 0 {
		h.touch(topics...)
	}
}

// listen follows the writers' notifications on a connection of its own and comes
// back when it breaks; what was missed meanwhile is everything.
func (h *hub) listen() {
	for h.ctx.Err() == nil {
		err := h.follow()
		if h.ctx.Err() != nil {
			return
		}
		h.log.Warn("live: notifications interrupted", "error", err)
		pause := time.Second + time.Duration(mathrand.Int64N(int64(2*time.Second)))
		select {
		case <-h.ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (h *hub) follow() error {
	conn, err := h.connect()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(h.ctx)) }()
	if err := h.within(listenWait, func(ctx context.Context) error {
		_, err := conn.Exec(ctx, "LISTEN fusebox")
		return err
	}); err != nil {
		return err
	}
	h.touch(topics...)
	for {
		var n *pgconn.Notification
		err := h.within(listenPing, func(ctx context.Context) (err error) {
			n, err = conn.WaitForNotification(ctx)
			return err
		})
		switch {
		case err == nil:
			h.touch(n.Payload)
		case pgconn.Timeout(err) && h.ctx.Err() == nil:
			// A machine that vanished says as little as a quiet night.
			if err := h.within(listenWait, conn.Ping); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// connect opens the connection that listens, to the host that the pool's go to.
func (h *hub) connect() (*pgx.Conn, error) {
	pool := h.pool.Config()
	cfg := pool.ConnConfig
	cfg.RuntimeParams["application_name"] = "fusebox-live"
	if pool.BeforeConnect != nil {
		if err := pool.BeforeConnect(h.ctx, cfg); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(h.ctx, cfg)
}

func (h *hub) within(d time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(h.ctx, d)
	defer cancel()
	return do(ctx)
}
