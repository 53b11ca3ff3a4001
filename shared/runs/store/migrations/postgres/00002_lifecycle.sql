-- +goose Up
ALTER TABLE {{table}} ADD COLUMN idempotency_key TEXT NOT NULL DEFAULT '';
ALTER TABLE {{table}} ADD COLUMN request_digest BYTEA;
ALTER TABLE {{table}} ADD COLUMN details JSONB;
ALTER TABLE {{table}} ADD COLUMN claimed_at TIMESTAMPTZ;
ALTER TABLE {{table}} ADD COLUMN cancelled_by TEXT NOT NULL DEFAULT '';
ALTER TABLE {{table}} ADD COLUMN cancel_requested_at TIMESTAMPTZ
    CONSTRAINT {{table}}_cancel_asked CHECK (cancel_requested_at IS NOT NULL OR status NOT IN ('cancelling', 'cancelled'));
UPDATE {{table}} SET claimed_at = started_at WHERE started_at IS NOT NULL;

-- A caller's key stands for one run, as long as the run is kept.
CREATE UNIQUE INDEX {{table}}_idempotency ON {{table}} (requested_by, idempotency_key) WHERE idempotency_key <> '';

-- A run's timeline: its changes of status, phase and error code.
CREATE TABLE {{table}}_events (
    run_id     TEXT COLLATE "C" NOT NULL,
    version    BIGINT      NOT NULL, -- of the run, by the change
    at         TIMESTAMPTZ NOT NULL,
    status     TEXT        NOT NULL,
    phase      TEXT        NOT NULL,
    message    TEXT        NOT NULL,
    error_code TEXT        NOT NULL,
    caller     TEXT        NOT NULL, -- name of the API key that asked for it; empty: nobody did
    CONSTRAINT {{table}}_events_pkey PRIMARY KEY (run_id, version),
    CONSTRAINT {{table}}_events_run FOREIGN KEY (run_id) REFERENCES {{table}} (id) ON DELETE CASCADE
);

-- +goose Down
DROP TABLE {{table}}_events;
DROP INDEX {{table}}_idempotency;
ALTER TABLE {{table}} DROP COLUMN cancel_requested_at;
ALTER TABLE {{table}} DROP COLUMN cancelled_by;
ALTER TABLE {{table}} DROP COLUMN claimed_at;
ALTER TABLE {{table}} DROP COLUMN details;
ALTER TABLE {{table}} DROP COLUMN request_digest;
ALTER TABLE {{table}} DROP COLUMN idempotency_key;
