package web

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

// wordy is a provider that wants to read something.
type wordy struct{ *fakeAdapter }

func (wordy) Acknowledgement() string { return "[accepted]" }

// What is stored is answered in the provider's words; what is refused never is.
func TestWebhookIsAnsweredInTheProvidersWords(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, func(c *Config) { c.Registry = provider.NewRegistry(wordy{&fakeAdapter{name: "atlas"}}) })
	for range 2 { // a repetition is as good
		res := w.deliver(paidEvent, w.clock.now())
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.Equal(t, "[accepted]", res.body)
		require.Contains(t, res.Header.Get("Content-Type"), "text/plain")
	}
	res := w.deliver(paidEvent, w.clock.now().Add(-time.Hour))
	require.Equal(t, http.StatusBadRequest, res.StatusCode)
	require.NotContains(t, res.body, "accepted")
}
