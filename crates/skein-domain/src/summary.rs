//! What a session leaves behind for others: written once, never changed.

use crate::error::{Invalid, Refused};
use crate::id::{SessionId, SummaryId};
use crate::text::Reason;
use crate::time::Timestamp;
use crate::word::words;

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Summary {
    pub id: SummaryId,
    pub session: SessionId,
    pub outcome: SummaryOutcome,
    pub text: String,
    pub key_decisions: Vec<String>,
    pub deliverables: Vec<Deliverable>,
    /// The session whose summary this work builds on.
    pub based_on: Option<SessionId>,
    pub at: Timestamp,
}

words! {
    pub enum SummaryOutcome: "outcome" {
        Succeeded = "succeeded",
        Partial = "partial",
        Failed = "failed",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Deliverable {
    /// A file in the session's workspace, by relative path.
    File {
        path: String,
        sha256: Option<String>,
        size: Option<u64>,
    },
    Message {
        session: SessionId,
        message: String,
    },
    Summary {
        session: SessionId,
    },
    Blob {
        reference: String,
        media_type: Option<String>,
    },
}

/// Most characters of a summary's text.
const MOST_TEXT: usize = 4000;
/// Longest chain of summaries that build on each other.
const MOST_CHAIN: u32 = 10;
/// Most key decisions, and most deliverables.
const MOST_ITEMS: usize = 100;

/// Checks the parts of a summary that need no other record.
pub fn check(
    text: &str,
    key_decisions: &[String],
    deliverables: &[Deliverable],
) -> Result<(), Invalid> {
    let _: Reason = text.parse().map_err(|e: Invalid| Invalid {
        what: "summary",
        ..e
    })?;
    let length = text.chars().count();
    if length > MOST_TEXT {
        return Err(Invalid::new(
            "summary",
            text,
            format!("it has {length} characters; the limit is {MOST_TEXT}"),
        ));
    }
    for (what, count) in [
        ("key decisions", key_decisions.len()),
        ("deliverables", deliverables.len()),
    ] {
        if count > MOST_ITEMS {
            return Err(Invalid::new(
                what,
                &count.to_string(),
                format!("the limit is {MOST_ITEMS}"),
            ));
        }
    }
    for decision in key_decisions {
        let _: Reason = decision.parse().map_err(|e: Invalid| Invalid {
            what: "key decision",
            ..e
        })?;
    }
    deliverables.iter().try_for_each(check_deliverable)
}

fn check_deliverable(deliverable: &Deliverable) -> Result<(), Invalid> {
    match deliverable {
        Deliverable::File { path, sha256, .. } => {
            let inside = !path.is_empty()
                && path.len() <= 4096
                && !path.starts_with('/')
                && !path.chars().any(char::is_control)
                && path.split('/').all(|part| !matches!(part, "" | "." | ".."));
            if !inside {
                return Err(Invalid::new(
                    "deliverable path",
                    path,
                    "expected a path inside the workspace, without `..`",
                ));
            }
            match sha256 {
                Some(hex) if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) => Err(
                    Invalid::new("sha256", hex, "expected 64 hexadecimal digits"),
                ),
                _ => Ok(()),
            }
        }
        Deliverable::Message { message, .. } => {
            let _: Reason = message.parse().map_err(|e: Invalid| Invalid {
                what: "message id",
                ..e
            })?;
            Ok(())
        }
        Deliverable::Blob {
            reference,
            media_type,
        } => {
            for text in std::iter::once(reference).chain(media_type) {
                let _: Reason = text
                    .parse()
                    .map_err(|e: Invalid| Invalid { what: "blob", ..e })?;
            }
            Ok(())
        }
        Deliverable::Summary { .. } => Ok(()),
    }
}

/// Walks the chain that a new summary would join; `based_on` returns the session that a session's summary builds
/// on. A chain has at most `MOST_CHAIN` summaries, the new one included, and no cycle.
pub fn check_chain<E: From<Refused>>(
    session: &SessionId,
    first: &SessionId,
    mut based_on: impl FnMut(&SessionId) -> Result<Option<SessionId>, E>,
) -> Result<(), E> {
    let mut seen = vec![session.clone()];
    let mut next = Some(first.clone());
    while let Some(current) = next {
        if seen.contains(&current) {
            return Err(Refused::ChainCycle { through: current }.into());
        }
        seen.push(current.clone());
        let depth = u32::try_from(seen.len()).unwrap_or(u32::MAX);
        if depth > MOST_CHAIN {
            return Err(Refused::ChainTooDeep {
                depth,
                limit: MOST_CHAIN,
            }
            .into());
        }
        next = based_on(&current)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u32) -> SessionId {
        format!("api-{n}").parse().unwrap()
    }

    #[test]
    fn a_chain_may_be_ten_long_and_has_no_cycle() {
        // Session n is based on n + 1, up to `last`.
        let walk = |last: u32| {
            check_chain::<Refused>(&id(1), &id(2), |s| {
                let n: u32 = s.as_str()[4..].parse().unwrap();
                Ok((n < last).then(|| id(n + 1)))
            })
        };
        assert_eq!(walk(10), Ok(()));
        assert_eq!(
            walk(11),
            Err(Refused::ChainTooDeep {
                depth: 11,
                limit: 10
            })
        );
        let cycle = check_chain::<Refused>(&id(1), &id(2), |_| Ok(Some(id(1))));
        assert_eq!(cycle, Err(Refused::ChainCycle { through: id(1) }));
        let own = check_chain::<Refused>(&id(1), &id(1), |_| Ok(None));
        assert_eq!(own, Err(Refused::ChainCycle { through: id(1) }));
    }

    #[test]
    fn l13_deliverables_stay_in_the_workspace() {
        let file = |path: &str| {
            [Deliverable::File {
                path: path.into(),
                sha256: None,
                size: None,
            }]
        };
        for bad in ["", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a\0b"] {
            assert!(check("fine", &[], &file(bad)).is_err(), "{bad:?}");
        }
        assert!(check("fine", &[], &file("src/main.rs")).is_ok());
        assert!(check(&"é".repeat(4000), &[], &[]).is_ok());
        assert!(check(&"é".repeat(4001), &[], &[]).is_err());
    }
}
