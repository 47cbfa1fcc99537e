//! The tasks of a `spawn`: arguments, and lines of a file.

use std::io::Read as _;
use std::path::Path;

use skein_domain::Task;

use crate::error::UserError;

/// Longest task file.
const LONGEST: u64 = 4 << 20;

pub(super) fn tasks(given: &[String], from: Option<&Path>) -> Result<Vec<String>, UserError> {
    let mut tasks = given.to_vec();
    if let Some(path) = from {
        let before = tasks.len();
        let text = read(path)?;
        // Some editors write a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        for (n, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            // All tasks are checked before the first is spawned.
            if let Err(error) = line.parse::<Task>() {
                let place = format!("line {} of `{}`: {error}", n + 1, path.display());
                return Err(UserError::misuse(place).hint("nothing was spawned"));
            }
            tasks.push(line.to_owned());
        }
        if tasks.len() == before {
            return Err(UserError::misuse(format!(
                "no task in `{}`",
                path.display()
            )));
        }
    }
    Ok(tasks)
}

/// A whole text file, or stdin for `-`.
pub(crate) fn read(path: &Path) -> Result<String, UserError> {
    let mut bytes = Vec::new();
    let result = if path == Path::new("-") {
        std::io::stdin()
            .lock()
            .take(LONGEST + 1)
            .read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes))
    };
    let refuse = |why: &str| UserError::misuse(format!("cannot read `{}`: {why}", path.display()));
    result.map_err(|error| refuse(&error.to_string()))?;
    if bytes.len() as u64 > LONGEST {
        return Err(refuse("it is longer than 4 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| refuse("it is not UTF-8"))
}
