-- +goose Up
CREATE TABLE {{table}} (
    id               TEXT COLLATE "C" NOT NULL, -- ids sort by time as bytes do
    operation        TEXT        NOT NULL,
    retry_of         TEXT        NOT NULL DEFAULT '',
    name             TEXT        NOT NULL,
    environment      TEXT        NOT NULL,
    requested_by     TEXT        NOT NULL DEFAULT '',
    inputs           JSONB       NOT NULL,
    created_at       TIMESTAMPTZ NOT NULL,
    status           TEXT        NOT NULL,
    phase            TEXT        NOT NULL,
    message          TEXT        NOT NULL,
    error_code       TEXT        NOT NULL,
    progress_done    BIGINT      NOT NULL,
    progress_total   BIGINT      NOT NULL,
    progress_current TEXT        NOT NULL,
    started_at       TIMESTAMPTZ,
    updated_at       TIMESTAMPTZ NOT NULL,
    finished_at      TIMESTAMPTZ,
    version          BIGINT      NOT NULL,
    cleaned          BOOLEAN     NOT NULL,
    CONSTRAINT {{table}}_pkey PRIMARY KEY (id),
    CONSTRAINT {{table}}_status_known CHECK (status IN ('queued', 'running', 'cancelling', 'succeeded', 'failed', 'cancelled')),
    CONSTRAINT {{table}}_started CHECK (started_at IS NOT NULL OR status IN ('queued', 'failed', 'cancelled')),
    CONSTRAINT {{table}}_finished CHECK ((finished_at IS NOT NULL) = (status IN ('succeeded', 'failed', 'cancelled'))),
    CONSTRAINT {{table}}_failed_why CHECK (status <> 'failed' OR error_code <> ''),
    CONSTRAINT {{table}}_cleaned_last CHECK (NOT cleaned OR status IN ('succeeded', 'failed', 'cancelled')),
    CONSTRAINT {{table}}_version_positive CHECK (version >= 1),
    CONSTRAINT {{table}}_progress_positive CHECK (progress_done >= 0 AND progress_total >= 0)
);

-- At most one live run of an environment.
CREATE UNIQUE INDEX {{table}}_live_environment ON {{table}} (environment) WHERE status IN ('queued', 'running', 'cancelling');

-- What every sweep reads.
CREATE INDEX {{table}}_unfinished ON {{table}} (id) WHERE status IN ('queued', 'running', 'cancelling');
CREATE INDEX {{table}}_uncleaned ON {{table}} (id) WHERE NOT cleaned AND status IN ('succeeded', 'failed', 'cancelled');

-- What lists filter by.
CREATE INDEX {{table}}_by_environment ON {{table}} (environment, id);
CREATE INDEX {{table}}_by_status ON {{table}} (status, id);

CREATE TABLE {{table}}_logs (
    run_id    TEXT        NOT NULL,
    gzip      BYTEA       NOT NULL,
    bytes     BIGINT      NOT NULL,
    truncated BOOLEAN     NOT NULL,
    saved_at  TIMESTAMPTZ NOT NULL,
    CONSTRAINT {{table}}_logs_pkey PRIMARY KEY (run_id),
    CONSTRAINT {{table}}_logs_run FOREIGN KEY (run_id) REFERENCES {{table}} (id) ON DELETE CASCADE,
    CONSTRAINT {{table}}_logs_bytes_positive CHECK (bytes >= 0)
);

-- +goose Down
DROP TABLE {{table}}_logs;
DROP TABLE {{table}};
