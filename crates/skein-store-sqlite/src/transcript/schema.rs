//! The tables of transcripts.

use crate::schema::Format;

/// Transcripts: `Skt1`.
pub(crate) const TRANSCRIPTS: Format = Format {
    application: 0x536b_7431,
    base: 0,
    steps: &[FIRST, SECOND, THIRD],
};

/// Names are written once per transcript; everything else refers to numbers, which are never reused.
///
/// A **life** is a transcript from its creation to its eviction, or entries staged for one. To make a stage the
/// transcript, or a transcript garbage, changes only this row, however many entries belong to it.
///
/// Entries are ordered by `key`: the reel (a strand of a life) in the upper half, the position in the lower. Not
/// `WITHOUT ROWID`, because rows of a kilobyte or more would each start a new page.
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

/// An id is found in every strand that contains it. The first schema stored only the latest one, with the number
/// of times that ids had been dropped (`era`): once per strand, except for hydrated strands. A shown position
/// belongs to the last strand that begins at or before it.
const SECOND: &str = "
-- Whoever was staging begins anew.
INSERT INTO garbage (life) SELECT life FROM lives WHERE token <> '';
DELETE FROM lives WHERE token <> '';

CREATE TABLE ids_by_strand (
    life     INTEGER NOT NULL,
    -- The id, or its hash where that is shorter.
    id       BLOB    NOT NULL,
    strand   INTEGER NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (life, id, strand)
) STRICT, WITHOUT ROWID;
INSERT INTO ids_by_strand (life, id, strand, position)
SELECT i.life, i.id, s.number, i.position
FROM ids i JOIN lives l ON l.life = i.life
JOIN strands s ON s.life = i.life AND s.number = (
    SELECT max(n.number) FROM strands n
    WHERE n.life = i.life AND n.body ->> '$.start' <= i.position
        AND n.number < (SELECT count(*) FROM strands c WHERE c.life = i.life) - l.era + i.era);
DROP TABLE ids;
ALTER TABLE ids_by_strand RENAME TO ids;
DROP TABLE forgets;
ALTER TABLE lives DROP COLUMN era;
";

/// The id of this file. The ledger records it, to detect that another file replaced this one.
const THIRD: &str = "
CREATE TABLE file (
    id TEXT NOT NULL
) STRICT;
INSERT INTO file (id) VALUES (lower(hex(randomblob(16))));
";

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn ids_of_the_first_schema_are_found_in_the_strand_they_were_written_to() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(FIRST).unwrap();
        // 1 was rewound to 3 and to 1; 2 came back with two strands and was rewound to 3; 3 was being staged.
        connection
            .execute_batch(
                r#"INSERT INTO lives VALUES
                    (1, 'default', 'a', '', 2, 9, 1, '{}'),
                    (2, 'default', 'b', '', 1, 9, 1, '{}'),
                    (3, 'default', 'c', 'token', 0, NULL, NULL, NULL);
                INSERT INTO strands (life, number, staged, body) VALUES
                    (1, 0, 0, '{"start":0}'), (1, 1, 0, '{"start":3}'), (1, 2, 0, '{"start":1}'),
                    (2, 0, 3, '{"start":0}'), (2, 1, 2, '{"start":2}'), (2, 2, 0, '{"start":3}'),
                    (3, 0, 1, NULL);
                INSERT INTO ids VALUES
                    (1, CAST('first' AS BLOB), 0, 0), (1, CAST('again' AS BLOB), 1, 2), (1, CAST('hidden' AS BLOB), 2, 0), (1, CAST('also' AS BLOB), 3, 1),
                    (2, CAST('old' AS BLOB), 0, 0), (2, CAST('came' AS BLOB), 2, 0), (2, CAST('covered' AS BLOB), 3, 0), (2, CAST('new' AS BLOB), 3, 1),
                    (3, CAST('staged' AS BLOB), 0, 0);
                INSERT INTO forgets VALUES (1, 2, 1), (2, 1, 3);
                PRAGMA user_version = 1;"#,
            )
            .unwrap();
        TRANSCRIPTS.migrate(&mut connection).unwrap();
        let mut ids = connection
            .prepare("SELECT life || ' ' || CAST(id AS TEXT) || ' ' || strand || ' ' || position FROM ids ORDER BY life, position, id")
            .unwrap();
        let ids: Vec<String> = ids
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(
            ids,
            [
                "1 first 0 0",
                "1 again 2 1",
                "1 hidden 0 2",
                "1 also 1 3",
                "2 old 0 0",
                "2 came 1 2",
                "2 covered 1 3",
                "2 new 2 3",
            ]
        );
        let garbage: i64 = connection
            .query_row("SELECT life FROM garbage", [], |row| row.get(0))
            .unwrap();
        assert_eq!(garbage, 3);
    }
}
