package adyen

import "fusebox/provider"

// wire is where Adyen differs from ISO 4217. CLP and ISK have no decimals and are sent
// with two zeros all the same; CVE and IDR have them and are sent without. UGX, JPY (no
// decimals), HUF (two) and the three-decimal currencies are plain.
var wire = provider.WireTable{
	"CLP": {Exponent: 2, Multiple: 100},
	"ISK": {Exponent: 2, Multiple: 100},
	"CVE": {Exponent: 0},
	"IDR": {Exponent: 0},
}

// fromUnits reads an amount of Adyen's. ok is false when our minor unit cannot express
// it: 5.50 ISK, or a currency nobody knows.
func fromUnits(n int64, code string) (m provider.Money, ok bool) {
	r, err := wire.Rule(code)
	if err != nil || n < 0 || n > provider.MaxAmount*100 {
		return provider.Money{}, false
	}
	iso, _ := provider.Exponent(code)
	for range iso - r.Exponent {
		n *= 10
	}
	for range r.Exponent - iso {
		if n%10 != 0 {
			return provider.Money{}, false
		}
		n /= 10
	}
	return provider.Money{Amount: n, Currency: code}, true
}
