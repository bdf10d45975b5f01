-- +goose Up

-- Payments: one row per payment the business asked for. `status` is written by
-- store/transitions.go only; a test scans the source for any other writer.
CREATE TABLE payments (
    id                  uuid PRIMARY KEY,               -- uuid v7, made by us
    client_id           text NOT NULL,                  -- scope of idempotency_key: an API key id, "checkout", "demo"
    idempotency_key     text NOT NULL,
    request_hash        bytea NOT NULL,                 -- SHA-256 of the parsed content, to tell a repeat from a reuse
    order_ref           text NOT NULL,
    provider            text NOT NULL,
    amount              bigint NOT NULL CHECK (amount > 0),  -- minor units
    currency            text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    description         text NOT NULL DEFAULT '',
    customer_name       text NOT NULL DEFAULT '',
    customer_email      text NOT NULL DEFAULT '',
    metadata            jsonb NOT NULL DEFAULT '{}',
    wallet_id           uuid,
    status              text NOT NULL CHECK (status IN ('pending','processing','requires_action','unknown','succeeded','failed')),
    status_reason       text NOT NULL DEFAULT '',
    status_evidence     text NOT NULL DEFAULT '',       -- what backs the status: answer, lookup, event, sync, operator
    needs_review        text[] NOT NULL DEFAULT '{}',
    provider_payment_id text,
    provider_message    text NOT NULL DEFAULT '',       -- the provider's own words on a decline; hostile text
    next_check_at       timestamptz,                    -- when something will look at a non-final payment again
    next_check_why      text NOT NULL DEFAULT '',       -- retry, reconcile, circuit_open, throttled, ...
    lookups             int NOT NULL DEFAULT 0,         -- lookups done since the payment became unknown or processing
    absent_lookups      int NOT NULL DEFAULT 0,         -- consecutive "not found" answers that count
    unknown_since       timestamptz,
    unknown_seen        boolean NOT NULL DEFAULT false, -- was unknown at any time
    version             bigint NOT NULL DEFAULT 1,
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL,
    settled_at          timestamptz,
    CONSTRAINT payments_idempotency UNIQUE (client_id, idempotency_key),
    CONSTRAINT payments_provider_object UNIQUE (provider, provider_payment_id)
);
CREATE INDEX payments_by_status ON payments (status, id DESC);
CREATE INDEX payments_by_provider ON payments (provider, status, id DESC);
CREATE INDEX payments_by_order ON payments (order_ref);
CREATE INDEX payments_open ON payments (next_check_at) WHERE status IN ('pending','processing','requires_action','unknown');
CREATE INDEX payments_review ON payments (id DESC) WHERE needs_review <> '{}';
CREATE INDEX payments_settled ON payments (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX payments_amount ON payments (amount);

-- Attempts: one row per intended send of a money call. Inserted, with sent_at
-- set, before the first byte leaves: a row without an outcome means "maybe sent".
CREATE TABLE attempts (
    id                  uuid PRIMARY KEY,
    payment_id          uuid NOT NULL REFERENCES payments (id),
    operation           text NOT NULL DEFAULT 'charge',
    seq                 int NOT NULL,
    operation_key       text NOT NULL,                  -- idempotency key sent to the provider
    request             bytea NOT NULL,                 -- frozen bytes; a later attempt of the operation repeats them
    request_hash        bytea NOT NULL,
    worker              text NOT NULL DEFAULT '',
    marked_at           timestamptz NOT NULL,           -- "maybe sent" from here on
    first_sent_at       timestamptz NOT NULL,           -- of the operation, not of this attempt
    replay_until        timestamptz NOT NULL,           -- the provider forgets the key after this
    deadline            timestamptz NOT NULL,           -- after this an attempt without outcome belongs to nobody
    wire_sends          int NOT NULL DEFAULT 0,
    http_status         int NOT NULL DEFAULT 0,
    content_type        text NOT NULL DEFAULT '',
    server              text NOT NULL DEFAULT '',
    provider_request_id text NOT NULL DEFAULT '',
    final_url           text NOT NULL DEFAULT '',
    response_body       bytea,                          -- redacted, capped
    outcome             text,                           -- null while in flight
    error_class         text NOT NULL DEFAULT '',
    breaker_verdict     text NOT NULL DEFAULT '',
    first_byte_sent_at  timestamptz,
    first_byte_at       timestamptz,
    finished_at         timestamptz,
    CONSTRAINT attempts_seq UNIQUE (payment_id, operation, seq)
);
CREATE INDEX attempts_marked ON attempts (marked_at);
CREATE UNIQUE INDEX attempts_one_in_flight ON attempts (payment_id, operation) WHERE outcome IS NULL;
CREATE INDEX attempts_overdue ON attempts (deadline) WHERE outcome IS NULL;

-- The timeline. Append-only; a trigger refuses updates and deletes.
CREATE TABLE payment_events (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payment_id  uuid NOT NULL,
    at          timestamptz NOT NULL,
    kind        text NOT NULL,        -- created, attempt_started, attempt_finished, lookup, webhook, sync, operator, review, snoozed, ...
    source      text NOT NULL,        -- api, job, webhook, sync, sweep, operator
    actor       text NOT NULL,        -- "system:charge", "user:ID", "client:ID"
    from_status text NOT NULL DEFAULT '',
    to_status   text NOT NULL DEFAULT '',   -- equal to from_status when nothing moved
    reason      text NOT NULL DEFAULT '',
    attempt_id  uuid,
    evidence    jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX payment_events_by_payment ON payment_events (payment_id, id);

-- The provider's own view of its objects, from answers, lookups, events and sync.
CREATE TABLE provider_objects (
    provider     text NOT NULL,
    object_id    text NOT NULL,
    payment_id   uuid,                 -- null: at the provider, not here
    reference    text NOT NULL DEFAULT '',
    operation_key text NOT NULL DEFAULT '',
    status       text NOT NULL,        -- the provider's word
    outcome      text NOT NULL,        -- our reading of it; "" when unlisted
    amount       bigint NOT NULL,
    currency     text NOT NULL,
    source       text NOT NULL,        -- answer, lookup, webhook, sync
    first_seen_at timestamptz NOT NULL,
    seen_at      timestamptz NOT NULL,
    raw          bytea,                -- redacted JSON as the provider sent it
    -- Evidence so far, each the latest time of an observation by the provider's clock.
    -- Merged by "later wins", so the order of arrival does not matter; see store/evidence.go.
    outcome_at   timestamptz NOT NULL DEFAULT now(),
    status_at    timestamptz NOT NULL DEFAULT now(),
    succeeded_at timestamptz,
    failed_at    timestamptz,
    equal_at     timestamptz,          -- money as we asked for
    differs_at   timestamptz,          -- other money, or none stated on a success
    made_at      timestamptz,          -- when the provider made it
    PRIMARY KEY (provider, object_id)
);
CREATE INDEX provider_objects_by_payment ON provider_objects (payment_id);
CREATE INDEX provider_objects_strangers ON provider_objects (provider, seen_at) WHERE payment_id IS NULL;

-- Webhook inbox: received and applied are two facts.
CREATE TABLE webhook_events (
    id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    provider           text NOT NULL,
    event_key          text,              -- null on rejected and unparsed rows
    event_type         text NOT NULL DEFAULT '',
    reference          text NOT NULL DEFAULT '',
    provider_object_id text NOT NULL DEFAULT '',
    raw                bytea NOT NULL,
    headers            jsonb NOT NULL DEFAULT '{}',
    signature          text NOT NULL,     -- valid, invalid, missing, too_old, in_future
    secret_label       text NOT NULL DEFAULT '',
    state              text NOT NULL CHECK (state IN ('received','applied','ignored','unmatched','unparsed','rejected')),
    state_reason       text NOT NULL DEFAULT '',
    payment_id         uuid,
    duplicates         int NOT NULL DEFAULT 0,   -- further deliveries of the same event
    tries              int NOT NULL DEFAULT 0,
    occurred_at        timestamptz,
    received_at        timestamptz NOT NULL,
    verified_at        timestamptz,
    applied_at         timestamptz,
    last_delivery_at   timestamptz NOT NULL,
    object_facts       text NOT NULL DEFAULT '',  -- status, amount and currency in the event, to tell a repeat from a contradiction
    CONSTRAINT webhook_events_key UNIQUE (provider, event_key)
);
CREATE INDEX webhook_events_by_state ON webhook_events (state, id DESC);
CREATE INDEX webhook_events_by_provider ON webhook_events (provider, id DESC);
CREATE INDEX webhook_events_by_payment ON webhook_events (payment_id);
CREATE INDEX webhook_events_unmatched ON webhook_events (provider, id) WHERE state = 'unmatched';

-- Reconciliation runs: our rows against the provider's list.
CREATE TABLE reconciliation_runs (
    id             uuid PRIMARY KEY,
    provider       text NOT NULL,
    window_from    timestamptz NOT NULL,
    window_to      timestamptz NOT NULL,
    cursor         text NOT NULL DEFAULT '',
    state          text NOT NULL CHECK (state IN ('running','paused','complete','abandoned')),
    pages          int NOT NULL DEFAULT 0,
    exceptions     int NOT NULL DEFAULT 0,
    paused_until   timestamptz,
    matched        int NOT NULL DEFAULT 0,
    ours_only      int NOT NULL DEFAULT 0,
    theirs_only    int NOT NULL DEFAULT 0,
    amount_differs int NOT NULL DEFAULT 0,
    status_differs int NOT NULL DEFAULT 0,
    duplicate      int NOT NULL DEFAULT 0,
    triggered_by   text NOT NULL,
    started_at     timestamptz NOT NULL,
    finished_at    timestamptz
);
CREATE UNIQUE INDEX reconciliation_runs_one_open ON reconciliation_runs (provider) WHERE state IN ('running','paused');
CREATE INDEX reconciliation_runs_recent ON reconciliation_runs (started_at DESC);

CREATE TABLE reconciliation_items (
    run_id     uuid NOT NULL REFERENCES reconciliation_runs (id),
    finding    text NOT NULL CHECK (finding IN ('matched','ours_only','theirs_only','amount_differs','status_differs','duplicate')),
    payment_id uuid,
    object_id  text NOT NULL DEFAULT '',
    detail     text NOT NULL DEFAULT '',
    at         timestamptz NOT NULL
);
CREATE UNIQUE INDEX reconciliation_items_once ON reconciliation_items (run_id, coalesce(payment_id, '00000000-0000-0000-0000-000000000000'), object_id);

-- Wallets. balance is always the sum of the entries; verify proves it.
CREATE TABLE wallets (
    id         uuid PRIMARY KEY,
    owner_ref  text NOT NULL UNIQUE,
    currency   text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    balance    bigint NOT NULL DEFAULT 0 CHECK (balance >= 0),
    held       bigint NOT NULL DEFAULT 0 CHECK (held >= 0),
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CHECK (held <= balance)
);
CREATE TABLE wallet_entries (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    wallet_id     uuid NOT NULL REFERENCES wallets (id),
    operation_id  text NOT NULL UNIQUE,
    amount        bigint NOT NULL CHECK (amount <> 0),   -- signed, minor units
    balance_after bigint NOT NULL,
    kind          text NOT NULL,      -- credit, debit, topup
    payment_id    uuid,
    note          text NOT NULL DEFAULT '',
    actor         text NOT NULL,
    created_at    timestamptz NOT NULL
);
CREATE INDEX wallet_entries_by_wallet ON wallet_entries (wallet_id, id DESC);

-- People, sessions, machine clients.
CREATE TABLE users (
    id            uuid PRIMARY KEY,
    email         text NOT NULL UNIQUE,           -- stored lower-case
    name          text NOT NULL,
    role          text NOT NULL CHECK (role IN ('support','operator','admin')),
    password_hash text NOT NULL,                  -- argon2id
    locale        text NOT NULL DEFAULT '',
    time_zone     text NOT NULL DEFAULT '',
    theme         text NOT NULL DEFAULT '',
    disabled      boolean NOT NULL DEFAULT false,
    created_at    timestamptz NOT NULL,
    last_seen_at  timestamptz
);
-- The shape scs/pgxstore expects.
CREATE TABLE sessions (
    token  text PRIMARY KEY,
    data   bytea NOT NULL,
    expiry timestamptz NOT NULL
);
CREATE INDEX sessions_expiry ON sessions (expiry);
CREATE TABLE api_keys (
    id           uuid PRIMARY KEY,
    name         text NOT NULL,
    prefix       text NOT NULL,                   -- shown in lists, e.g. fbk_3f9a
    secret_hash  bytea NOT NULL UNIQUE,           -- SHA-256 of a 256-bit random secret
    created_at   timestamptz NOT NULL,
    last_used_at timestamptz,
    revoked_at   timestamptz
);

-- Who did what. Append-only and without foreign keys, so it outlives what it names.
CREATE TABLE audit_log (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         timestamptz NOT NULL,
    actor      text NOT NULL,
    action     text NOT NULL,             -- payment.resolve, payment.reconcile, circuit.reset, user.add, ...
    target     text NOT NULL,             -- payment:ID, circuit:NAME/CLASS, ...
    before     jsonb NOT NULL DEFAULT '{}',
    after      jsonb NOT NULL DEFAULT '{}',
    reason     text NOT NULL DEFAULT '',
    request_id text NOT NULL DEFAULT ''
);
CREATE INDEX audit_log_by_target ON audit_log (target, id DESC);
-- The console opens on what people did; their rows are few among the engine's.
CREATE INDEX audit_log_people ON audit_log (id DESC) WHERE actor LIKE 'user:%';
-- One-time ids of console actions: the second POST of a form finds the first one's row.
CREATE TABLE console_actions (
    id         uuid PRIMARY KEY,
    actor      text NOT NULL,
    action     text NOT NULL,
    target     text NOT NULL,
    result     text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL
);

CREATE TABLE breaker_events (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    provider   text NOT NULL,
    class      text NOT NULL,
    epoch      text NOT NULL,
    from_state text NOT NULL,
    to_state   text NOT NULL,
    reason     text NOT NULL DEFAULT '',
    evidence   jsonb NOT NULL DEFAULT '{}',
    at         timestamptz NOT NULL,
    CONSTRAINT breaker_events_once UNIQUE (provider, class, epoch)
);
CREATE TABLE alerts (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind         text NOT NULL,           -- circuit_opened, circuit_closed, config_alarm, unknown_aged, contract_changed, redirects, ...
    severity     text NOT NULL CHECK (severity IN ('info','warning','critical')),
    provider     text NOT NULL DEFAULT '',
    title        text NOT NULL,
    detail       text NOT NULL DEFAULT '',
    dedupe_key   text NOT NULL UNIQUE,    -- one alert per fact
    payment_id   uuid,
    created_at   timestamptz NOT NULL,
    delivered_at timestamptz,
    deliveries   jsonb NOT NULL DEFAULT '[]'   -- [{"sink","at","ok","detail"}]
);
CREATE INDEX alerts_recent ON alerts (id DESC);

-- One row per provider call; feeds tuning and the provider strip. Pruned by age.
CREATE TABLE call_outcomes (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL,
    provider    text NOT NULL,
    class       text NOT NULL,            -- charge, status
    verdict     text NOT NULL,            -- ok, fail, neutral
    outcome     text NOT NULL,
    error_class text NOT NULL DEFAULT '',
    latency_us  bigint NOT NULL,
    worker      text NOT NULL DEFAULT '',
    payment_id  uuid
);
CREATE INDEX call_outcomes_recent ON call_outcomes (provider, class, at DESC);
CREATE INDEX call_outcomes_at ON call_outcomes (at);

-- Per provider switches that outlive a process: a queue paused by a 401, and the
-- webhook facts the silence alarm needs.
CREATE TABLE provider_state (
    provider          text PRIMARY KEY,
    charges_paused    boolean NOT NULL DEFAULT false,
    paused_reason     text NOT NULL DEFAULT '',
    paused_at         timestamptz,
    sync_watermark    timestamptz,
    last_webhook_at   timestamptz
);

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
END $$;
-- +goose StatementEnd
CREATE TRIGGER payment_events_append_only BEFORE UPDATE OR DELETE ON payment_events FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- +goose Down
DROP TABLE provider_state, call_outcomes, alerts, breaker_events, console_actions, audit_log, api_keys, sessions, users,
    wallet_entries, wallets, reconciliation_items, reconciliation_runs, webhook_events, provider_objects, payment_events, attempts, payments;
DROP FUNCTION refuse_change;
