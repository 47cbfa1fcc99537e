//! The tables of a search index.

use crate::schema::Format;

/// Words of transcripts: `Sks1`.
pub(super) const SEARCH: Format = Format {
    application: 0x536b_7331,
    base: 0,
    steps: &[FIRST],
};

const FIRST: &str = "
CREATE TABLE tenants (
    number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT    NOT NULL UNIQUE
) STRICT;

CREATE TABLE transcripts (
    number  INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant  INTEGER NOT NULL,
    id      TEXT    NOT NULL,
    project TEXT,
    -- The mark.
    life    INTEGER NOT NULL,
    strand  INTEGER NOT NULL,
    upto    INTEGER NOT NULL,
    chain   BLOB    NOT NULL,
    UNIQUE (tenant, id)
) STRICT;
";

/// Each tenant has its own tables, so that neither hits nor ranks reveal anything of another tenant (L7). Texts
/// are in the word table, so that filters on documents do not read them.
pub(super) fn of_tenant(number: i64) -> String {
    format!(
        "CREATE TABLE documents_{number} (
             document   INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
             transcript INTEGER NOT NULL,
             position   INTEGER NOT NULL,
             role       INTEGER NOT NULL,
             at         INTEGER NOT NULL,
             rewound    INTEGER NOT NULL CHECK (rewound IN (0, 1)),
             message    TEXT    NOT NULL
         ) STRICT;
         CREATE INDEX documents_{number}_position ON documents_{number} (transcript, position);
         CREATE VIRTUAL TABLE words_{number} USING fts5(text, tokenize = 'unicode61 remove_diacritics 2');"
    )
}
