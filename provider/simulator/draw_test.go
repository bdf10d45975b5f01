package simulator

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDrawsAreSteadyAndEven(t *testing.T) {
	t.Parallel()
	const n = 20000
	var sum float64
	differ := 0
	for i := range n {
		ref := fmt.Sprintf("0190-%06d", i) // neighbours, as time-ordered ids are
		u := unit(1, "charge", ref)
		require.True(t, u >= 0 && u < 1)
		require.Equal(t, u, unit(1, "charge", ref))
		if u != unit(2, "charge", ref) && u != unit(1, "webhook", ref) {
			differ++
		}
		sum += u
	}
	require.InDelta(t, 0.5, sum/n, 0.01)
	require.Equal(t, n, differ)
	require.NotEqual(t, unit(1, "a", "b"), unit(1, "ab", ""))
}

// Every fault comes about as often as its rate says, and none at rate 0.
func TestRatesHold(t *testing.T) {
	t.Parallel()
	f := EveryFault()
	const n = 40000
	got := map[Fault]int{}
	for i := range n {
		s := subject{reference: fmt.Sprint("p", i), amount: 4900}
		got[f.chargeFault(3, s, 1)]++
		for _, in := range catalogue {
			if in.Kind != KindCharge && f.happens(3, in.Name, s, "succeeded", 1) {
				got[in.Name]++
			}
		}
	}
	for _, in := range catalogue {
		rate := f.Rates[in.Name]
		slack := 5 * math.Sqrt(n*rate*(1-rate)) // five standard deviations
		require.InDelta(t, n*rate, got[in.Name], slack+0.5, in.Name)
	}
	require.Greater(t, got[""], n/2, "mostly fine")
}

// A retry of the same payment does not draw again; at rate 1 there is no escape.
func TestDrawHitsFirstRequestOnly(t *testing.T) {
	t.Parallel()
	half := Faults{Rates: map[Fault]float64{Hang: 0.9}}
	hit := 0
	for i := range 100 {
		s := subject{reference: fmt.Sprint("p", i)}
		if half.chargeFault(1, s, 1) == Hang {
			hit++
		}
		require.Empty(t, half.chargeFault(1, s, 2))
	}
	require.Greater(t, hit, 70)
	always := Faults{Rates: map[Fault]float64{Hang: 1}}
	require.Equal(t, Hang, always.chargeFault(1, subject{reference: "p"}, 99))
}

func TestPicks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		orderRef string
		amount   int64
		want     picks
	}{
		{"", 4900, nil},
		{"order-1", 66600, nil},
		{"order-1", 66699, nil},
		{"", 66601, picks{ChargedThenSilent: 0}},
		{"", 66664, picks{LookupError: 0}},
		{"fault:hang", 1, picks{Hang: 0}},
		{"A-1 fault:hang*2,webhook_late and more", 1, picks{Hang: 2, WebhookLate: 0}},
		{"fault:hang fault:slow", 1, picks{Hang: 0, Slow: 0}},
		{"fault:none", 1, picks{}},
		{"fault:nonsense*x,", 1, picks{}},
		{"fault:decline", 66641, picks{Decline: 0, WebhookEarly: 0}},
	} {
		require.Equal(t, c.want, picksOf(c.orderRef, c.amount), c.orderRef)
	}
}

// A pick replaces the draws of its payment altogether.
func TestPickSwitchesDrawsOff(t *testing.T) {
	t.Parallel()
	f := Faults{Rates: map[Fault]float64{Hang: 1, WebhookMissing: 1}}
	s := subject{reference: "p", orderRef: "fault:none"}
	require.Empty(t, f.chargeFault(1, s, 1))
	require.False(t, f.happens(1, WebhookMissing, s, "", 1))
	s.orderRef = "fault:slow*2"
	require.Equal(t, Slow, f.chargeFault(1, s, 1))
	require.Equal(t, Slow, f.chargeFault(1, s, 2))
	require.Empty(t, f.chargeFault(1, s, 3))
}

func TestCatalogue(t *testing.T) {
	t.Parallel()
	names, codes := map[Fault]bool{}, map[int64]bool{}
	for _, in := range Catalogue() {
		require.False(t, names[in.Name] || codes[in.Code], in.Name)
		names[in.Name], codes[in.Code] = true, true
		require.True(t, in.Code > 0 && in.Code < 100)
		require.NotEmpty(t, in.Text)
		require.Regexp(t, `^[a-z0-9_]+$`, string(in.Name))
	}
}

func TestPresets(t *testing.T) {
	t.Parallel()
	require.Empty(t, Healthy().Rates)
	settling, every := Settling(), EveryFault()
	require.NoError(t, every.Validate())
	for _, in := range catalogue {
		person := in.Name == DoubleObject || in.Name == AmountAltered
		repair := in.Name == Unauthorized401 || in.Name == Forbidden403
		require.Equal(t, !person && !repair, settling.Rates[in.Name] > 0, in.Name)
		require.Equal(t, !repair, every.Rates[in.Name] > 0, in.Name)
	}
	for name := range presets {
		f, ok := Preset(name)
		require.True(t, ok)
		require.NoError(t, f.Validate())
	}
	_, ok := Preset("chaos")
	require.False(t, ok)
	require.Equal(t, OutageRefuse, InOutage(OutageRefuse).Outage)
}

func TestFaultsAreValues(t *testing.T) {
	t.Parallel()
	f := Healthy()
	g := f.With(Hang, 0.5)
	require.Empty(t, f.Rates)
	require.Empty(t, g.Without(Hang).Rates)
	require.Equal(t, 0.5, g.Rates[Hang])
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for field, f := range map[string]Faults{
		"rates.oops":    {Rates: map[Fault]float64{"oops": 0.1}},
		"rates.hang":    {Rates: map[Fault]float64{Hang: 1.01}},
		"rates.decline": {Rates: map[Fault]float64{Decline: -0.1}},
		"rates.slow":    {Rates: map[Fault]float64{Slow: math.NaN()}},
		"rates":         {Rates: map[Fault]float64{Slow: 0.6, Hang: 0.6}},
		"outage":        {Outage: "flood"},
		"timing.slow":   {Timing: Timing{Slow: -1}},
	} {
		var e *FieldError
		require.ErrorAs(t, f.Validate(), &e)
		require.Equal(t, field, e.Field)
		require.NotEmpty(t, e.Reason)
	}
	tenths := map[Fault]float64{}
	for _, in := range catalogue[:10] {
		tenths[in.Name] = 0.1
	}
	require.NoError(t, Faults{Rates: tenths}.Validate(), "ten times 0.1")
	require.NoError(t, Faults{Rates: map[Fault]float64{WebhookLate: 1, WebhookEarly: 1}}.Validate())
}
