package provider

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/bojanz/currency"
)

// MaxAmount caps an amount, in minor units of any currency. It leaves room for sums in
// an int64 and for exact numbers in JavaScript (2^53).
const MaxAmount int64 = 1_000_000_000_000

// Exponent returns the number of decimals ISO 4217 gives a currency (EUR 2, JPY 0,
// KWD 3), and whether the currency is known. Codes are upper case.
func Exponent(code string) (int, bool) {
	if len(code) != 3 { // the library's table is by code; nothing else can be in it
		return 0, false
	}
	digits, ok := currency.GetDigits(code)
	return int(digits), ok
}

// Validate refuses an amount that is not positive or beyond MaxAmount and a currency
// that is not known.
func (m Money) Validate() error {
	if _, ok := Exponent(m.Currency); !ok {
		return unknownCurrency(m.Currency)
	}
	if m.Amount <= 0 {
		return &FieldError{Field: "amount", Reason: "must be more than zero"}
	}
	if m.Amount > MaxAmount {
		return tooLarge()
	}
	return nil
}

// String returns "49.00 EUR".
func (m Money) String() string { return FormatMinor(m.Amount, m.Currency) + " " + m.Currency }

// DecimalToMinor reads a decimal amount as people type it ("19.99", "500") into minor
// units, by its digits and never through a float. It refuses, with a *FieldError,
// whatever could be read in two ways: a comma, a second dot, other digits than ASCII,
// a sign, an exponent, more decimals than the currency has. Spaces around are ignored.
func DecimalToMinor(text, code string) (int64, error) {
	bad := func(reason string) error { return &FieldError{Field: "amount", Reason: reason} }
	exp, ok := Exponent(code)
	if !ok {
		return 0, unknownCurrency(code)
	}
	text = strings.Trim(text, " \t\r\n")
	whole, frac, dotted := strings.Cut(text, ".")
	switch {
	case text == "":
		return 0, bad("is required")
	case len(text) > 32:
		return 0, bad("is too long")
	case strings.ContainsRune(text, ','):
		return 0, bad("use a dot for decimals and no separators between thousands")
	case !isDigits(whole), dotted && !isDigits(frac):
		return 0, bad("must be digits, with at most one dot")
	case len(frac) > exp:
		return 0, bad(fmt.Sprintf("%s has %d decimals", code, exp))
	}
	minor, err := strconv.ParseInt(whole+frac+strings.Repeat("0", exp-len(frac)), 10, 64)
	if err != nil || minor > MaxAmount {
		return 0, tooLarge()
	}
	if minor == 0 {
		return 0, bad("must be more than zero")
	}
	return minor, nil
}

// FormatMinor renders minor units as the decimal text DecimalToMinor reads: "19.99",
// "500" for JPY, "18.600" for KWD. An unknown currency is shown in minor units.
func FormatMinor(amount int64, code string) string {
	exp, _ := Exponent(code)
	return decimal(amount, exp)
}

// decimal places the dot exp digits from the right.
func decimal(amount int64, exp int) string {
	sign, abs := "", uint64(amount) //nolint:gosec // two's complement below is meant
	if amount < 0 {
		sign, abs = "-", -uint64(amount) //nolint:gosec // also right for MinInt64
	}
	s := strconv.FormatUint(abs, 10)
	if exp == 0 {
		return sign + s
	}
	if len(s) <= exp {
		s = strings.Repeat("0", exp-len(s)+1) + s
	}
	return sign + s[:len(s)-exp] + "." + s[len(s)-exp:]
}

func unknownCurrency(code string) error {
	return &FieldError{Field: "currency", Reason: fmt.Sprintf("%q is not a known ISO 4217 code", cut(code, 8))}
}

func tooLarge() error {
	return &FieldError{Field: "amount", Reason: "must be at most " + strconv.FormatInt(MaxAmount, 10) + " minor units"}
}

// WireRule is how one provider wants one currency on the wire, where that differs from
// ISO 4217.
type WireRule struct {
	Exponent int   // decimals of the provider's own minor unit
	Multiple int64 // wire amounts must be a multiple of this; 0 and 1 mean any
}

// WireTable is a provider's list of such currencies. The zero value is plain ISO.
type WireTable map[string]WireRule

// Rule returns the rule of a currency, ISO's own when the table has none.
func (t WireTable) Rule(code string) (WireRule, error) {
	iso, ok := Exponent(code)
	if !ok {
		return WireRule{}, unknownCurrency(code)
	}
	if r, ok := t[code]; ok {
		return r, nil
	}
	return WireRule{Exponent: iso}, nil
}

// Units converts an amount to the provider's minor unit. It never rounds: an amount
// the provider cannot carry exactly is refused with a *FieldError.
func (t WireTable) Units(m Money) (int64, error) {
	if err := m.Validate(); err != nil {
		return 0, err
	}
	r, err := t.Rule(m.Currency)
	if err != nil {
		return 0, err
	}
	iso, _ := Exponent(m.Currency)
	n := m.Amount
	for range r.Exponent - iso {
		if n > math.MaxInt64/10 {
			return 0, tooLarge()
		}
		n *= 10
	}
	for range iso - r.Exponent {
		if n%10 != 0 {
			return 0, &FieldError{Field: "amount", Reason: fmt.Sprintf("this provider takes %s with %d decimals", m.Currency, r.Exponent)}
		}
		n /= 10
	}
	if r.Multiple > 1 && n%r.Multiple != 0 {
		return 0, &FieldError{Field: "amount", Reason: fmt.Sprintf("this provider takes %s in multiples of %s", m.Currency, decimal(r.Multiple, r.Exponent))}
	}
	return n, nil
}

// Decimal renders an amount for a provider that wants decimal text ("18.600").
func (t WireTable) Decimal(m Money) (string, error) {
	n, err := t.Units(m)
	if err != nil {
		return "", err
	}
	r, err := t.Rule(m.Currency)
	return decimal(n, r.Exponent), err
}
