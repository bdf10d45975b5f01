package simulator

// Healthy is a provider without faults.
func Healthy() Faults { return Faults{}.normal() }

// Settling is every fault that an engine following the rules settles by itself:
// a few per cent of each, most payments fine. Left out are the faults after which
// a person has to decide (DoubleObject, AmountAltered) or repair something
// (Unauthorized401, Forbidden403).
func Settling() Faults {
	return Faults{Rates: map[Fault]float64{
		ChargedThenSilent: 0.02, ChargedThenCut: 0.03, ChargedThenReset: 0.02,
		ChargedThen502: 0.03, ChargedThenTruncated: 0.02, ChargedThenHTML: 0.01,
		ChargedThenRedirect: 0.01, WrongShape: 0.01, UnmappedStatus: 0.01,
		AmountMisreported: 0.01,
		Slow:              0.02, Drip: 0.01, Hang: 0.01,
		Error500: 0.02, Error500Charged: 0.02, InProgress409: 0.01,
		Throttle429: 0.03, Decline: 0.05, Rejected422: 0.01,
		Async202: 0.04, Async202Failed: 0.01, RequiresAction: 0.02, ActionCanceled: 0.01,
		WebhookEarly: 0.10, WebhookLate: 0.05, WebhookDuplicated: 0.10,
		WebhookConcurrent: 0.08, WebhookOutOfOrder: 0.08, WebhookMissing: 0.05,
		WebhookBadSignature: 0.03, WebhookOldTimestamp: 0.02, WebhookUnrelated: 0.03,
		LookupLag: 0.05, LookupNotFound: 0.03, LookupForbidden: 0.03, LookupError: 0.05,
	}}.normal()
}

// EveryFault is Settling and the two faults that end in front of a person:
// DoubleObject and AmountAltered. The ledger marks what they made (Charge.Fault),
// so that an audit can tell the provider's doing from ours.
func EveryFault() Faults {
	return Settling().With(DoubleObject, 0.01).With(AmountAltered, 0.01)
}

// InOutage is a provider that is healthy but for the given outage.
func InOutage(mode Outage) Faults {
	f := Healthy()
	f.Outage = mode
	return f
}

// presets are the mixes that the control API and the command line know by name.
var presets = map[string]func() Faults{
	"healthy":     Healthy,
	"settling":    Settling,
	"every_fault": EveryFault,
}

// Preset returns a mix by name: healthy, settling, every_fault.
func Preset(name string) (Faults, bool) {
	f, ok := presets[name]
	if !ok {
		return Faults{}, false
	}
	return f(), true
}
