-- More of what is written for every payment and read by nobody: what is in flight has an
-- index of its own, small enough to be read whole, and nobody asks River for jobs of a kind.
--
-- payments_by_order stays for the programs of before, which find orders by it while they are
-- replaced one after another. Each statement is a transaction of its own, so that no lock is
-- held for longer than it takes. Not CONCURRENTLY: that would wait for the statements of
-- processes that start now, which wait for this migration.
-- +goose NO TRANSACTION
-- +goose Up
DROP INDEX IF EXISTS attempts_overdue;
DROP INDEX IF EXISTS river_job_kind;

-- +goose Down
CREATE INDEX IF NOT EXISTS river_job_kind ON river_job (kind);
CREATE INDEX IF NOT EXISTS attempts_overdue ON attempts (deadline) WHERE outcome IS NULL;
