package paypal

import (
	"fmt"
	"strings"

	"fusebox/provider"
)

// wire is where PayPal differs from ISO 4217: it takes HUF and TWD without decimals.
var wire = provider.WireTable{
	"HUF": {Exponent: 0},
	"TWD": {Exponent: 0},
}

// supported are the currencies PayPal holds. Another one is refused before anything is
// sent.
var supported = words(`
	AUD BRL CAD CHF CNY CZK DKK EUR GBP HKD HUF ILS JPY MXN MYR NOK NZD PHP PLN SEK SGD
	THB TWD USD`)

func words(list string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}

// amount is money on PayPal's wire. Both are text: a number is another contract.
type amount struct {
	Currency string `json:"currency_code"`
	Value    string `json:"value"`
}

// wireAmount renders an amount, or refuses it.
func wireAmount(m provider.Money) (amount, error) {
	value, err := wire.Decimal(m)
	if err == nil && !supported[m.Currency] {
		err = &provider.FieldError{Field: "currency", Reason: fmt.Sprintf("PayPal does not hold %s", m.Currency)}
	}
	return amount{Currency: m.Currency, Value: value}, err
}

// money reads an amount to the minor unit. Zeros behind the last decimal a currency has
// ("500.00" JPY) change nothing; anything else there is no amount.
func (a amount) money() (provider.Money, error) {
	value := a.Value
	if whole, frac, ok := strings.Cut(value, "."); ok {
		exp, _ := provider.Exponent(a.Currency)
		if len(frac) > exp && strings.Trim(frac[exp:], "0") == "" {
			value = strings.TrimSuffix(whole+"."+frac[:exp], ".")
		}
	}
	n, err := provider.DecimalToMinor(value, a.Currency)
	return provider.Money{Amount: n, Currency: a.Currency}, err
}

// minor is a part of a running total: a check only, so what cannot be read is nothing.
func (a *amount) minor(currency string) int64 {
	if a == nil || a.Currency != currency {
		return 0
	}
	m, _ := a.money()
	return m.Amount
}
