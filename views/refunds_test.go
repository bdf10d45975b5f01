package views

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fusebox/views/components"
	"fusebox/views/messages"
)

func refundFixture(status string, change func(*RefundRow)) RefundRow {
	r := RefundRow{ID: "r1", Seq: 1, Provider: "atlas", Status: status, Amount: 1900, Currency: "EUR", CreatedAt: noon.Add(-time.Hour),
		DecidedAt: noon.Add(-9 * time.Minute), SentAt: at(-10 * time.Minute)}
	if change != nil {
		change(&r)
	}
	return r
}

func TestRefundVerdictSaysWhatIsKnownAndNoMore(t *testing.T) {
	t.Parallel()
	back := "19.00\u00a0EUR went back"
	for name, c := range map[string]struct {
		r         RefundRow
		want, not []string
	}{
		"unknown, silence": {refundFixture("unknown", func(r *RefundRow) { r.NextAt = at(10 * time.Minute) }),
			[]string{"We sent the refund at 11:50:00 and got no answer.", "Do not refund again.", "Next check 12:10:00."}, []string{back, "No money"}},
		"unknown, cut":       {refundFixture("unknown", func(r *RefundRow) { r.Reason = "cut_after_send" }), []string{"the connection broke"}, []string{back, "No money"}},
		"unknown, 502":       {refundFixture("unknown", func(r *RefundRow) { r.HTTPStatus = 502 }), []string{"HTTP 502, which says nothing"}, []string{back, "No money"}},
		"unknown, 200":       {refundFixture("unknown", func(r *RefundRow) { r.HTTPStatus = 200 }), []string{"cannot be trusted"}, []string{back}},
		"unknown, mute":      {refundFixture("unknown", func(r *RefundRow) { r.NothingCanLook = true }), []string{"cannot be asked by machine"}, nil},
		"a word of tomorrow": {refundFixture("evaporated", nil), []string{"Do not refund again."}, []string{back, "No money"}},
		"pending": {refundFixture("pending", func(r *RefundRow) { r.SentAt, r.NextAt, r.NextWhy = nil, at(time.Minute), "circuit_open" }),
			[]string{"Nothing has reached atlas yet.", "It starts when atlas is back, about 12:01:00"}, []string{"We sent"}},
		"processing":          {refundFixture("processing", nil), []string{"took the refund at 11:50:00", "Do not refund again."}, []string{back}},
		"made":                {refundFixture("succeeded", nil), []string{"confirmed at 11:51:00 that " + back}, []string{"Do not"}},
		"made, by a person":   {refundFixture("succeeded", func(r *RefundRow) { r.Evidence, r.DecidedBy = "operator", "Olena" }), []string{"Olena marked it refunded"}, []string{"confirmed"}},
		"failed":              {refundFixture("failed", func(r *RefundRow) { r.Reason = "not_received" }), []string{"the provider never received it. No money went back"}, nil},
		"failed, by a person": {refundFixture("failed", func(r *RefundRow) { r.Evidence, r.DecidedBy = "operator", "Olena" }), []string{"Olena marked it failed"}, nil},
	} {
		v := RefundVerdictOf(speak(messages.English), c.r)
		all := strings.Join(append([]string{v.Text, v.Next}, v.Do...), "\n")
		for _, w := range c.want {
			require.Contains(t, all, w, name)
		}
		for _, w := range c.not {
			require.NotContains(t, all, w, name)
		}
	}
}

func TestCustomerSentenceOfARefundedPayment(t *testing.T) {
	t.Parallel()
	say := func(l messages.Lang, done, waiting, unknown int64) string {
		return CustomerSentence(speak(l), facts("succeeded", func(f *PaymentFacts) { f.Refunded, f.RefundWaiting, f.RefundUnknown = done, waiting, unknown }))
	}
	full := map[messages.Lang]string{messages.English: "in full", messages.French: "en totalité", messages.Spanish: "por completo", messages.Ukrainian: "повністю"}
	for l, words := range full {
		require.Contains(t, say(l, 4900, 0, 0), words)
		for _, open := range []string{say(l, 0, 0, 4900), say(l, 0, 4900, 0), say(l, 1000, 0, 0), say(l, 1000, 0, 900)} {
			require.NotContains(t, open, words, "no proof of that")
			require.Contains(t, open, "ORD-1")
		}
	}
	require.Contains(t, say(messages.English, 1000, 200, 700), "We have refunded 10.00\u00a0EUR of your payment of 49.00\u00a0EUR for order ORD-1.")
	require.Contains(t, say(messages.English, 1000, 200, 700), "Another refund of 9.00\u00a0EUR has been requested")
	require.Contains(t, say(messages.English, 0, 0, 4900), "has been requested")
	require.Contains(t, say(messages.English, 0, 0, 0), "went through")
}

func TestVerdictOfARefundedPayment(t *testing.T) {
	t.Parallel()
	v := VerdictOf(speak(messages.English), facts("succeeded", func(f *PaymentFacts) { f.Refunded, f.RefundUnknown, f.Disputed = 1000, 900, true }))
	require.Contains(t, v.Text, "atlas confirmed 49.00\u00a0EUR", "it stays paid")
	require.Equal(t, []string{"The customer’s bank disputes it: answer at the provider.", "Whether 9.00\u00a0EUR went back is unknown. Do not refund again.",
		"10.00\u00a0EUR of 49.00\u00a0EUR went back to the customer."}, v.Do)
}

func TestDisputeTone(t *testing.T) {
	t.Parallel()
	ctx := speak(messages.English)
	for want, d := range map[components.Tone][]DisputeView{
		components.ToneAct: {{State: "opened"}, {State: "opened", DueBy: at(100 * time.Hour)}},
		components.ToneBad: {{State: "opened", DueBy: at(time.Hour)}, {State: "opened", DueBy: at(-time.Hour)}, {State: "lost"}},
		components.ToneOK:  {{State: "won", DueBy: at(time.Hour)}},
	} {
		for _, x := range d {
			require.Equal(t, want, x.tone(ctx), "%+v", x)
		}
	}
}

// Lookups of two refunds are two stories; they are never folded into one.
func TestTimelineKeepsRefundsApart(t *testing.T) {
	t.Parallel()
	var moments []PaymentMoment
	for i := range 6 {
		moments = append(moments, PaymentMoment{At: noon.Add(time.Duration(i) * time.Second), Kind: "refund_lookup",
			Child: &ChildMoment{Seq: i/3 + 1, Amount: 100, Currency: "EUR", Status: "unknown"}})
	}
	items := timelineItems(speak(messages.English), moments)
	require.Len(t, items, 2)
	moved := PaymentMoment{At: noon, Kind: "refund_attempt_finished", Reason: "succeeded", Child: &ChildMoment{Seq: 1, Amount: 100, Currency: "EUR", Status: "succeeded", Moved: true}}
	items = timelineItems(speak(messages.English), []PaymentMoment{moved})
	require.Equal(t, []string{"Refund 1, 1.00\u00a0EUR, Refunded", "Why: the provider says refunded"}, items[0].Lines)
	require.Equal(t, components.ToneOK, items[0].Tone)
}
