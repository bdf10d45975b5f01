-- +goose Up

-- Who is at work on what, for some minutes. A lease keeps people from doing the same
-- work twice; it never holds back evidence. subject reads kind:id, as audit targets do.
CREATE TABLE leases (
    subject     text PRIMARY KEY,
    holder      uuid NOT NULL REFERENCES users ON DELETE CASCADE,
    holder_name text NOT NULL,
    taken_at    timestamptz NOT NULL,
    until       timestamptz NOT NULL
);
CREATE INDEX leases_until ON leases (until);

-- An amount in ten-thousandths of its currency's major unit, by the ISO 4217 decimals:
-- 49.00 EUR and 49 JPY are the same size here. It orders, it is never added up.
-- +goose StatementBegin
CREATE FUNCTION major_size(amount bigint, currency text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT amount * CASE
        WHEN currency IN ('BIF', 'CLP', 'DJF', 'GNF', 'ISK', 'JPY', 'KMF', 'KRW', 'PYG', 'RWF', 'UGX', 'UYI', 'VND', 'VUV', 'XAF', 'XOF', 'XPF') THEN 10000
        WHEN currency IN ('BHD', 'IQD', 'JOD', 'KWD', 'LYD', 'OMR', 'TND') THEN 10
        WHEN currency IN ('CLF', 'UYW') THEN 1
        ELSE 100 END
$$;
-- +goose StatementEnd

-- The work queue in its order: past the age limit first, then the larger ones, then the
-- oldest. Only what waits for a person is in it.
CREATE INDEX payments_answer ON payments
    ((needs_review @> '{aged}') DESC, major_size(amount, currency) DESC, coalesce(unknown_since, created_at), id)
    WHERE status = 'unknown' OR needs_review <> '{}';

-- What reconciliation runs found about one payment.
CREATE INDEX reconciliation_items_payment ON reconciliation_items (payment_id, at DESC) WHERE payment_id IS NOT NULL;

-- A decision above the limit waits for a second person. Only one is open per payment;
-- closed is empty while it is. version is the payment's that the proposer saw.
CREATE TABLE approvals (
    id          uuid PRIMARY KEY,
    payment_id  uuid NOT NULL REFERENCES payments,
    version     bigint NOT NULL,
    to_status   text NOT NULL CHECK (to_status IN ('succeeded', 'failed')),
    reason      text NOT NULL,
    evidence    text NOT NULL,
    by_user     uuid NOT NULL REFERENCES users ON DELETE CASCADE,
    by_name     text NOT NULL,
    at          timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    closed      text NOT NULL DEFAULT '' CHECK (closed IN ('', 'approved', 'declined', 'withdrawn', 'replaced'))
);
CREATE UNIQUE INDEX approvals_open ON approvals (payment_id) WHERE closed = '';

-- +goose Down
DROP TABLE approvals;
DROP INDEX reconciliation_items_payment;
DROP INDEX payments_answer;
DROP FUNCTION major_size;
DROP TABLE leases;
