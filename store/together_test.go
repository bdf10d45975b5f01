package store_test

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fusebox/provider"
	"fusebox/store"
)

// everything is what the books hold about a payment, without what has to differ from
// another one: ids and row numbers.
func (w *world) everything(p store.Payment, a store.Attempt, object string) string {
	w.t.Helper()
	inbox := regexp.MustCompile(`"inbox_id": \d+`)
	replace := strings.NewReplacer(p.ID.String(), "PAYMENT", a.ID.String(), "ATTEMPT", object, "OBJECT",
		p.OrderRef, "ORDER", p.IdempotencyKey, "KEY")
	var out strings.Builder
	for _, q := range []string{
		`SELECT to_jsonb(x) - '{request_hash,wallet_id}'::text[] FROM payments x WHERE id = $1`,
		`SELECT to_jsonb(x) FROM attempts x WHERE payment_id = $1 ORDER BY seq`,
		`SELECT to_jsonb(x) - 'id' FROM payment_events x WHERE payment_id = $1 ORDER BY id`,
		`SELECT to_jsonb(x) FROM provider_objects x WHERE payment_id = $1 ORDER BY object_id`,
		`SELECT to_jsonb(x) - 'id' FROM audit_log x WHERE target = 'payment:' || $1::uuid::text ORDER BY id`,
		`SELECT to_jsonb(x) - 'id' FROM call_outcomes x WHERE payment_id = $1 ORDER BY id`,
		`SELECT to_jsonb(x) - '{id,wallet_id,balance_after}'::text[] FROM wallet_entries x WHERE payment_id = $1`,
		`SELECT to_jsonb(x) - '{id,dedupe_key}'::text[] FROM alerts x WHERE payment_id = $1 AND kind <> 'contract_changed' ORDER BY id`,
		`SELECT to_jsonb(x) FROM test_jobs x WHERE subject = $1::uuid::text ORDER BY kind`,
	} {
		rows, err := w.db.Pool.Query(ctx, q, p.ID)
		require.NoError(w.t, err)
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(w.t, err)
		for _, line := range list {
			fmt.Fprintln(&out, inbox.ReplaceAllString(replace.Replace(line), `INBOX`))
		}
	}
	return out.String()
}

func callOf(p store.Payment, c provider.Charged) store.CallOutcome {
	return store.CallOutcome{Provider: p.Provider, Class: "charge", Verdict: string(c.Health), Outcome: string(c.Outcome), Worker: "w1", PaymentID: &p.ID}
}

// finishAlone writes an outcome in a transaction of its own.
func (w *world) finishAlone(p store.Payment, f store.FinishParams) {
	w.t.Helper()
	require.NoError(w.t, w.tx(func(tx pgx.Tx) error {
		if _, err := w.FinishAttempt(ctx, tx, f); err != nil {
			return err
		}
		return w.RecordCall(ctx, tx, callOf(p, f.Charged))
	}))
}

