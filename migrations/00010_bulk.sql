-- +goose Up

-- One action on many rows. The set is frozen as rows when a person opens it: what
-- matches the filter later is not in it.
CREATE TABLE bulks (
    id           uuid PRIMARY KEY,
    kind         text NOT NULL CHECK (kind IN ('reconcile', 'reapply')),
    state        text NOT NULL CHECK (state IN ('checking', 'draft', 'running', 'cancelled', 'done')),
    filter       text NOT NULL DEFAULT '',              -- the filter as an address; empty: a selection, or everything
    selected     boolean NOT NULL DEFAULT false,        -- picked one by one
    total        int NOT NULL CHECK (total > 0),
    waits        jsonb NOT NULL DEFAULT '{}',           -- provider → until when its circuit lets nothing through
    created_by   text NOT NULL,
    created_at   timestamptz NOT NULL,
    started_by   text NOT NULL DEFAULT '',
    started_at   timestamptz,
    cancelled_by text NOT NULL DEFAULT '',
    ended_at     timestamptz,
    version      bigint NOT NULL DEFAULT 1
);
CREATE INDEX bulks_recent ON bulks (created_at DESC, id DESC);
CREATE INDEX bulks_live ON bulks (created_at) WHERE state IN ('checking', 'draft', 'running');

CREATE TABLE bulk_items (
    bulk_id    uuid NOT NULL REFERENCES bulks (id) ON DELETE CASCADE,
    seq        int NOT NULL,
    provider   text NOT NULL,
    payment_id uuid,
    event_id   bigint,
    expected   text NOT NULL DEFAULT '',                -- by the dry run: change, same, unreadable, ...
    expects    jsonb NOT NULL DEFAULT '{}',             -- what the dry run saw
    outcome    text NOT NULL DEFAULT '',                -- empty: not worked yet
    detail     text NOT NULL DEFAULT '',
    claimed_at timestamptz,                             -- somebody is on it
    done_at    timestamptz,
    PRIMARY KEY (bulk_id, seq),
    CHECK ((payment_id IS NULL) <> (event_id IS NULL))
);
CREATE UNIQUE INDEX bulk_items_once ON bulk_items (bulk_id, coalesce(payment_id::text, event_id::text));
CREATE INDEX bulk_items_open ON bulk_items (bulk_id, provider, seq) WHERE outcome = '';
CREATE INDEX bulk_items_unchecked ON bulk_items (bulk_id, seq) WHERE expected = '';

-- Every filter of the lists is a range of an index, in the list's order.
CREATE INDEX payments_provider_recent ON payments (provider, id DESC);
CREATE INDEX payments_currency_recent ON payments (currency, id DESC);
CREATE INDEX payments_created ON payments (created_at DESC, id DESC);
CREATE INDEX payments_reason ON payments (status_reason, id DESC) WHERE status_reason <> '';
CREATE INDEX payments_email_folded ON payments ((lower(customer_email)) COLLATE "C") WHERE customer_email <> '';
CREATE INDEX payments_name_folded ON payments ((lower(customer_name)) COLLATE "C") WHERE customer_name <> '';

CREATE INDEX webhook_events_type ON webhook_events (event_type, id DESC);
CREATE INDEX webhook_events_unsigned ON webhook_events (signature, id DESC) WHERE signature <> 'valid';
CREATE INDEX webhook_events_repeated ON webhook_events (id DESC) WHERE duplicates > 0;
CREATE INDEX webhook_events_state_of_provider ON webhook_events (provider, state, id DESC);

-- +goose Down
DROP INDEX webhook_events_state_of_provider, webhook_events_repeated, webhook_events_unsigned, webhook_events_type;
DROP INDEX payments_name_folded, payments_email_folded, payments_reason, payments_created, payments_currency_recent, payments_provider_recent;
DROP TABLE bulk_items, bulks;
