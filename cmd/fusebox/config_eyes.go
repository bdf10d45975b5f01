package main

import (
	"fmt"
	"strconv"
	"strings"

	"fusebox/provider"
)

// readFourEyes reads the amounts above which two people mark a payment, in minor units:
// EUR=100000,JPY=15000000,*=100000. Without "*", other currencies need one person.
func readFourEyes(parts []string) (map[string]int64, error) {
	out := map[string]int64{}
	for _, part := range parts {
		code, text, _ := strings.Cut(strings.TrimSpace(part), "=")
		if _, ok := provider.Exponent(code); !ok && code != "*" {
			return nil, fmt.Errorf("%q is not a currency or *", code)
		}
		limit, err := strconv.ParseInt(text, 10, 64)
		if err != nil || limit < 0 || limit > provider.MaxAmount {
			return nil, fmt.Errorf("%s: %q is not an amount in minor units", code, text)
		}
		if _, twice := out[code]; twice {
			return nil, fmt.Errorf("%s is set twice", code)
		}
		out[code] = limit
	}
	return out, nil
}
