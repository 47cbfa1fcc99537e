//! Names in a folder, in byte order.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use skein_transcript::Result;
use skein_transcript::cold::Name;

use crate::io::At;
use crate::name::is_part;

/// Up to `limit` names below `prefix` after `after`. Each page reads the folder again, because the file system has no
/// order.
pub(super) fn list(
    root: &Path,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<Name>> {
    let mut names = vec![];
    walk(root, prefix, after.unwrap_or(""), limit, &mut names)?;
    Ok(names)
}

fn walk(root: &Path, prefix: &str, after: &str, limit: usize, names: &mut Vec<Name>) -> Result<()> {
    for child in children(&root.join(prefix))? {
        if names.len() >= limit {
            break;
        }
        let name = format!("{prefix}/{child}");
        match name.strip_suffix('/') {
            // Skips a folder whose names all come before.
            Some(folder) if name.as_str() > after || after.starts_with(&name) => {
                walk(root, folder, after, limit, names)?;
            }
            None if name.as_str() > after => names.push(Name::from_stored(name)),
            _ => {}
        }
    }
    Ok(())
}

/// The entries of a folder in order, without foreign ones; folders end with `/`, as in the names below them.
fn children(folder: &Path) -> Result<Vec<String>> {
    let mut children = vec![];
    let entries = match fs::read_dir(folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(children),
        other => other.at("read", folder)?,
    };
    for entry in entries {
        let entry = entry.at("read", folder)?;
        let Some(part) = entry
            .file_name()
            .to_str()
            .filter(|part| is_part(part))
            .map(str::to_owned)
        else {
            continue;
        };
        let kind = match entry.file_type() {
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            other => other.at("read", &entry.path())?,
        };
        if kind.is_dir() {
            children.push(format!("{part}/"));
        } else if kind.is_file() {
            children.push(part);
        }
    }
    children.sort_unstable();
    Ok(children)
}
