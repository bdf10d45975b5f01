package jobs

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"fusebox/breaker"
)

const (
	// slotWait is how long a job waits where it is for a slot of a full global bulkhead
	// before it goes back to its queue. Calls end within moments as a rule: a job that is
	// put back for each of them costs more than the call, and comes too late for the slot.
	slotWait = 2 * time.Second
	// askFirst and askLast are the pauses between its questions while other processes have
	// all slots.
	askFirst, askLast = 5 * time.Millisecond, 100 * time.Millisecond
)

// slots are this process's share of a global bulkhead: as many as there are in all, since
// more than that can never call at a time. Who has none waits here, in order and without
// asking Redis.
type slots struct {
	once sync.Once
	free chan struct{}
}

// take returns a function that gives the slot back; false when none was free before ctx
// ended.
func (s *slots) take(ctx context.Context, limit int) (release func(), ok bool) {
	s.once.Do(func() { s.free = make(chan struct{}, limit) })
	select {
	case s.free <- struct{}{}:
		return sync.OnceFunc(func() { <-s.free }), true
	case <-ctx.Done():
		return nil, false
	}
}

// slotPermit gives its slot of this process back with its permit.
type slotPermit struct {
	breaker.Permit
	release func()
}

func (p slotPermit) Report(ctx context.Context, v breaker.Verdict, latency time.Duration, errClass, sample string) {
	p.Permit.Report(ctx, v, latency, errClass, sample)
	p.release()
}

// permit asks the circuit of a class of l's calls for one, as Breaker.Permit does, and
// waits for a slot if all that keeps it out is a full bulkhead: slotWait at most, and not
// while this process stops. It holds no connection and nobody's queue but the provider's.
func (r *Runner) permit(ctx context.Context, l *lane, class string) (breaker.Permit, error) {
	key := breaker.Key{Name: l.settings.Name, Class: class}
	limit := r.cfg.Circuits(key).MaxInFlight
	if limit <= 0 {
		return r.cfg.Breaker.Permit(ctx, key)
	}
	wait, cancel := r.callContext(ctx, slotWait)
	defer cancel()
	own := &l.chargeSlots
	if class == classStatus {
		own = &l.lookupSlots
	}
	release, ok := own.take(wait, limit)
	if !ok {
		return r.cfg.Breaker.Permit(ctx, key) // which says what to wait for
	}
	for pause := askFirst; ; pause = min(2*pause, askLast) {
		permit, err := r.cfg.Breaker.Permit(ctx, key)
		if err == nil {
			return slotPermit{permit, release}, nil
		}
		if d := denied(err); d == nil || d.Reason != breaker.DeniedSaturated {
			release()
			return nil, err
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-wait.Done():
			release()
			return nil, err
		}
	}
}
