//! Checks names once more before they become paths (L15).

use skein_domain::Invalid;
use skein_transcript::Result;
use skein_transcript::cold::Name;

pub(crate) fn object(name: &Name) -> Result<&str> {
    if is_path(name.as_str()) {
        return Ok(name.as_str());
    }
    let expected = "expected parts of a-z, 0-9, `-`, `_` and `.` with `/` between them";
    Err(Invalid::new("object name", name.as_str(), expected).into())
}

/// A prefix of names, without its final `/`.
pub(crate) fn prefix(name: &Name) -> Result<&str> {
    match name.as_str().strip_suffix('/') {
        Some(path) if is_path(path) => Ok(path),
        _ => Err(Invalid::new("object prefix", name.as_str(), "expected a name and a `/`").into()),
    }
}

/// Parts that begin with a dot are reserved for Skein's own files.
pub(crate) fn is_part(part: &str) -> bool {
    let plain =
        |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.');
    (1..=255).contains(&part.len()) && !part.starts_with('.') && part.bytes().all(plain)
}

fn is_path(path: &str) -> bool {
    path.len() <= 800 && path.split('/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l15_names_cannot_leave_their_root() {
        let long = "a".repeat(256);
        let bad = [
            "",
            "/",
            "/etc/passwd",
            "..",
            "../a",
            "a/../b",
            "a/./b",
            "a//b",
            "a/",
            "/a",
            "A/b",
            "a b",
            "a\0b",
            "a\\b",
            "ä",
            ".skein/temp/x",
            "a/.b",
            "~/a",
            "a:b",
            "%2e%2e/a",
            &long,
        ];
        for bad in bad {
            assert!(object(&Name::from_stored(bad)).is_err(), "{bad:?}");
            assert!(
                prefix(&Name::from_stored(format!("{bad}/"))).is_err(),
                "{bad:?}"
            );
        }
        assert!(prefix(&Name::from_stored("a")).is_err());
        assert_eq!(
            object(&Name::from_stored("t/segments/api-7/0f")).unwrap(),
            "t/segments/api-7/0f"
        );
        assert_eq!(
            prefix(&Name::from_stored("t/manifests/")).unwrap(),
            "t/manifests"
        );
    }
}
