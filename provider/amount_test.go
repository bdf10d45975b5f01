package provider

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/bojanz/currency"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// requireField asserts a refusal that names the field.
func requireField(t tester, err error, field string) {
	t.Helper()
	var fe *FieldError
	require.ErrorAs(t, err, &fe)
	require.Equal(t, field, fe.Field)
	require.NotEmpty(t, fe.Reason)
}

func TestM01_ZeroDecimalCurrenciesAreNotMultiplied(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"JPY", "KRW", "CLP", "VND", "XOF"} {
		minor, err := DecimalToMinor("500", code)
		require.NoError(t, err)
		require.EqualValues(t, 500, minor, code)
		require.Equal(t, "500", FormatMinor(500, code))
		wire, err := WireTable(nil).Units(Money{500, code})
		require.NoError(t, err)
		require.EqualValues(t, 500, wire, code)
		_, err = DecimalToMinor("500.00", code)
		requireField(t, err, "amount")
	}
}

// stripeLike is a provider that treats some currencies otherwise than ISO.
var stripeLike = WireTable{
	"UGX": {Exponent: 2}, "ISK": {Exponent: 2, Multiple: 100},
	"KWD": {Exponent: 3, Multiple: 10}, "CLF": {Exponent: 2},
}

func TestM01_AProvidersOwnExponent(t *testing.T) {
	t.Parallel()
	wire, err := stripeLike.Units(Money{500, "UGX"})
	require.NoError(t, err)
	require.EqualValues(t, 50000, wire)
	wire, err = stripeLike.Units(Money{500, "EUR"})
	require.NoError(t, err)
	require.EqualValues(t, 500, wire)
	wire, err = stripeLike.Units(Money{12300, "CLF"}) // four decimals to two
	require.NoError(t, err)
	require.EqualValues(t, 123, wire)
	_, err = stripeLike.Units(Money{12345, "CLF"})
	requireField(t, err, "amount")
	_, err = stripeLike.Units(Money{1, "ZZZ"})
	requireField(t, err, "currency")
}

func TestM02_ThreeDecimals(t *testing.T) {
	t.Parallel()
	minor, err := DecimalToMinor("18.600", "KWD")
	require.NoError(t, err)
	require.EqualValues(t, 18600, minor)
	require.Equal(t, "18.600", FormatMinor(18600, "KWD"))
	wire, err := stripeLike.Units(Money{18600, "KWD"})
	require.NoError(t, err)
	require.EqualValues(t, 18600, wire)
	text, err := WireTable(nil).Decimal(Money{18600, "KWD"})
	require.NoError(t, err)
	require.Equal(t, "18.600", text)
	_, err = stripeLike.Units(Money{18605, "KWD"})
	requireField(t, err, "amount")
	require.ErrorContains(t, err, "multiples of 0.010")
	_, err = stripeLike.Decimal(Money{18605, "KWD"})
	requireField(t, err, "amount")
}

func TestM04_DecimalTextToMinorUnits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"19.99": 1999, "8.20": 820, "4.35": 435, " 10 ": 1000, "10": 1000, "0.01": 1, "0.1": 10,
		"1.1": 110, "007": 700, "10000000000.00": MaxAmount,
	} {
		minor, err := DecimalToMinor(text, "EUR")
		require.NoError(t, err, text)
		require.Equal(t, want, minor, text)
	}
	for _, text := range []string{
		"", " ", "1,000.00", "1.000,00", "8,20", "１０", "١٠", "0.005", "0", "0.00", "-1", "+1", "1e3", "1.", ".5", ".",
		"1.2.3", "1 000", "1_000", "0x10", "NaN", "Inf", "10000000000.01", "99999999999999999999", strings.Repeat("9", 40),
		"10€", "1\u00a0000", "10\x00",
	} {
		_, err := DecimalToMinor(text, "EUR")
		requireField(t, err, "amount")
	}
	_, err := DecimalToMinor("1", "EURO")
	requireField(t, err, "currency")
	_, err = DecimalToMinor("1", "eur")
	requireField(t, err, "currency")
}

