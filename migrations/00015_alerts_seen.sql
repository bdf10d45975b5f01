-- +goose Up

-- Who took notice of an alert, when, and what they had to say. One that is known to
-- somebody stays on the list and leaves the count beside its name in the navigation.
ALTER TABLE alerts
    ADD COLUMN acknowledged_at   timestamptz,
    ADD COLUMN acknowledged_by   text NOT NULL DEFAULT '',   -- user:ID
    ADD COLUMN acknowledged_name text NOT NULL DEFAULT '',   -- as it was then
    ADD COLUMN acknowledged_note text NOT NULL DEFAULT '';
CREATE INDEX alerts_open ON alerts (id DESC) INCLUDE (severity) WHERE acknowledged_at IS NULL;

-- +goose Down
DROP INDEX alerts_open;
ALTER TABLE alerts DROP COLUMN acknowledged_note, DROP COLUMN acknowledged_name, DROP COLUMN acknowledged_by, DROP COLUMN acknowledged_at;
