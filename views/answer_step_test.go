package views_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/views"
)

func TestTheOneSafeNextStep(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 15, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *time.Time { v := now.Add(d); return &v }
	paid, less, failed, open, odd := views.StepObject{Outcome: "succeeded", Same: true}, views.StepObject{Outcome: "succeeded"},
		views.StepObject{Outcome: "failed", Same: true}, views.StepObject{Outcome: "processing", Same: true}, views.StepObject{}
	for name, c := range map[string]struct {
		f    views.StepFacts
		kind views.StepKind
		why  string
	}{
		"never asked":             {views.StepFacts{CanAsk: true}, views.StepAsk, "never"},
		"asked long ago":          {views.StepFacts{CanAsk: true, AskedAt: at(-time.Hour)}, views.StepAsk, "again"},
		"asked just now":          {views.StepFacts{CanAsk: true, AskedAt: at(-time.Second)}, views.StepWait, "just_asked"},
		"we ask in a moment":      {views.StepFacts{CanAsk: true, NextAt: at(time.Minute)}, views.StepWait, "soon"},
		"we should have asked":    {views.StepFacts{CanAsk: true, NextAt: at(-time.Minute)}, views.StepAsk, "never"},
		"the key goes out again":  {views.StepFacts{CanAsk: true, Replays: true}, views.StepAsk, "replay"},
		"too early for absence":   {views.StepFacts{CanAsk: true, Absent: 2, Horizon: at(time.Minute)}, views.StepWait, "horizon"},
		"absent twice":            {views.StepFacts{CanAsk: true, Absent: 2, Horizon: at(-time.Minute)}, views.StepFailed, "absent"},
		"absent once":             {views.StepFacts{CanAsk: true, Absent: 1, Horizon: at(-time.Minute), AskedAt: at(-time.Hour)}, views.StepAsk, "again"},
		"nobody can be asked":     {views.StepFacts{}, views.StepLook, "no_way"},
		"an event may come":       {views.StepFacts{NextAt: at(time.Hour)}, views.StepWait, "event"},
		"it says paid":            {views.StepFacts{CanAsk: true, Objects: []views.StepObject{paid}}, views.StepAsk, "says_paid"},
		"only it said paid":       {views.StepFacts{Objects: []views.StepObject{failed, paid}}, views.StepPaid, "says_paid_only"},
		"paid another amount":     {views.StepFacts{CanAsk: true, Objects: []views.StepObject{less}}, views.StepLook, "amount"},
		"paid twice":              {views.StepFacts{CanAsk: true, Objects: []views.StepObject{paid, less}}, views.StepLook, "twice"},
		"it says failed":          {views.StepFacts{CanAsk: true, Objects: []views.StepObject{failed}}, views.StepAsk, "says_failed"},
		"only it said failed":     {views.StepFacts{Objects: []views.StepObject{failed}}, views.StepFailed, "says_failed_only"},
		"failed, and one is open": {views.StepFacts{Objects: []views.StepObject{failed, open}}, views.StepLook, "no_way"},
		"a word nobody knows":     {views.StepFacts{Objects: []views.StepObject{failed, odd}}, views.StepLook, "unread"},
		"proposed":                {views.StepFacts{Proposed: true, CanAsk: true}, views.StepSecond, "second"},
		"paid, nothing open":      {views.StepFacts{Status: "succeeded"}, views.StepNothing, "nothing"},
		"paid, aged":              {views.StepFacts{Status: "succeeded", Review: []string{"aged"}, Objects: []views.StepObject{paid}}, views.StepSettle, "settle"},
		"paid, they say failed":   {views.StepFacts{Status: "succeeded", Review: []string{"contradiction"}}, views.StepLook, "contradiction"},
		"failed, they say paid":   {views.StepFacts{Status: "failed", Review: []string{"aged"}, Objects: []views.StepObject{paid}}, views.StepLook, "contradiction"},
		"paid once too often":     {views.StepFacts{Status: "succeeded", Review: []string{"duplicate_at_provider"}}, views.StepLook, "twice"},
		"paid, other amount":      {views.StepFacts{Status: "succeeded", Review: []string{"amount_mismatch"}}, views.StepLook, "amount"},
		"still at it":             {views.StepFacts{Status: "processing", Review: []string{"aged"}, CanAsk: true}, views.StepAsk, "open"},
	} {
		if c.f.Now = now; c.f.Status == "" {
			c.f.Status = "unknown"
		}
		got := views.NextStepOf(c.f)
		require.Equal(t, c.kind, got.Kind, name)
		require.Equal(t, "answer.why."+c.why, got.Why, name)
		require.Equal(t, c.kind == views.StepWait, got.Until.After(now), name)
	}
}
