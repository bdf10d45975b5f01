package circuits

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"fusebox/breaker"
	"fusebox/provider"
	"fusebox/store"
)

// Operations does requests.
type Operations struct {
	Store   *store.Store
	Breaker breaker.Breaker // must be a breaker.Operator, as both implementations are
	Log     *slog.Logger
}

// wakeLimit bounds how long a long backlog keeps the person waiting for an answer; what
// is left comes back at its own time.
const wakeLimit = 20 * time.Second

// Result is what a request did.
type Result struct {
	Before, After breaker.Snapshot
	Repeated      bool // the action id was used before: nothing was done now, After is the present
	Woken         int  // waiting payments that were brought forward
}

// Do carries out a request: once per action id, and only if the circuit is still the
// one with the request's epoch.
//
// Errors: *provider.FieldError; store.ErrKeyReused when the action id was used for
// something else; breaker.ErrEpoch and breaker.ErrNotOpen with Result.After the circuit
// as it is; breaker.ErrUnavailable. After any of them nothing was changed.
func (o Operations) Do(ctx context.Context, r Request) (Result, error) {
	r.Reason = strings.TrimSpace(r.Reason)
	if problems := r.Problems(); len(problems) > 0 {
		return Result{}, problems[0]
	}
	res, err := o.once(ctx, r)
	if err != nil {
		return res, err
	}
	if res.Woken, err = o.wake(ctx, r, res); err != nil {
		// The circuit moved and that is audited; what waits comes back at its own time.
		o.Log.ErrorContext(ctx, "waking what waited for the circuit", "circuit", r.Key.String(), "error", err)
	}
	return res, nil
}

// once claims the action id, changes the circuit and writes the audit row, in that
// order and in one transaction: a repeat finds the claim, a refusal leaves nothing.
// Redis answers within its own short deadline, so the row is held for milliseconds.
// Redis cannot roll back: once begun, the audit row is written even if the person who
// asked is gone.
func (o Operations) once(ctx context.Context, r Request) (Result, error) {
	ctx, cancel := store.Detached(ctx)
	defer cancel()
	var res Result
	changed := false // InTx may run the function again; the circuit is changed once
	err := o.Store.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		first, earlier, err := o.Store.ClaimAction(ctx, tx, r.ActionID, r.By, r.Action.AuditAction(), Target(r.Key), r.fingerprint())
		if err != nil {
			return err
		}
		if !first {
			res.Repeated = true
			if earlier != r.fingerprint() {
				return store.ErrKeyReused
			}
			return nil
		}
		if !changed {
			if res.Before, err = o.Breaker.Snapshot(ctx, r.Key); err != nil {
				return err
			}
			if res.After, err = o.change(ctx, r); err != nil {
				return err
			}
			changed = true
		}
		err = o.Store.Audit(ctx, tx, r.By, r.Action.AuditAction(), Target(r.Key), r.Reason, facts(res.Before), r.after(res.After))
		if err != nil {
			return err
		}
		return store.Notify(ctx, tx, store.TopicProviders)
	})
	switch {
	case err != nil && changed:
		// The circuit's own event names the person too; the log says why the row is missing.
		o.Log.ErrorContext(ctx, "a circuit was changed, its audit row could not be written", "circuit", r.Key.String(),
			"action", r.Action, "actor", r.By.String(), "reason", r.Reason, "error", err)
	case err == nil && res.Repeated:
		res.After, err = o.Breaker.Snapshot(ctx, r.Key)
	}
	return res, err
}

// change is the compare-and-set itself.
func (o Operations) change(ctx context.Context, r Request) (breaker.Snapshot, error) {
	if r.Action == Reset {
		return o.Breaker.Reset(ctx, r.Key, r.Epoch, r.By.Name, r.Reason)
	}
	op, ok := o.Breaker.(breaker.Operator)
	if !ok {
		return breaker.Snapshot{}, fmt.Errorf("circuits: %T cannot be operated", o.Breaker)
	}
	if r.Action == ProbeOnce {
		return op.ProbeOnce(ctx, r.Key, r.Epoch, r.By.Name, r.Reason)
	}
	return op.Override(ctx, r.Key, r.Epoch, breaker.Override{Mode: breaker.Mode(r.Action), For: r.For, Actor: r.By.Name, Reason: r.Reason})
}

// wake brings waiting work forward where calls can now go. A repeat wakes too, as the
// first may have ended between its commit and its waking; only probes it must not add.
func (o Operations) wake(ctx context.Context, r Request, res Result) (int, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wakeLimit)
	defer cancel()
	all := func() (int, error) { return o.Store.WakeWaiting(ctx, r.Key.Name, r.Key.Class == "charge") }
	some := func(n int) (int, error) { return o.Store.WakeProbes(ctx, r.Key.Name, r.Key.Class == "charge", n) }
	if r.Key.Class == provider.ClassToken { // what waits for a token are charges
		all = func() (int, error) { return o.Store.WakeTokenless(ctx, r.Key.Name) }
		some = func(n int) (int, error) { return o.Store.WakeTokenProbes(ctx, r.Key.Name, n) }
	}
	switch now := res.After; {
	case now.Mode == breaker.ForcedOpen:
		return 0, nil
	case now.State == breaker.Closed, now.Mode == breaker.ForcedClosed, now.Mode == breaker.MetricsOnly:
		return all()
	case now.State == breaker.HalfOpen && r.Action == ProbeOnce && !res.Repeated:
		// As many as the circuit needs to decide; the rest would only be refused.
		return some(max(now.Settings.Probes, now.Settings.Successes, 1))
	}
	return 0, nil
}

// fingerprint tells a repeat from another request under the same action id.
func (r Request) fingerprint() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %d", r.Action, r.Key, r.Epoch, r.Reason, r.For))
	return hex.EncodeToString(sum[:])
}

// facts are what the audit log keeps of a circuit.
func facts(s breaker.Snapshot) map[string]any {
	m := map[string]any{"state": string(s.State), "epoch": s.Epoch, "consecutive": s.Consecutive, "reason": s.OpenReason}
	if s.Mode != "" {
		m["override"] = string(s.Mode)
		if !s.ModeUntil.IsZero() {
			m["override_until"] = s.ModeUntil.UTC().Format(time.RFC3339)
		}
	}
	return m
}

func (r Request) after(s breaker.Snapshot) map[string]any {
	m := facts(s)
	if r.For > 0 {
		m["for"] = r.For.String()
	}
	return m
}

// LastChange returns who made the circuit what it is now; ok is false when it moved by
// itself since.
func (o Operations) LastChange(ctx context.Context, now breaker.Snapshot) (last store.AuditEntry, ok bool, err error) {
	last, err = o.Store.LastCircuitAction(ctx, Target(now.Key))
	if errors.Is(err, store.ErrNotFound) {
		return store.AuditEntry{}, false, nil
	}
	if err != nil {
		return store.AuditEntry{}, false, err
	}
	epoch, _ := last.After["epoch"].(string)
	return last, epoch != "" && epoch == now.Epoch, nil
}
