package stripe

import (
	sdk "github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/form"

	"fusebox/provider"
)

// Metadata keys. Stripe hands them back with every answer and event.
const (
	metaPayment = "payment_id"
	metaOrder   = "order_ref"
	metaName    = "customer_name"
	metaEmail   = "customer_email"
)

// maxText caps texts of ours; Stripe's own limit for a metadata value is 500.
const maxText = 500

// testCard is Stripe's own test payment method. A test account charges it when no other
// one is named; in live mode there is no such thing.
const testCard = "pm_card_visa"

// Freeze implements provider.Adapter. The same request always gives the same bytes.
func (a *Adapter) Freeze(r provider.ChargeRequest) ([]byte, error) {
	if r.PaymentID == "" || len(r.PaymentID) > maxText {
		return nil, &provider.FieldError{Field: "reference", Reason: "must have 1 to 500 characters"}
	}
	amount, err := units(r.Money)
	if err != nil {
		return nil, err
	}
	if err := texts(r); err != nil {
		return nil, err
	}
	method, err := a.method(r)
	if err != nil {
		return nil, err
	}
	var v form.Values
	form.AppendTo(&v, params(r, amount, method))
	return []byte(v.Encode()), nil
}

// texts refuses what Stripe would cut or refuse.
func texts(r provider.ChargeRequest) error {
	for _, t := range []struct{ field, text string }{
		{"description", r.Description}, {"order_ref", r.OrderRef},
		{"customer.name", r.CustomerName}, {"customer.email", r.CustomerEmail},
		{"metadata." + provider.MetaPaymentMethod, r.PaymentMethod}, {"metadata." + provider.MetaCustomerID, r.CustomerID},
	} {
		if len(t.text) > maxText {
			return &provider.FieldError{Field: t.field, Reason: "is too long"}
		}
	}
	return nil
}

// method is the stored payment method to charge.
func (a *Adapter) method(r provider.ChargeRequest) (string, error) {
	if r.PaymentMethod != "" {
		return r.PaymentMethod, nil
	}
	if a.live {
		return "", &provider.FieldError{Field: "metadata." + provider.MetaPaymentMethod, Reason: "is required: Stripe charges a stored payment method (pm_…)"}
	}
	return testCard, nil
}

// params is the request. There is no receipt_email: with it Stripe writes to the payer.
// Redirects are switched off because nobody is there to be redirected.
func params(r provider.ChargeRequest, amount int64, method string) *sdk.PaymentIntentCreateParams {
	p := &sdk.PaymentIntentCreateParams{
		Amount:   sdk.Int64(amount),
		Currency: sdk.String(lower(r.Money.Currency)),
		AutomaticPaymentMethods: &sdk.PaymentIntentCreateAutomaticPaymentMethodsParams{
			Enabled: sdk.Bool(true), AllowRedirects: sdk.String("never"),
		},
		CaptureMethod: sdk.String(string(sdk.PaymentIntentCaptureMethodAutomatic)),
		Confirm:       sdk.Bool(true),
		OffSession:    sdk.Bool(true),
		PaymentMethod: sdk.String(method),
		Metadata:      map[string]string{metaPayment: r.PaymentID},
	}
	if r.ManualCapture {
		p.CaptureMethod = sdk.String(string(sdk.PaymentIntentCaptureMethodManual))
	}
	for key, text := range map[string]string{metaOrder: r.OrderRef, metaName: r.CustomerName, metaEmail: r.CustomerEmail} {
		if text != "" {
			p.Metadata[key] = text
		}
	}
	if r.Description != "" {
		p.Description = sdk.String(r.Description)
	}
	if r.CustomerID != "" {
		p.Customer = sdk.String(r.CustomerID)
	}
	return p
}
