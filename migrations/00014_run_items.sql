-- +goose Up

-- A run's items page by keyset, exceptions before matches. The finding stands last: one
-- kind is picked inside the index, without reading the rows of the others.
CREATE INDEX reconciliation_items_page ON reconciliation_items
    (run_id, (finding = 'matched'), object_id, coalesce(payment_id, '00000000-0000-0000-0000-000000000000'), finding);

-- Which runs saw an object that is at the provider and not here.
CREATE INDEX reconciliation_items_strangers ON reconciliation_items (object_id, at DESC) WHERE finding = 'theirs_only';

-- +goose Down
DROP INDEX reconciliation_items_strangers, reconciliation_items_page;
