-- +goose Up

-- What a payment's charge took and what its refunds hold of it. Captured follows from
-- the status: a succeeded payment is captured whole.
ALTER TABLE payments
    ADD COLUMN captured_amount bigint NOT NULL GENERATED ALWAYS AS (CASE WHEN status = 'succeeded' THEN amount ELSE 0 END) STORED,
    ADD COLUMN refunds_held bigint NOT NULL DEFAULT 0,   -- written by triggers only
    ADD CONSTRAINT refunds_within_amount CHECK (refunds_held BETWEEN 0 AND amount);

-- Operations: what is done to a charge that exists. One row each, with a key, a status
-- and attempts of its own (attempts.operation is kind:seq). `status` is written by
-- store/operation_transitions.go only. None of them changes the payment's status.
CREATE TABLE operations (
    id                  uuid PRIMARY KEY,               -- uuid v7, made by us; the reference at the provider
    payment_id          uuid NOT NULL REFERENCES payments (id),
    kind                text NOT NULL CHECK (kind IN ('refund', 'capture', 'void')),
    seq                 int NOT NULL CHECK (seq > 0),   -- so that two equal refunds are two refunds
    origin              text NOT NULL CHECK (origin IN ('api', 'console', 'external')),
    client_id           text,                           -- scope of idempotency_key; null when external
    idempotency_key     text,                           -- a client's key, or a person's one-time action id
    request_hash        bytea,
    operation_key       text,                           -- idempotency key sent to the provider
    provider            text NOT NULL,
    provider_payment_id text NOT NULL,                  -- the charge it is done to, frozen
    amount              bigint NOT NULL CHECK (amount > 0),
    currency            text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    -- The part that the provider gave back although nothing was left of the charge. A
    -- fact cannot be refused, but no request of ours may ever have one.
    beyond              bigint NOT NULL DEFAULT 0,
    status              text NOT NULL CHECK (status IN ('pending', 'processing', 'unknown', 'succeeded', 'failed')),
    status_reason       text NOT NULL DEFAULT '',
    status_evidence     text NOT NULL DEFAULT '',
    needs_review        text[] NOT NULL DEFAULT '{}',
    provider_object_id  text,
    provider_message    text NOT NULL DEFAULT '',       -- the provider's own words; hostile text
    next_check_at       timestamptz,
    next_check_why      text NOT NULL DEFAULT '',
    lookups             int NOT NULL DEFAULT 0,
    absent_lookups      int NOT NULL DEFAULT 0,
    unknown_since       timestamptz,
    unknown_seen        boolean NOT NULL DEFAULT false,
    reason              text NOT NULL DEFAULT '',       -- why, in the words of whoever asked
    requested_by        text NOT NULL,                  -- "user:ID", "client:ID", "system:webhook"
    wallet_waived       boolean NOT NULL DEFAULT false, -- a person let the wallet keep what it could not give back
    version             bigint NOT NULL DEFAULT 1,
    created_at          timestamptz NOT NULL,
    updated_at          timestamptz NOT NULL,
    settled_at          timestamptz,
    CONSTRAINT operations_seq UNIQUE (payment_id, kind, seq),
    CONSTRAINT operations_idempotency UNIQUE (client_id, idempotency_key),
    CONSTRAINT operations_key UNIQUE (operation_key),
    CONSTRAINT operations_provider_object UNIQUE (provider, kind, provider_object_id),
    CONSTRAINT operations_origin CHECK ((origin = 'external') = (idempotency_key IS NULL)
        AND (origin = 'external') = (client_id IS NULL) AND (origin = 'external') = (operation_key IS NULL)),
    CONSTRAINT operations_beyond CHECK (beyond BETWEEN 0 AND amount AND (beyond = 0 OR provider_object_id IS NOT NULL AND status <> 'failed'))
);
CREATE INDEX operations_open ON operations (next_check_at) WHERE status IN ('pending', 'processing', 'unknown');
CREATE INDEX operations_waiting ON operations (provider, id) WHERE status IN ('pending', 'processing', 'unknown');
CREATE INDEX operations_review ON operations (id DESC) WHERE needs_review <> '{}';

-- The provider's own view of operations, as provider_objects is of charges.
CREATE TABLE operation_objects (
    provider      text NOT NULL,
    kind          text NOT NULL,
    object_id     text NOT NULL,
    operation_id  uuid NOT NULL REFERENCES operations (id),
    reference     text NOT NULL DEFAULT '',
    operation_key text NOT NULL DEFAULT '',
    status        text NOT NULL,
    outcome       text NOT NULL,
    amount        bigint NOT NULL,
    currency      text NOT NULL,
    source        text NOT NULL,
    first_seen_at timestamptz NOT NULL,
    seen_at       timestamptz NOT NULL,
    raw           bytea,
    outcome_at    timestamptz,
    status_at     timestamptz,
    succeeded_at  timestamptz,
    failed_at     timestamptz,
    equal_at      timestamptz,
    differs_at    timestamptz,
    made_at       timestamptz,
    PRIMARY KEY (provider, kind, object_id)
);
CREATE INDEX operation_objects_by_operation ON operation_objects (operation_id);

-- A request of ours for a refund, beyond what is left of the charge, is refused here,
-- whatever the code believed. The payment's row lock makes requests take turns.
-- +goose StatementBegin
CREATE FUNCTION refund_within_capture() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    pay payments%ROWTYPE;
    took bigint;
    held bigint;
