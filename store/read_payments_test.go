package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fusebox/provider"
	"fusebox/store"
	"fusebox/store/storetest"
)

// reading is a store on a fresh database, for tests that only read seeded rows.
type reading struct {
	*store.Store
	db *storetest.DB
}

func newReading(t *testing.T) reading {
	t.Helper()
	db := storetest.New(t)
	now := func() time.Time { return storetest.Epoch.Add(time.Hour) }
	return reading{Store: store.New(db.Pool, store.Options{Now: now}), db: db}
}

func refs(ps []store.Payment) []string {
	out := []string{}
	for _, p := range ps {
		out = append(out, p.OrderRef)
	}
	return out
}

func TestListPaymentsPagesBothWaysWithoutGapsOrRepeats(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), context.Background()
	for i := range 7 {
		r.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef = fmt.Sprintf("o%d", i) })
	}
	top, err := r.ListPayments(ctx, store.PaymentFilter{}, store.Keyset{Limit: 3})
	require.NoError(t, err)
	require.Equal(t, []string{"o6", "o5", "o4"}, refs(top.Payments))
	require.True(t, top.Older)
	require.False(t, top.Newer)

	second, err := r.ListPayments(ctx, store.PaymentFilter{}, store.Keyset{Limit: 3, After: top.Payments[2].ID})
	require.NoError(t, err)
	require.Equal(t, []string{"o3", "o2", "o1"}, refs(second.Payments))
	require.True(t, second.Older)
	require.True(t, second.Newer)

	last, err := r.ListPayments(ctx, store.PaymentFilter{}, store.Keyset{Limit: 3, After: second.Payments[2].ID})
	require.NoError(t, err)
	require.Equal(t, []string{"o0"}, refs(last.Payments))
	require.False(t, last.Older)

	back, err := r.ListPayments(ctx, store.PaymentFilter{}, store.Keyset{Limit: 3, Before: second.Payments[0].ID})
	require.NoError(t, err)
	require.Equal(t, refs(top.Payments), refs(back.Payments))
	require.False(t, back.Newer)
}

func TestATopKeepsAListStillAndCountsWhatIsNew(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), context.Background()
	old := r.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef = "old" })
	for range 3 {
		r.db.SeedPayment(t, func(p *store.Payment) { p.OrderRef = "new" })
	}
	page, err := r.ListPayments(ctx, store.PaymentFilter{}, store.Keyset{Top: old.ID})
	require.NoError(t, err)
	require.Equal(t, []string{"old"}, refs(page.Payments))
	n, err := r.CountNewer(ctx, store.PaymentFilter{}, old.ID)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	n, err = r.CountNewer(ctx, store.PaymentFilter{Status: store.Failed}, old.ID)
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestListPaymentsFilters(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), context.Background()
	seed := func(ref string, change func(*store.Payment)) store.Payment {
		return r.db.SeedPayment(t, func(p *store.Payment) {
			p.OrderRef, p.Status = ref, store.Succeeded
			p.CustomerName, p.CustomerEmail = "Nobody", "nobody@example.org"
			change(p)
		})
	}
	unknown := seed("A-1", func(p *store.Payment) { p.Status = store.Unknown })
	seed("A-2", func(p *store.Payment) { p.NeedsReview = []string{store.ReviewAmountMismatch, store.ReviewAged} })
	seed("B-3", func(p *store.Payment) { p.Provider, p.ProviderPaymentID = "borealis", "pay_77" })
	seed("B_4", func(p *store.Payment) { p.Amount, p.Currency = 500, "JPY" })
	seed("c-5", func(p *store.Payment) {
		p.CustomerEmail, p.CreatedAt = "zoe@example.org", storetest.Epoch.Add(48*time.Hour)
	})

	day := storetest.Epoch.Add(24 * time.Hour)
	for name, c := range map[string]struct {
		f    store.PaymentFilter
		want []string
	}{
		"status":                   {store.PaymentFilter{Status: store.Unknown}, []string{"A-1"}},
		"any review":               {store.PaymentFilter{Review: "any"}, []string{"A-2"}},
		"one review reason":        {store.PaymentFilter{Review: store.ReviewAged}, []string{"A-2"}},
		"other review reason":      {store.PaymentFilter{Review: store.ReviewDuplicate}, []string{}},
		"provider":                 {store.PaymentFilter{Provider: "borealis"}, []string{"B-3"}},
		"currency":                 {store.PaymentFilter{Currency: "JPY"}, []string{"B_4"}},
		"from":                     {store.PaymentFilter{From: day}, []string{"c-5"}},
		"to":                       {store.PaymentFilter{To: day}, []string{"B_4", "B-3", "A-2", "A-1"}},
		"text, any case":           {store.PaymentFilter{Text: "a-"}, []string{"A-2", "A-1"}},
		"text with a LIKE wild":    {store.PaymentFilter{Text: "B_"}, []string{"B_4"}},
		"text as customer":         {store.PaymentFilter{Text: "ZOE@"}, []string{"c-5"}},
		"text as provider id":      {store.PaymentFilter{Text: "pay_77"}, []string{"B-3"}},
		"text as payment id":       {store.PaymentFilter{Text: unknown.ID.String()}, []string{"A-1"}},
		"text with quotes":         {store.PaymentFilter{Text: `'; DROP TABLE payments; --`}, []string{}},
		"amount in its currency":   {store.PaymentFilter{Amounts: []provider.Money{{Amount: 500, Currency: "JPY"}}}, []string{"B_4"}},
		"amount, another currency": {store.PaymentFilter{Amounts: []provider.Money{{Amount: 500, Currency: "EUR"}}}, []string{}},
	} {
		page, err := r.ListPayments(ctx, c.f, store.Keyset{})
		require.NoError(t, err, name)
		require.Equal(t, c.want, refs(page.Payments), name)
	}
}

