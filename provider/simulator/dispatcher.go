package simulator

import (
	"container/heap"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	deliveryWorkers = 8
	deliveryTime    = 5 * time.Second
	firstPause      = 200 * time.Millisecond
	longestPause    = 4 * time.Second
	copyPause       = 50 * time.Millisecond
	downPause       = 250 * time.Millisecond // between looks at an outage
)

// dispatcher delivers events, each until it is acknowledged, by a small pool of
// workers. It forgets nothing that the ledger does not know: a restart adds the
// unacknowledged events again.
type dispatcher struct {
	s      *Server
	client *http.Client
	wake   chan struct{}
	ready  chan *delivery
	wg     sync.WaitGroup

	mu      sync.Mutex
	url     string
	secrets []string
	era     int // counts resets: what was in the air then is not put back
	queue   queue
	held    map[string][]*delivery // by charge, until its final event was acknowledged
}

// delivery is an event on its way.
type delivery struct {
	event
	era   int
	due   time.Time
	try   int  // deliveries so far
	copy  bool // after the acknowledgement; tried once
	tried chan struct{}
}

func newDispatcher(s *Server) *dispatcher {
	d := &dispatcher{
		s: s, url: s.opts.WebhookURL, secrets: slices.Clone(s.opts.WebhookSecrets),
		wake: make(chan struct{}, 1), ready: make(chan *delivery),
		held: map[string][]*delivery{},
		client: &http.Client{
			Timeout: deliveryTime,
			Transport: &http.Transport{
				DialContext:         (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
				MaxIdleConnsPerHost: deliveryWorkers,
				IdleConnTimeout:     30 * time.Second,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	d.wg.Go(d.schedule)
	for range deliveryWorkers {
		d.wg.Go(d.work)
	}
	return d
}

// wait returns when the pool has stopped, after the server's context has ended.
func (d *dispatcher) wait() {
	d.wg.Wait()
	d.client.CloseIdleConnections()
}

// add queues an event. The channel closes when its first delivery is over.
func (d *dispatcher) add(ev event) <-chan struct{} {
	x := &delivery{event: ev, due: ev.Due, tried: make(chan struct{})}
	if ev.Early {
		x.due = time.Now()
	}
	d.mu.Lock()
	x.era = d.era
	heap.Push(&d.queue, x)
	if x.Held {
		d.held[x.ChargeID] = append(d.held[x.ChargeID], x)
	}
	d.mu.Unlock()
	d.nudge()
	return x.tried
}

// again puts a delivery back, unless everything was reset meanwhile.
func (d *dispatcher) again(x *delivery, pause time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x.era != d.era {
		return
	}
	x.due = time.Now().Add(pause)
	heap.Push(&d.queue, x)
	d.nudge()
}

// clear forgets everything queued.
func (d *dispatcher) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue = nil
	d.held = map[string][]*delivery{}
	d.era++
}

func (d *dispatcher) target() (url string, secrets []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.url, d.secrets
}

func (d *dispatcher) retarget(url string, secrets []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.url = url
	if len(secrets) > 0 {
		d.secrets = slices.Clone(secrets)
	}
}

// nudge makes the scheduler look at the queue again.
func (d *dispatcher) nudge() {
	select {
	case d.wake <- struct{}{}:
	default: // it is about to look anyway
	}
}

// schedule hands deliveries to the workers when they are due.
func (d *dispatcher) schedule() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		x, pause := d.next()
		if x != nil {
			select {
			case d.ready <- x:
				continue
			case <-d.s.ctx.Done():
				return
			}
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-d.wake:
		case <-d.s.ctx.Done():
			return
		}
	}
}

// next takes the delivery that is due, or says how long to wait for one.
func (d *dispatcher) next() (*delivery, time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) == 0 {
		return nil, time.Hour // add nudges
	}
	if pause := time.Until(d.queue[0].due); pause > 0 {
		return nil, pause
	}
	return heap.Pop(&d.queue).(*delivery), 0
}

func (d *dispatcher) work() {
	for {
		select {
		case x := <-d.ready:
			d.deliver(x)
		case <-d.s.ctx.Done():
			return
		}
	}
}

// deliver makes one try and settles what follows from it.
func (d *dispatcher) deliver(x *delivery) {
	if d.s.wrong().Outage != OutageNone { // the whole provider is down, its events too
		d.again(x, downPause)
		return
	}
	acked := d.try(x)
	if x.try == 1 && !x.copy {
		close(x.tried)
	}
	switch {
	case x.copy:
	case acked:
		d.acknowledged(x)
	default:
		d.again(x, backoff(x.try))
	}
}

// backoff is the pause after the nth failed try.
func backoff(n int) time.Duration {
	return min(firstPause<<min(n-1, 10), longestPause)
}

// try sends the event, several times at once if that is its first try's fault,
// and reports whether any was acknowledged.
func (d *dispatcher) try(x *delivery) bool {
	x.try++
	n := 1
	if x.try == 1 && !x.copy {
		n = max(x.Parallel, 1)
	}
	acks := make([]bool, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { acks[i] = d.send(d.s.ctx, x) })
	}
	wg.Wait()
	return slices.Contains(acks, true)
}

// acknowledged ends an event's life, but for its copies and what waited for it.
func (d *dispatcher) acknowledged(x *delivery) {
	d.mu.Lock()
	current := x.era == d.era
	d.mu.Unlock()
	if !current {
		return
	}
	d.s.book.acked(x.ID, d.s.opts.Now())
	d.s.tally.acked()
	for i := range x.Copies {
		c := &delivery{event: x.event, era: x.era, copy: true}
		d.again(c, time.Duration(i+1)*copyPause)
	}
	if faceOf(x.Face).decisive(x.Type) {
		d.unhold(x.ChargeID)
	}
}

// unhold makes a charge's held events due, now that the final one has arrived.
func (d *dispatcher) unhold(chargeID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	waiting := d.held[chargeID]
	if len(waiting) == 0 {
		return
	}
	delete(d.held, chargeID)
	for _, x := range waiting {
		x.due = time.Now()
	}
	heap.Init(&d.queue)
	d.nudge()
}

// send makes one POST and reports whether it was acknowledged.
func (d *dispatcher) send(ctx context.Context, x *delivery) bool {
	url, secrets := d.target()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(x.Body))
	if err != nil {
		d.s.opts.Log.Error("webhook not sent", "event", x.ID, "error", err)
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "simulator/1")
	req.Header.Set(faceOf(x.Face).signatureHeader(), d.signature(x, secrets))
	d.s.tally.sent()
	res, err := d.client.Do(req)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			d.s.opts.Log.Debug("webhook not delivered", "event", x.ID, "try", x.try, "error", err)
		}
		return false
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection can be used again
	return res.StatusCode >= 200 && res.StatusCode <= 299
}

// signature signs a try, or spoils it as its faults have it.
func (d *dispatcher) signature(x *delivery, secrets []string) string {
	at := d.s.opts.Now()
	switch {
	case x.copy:
	case x.try <= x.BadSigs:
		return Sign([]byte(x.Body), at, newID("forged"))
	case x.try <= x.BadSigs+x.OldSigs:
		at = at.Add(-10 * time.Minute)
	}
	return Sign([]byte(x.Body), at, secrets...)
}

// queue is a heap of deliveries by due time.
type queue []*delivery

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *queue) Push(x any) { *q = append(*q, x.(*delivery)) }

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}
