//! What follows a list.

use crate::output::Output;

/// Prints on stderr that a list continues.
pub(crate) fn more(out: &Output, next: Option<&str>) {
    if let Some(next) = next {
        out.note(&format!("more follows: `--cursor {next}`"));
    }
}
