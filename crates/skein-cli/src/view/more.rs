//! What follows a list.

use crate::output::Output;

/// Tells on stderr that a list goes on.
pub(crate) fn more(out: &Output, next: Option<&str>) {
    if let Some(next) = next {
        out.note(&format!("there are more; `--cursor {next}` goes on"));
    }
}
