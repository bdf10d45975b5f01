package providertest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/provider"
)

// Readings are what an adapter makes of the bytes a provider answers, for FuzzAnswers.
type Readings struct {
	Want  provider.Money                            // of every money call
	Money []func(provider.Exchange) provider.Answer // of answers to money calls
	Asked []func(raw []byte) provider.LookupAnswer  // of answers to questions
	Seeds []string                                  // bodies in the provider's dialect
}

// FuzzAnswers holds an adapter's readings to what the outcome table needs, whatever is
// answered: a success has all of its conditions, a failure is the provider's own word, and
// what is kept as evidence can be stored.
func FuzzAnswers(f *testing.F, r Readings) {
	for i := range len(r.Money) + len(r.Asked) {
		for _, body := range append(r.Seeds, ``, `{}`, `null`, `[]`, `"x"`, `{"id":`, `<html><h1>502 Bad Gateway</h1></html>`) {
			f.Add(uint8(i), 200, false, []byte(body))
			f.Add(uint8(i), 422, true, []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, status int, replayed bool, body []byte) {
		i := int(which) % (len(r.Money) + len(r.Asked))
		if i >= len(r.Money) {
			requireAskedSound(t, r.Asked[i-len(r.Money)](body))
			return
		}
		ex := provider.Exchange{Status: 100 + (status&0xffff)%500, HeaderWritten: true, WireSends: 1, BodyComplete: true, Body: body, Replayed: replayed}
		ans := r.Money[i](ex)
		requireMoneySound(t, ex, ans, provider.Classify(ex, ans, r.Want), r.Want)
	})
}

func requireMoneySound(t *testing.T, ex provider.Exchange, ans provider.Answer, c provider.Classification, want provider.Money) {
	t.Helper()
	requireStorable(t, ans.Object)
	switch o := ans.Object; c.Outcome {
	case provider.Succeeded:
		require.True(t, ex.Status/100 == 2 && ex.Status != 202 && json.Valid(ex.Body), "%d %q", ex.Status, ex.Body)
		require.True(t, o != nil && o.ID != "" && o.Outcome == provider.Succeeded && o.Money == want && !ans.Foreign, "%+v", ans)
	case provider.Failed:
		require.False(t, o != nil && o.Outcome == provider.Succeeded, "%+v", ans)
		require.False(t, ex.Status >= 500 && !ans.Declined && (o == nil || o.Outcome != provider.Failed), "%d %+v", ex.Status, ans)
	case provider.NotSent:
		t.Fatalf("it was sent: %+v", c)
	}
}

func requireAskedSound(t *testing.T, ans provider.LookupAnswer) {
	t.Helper()
	for _, o := range ans.Objects {
		require.NotEmpty(t, o.ID, "%+v", o)
		requireStorable(t, &o)
	}
	c := provider.ClassifyLookup(provider.Exchange{Status: 200, BodyComplete: true, HeaderWritten: true}, ans, true)
	if ans.Malformed || ans.DecodeErr != nil || ans.Ignored && len(ans.Objects) == 0 {
		require.Equal(t, provider.LookupNoAnswer, c.Verdict, "what cannot be read proves nothing: %+v", ans)
	}
}

// requireStorable checks an object whose word was understood: its evidence is JSON, and it
// names its charge. Its amount is what was said, however odd: it is compared, never used.
func requireStorable(t *testing.T, o *provider.Object) {
	t.Helper()
	if o == nil || o.Outcome == "" {
		return
	}
	require.True(t, len(o.Raw) == 0 || json.Valid(o.Raw), "%q", o.Raw)
	if charge := o.Child.Charge; charge != nil && o.ID != "" { // without an id nothing is decided
		require.NotEmpty(t, charge.ID, "%+v", o)
	}
}
