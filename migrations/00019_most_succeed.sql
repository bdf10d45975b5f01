-- Nearly every payment ends as succeeded, and each index that it is in is written when it is
-- made and again when it is settled. A list of one status, or of one at a provider, is worth an
-- index for the few of the others; what has succeeded is found walking down the newest, most of
-- which have, of a provider without leaving its index. So it is with webhooks, nearly all of
-- which are applied. Nothing has a provider's id before it is settled, and nobody finds orders
-- by their exact case any more.
--
-- Each statement is a transaction of its own, so that no lock is held for longer than it takes;
-- each new index is there before the one it takes the place of goes. Not CONCURRENTLY, see 00018.
-- +goose NO TRANSACTION
-- +goose Up
DROP INDEX IF EXISTS payments_by_order;
CREATE INDEX IF NOT EXISTS payments_other_status ON payments (status, id DESC) WHERE status <> 'succeeded';
DROP INDEX IF EXISTS payments_by_status;
CREATE INDEX IF NOT EXISTS payments_other_at_provider ON payments (provider, status, id DESC) WHERE status <> 'succeeded';
DROP INDEX IF EXISTS payments_by_provider;
CREATE INDEX IF NOT EXISTS payments_at_provider ON payments (provider, id DESC) INCLUDE (status);
DROP INDEX IF EXISTS payments_provider_recent;
CREATE UNIQUE INDEX IF NOT EXISTS payments_object ON payments (provider, provider_payment_id) WHERE provider_payment_id IS NOT NULL;
ALTER TABLE payments DROP CONSTRAINT IF EXISTS payments_provider_object;
CREATE INDEX IF NOT EXISTS webhook_events_other_state ON webhook_events (state, id DESC) WHERE state <> 'applied';
DROP INDEX IF EXISTS webhook_events_by_state;
CREATE INDEX IF NOT EXISTS webhook_events_other_at_provider ON webhook_events (provider, state, id DESC) WHERE state <> 'applied';
DROP INDEX IF EXISTS webhook_events_state_of_provider;
CREATE INDEX IF NOT EXISTS webhook_events_at_provider ON webhook_events (provider, id DESC) INCLUDE (state);
DROP INDEX IF EXISTS webhook_events_by_provider;

-- +goose Down
CREATE INDEX IF NOT EXISTS webhook_events_by_provider ON webhook_events (provider, id DESC);
DROP INDEX IF EXISTS webhook_events_at_provider;
CREATE INDEX IF NOT EXISTS webhook_events_state_of_provider ON webhook_events (provider, state, id DESC);
DROP INDEX IF EXISTS webhook_events_other_at_provider;
CREATE INDEX IF NOT EXISTS webhook_events_by_state ON webhook_events (state, id DESC);
DROP INDEX IF EXISTS webhook_events_other_state;
CREATE UNIQUE INDEX IF NOT EXISTS payments_provider_object ON payments (provider, provider_payment_id);
ALTER TABLE payments ADD CONSTRAINT payments_provider_object UNIQUE USING INDEX payments_provider_object;
DROP INDEX IF EXISTS payments_object;
CREATE INDEX IF NOT EXISTS payments_provider_recent ON payments (provider, id DESC);
DROP INDEX IF EXISTS payments_at_provider;
CREATE INDEX IF NOT EXISTS payments_by_provider ON payments (provider, status, id DESC);
DROP INDEX IF EXISTS payments_other_at_provider;
CREATE INDEX IF NOT EXISTS payments_by_status ON payments (status, id DESC);
DROP INDEX IF EXISTS payments_other_status;
CREATE INDEX IF NOT EXISTS payments_by_order ON payments (order_ref);
