-- +goose Up
-- A payment's row changes twice or more within seconds of its insert. Room in its page
-- keeps the new version there, and where no indexed column changed, out of all indexes.
ALTER TABLE payments SET (fillfactor = 75);

-- Every charge that succeeds sets provider_payment_id, and nearly none has a refund then:
-- looking whether there is one has a cached plan, adding them up is planned anew each time.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION hold_refunds_of_other_charge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.refunds_held := 0;
    IF EXISTS (SELECT FROM operations WHERE payment_id = NEW.id AND kind = 'refund') THEN
        -- The change of charge is a fact and must not be refused for its refunds' sake.
        NEW.refunds_held := least(refunds_of_charge(NEW.id, NEW.provider_payment_id), NEW.amount);
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION hold_refunds_of_other_charge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- The change of charge is a fact and must not be refused for its refunds' sake.
    NEW.refunds_held := least(refunds_of_charge(NEW.id, NEW.provider_payment_id), NEW.amount);
    RETURN NEW;
END $$;
-- +goose StatementEnd
ALTER TABLE payments RESET (fillfactor);
