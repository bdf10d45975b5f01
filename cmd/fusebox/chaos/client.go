package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// patience is how long a client asks again for the answer to one request.
const patience = 45 * time.Second

// client asks the API as an integrator does: behind a balancer, and again with the same
// key until it has an answer.
type client struct {
	apis   []string
	apiKey string
	http   *http.Client

	mu    sync.Mutex
	did   map[string]int // answered operations by kind
	again int            // requests that had to be repeated
	gave  int            // requests that never got an answer
	codes map[int]int    // refusals by status
}

func newClient(apis []string, apiKey string) *client {
	return &client{
		apis: apis, apiKey: apiKey, did: map[string]int{}, codes: map[int]int{},
		http: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
			MaxIdleConnsPerHost: 64, IdleConnTimeout: 20 * time.Second,
		}},
	}
}

// count notes an operation that was done.
func (c *client) count(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.did[kind]++
}

func (c *client) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.did)
}

// ask sends a request until it is answered, to any process each time. status 0: never.
// A refusal (4xx) is an answer; into is filled from a success only.
func (c *client) ask(ctx context.Context, method, path, key string, body, into any) (status int, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for n := 0; ; n++ {
		var answer []byte
		status, answer, err = c.once(ctx, method, c.apis[rand.IntN(len(c.apis))]+path, key, body) //nolint:gosec // no secret
		if err == nil && !retryable(status) {
			return status, c.read(status, answer, into)
		}
		if !pause(ctx, min(time.Duration(n+1)*100*time.Millisecond, time.Second)) {
			c.mu.Lock()
			c.gave++
			c.mu.Unlock()
			return 0, fmt.Errorf("%s %s: no answer: %d %w", method, path, status, ctx.Err())
		}
		c.mu.Lock()
		c.again++
		c.mu.Unlock()
	}
}

// retryable answers say nothing about the request.
func retryable(status int) bool { return status >= 500 || status == http.StatusTooManyRequests }

func (c *client) read(status int, answer []byte, into any) error {
	if status/100 != 2 {
		c.mu.Lock()
		c.codes[status]++
		c.mu.Unlock()
		return nil
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

func (c *client) once(ctx context.Context, method, url, key string, body any) (int, []byte, error) {
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		in = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, in)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.apiKey)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return 0, nil, err // the answer broke off: none
	}
	return res.StatusCode, answer, nil
}
