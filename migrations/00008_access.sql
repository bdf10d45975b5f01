-- +goose Up

-- version counts the changes an admin makes, so that two of them do not overwrite each
-- other. session_epoch ends every session of the person when it moves. has_factor says
-- that a second factor is set up: every sign-in asks, so it is not counted each time.
ALTER TABLE users
    ADD COLUMN shortcuts     text NOT NULL DEFAULT '' CHECK (shortcuts IN ('', 'on', 'off')),
    ADD COLUMN version       bigint NOT NULL DEFAULT 1,
    ADD COLUMN session_epoch bigint NOT NULL DEFAULT 0,
    ADD COLUMN has_factor    boolean NOT NULL DEFAULT false;

-- What a person sees of their sessions. user_id is empty before somebody signs in.
ALTER TABLE sessions
    ADD COLUMN id         uuid NOT NULL DEFAULT gen_random_uuid(),
    ADD COLUMN user_id    uuid REFERENCES users ON DELETE CASCADE,
    ADD COLUMN device     text NOT NULL DEFAULT '',
    ADD COLUMN address    text NOT NULL DEFAULT '',
    ADD COLUMN started_at timestamptz,
    ADD COLUMN seen_at    timestamptz;
CREATE INDEX sessions_of_user ON sessions (user_id) WHERE user_id IS NOT NULL;

-- One authenticator app per person. last_step is the time step of the last code taken:
-- no code counts twice.
CREATE TABLE user_totp (
    user_id      uuid PRIMARY KEY REFERENCES users ON DELETE CASCADE,
    secret       text NOT NULL,
    last_step    bigint NOT NULL DEFAULT 0,
    confirmed_at timestamptz NOT NULL
);
CREATE TABLE user_recovery_codes (
    user_id   uuid NOT NULL REFERENCES users ON DELETE CASCADE,
    code_hash bytea NOT NULL,                 -- SHA-256 of 80 random bits
    used_at   timestamptz,
    PRIMARY KEY (user_id, code_hash)
);
CREATE TABLE user_passkeys (
    id            uuid PRIMARY KEY,
    user_id       uuid NOT NULL REFERENCES users ON DELETE CASCADE,
    credential_id bytea NOT NULL UNIQUE,
    credential    jsonb NOT NULL,             -- the public key and what was said of it
    sign_count    bigint NOT NULL,
    name          text NOT NULL,
    created_at    timestamptz NOT NULL,
    last_used_at  timestamptz
);
CREATE INDEX user_passkeys_of_user ON user_passkeys (user_id);

-- Who a person is at the sign-in provider. Their address there may change, this not.
CREATE TABLE user_identities (
    issuer     text NOT NULL,
    subject    text NOT NULL,
    user_id    uuid NOT NULL REFERENCES users ON DELETE CASCADE,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (issuer, subject),
    UNIQUE (user_id, issuer)
);

-- Sign-in attempts of all processes. Losing them in a crash only resets the count.
CREATE UNLOGGED TABLE sign_in_tries (
    key   bytea PRIMARY KEY,                  -- SHA-256 of who and from where
    count integer NOT NULL,
    since timestamptz NOT NULL
);
CREATE INDEX sign_in_tries_since ON sign_in_tries (since);

-- +goose Down
DROP TABLE sign_in_tries, user_identities, user_passkeys, user_recovery_codes, user_totp;
ALTER TABLE sessions DROP COLUMN id, DROP COLUMN user_id, DROP COLUMN device, DROP COLUMN address,
    DROP COLUMN started_at, DROP COLUMN seen_at;
ALTER TABLE users DROP COLUMN shortcuts, DROP COLUMN version, DROP COLUMN session_epoch, DROP COLUMN has_factor;
