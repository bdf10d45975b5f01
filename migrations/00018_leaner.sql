-- More of what is written for every payment and that something else can do as well: orders
-- are found by their folded form, in which case matters again among the few it leaves;
-- what is in flight is in an index of its own, small enough to be read whole; times that
-- only grow need no entry for each row; and nobody asks River for jobs of a kind.
-- +goose Up
DROP INDEX payments_by_order;
DROP INDEX attempts_overdue;
DROP INDEX attempts_marked;
CREATE INDEX attempts_marked ON attempts USING brin (marked_at) WITH (pages_per_range = 32, autosummarize = on);
DROP INDEX call_outcomes_at;
CREATE INDEX call_outcomes_at ON call_outcomes USING brin (at) WITH (pages_per_range = 32, autosummarize = on);
DROP INDEX IF EXISTS river_job_kind;

-- +goose Down
CREATE INDEX IF NOT EXISTS river_job_kind ON river_job (kind);
DROP INDEX call_outcomes_at;
CREATE INDEX call_outcomes_at ON call_outcomes (at);
DROP INDEX attempts_marked;
CREATE INDEX attempts_marked ON attempts (marked_at);
CREATE INDEX attempts_overdue ON attempts (deadline) WHERE outcome IS NULL;
CREATE INDEX payments_by_order ON payments (order_ref);
