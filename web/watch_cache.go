package web

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// Life of what a watchCache holds.
const (
	watchFresh = 5 * time.Second // how long a value counts before it is read again
	watchKept  = time.Minute     // a key nobody asked for this long is forgotten
	watchMost  = 5000            // keys; beyond them the cache starts over
)

// watchCache remembers, for a few seconds, who may watch. A hundred people who watch
// the same page ask for it again at the same moment; reading each of their sessions
// would cost the database a hundred times what one costs. When one value has aged, all
// that are in use are read again together.
//
// It serves refreshes of live regions only. A whole page and every action read for
// themselves, so that a session that was ended, or a role that was taken away, counts at
// once there, and within watchFresh for a page that is merely left open.
type watchCache[K comparable, V any] struct {
	now func() time.Time
	// load reads many at once; a key that is not in the answer does not exist.
	load   func(ctx context.Context, keys []K) (map[K]V, error)
	flight singleflight.Group

	mu   sync.Mutex
	held map[K]*watchEntry[V]
}

type watchEntry[V any] struct {
	value    V
	found    bool
	at, used time.Time
}

func newWatchCache[K comparable, V any](now func() time.Time, load func(context.Context, []K) (map[K]V, error)) *watchCache[K, V] {
	return &watchCache[K, V]{now: now, load: load, held: map[K]*watchEntry[V]{}}
}

// get returns the key's value, at most watchFresh old.
func (w *watchCache[K, V]) get(ctx context.Context, key K) (value V, found bool, err error) {
	for range 2 { // a reading under way may have begun without this key
		if e, ok := w.fresh(key); ok {
			return e.value, e.found, nil
		}
		_, err, _ := w.flight.Do("", func() (any, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			return nil, w.reload(ctx)
		})
		if err != nil {
			return value, false, err
		}
	}
	if e, ok := w.fresh(key); ok {
		return e.value, e.found, nil
	}
	got, err := w.load(ctx, []K{key})
	value, found = got[key]
	return value, found, err
}

// fresh returns the key's entry if it still counts, and marks the key as in use.
func (w *watchCache[K, V]) fresh(key K) (watchEntry[V], bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	e := w.held[key]
	if e == nil {
		if len(w.held) >= watchMost {
			clear(w.held)
		}
		w.held[key] = &watchEntry[V]{used: now}
		return watchEntry[V]{}, false
	}
	e.used = now
	return *e, !e.at.IsZero() && now.Sub(e.at).Abs() < watchFresh
}

// reload reads all keys in use and forgets the others.
func (w *watchCache[K, V]) reload(ctx context.Context) error {
	w.mu.Lock()
	now := w.now() // before reading: what is read is at least this new
	keys := make([]K, 0, len(w.held))
	for k, e := range w.held {
		kept := watchKept
		if !e.at.IsZero() && !e.found { // made-up keys must not make every reading longer
			kept = 2 * watchFresh
		}
		if now.Sub(e.used).Abs() > kept {
			delete(w.held, k)
			continue
		}
		keys = append(keys, k)
	}
	w.mu.Unlock()
	got, err := w.load(ctx, keys)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range keys {
		e := w.held[k]
		if e == nil {
			continue // forgotten meanwhile
		}
		e.value, e.found = got[k]
		e.at = now
	}
	return nil
}

// forget makes the next look read again.
func (w *watchCache[K, V]) forget(key K) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.held, key)
}
