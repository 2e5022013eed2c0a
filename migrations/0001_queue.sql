-- The job queue. Times are microseconds since 1970, UTC. Columns that end in _json hold a JSON object.

CREATE TABLE jobs (
    sequence        INTEGER PRIMARY KEY AUTOINCREMENT,  -- order of arrival; never used twice
    id              TEXT NOT NULL UNIQUE,               -- ULID
    name            TEXT,
    state           TEXT NOT NULL CHECK (state IN ('queued', 'starting', 'running', 'paused', 'completed',
                                                   'failed', 'cancelled')),
    reason          TEXT,
    error_message   TEXT,
    error_detail    TEXT,
    requested       TEXT CHECK (requested IN ('pause', 'cancel')),  -- promised to a client, not yet done
    priority        INTEGER NOT NULL DEFAULT 0,
    labels_json     TEXT NOT NULL DEFAULT '{}',
    document_json   TEXT NOT NULL,                      -- the frozen job document
    progress_json   TEXT NOT NULL DEFAULT '{}',
    device          TEXT,
    attempt         INTEGER NOT NULL DEFAULT 0,         -- workers started so far
    restarts        INTEGER NOT NULL DEFAULT 0,         -- workers that died since the last new step
    step            INTEGER NOT NULL DEFAULT 0,         -- last step known of this attempt
    best_step       INTEGER NOT NULL DEFAULT 0,         -- highest step of any attempt
    created_us      INTEGER NOT NULL,
    queued_us       INTEGER NOT NULL,                   -- when it last entered the queue
    started_us      INTEGER,                            -- when its first worker started
    finished_us     INTEGER,
    worker_pid      INTEGER,                            -- a worker is known by all three
    worker_start    INTEGER,                            -- field 22 of /proc/<pid>/stat
    worker_boot     TEXT,                               -- /proc/sys/kernel/random/boot_id
    idempotency_key TEXT UNIQUE,
    body_sha256     TEXT
) STRICT;

CREATE INDEX jobs_by_turn ON jobs (state, priority DESC, sequence);
CREATE INDEX jobs_by_state ON jobs (state, sequence);

CREATE TABLE checkpoints (
    job_id     TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    step       INTEGER NOT NULL,
    path       TEXT NOT NULL,
    bytes      INTEGER NOT NULL,
    loss       REAL,
    created_at TEXT NOT NULL,
    verified   INTEGER NOT NULL,
    PRIMARY KEY (job_id, step)
) STRICT, WITHOUT ROWID;

-- Jobs whose row is gone and whose files are still to be removed.
CREATE TABLE removals (
    id TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE counters (
    name  TEXT NOT NULL,
    label TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (name, label)
) STRICT, WITHOUT ROWID;

-- Bucket `position` of a histogram counts the values at most upper_bound and above the bucket before;
-- the last one, with no bound, counts the rest.
CREATE TABLE histogram_buckets (
    name        TEXT NOT NULL,
    label       TEXT NOT NULL,
    position    INTEGER NOT NULL,
    upper_bound REAL,
    count       INTEGER NOT NULL,
    PRIMARY KEY (name, label, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE histogram_sums (
    name  TEXT NOT NULL,
    label TEXT NOT NULL,
    sum   REAL NOT NULL,
    PRIMARY KEY (name, label)
) STRICT, WITHOUT ROWID;
