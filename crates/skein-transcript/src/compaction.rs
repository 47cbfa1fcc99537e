//! Summaries replace the messages they cover: a model no longer sees those messages, but none is deleted.

use crate::message::{CoveredRange, PositionedMessage};

/// The positions that summaries hide, collected from the newest message to the oldest. A later summary comes
/// first, so a summary that is itself covered hides nothing.
#[derive(Debug, Default)]
pub(crate) struct CoveredRanges {
    ranges: Vec<CoveredRange>,
}

impl CoveredRanges {
    /// Whether `position` is hidden; returns the start of the range that hides it.
    pub(crate) fn over(&self, position: u64) -> Option<u64> {
        let hiding = |c: &&CoveredRange| (c.from..c.end).contains(&position);
        self.ranges.iter().filter(hiding).map(|c| c.from).min()
    }

    /// Takes the next older message; returns whether it is visible.
    pub(crate) fn admits(&mut self, placed: &PositionedMessage) -> bool {
        if self.over(placed.position).is_some() {
            return false;
        }
        self.ranges.extend(placed.message.covers);
        true
    }
}

/// Orders visible messages: a summary takes the position of the first message it covers.
pub(crate) fn arrange(mut seen: Vec<PositionedMessage>) -> Vec<PositionedMessage> {
    seen.sort_by_key(|p| (p.message.covers.map_or(p.position, |c| c.from), p.position));
    seen
}

/// The part of `messages`, which are in order, that a model sees.
pub fn effective(messages: Vec<PositionedMessage>) -> Vec<PositionedMessage> {
    let mut covered = CoveredRanges::default();
    let newest_first = messages.into_iter().rev();
    arrange(
        newest_first
            .filter(|placed| covered.admits(placed))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use skein_domain::Timestamp;

    use super::*;
    use crate::message::{Message, MessageRole};

    fn check(covers: &[(u64, u64, u64)], expected: &[u64]) {
        let message = |position: u64| {
            let id = format!("m{position}").parse().unwrap();
            let mut message =
                Message::new(id, MessageRole::User, vec![], Timestamp::from_micros(0));
            let cover = covers.iter().find(|c| c.0 == position);
            message.covers = cover.map(|(_, from, end)| CoveredRange {
                from: *from,
                end: *end,
            });
            PositionedMessage {
                position,
                message,
                damage: None,
            }
        };
        let shown = effective((0..10).map(message).collect());
        let positions: Vec<u64> = shown.iter().map(|p| p.position).collect();
        assert_eq!(positions, expected, "{covers:?}");
    }

    #[test]
    fn summaries_stand_where_what_they_cover_stood() {
        check(&[], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        check(&[(7, 1, 5)], &[0, 7, 5, 6, 8, 9]);
        check(&[(9, 0, 9)], &[9]);
        // A later one covers an earlier one, wholly or in part: what that hid alone is seen again.
        check(&[(4, 1, 4), (8, 1, 7)], &[0, 8, 7, 9]);
        check(&[(4, 0, 4), (8, 3, 7)], &[0, 1, 2, 8, 7, 9]);
        // Two side by side.
        check(&[(4, 1, 3), (8, 5, 8)], &[0, 4, 3, 8, 9]);
    }
}
