//! The cost of messages. Hidden replies count too, because they were paid for.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::id::TranscriptId;

/// Tokens as providers count them, and cost in millionths of a US dollar. Stored as it serialises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub reasoning: u64,
    pub cost_micros: u64,
}

impl TokenUsage {
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            reasoning: self.reasoning.saturating_add(other.reasoning),
            cost_micros: self.cost_micros.saturating_add(other.cost_micros),
        }
    }
}

/// As budgets count: cache reads and writes are input, reasoning is part of the output.
impl From<TokenUsage> for skein_domain::Usage {
    fn from(usage: TokenUsage) -> Self {
        let input = usage.input.saturating_add(usage.cache_read);
        Self {
            input_tokens: input.saturating_add(usage.cache_write),
            output_tokens: usage.output,
            cost_micros: usage.cost_micros,
        }
    }
}

/// What `root` and everything delegated below it spent. `edges` are (parent, child); duplicates and cycles count
/// once.
pub fn rollup(
    root: &TranscriptId,
    edges: &[(TranscriptId, TranscriptId)],
    spent: &BTreeMap<TranscriptId, TokenUsage>,
) -> TokenUsage {
    let mut children: BTreeMap<&TranscriptId, Vec<&TranscriptId>> = BTreeMap::new();
    for (parent, child) in edges {
        children.entry(parent).or_default().push(child);
    }
    let (mut seen, mut waiting) = (BTreeSet::from([root]), vec![root]);
    let mut total = TokenUsage::default();
    while let Some(id) = waiting.pop() {
        total = total.plus(spent.get(id).copied().unwrap_or_default());
        for child in children.get(id).into_iter().flatten() {
            if seen.insert(child) {
                waiting.push(child);
            }
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_include_children_once() {
        let id = |name: &str| name.parse::<TranscriptId>().unwrap();
        let of = |input| TokenUsage {
            input,
            ..TokenUsage::default()
        };
        let edges = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "a")];
        let edges = edges.map(|(p, c)| (id(p), id(c)));
        let spent = BTreeMap::from([(id("a"), of(1)), (id("b"), of(10)), (id("d"), of(1000))]);
        assert_eq!(rollup(&id("a"), &edges, &spent), of(1011));
        assert_eq!(rollup(&id("b"), &edges[2..3], &spent), of(1010));
        assert_eq!(rollup(&id("x"), &[], &spent), of(0));
    }
}
