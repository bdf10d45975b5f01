-- +goose Up

-- When a payment's money is taken, and what is held until then. capture_amount is what
-- its capture asks for or took, written by a trigger only.
ALTER TABLE payments
    ADD COLUMN capture text NOT NULL DEFAULT 'automatic' CHECK (capture IN ('automatic', 'manual')),
    ADD COLUMN authorised_amount bigint CHECK (authorised_amount > 0),   -- by the provider's word
    ADD COLUMN authorised_until timestamptz,                             -- shown, never acted upon
    ADD COLUMN capture_amount bigint CHECK (capture_amount > 0),
    DROP COLUMN captured_amount;
ALTER TABLE payments
    ADD COLUMN captured_amount bigint NOT NULL
        GENERATED ALWAYS AS (CASE WHEN status = 'succeeded' THEN coalesce(capture_amount, amount) ELSE 0 END) STORED,
    ADD CONSTRAINT capture_within_amount CHECK (capture_amount IS NULL OR capture = 'manual' AND capture_amount <= amount);

-- One capture or void at a time.
CREATE UNIQUE INDEX operations_one_live_action ON operations (payment_id)
    WHERE kind IN ('capture', 'void') AND status IN ('pending', 'processing', 'unknown');

-- A capture or void of what is not held, beside another one that has not failed, is
-- refused here, whatever the code believed. The payment's row lock makes requests take turns.
-- +goose StatementBegin
CREATE FUNCTION action_on_authorisation() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    pay payments%ROWTYPE;
BEGIN
    SELECT * INTO pay FROM payments WHERE id = NEW.payment_id FOR UPDATE;
    IF pay.capture <> 'manual' OR NEW.amount > pay.amount OR NEW.currency <> pay.currency OR NEW.provider <> pay.provider
        OR EXISTS (SELECT 1 FROM operations WHERE payment_id = pay.id AND kind IN ('capture', 'void') AND status <> 'failed') THEN
        RAISE EXCEPTION '% of % is not of a free authorisation', NEW.kind, NEW.amount
            USING ERRCODE = 'check_violation', CONSTRAINT = 'action_on_authorisation';
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER action_on_authorisation BEFORE INSERT ON operations
    FOR EACH ROW WHEN (NEW.kind IN ('capture', 'void')) EXECUTE FUNCTION action_on_authorisation();

-- +goose StatementBegin
CREATE FUNCTION note_capture() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE payments SET capture_amount = (SELECT max(amount) FROM operations
        WHERE payment_id = NEW.payment_id AND kind = 'capture' AND status <> 'failed')
    WHERE id = NEW.payment_id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER note_capture AFTER INSERT OR UPDATE OF status ON operations
    FOR EACH ROW WHEN (NEW.kind = 'capture') EXECUTE FUNCTION note_capture();

-- +goose Down
DROP TRIGGER note_capture ON operations;
DROP TRIGGER action_on_authorisation ON operations;
DROP FUNCTION note_capture, action_on_authorisation;
DROP INDEX operations_one_live_action;
ALTER TABLE payments DROP CONSTRAINT capture_within_amount, DROP COLUMN captured_amount;
ALTER TABLE payments
    ADD COLUMN captured_amount bigint NOT NULL GENERATED ALWAYS AS (CASE WHEN status = 'succeeded' THEN amount ELSE 0 END) STORED,
    DROP COLUMN capture, DROP COLUMN authorised_amount, DROP COLUMN authorised_until, DROP COLUMN capture_amount;
