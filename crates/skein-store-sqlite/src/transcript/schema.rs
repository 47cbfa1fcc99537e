//! The tables of transcripts.

use crate::schema::Format;

/// Transcripts: `Skt1`.
pub(crate) const TRANSCRIPTS: Format = Format {
    application: 0x536b_7431,
    steps: &[FIRST],
};

/// Names are written once for each transcript; everything below goes by numbers, which are never given twice.
///
/// A **life** is a transcript from its making to its eviction, or what was staged for one. Making a stage the
/// transcript, or a transcript garbage, changes this one row, however much hangs on it.
///
/// Entries lie in the order of `key`: the reel (a strand of a life) in the upper half, the position in the lower.
/// Not `WITHOUT ROWID`: rows of a kilobyte or more would each begin a page of their own.
const FIRST: &str = "
CREATE TABLE lives (
    life       INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant     TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    -- Of a stage; empty for the transcript itself.
    token      TEXT    NOT NULL,
    -- How often ids were forgotten.
    era        INTEGER NOT NULL,
    version    INTEGER,
    touched_at INTEGER,
    body       TEXT,
    CHECK (token <> '' OR (version IS NOT NULL AND touched_at IS NOT NULL AND body IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX lives_name ON lives (tenant, id, token);

CREATE TABLE strands (
    reel   INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    life   INTEGER NOT NULL,
    number INTEGER NOT NULL,
    -- Entries that were staged.
    staged INTEGER NOT NULL,
    -- Missing while it is only staged.
    body   TEXT
) STRICT;
CREATE UNIQUE INDEX strands_number ON strands (life, number);

CREATE TABLE entries (
    key     INTEGER NOT NULL PRIMARY KEY,
    chain   BLOB    NOT NULL,
    -- Bytes of the payload before it was packed; 0 when it lies here as it is.
    size    INTEGER NOT NULL,
    payload BLOB    NOT NULL
) STRICT;

CREATE TABLE ids (
    life     INTEGER NOT NULL,
    -- The id, or its hash where that is shorter.
    id       BLOB    NOT NULL,
    position INTEGER NOT NULL,
    -- The life's, when it was written.
    era      INTEGER NOT NULL,
    PRIMARY KEY (life, id)
) STRICT, WITHOUT ROWID;

-- What begins era `era` forgets the ids of earlier ones from `start` on. Later eras begin higher: what forgets more
-- takes the place of what forgets less.
CREATE TABLE forgets (
    life  INTEGER NOT NULL,
    era   INTEGER NOT NULL,
    start INTEGER NOT NULL,
    PRIMARY KEY (life, era)
) STRICT, WITHOUT ROWID;

-- Lives that are over and still take room.
CREATE TABLE garbage (
    life INTEGER NOT NULL PRIMARY KEY
) STRICT;
";
