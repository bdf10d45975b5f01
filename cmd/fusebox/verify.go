package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"fusebox/provider"
	"fusebox/store"
)

func verifyCommand(ctx context.Context, args []string, out io.Writer) error {
	fs := newFlags("verify", "")
	path := fs.String("report", "-", "where the JSON goes; - is standard output")
	if err := fs.Parse(args); err != nil {
		return err
	}
	cfg, err := loadConfig(os.Environ())
	if err != nil {
		return err
	}
	a, err := buildReader(ctx, cfg, "verify")
	if err != nil {
		return err
	}
	defer a.close()
	r, err := a.verify(ctx)
	if err != nil {
		return err
	}
	if err := r.write(*path, out); err != nil {
		return err
	}
	if !r.clean() {
		return errFindings
	}
	return nil
}

// verify audits our own rows, then our payments against each provider's ledger.
//
// The ledgers are read before our payments: a charge that succeeds in between is in
// our books and missing in the ledger we read, so such fresh payments are compared
// again against a second reading rather than reported.
func (a *app) verify(ctx context.Context) (report, error) {
	books, err := a.store.Books(ctx)
	if err != nil {
		return report{}, err
	}
	r := report{
		Payments: books.Payments, ByStatus: books.ByStatus,
		DoubleCharged: []string{}, Lost: []string{}, Mismatched: []string{},
		WalletDrift: nonNil(books.WalletDrift), Stuck: nonNil(books.Stuck),
		UnknownSeen: books.UnknownSeen, UnknownResolved: books.UnknownResolved,
		BreakerOpened: books.BreakerOpened, BreakerClosed: books.BreakerClosed,
		Webhooks: webhookReport(books.Webhooks), MaxWireSends: books.MaxWireSends,
		TheirsOnly: []string{}, Unaudited: []string{},
		Refunds: books.OperationsByStatus, RefundFindings: nonNil(books.Refunds), RefundsTheirsOnly: []string{},
		ByProvider: map[string]providerReport{},
	}
	ledgers := map[string]ledger{}
	for _, p := range a.cfg.providers {
		l, err := a.readLedger(ctx, p)
		if err != nil {
			r.Unaudited = append(r.Unaudited, fmt.Sprintf("%s: %v", p.Name, err))
			continue
		}
		ledgers[p.Name] = l
		of := providerReport{Kind: p.Kind, ByStatus: map[string]int{}}
		for _, objects := range l.charges {
			of.ProviderCharges += len(objects)
		}
		r.ByProvider[p.Name] = of
		r.ProviderCharges += of.ProviderCharges
	}
	ours, err := a.compare(ctx, &r, ledgers)
	if err != nil {
		return r, err
	}
	given, err := a.compareRefunds(ctx, &r, ledgers)
	for name, l := range ledgers {
		r.doubleCharged(name, l, ours[name], given[name])
	}
	return r, err
}

// charges are a provider's successful charges by our reference.
type charges map[string][]provider.Object

// ledger is what a provider did: its successful charges and refunds.
type ledger struct {
	charges charges
	refunds refundLedger
}

// owned are our payments at a provider by their ids, each with the charge it rests on.
type owned map[string]string