BEGIN
    SELECT * INTO pay FROM payments WHERE id = NEW.payment_id FOR UPDATE;
    IF NEW.currency <> pay.currency OR NEW.provider <> pay.provider THEN
        RAISE EXCEPTION 'a refund is in the currency and at the provider of its payment'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'refund_within_capture';
    END IF;
    IF NEW.origin = 'external' THEN
        RETURN NEW;
    END IF;
    IF NEW.provider_payment_id = pay.provider_payment_id THEN
        took := pay.captured_amount;
    ELSE -- a duplicate of the charge: what it took by the provider's word
        SELECT o.amount INTO took FROM provider_objects o
        WHERE o.provider = NEW.provider AND o.object_id = NEW.provider_payment_id AND o.payment_id = pay.id
            AND o.succeeded_at IS NOT NULL AND o.currency = NEW.currency;
    END IF;
    SELECT coalesce(sum(amount - beyond), 0) INTO held FROM operations
    WHERE payment_id = pay.id AND kind = 'refund' AND status <> 'failed' AND provider_payment_id = NEW.provider_payment_id;
    IF NEW.amount > coalesce(took, 0) - held THEN
        RAISE EXCEPTION 'refund of % is more than is left of the charge', NEW.amount
            USING ERRCODE = 'check_violation', CONSTRAINT = 'refund_within_capture';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER refund_within_capture BEFORE INSERT ON operations
    FOR EACH ROW WHEN (NEW.kind = 'refund') EXECUTE FUNCTION refund_within_capture();

-- payments.refunds_held follows the refunds of the charge the payment rests on.
-- +goose StatementBegin
CREATE FUNCTION refunds_of_charge(payment uuid, charge text) RETURNS bigint LANGUAGE sql AS $$
    SELECT coalesce(sum(amount - beyond), 0)::bigint FROM operations
    WHERE payment_id = payment AND kind = 'refund' AND status <> 'failed' AND provider_payment_id = charge
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION hold_refunds() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE payments SET refunds_held = refunds_of_charge(id, provider_payment_id) WHERE id = NEW.payment_id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER hold_refunds AFTER INSERT OR UPDATE OF status, amount, beyond, provider_payment_id ON operations
    FOR EACH ROW WHEN (NEW.kind = 'refund') EXECUTE FUNCTION hold_refunds();
-- +goose StatementBegin
CREATE FUNCTION hold_refunds_of_other_charge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- The change of charge is a fact and must not be refused for its refunds' sake.
    NEW.refunds_held := least(refunds_of_charge(NEW.id, NEW.provider_payment_id), NEW.amount);
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER hold_refunds_of_other_charge BEFORE UPDATE OF provider_payment_id ON payments
    FOR EACH ROW WHEN (NEW.provider_payment_id IS DISTINCT FROM OLD.provider_payment_id) EXECUTE FUNCTION hold_refunds_of_other_charge();

-- The provider's running figure of refunds on a charge: a check, never an addition.
ALTER TABLE provider_objects
    ADD COLUMN refunded_total bigint,
    ADD COLUMN refunded_total_at timestamptz,
    ADD COLUMN refunds_differ_since timestamptz;        -- our refunds of this charge add up to something else
CREATE INDEX provider_objects_refunds_differ ON provider_objects (refunds_differ_since) WHERE refunds_differ_since IS NOT NULL;

-- Events about refunds and disputes name their charge.
ALTER TABLE webhook_events ADD COLUMN charge_id text NOT NULL DEFAULT '';
CREATE INDEX webhook_events_unmatched_charge ON webhook_events (provider, charge_id) WHERE state = 'unmatched' AND charge_id <> '';

-- Disputes: the bank took the money back, or may. Each fact is the latest by the
-- provider's clock, so the order in which events arrive does not matter.
CREATE TABLE disputes (
    id          uuid PRIMARY KEY,
    provider    text NOT NULL,
    dispute_id  text NOT NULL,                          -- the provider's id
    payment_id  uuid NOT NULL REFERENCES payments (id),
    charge_id   text NOT NULL DEFAULT '',
    amount      bigint NOT NULL DEFAULT 0 CHECK (amount >= 0),   -- at risk; 0: not said
    currency    text NOT NULL DEFAULT '',
    amount_at   timestamptz,
    state       text NOT NULL CHECK (state IN ('opened', 'won', 'lost')),
    state_at    timestamptz NOT NULL,
    reason      text NOT NULL DEFAULT '',               -- the provider's word
    due_by      timestamptz,                            -- when evidence has to be there
    due_by_at   timestamptz,
    opened_at   timestamptz,                            -- earliest mention by the provider's clock
    version     bigint NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    CONSTRAINT disputes_provider_id UNIQUE (provider, dispute_id)
);
CREATE INDEX disputes_by_payment ON disputes (payment_id, id);
CREATE INDEX disputes_open ON disputes (due_by, id) WHERE state = 'opened';

-- +goose Down
DROP TABLE disputes;
DROP INDEX webhook_events_unmatched_charge, provider_objects_refunds_differ;
ALTER TABLE webhook_events DROP COLUMN charge_id;
ALTER TABLE provider_objects DROP COLUMN refunded_total, DROP COLUMN refunded_total_at, DROP COLUMN refunds_differ_since;
DROP TRIGGER hold_refunds_of_other_charge ON payments;
DROP TABLE operation_objects, operations;
DROP FUNCTION refund_within_capture, hold_refunds, hold_refunds_of_other_charge, refunds_of_charge;
ALTER TABLE payments DROP CONSTRAINT refunds_within_amount, DROP COLUMN refunds_held, DROP COLUMN captured_amount;
