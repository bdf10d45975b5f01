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
// only after the commit. What is plain is applied with it, else a job does that. 4xx is
// for signature and size only, and an error of ours is a 5xx, because then the provider
// delivers again.
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
	if d.Verification.Verdict == provider.SignatureUnchecked {
		return s.wantAgain(c, d, "unchecked")
	}
	if id, ok := hintOf(adapter, d, c.Request().Header, raw); ok {
		return s.receiveHint(c, d, id)
	}
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
	if text, ok := provider.Acknowledgement(adapter); ok {
		return c.String(http.StatusOK, text)
	}
	return answer(c, http.StatusOK, map[string]any{"state": got.State, "duplicates": got.Duplicates})
}

// hintOf returns what a delivery is a hint about, if it is one: signed, or without any
// signature at all. A wrong signature is refused as ever.
func hintOf(a provider.Adapter, d store.Delivery, h http.Header, raw []byte) (id string, ok bool) {
	f, ok := provider.AsFetcher(a)
	if !ok || d.Verification.Verdict != provider.SignatureValid && d.Verification.Verdict != provider.SignatureMissing {
		return "", false
	}
	return f.Hint(h, raw)
}

// receiveHint stores a hint and answers 2xx after the commit; a job asks the provider
// what it is about. Beyond the budget of unsigned ones the delivery is wanted again: it
// may be real, and a lost one would have to wait for a lookup.
func (s *Server) receiveHint(c echo.Context, d store.Delivery, id string) error {
	if d.Verification.Verdict != provider.SignatureValid && !s.rejects.take("hint:"+d.Provider, s.cfg.Now(), hintBurst, hintRate) {
		return s.wantAgain(c, d, "dropped")
	}
	d.ParseError, d.Events = "", nil // it is not an event yet
	got, err := s.cfg.Store.ReceiveHint(c.Request().Context(), d, id)
	if err != nil {
		s.metrics.webhook(d, "error")
		return err
	}
	s.metrics.webhook(d, got.State)
	note(c, slog.String("provider", d.Provider), slog.String("signature", d.Verification.Verdict),
		slog.String("state", got.State), slog.Int("duplicates", got.Duplicates), slog.Bool("hint", true))
	return answer(c, http.StatusOK, map[string]any{"state": got.State, "duplicates": got.Duplicates})
}

// wantAgain refuses a delivery that nothing is wrong with: the provider shall deliver it
// again.
func (s *Server) wantAgain(c echo.Context, d store.Delivery, state string) error {
	s.metrics.webhook(d, state)
	note(c, slog.String("provider", d.Provider), slog.String("signature", d.Verification.Verdict), slog.String("state", state))
	c.Response().Header().Set("Retry-After", "30")
	return answer(c, http.StatusServiceUnavailable, map[string]any{"state": state})
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
	// What was fetched for a hint holds its event's key while it waits for the payment.
	_, hints := provider.AsFetcher(a)
	d.AtOnce = !hints
	return d
}

// Anybody can send what will be rejected, so what is kept of it is bounded: the
// beginning of each body, and per provider and process so many rows at once and then
// so many a second. Beyond that a delivery is refused and counted, not stored.
const (
	maxRejectedBody = 16 << 10
	rejectBurst     = 200
	rejectRate      = 5.0
	// Unsigned hints may be real, and each costs the provider a question: more of them
	// pass, and not any number.
	hintBurst = 1000
	hintRate  = 50.0
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

// allow takes one row from the provider's budget of rejected ones, if there is one.
func (b *rejectBudget) allow(name string, now time.Time) bool {
	return b.take(name, now, rejectBurst, rejectRate)
}

// take takes one row from a budget of so many at once and so many a second.
func (b *rejectBudget) take(name string, now time.Time, burst, rate float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := burst
	at, known := b.at[name]
	if known {
		left = min(left, b.left[name]+max(0, now.Sub(at).Seconds())*rate)
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
