-- Times are Unix milliseconds, durations microseconds. Numbers in place of words
-- (status, reason …) are those of enums.go. The big tables are clustered by
-- position only, and no index holds a status.

CREATE TABLE meta (
  name  TEXT PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tenant (
  num              INTEGER PRIMARY KEY,
  id               TEXT NOT NULL UNIQUE,
  name             TEXT NOT NULL,
  default_contract TEXT NOT NULL,
  owner_url        TEXT NOT NULL,
  owner_email      TEXT NOT NULL,
  created_at       INTEGER NOT NULL,
  rev              INTEGER NOT NULL -- raised by each change of what events match
) STRICT;

CREATE TABLE api_key (
  num          INTEGER PRIMARY KEY,
  id           TEXT NOT NULL UNIQUE,
  tenant       INTEGER,          -- NULL: an operator's key
  name         TEXT NOT NULL,
  scopes       TEXT NOT NULL,    -- words joined by spaces
  hash         BLOB NOT NULL,    -- SHA-256 of the whole key
  created_at   INTEGER NOT NULL,
  expires_at   INTEGER,
  last_used_at INTEGER
) STRICT;

CREATE TABLE endpoint (
  num               INTEGER PRIMARY KEY,
  tenant            INTEGER NOT NULL,
  id                TEXT NOT NULL,
  url               TEXT NOT NULL,
  events            TEXT NOT NULL, -- JSON array
  contract          TEXT NOT NULL,
  contract_revision TEXT NOT NULL,
  state             INTEGER NOT NULL,
  state_reason      INTEGER NOT NULL,
  state_since       INTEGER NOT NULL,
  description       TEXT NOT NULL,
  metadata          TEXT NOT NULL, -- JSON object
  headers           BLOB,          -- sealed JSON
  max_in_flight     INTEGER NOT NULL,
  failures_in_row   INTEGER NOT NULL,
  first_failure_at  INTEGER,
  last_success_at   INTEGER,
  last_attempt_at   INTEGER,
  version           INTEGER NOT NULL,
  created_at        INTEGER NOT NULL,
  updated_at        INTEGER NOT NULL,
  deleted_at        INTEGER
) STRICT;
CREATE UNIQUE INDEX endpoint_by_id ON endpoint (tenant, id) WHERE deleted_at IS NULL;

CREATE TABLE endpoint_secret (
  endpoint   INTEGER NOT NULL,
  id         TEXT NOT NULL,
  sealed     BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  PRIMARY KEY (endpoint, id)
) STRICT, WITHOUT ROWID;

-- Words that occur often: event types.
CREATE TABLE word (
  num  INTEGER PRIMARY KEY,
  text TEXT NOT NULL UNIQUE
) STRICT;

-- Contracts' revisions that deliveries were promised under.
CREATE TABLE promise (
  num      INTEGER PRIMARY KEY,
  contract TEXT NOT NULL,
  revision TEXT NOT NULL,
  UNIQUE (contract, revision)
) STRICT;

CREATE TABLE event (
  pos            INTEGER PRIMARY KEY,
  tenant         INTEGER NOT NULL,
  type           INTEGER NOT NULL, -- word
  id             TEXT,             -- the caller's; NULL: made from pos
  accepted_at    INTEGER NOT NULL,
  created_at     INTEGER,          -- NULL: as accepted_at
  deliver_at     INTEGER,
  expires_at     INTEGER,
  ordering_key   TEXT,
  first_delivery INTEGER NOT NULL, -- the deliveries made at acceptance lie in a row
  deliveries     INTEGER NOT NULL,
  erased         INTEGER NOT NULL,
  size           INTEGER NOT NULL, -- bytes of data as accepted
  data           BLOB
) STRICT;

-- IDs that callers gave, with what they were given for.
CREATE TABLE event_key (
  hash        BLOB PRIMARY KEY, -- of tenant and ID
  event       INTEGER NOT NULL,
  fingerprint BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE delivery (
  pos          INTEGER PRIMARY KEY,
  event        INTEGER NOT NULL,
  tenant       INTEGER NOT NULL,
  endpoint     INTEGER NOT NULL,
  type         INTEGER NOT NULL, -- word
  promise      INTEGER NOT NULL,
  trigger      INTEGER NOT NULL,
  status       INTEGER NOT NULL,
  reason       INTEGER NOT NULL,
  kind         INTEGER NOT NULL,
  round        INTEGER NOT NULL,
  attempts     INTEGER NOT NULL, -- counted in the round
  rows         INTEGER NOT NULL, -- of the log, over the delivery's life
  interrupted  INTEGER NOT NULL, -- uncounted interruptions in a row
  status_code  INTEGER NOT NULL,
  duration     INTEGER NOT NULL,
  next_at      INTEGER,          -- NULL once final
  created_at   INTEGER NOT NULL,
  finished_at  INTEGER,
  last_attempt INTEGER           -- newest row of the log; each leads to the one before
) STRICT;
CREATE INDEX delivery_by_endpoint ON delivery (endpoint);

-- Deliveries that are not final, in the order in which a lane takes them.
CREATE TABLE waiting (
  endpoint INTEGER NOT NULL,
  due      INTEGER NOT NULL,
  pos      INTEGER NOT NULL,
  PRIMARY KEY (endpoint, due, pos)
) STRICT, WITHOUT ROWID;

-- Attempts that have run for over a second.
CREATE TABLE running (
  delivery INTEGER PRIMARY KEY,
  round    INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  try      INTEGER NOT NULL,
  at       INTEGER NOT NULL
) STRICT;

CREATE TABLE attempt (
  pos         INTEGER PRIMARY KEY,
  delivery    INTEGER NOT NULL,
  prev        INTEGER, -- the attempt before it of the same delivery
  round       INTEGER NOT NULL,
  number      INTEGER NOT NULL,
  try         INTEGER NOT NULL,
  flags       INTEGER NOT NULL, -- 1 counted, 2 truncated, 4 superseded
  at          INTEGER NOT NULL,
  duration    INTEGER NOT NULL,
  status_code INTEGER NOT NULL,
  kind        INTEGER NOT NULL,
  error       TEXT,
  address     TEXT,
  response    BLOB
) STRICT;
