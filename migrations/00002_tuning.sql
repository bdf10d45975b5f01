-- +goose Up

-- The what-if replay and the providers page read a circuit's transitions by time.
CREATE INDEX breaker_events_by_circuit ON breaker_events (provider, class, at DESC);
-- How many unknown payments lookups settle while a provider's charges are blocked.
CREATE INDEX payments_settled_by_lookup ON payments (provider, settled_at)
    WHERE settled_at IS NOT NULL AND status_evidence = 'lookup' AND unknown_seen;

-- +goose Down
DROP INDEX payments_settled_by_lookup, breaker_events_by_circuit;
