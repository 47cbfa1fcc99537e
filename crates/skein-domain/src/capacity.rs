//! Whether a session may have more children. Callers run this in the transaction that adds the edge.

use crate::error::Refused;
use crate::id::SessionId;
use crate::project::Limits;

/// `live` counts the children that have not ended.
pub fn check(
    limits: &Limits,
    parent: &SessionId,
    parent_depth: u32,
    live: u32,
    asked: u32,
) -> Result<(), Refused> {
    let depth = parent_depth.saturating_add(1);
    if depth > limits.depth {
        return Err(Refused::Depth {
            session: parent.clone(),
            depth,
            limit: limits.depth,
        });
    }
    if live.saturating_add(asked) > limits.width {
        return Err(Refused::Width {
            session: parent.clone(),
            live,
            asked,
            limit: limits.width,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive() {
        let limits = Limits { depth: 4, width: 8 };
        let id: SessionId = "api-1".parse().unwrap();
        for (depth, live, asked, ok) in [
            (0, 0, 1, true),
            (3, 7, 1, true),
            (4, 0, 1, false),
            (0, 8, 1, false),
            (0, 6, 3, false),
            (0, 6, 2, true),
        ] {
            assert_eq!(
                check(&limits, &id, depth, live, asked).is_ok(),
                ok,
                "{depth} {live} {asked}"
            );
        }
    }
}
