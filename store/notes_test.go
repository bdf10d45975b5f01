package store_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fusebox/store"
	"fusebox/store/storetest"
)

func TestNotesAreKeptOnceAndForGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.create()
	id := uuid.New()
	for i, first := range []bool{true, false} {
		got, err := w.AddNote(ctx, id, p.ID, "  <b>Called</b> the customer\x00 ", someone)
		require.NoError(t, err)
		require.Equal(t, first, got, i)
	}
	d, err := w.Dossier(ctx, p.ID)
	require.NoError(t, err)
	require.Equal(t, 1, d.Notes)
	last := d.Events[len(d.Events)-1]
	require.Equal(t, []any{"note", "operator", someone.String(), store.Pending, store.Pending}, []any{last.Kind, last.Source, last.Actor, last.FromStatus, last.ToStatus})
	require.Equal(t, "<b>Called</b> the customer", last.Evidence["note"])
	require.Equal(t, p.Version, w.get(p.ID).Version, "a note is nobody's conflict")
	require.Equal(t, 1, w.count(`SELECT count(*) FROM audit_log WHERE action = 'payment.note' AND after = '{"characters": 26}'`))
	counts, err := w.NoteCounts(ctx, []uuid.UUID{p.ID, w.create().ID})
	require.NoError(t, err)
	require.Equal(t, map[uuid.UUID]int{p.ID: 1}, counts)
	_, err = w.db.Pool.Exec(ctx, `UPDATE payment_events SET evidence = '{}' WHERE kind = 'note'`)
	require.ErrorContains(t, err, "append-only")
}

func TestNotesRefuseWhatIsNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, id := w.create(), uuid.New()
	for name, text := range map[string]string{"empty": "", "blank": " \n\t ", "too long": strings.Repeat("є", store.MaxNote+1)} {
		_, err := w.AddNote(ctx, uuid.New(), p.ID, text, someone)
		require.ErrorIs(t, err, store.ErrNotAllowed, name)
	}
	_, err := w.AddNote(ctx, uuid.New(), uuid.New(), "lost", someone)
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = w.AddNote(ctx, id, p.ID, strings.Repeat("є", store.MaxNote), someone)
	require.NoError(t, err)
	other := store.Actor{Kind: "user", ID: uuid.NewString()}
	_, err = w.AddNote(ctx, id, p.ID, "with another's id", other)
	require.ErrorIs(t, err, store.ErrNotAllowed, "an action id belongs to one person")
	require.Equal(t, 1, w.count(`SELECT count(*) FROM payment_events WHERE kind = 'note'`))
}

func TestRevealingIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.db.SeedPayment(t, nil)
	a := w.db.SeedAttempt(t, p, func(a *store.Attempt) { a.ResponseBody, a.ContentType = []byte(`{"name":"Ada"}`), "application/json" })
	silent := w.db.SeedAttempt(t, p, func(a *store.Attempt) { a.Seq = 2 })
	w.db.SeedObject(t, p, func(o *store.ProviderObject) { o.ObjectID, o.Raw = "pay_1", []byte(`{"id":"pay_1"}`) })
	r := store.RevealParams{ActionID: uuid.New(), PaymentID: p.ID, AttemptID: a.ID, Reason: "the bank asks", By: someone}
	for range 2 {
		got, err := w.Reveal(ctx, r)
		require.NoError(t, err)
		require.JSONEq(t, `{"name":"Ada"}`, string(got.Body))
	}
	object := r
	object.ActionID, object.AttemptID, object.ObjectID = uuid.New(), uuid.Nil, "pay_1"
	got, err := w.Reveal(ctx, object)
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"pay_1"}`, string(got.Body))
	require.Equal(t, 2, w.count(`SELECT count(*) FROM audit_log WHERE action = 'payment.reveal' AND reason = 'the bank asks' AND actor = '`+someone.String()+`'`))
	require.Equal(t, 2, w.count(`SELECT count(*) FROM payment_events WHERE kind = 'revealed' AND reason = 'the bank asks'`))

	for name, c := range map[string]struct {
		change func(*store.RevealParams)
		want   error
	}{
		"no reason":        {func(r *store.RevealParams) { r.Reason = " " }, store.ErrNotAllowed},
		"no answer came":   {func(r *store.RevealParams) { r.AttemptID = silent.ID }, store.ErrNotFound},
		"other payment":    {func(r *store.RevealParams) { r.PaymentID = w.create().ID }, store.ErrNotFound},
		"no such object":   {func(r *store.RevealParams) { r.ObjectID = "pay_2" }, store.ErrNotFound},
		"another's action": {func(r *store.RevealParams) { r.ActionID, r.By.ID = object.ActionID, uuid.NewString() }, store.ErrNotAllowed},
	} {
		bad := r
		bad.ActionID = uuid.New()
		c.change(&bad)
		_, err := w.Reveal(ctx, bad)
		require.ErrorIs(t, err, c.want, name)
	}
	require.Equal(t, 2, w.count(`SELECT count(*) FROM payment_events WHERE kind = 'revealed'`))
}

func TestTimelineComesInParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.db.SeedPayment(t, nil)
	w.db.Exec(t, `INSERT INTO payment_events (payment_id, at, kind, source, actor, from_status, to_status)
		SELECT $1, $2::timestamptz + n * interval '1 minute', CASE WHEN n % 5 = 0 THEN 'note' WHEN n % 2 = 0 THEN 'lookup' ELSE 'snoozed' END,
			'job', CASE WHEN n % 5 = 0 THEN $3 ELSE 'system:job' END, 'unknown', 'unknown' FROM generate_series(1, 100) n`, p.ID, storetest.Epoch, someone.String())
	for n := range 20 {
		w.db.SeedWebhook(t, func(e *store.InboxEvent) {
			e.PaymentID, e.ReceivedAt = &p.ID, storetest.Epoch.Add(time.Duration(n)*5*time.Minute)
		})
	}
	for who, want := range map[string][2]int{"": {100, 20}, store.VoicePeople: {20, 0}, store.VoiceProvider: {40, 20}, store.VoiceEngine: {40, 0}} {
		events, received, q := map[int64]bool{}, map[int64]bool{}, store.TimelineQuery{Who: who, Limit: 7}
		for pages := 0; ; pages++ {
			require.Less(t, pages, 30)
			d, err := w.DossierAt(ctx, p.ID, q)
			require.NoError(t, err)
			require.LessOrEqual(t, len(d.Events)+len(d.Received), 7)
			for _, e := range d.Events {
				require.False(t, events[e.ID], "twice")
				events[e.ID] = true
			}
			for _, e := range d.Received {
				require.False(t, received[e.ID], "twice")
				received[e.ID] = true
			}
			if d.Earlier == nil {
				break
			}
			at, ok := store.ParseTimelineCursor(d.Earlier.String())
			require.True(t, ok)
			q.Before = &at
		}
		require.Equal(t, want, [2]int{len(events), len(received)}, "who %q", who)
	}
	for _, bad := range []string{"", ".", "1", "a.", ".b", "-1.2", "1.-2", "0.0", "1.2.3", "é.1"} {
		_, ok := store.ParseTimelineCursor(bad)
		require.False(t, ok, bad)
	}
}

// tracer counts what goes over the wire; a batch is one round trip.
type tracer struct{ queries, batches atomic.Int32 }

func (t *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	t.queries.Add(1)
	return ctx
}
func (t *tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (t *tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	t.batches.Add(1)
	return ctx
}
func (t *tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (t *tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func TestADossierIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.db.SeedPayment(t, nil)
	for i := range 30 {
		w.db.SeedAttempt(t, p, func(a *store.Attempt) { a.Seq = i + 1 })
		w.db.SeedEvent(t, p, store.TimelineEvent{Kind: "lookup", Source: "job", Actor: "user:" + uuid.NewString()})
	}
	wire := &tracer{}
	pool, err := store.Open(ctx, w.db.DSN, "fusebox-test", 2, wire)
	require.NoError(t, err)
	defer pool.Close()
	d, err := store.New(pool, store.Options{}).Dossier(ctx, p.ID)
	require.NoError(t, err)
	require.Len(t, d.Attempts, 30)
	require.Equal(t, []int32{2, 1}, []int32{wire.queries.Load(), wire.batches.Load()}, "begin, everything at once, commit")
}
