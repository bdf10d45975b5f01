package provider

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCanReplayNeedsKeys(t *testing.T) {
	t.Parallel()
	require.True(t, Capabilities{IdempotencyKeys: true, Ways: []Way{ReplayKey, WebhookOnly}}.CanReplay())
	require.False(t, Capabilities{Ways: []Way{ReplayKey}}.CanReplay(), "without keys it is a second charge")
	require.False(t, Capabilities{IdempotencyKeys: true, Ways: []Way{WebhookOnly}}.CanReplay())
}

func TestReplayedReadsWhatASecondSendProves(t *testing.T) {
	t.Parallel()
	want := Money{Amount: 4900, Currency: "EUR"}
	for _, c := range []struct {
		name    string
		status  int
		ans     Answer
		outcome Outcome
		health  Verdict
	}{
		{"a stored 500", 500, Answer{}, Unknown, HealthNeutral},
		{"a proxy's 502", 502, Answer{Malformed: true}, Unknown, HealthFail},
		{"no such endpoint", http.StatusNotFound, Answer{}, Unknown, HealthNeutral},
		{"not this method", http.StatusMethodNotAllowed, Answer{}, Unknown, HealthNeutral},
		{"gone", http.StatusGone, Answer{}, Unknown, HealthNeutral},
		{"not this media type", http.StatusUnsupportedMediaType, Answer{}, Unknown, HealthNeutral},
		{"a rejection", http.StatusUnprocessableEntity, Answer{}, Unknown, HealthNeutral},
		{"a bad request", http.StatusBadRequest, Answer{}, Unknown, HealthNeutral},
		{"a decline", http.StatusPaymentRequired, Answer{}, Failed, HealthOK},
		{"forbidden", http.StatusForbidden, Answer{}, NotExecuted, HealthNeutral},
		{"a success", 200, Answer{Object: &Object{ID: "p1", Outcome: Succeeded, Money: want}}, Succeeded, HealthOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ex := Exchange{WireSends: 1, HeaderWritten: true, Status: c.status, BodyComplete: true}
			got := Replayed(Charged{Classification: Classify(ex, c.ans, want), Exchange: ex, Object: c.ans.Object})
			require.Equal(t, c.outcome, got.Outcome, got.Reason)
			require.Equal(t, c.health, got.Health)
			if c.outcome == Unknown {
				require.Equal(t, NextReconcile, got.Next)
			}
		})
	}
}

// Refused now is not refused then, unless the provider says that it stored the answer.
func TestARejectedReplayIsNoProof(t *testing.T) {
	t.Parallel()
	read := func(stored bool) Charged {
		ex := Exchange{WireSends: 1, HeaderWritten: true, Status: http.StatusUnprocessableEntity, BodyComplete: true, Replayed: stored}
		return Replayed(Charged{Classification: Classify(ex, Answer{}, Money{Amount: 4900, Currency: "EUR"}), Exchange: ex})
	}
	now := read(false)
	require.Equal(t, Unknown, now.Outcome)
	require.Equal(t, ReasonReplayRejected, now.Reason)
	require.Equal(t, ReviewKeyReused, now.Review)
	then := read(true)
	require.Equal(t, Failed, then.Outcome)
	require.Equal(t, ReasonRejected, then.Reason)
	require.Empty(t, then.Review)
}