func TestM04_EveryCentRoundTrips(t *testing.T) {
	t.Parallel()
	for cents := int64(1); cents <= 10000; cents++ {
		text := fmt.Sprintf("%d.%02d", cents/100, cents%100)
		require.Equal(t, text, FormatMinor(cents, "EUR"))
		minor, err := DecimalToMinor(text, "EUR")
		require.NoError(t, err)
		require.Equal(t, cents, minor)
	}
}

func TestRoundTripOfAnyAmountInAnyCurrency(t *testing.T) {
	t.Parallel()
	codes := currency.GetCurrencyCodes()
	rapid.Check(t, func(t *rapid.T) {
		m := Money{rapid.Int64Range(1, MaxAmount).Draw(t, "amount"), rapid.SampledFrom(codes).Draw(t, "currency")}
		require.NoError(t, m.Validate())
		minor, err := DecimalToMinor(FormatMinor(m.Amount, m.Currency), m.Currency)
		require.NoError(t, err)
		require.Equal(t, m.Amount, minor)
		wire, err := WireTable(nil).Units(m)
		require.NoError(t, err)
		require.Equal(t, m.Amount, wire)
	})
}

// The literal ISO 4217 exponents that differ from two.
func TestExponentsAreISO(t *testing.T) {
	t.Parallel()
	want := map[string]int{
		"BIF": 0, "CLP": 0, "DJF": 0, "GNF": 0, "ISK": 0, "JPY": 0, "KMF": 0, "KRW": 0, "PYG": 0, "RWF": 0,
		"UGX": 0, "UYI": 0, "VND": 0, "VUV": 0, "XAF": 0, "XOF": 0, "XPF": 0,
		"BHD": 3, "IQD": 3, "JOD": 3, "KWD": 3, "LYD": 3, "OMR": 3, "TND": 3, "CLF": 4, "UYW": 4,
	}
	for _, code := range currency.GetCurrencyCodes() {
		got, ok := Exponent(code)
		require.True(t, ok)
		iso, special := want[code]
		if !special {
			iso = 2
		}
		require.Equal(t, iso, got, code)
	}
	for _, code := range []string{"", "EU", "eur", "EURO", "XXX", "ZZZ"} {
		_, ok := Exponent(code)
		require.False(t, ok, code)
	}
}

func TestMoneyValidate(t *testing.T) {
	t.Parallel()
	require.NoError(t, Money{MaxAmount, "EUR"}.Validate())
	for _, tt := range []struct {
		m     Money
		field string
	}{
		{Money{0, "EUR"}, "amount"},
		{Money{-1, "EUR"}, "amount"},
		{Money{MaxAmount + 1, "EUR"}, "amount"},
		{Money{math.MinInt64, "EUR"}, "amount"},
		{Money{1, "XXQ"}, "currency"},
		{Money{1, strings.Repeat("A", 1000)}, "currency"},
	} {
		err := tt.m.Validate()
		requireField(t, err, tt.field)
		require.Less(t, len(err.Error()), 100)
	}
	require.Equal(t, "-92233720368547758.08 EUR", Money{math.MinInt64, "EUR"}.String())
	require.Equal(t, "-0.05", FormatMinor(-5, "EUR"))
}

func TestUnitsRefusesWhatWouldOverflow(t *testing.T) {
	t.Parallel()
	_, err := WireTable{"EUR": {Exponent: 12}}.Units(Money{MaxAmount, "EUR"})
	requireField(t, err, "amount")
}

func FuzzDecimalToMinor(f *testing.F) {
	for _, s := range []string{"19.99", "8,20", " 1 ", "１０", "0.005", "1e3", "00.10", "9999999999.99"} {
		for _, code := range []string{"EUR", "JPY", "KWD", "nope"} {
			f.Add(s, code)
		}
	}
	f.Fuzz(func(t *testing.T, text, code string) {
		minor, err := DecimalToMinor(text, code)
		if err != nil {
			var fe *FieldError
			require.ErrorAs(t, err, &fe)
			return
		}
		require.True(t, minor > 0 && minor <= MaxAmount)
		again, err := DecimalToMinor(FormatMinor(minor, code), code)
		require.NoError(t, err)
		require.Equal(t, minor, again)
	})
}
