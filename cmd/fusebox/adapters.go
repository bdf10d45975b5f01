package main

import (
	"fusebox/provider"
	"fusebox/provider/adyen"
	"fusebox/provider/gateway"
	"fusebox/provider/mollie"
	"fusebox/provider/paypal"
	"fusebox/provider/stripe"
)

// kinds is where an adapter is registered: one line per kind of provider.
var kinds = provider.Kinds{
	"adyen":   adyen.Build,
	"gateway": func(s provider.Settings) (provider.Adapter, error) { return gateway.New(s, gateway.Options{}) },
	"mollie":  mollie.Build,
	"paypal":  paypal.Build,
	"stripe":  stripe.Build,
}
