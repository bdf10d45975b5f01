-- +goose Up

-- Queues that a person stopped, and until when. River holds the pause itself; this says
-- who, why and for how long, and outlives River's own row of an idle queue.
CREATE TABLE queue_pauses (
    queue     text PRIMARY KEY,
    reason    text NOT NULL,
    paused_by text NOT NULL,
    paused_at timestamptz NOT NULL,
    until     timestamptz
);

-- A person's actions are those of the console and of the command line; the other tabs of
-- the audit log read their own index too.
DROP INDEX audit_log_people;
CREATE INDEX audit_log_people ON audit_log (id DESC) WHERE actor LIKE 'user:%' OR actor LIKE 'system:cli%';
CREATE INDEX audit_log_clients ON audit_log (id DESC) WHERE actor LIKE 'client:%';
CREATE INDEX audit_log_actor ON audit_log (actor, id DESC);
CREATE INDEX audit_log_at ON audit_log (at);

-- +goose Down
DROP INDEX audit_log_at, audit_log_actor, audit_log_clients, audit_log_people;
CREATE INDEX audit_log_people ON audit_log (id DESC) WHERE actor LIKE 'user:%';
DROP TABLE queue_pauses;
