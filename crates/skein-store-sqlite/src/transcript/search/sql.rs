//! The contract of an index as SQL statements.

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use skein_domain::Timestamp;
use skein_transcript::MessageRole;
use skein_transcript::chain::Chain;
use skein_transcript::index::{
    Document, Excerpt, ExistingDocuments, Hit, Hits, IndexUpdateResult, Mark, MessageVisibility,
    Search, Update,
};
use skein_transcript::search::{Term, Terms, WordMatch};

use super::super::file::{Result, StatementError};
use super::schema;

/// Marks around matches in SQLite's snippets; indexed texts do not contain them.
const OPEN: char = '\u{1}';
const CLOSE: char = '\u{2}';
/// Words per excerpt.
const AROUND: u32 = 24;
/// Deepest page of results; a query with more is too wide to be useful.
const DEEPEST: u32 = 10_000;

/// The position of a page among the documents that existed when the first page was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    newest: i64,
    offset: u32,
}

impl Cursor {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (newest, offset) = text.split_once('.')?;
        let cursor = Self {
            newest: newest.parse().ok()?,
            offset: offset.parse().ok()?,
        };
        (cursor.offset <= DEEPEST).then_some(cursor)
    }

    fn text(self) -> String {
        format!("{}.{}", self.newest, self.offset)
    }
}

fn tenant_number(connection: &Connection, tenant: &str) -> Result<Option<i64>> {
    let mut statement =
        connection.prepare_cached("SELECT number FROM tenants WHERE tenant = ?1")?;
    Ok(statement.query_row([tenant], |row| row.get(0)).optional()?)
}

/// The tenant's number; makes its tables if needed.
fn tenant_made(connection: &Connection, tenant: &str) -> Result<i64> {
    if let Some(number) = tenant_number(connection, tenant)? {
        return Ok(number);
    }
    let number = connection
        .prepare_cached("INSERT INTO tenants (tenant) VALUES (?1)")?
        .insert([tenant])?;
    connection.execute_batch(&schema::of_tenant(number))?;
    Ok(number)
}

/// A transcript's number and mark.
fn known(connection: &Connection, tenant: i64, id: &str) -> Result<Option<(i64, Mark)>> {
    let sql =
        "SELECT number, life, strand, upto, chain FROM transcripts WHERE tenant = ?1 AND id = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row(params![tenant, id], |row| {
        let mark = Mark {
            life: Timestamp::from_micros(row.get(1)?),
            strand: row.get(2)?,
            end: row.get::<_, i64>(3)?.cast_unsigned(),
            chain: Chain(row.get(4)?),
        };
        Ok((row.get(0)?, mark))
    });
    Ok(found.optional()?)
}

pub(super) fn mark(connection: &Connection, tenant: &str, id: &str) -> Result<Option<Mark>> {
    let Some(tenant) = tenant_number(connection, tenant)? else {
        return Ok(None);
    };
    Ok(known(connection, tenant, id)?.map(|(_, mark)| mark))
}

pub(super) fn update(
    connection: &Connection,
    tenant: &str,
    id: &str,
    update: &Update,
) -> Result<IndexUpdateResult> {
    let tenant = tenant_made(connection, tenant)?;
    let found = known(connection, tenant, id)?;
    if found.map(|(_, mark)| mark) != update.expected {
        return Ok(IndexUpdateResult::Stale);
    }
    let mark = &update.mark;
    let sql = "INSERT INTO transcripts (tenant, id, project, life, strand, upto, chain)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
               ON CONFLICT (tenant, id) DO UPDATE SET project = excluded.project, life = excluded.life,
                   strand = excluded.strand, upto = excluded.upto, chain = excluded.chain
               RETURNING number";
    let upto = i64::try_from(mark.end)
        .map_err(|_| StatementError::BrokenContract("a number is too large"))?;
    let row = params![
        tenant,
        id,
        update.project,
        mark.life.as_micros(),
        mark.strand,
        upto,
        mark.chain.0
    ];
    let number: i64 = connection
        .prepare_cached(sql)?
        .query_row(row, |row| row.get(0))?;
    match update.earlier {
        ExistingDocuments::Kept => {}
        ExistingDocuments::Removed => clear(connection, tenant, number)?,
        ExistingDocuments::RewoundFrom(position) => {
            let sql = format!(
                "UPDATE documents_{tenant} SET rewound = 1 WHERE transcript = ?1 AND position >= ?2"
            );
            connection
                .prepare_cached(&sql)?
                .execute(params![number, position.cast_signed()])?;
        }
    }
    for document in &update.documents {
        add(connection, tenant, number, document)?;
    }
    Ok(IndexUpdateResult::Done)
}

