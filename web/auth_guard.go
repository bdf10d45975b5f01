package web

import (
	"strconv"
	"sync"
	"time"
)

// Failed sign-ins allowed per window: by address and email together against
// guessing one person's password, by address alone against trying many people.
// A person is never locked out by somebody else's address.
const (
	guardWindow  = 15 * time.Minute
	guardPerPair = 10
	guardPerIP   = 100
	guardEntries = 10_000 // memory bound; beyond it the oldest windows go
)

// signInGuard counts failed sign-ins in this process.
type signInGuard struct {
	now   func() time.Time
	mu    sync.Mutex
	tries map[string]*tries
}

// tries is one key's failures since the window began.
type tries struct {
	count int
	since time.Time
}

func newSignInGuard(now func() time.Time) *signInGuard {
	return &signInGuard{now: now, tries: map[string]*tries{}}
}

func pairKey(ip, email string) string { return ip + " " + email }

// wait returns how long this address has to wait before it may try this email;
// zero: it may now.
func (g *signInGuard) wait(ip, email string) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(g.left(pairKey(ip, email), guardPerPair), g.left(ip, guardPerIP))
}

// left is the rest of key's window if it used up its limit.
func (g *signInGuard) left(key string, limit int) time.Duration {
	t := g.tries[key]
	if t == nil || t.count < limit {
		return 0
	}
	return max(0, guardWindow-g.now().Sub(t.since))
}

// failed counts one refused sign-in.
func (g *signInGuard) failed(ip, email string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if len(g.tries) >= guardEntries {
		g.evict(now)
	}
	for _, key := range []string{pairKey(ip, email), ip} {
		t := g.tries[key]
		if t == nil || now.Sub(t.since) >= guardWindow {
			t = &tries{since: now}
			g.tries[key] = t
		}
		t.count++
	}
}

// succeeded forgets the pair's failures; the address keeps its other ones.
func (g *signInGuard) succeeded(ip, email string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.tries, pairKey(ip, email))
	if t := g.tries[ip]; t != nil && t.count > 0 {
		t.count-- // the attempt that succeeded was counted before it was checked
	}
}

// evict drops finished windows, and the oldest one when none has finished.
func (g *signInGuard) evict(now time.Time) {
	oldest, at := "", now
	for key, t := range g.tries {
		if now.Sub(t.since) >= guardWindow {
			delete(g.tries, key)
		} else if !t.since.After(at) {
			oldest, at = key, t.since
		}
	}
	if len(g.tries) >= guardEntries {
		delete(g.tries, oldest)
	}
}

// seconds renders a pause for Retry-After, rounded up.
func seconds(d time.Duration) string {
	return strconv.Itoa(int((d + time.Second - 1) / time.Second))
}