func TestCountPaymentsCountsEveryTabUnderTheFilter(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), context.Background()
	for _, st := range []store.Status{store.Unknown, store.Unknown, store.Failed, store.Succeeded} {
		r.db.SeedPayment(t, func(p *store.Payment) { p.Status = st })
	}
	r.db.SeedPayment(t, func(p *store.Payment) {
		p.Provider, p.Status, p.NeedsReview = "borealis", store.Succeeded, []string{store.ReviewDuplicate}
	})
	all, err := r.CountPayments(ctx, store.PaymentFilter{Status: store.Failed})
	require.NoError(t, err)
	require.Equal(t, 5, all.All)
	require.Equal(t, 1, all.Review)
	require.Equal(t, map[store.Status]int{
		store.Unknown: 2, store.Failed: 1, store.Succeeded: 2, store.Pending: 0, store.Processing: 0, store.RequiresAction: 0,
	}, all.ByStatus)
	one, err := r.CountPayments(ctx, store.PaymentFilter{Provider: "borealis"})
	require.NoError(t, err)
	require.Equal(t, 1, one.All)
}

func TestCountsStopAtTheCap(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), context.Background()
	r.db.Exec(t, `INSERT INTO payments (id, client_id, idempotency_key, request_hash, order_ref, provider, amount, currency,
		status, created_at, updated_at) SELECT gen_random_uuid(), 'test', n::text, '', 'o' || n, 'atlas', 100, 'EUR',
		'succeeded', now(), now() FROM generate_series(1, $1) n`, store.CountCap+500)
	c, err := r.CountPayments(ctx, store.PaymentFilter{})
	require.NoError(t, err)
	require.Equal(t, store.CountCap+1, c.All)
	require.Equal(t, store.CountCap+1, c.ByStatus[store.Succeeded])

	n := 0
	require.NoError(t, r.StreamPayments(ctx, store.PaymentFilter{}, func(store.Payment) error { n++; return nil }))
	require.Equal(t, store.CountCap+500, n, "an export is never cut")
}

func TestDossierHoldsAllEvidence(t *testing.T) {
	t.Parallel()
	r, ctx := newReading(t), context.Background()
	wallet := r.db.SeedWallet(t, "acme", "EUR", 1000)
	p := r.db.SeedPayment(t, func(p *store.Payment) { p.WalletID = &wallet })
	other := r.db.SeedPayment(t, nil)
	user := uuid.New()
	r.db.Exec(t, `INSERT INTO users (id, email, name, role, password_hash, created_at) VALUES ($1,'o@example.org','Olena','operator','x',now())`, user)
	r.db.SeedAttempt(t, p, nil)
	r.db.SeedAttempt(t, other, nil)
	r.db.SeedEvent(t, p, store.TimelineEvent{Kind: "created", Source: "api", Actor: "client:test", ToStatus: store.Pending})
	r.db.SeedEvent(t, p, store.TimelineEvent{Kind: "operator", Source: "operator", Actor: "user:" + user.String()})
	r.db.SeedWebhook(t, func(e *store.InboxEvent) { e.PaymentID = &p.ID })
	r.db.SeedWebhook(t, func(e *store.InboxEvent) { e.PaymentID = &other.ID })
	r.db.SeedObject(t, p, func(o *store.ProviderObject) { o.Amount = 4800 })
	r.db.Exec(t, `UPDATE wallet_entries SET payment_id = $1`, p.ID)

	d, err := r.Dossier(ctx, p.ID)
	require.NoError(t, err)
	require.Equal(t, p.OrderRef, d.Payment.OrderRef)
	require.Len(t, d.Attempts, 1)
	require.Equal(t, 1, d.Attempts[0].WireSends)
	require.Len(t, d.Events, 2)
	require.Len(t, d.Webhooks, 1)
	require.Len(t, d.Objects, 1)
	require.EqualValues(t, 4800, d.Objects[0].Amount)
	require.EqualValues(t, 1000, d.Wallet.Balance)
	require.Len(t, d.Entries, 1)
	require.Equal(t, "Olena", d.Names["user:"+user.String()])

	_, err = r.Dossier(ctx, uuid.New())
	require.ErrorIs(t, err, store.ErrNotFound)
}
