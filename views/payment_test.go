package views

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"
	"github.com/stretchr/testify/require"

	"fusebox/views/messages"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func speak(l messages.Lang) context.Context {
	return WithLocale(context.Background(), Locale{Lang: l, Zone: time.UTC, Now: noon})
}

func at(d time.Duration) *time.Time { t := noon.Add(d); return &t }

func facts(status string, change func(*PaymentFacts)) PaymentFacts {
	f := PaymentFacts{ID: "p1", OrderRef: "ORD-1", Provider: "atlas", Status: status, Amount: 4900, Currency: "EUR",
		SentAt: at(-10 * time.Minute), DecidedAt: noon.Add(-9 * time.Minute)}
	if change != nil {
		change(&f)
	}
	return f
}

func TestVerdictSaysWhatIsKnownAndNoMore(t *testing.T) {
	t.Parallel()
	money := "49.00\u00a0EUR"
	for name, c := range map[string]struct {
		f    PaymentFacts
		want []string // in text, instructions and next
		not  []string
	}{
		"unknown, silence": {
			facts("unknown", func(f *PaymentFacts) { f.NextAt, f.Reason = at(10*time.Minute), "timeout_after_send" }),
			[]string{"We sent the charge at 11:50:00 and got no answer.", "Do not charge again.", "Do not tell the customer it failed.", "Next check 12:10:00."},
			[]string{"No money moved", "declined"},
		},
		"unknown, cut":      {facts("unknown", func(f *PaymentFacts) { f.Reason = "cut_after_send" }), []string{"the connection broke before an answer"}, []string{"No money moved"}},
		"unknown, 502":      {facts("unknown", func(f *PaymentFacts) { f.HTTPStatus = 502 }), []string{"HTTP 502, which says nothing about the money"}, []string{"No money moved"}},
		"unknown, 200 junk": {facts("unknown", func(f *PaymentFacts) { f.HTTPStatus = 200 }), []string{"an answer that cannot be trusted"}, []string{"No money moved"}},
		"unknown, other amount": {
			facts("unknown", func(f *PaymentFacts) { f.TheirAmount, f.TheirCurrency = 490, "EUR" }),
			[]string{"atlas reports 4.90\u00a0EUR; we asked for " + money}, []string{"confirmed"},
		},
		"unknown, nobody to ask": {facts("unknown", func(f *PaymentFacts) { f.NothingCanLook = true }), []string{"cannot be asked by machine"}, []string{"Next check"}},
		"unknown, check due":     {facts("unknown", func(f *PaymentFacts) { f.NextAt = at(-time.Second) }), []string{"A check is due now."}, nil},
		"a status of tomorrow":   {facts("liquefied", nil), []string{"Do not charge again."}, []string{"No money moved", "confirmed"}},
		"pending, circuit": {
			facts("pending", func(f *PaymentFacts) { f.SentAt, f.NextAt, f.NextWhy = nil, at(5*time.Minute), "circuit_open" }),
			[]string{"Nothing has reached atlas; nothing was charged.", "It starts when atlas is back, about 12:05:00"}, []string{"We sent"},
		},
		"pending, throttled":   {facts("pending", func(f *PaymentFacts) { f.NextAt, f.NextWhy = at(time.Minute), "throttled" }), []string{"slow down until 12:01:00"}, nil},
		"pending, paused":      {facts("pending", func(f *PaymentFacts) { f.NextWhy = "paused" }), []string{"paused after a configuration alarm"}, nil},
		"pending, retry":       {facts("pending", func(f *PaymentFacts) { f.NextAt, f.NextWhy = at(time.Minute), "retry" }), []string{"did not leave this machine; it is tried again at 12:01:00"}, nil},
		"pending, queued":      {facts("pending", func(f *PaymentFacts) { f.NextAt, f.NextWhy = at(time.Minute), "charge" }), []string{"Next try 12:01:00."}, nil},
		"processing":           {facts("processing", nil), []string{"took the charge at 11:50:00 and has not decided", "Do not charge again."}, nil},
		"requires action":      {facts("requires_action", nil), []string{"waits for the customer", "do not start another payment"}, nil},
		"paid":                 {facts("succeeded", nil), []string{"atlas confirmed " + money + " at 11:51:00.", "Nothing to do."}, []string{"Do not"}},
		"paid, in review":      {facts("succeeded", func(f *PaymentFacts) { f.Review = []string{"duplicate_at_provider"} }), []string{"confirmed"}, []string{"Nothing to do"}},
		"paid by a person":     {facts("succeeded", func(f *PaymentFacts) { f.Evidence, f.DecidedBy = "operator", "Olena" }), []string{"Olena marked it paid at 11:51:00"}, []string{"atlas confirmed"}},
		"declined":             {facts("failed", func(f *PaymentFacts) { f.Reason = "declined" }), []string{"atlas declined the charge", "No money moved.", "it is a new payment"}, nil},
		"declined with a code": {facts("failed", func(f *PaymentFacts) { f.Reason, f.HTTPStatus = "insufficient_funds", 402 }), []string{"declined the charge at 11:51:00: insufficient funds. No money moved."}, nil},
		"rejected":             {facts("failed", func(f *PaymentFacts) { f.Reason = "rejected" }), []string{"did not accept the request"}, nil},
		"never received":       {facts("failed", func(f *PaymentFacts) { f.Reason = "not_received" }), []string{"asked twice", "never reached it"}, nil},
		"refused here":         {facts("failed", func(f *PaymentFacts) { f.SentAt = nil }), []string{"before anything was sent"}, nil},
		"failed by a person":   {facts("failed", func(f *PaymentFacts) { f.Evidence, f.DecidedBy = "operator", "Olena" }), []string{"Olena marked it failed"}, nil},
		"failed by an event":   {facts("failed", func(f *PaymentFacts) { f.Reason = "expired" }), []string{"answered at 11:51:00 that it was not executed: expired."}, nil},
	} {
		v := VerdictOf(speak(messages.English), c.f)
		all := strings.Join(append([]string{v.Text, v.Next}, v.Do...), "\n")
		for _, w := range c.want {
			require.Contains(t, all, w, name)
		}
		for _, w := range c.not {
			require.NotContains(t, all, w, name)
		}
	}
}

