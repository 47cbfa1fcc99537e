//! The message of a snapshot's commit, which names the purpose of each parent. Only this module writes and reads it.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use skein_domain::{CommitId, SagaId};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Note {
    /// The saga that made the snapshot.
    pub(crate) saga: Option<SagaId>,
    /// The full name of the checked-out branch; none if the head was detached.
    pub(crate) head: Option<String>,
    /// The head's commit; none before the first commit.
    pub(crate) commit: Option<CommitId>,
    pub(crate) in_progress: Option<String>,
    /// Whether the tree contains changed files byte for byte. Backups of earlier builds contain them as git would
    /// commit them.
    pub(crate) exact: bool,
    pub(crate) parts: Vec<(CommitId, NotePart)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotePart {
    Index,
    Raw,
    /// What only the git directory and the index contain.
    State,
    Nested(PathBuf),
    Ref(String),
    /// An annotated tag, which is an object: its name and its text.
    Tag(String, Vec<u8>),
    /// The commits of a submodule that was not checked out, by its name.
    Module(PathBuf),
    Loose,
}

impl Note {
    pub(crate) fn write(&self, name: &str) -> String {
        let mut text = format!("skein: backup of {name}\n\n");
        let mut line = |key: &str, value: &str| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "Skein-{key}: {value}");
        };
        if let Some(saga) = &self.saga {
            line("Saga", saga.as_str());
        }
        line("Head", self.head.as_deref().unwrap_or("detached"));
        if let Some(commit) = &self.commit {
            line("Commit", commit.as_str());
        }
        if let Some(what) = &self.in_progress {
            line("In-Progress", what);
        }
        if self.exact {
            line("Files", "exact");
        }
        for (commit, part) in &self.parts {
            match part {
                NotePart::Index => line("Index", commit.as_str()),
                NotePart::Raw => line("Raw", commit.as_str()),
                NotePart::State => line("State", commit.as_str()),
                NotePart::Nested(path) => {
                    line("Nested", &format!("{commit} {}", encode_path(path)))
                }
                NotePart::Ref(name) => line("Ref", &format!("{commit} {name}")),
                NotePart::Tag(name, text) => {
                    line("Tag", &format!("{commit} {name} {}", encode(text)));
                }
                NotePart::Module(name) => {
                    line("Module", &format!("{commit} {}", encode_path(name)))
                }
                NotePart::Loose => line("Loose", commit.as_str()),
            }
        }
        text
    }

    pub(crate) fn read(text: &str) -> Self {
        let mut note = Self::default();
        for line in text.lines() {
            let Some((key, value)) = line.strip_prefix("Skein-").and_then(|l| l.split_once(": "))
            else {
                continue;
            };
            let (id, rest) = value.split_once(' ').unwrap_or((value, ""));
            match key {
                "Head" => note.head = (value != "detached").then(|| value.to_owned()),
                "Saga" => note.saga = value.parse().ok(),
                "Commit" => note.commit = id.parse().ok(),
                "In-Progress" => note.in_progress = Some(value.to_owned()),
                "Files" => note.exact = value == "exact",
                _ => note.take(key, id, rest),
            }
        }
        note
    }

    fn take(&mut self, key: &str, id: &str, rest: &str) {
        let Ok(commit) = id.parse::<CommitId>() else {
            return;
        };
        let part = match key {
            "Index" => NotePart::Index,
            "Raw" => NotePart::Raw,
            "State" => NotePart::State,
            "Nested" => NotePart::Nested(decode_path(rest)),
            "Module" => NotePart::Module(decode_path(rest)),
            "Tag" => match rest.split_once(' ') {
                Some((name, text)) => NotePart::Tag(name.to_owned(), decode(text)),
                None => return,
            },
            "Ref" => NotePart::Ref(rest.to_owned()),
            "Loose" => NotePart::Loose,
            _ => return,
        };
        self.parts.push((commit, part));
    }

    pub(crate) fn nested(&self) -> impl Iterator<Item = (&Path, &CommitId)> {
        self.parts.iter().filter_map(|(commit, part)| match part {
            NotePart::Nested(path) => Some((path.as_path(), commit)),
            _ => None,
        })
    }

    pub(crate) fn refs(&self) -> impl Iterator<Item = (&str, &CommitId)> {
        self.parts.iter().filter_map(|(commit, part)| match part {
            NotePart::Ref(name) => Some((name.as_str(), commit)),
            _ => None,
        })
    }

    pub(crate) fn tags(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.parts.iter().filter_map(|(_, part)| match part {
            NotePart::Tag(name, text) => Some((name.as_str(), text.as_slice())),
            _ => None,
        })
    }

    /// The commit of a part that a snapshot has at most once.
    pub(crate) fn find(&self, wanted: &NotePart) -> Option<&CommitId> {
        let mut parts = self.parts.iter();
        parts
            .find(|(_, part)| part == wanted)
            .map(|(commit, _)| commit)
    }
}

fn encode_path(path: &Path) -> String {
    encode(path.as_os_str().as_bytes())
}

fn decode_path(text: &str) -> PathBuf {
    PathBuf::from(OsString::from_vec(decode(text)))
}

/// Encodes any bytes as one line of plain characters.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in bytes {
        if byte.is_ascii_graphic() && *byte != b'%' {
            out.push(char::from(*byte));
        } else {
            let _ = write!(out, "%{byte:02x}");
        }
    }
    out
}

pub(crate) fn decode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = text
            .get(at + 1..at + 3)
            .and_then(|h| u8::from_str_radix(h, 16).ok());
        match (bytes[at], hex) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let id: CommitId = "0123456789abcdef0123456789abcdef01234567".parse().unwrap();
        let strange = PathBuf::from(OsString::from_vec(b"a b/%\xff\nc".to_vec()));
        let note = Note {
            saga: Some(SagaId::from_random([7; 10])),
            head: Some("refs/heads/x".into()),
            commit: Some(id.clone()),
            in_progress: Some("rebase".into()),
            exact: true,
            parts: vec![
                (id.clone(), NotePart::Index),
                (id.clone(), NotePart::Raw),
                (id.clone(), NotePart::State),
                (id.clone(), NotePart::Nested(strange.clone())),
                (id.clone(), NotePart::Module(strange)),
                (
                    id.clone(),
                    NotePart::Tag("refs/tags/v1".into(), b"tag v1\n\na b\n".to_vec()),
                ),
                (id.clone(), NotePart::Ref("refs/heads/дом".into())),
                (id, NotePart::Loose),
            ],
        };
        assert_eq!(Note::read(&note.write("api-7")), note);
        assert_eq!(Note::read(&Note::default().write("api-7")), Note::default());
    }
}
