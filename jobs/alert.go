package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"fusebox/store"
)

// Kinds of AlertSink.
const (
	sinkGeneric = "generic"
	sinkSlack   = "slack"
)

// sinkTimeout bounds one delivery: alerts must not hold the default queue.
const sinkTimeout = 5 * time.Second

// alertWorker posts stored alerts to the configured sinks. The console shows an alert
// from the moment it is stored, sinks or not.
type alertWorker struct {
	river.WorkerDefaults[alertArgs]
	r    *Runner
	http *http.Client
}

func newAlertWorker(r *Runner) *alertWorker {
	return &alertWorker{r: r, http: &http.Client{
		Timeout: sinkTimeout,
		// A sink that redirects is misconfigured; following would post to a stranger.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Work implements river.Worker. A sink that took the alert is never sent it again;
// the others are retried by River until they take it.
func (w *alertWorker) Work(ctx context.Context, job *river.Job[alertArgs]) error {
	s, id := w.r.cfg.Store, job.Args.AlertID
	alert, err := s.Alert(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("jobs: alert: %w", err)
	}
	if alert.DeliveredAt != nil {
		return nil
	}
	if len(w.r.cfg.Sinks) == 0 {
		return s.AlertDelivered(ctx, id, "console", true, "no sinks configured", true)
	}
	took, err := w.taken(ctx, id)
	if err != nil {
		return err
	}
	return w.deliver(ctx, alert, took)
}

// NextRetry implements river.Worker: 25 tries spread over about three hours, since each
// failed one is kept as a row's entry.
func (w *alertWorker) NextRetry(job *river.Job[alertArgs]) time.Time {
	tries := len(job.Errors) + 1
	return time.Now().Add(jitter(min(2*time.Duration(tries*tries)*time.Second, 30*time.Minute)))
}

// deliver posts to every sink that has not taken the alert yet, and fails if any refused.
func (w *alertWorker) deliver(ctx context.Context, alert store.Alert, took map[string]bool) error {
	var failed []error
	for _, sink := range w.r.cfg.Sinks {
		if took[sink.Name] {
			continue
		}
		if err := w.post(ctx, sink, alert); err != nil {
			failed = append(failed, fmt.Errorf("jobs: alert sink %s: %w", sink.Name, err))
			err = w.r.cfg.Store.AlertDelivered(ctx, alert.ID, sink.Name, false, err.Error(), false)
			failed = append(failed, err)
			continue
		}
		took[sink.Name] = true
		write, cancel := store.Detached(ctx)
		err := w.r.cfg.Store.AlertDelivered(write, alert.ID, sink.Name, true, "", w.all(took))
		cancel()
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// all reports whether every configured sink took the alert.
func (w *alertWorker) all(took map[string]bool) bool {
	for _, sink := range w.r.cfg.Sinks {
		if !took[sink.Name] {
			return false
		}
	}
	return true
}

// taken returns the sinks that took the alert in an earlier run.
func (w *alertWorker) taken(ctx context.Context, id int64) (map[string]bool, error) {
	const q = `
		SELECT coalesce(array_agg(d ->> 'sink'), '{}') FROM alerts, jsonb_array_elements(deliveries) AS d
		WHERE id = $1 AND (d ->> 'ok')::boolean`
	var names []string
	if err := w.r.cfg.Store.Pool().QueryRow(ctx, q, id).Scan(&names); err != nil {
		return nil, fmt.Errorf("jobs: deliveries of alert %d: %w", id, err)
	}
	took := make(map[string]bool, len(names))
	for _, n := range names {
		took[n] = true
	}
	return took, nil
}

// post makes one delivery. Errors never carry the URL: a sink's URL is its secret.
func (w *alertWorker) post(ctx context.Context, sink AlertSink, alert store.Alert) error {
	body, err := render(sink.Kind, alert)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, sink.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("its URL cannot be used")
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := w.http.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return err
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 4096)) // lets the connection be used again
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("answered %d", res.StatusCode)
	}
	return nil
}

// alertBody is what a generic sink receives.
type alertBody struct {
	ID        int64      `json:"id"`
	Kind      string     `json:"kind"`
	Severity  string     `json:"severity"`
	Provider  string     `json:"provider,omitempty"`
	Title     string     `json:"title"`
	Detail    string     `json:"detail,omitempty"`
	PaymentID *uuid.UUID `json:"payment_id,omitempty"`
	CreatedAt time.Time  `json:"created_at"`
}

// render makes the body for a kind of sink.
func render(kind string, a store.Alert) ([]byte, error) {
	if kind == sinkSlack {
		text := fmt.Sprintf("[%s] %s", a.Severity, a.Title)
		if a.Detail != "" {
			text += "\n" + a.Detail
		}
		return json.Marshal(map[string]string{"text": slackText(text)})
	}
	return json.Marshal(alertBody{
		ID: a.ID, Kind: a.Kind, Severity: a.Severity, Provider: a.Provider, Title: a.Title,
		Detail: a.Detail, PaymentID: a.PaymentID, CreatedAt: a.CreatedAt,
	})
}

// slackText escapes Slack's control characters: a provider's words must not become
// links or mentions.
func slackText(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// checkSinks refuses sinks whose deliveries could not be told apart or made.
func checkSinks(sinks []AlertSink) error {
	seen := make(map[string]bool, len(sinks))
	for _, s := range sinks {
		u, err := url.Parse(s.URL)
		switch {
		case s.Name == "" || seen[s.Name]:
			return fmt.Errorf("alert sink %q: names must be unique and not empty", s.Name)
		case s.Kind != sinkGeneric && s.Kind != sinkSlack:
			return fmt.Errorf("alert sink %q: kind %q is neither %s nor %s", s.Name, s.Kind, sinkGeneric, sinkSlack)
		case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
			return fmt.Errorf("alert sink %q: its URL is not an http(s) URL", s.Name)
		}
		seen[s.Name] = true
	}
	return nil
}