func TestCustomerSentenceNeverSaysFailedWithoutProof(t *testing.T) {
	t.Parallel()
	failed := map[messages.Lang]string{messages.English: "nothing was charged", messages.French: "rien n’a été débité",
		messages.Spanish: "no se cobró nada", messages.Ukrainian: "нічого не списано"}
	for l, words := range failed {
		for _, status := range []string{"unknown", "pending", "processing", "requires_action", "succeeded", "liquefied"} {
			say := CustomerSentence(speak(l), facts(status, nil))
			require.NotContains(t, say, words, "%s in %s", status, l)
			require.Contains(t, say, "ORD-1")
		}
		for _, reason := range []string{"declined", "not_received"} {
			require.Contains(t, CustomerSentence(speak(l), facts("failed", func(f *PaymentFacts) { f.Reason = reason })), words)
		}
	}
}

func TestTimelineShowsSilencesAndWhatIsNext(t *testing.T) {
	t.Parallel()
	items := timelineItems(speak(messages.English), []PaymentMoment{
		{ID: "1", At: noon, Kind: "created", WhoKind: "client", Who: "shop", To: "pending"},
		{ID: "2", At: noon.Add(time.Second), Kind: "attempt_finished", WhoKind: "system", From: "pending", To: "unknown", Reason: "gateway_502"},
		{ID: "3", At: noon.Add(5 * time.Minute), Kind: "asked", WhoKind: "user", Who: "Olena", From: "unknown", To: "unknown"},
		{ID: "4", At: noon.Add(time.Hour), Future: true, FutureWhat: "check"},
	})
	require.Equal(t, []string{"", "", "4\u00a0min without news", ""}, []string{items[0].Gap, items[1].Gap, items[2].Gap, items[3].Gap})
	require.Equal(t, []string{"shop (API)", "Fusebox", "Olena"}, []string{items[0].Who, items[1].Who, items[2].Who})
	require.Equal(t, "unknown", items[1].Status)
	require.Equal(t, []string{"Why: HTTP 502 from something in front of the provider"}, items[1].Lines)
	require.Empty(t, items[2].Status, "nothing moved")
	require.True(t, items[3].Future)
	require.Equal(t, "Next: ask the provider", items[3].Title)
}

