package web

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"fusebox/provider"
	"fusebox/store"
)

// registerWebhooks adds the receiver for the providers' events.
func (s *Server) registerWebhooks() {
	s.echo.POST("/webhooks/:provider", s.receiveWebhook)
}

// receiveWebhook verifies a delivery over its exact bytes, stores it, and answers 2xx
// only after the commit; a job applies it. 4xx is for signature and size only, and an
// error of ours is a 5xx, because then the provider delivers again.
func (s *Server) receiveWebhook(c echo.Context) error {
	adapter, known := s.cfg.Registry.Get(c.Param("provider"))
	if !known {
		return echo.ErrNotFound
	}
	raw, err := io.ReadAll(c.Request().Body)
	if err != nil {
		return bodyError(err)
	}
	d := readDelivery(adapter, c.Request().Header, raw, s)
	if d.Verification.Verdict != provider.SignatureValid && !s.rejects.allow(d.Provider, s.cfg.Now()) {
		s.metrics.webhook(d, "dropped")
		return badSignature(d)
	}
	got, err := s.cfg.Store.ReceiveWebhook(c.Request().Context(), d)
	if err != nil {
		s.metrics.webhook(d, "error")
		return err
	}
	s.metrics.webhook(d, got.State)
	note(c, slog.String("provider", d.Provider), slog.String("signature", d.Verification.Verdict),
		slog.String("state", got.State), slog.Int("duplicates", got.Duplicates))
	if d.Verification.Verdict != provider.SignatureValid {
		return badSignature(d)
	}
	return answer(c, http.StatusOK, map[string]any{"state": got.State, "duplicates": got.Duplicates})
}

// readDelivery verifies and, only when that succeeded, parses a delivery.
func readDelivery(a provider.Adapter, h http.Header, raw []byte, s *Server) store.Delivery {
	d := store.Delivery{Provider: a.Name(), Raw: raw, Header: keptHeaders(h), Verification: a.Verify(h, raw, s.cfg.Now())}
	if d.Verification.Verdict != provider.SignatureValid {
		d.Raw = raw[:min(len(raw), maxRejectedBody)]
		return d
	}
	events, err := a.Parse(raw)
	if err != nil {
		d.ParseError = err.Error()
		return d
	}
	d.Events = events
	return d
}

// Anybody can send what will be rejected, so what is kept of it is bounded: the
// beginning of each body, and per provider and process so many rows at once and then
// so many a second. Beyond that a delivery is refused and counted, not stored.
const (
	maxRejectedBody = 16 << 10
	rejectBurst     = 200
	rejectRate      = 5.0
)

// rejectBudget is what is left of those rows, per provider.
type rejectBudget struct {
	mu   sync.Mutex
	left map[string]float64
	at   map[string]time.Time
}

func newRejectBudget() *rejectBudget {
	return &rejectBudget{left: map[string]float64{}, at: map[string]time.Time{}}
}

// allow takes one row from the provider's budget, if there is one.
func (b *rejectBudget) allow(name string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := float64(rejectBurst)
	at, known := b.at[name]
	if known {
		left = min(left, b.left[name]+max(0, now.Sub(at).Seconds())*rejectRate)
	}
	if now.After(at) { // a clock that goes back must not pay twice
		b.at[name] = now
	}
	if left < 1 {
		b.left[name] = left
		return false
	}
	b.left[name] = left - 1
	return true
}

// badSignature refuses a delivery (400) and says what is wrong with its signature.
func badSignature(d store.Delivery) error {
	return &badRequest{"signature", signatureReasons[d.Verification.Verdict]}
}

// signatureReasons says to a provider's developer what is wrong with a signature.
var signatureReasons = map[string]string{
	provider.SignatureInvalid:  "does not match the body under any active secret",
	provider.SignatureMissing:  "is missing or unreadable",
	provider.SignatureTooOld:   "is too old: the clocks differ or the delivery was replayed",
	provider.SignatureInFuture: "is from the future: the clocks differ",
}

// secretWords are parts of header names whose values are credentials.
var secretWords = []string{"authorization", "cookie", "token", "secret", "api-key", "apikey", "password"}

// keptHeaders returns the headers worth keeping as evidence, without credentials.
func keptHeaders(h http.Header) http.Header {
	kept := make(http.Header, len(h))
	for name, values := range h {
		if !isSecret(name) {
			kept[name] = values
		}
	}
	return kept
}

func isSecret(header string) bool {
	header = strings.ToLower(header)
	for _, word := range secretWords {
		if strings.Contains(header, word) {
			return true
		}
	}
	return false
}
