//! Quoting of words for tmux's command parser.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// One word for tmux's parser, whose single quotes work like the shell's.
pub(super) fn word(word: &OsStr) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for byte in word.as_bytes() {
        match byte {
            b'\'' => quoted.extend_from_slice(b"'\\''"),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// Words as tmux's parser takes them, after `line` and a blank.
pub(super) fn append<'a>(line: &mut Vec<u8>, words: impl IntoIterator<Item = &'a OsStr>) {
    for each in words {
        line.push(b' ');
        line.extend_from_slice(&word(each));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l15_words_stay_words() {
        let quoted = |text: &str| String::from_utf8(word(OsStr::new(text))).unwrap();
        assert_eq!(quoted("a b;c"), "'a b;c'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