// Whatever is written together leaves the same rows as when it is written alone.
func TestTogetherLeavesTheSameRowsAsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	together := 0
	rapid.Check(t, func(rt *rapid.T) {
		wal := w.wallet()
		manual, topUp := rapid.IntRange(0, 3).Draw(rt, "manual") == 0, rapid.IntRange(0, 3).Draw(rt, "wallet") == 0
		outcome := rapid.SampledFrom([]provider.Outcome{provider.Succeeded, provider.Succeeded, provider.Failed, provider.Processing,
			provider.RequiresAction, provider.Unknown}).Draw(rt, "outcome")
		amount := rapid.SampledFrom([]int64{1000, 1000, 1000, 999, 0}).Draw(rt, "amount")
		word := rapid.SampledFrom([]provider.Outcome{outcome, outcome, outcome, provider.Succeeded, ""}).Draw(rt, "word")
		refunded := rapid.SampledFrom([]int64{-1, -1, 0, 0, 10}).Draw(rt, "refunded")
		review := rapid.SampledFrom([]string{"", "", "", store.ReviewUnmapped}).Draw(rt, "review")
		alert := rapid.SampledFrom([]string{"", "", "", provider.AlertContract}).Draw(rt, "alert")
		bare, text := rapid.IntRange(0, 5).Draw(rt, "bare") == 0, rapid.StringN(0, 10, -1).Draw(rt, "text")+"\x00"
		stranger := rapid.IntRange(0, 5).Draw(rt, "stranger") == 0
		var dumps [3]string // together, alone, and together with its own delivery
		for i := range dumps {
			p := w.create(func(n *store.NewPayment) {
				if manual {
					n.Capture = store.CaptureManual
				}
				if topUp {
					n.WalletID = &wal.ID
				}
			})
			a, id := w.begin(p.ID), "obj-"+p.ID.String()
			if stranger { // the object is known, and so far nobody's
				_, err := w.db.Pool.Exec(ctx, `INSERT INTO provider_objects (provider, object_id, status, outcome, amount, currency, source, first_seen_at, seen_at, outcome_at, status_at)
					VALUES ('atlas', $1, 'processing', 'processing', 1000, 'EUR', 'sync', $2, $2, $2, $2)`, id, w.Now())
				require.NoError(t, err)
			}
			o := object(p, id, word)
			o.Money.Amount, o.Message = amount, text
			if refunded >= 0 {
				o.Totals = &provider.Totals{Captured: 1000, Refunded: refunded}
			}
			c := answered(outcome, &o)
			c.Review, c.Alert, c.Message, c.Exchange.Server = review, alert, text, text
			if bare {
				c.Object = nil
			}
			f := store.FinishParams{AttemptID: a.ID, Charged: c, ReconcileAt: w.Now().Add(time.Minute)}
			if i == 0 && w.FinishTogether(ctx, p.ID, f, callOf(p, c)) {
				together++
			} else {
				w.finishAlone(p, f)
			}
			dumps[i] = w.everything(p, a, id)
		}
		if alert == "" { // an alert is raised once for a fact, by the first
			require.Equal(t, dumps[1], dumps[0])
		}
	})
	require.Positive(t, together, "nothing was plain")
}

// The same for events about payments in every state.
func TestAppliedTogetherLeavesTheSameRowsAsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	together, atOnce := 0, 0
	outcomes := []provider.Outcome{provider.Succeeded, provider.Succeeded, provider.Failed, provider.Processing, provider.RequiresAction, ""}
	rapid.Check(t, func(rt *rapid.T) {
		before := rapid.SampledFrom([]provider.Outcome{provider.Succeeded, provider.Succeeded, provider.Succeeded, provider.Failed,
			provider.Processing, provider.Unknown, provider.NotSent}).Draw(rt, "before")
		manual := rapid.IntRange(0, 5).Draw(rt, "manual") == 0
		type said struct {
			outcome  provider.Outcome
			amount   int64
			refunded int64
			later    int
			other    bool
		}
		story := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) said {
			return said{rapid.SampledFrom(outcomes).Draw(rt, "outcome"), rapid.SampledFrom([]int64{1000, 1000, 1000, 999}).Draw(rt, "amount"),
				rapid.SampledFrom([]int64{-1, -1, 0, 0, 10}).Draw(rt, "refunded"), rapid.IntRange(-2, 2).Draw(rt, "later"),
				rapid.IntRange(0, 6).Draw(rt, "other") == 0}
		}), 1, 3).Draw(rt, "story")
		var dumps [3]string // together, alone, and together with its own delivery
		for i := range dumps {
			p := w.create(func(n *store.NewPayment) {
				if manual {
					n.Capture = store.CaptureManual
				}
			})
			a, id := w.begin(p.ID), "obj-"+p.ID.String()
			o := object(p, id, before)
			c := answered(before, &o)
			switch before {
			case provider.Unknown:
				c = timedOut()
			case provider.NotSent:
				c = notSent()
			}
			w.finishAlone(p, store.FinishParams{AttemptID: a.ID, Charged: c, RetryAt: w.Now().Add(time.Second), ReconcileAt: w.Now().Add(time.Minute)})
			for k, said := range story {
				o := object(p, id, said.outcome)
				if said.other {
					o.ID += "-2"
				}
				o.Status, o.Money.Amount = "word-"+string(said.outcome), said.amount
				if said.refunded >= 0 {
					o.Totals = &provider.Totals{Captured: 1000, Refunded: said.refunded}
				}
				e := event(fmt.Sprintf("evt-%d-%s", k, p.ID), o, w.Now().Add(time.Duration(said.later)*time.Minute))
				d := delivery(e)
				d.AtOnce = i == 2
				r, err := w.ReceiveWebhook(ctx, d)
				require.NoError(t, err)
				row := r.EventIDs[0]
				if d.AtOnce && w.count(`SELECT count(*) FROM webhook_events WHERE id = $1 AND state = 'applied'`, row) == 1 {
					require.Zero(t, w.jobs.Asked(t, "webhook", row))
					atOnce++
					continue
				}
				parse := func(string) store.ParseEvents {
					return func([]byte) ([]provider.Event, error) { return []provider.Event{e}, nil }
				}
				if i == 0 && w.ApplyTogether(ctx, row, parse) {
					together++
				} else {
					w.applyRow(row, e)
				}
			}
			dumps[i] = w.everything(p, a, id)
			rows := w.count(`SELECT count(*) FROM webhook_events WHERE payment_id = $1 AND state = 'applied' AND applied_at IS NOT NULL AND tries = 1
				AND verified_at IS NOT NULL AND occurred_at IS NOT NULL AND reference = payment_id::text`, p.ID)
			require.Equal(t, len(story), rows)
		}
		require.Equal(t, dumps[1], dumps[0])
		require.Equal(t, dumps[1], dumps[2])
	})
	require.Positive(t, together, "nothing was plain")
	require.Positive(t, atOnce, "nothing was plain")
}

