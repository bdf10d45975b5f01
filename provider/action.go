package provider

// ActionOutcome is what a charge says of a capture or void of it. released: a charge that
// failed did so because its money was let go.
func ActionOutcome(kind OperationKind, charge Object, released bool) Outcome {
	switch {
	case kind == OpCapture, charge.Outcome == Processing, charge.Outcome == "":
		return charge.Outcome
	case released:
		return Succeeded
	}
	return Failed
}

// ActionOf is a capture or void as its charge shows it, which is all that most providers
// keep of one; outcome is the adapter's reading of the charge. Only a success has money of
// its own to compare: what was taken, or let go.
func ActionOf(kind OperationKind, charge Object, outcome Outcome, want Money) Object {
	o := Object{
		ID: charge.ID, Kind: ObjectKind(kind), Status: charge.Status, Outcome: outcome,
		Reason: charge.Reason, Message: charge.Message, CreatedAt: charge.CreatedAt, Raw: charge.Raw,
		Child: Child{ChargeID: charge.ID, PaymentID: charge.Reference, Charge: &charge},
	}
	switch outcome {
	case Succeeded:
		o.Money = charge.Money
	case Processing:
		o.Money = want
	}
	return o
}
