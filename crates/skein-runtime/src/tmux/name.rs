//! Names of runs: one word that is safe as a folder, as a tmux session and as a tmux target.

use skein_domain::{RunHandle, SessionId};

/// Longer names end in a hash of the whole: a file name has at most 255 bytes.
const LONGEST: usize = 180;

/// Tenant, session and run as one word of `A-Z a-z 0-9 _ - + ,`. tmux forbids `.` and `:` in session names
/// and reads `*`, `?`, `[`, `@`, `%`, `$` and `=` in targets; none of these occur.
pub(super) fn of(tenant: &str, session: &SessionId, run: u64) -> String {
    let full = format!("{},{},{run}", safe(tenant), safe(session.as_str()));
    if full.len() <= LONGEST {
        return full;
    }
    let start: String = full.chars().take(LONGEST - 40).collect();
    format!("{start}+{:016x},{run}", hash(full.as_bytes()))
}

/// The name in a handle; `None` for one that this runtime never gave.
pub(super) fn from_handle(handle: &RunHandle) -> Option<&str> {
    let name = handle.as_str().strip_prefix("tmux:")?;
    let safe = |b: u8| b.is_ascii_alphanumeric() || b"_-+,".contains(&b);
    (!name.is_empty() && name.len() <= 250 && name.bytes().all(safe)).then_some(name)
}

pub(super) fn to_handle(name: &str) -> RunHandle {
    format!("tmux:{name}")
        .parse()
        .expect("a name is short and printable, so it is a handle")
}

/// FNV-1a: tells names apart, protects nothing.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn safe(part: &str) -> String {
    part.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("+{byte:02x}"));
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> SessionId {
        "app-1".parse().unwrap()
    }

    #[test]
    fn names_of_different_runs_differ_and_come_back_from_handles() {
        let tenants = [
            "default",
            "a.b",
            "a+2eb",
            "a,b",
            "ü",
            &"x".repeat(500),
            &"x".repeat(501),
        ];
        let mut names: Vec<String> = tenants.iter().map(|t| of(t, &session(), 1)).collect();
        names.push(of("default", &session(), 2));
        for name in &names {
            assert_eq!(from_handle(&to_handle(name)), Some(name.as_str()));
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), tenants.len() + 1);
    }

    #[test]
    fn l15_a_handle_never_names_another_folder() {
        for bad in [
            "tmux:../x",
            "tmux:",
            "tmux:a/b",
            "tmux:a b",
            "pty:x",
            "tmux:a:b",
            "tmux:.",
        ] {
            assert_eq!(from_handle(&bad.parse().unwrap()), None, "{bad}");
        }
    }
}
