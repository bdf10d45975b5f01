package store

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"fusebox/provider"
)

// plain reports whether a delivery is signed and tells one event that concerns us: what
// may be stored together with others. Whether the event is new only its row can tell.
func (d Delivery) plain() bool {
	return d.Verification.Verdict == provider.SignatureValid && d.ParseError == "" && len(d.Events) == 1 &&
		d.Events[0].Interesting && ident(d.Events[0].Key) != ""
}

// receiveTogether stores plain deliveries whose event is new, with their work. A repeat,
// here or of an earlier one, goes alone and is counted.
func (s *Store) receiveTogether(ctx context.Context, list []Delivery) (ids []int64, did []bool, err error) {
	ids, did = make([]int64, len(list)), make([]bool, len(list))
	err = s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		clear(did)
		at := map[[2]string]int{}
		var first []Delivery
		var rows []inboxRow
		for i, d := range list {
			e := d.Events[0]
			name := [2]string{d.Provider, ident(e.Key)}
			if _, twice := at[name]; twice {
				continue
			}
			at[name] = i
			first, rows = append(first, d), append(rows, inboxRow{event: e, state: inboxReceived, facts: facts(e)})
		}
		made, err := s.insertInboxes(ctx, tx, first, rows)
		if err != nil || len(made) == 0 {
			return wrap(err, "store events")
		}
		work, providers := make([]int64, 0, len(made)), map[string]bool{}
		for name, id := range made {
			ids[at[name]], did[at[name]] = id, true
			work, providers[name[0]] = append(work, id), true
		}
		if err := s.enqueuer().Webhooks(ctx, tx, work); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(providers)) {
			if err := s.noteWebhook(ctx, tx, name); err != nil {
				return err
			}
		}
		return Notify(ctx, tx, TopicWebhooks)
	})
	return ids, did, err
}
