package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// truth is the table of money-rules §2 written out: from, to, evidence, proof. What is
// not here is refused.
const truth = `
pending processing answer,lookup,event,sync
pending requires_action answer,lookup,event,sync
pending succeeded answer,lookup,event,sync
pending failed answer,lookup,event,sync,refusal
pending unknown answer,lookup,event,sync,deadline
processing requires_action answer,lookup,event,sync
processing succeeded answer,lookup,event,sync,proof:operator
processing failed answer,lookup,event,sync,proof:operator
processing unknown answer,lookup,event,sync
requires_action processing answer,lookup,event,sync
requires_action succeeded answer,lookup,event,sync
requires_action failed answer,lookup,event,sync
requires_action unknown answer,lookup,event,sync
unknown processing answer,lookup,event,sync
unknown requires_action answer,lookup,event,sync
unknown succeeded answer,lookup,event,sync,operator
unknown failed answer,lookup,event,sync,operator
failed succeeded proof:answer,proof:lookup,proof:event,proof:sync`

var everyEvidence = []Evidence{ByAnswer, ByLookup, ByEvent, BySync, ByOperator, ByRefusal, ByDeadline, "rumour"}

func TestTruthTableOfTransitions(t *testing.T) {
	t.Parallel()
	want := map[string]bool{}
	for line := range strings.Lines(strings.TrimSpace(truth)) {
		f := strings.Fields(line)
		for on := range strings.SplitSeq(f[2], ",") {
			if on, ok := strings.CutPrefix(on, "proof:"); ok {
				want[fmt.Sprint(f[0], f[1], on, true)] = true
				continue
			}
			want[fmt.Sprint(f[0], f[1], on, true)] = true
			want[fmt.Sprint(f[0], f[1], on, false)] = true
		}
	}
	rows := 0
	for _, from := range append(slices.Clone(Statuses), "nonsense") {
		for _, to := range append(slices.Clone(Statuses), "nonsense") {
			for _, on := range everyEvidence {
				for _, proof := range []bool{false, true} {
					ok := want[fmt.Sprint(from, to, on, proof)]
					require.Equal(t, ok, allowed(from, to, on, proof), "%s to %s on %s, proof %v", from, to, on, proof)
					err := mayBecome(from, to, on, proof)
					require.Equal(t, !ok, errors.Is(err, ErrNotAllowed))
					require.Equal(t, ok, slices.Contains(sources(to, on, proof), string(from)) && from != "nonsense")
					rows++
				}
			}
		}
	}
	require.Equal(t, 7*7*8*2, rows)
}

func TestRulesNoTableMayBreak(t *testing.T) {
	t.Parallel()
	for _, to := range Statuses {
		for _, on := range everyEvidence {
			for _, proof := range []bool{false, true} {
				require.False(t, allowed(Succeeded, to, on, proof), "succeeded never leaves")
				require.False(t, allowed(to, Pending, on, proof), "nothing returns to pending")
				require.False(t, allowed(to, to, on, proof), "staying is no transition")
			}
		}
		require.False(t, allowed(to, Failed, ByDeadline, true), "a timer never fails a payment")
		require.False(t, allowed(Failed, to, ByOperator, true), "a person's word is no proof of money")
	}
	require.False(t, allowed(Failed, Succeeded, ByEvent, false))
}