// What a job read is used only while the row is still that version: another status, or a
// review, must not be judged by what was.
func TestTogetherReadsAgainWhatChangedSince(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	failed, reviewed := w.create(), w.create()
	seen := map[uuid.UUID]store.Seen{}
	for _, p := range []store.Payment{failed, reviewed} {
		c, err := w.Chargeable(ctx, p.ID)
		require.NoError(t, err)
		seen[p.ID] = c.Seen()
	}
	require.NoError(t, w.tx(func(tx pgx.Tx) error {
		_, err := w.RejectBeforeSend(ctx, tx, failed.ID, "amount", "too small")
		return err
	}))
	b := begin(failed.ID)
	b.Seen = seen[failed.ID]
	_, _, err := w.BeginAttempt(ctx, b)
	require.ErrorIs(t, err, store.ErrSettled)

	b = begin(reviewed.ID)
	b.Seen = seen[reviewed.ID]
	a, _, err := w.BeginAttempt(ctx, b)
	require.NoError(t, err)
	w.db.Exec(t, `UPDATE payments SET needs_review = '{aged}' WHERE id = $1`, reviewed.ID)
	o := object(reviewed, "pay_1", provider.Succeeded)
	f := store.FinishParams{AttemptID: a.ID, Charged: answered(provider.Succeeded, &o), Seen: b.Seen}
	require.False(t, w.FinishTogether(ctx, reviewed.ID, f, callOf(reviewed, f.Charged)), "a review is cleared, which is not plain")
	w.finishAlone(reviewed, f)
	after := w.get(reviewed.ID)
	require.Equal(t, store.Succeeded, after.Status)
	require.Empty(t, after.NeedsReview)
}

