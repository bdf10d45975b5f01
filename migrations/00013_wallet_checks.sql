-- +goose Up

-- How far a wallet's entries were added up already: every entry up to entry_id, entries of
-- them with this sum, each agreeing with its balance_after. Only a check that found
-- nothing wrong is kept; the full proof (fusebox verify) does not read it.
CREATE TABLE wallet_checks (
    wallet_id  uuid PRIMARY KEY REFERENCES wallets (id) ON DELETE CASCADE,
    entry_id   bigint NOT NULL,
    sum        bigint NOT NULL,
    entries    bigint NOT NULL,
    checked_at timestamptz NOT NULL
);

-- The latest run of each provider is one probe.
CREATE INDEX reconciliation_runs_by_provider ON reconciliation_runs (provider, started_at DESC, id DESC);

-- +goose Down
DROP INDEX reconciliation_runs_by_provider;
DROP TABLE wallet_checks;
