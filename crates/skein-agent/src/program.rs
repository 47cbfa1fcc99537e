//! Finds the program of a command line.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Words that the shell interprets, so no program of that name is searched.
const SHELL: &[&str] = &[
    "!", ".", ":", "break", "case", "cd", "command", "continue", "do", "done", "elif", "else",
    "esac", "eval", "exec", "exit", "export", "false", "fi", "for", "function", "if", "local",
    "read", "return", "set", "shift", "source", "then", "time", "trap", "true", "type", "ulimit",
    "umask", "unset", "until", "while", "{", "}",
];

/// The program of a command line that is one plain call; `None` if only the shell can tell.
pub fn of(command: &str) -> Option<&str> {
    let command = command.trim();
    if command.contains([';', '|', '&', '(', ')', '`', '\n', '#', '\\']) {
        return None;
    }
    let word = command.split_whitespace().next()?;
    let plain =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'/' | b'+' | b'@');
    (word.bytes().all(plain) && !SHELL.contains(&word)).then_some(word)
}

/// The program's path: in `path`, or for a name with a `/` below `folder`.
pub fn find(name: &str, path: &str, folder: Option<&Path>) -> Option<PathBuf> {
    if name.contains('/') {
        let place = Path::new(name);
        let place = match folder {
            Some(folder) => folder.join(place),
            None => place.to_owned(),
        };
        return is_program(&place).then_some(place);
    }
    path.split(':')
        .filter(|entry| entry.starts_with('/'))
        .map(|entry| Path::new(entry).join(name))
        .find(|place| is_program(place))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_calls_name_their_program() {
        for (command, expected) in [
            ("claude --verbose", Some("claude")),
            ("  ./run.sh 'a b' $HOME", Some("./run.sh")),
            ("cd x && claude", None),
            ("A=1 claude", None),
            ("claude | tee log", None),
            ("exec claude", None),
            ("(claude)", None),
            ("\"my agent\"", None),
            ("$AGENT", None),
            ("", None),
        ] {
            assert_eq!(of(command), expected, "{command}");
        }
    }

    #[test]
    fn programs_are_looked_for_in_the_path_that_was_given() {
        assert!(find("sh", "/nowhere:/bin:/usr/bin", None).is_some());
        assert_eq!(find("sh", "/nowhere", None), None);
        assert_eq!(
            find("sh", "bin:", None),
            None,
            "relative entries are not used"
        );
        assert_eq!(find("./nothing", "/bin", Some(Path::new("/"))), None);
    }
}