func TestTimelineFoldsWhatRepeatsAndMovesNothing(t *testing.T) {
	t.Parallel()
	var moments []PaymentMoment
	add := func(kind, to, reason string) {
		n := len(moments)
		moments = append(moments, PaymentMoment{ID: strconv.Itoa(n), At: noon.Add(time.Duration(n) * time.Second), Kind: kind,
			From: "unknown", To: to, Reason: reason})
	}
	for range 5 {
		add("lookup", "unknown", "not_found")
	}
	add("lookup", "succeeded", "found")
	add("lookup", "unknown", "not_found")
	add("lookup", "unknown", "not_found")
	items := timelineItems(speak(messages.English), moments)
	require.Len(t, items, 4, "five as one, the one that moved, and two that are not many")
	require.Equal(t, []string{"5 times, until 12:00:04", "Last: not found at the provider"}, items[0].Lines)
	require.Equal(t, 5, strings.Count(html(t, speak(messages.English), items[0].Details), "<li>"))
	require.Equal(t, "succeeded", items[1].Status)
}

func TestReplayWordsCountDown(t *testing.T) {
	t.Parallel()
	ctx := speak(messages.English)
	require.Equal(t, "3\u00a0h left", replayWords(ctx, ReplayKey{Until: noon.Add(3*time.Hour + time.Minute)}))
	require.Equal(t, "expired 2\u00a0h ago: automatic resend disabled", replayWords(ctx, ReplayKey{Until: noon.Add(-2 * time.Hour)}))
	require.Contains(t, replayWords(ctx, ReplayKey{Until: noon}), "expired", "the last instant is over")
}

func html(t *testing.T, ctx context.Context, c templ.Component) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, c.Render(ctx, &b))
	return b.String()
}

func TestPaymentPageShowsTheMismatchSideBySide(t *testing.T) {
	t.Parallel()
	f := facts("unknown", func(f *PaymentFacts) {
		f.Review, f.TheirAmount, f.TheirCurrency = []string{"amount_mismatch"}, 490, "EUR"
	})
	out := html(t, speak(messages.English), PaymentLive(PaymentDetail{Facts: f, Objects: []ObjectView{
		{ID: "pay_1", Status: "succeeded", Outcome: "succeeded", Amount: 490, Currency: "EUR"},
		{ID: "pay_2", Status: "<b>settled</b>", Amount: 4900, Currency: "EUR"}}}))
	require.Equal(t, 1, strings.Count(out, ">differs<"))
	require.Contains(t, out, "not understood")
	require.Contains(t, out, "&lt;b&gt;settled&lt;/b&gt;")
	require.Contains(t, out, "The wallet was not credited.")
}

func TestPaymentPageSaysUnknownInFourLanguages(t *testing.T) {
	t.Parallel()
	for l, words := range map[messages.Lang]string{messages.English: "<strong>Unknown.</strong>", messages.French: "<strong>Inconnu.</strong>",
		messages.Spanish: "<strong>Desconocido.</strong>", messages.Ukrainian: "<strong>Невідомо.</strong>"} {
		out := html(t, speak(l), PaymentLive(PaymentDetail{Facts: facts("unknown", nil)}))
		require.Contains(t, out, words)
		for _, other := range messages.Langs {
			if other != l {
				require.Contains(t, out, `<span lang="`+string(other)+`">`, "the customer may read %s", other)
			}
		}
	}
}

func TestDrainAndQueueWords(t *testing.T) {
	t.Parallel()
	ctx := speak(messages.English)
	require.Equal(t, "empty", drainWords(ctx, QueueDepthRow{}))
	require.Equal(t, "not moving", drainWords(ctx, QueueDepthRow{Ready: 1}))
	require.Equal(t, "about 3\u00a0min", drainWords(ctx, QueueDepthRow{Ready: 1, Drain: 3 * time.Minute, DrainOK: true}))
	require.Equal(t, "about 1\u00a0s", drainWords(ctx, QueueDepthRow{Ready: 1, Drain: time.Millisecond, DrainOK: true}))
	for queue, want := range map[string]string{"default": "Events, sweeps, alerts", "charge_atlas": "atlas: charges",
		"status_atlas": "atlas: lookups and reconciliation", "other": "other (not configured here)"} {
		require.Equal(t, want, queueLabel(ctx, QueueDepthRow{Queue: queue, Known: queue != "other"}))
	}
	require.Equal(t, "charge_gone (not configured here)", queueLabel(ctx, QueueDepthRow{Queue: "charge_gone"}))
}

func TestAuditTargetsLeadToTheirPages(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]string{"payment:p1": "/payments/p1", "wallet:w1": "/wallets/w1", "webhook:7": "/webhook-log/7",
		"webhook:x": "", "circuit:atlas/charge": "", "payment:../x": "/payments/..%2Fx"} {
		require.Equal(t, want, targetPath(target), target)
	}
}
