package provider

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A request's URL is what parsing its text gives, though it is not parsed again, and its
// body cannot be sent twice by net/http.
func TestRequestIsWhatItsTextSays(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"http://127.0.0.1:8080", "https://api.example.com/v1", "https://api.example.com:/v1/", "http://[::1]:80/a%2Fb"} {
		c, err := NewCaller(Settings{Name: "atlas", Kind: "x", BaseURL: base, APIKey: "k", WebhookSecrets: []string{"s"}, AnswerTimeout: time.Second}.WithDefaults(), CallerOptions{})
		require.NoError(t, err)
		for _, path := range []string{"payments", "", "payments/" + url.PathEscape("pay 1"), "payments/" + url.PathEscape("a/b?c#d%"), "payments/é"} {
			for _, query := range []url.Values{nil, {"reference": {"a b&c"}, "limit": {"1"}}} {
				req, err := c.request(t.Context(), Call{Method: http.MethodPost, Path: path, Query: query, Body: []byte("{}")})
				require.NoError(t, err)
				want, err := http.NewRequest(http.MethodPost, req.URL.String(), http.NoBody)
				require.NoError(t, err)
				require.Equal(t, want.URL.String(), req.URL.String())
				require.Equal(t, want.URL.RequestURI(), req.URL.RequestURI())
				require.Equal(t, want.Host, req.Host)
				require.Nil(t, req.GetBody)
				require.EqualValues(t, 2, req.ContentLength)
			}
		}
	}
}

func TestHeadersAreSentUnderTheirNames(t *testing.T) {
	t.Parallel()
	c, err := NewCaller(Settings{Name: "atlas", Kind: "x", BaseURL: "http://127.0.0.1:1", APIKey: "k", WebhookSecrets: []string{"s"}, AnswerTimeout: time.Second}.WithDefaults(), CallerOptions{})
	require.NoError(t, err)
	for _, h := range []http.Header{nil, {}, {"Accept": {"a"}}, {"accept": {"a"}}, {"idempotency-key": {"k"}, "Accept": {"a", "b"}}} {
		req, err := c.request(t.Context(), Call{Method: http.MethodGet, Header: h})
		require.NoError(t, err)
		require.NotNil(t, req.Header)
		require.Len(t, req.Header, len(h))
		require.Nil(t, req.Body)
		for k, vs := range h {
			require.Equal(t, vs, req.Header.Values(k))
		}
	}
	for _, bad := range []string{"a\r\nX: y", "é", "\x7f"} {
		_, err := c.request(t.Context(), Call{Method: http.MethodGet, Header: http.Header{"Accept": {"a"}, "Idempotency-Key": {bad}}})
		require.Error(t, err, bad)
	}
}
