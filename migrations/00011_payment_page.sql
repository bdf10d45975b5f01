-- +goose Up

-- A payment's page reads its story from the newest row back, however long it is, and
-- what people did and wrote apart from what the engine did.
CREATE INDEX payment_events_people ON payment_events (payment_id, id DESC) WHERE actor LIKE 'user:%';
CREATE INDEX payment_events_notes ON payment_events (payment_id, id DESC) WHERE kind = 'note';
CREATE INDEX webhook_events_of_payment ON webhook_events (payment_id, id DESC) WHERE payment_id IS NOT NULL;
DROP INDEX webhook_events_by_payment;

-- Search reads each meaning of what was typed with a probe that ends after a page.
CREATE INDEX payments_order_folded ON payments ((lower(order_ref)) COLLATE "C");
CREATE INDEX payments_money ON payments (amount, currency, id DESC);
DROP INDEX payments_amount;
CREATE INDEX attempts_request_id ON attempts (provider_request_id) WHERE provider_request_id <> '';
CREATE INDEX webhook_events_stranger_object ON webhook_events (provider_object_id) WHERE payment_id IS NULL AND provider_object_id <> '';

-- +goose Down
DROP INDEX webhook_events_stranger_object, attempts_request_id;
CREATE INDEX payments_amount ON payments (amount);
DROP INDEX payments_money, payments_order_folded;
CREATE INDEX webhook_events_by_payment ON webhook_events (payment_id);
DROP INDEX webhook_events_of_payment, payment_events_notes, payment_events_people;
