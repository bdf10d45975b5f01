package stripe

import (
	"fmt"
	"strings"

	"fusebox/provider"
)

// wire is where Stripe differs from ISO 4217. ISK and UGX have no decimals and are sent
// with two zeros all the same; MGA has them and is sent without; the last of three
// decimals has to be zero. HUF and TWD are plain: only their payouts are rounded.
var wire = provider.WireTable{
	"ISK": {Exponent: 2, Multiple: 100},
	"UGX": {Exponent: 2, Multiple: 100},
	"MGA": {Exponent: 0},
	"BHD": {Exponent: 3, Multiple: 10},
	"JOD": {Exponent: 3, Multiple: 10},
	"KWD": {Exponent: 3, Multiple: 10},
	"OMR": {Exponent: 3, Multiple: 10},
	"TND": {Exponent: 3, Multiple: 10},
}

// supported are the currencies Stripe charges cards in, as far as ISO still has them.
// Another one is refused before anything is sent.
var supported = words(`
	AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BWP BYN BZD
	CAD CDF CHF CLP CNY COP CRC CVE CZK DJF DKK DOP DZD EGP ETB EUR FJD FKP GBP GEL GIP GMD
	GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR ISK JMD JOD JPY KES KGS KHR KMF KRW KWD KYD KZT
	LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK
	NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SEK SGD SHP SLE
	SOS SRD SZL THB TJS TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VND VUV WST XAF XCD XCG
	XOF XPF YER ZAR ZMW`)

func words(list string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}

// units returns what Stripe gets for an amount.
func units(m provider.Money) (int64, error) {
	n, err := wire.Units(m)
	if err == nil && !supported[m.Currency] {
		return 0, &provider.FieldError{Field: "currency", Reason: fmt.Sprintf("Stripe does not charge in %s", m.Currency)}
	}
	return n, err
}

// fromUnits reads an amount of Stripe's. ok is false when our minor unit cannot express
// it: 5.50 UGX, or a currency nobody knows.
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
