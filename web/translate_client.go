package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"fusebox/breaker"
)

// TranslateKey is the circuit of the translation service; cmd gives it breaker.NonMoney.
var TranslateKey = breaker.Key{Name: "translate", Class: "text"}

// Limits of a translation. The page never waits for one: its fragment loads after.
const (
	translateTimeout = 3 * time.Second
	translateAnswer  = 64 << 10
	translateCached  = 2000 // texts kept; provider messages repeat
)

// Where a translated text came from.
const (
	fromService  = "service"
	fromCache    = "cache"
	fromOriginal = "original" // the service is off, open or failing: the text as it was
)

// translator asks a LibreTranslate-compatible service, guarded by a circuit of its
// own. It never fails: without an answer the text stays as it is.
type translator struct {
	url, key string
	circuits breaker.Breaker
	http     *http.Client
	now      func() time.Time

	mu    sync.Mutex
	cache map[textKey]string
	order []textKey // oldest first
	busy  map[textKey]*asking
}

// textKey is one text in one target language.
type textKey struct{ text, lang string }

// asking is a call under way that others with the same text wait for.
type asking struct {
	done chan struct{}
	text string
	from string
}

func newTranslator(cfg Config) *translator {
	return &translator{
		url: strings.TrimRight(cfg.TranslateURL, "/"), key: cfg.TranslateKey, circuits: cfg.Breaker, now: time.Now,
		http: &http.Client{
			Timeout:       translateTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		cache: map[textKey]string{}, busy: map[textKey]*asking{},
	}
}

// translate returns text in lang and where it came from. Readers of the same text
// share one call.
func (t *translator) translate(ctx context.Context, text, lang string) (string, string) {
	if t.url == "" || strings.TrimSpace(text) == "" {
		return text, fromOriginal
	}
	k := textKey{text, lang}
	t.mu.Lock()
	if have, ok := t.cache[k]; ok {
		t.mu.Unlock()
		return have, fromCache
	}
	call, waiting := t.busy[k]
	if !waiting {
		call = &asking{done: make(chan struct{}), text: text, from: fromOriginal}
		t.busy[k] = call
		// Not the reader's context: the others wait for the same answer.
		go t.ask(context.WithoutCancel(ctx), k, call)
	}
	t.mu.Unlock()
	select {
	case <-call.done:
		return call.text, call.from
	case <-ctx.Done():
		return text, fromOriginal
	}
}

// ask makes one guarded call and hands its result to everybody who waits.
func (t *translator) ask(ctx context.Context, k textKey, call *asking) {
	translated, err := t.guarded(ctx, k)
	t.mu.Lock()
	if err == nil {
		call.text, call.from = translated, fromService
		t.keep(k, translated)
	}
	delete(t.busy, k)
	t.mu.Unlock()
	close(call.done)
}

// keep caches a translation; t.mu is held.
func (t *translator) keep(k textKey, translated string) {
	if len(t.order) >= translateCached {
		delete(t.cache, t.order[0])
		t.order = t.order[1:]
	}
	t.cache[k] = translated
	t.order = append(t.order, k)
}

// guarded makes the call if the circuit admits it and reports how it went.
func (t *translator) guarded(ctx context.Context, k textKey) (string, error) {
	permit, err := t.circuits.Permit(ctx, TranslateKey)
	if err != nil {
		return "", err
	}
	start, verdict, class := t.now(), breaker.Neutral, ""
	defer func() { permit.Report(ctx, verdict, t.now().Sub(start), class, "") }()
	translated, err := t.call(ctx, k)
	verdict, class = translateVerdict(err)
	return translated, err
}

// statusError is an answer other than 200.
type statusError int

// Error implements error.
func (e statusError) Error() string { return fmt.Sprintf("http_%d", int(e)) }

// translateVerdict reads a call's error for the circuit. A refusal of our request says
// nothing about the service's health.
func translateVerdict(err error) (v breaker.Verdict, class string) {
	var status statusError
	switch {
	case err == nil:
		return breaker.OK, ""
	case errors.As(err, &status) && status < 500 && status != http.StatusRequestTimeout:
		return breaker.Neutral, ""
	case errors.As(err, &status):
		return breaker.Fail, status.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return breaker.Fail, "timeout"
	}
	return breaker.Fail, "transport"
}

// call asks the service once.
func (t *translator) call(ctx context.Context, k textKey) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, translateTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]string{
		"q": k.text, "source": "auto", "target": k.lang, "format": "text", "api_key": t.key})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url+"/translate", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := t.http.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(res.Body, translateAnswer))
	if err != nil {
		return "", err
	}
	if res.StatusCode != http.StatusOK {
		return "", statusError(res.StatusCode)
	}
	var answer struct {
		Text string `json:"translatedText"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil || answer.Text == "" {
		return "", errors.New("no translatedText in the answer")
	}
	return answer.Text, nil
}
