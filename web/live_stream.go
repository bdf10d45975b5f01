package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// Pacing of a stream.
const (
	heartbeat  = 15 * time.Second
	streamLife = 10 * time.Minute // then the browser comes back, and its session is checked again
	writeGrace = 20 * time.Second // a reader that takes nothing for so long is gone
)

// liveStream tells one browser which topics changed. It carries revisions, never
// data: the browser fetches what it shows. Exempt from gzip and request timeouts.
func (s *Server) liveStream(c echo.Context) error {
	out := &eventWriter{c: c, rc: http.NewResponseController(c.Response())}
	if err := out.open(); err != nil {
		return err
	}
	wake, leave := s.a.hub.join()
	defer leave()
	seen := map[string]string{}
	if out.send("rev", s.a.hub.changes(seen)) != nil {
		return nil // the browser left; it will come back
	}
	beat, end := time.NewTicker(s.a.hub.beat), time.NewTimer(s.a.hub.life)
	defer beat.Stop()
	defer end.Stop()
	for {
		var err error
		select {
		case <-wake:
			err = out.send("rev", s.a.hub.changes(seen))
		case <-beat.C:
			err = out.send("beat", nil)
		case <-end.C:
			_ = out.send("end", nil)
			return nil
		case <-s.a.hub.ctx.Done():
			_ = out.send("end", nil)
			return nil
		case <-c.Request().Context().Done():
			return nil
		}
		if err != nil {
			return nil //nolint:nilerr // the browser left; nobody reads an error
		}
	}
}

// liveRevs answers the same for browsers that cannot hold a stream.
func (s *Server) liveRevs(c echo.Context) error {
	s.a.hub.polled()
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return c.JSON(http.StatusOK, s.a.hub.changes(map[string]string{}))
}

// eventWriter writes server-sent events.
type eventWriter struct {
	c  echo.Context
	rc *http.ResponseController
}

// open lifts the server's deadlines for this connection and sends the header. The
// read deadline too: net/http would end the request's context when it passes.
func (w *eventWriter) open() error {
	if err := w.rc.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("live stream: %w", err)
	}
	if err := w.rc.SetWriteDeadline(time.Time{}); err != nil {
		return fmt.Errorf("live stream: %w", err)
	}
	h := w.c.Response().Header()
	h.Set(echo.HeaderContentType, "text/event-stream")
	h.Set(echo.HeaderCacheControl, "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.c.Response().WriteHeader(http.StatusOK)
	return w.rc.Flush()
}

// send writes one event; a reader that takes nothing gets a deadline of its own.
func (w *eventWriter) send(event string, data map[string]string) error {
	if data == nil {
		data = map[string]string{}
	}
	body, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if err := w.rc.SetWriteDeadline(time.Now().Add(writeGrace)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w.c.Response(), "event: %s\ndata: %s\n\n", event, body); err != nil {
		return err
	}
	return w.rc.Flush()
}