// One that cannot go with the others neither takes them down nor is lost.
func TestTogetherWithOneThatIsNotPlain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 40
	busy := w.create()
	w.charge(busy.ID, timedOut())
	wrong := uuid.New()
	var mu sync.Mutex
	errs := map[int]error{}
	made := map[int]store.Created{}
	twice := newPayment()
	w.parallel(n, func(i int) error {
		p := newPayment()
		switch i {
		case 5:
			p.OrderRef = busy.OrderRef
		case 6:
			p.WalletID = &wrong
		case 7, 8, 9:
			p = twice
		case 10:
			p = twice
			p.Amount++
		}
		c, err := w.CreatePayment(ctx, p, apiClient)
		mu.Lock()
		defer mu.Unlock()
		errs[i], made[i] = err, c
		return nil
	})
	first := 0
	for i := range n {
		switch {
		case i == 5:
			var b *store.OrderBusyError
			require.ErrorAs(t, errs[i], &b)
			require.Equal(t, busy.ID, b.PaymentID)
		case i == 6:
			require.ErrorIs(t, errs[i], store.ErrWalletNotFound)
		case i >= 7 && i <= 10 && errs[i] != nil:
			require.ErrorIs(t, errs[i], store.ErrKeyReused)
		case i >= 7 && i <= 10:
			if !made[i].Replayed {
				first++
			}
		default:
			require.NoError(t, errs[i])
			require.False(t, made[i].Replayed)
		}
	}
	require.Equal(t, 1, first, "one key, one payment")
	require.Equal(t, n-2-3+1, w.count(`SELECT count(*) FROM payments`))
	require.Equal(t, n-2-3+1, w.count(`SELECT count(*) FROM payment_events WHERE kind = 'created'`))
	require.Equal(t, n-2-3+1, w.jobs.Live(t, "charge"))
}

// Attempts that begin and end together: one for each payment, whoever asks twice, and
// none while a provider is paused.
func TestAttemptsTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 30
	var list []store.Payment
	for i := range n {
		list = append(list, w.create(func(p *store.NewPayment) {
			if i == 3 {
				p.Provider = "borealis"
			}
		}))
	}
	require.NoError(t, w.tx(func(tx pgx.Tx) error { return w.PauseCharges(ctx, tx, "borealis", "test") }))
	var mu sync.Mutex
	marks, refused := map[uuid.UUID][]store.Attempt{}, map[uuid.UUID][]error{}
	w.parallel(2*n, func(i int) error {
		p := list[i%n]
		b := begin(p.ID)
		if i%2 == 0 {
			c, err := w.Chargeable(ctx, p.ID)
			if err != nil {
				return err
			}
			b.Seen = c.Seen()
		}
		a, _, err := w.BeginAttempt(ctx, b)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			refused[p.ID] = append(refused[p.ID], err)
		} else {
			marks[p.ID] = append(marks[p.ID], a)
		}
		return nil
	})
	for i, p := range list {
		if i == 3 {
			require.Empty(t, marks[p.ID])
			require.ErrorIs(t, refused[p.ID][0], store.ErrPaused)
			continue
		}
		require.Len(t, marks[p.ID], 1, "one mark")
		require.ErrorIs(t, refused[p.ID][0], store.ErrInFlight)
	}

	// Two payments are answered with one object: the second is not its owner.
	w.parallel(n, func(i int) error {
		p := list[i]
		if i == 3 {
			return nil
		}
		id := "obj-" + p.ID.String()
		if i == 5 {
			id = "obj-" + list[4].ID.String()
		}
		o := object(p, id, provider.Succeeded)
		c := answered(provider.Succeeded, &o)
		f := store.FinishParams{AttemptID: marks[p.ID][0].ID, Charged: c, ReconcileAt: w.Now().Add(time.Minute)}
		if !w.FinishTogether(ctx, p.ID, f, callOf(p, c)) {
			w.finishAlone(p, f)
		}
		return nil
	})
	require.Equal(t, n-2, w.count(`SELECT count(*) FROM payments WHERE status = 'succeeded'`))
	four, five := w.get(list[4].ID), w.get(list[5].ID)
	require.ElementsMatch(t, []store.Status{store.Succeeded, store.Unknown}, []store.Status{four.Status, five.Status})
	require.Equal(t, n-1, w.count(`SELECT count(*) FROM call_outcomes`))
	require.Equal(t, n-1, w.count(`SELECT count(*) FROM attempts WHERE outcome = 'succeeded'`))
	require.Equal(t, n-1, w.count(`SELECT count(*) FROM payment_events WHERE kind = 'attempt_finished'`))
}
