package views

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fusebox/views/messages"
)

// claims are what a sentence may say about the money: that it was taken, or that it was
// not. Each language has its own words for it.
var claims = map[messages.Lang]struct{ taken, notTaken *regexp.Regexp }{
	messages.English:   {regexp.MustCompile(`went through`), regexp.MustCompile(`othing (was|has been) charged|has not been charged|nothing is charged until then`)},
	messages.French:    {regexp.MustCompile(`a bien été effectué`), regexp.MustCompile(`rien n’(a été|est) débité|pas encore été débité|n’a encore été débité`)},
	messages.Spanish:   {regexp.MustCompile(`se realizó correctamente`), regexp.MustCompile(`no se (cobró|cobra) nada|no se ha cobrado`)},
	messages.Ukrainian: {regexp.MustCompile(`пройшов`), regexp.MustCompile(`[Нн]ічого (ще )?не (списано|списується)|не списано\. Будь`)},
}

// paymentStates are all the states a payment can be found in, with what may be said.
var paymentStates = map[string]struct {
	f               PaymentFacts
	taken, notTaken bool
	money           int64 // that the sentence names; 0: the whole
	repay           bool  // may be told to try again
}{
	"pending":                 {f: facts("pending", func(f *PaymentFacts) { f.SentAt = nil }), notTaken: true},
	"pending, circuit open":   {f: facts("pending", func(f *PaymentFacts) { f.SentAt, f.NextAt, f.NextWhy = nil, at(0), "circuit_open" }), notTaken: true},
	"pending, turned away":    {f: facts("pending", func(f *PaymentFacts) { f.HTTPStatus = 429 }), notTaken: true},
	"processing":              {f: facts("processing", nil)},
	"authorised":              {f: facts("processing", func(f *PaymentFacts) { f.Reason, f.Authorised = "authorised", 4900 }), notTaken: true},
	"requires action":         {f: facts("requires_action", nil), notTaken: true},
	"unknown":                 {f: facts("unknown", nil)},
	"unknown, other amount":   {f: facts("unknown", func(f *PaymentFacts) { f.Review, f.TheirAmount = []string{"amount_mismatch"}, 490 })},
	"unknown, aged":           {f: facts("unknown", func(f *PaymentFacts) { f.Review = []string{"aged"} })},
	"paid":                    {f: facts("succeeded", nil), taken: true},
	"paid by a person":        {f: facts("succeeded", func(f *PaymentFacts) { f.Evidence = "operator" }), taken: true},
	"captured part":           {f: facts("succeeded", func(f *PaymentFacts) { f.Authorised, f.Captured = 4900, 3000 }), taken: true, money: 3000},
	"duplicate":               {f: facts("succeeded", func(f *PaymentFacts) { f.Review = []string{"duplicate_at_provider"} }), taken: true},
	"paid, contradicted":      {f: facts("succeeded", func(f *PaymentFacts) { f.Review = []string{"contradiction"} })},
	"refunded":                {f: facts("succeeded", func(f *PaymentFacts) { f.Refunded = 4900 })},
	"captured part, refunded": {f: facts("succeeded", func(f *PaymentFacts) { f.Captured, f.Refunded = 3000, 3000 }), money: 3000},
	"refunded part":           {f: facts("succeeded", func(f *PaymentFacts) { f.Refunded = 900 }), money: 900},
	"refunding":               {f: facts("succeeded", func(f *PaymentFacts) { f.RefundWaiting = 900 }), money: 900},
	"refund unknown":          {f: facts("succeeded", func(f *PaymentFacts) { f.RefundUnknown = 900 }), money: 900},
	"disputed":                {f: facts("succeeded", func(f *PaymentFacts) { f.Disputed = true })},
	"declined":                {f: facts("failed", func(f *PaymentFacts) { f.Reason = "declined" }), notTaken: true, repay: true},
	"never received":          {f: facts("failed", func(f *PaymentFacts) { f.Reason = "not_received" }), notTaken: true, repay: true},
	"released":                {f: facts("failed", func(f *PaymentFacts) { f.Authorised = 4900 }), notTaken: true},
	"failed, contradicted":    {f: facts("failed", func(f *PaymentFacts) { f.Review = []string{"contradiction"} })},
	"a status of tomorrow":    {f: facts("liquefied", nil)},
}

func TestCustomerSentenceIsTrueInEveryStateAndLanguage(t *testing.T) {
	t.Parallel()
	again := map[messages.Lang]string{messages.English: "try again", messages.French: "réessayer", messages.Spanish: "intentarlo de nuevo", messages.Ukrainian: "спробувати ще раз"}
	for name, c := range paymentStates {
		said := map[string]bool{}
		for _, l := range messages.Langs {
			ctx := speak(l)
			say := CustomerSentence(ctx, c.f)
			amount := c.money
			if amount == 0 {
				amount = 4900
			}
			require.Contains(t, say, "ORD-1", "%s in %s", name, l)
			require.Contains(t, say, Money(ctx, amount, "EUR"), "%s in %s: money as that language writes it", name, l)
			require.Equal(t, c.taken, claims[l].taken.MatchString(say), "%s in %s: %s", name, l, say)
			require.Equal(t, c.notTaken, claims[l].notTaken.MatchString(say), "%s in %s: %s", name, l, say)
			require.Equal(t, c.repay, strings.Contains(say, again[l]), "%s in %s: %s", name, l, say)
			require.NotContains(t, say, "<no value>")
			require.NotContains(t, say, c.f.Provider, "the customer does not know the provider")
			said[say] = true
		}
		require.Len(t, said, len(messages.Langs), name)
	}
}

func TestVerdictWarnsWhereChargingAgainIsNotSafe(t *testing.T) {
	t.Parallel()
	for name, c := range paymentStates {
		for _, l := range messages.Langs {
			ctx := speak(l)
			v := VerdictOf(ctx, c.f)
			do := strings.Join(v.Do, "\n")
			require.NotEmpty(t, v.Word+v.Text, name)
			require.NotContains(t, v.Text+do+v.Next, "<no value>", name)
			require.Equal(t, c.repay || name == "released", strings.Contains(do, T(ctx, "verdict.do.new_payment")), "%s in %s: %s", name, l, do)
			if c.f.Status == "unknown" {
				require.Contains(t, do, T(ctx, "verdict.do.no_recharge"))
				require.Contains(t, do, T(ctx, "verdict.do.not_failed"))
			}
		}
	}
	ctx := speak(messages.English)
	for name, want := range map[string]string{"disputed": "Disputed", "refunded": "Refunded", "refunded part": "Paid, part refunded",
		"captured part, refunded": "Refunded", "authorised": "Held, not taken", "pending": "Not sent yet", "captured part": "Paid"} {
		require.Equal(t, want, VerdictOf(ctx, paymentStates[name].f).Word, name)
	}
	part := VerdictOf(ctx, paymentStates["captured part"].f)
	require.Equal(t, "atlas confirmed 30.00\u00a0EUR at 11:51:00, a part of the 49.00\u00a0EUR asked for.", part.Text)
	require.Equal(t, []string{"A person has to look: Duplicate at provider.", "Only the extra charge has to go back; leave this one."}, VerdictOf(ctx, paymentStates["duplicate"].f).Do)
	require.Equal(t, "Do not charge again.", VerdictOf(ctx, paymentStates["failed, contradicted"].f).Do[0])
}
