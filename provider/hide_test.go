package provider

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A provider that repeats our credentials in its answer gives them to nobody.
func TestAnswersAreReadWithoutOurCredentials(t *testing.T) {
	t.Parallel()
	const key, secret = "a-plain-looking-key", "a plain looking secret"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/login?key="+key)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"message":"no such key: ` + r.Header.Get("Authorization") + `","hook":"` + secret + `","risk":"sk"}`))
	}))
	t.Cleanup(srv.Close)
	c, err := NewCaller(Settings{
		Name: "atlas", Kind: "x", BaseURL: srv.URL, APIKey: key, WebhookSecrets: []string{secret, "sk"}, AnswerTimeout: 10 * time.Second,
	}.WithDefaults(), CallerOptions{})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	ex := c.Do(t.Context(), Call{Method: http.MethodPost, Path: "x", Header: http.Header{"Authorization": {"Bearer " + key}}, Body: []byte("{}")})
	require.NoError(t, ex.Err)
	require.JSONEq(t, `{"message":"no such key: Bearer [redacted]","hook":"[redacted]","risk":"sk"}`, string(ex.Body))
	require.Equal(t, "/login?key=[redacted]", ex.Location)
	require.True(t, ex.BodyComplete)
}
