-- Each index of a busy table is written for every payment, several times. These are read by
-- nobody: River's two are for listing jobs by parts of their arguments or metadata.
-- +goose Up
DROP INDEX IF EXISTS river_job_args_index, river_job_metadata_index;

-- +goose Down
CREATE INDEX IF NOT EXISTS river_job_args_index ON river_job USING gin (args);
CREATE INDEX IF NOT EXISTS river_job_metadata_index ON river_job USING gin (metadata);
