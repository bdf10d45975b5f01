package main

import (
	"io"
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"
)

// postPayment creates a payment of 49.00 EUR through the API. Status 0 means that
// there was no answer.
func (w *world) postPayment(key, orderRef, name string) (status int, body string) {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodPost, w.url+"/api/v1/payments", strings.NewReader(
		`{"order_ref":"`+orderRef+`","provider":"`+name+`","amount":4900,"currency":"EUR"}`))
	require.NoError(w.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+w.apiKey)
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

// ready reports whether /readyz mentions word.
func (w *world) ready(word string) bool {
	resp, err := http.Get(w.url + "/readyz")
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return err == nil && strings.Contains(string(b), word)
}

// get asks the API.
func (w *world) get(path string) (status int, body string) {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodGet, w.url+path, nil)
	require.NoError(w.t, err)
	req.Header.Set("Authorization", "Bearer "+w.apiKey)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	return resp.StatusCode, string(b)
}