fn add(connection: &Connection, tenant: i64, transcript: i64, document: &Document) -> Result<()> {
    let sql = format!(
        "INSERT INTO documents_{tenant} (transcript, position, role, at, rewound, message)
         VALUES (?1, ?2, ?3, ?4, 0, ?5)"
    );
    let number = connection.prepare_cached(&sql)?.insert(params![
        transcript,
        document.position.cast_signed(),
        role_number(document.role),
        document.at.as_micros(),
        document.message.as_str()
    ])?;
    let sql = format!("INSERT INTO words_{tenant} (rowid, text) VALUES (?1, ?2)");
    connection
        .prepare_cached(&sql)?
        .execute(params![number, document.text])?;
    Ok(())
}

fn clear(connection: &Connection, tenant: i64, transcript: i64) -> Result<()> {
    for sql in [
        format!(
            "DELETE FROM words_{tenant} WHERE rowid IN
             (SELECT document FROM documents_{tenant} WHERE transcript = ?1)"
        ),
        format!("DELETE FROM documents_{tenant} WHERE transcript = ?1"),
    ] {
        connection.prepare_cached(&sql)?.execute([transcript])?;
    }
    Ok(())
}

pub(super) fn remove(connection: &Connection, tenant: &str, id: &str) -> Result<()> {
    let Some(tenant) = tenant_number(connection, tenant)? else {
        return Ok(());
    };
    if let Some((number, _)) = known(connection, tenant, id)? {
        clear(connection, tenant, number)?;
        connection
            .prepare_cached("DELETE FROM transcripts WHERE number = ?1")?
            .execute([number])?;
    }
    Ok(())
}

pub(super) fn search(
    connection: &Connection,
    tenant: &str,
    search: &Search,
    cursor: Option<Cursor>,
) -> Result<Hits> {
    let none = Hits {
        hits: vec![],
        next: None,
    };
    let Some(tenant) = tenant_number(connection, tenant)? else {
        return Ok(none);
    };
    let at = match cursor {
        Some(cursor) => cursor,
        None => Cursor {
            newest: newest(connection, tenant)?,
            offset: 0,
        },
    };
    let limit = search.limit.clamp(1, Search::MOST) as u32;
    let matching = matching(&search.terms);
    let mut best = ranked(connection, tenant, search, &matching, at, limit + 1)?;
    let more = best.len() > limit as usize && at.offset + limit <= DEEPEST;
    best.truncate(limit as usize);
    let hits = best
        .into_iter()
        .map(|document| hit(connection, tenant, &matching, document));
    let next = Cursor {
        offset: at.offset + limit,
        ..at
    };
    Ok(Hits {
        hits: hits.collect::<Result<_>>()?,
        next: more.then(|| next.text()),
    })
}

fn newest(connection: &Connection, tenant: i64) -> Result<i64> {
    let sql = format!("SELECT coalesce(max(document), 0) FROM documents_{tenant}");
    Ok(connection
        .prepare_cached(&sql)?
        .query_row([], |row| row.get(0))?)
}

/// Quotes every phrase: inside quotes FTS5 has no syntax but the quote. A star matches the beginning of the last
/// word.
fn matching(terms: &Terms) -> String {
    let quoted = |Term { text, last }: &Term| {
        let star = match last {
            WordMatch::Whole => "",
            WordMatch::Beginning => " *",
        };
        format!("\"{}\"{star}", text.replace('"', "\"\""))
    };
    let phrases: Vec<_> = terms.terms().iter().map(quoted).collect();
    phrases.join(" ")
}