// compare compares our payments with the providers' charges and returns ours by provider.
func (a *app) compare(ctx context.Context, r *report, ledgers map[string]ledger) (map[string]owned, error) {
	ours := map[string]owned{}
	var recheck []store.Payment
	err := a.store.EachPayment(ctx, func(p store.Payment) error {
		l, audited := ledgers[p.Provider]
		if !audited {
			return nil
		}
		if ours[p.Provider] == nil {
			ours[p.Provider] = owned{}
		}
		ours[p.Provider][p.ID.String()] = p.ProviderPaymentID
		r.ByProvider[p.Provider] = r.ByProvider[p.Provider].with(p)
		if finding(p, l.charges[p.ID.String()]) != "" {
			recheck = append(recheck, p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for name, l := range ledgers {
		r.theirsOnly(name, l.charges, ours[name])
	}
	return ours, a.recheck(ctx, r, recheck)
}

// theirsOnly reports a provider's charges under no reference of ours.
func (r *report) theirsOnly(name string, l charges, ours owned) {
	for ref, objects := range l {
		if _, known := ours[ref]; known {
			continue
		}
		for _, o := range objects {
			r.TheirsOnly = append(r.TheirsOnly, fmt.Sprintf("%s at %s under reference %q", o.ID, name, ref))
		}
	}
}

// doubleCharged reports references charged more than once. A charge beside the payment's
// own whose money went back, all of it, is settled: shown, and no finding. given are the
// refunds we know of, by charge, for a ledger that need not hold them all. Charges without
// any reference are strangers, each its own; they are not one reference charged many times.
func (r *report) doubleCharged(name string, l ledger, ours owned, given map[string]int64) {
	for ref, objects := range l.charges {
		if ref == "" || len(objects) < 2 {
			continue
		}
		live, settled := 0, 0
		for _, o := range objects {
			back := l.refunds.of[o.ID]
			if !l.refunds.whole {
				back = max(back, given[o.ID])
			}
			if o.ID != ours[ref] && back >= o.Money.Amount {
				settled++
			} else {
				live++
			}
		}
		if live > 1 {
			r.DoubleCharged = append(r.DoubleCharged, fmt.Sprintf("%s at %s: %d successful charges", ref, name, live))
		} else {
			r.DuplicatesRefunded += settled
		}
	}
}

// recheck reads the ledger and the payments again and reports what still differs.
func (a *app) recheck(ctx context.Context, r *report, suspects []store.Payment) error {
	if len(suspects) == 0 {
		return nil
	}
	fresh := map[string]ledger{}
	for _, s := range suspects {
		p, err := a.store.Payment(ctx, s.ID)
		if err != nil {
			return err
		}
		if _, read := fresh[p.Provider]; !read {
			settings, _ := a.settings(p.Provider)
			l, err := a.readLedger(ctx, settings)
			if err != nil {
				r.Unaudited = append(r.Unaudited, fmt.Sprintf("%s: %v", p.Provider, err))
				continue
			}
			fresh[p.Provider] = l
		}
		switch f := finding(p, fresh[p.Provider].charges[p.ID.String()]); {
		case f == "":
		case p.Status == store.Succeeded:
			r.Mismatched = append(r.Mismatched, p.ID.String()+": "+f)
		default:
			r.Lost = append(r.Lost, p.ID.String()+": "+f)
		}
	}
	return nil
}

// finding compares one payment with its successful charges in the ledger; empty
// means they agree.
func finding(p store.Payment, taken []provider.Object) string {
	if p.Status != store.Succeeded {
		if len(taken) == 0 {
			return ""
		}
		return fmt.Sprintf("%s took %d %s (%s), the payment is %s", p.Provider, taken[0].Money.Amount, taken[0].Money.Currency, taken[0].ID, p.Status)
	}
	for _, o := range taken {
		if o.Money == p.Took() && (p.ProviderPaymentID == "" || o.ID == p.ProviderPaymentID) {
			return ""
		}
	}
	if len(taken) == 0 {
		return fmt.Sprintf("succeeded, but %s has no successful charge for it", p.Provider)
	}
	return fmt.Sprintf("succeeded with %d %s, %s has %d %s as %s", p.Took().Amount, p.Currency, p.Provider, taken[0].Money.Amount, taken[0].Money.Currency, taken[0].ID)
}

func (a *app) settings(name string) (provider.Settings, bool) {
	for _, p := range a.cfg.providers {
		if p.Name == name {
			return p, true
		}
	}
	return provider.Settings{}, false
}

// readLedger reads a provider's successful charges: from its ledger URL when there
// is one (the simulator's ground truth), else page by page through its own listing.
func (a *app) readLedger(ctx context.Context, p provider.Settings) (ledger, error) {
	if p.LedgerURL != "" {
		return readLedgerURL(ctx, p.LedgerURL)
	}
	adapter, ok := a.registry.Get(p.Name)
	if !ok || !adapter.Capabilities().Listing {
		return ledger{}, errors.New("the provider cannot list its charges")
	}
	l := ledger{charges: charges{}}
	q := provider.ListQuery{To: time.Now().Add(time.Minute), Limit: 200}
	for {
		page, err := adapter.List(ctx, q)
		if err != nil {
			return ledger{}, err
		}
		for _, o := range page.Objects {
			l.charges.add(o)
			l.refunds.add(o)
		}
		if page.Next == "" {
			return l, nil
		}
		q.Cursor = page.Next
	}
}

func (l charges) add(o provider.Object) {
	if o.Kind == provider.ObjectCharge && o.Outcome == provider.Succeeded {
		l[o.Reference] = append(l[o.Reference], o)
	}
}

func readLedgerURL(ctx context.Context, url string) (ledger, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return ledger{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ledger{}, err
	}
	defer func() { _, _ = io.Copy(io.Discard, resp.Body); _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return ledger{}, fmt.Errorf("the ledger answered %s", resp.Status)
	}
	var rows []struct {
		ledgerRow
		Refunds []ledgerRow
	}
	if err := json.NewDecoder(resp.Body).Decode(&rows); err != nil {
		return ledger{}, fmt.Errorf("reading the ledger: %w", err)
	}
	l := ledger{charges: charges{}, refunds: refundLedger{whole: true}}
	for _, row := range rows {
		l.charges.add(row.object())
		for _, back := range row.Refunds {
			o := back.object()
			o.Kind, o.Child.ChargeID = provider.ObjectRefund, row.ID
			l.refunds.add(o)
		}
	}
	return l, nil
}

// ledgerRow is one charge or refund of the simulator's ledger.
type ledgerRow struct {
	ID, Reference, Status, Currency string
	Amount                          int64
	Manual                          bool  // held first
	Captured                        int64 // and then taken, if manual
}

func (r ledgerRow) object() provider.Object {
	o := provider.Object{ID: r.ID, Reference: r.Reference, Money: provider.Money{Amount: r.Amount, Currency: r.Currency}}
	if r.Manual {
		o.Money.Amount = r.Captured
	}
	if r.Status == string(provider.Succeeded) {
		o.Outcome = provider.Succeeded
	}
	return o
}

func nonNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
