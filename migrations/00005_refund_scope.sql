-- +goose Up

-- Giving money back is a right of its own: a key that makes payments does not have it.
ALTER TABLE api_keys DROP CONSTRAINT api_keys_scopes;
ALTER TABLE api_keys ADD CONSTRAINT api_keys_scopes
    CHECK (cardinality(scopes) > 0 AND scopes <@ ARRAY['payments', 'refunds', 'circuits']);

-- The search finds refunds and disputes by the provider's id alone.
CREATE INDEX operations_object ON operations (provider_object_id) WHERE provider_object_id IS NOT NULL;
CREATE INDEX disputes_object ON disputes (dispute_id);

-- +goose Down
DROP INDEX disputes_object, operations_object;
ALTER TABLE api_keys DROP CONSTRAINT api_keys_scopes;
UPDATE api_keys SET scopes = array_remove(scopes, 'refunds') WHERE cardinality(array_remove(scopes, 'refunds')) > 0;
UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()), scopes = '{payments}' WHERE 'refunds' = ANY (scopes);
ALTER TABLE api_keys ADD CONSTRAINT api_keys_scopes CHECK (cardinality(scopes) > 0 AND scopes <@ ARRAY['payments', 'circuits']);
