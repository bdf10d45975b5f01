package web

import (
	"math"
	"strconv"
	"strings"

	"github.com/bojanz/currency"

	"fusebox/provider"
)

// isCurrencyCode reports whether code is one ISO 4217 knows.
func isCurrencyCode(code string) bool { return currency.IsValid(code) }

// parseMoney reads a typed amount, "49.00" or "49.00 EUR" (either side), into every
// exact amount it can mean: without a code, one per currency whose decimals fit. Text
// that could be read in two ways ("1,000.00") means nothing. only narrows to one code.
func parseMoney(text, only string) []provider.Money {
	number, code, ok := splitAmount(text)
	if !ok {
		return nil
	}
	if code == "" {
		code = only
	}
	whole, fraction, ok := splitNumber(number)
	if !ok {
		return nil
	}
	codes := currency.GetCurrencyCodes()
	if code != "" {
		if !isCurrencyCode(code) {
			return nil
		}
		codes = []string{code}
	}
	var out []provider.Money
	for _, c := range codes {
		digits, known := currency.GetDigits(c)
		if minor, fits := minorUnits(whole, fraction, int(digits)); known && fits && minor > 0 {
			out = append(out, moneyOf(minor, c))
		}
	}
	return out
}

// splitAmount takes a currency code off either end.
func splitAmount(text string) (number, code string, ok bool) {
	parts := strings.Fields(strings.ReplaceAll(text, "\u00a0", " "))
	switch len(parts) {
	case 1:
		return parts[0], "", true
	case 2:
		for i, p := range parts {
			if up := strings.ToUpper(p); len(up) == 3 && isCurrencyCode(up) {
				return parts[1-i], up, true
			}
		}
	}
	return "", "", false
}

// splitNumber reads ASCII digits with at most one decimal mark; comma and point both
// count, as both are typed.
func splitNumber(s string) (whole, fraction string, ok bool) {
	s = strings.Replace(s, ",", ".", 1)
	whole, fraction, dotted := strings.Cut(s, ".")
	if whole == "" || (dotted && fraction == "") || !digitsOnly(whole) || !digitsOnly(fraction) {
		return "", "", false
	}
	return whole, fraction, true
}

func digitsOnly(s string) bool {
	for _, r := range s {
		if r < '0' || r > '9' {
			return false
		}
	}
	return true
}

// minorUnits makes an integer of whole and fraction by string arithmetic; false when
// there are more decimals than the currency has, or the number is too large.
func minorUnits(whole, fraction string, digits int) (int64, bool) {
	for len(fraction) > digits && strings.HasSuffix(fraction, "0") {
		fraction = fraction[:len(fraction)-1] // 49.00 JPY means 49 JPY
	}
	if len(fraction) > digits {
		return 0, false
	}
	n, err := strconv.ParseInt(whole+fraction+strings.Repeat("0", digits-len(fraction)), 10, 64)
	return n, err == nil && n < math.MaxInt64
}

// decimal prints an amount for a spreadsheet: a point, all of the currency's decimals,
// no grouping, in every language.
func decimal(amount int64, code string) string {
	digits, known := currency.GetDigits(code)
	if !known || digits == 0 {
		return strconv.FormatInt(amount, 10)
	}
	sign := ""
	if amount < 0 {
		sign = "-"
	}
	text := strings.TrimPrefix(strconv.FormatInt(amount, 10), "-")
	for len(text) <= int(digits) {
		text = "0" + text
	}
	cut := len(text) - int(digits)
	return sign + text[:cut] + "." + text[cut:]
}
