-- Contracts that operators write, and what keeping every contract's promises
-- needs: marks on endpoints, gates, lines of ordering keys, further deliveries of
-- an event, runs, replays, the audit trail, notices to owners.

-- Every wording that was ever current, since deliveries refer to it.
CREATE TABLE contract_revision (
  num        INTEGER PRIMARY KEY,
  name       TEXT NOT NULL,
  revision   TEXT NOT NULL,
  text       TEXT NOT NULL,    -- YAML as given
  current    INTEGER NOT NULL, -- 1 for at most one of a name
  follows    TEXT NOT NULL,    -- revision that deliveries under it were asked to follow; '': their own
  created_at INTEGER NOT NULL,
  UNIQUE (name, revision)
) STRICT;

ALTER TABLE endpoint DROP COLUMN contract_revision;
ALTER TABLE endpoint ADD COLUMN filter TEXT NOT NULL DEFAULT '';
ALTER TABLE endpoint ADD COLUMN ordering TEXT;         -- JSON array of paths; NULL: as the contract says
ALTER TABLE endpoint ADD COLUMN degraded_until INTEGER;
ALTER TABLE endpoint ADD COLUMN off_at INTEGER;        -- last delivery position when it went off; NULL while on
ALTER TABLE endpoint ADD COLUMN off_since INTEGER;     -- when that was, whatever kind of off it has become since; NULL while on
UPDATE endpoint SET off_since = state_since WHERE state <> 0;
ALTER TABLE endpoint ADD COLUMN catch_up_at INTEGER;   -- position that the catching up has reached; NULL: none under way
ALTER TABLE endpoint ADD COLUMN catch_up_to INTEGER;   -- and where it ends
ALTER TABLE endpoint ADD COLUMN catch_up_dead INTEGER NOT NULL DEFAULT 0; -- dead ones up to this position are owed a redelivery, by it or by the next one; 0: none
ALTER TABLE endpoint ADD COLUMN url_gate BLOB;         -- key of the gate of its URL
ALTER TABLE endpoint ADD COLUMN own_gate BLOB;         -- key of its own gate
ALTER TABLE endpoint ADD COLUMN purge INTEGER NOT NULL DEFAULT 0; -- 1: deleted with its log (P3)
ALTER TABLE endpoint ADD COLUMN warned_at INTEGER;     -- when the owner was told that what is held ends soon

-- Marks whose rows are not all written yet (N17).
CREATE TABLE skip (
  endpoint INTEGER NOT NULL,
  first    INTEGER NOT NULL, -- seats, see delivery.seat
  before   INTEGER NOT NULL,
  reason   INTEGER NOT NULL,
  at       INTEGER NOT NULL,
  due      INTEGER NOT NULL, -- due times of what was queued later begin here, by and large
  PRIMARY KEY (endpoint, first, before)
) STRICT, WITHOUT ROWID;

-- Closed gates (N16).
CREATE TABLE gate (
  key   BLOB PRIMARY KEY,
  until INTEGER NOT NULL,
  probe INTEGER NOT NULL -- delivery
) STRICT, WITHOUT ROWID;

-- Lines of ordering keys (N15). Only the head has a due time of its own; those
-- behind it are parked, and linked by delivery.line_next.
CREATE TABLE line (
  endpoint INTEGER NOT NULL,
  key      TEXT NOT NULL,
  head     INTEGER NOT NULL,
  tail     INTEGER NOT NULL,
  PRIMARY KEY (endpoint, key)
) STRICT, WITHOUT ROWID;

ALTER TABLE delivery ADD COLUMN flags INTEGER NOT NULL DEFAULT 0; -- 1 degraded, 2 once, 4 by a person, 8 joins its line when due, 16 unlogged, 32 stands in a line
ALTER TABLE delivery ADD COLUMN seat INTEGER;        -- of the present round; NULL: pos
ALTER TABLE delivery ADD COLUMN line_key TEXT;
ALTER TABLE delivery ADD COLUMN line_next INTEGER;   -- the delivery behind it in line
ALTER TABLE delivery ADD COLUMN replaces INTEGER;
ALTER TABLE delivery ADD COLUMN replaced_by INTEGER;

-- Deliveries of an event beside those made at its acceptance: redeliveries,
-- replays.
CREATE TABLE further (
  event    INTEGER NOT NULL,
  delivery INTEGER NOT NULL,
  PRIMARY KEY (event, delivery)
) STRICT, WITHOUT ROWID;

ALTER TABLE event ADD COLUMN run INTEGER; -- the run that it tells of

CREATE TABLE run (
  num         INTEGER PRIMARY KEY,
  tenant      INTEGER NOT NULL,
  project     TEXT NOT NULL,
  type        TEXT NOT NULL,
  state       INTEGER NOT NULL,
  total       INTEGER NOT NULL,
  counts      TEXT NOT NULL, -- JSON: number by type
  event       INTEGER,       -- that finishing published
  created_at  INTEGER NOT NULL,
  finished_at INTEGER
) STRICT;
CREATE INDEX run_by_project ON run (tenant, project);

CREATE TABLE run_event (
  run        INTEGER NOT NULL,
  n          INTEGER NOT NULL,
  id         TEXT NOT NULL,
  type       TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  data       BLOB NOT NULL,
  PRIMARY KEY (run, n)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX run_event_by_id ON run_event (run, id);

CREATE TABLE replay (
  num         INTEGER PRIMARY KEY,
  tenant      INTEGER NOT NULL,
  endpoint    INTEGER NOT NULL,
  selection   TEXT NOT NULL, -- JSON
  rate        INTEGER NOT NULL,
  state       INTEGER NOT NULL,
  count       INTEGER NOT NULL,
  done        INTEGER NOT NULL,
  failed      INTEGER NOT NULL,
  at          INTEGER NOT NULL, -- position that it has reached
  upto        INTEGER NOT NULL, -- and the last one that it takes
  created_at  INTEGER NOT NULL,
  finished_at INTEGER
) STRICT;
CREATE INDEX replay_by_endpoint ON replay (endpoint);

CREATE TABLE audit (
  pos        INTEGER PRIMARY KEY,
  at         INTEGER NOT NULL,
  tenant     INTEGER,       -- NULL: of the whole installation
  actor_kind TEXT NOT NULL,
  actor_id   TEXT NOT NULL,
  action     TEXT NOT NULL,
  kind       TEXT NOT NULL,
  target     TEXT NOT NULL,
  why        TEXT NOT NULL,
  before     TEXT,
  after      TEXT
) STRICT;

-- What owners are still to be told.
CREATE TABLE notice (
  num      INTEGER PRIMARY KEY,
  tenant   INTEGER NOT NULL,
  endpoint INTEGER NOT NULL,
  became   TEXT NOT NULL,
  why      TEXT NOT NULL,
  at       INTEGER NOT NULL,
  tries    INTEGER NOT NULL,
  due      INTEGER NOT NULL
) STRICT;
CREATE INDEX notice_by_due ON notice (due);
