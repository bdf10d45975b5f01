package web

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"
	"golang.org/x/sync/singleflight"

	"fusebox/views"
	"fusebox/views/messages"
)

// headerRev carries a live region's revision: in the request what the browser
// shows, in the answer what it gets.
const headerRev = "Fusebox-Rev"

// fragmentCap bounds how many rendered fragments are kept; they die with their
// revision, so this is only reached by somebody typing filters in a loop.
const fragmentCap = 512

// build makes a live region for a revision. It must not depend on who asks beyond
// role and locale: its result is shared between viewers.
type build func(ctx context.Context, rev string) (templ.Component, error)

// livePage answers a page made of one live region: the whole page to a browser, the
// region alone to htmx. active and title are as in page.
func (s *Server) livePage(c echo.Context, active, title, topic string, region build) error {
	c.Response().Header().Add(echo.HeaderVary, "HX-Request")
	if isHTMX(c) {
		return s.fragment(c, topic, region)
	}
	ctx := s.viewContext(c)
	body, err := region(ctx, s.a.hub.rev(topic))
	if err != nil {
		return err
	}
	return s.render(c, http.StatusOK, views.Framed(s.page(c, active, title), body))
}

// fragment answers a live region. The same revision as the browser's is 204; a
// revision that somebody else asked for already comes from memory, and simultaneous
// askers share one reading.
func (s *Server) fragment(c echo.Context, topic string, region build) error {
	s.a.hub.start()
	rev := s.a.hub.rev(topic) // before reading: what is read is at least this new
	h := c.Response().Header()
	h.Set(headerRev, rev)
	h.Set(echo.HeaderCacheControl, "no-store")
	if c.Request().Header.Get(headerRev) == rev {
		return c.NoContent(http.StatusNoContent)
	}
	ctx := s.viewContext(c)
	l := messages.From(ctx)
	key := strings.Join([]string{topic, rev, c.Request().URL.RequestURI(), string(l.Lang), l.Zone.String(),
		string(s.user(c).Role)}, "\x00")
	body, err := s.a.cache.get(ctx, topic, key, func(ctx context.Context) ([]byte, error) {
		component, err := region(ctx, rev)
		if err != nil {
			return nil, err
		}
		var buf bytes.Buffer
		err = component.Render(ctx, &buf)
		return buf.Bytes(), err
	})
	if err != nil {
		return err
	}
	return c.HTMLBlob(http.StatusOK, body)
}

// fragmentCache keeps rendered fragments of current revisions, by topic.
type fragmentCache struct {
	group singleflight.Group
	mu    sync.Mutex
	byKey map[string]map[string][]byte // topic → key → HTML
	count int
}

func newFragmentCache() *fragmentCache {
	return &fragmentCache{byKey: map[string]map[string][]byte{}}
}

// get returns the fragment, rendering it at most once at a time. The rendering does
// not end with the one asker who happened to start it.
func (f *fragmentCache) get(ctx context.Context, topic, key string, render func(context.Context) ([]byte, error)) ([]byte, error) {
	if body, ok := f.find(topic, key); ok {
		return body, nil
	}
	v, err, _ := f.group.Do(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		body, err := render(ctx)
		if err == nil {
			f.put(topic, key, body)
		}
		return body, err
	})
	if err != nil {
		return nil, err
	}
	return v.([]byte), nil //nolint:forcetypeassert // the function above returns nothing else
}

func (f *fragmentCache) find(topic, key string) ([]byte, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, ok := f.byKey[topic][key]
	return body, ok
}

func (f *fragmentCache) put(topic, key string, body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count >= fragmentCap {
		clear(f.byKey)
		f.count = 0
	}
	if f.byKey[topic] == nil {
		f.byKey[topic] = map[string][]byte{}
	}
	f.byKey[topic][key] = body
	f.count++
}

// drop forgets a topic's fragments; the hub calls it when the revision moves. One
// rendered under the old revision may still be put afterwards: its key is never
// asked for again, and the cap or the next move removes it.
func (f *fragmentCache) drop(topic string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count -= len(f.byKey[topic])
	delete(f.byKey, topic)
}

// snapshotAge is how old a shared reading may be when nobody ticks it.
const snapshotAge = tickEvery + time.Second
