-- More of what is written for every payment and that something else can do as well: what is
-- in flight has an index of its own, small enough to be read whole; times that only grow
-- need no entry for each row; and nobody asks River for jobs of a kind.
--
-- payments_by_order stays for the programs of before, which find orders by it while they are
-- replaced one after another. Nothing here stops payments: no lock is held for long.
-- +goose NO TRANSACTION
-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS attempts_marked_range;
DROP INDEX CONCURRENTLY IF EXISTS call_outcomes_range;
CREATE INDEX CONCURRENTLY attempts_marked_range ON attempts USING brin (marked_at) WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX CONCURRENTLY call_outcomes_range ON call_outcomes USING brin (at) WITH (pages_per_range = 32, autosummarize = on);
DROP INDEX CONCURRENTLY IF EXISTS attempts_marked;
DROP INDEX CONCURRENTLY IF EXISTS attempts_overdue;
DROP INDEX CONCURRENTLY IF EXISTS call_outcomes_at;
DROP INDEX CONCURRENTLY IF EXISTS river_job_kind;

-- +goose Down
CREATE INDEX CONCURRENTLY IF NOT EXISTS river_job_kind ON river_job (kind);
CREATE INDEX CONCURRENTLY IF NOT EXISTS call_outcomes_at ON call_outcomes (at);
CREATE INDEX CONCURRENTLY IF NOT EXISTS attempts_overdue ON attempts (deadline) WHERE outcome IS NULL;
CREATE INDEX CONCURRENTLY IF NOT EXISTS attempts_marked ON attempts (marked_at);
DROP INDEX CONCURRENTLY IF EXISTS call_outcomes_range;
DROP INDEX CONCURRENTLY IF EXISTS attempts_marked_range;
