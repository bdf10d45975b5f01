package simulator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Server is a running simulator. Its methods are safe for concurrent use.
type Server struct {
	opts    Options
	book    *book
	front   *front
	control *http.Server
	ctrlURL string
	events  *dispatcher
	tally   *tally
	close   func() error

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu       sync.Mutex
	closed   bool
	work     sync.WaitGroup // requests and timers that may still write; see begin
	faults   Faults
	outageAt uint64      // counts switches, so that an old timer ends no newer outage
	until    time.Time   // when the outage ends by itself; zero: never
	ender    *time.Timer // of the outage
	timers   map[string]*time.Timer
}

// Start opens the ledger, takes up what an earlier run left undone, and listens.
// The simulator runs until Close, or until ctx ends.
func Start(ctx context.Context, opts Options) (*Server, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts: opts, faults: Healthy(), tally: newTally(),
		timers: map[string]*time.Timer{},
	}
	s.ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.close = sync.OnceValue(s.shutdown)
	if s.book, err = openBook(opts.LedgerPath); err != nil {
		s.stop()
		return nil, err
	}
	s.events = newDispatcher(s)
	if err := s.listen(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.resume()
	if err := s.SetFaults(opts.Faults); err != nil {
		return nil, errors.Join(err, s.close())
	}
	context.AfterFunc(ctx, func() { _ = s.close() }) // whoever calls Close gets the error
	return s, nil
}

// listen opens both listeners.
func (s *Server) listen() error {
	f, err := newFront(s.opts.Listen, s.publicHandler(), s.opts.Log)
	if err != nil {
		return err
	}
	s.front = f
	if err := f.open(); err != nil {
		return err
	}
	addr, err := listenAddr(s.opts.ControlListen)
	if err != nil {
		return err
	}
	l, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return fmt.Errorf("simulator: control listener: %w", err)
	}
	s.ctrlURL = baseURL(l.Addr().(*net.TCPAddr))
	s.control = newHTTPServer(s.controlHandler(), s.opts.Log)
	go serve(s.control, l, s.opts.Log)
	return nil
}

// resume takes up the deliveries and decisions of an earlier run.
func (s *Server) resume() {
	events, undecided := s.book.open()
	for _, ev := range events {
		s.events.add(ev)
	}
	for _, c := range undecided {
		s.decideLater(c)
	}
}

// Close stops listening and delivering, lets requests in work finish writing, and
// closes the ledger. Undelivered events stay in the ledger for the next start.
func (s *Server) Close() error { return s.close() }

func (s *Server) shutdown() error {
	s.mu.Lock()
	s.closed = true
	for _, t := range s.timers {
		t.Stop()
	}
	if s.ender != nil {
		s.ender.Stop()
	}
	s.mu.Unlock()
	s.stop()
	if s.front != nil {
		s.front.close()
	}
	if s.control != nil {
		_ = s.control.Close() // closing is all that is wanted of it
	}
	s.events.wait()
	s.work.Wait()
	return s.book.log.close()
}

// begin registers work that may write to the ledger. It is refused once Close
// has begun; otherwise the caller ends it with s.work.Done.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.work.Add(1)
	return true
}

// URL is the base URL of the provider's API.
func (s *Server) URL() string { return s.front.url() }

// ControlURL is the base URL of the control API; its paths begin with /_sim/.
func (s *Server) ControlURL() string { return s.ctrlURL }

// Name is the configured name.
func (s *Server) Name() string { return s.opts.Name }

// APIKey is the bearer key of the account.
func (s *Server) APIKey() string { return s.opts.APIKey }

// publicURL is the base of the URLs handed to customers.
func (s *Server) publicURL() string {
	if s.opts.PublicURL != "" {
		return s.opts.PublicURL
	}
	return s.URL()
}

// SetWebhook changes where events go and what signs them; pending ones included.
// Without secrets the present ones stay. Every secret signs, newest first.
func (s *Server) SetWebhook(url string, secrets ...string) error {
	if err := validWebhook(url, secrets); err != nil {
		return err
	}
	s.events.retarget(url, secrets)
	return nil
}

// WebhookSecrets are the secrets that sign events, newest first.
func (s *Server) WebhookSecrets() []string {
	_, secrets := s.events.target()
	return secrets
}

// Faults returns what the simulator does wrong at the moment.
func (s *Server) Faults() Faults {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults.Clone()
}

// wrong is Faults for those who only read it: the rates are never changed in place.
func (s *Server) wrong() Faults {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults
}

// SetFaults replaces all faults, the outage included, which then lasts until the
// next change.
func (s *Server) SetFaults(f Faults) error {
	return s.change(new(time.Duration), func(now *Faults) error {
		*now = f.Clone()
		return nil
	})
}

// SetOutage switches the outage alone. With a duration it ends by itself.
func (s *Server) SetOutage(mode Outage, lasting time.Duration) error {
	return s.change(&lasting, func(now *Faults) error {
		now.Outage = mode
		return nil
	})
}

// change edits a copy of the faults and puts it in force if it is valid. A nil
// lasting leaves the end of the present outage as it is.
func (s *Server) change(lasting *time.Duration, edit func(*Faults) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	f := s.faults.Clone()
	if err := edit(&f); err != nil {
		return err
	}
	if err := f.Validate(); err != nil {
		return err
	}
	s.faults = f.normal()
	if lasting != nil {
		s.timeOutage(*lasting)
	}
	return s.showOutage()
}

// timeOutage sets when the present outage ends; 0 is never. mu is held.
func (s *Server) timeOutage(lasting time.Duration) {
	s.outageAt++
	if s.ender != nil {
		s.ender.Stop()
	}
	s.ender, s.until = nil, time.Time{}
	if s.faults.Outage == OutageNone || lasting <= 0 {
		return
	}
	at := s.outageAt
	s.until = time.Now().Add(lasting)
	s.ender = time.AfterFunc(lasting, func() { s.endOutage(at) })
}

// endOutage ends the outage of a given switch, unless another one followed it.
func (s *Server) endOutage(at uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.outageAt != at {
		return
	}
	s.faults.Outage, s.until = OutageNone, time.Time{}
	if err := s.showOutage(); err != nil {
		s.opts.Log.Error("cannot end outage", "error", err)
	}
}

// showOutage opens or shuts the listener as the outage demands; mu is held.
func (s *Server) showOutage() error {
	if s.faults.Outage == OutageRefuse {
		s.front.shut()
		return nil
	}
	return s.front.open()
}

// Charges returns the ledger: everything the provider really booked or refused,
// oldest first.
func (s *Server) Charges() ([]Charge, error) {
	return s.book.between(span{}, nil)
}

// Reset forgets the ledger, pending events and statistics, and ends every fault.
func (s *Server) Reset() error {
	if !s.begin() {
		return errClosed
	}
	defer s.work.Done()
	s.mu.Lock()
	for id, t := range s.timers {
		t.Stop()
		delete(s.timers, id)
	}
	s.mu.Unlock()
	s.events.clear()
	s.tally.clear()
	if err := s.book.reset(s.opts.Now()); err != nil {
		return err
	}
	return s.SetFaults(Healthy())
}

// sleep waits, unless the simulator closes or the given context ends first.
func (s *Server) sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	case <-s.ctx.Done():
		return false
	}
}