/// The documents of a page. Only these get excerpts, not all matches.
fn ranked(
    connection: &Connection,
    tenant: i64,
    search: &Search,
    matching: &str,
    at: Cursor,
    limit: u32,
) -> Result<Vec<i64>> {
    let sql = format!(
        "SELECT d.document FROM words_{tenant} w
         JOIN documents_{tenant} d ON d.document = w.rowid
         WHERE words_{tenant} MATCH ?1 AND w.rowid <= ?2 AND d.rewound <= ?3
             AND (?4 IS NULL OR d.role = ?4) AND (?5 IS NULL OR d.at >= ?5)
             AND (?6 IS NULL OR d.transcript = (SELECT number FROM transcripts WHERE tenant = ?8 AND id = ?6))
             AND (?7 IS NULL OR d.transcript IN (SELECT number FROM transcripts WHERE tenant = ?8 AND project = ?7))
         ORDER BY w.rank, w.rowid LIMIT ?9 OFFSET ?10"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_map(
        params![
            matching,
            at.newest,
            search.standing == MessageVisibility::Rewound,
            search.role.map(role_number),
            search.since.map(Timestamp::as_micros),
            search.transcript.as_ref().map(|id| id.as_str()),
            search.project,
            tenant,
            limit,
            at.offset
        ],
        |row| row.get(0),
    )?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

fn hit(connection: &Connection, tenant: i64, matching: &str, document: i64) -> Result<Hit> {
    let sql = format!(
        "SELECT t.id, t.project, d.position, d.message, d.role, d.at, d.rewound, -bm25(words_{tenant}),
                snippet(words_{tenant}, 0, char(1), char(2), '…', {AROUND})
         FROM words_{tenant} w
         JOIN documents_{tenant} d ON d.document = w.rowid
         JOIN transcripts t ON t.number = d.transcript
         WHERE words_{tenant} MATCH ?1 AND w.rowid = ?2"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    Ok(statement.query_row(params![matching, document], read_hit)?)
}

fn read_hit(row: &Row<'_>) -> rusqlite::Result<Hit> {
    Ok(Hit {
        transcript: parsed(row, 0)?,
        project: row.get(1)?,
        position: row.get::<_, i64>(2)?.cast_unsigned(),
        message: parsed(row, 3)?,
        role: role(row.get(4)?).ok_or(rusqlite::Error::IntegralValueOutOfRange(4, 0))?,
        at: Timestamp::from_micros(row.get(5)?),
        standing: if row.get(6)? {
            MessageVisibility::Rewound
        } else {
            MessageVisibility::Shown
        },
        score: row.get(7)?,
        excerpt: excerpt(&row.get::<_, String>(8)?),
    })
}

fn parsed<T: std::str::FromStr<Err = skein_domain::Invalid>>(
    row: &Row<'_>,
    at: usize,
) -> rusqlite::Result<T> {
    let wrong = |e| rusqlite::Error::FromSqlConversionFailure(at, Type::Text, Box::new(e));
    row.get::<_, String>(at)?.parse().map_err(wrong)
}

fn excerpt(marked: &str) -> Excerpt {
    let mut excerpt = Excerpt::default();
    let mut from = 0;
    for c in marked.chars() {
        match c {
            OPEN => from = excerpt.text.len(),
            CLOSE => excerpt.matches.push(from..excerpt.text.len()),
            c => excerpt.text.push(c),
        }
    }
    excerpt
}

fn role_number(role: MessageRole) -> u8 {
    match role {
        MessageRole::System => 0,
        MessageRole::User => 1,
        MessageRole::Assistant => 2,
        MessageRole::Tool => 3,
    }
}

fn role(number: u8) -> Option<MessageRole> {
    [
        MessageRole::System,
        MessageRole::User,
        MessageRole::Assistant,
        MessageRole::Tool,
    ]
    .get(usize::from(number))
    .copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_tell_where_the_terms_are() {
        let cut = excerpt("…the \u{1}login\u{2} form of \u{1}ann\u{2}");
        assert_eq!(cut.text, "…the login form of ann");
        let matched: Vec<&str> = cut.matches.iter().map(|m| &cut.text[m.clone()]).collect();
        assert_eq!(matched, ["login", "ann"]);
    }

    #[test]
    fn l13_cursors_of_others_are_refused() {
        for bad in ["", "x", "1", "1.x", ".", "1.99999999", "1.-1"] {
            assert_eq!(Cursor::parse(bad), None, "{bad}");
        }
        let cursor = Cursor {
            newest: 7,
            offset: 20,
        };
        assert_eq!(Cursor::parse(&cursor.text()), Some(cursor));
    }
}
