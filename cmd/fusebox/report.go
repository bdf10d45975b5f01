package main

import (
	"encoding/json"
	"io"
	"os"

	"fusebox/store"
)

// report is what demo and verify print: one JSON object. Every list names what is
// wrong, one line each; an empty list is the proof asked for.
type report struct {
	Payments        int            `json:"payments"`
	ByStatus        map[string]int `json:"by_status"`
	ProviderCharges int            `json:"provider_charges"` // successful charges in the providers' ledgers
	DoubleCharged   []string       `json:"double_charged"`   // references with more than one successful charge at a provider, but for those that went back whole
	Lost            []string       `json:"lost"`             // the provider took money, our payment is not succeeded
	Mismatched      []string       `json:"mismatched"`       // succeeded with us, but the ledger has no such charge or another amount
	WalletDrift     []string       `json:"wallet_drift"`     // balance is not the sum of the entries
	Stuck           []string       `json:"stuck"`            // not final and without a next step
	UnknownSeen     int            `json:"unknown_seen"`
	UnknownResolved int            `json:"unknown_resolved"`
	BreakerOpened   int            `json:"breaker_opened"`
	BreakerClosed   int            `json:"breaker_closed"`
	Webhooks        webhookReport  `json:"webhooks"`
	MaxWireSends    int            `json:"max_wire_sends_per_attempt"`
	TheirsOnly      []string       `json:"theirs_only"` // charges at a provider under no reference of ours: shown, never invented as payments
	Unaudited       []string       `json:"unaudited"`   // providers whose ledger could not be read, and why
	Unsettled       []string       `json:"unsettled,omitempty"`

	Refunds         map[string]int `json:"refunds_by_status"`
	ProviderRefunds int            `json:"provider_refunds"` // successful refunds in the providers' ledgers
	// DuplicatesRefunded counts charges made beside a payment's own that went back whole.
	DuplicatesRefunded int `json:"duplicates_refunded"`

	RefundFindings    []string `json:"refund_findings"`     // refunds made twice, lost, or over other money than ours; sums that cannot be
	RefundsTheirsOnly []string `json:"refunds_theirs_only"` // refunds at a provider that we have not heard of: shown

	ByProvider map[string]providerReport `json:"by_provider"` // of those whose ledger was read
}

// providerReport is one provider's part.
type providerReport struct {
	Kind            string         `json:"kind"` // adapter
	Payments        int            `json:"payments"`
	ByStatus        map[string]int `json:"by_status"`
	ProviderCharges int            `json:"provider_charges"`
	UnknownSeen     int            `json:"unknown_seen"`
}

func (r providerReport) with(p store.Payment) providerReport {
	r.Payments++
	r.ByStatus[string(p.Status)]++
	if p.UnknownSeen {
		r.UnknownSeen++
	}
	return r
}

type webhookReport struct {
	Received   int `json:"received"`
	Duplicates int `json:"duplicates"`
	Rejected   int `json:"rejected"`
	Applied    int `json:"applied"`
	Unmatched  int `json:"unmatched"`
}

// clean reports whether nothing was found. A ledger that could not be read is a
// finding: an audit that did not look proves nothing.
func (r report) clean() bool {
	return len(r.DoubleCharged)+len(r.Lost)+len(r.Mismatched)+len(r.WalletDrift)+len(r.Stuck)+len(r.Unaudited)+len(r.Unsettled)+len(r.RefundFindings) == 0
}

// write prints the report to path, "-" being out.
func (r report) write(path string, out io.Writer) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if path == "-" {
		_, err = out.Write(b)
		return err
	}
	return os.WriteFile(path, b, 0o644)
}
