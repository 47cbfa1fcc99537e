//! Prints the output of set-up commands while they run.

use std::collections::HashMap;
use std::path::PathBuf;

use skein_client::Client;
use skein_runtime::log::EscapeFilter;

use crate::progress::Progress;
use crate::tail::Tail;

/// The logs of running set-ups.
#[derive(Debug, Default)]
pub(super) struct Setups(HashMap<String, Following>);

#[derive(Debug)]
struct Following {
    tail: Tail,
    filter: EscapeFilter,
    /// The incomplete last line.
    part: String,
}

impl Setups {
    pub(super) fn are_under_way(&self) -> bool {
        !self.0.is_empty()
    }

    /// Follows the set-up of `session` from now on. An error is ignored: the output is a convenience.
    pub(super) async fn begin(&mut self, client: &Client, session: &str) {
        let Ok(terminal) = client.terminal(session).await else {
            return;
        };
        let following = Following {
            tail: Tail::new(PathBuf::from(terminal.setup_log)),
            filter: EscapeFilter::default(),
            part: String::new(),
        };
        self.0.insert(session.to_owned(), following);
    }

    /// The set-up of `session` is over; prints the rest of its output.
    pub(super) fn end(&mut self, session: &str, progress: &mut Progress<'_>) {
        if let Some(mut following) = self.0.remove(session) {
            following.pass_on(session, progress);
            if !following.part.is_empty() {
                progress.pass_on(session, &following.part);
            }
        }
    }

    pub(super) fn pass_on(&mut self, progress: &mut Progress<'_>) {
        for (session, following) in &mut self.0 {
            following.pass_on(session, progress);
        }
    }
}

impl Following {
    fn pass_on(&mut self, session: &str, progress: &mut Progress<'_>) {
        let bytes = self.tail.read().unwrap_or_default();
        self.part.push_str(&plain(&self.filter.text(&bytes)));
        while let Some((line, rest)) = self.part.split_once('\n') {
            progress.pass_on(session, line.trim_end_matches('\r'));
            self.part = rest.to_owned();
        }
    }
}

/// Removes colours, the only escape sequences that the filter leaves.
fn plain(text: &str) -> String {
    let mut pieces = text.split('\x1b');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        out.push_str(piece.split_once('m').map_or("", |(_, rest)| rest));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_left_out() {
        assert_eq!(plain("a\x1b[1;31mred\x1b[0m b"), "ared b");
        assert_eq!(plain("none"), "none");
    }
}
