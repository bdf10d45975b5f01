package provider

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a lookup concludes from its questions.
func TestInquiry(t *testing.T) {
	t.Parallel()
	l := Unanswered()
	require.Equal(t, LookupNoAnswer, l.Verdict)
	require.Equal(t, ReasonNoWay, l.Reason)
	l.Asked(Exchange{Status: 404, Body: []byte(`{"client_secret":"pi_1_secret_x"}`)}, 2)
	l.Asked(Exchange{Status: 200}, 1)
	require.Equal(t, 3, l.Requests)
	require.Equal(t, 200, l.Exchange.Status)
	l.Note(ByID, LookupReading{Health: HealthOK, Reason: ReasonNotFound, Alert: AlertConfig})

	absent, gone := l, l
	absent.Conclude(true, false)
	require.Equal(t, LookupAbsent, absent.Verdict)
	require.Equal(t, ReasonNotFound, absent.Reason)
	gone.Conclude(true, true)
	require.Equal(t, LookupNoAnswer, gone.Verdict, "an id it gave us once is no absence")
	require.Equal(t, ReasonVanished, gone.Reason)
	unsure := l
	unsure.Conclude(false, true)
	require.Equal(t, LookupNoAnswer, unsure.Verdict)
	require.Equal(t, ReasonNotFound, unsure.Reason)

	l.Merge([]Object{{ID: "a"}, {ID: "b"}, {ID: "a"}})
	require.Len(t, l.Objects, 2)
	require.True(t, l.Holds("b"))
	l.Note(ByReference, LookupReading{Health: HealthFail, Reason: "http_503"})
	require.Equal(t, ByID, l.Way, "what was found stays found, whatever a later question's fate")
	require.Equal(t, AlertConfig, l.Alert)
	l.More = true
	l.Conclude(false, false)
	require.Equal(t, LookupFound, l.Verdict)
	require.False(t, l.More)
}

func TestForeignText(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"pi_1", "tr_a.b", "A-1~"} {
		require.True(t, PathSafe(id, 10), id)
	}
	for _, id := range []string{"", ".", "..", "a/b", `a\b`, "a?b", "a#b", "a%2f", "a b", "ü", strings.Repeat("a", 11)} {
		require.False(t, PathSafe(id, 10), id)
	}
	require.Equal(t, "üü", Clip("üüü", 2))
	require.Equal(t, "ü", Clip("ü", 2))
	whatever := func(string) bool { return true }
	for body, want := range map[string]string{
		`{"id":"a"}`: "a", `{"x":{"id":"b"},"id":"a","more":tru`: "a", `{"id":1}`: "", `{"x":"id"}`: "", `["id","a"]`: "", `{"id":"a`: "", ``: "",
	} {
		o := Hint([]byte(body), "id", whatever)
		if want == "" {
			require.Nil(t, o, body)
			continue
		}
		require.Equal(t, want, o.ID, body)
	}
	require.Nil(t, Hint([]byte(`{"id":"a"}`), "id", func(id string) bool { return id == "b" }))
}
