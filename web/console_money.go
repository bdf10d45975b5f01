package web

import (
	"strings"

	"github.com/bojanz/currency"

	"fusebox/provider"
)

// isCurrencyCode reports whether code is one ISO 4217 knows.
func isCurrencyCode(code string) bool {
	_, known := provider.Exponent(code)
	return known
}

// parseMoney reads a typed amount, "49.00" or "49.00 EUR" (either side), into every
// exact amount it can mean: without a code, one per currency whose decimals fit. Text
// that could be read in two ways ("1,000") means nothing. only narrows to one code.
func parseMoney(text, only string) []provider.Money {
	number, code, ok := splitAmount(text)
	if !ok {
		return nil
	}
	codes := currency.GetCurrencyCodes()
	if code = or(code, only); code != "" {
		codes = []string{code}
	}
	var out []provider.Money
	for _, c := range codes {
		if minor, err := provider.DecimalToMinor(decimalPoint(number), c); err == nil {
			out = append(out, provider.Money{Amount: minor, Currency: c})
		}
	}
	return out
}

// splitAmount takes a currency code off either end.
func splitAmount(text string) (number, code string, ok bool) {
	parts := strings.Fields(text)
	switch len(parts) {
	case 1:
		return parts[0], "", true
	case 2:
		for i, p := range parts {
			if up := strings.ToUpper(p); isCurrencyCode(up) {
				return parts[1-i], up, true
			}
		}
	}
	return "", "", false
}

// decimalPoint reads the decimal comma of French, Spanish and Ukrainian, as the console
// prints it in those languages. A comma before three digits could be a thousand and
// stays, to be refused.
func decimalPoint(number string) string {
	whole, fraction, found := strings.Cut(number, ",")
	if !found || len(fraction) == 3 || strings.ContainsAny(fraction, ".,") || strings.Contains(whole, ".") {
		return number
	}
	return whole + "." + fraction
}
