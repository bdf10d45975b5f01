package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"fusebox/store"
)

// people do what operators do at the console: ask about unknown payments, settle one on
// what the provider's dashboard shows, close circuits, start a reconciliation. They act
// through the store, as the console does, and circuits through the API.
func (t *traffic) people(ctx context.Context) {
	rng := rand.New(rand.NewPCG(t.w.o.Seed, 3)) //nolint:gosec // no secret
	for pause(ctx, 700*time.Millisecond) {
		name := providers[rng.IntN(len(providers))]
		acting, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		switch rng.IntN(6) {
		case 0:
			t.resetCircuit(acting, name, [2]string{"charge", "status"}[rng.IntN(2)])
		case 1:
			t.note("syncs", t.w.store.SyncNow(acting, uuid.New(), name, operator))
		case 2:
			t.resolve(acting, name)
		default:
			t.reconcile(acting, name)
		}
		cancel()
	}
}

// note counts an action that was done. What is refused or cannot be done now is no
// finding: somebody else was faster, or the database is restarting.
func (t *traffic) note(kind string, err error) {
	if err == nil {
		t.client.count("operator_" + kind)
	}
}

// oldestUnknown is what an operator's queue begins with.
func (t *traffic) oldestUnknown(ctx context.Context, name string) (id uuid.UUID, version int64, err error) {
	err = t.w.pool.QueryRow(ctx, `SELECT id, version FROM payments WHERE provider = $1 AND status = 'unknown' ORDER BY unknown_since LIMIT 1`,
		name).Scan(&id, &version)
	return id, version, err
}

func (t *traffic) reconcile(ctx context.Context, name string) {
	id, version, err := t.oldestUnknown(ctx, name)
	if err == nil {
		_, err = t.w.store.ReconcileNow(ctx, uuid.New(), id, version, operator)
	}
	t.note("reconciles", err)
}

// resolve settles an unknown payment as paid when the provider's own books show it so.
// It never says that one failed: what is not there now may be under way.
func (t *traffic) resolve(ctx context.Context, name string) {
	id, version, err := t.oldestUnknown(ctx, name)
	if errors.Is(err, pgx.ErrNoRows) {
		return
	}
	list, ledgerErr := t.w.sims[name].ledger(ctx)
	if err = errors.Join(err, ledgerErr); err != nil {
		return
	}
	for _, a := range list {
		if a.Reference != id.String() || a.Status != "succeeded" || a.Manual {
			continue
		}
		_, err := t.w.store.Resolve(ctx, store.ResolveParams{
			ActionID: uuid.New(), PaymentID: id, Version: version, To: store.Succeeded,
			Reason: "The provider's dashboard shows it.", Evidence: a.ID, By: operator,
		})
		t.note("resolves", err)
		return
	}
}

// resetCircuit closes a circuit by hand, if it is open.
func (t *traffic) resetCircuit(ctx context.Context, name, class string) {
	path := "/api/v1/circuits/" + name + "/" + class
	var now struct{ State, Epoch string }
	if status, err := t.client.ask(ctx, http.MethodGet, path, "", nil, &now); err != nil || status != http.StatusOK || now.State == "closed" {
		return
	}
	status, err := t.client.ask(ctx, http.MethodPost, path+"/reset", uuid.NewString(),
		map[string]any{"epoch": now.Epoch, "reason": "The provider says that it is back."}, nil)
	if err == nil && status/100 == 2 {
		t.client.count("operator_resets")
	}
}
