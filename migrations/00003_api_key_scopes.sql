-- +goose Up

-- What a key may be used for. Keys from before could only do payments and wallets.
ALTER TABLE api_keys ADD COLUMN scopes text[] NOT NULL DEFAULT '{payments}'
    CONSTRAINT api_keys_scopes CHECK (cardinality(scopes) > 0 AND scopes <@ ARRAY['payments', 'circuits']);

-- +goose Down
ALTER TABLE api_keys DROP COLUMN scopes;
