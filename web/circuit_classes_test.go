package web

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

// tokenAdapter carries a token in its requests.
type tokenAdapter struct{ *fakeAdapter }

func (a tokenAdapter) Capabilities() provider.Capabilities {
	c := a.fakeAdapter.Capabilities()
	c.TokenCircuit = true
	return c
}

func tokenAtlas(c *Config) {
	c.Registry = provider.NewRegistry(tokenAdapter{&fakeAdapter{name: "atlas"}}, &fakeAdapter{name: "borealis"})
}

// A provider has the circuits of every provider, and what its own adapter declares beside
// them; asking about one changes nothing for the next.
func TestTheClassesOfAProvidersCircuits(t *testing.T) {
	t.Parallel()
	every := slices.Clone(circuitClasses)
	var c Config
	require.Equal(t, every, c.classesOf("atlas"), "a server without adapters")
	tokenAtlas(&c)
	for range 2 {
		require.Equal(t, append(slices.Clone(every), provider.ClassToken), c.classesOf("atlas"))
		require.Equal(t, every, c.classesOf("borealis"))
		require.Equal(t, every, c.classesOf("nobody"))
	}
	require.NotContains(t, every, provider.ClassToken)
	require.Equal(t, every, circuitClasses)
}

// The circuit of tokens is on the pages and in the API where a provider has one, and
// nowhere else.
func TestTheCircuitOfTokensIsShownWhereThereIsOne(t *testing.T) {
	t.Parallel()
	w := newWebtest(t, tokenAtlas)
	b := w.signedIn(store.RoleOperator)
	page := b.get("/providers").body
	require.Contains(t, page, "/providers/atlas/token")
	require.NotContains(t, page, "/providers/borealis/token")
	require.Equal(t, http.StatusOK, b.get("/providers/atlas/token/reset").StatusCode)
	require.Equal(t, http.StatusNotFound, b.get("/providers/borealis/token/reset").StatusCode)
	require.Equal(t, http.StatusNotFound, b.get("/providers/atlas/tokens/reset").StatusCode)
	w.circuits.set(breaker.Snapshot{Key: breaker.Key{Name: "atlas", Class: provider.ClassToken}, State: breaker.Open, Epoch: "3"})
	require.Contains(t, b.get("/providers/atlas/token/reset").body, "the requests for a token that every call to atlas carries")
}
