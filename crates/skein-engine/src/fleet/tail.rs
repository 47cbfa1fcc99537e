//! How a keeper reads the files its agent writes: what was added since the last time, or all of what was
//! replaced.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use skein_agent::agent::{Agent, Process, Reach, Reader, Reading, Source};
use skein_domain::ReadFile;
use tokio::sync::Notify;

use super::files::{Files, Watch};

/// How much of what was read before is shown to a reader that is new to the file.
const BEFORE: u64 = 64 * 1024;
/// How much is read at a time; a line that is longer is let go.
const CHUNK: u64 = 8 * 1024 * 1024;

/// Whether anything was found in one of these files, by what was recorded.
pub(super) fn was_read(sources: &[Source], recorded: &[ReadFile]) -> bool {
    let begun = recorded.iter().filter(|r| r.position > 0);
    let paths: Vec<&str> = begun.map(|r| r.path.as_str()).collect();
    sources
        .iter()
        .any(|source| paths.contains(&&*source.path.to_string_lossy()))
}

/// All files of one run.
#[derive(Debug, Default)]
pub(super) struct Tails {
    tails: Vec<Tail>,
}

#[derive(Debug)]
struct Tail {
    path: PathBuf,
    kind: String,
    reach: Reach,
    reader: Box<dyn Reader>,
    position: u64,
    /// Whether the reader knows what came before the position.
    primed: bool,
    /// What a file that is replaced held when it was last read.
    last: Option<Vec<u8>>,
    watch: Watch,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) readings: Vec<Reading>,
    /// More is there than was read.
    pub(super) more: bool,
    /// Some file cannot be watched, so nothing rings when it changes.
    pub(super) unwatched: bool,
}

impl Tails {
    /// Reads `source` from now on, from where the record says; nothing if that is done already.
    pub(super) fn add(
        &mut self,
        source: &Source,
        agent: &dyn Agent,
        process: Option<Process>,
        recorded: &[ReadFile],
        files: &Files,
        bell: &Arc<Notify>,
    ) {
        let Some(path) = source.at(process.map(|p| p.pid)) else {
            return;
        };
        if !path.is_absolute() || self.tails.iter().any(|t| t.path == path) {
            return;
        }
        let known = |r: &&ReadFile| r.path == path.to_string_lossy();
        let position = recorded.iter().find(known).map_or(0, |r| r.position);
        self.tails.push(Tail {
            watch: files.watch(&path, bell),
            reader: agent.reader(&source.kind, process),
            kind: source.kind.clone(),
            reach: source.reach,
            primed: position == 0,
            last: None,
            position,
            path,
        });
    }

    /// How far growing files were read.
    pub(super) fn positions(&self) -> Vec<ReadFile> {
        let grows = |t: &&Tail| t.reach == Reach::Added;
        self.tails
            .iter()
            .filter(grows)
            .map(|t| ReadFile {
                path: t.path.to_string_lossy().into_owned(),
                kind: t.kind.clone(),
                position: t.position,
            })
            .collect()
    }

    /// Reads what is new. A file that is not there, or cannot be read, says nothing (L3).
    pub(super) fn read(&mut self, agent: &dyn Agent, process: Option<Process>) -> Found {
        let mut found = Found::default();
        for tail in &mut self.tails {
            found.unwatched |= tail.watch.ensure().is_err();
            let read = match tail.reach {
                Reach::Whole => tail.read_whole(),
                Reach::Added => tail.read_added(agent, process),
            };
            if let Ok((readings, more)) = read {
                found.readings.extend(readings);
                found.more |= more;
            }
        }
        found
    }
}

impl Tail {
    fn read_whole(&mut self) -> std::io::Result<(Vec<Reading>, bool)> {
        let bytes = read_from(&self.path, 0, CHUNK)?;
        if self.last.as_ref() == Some(&bytes) {
            return Ok((vec![], false));
        }
        let readings = self.reader.read(&String::from_utf8_lossy(&bytes));
        self.last = Some(bytes);
        Ok((readings, false))
    }

    fn read_added(
        &mut self,
        agent: &dyn Agent,
        process: Option<Process>,
    ) -> std::io::Result<(Vec<Reading>, bool)> {
        let length = std::fs::metadata(&self.path)?.len();
        if length < self.position {
            // It was cut, or is another one of the same name.
            self.position = 0;
            self.primed = true;
            self.reader = agent.reader(&self.kind, process);
        }
        if !self.primed {
            let from = self.position.saturating_sub(BEFORE);
            let before = read_from(&self.path, from, self.position - from)?;
            // The first line is perhaps only half of one.
            let whole = before.iter().position(|b| *b == b'\n').map_or(0, |n| n + 1);
            let whole = if from == 0 { 0 } else { whole };
            let _ = self.reader.read(&String::from_utf8_lossy(&before[whole..]));
            self.primed = true;
        }
        if length == self.position {
            return Ok((vec![], false));
        }
        let added = read_from(&self.path, self.position, CHUNK)?;
        let full = added.len() as u64 == CHUNK;
        let Some(end) = added.iter().rposition(|b| *b == b'\n') else {
            if full {
                self.position += CHUNK;
            }
            return Ok((vec![], full));
        };
        self.position += end as u64 + 1;
        let readings = self.reader.read(&String::from_utf8_lossy(&added[..=end]));
        Ok((readings, full))
    }
}

fn read_from(path: &Path, from: u64, most: u64) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = vec![];
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The process with this id as the system knows it now.
pub(super) fn process(pid: u32) -> Option<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, also parentheses; what follows the last one is numbers.
    let (_, rest) = stat.rsplit_once(')')?;
    let started = rest.split_whitespace().nth(19)?.parse().ok()?;
    Some(Process { pid, started })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use skein_agent::Custom;
    use skein_domain::NativeId;

    use super::*;

    /// Tells each line as a name, so that tests see what was read.
    #[derive(Debug)]
    struct Lines;

    impl Reader for Lines {
        fn read(&mut self, text: &str) -> Vec<Reading> {
            let name = |line: &str| line.parse::<NativeId>().map(Reading::Native).ok();
            text.lines().filter_map(name).collect()
        }
    }

    struct Place {
        folder: tempfile::TempDir,
        files: Files,
        bell: Arc<Notify>,
    }

    impl Place {
        fn new() -> Self {
            Self {
                folder: tempfile::tempdir().unwrap(),
                files: Files::default(),
                bell: Arc::new(Notify::new()),
            }
        }

        fn path(&self) -> PathBuf {
            self.folder.path().join("log")
        }

        fn tails(&self, reach: Reach, position: u64) -> Tails {
            let tail = Tail {
                watch: self.files.watch(&self.path(), &self.bell),
                path: self.path(),
                kind: "lines".into(),
                reach,
                reader: Box::new(Lines),
                primed: position == 0,
                last: None,
                position,
            };
            Tails { tails: vec![tail] }
        }

        fn add(&self, text: &str) {
            let mut file = fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(self.path())
                .unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }
    }

    fn read(tails: &mut Tails) -> Vec<String> {
        let found = tails.read(&Custom::bare(), None);
        found
            .readings
            .iter()
            .map(|r| match r {
                Reading::Native(id) => id.to_string(),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn what_grows_is_read_once_and_in_whole_lines() {
        let place = Place::new();
        let mut tails = place.tails(Reach::Added, 0);
        assert_eq!(read(&mut tails), [""; 0], "it is not there yet");
        place.add("one\ntw");
        assert_eq!(read(&mut tails), ["one"]);
        assert_eq!(tails.positions()[0].position, 4);
        place.add("o\nthree\n");
        assert_eq!(read(&mut tails), ["two", "three"]);
        assert_eq!(read(&mut tails), [""; 0]);
    }

    #[test]
    fn l10_what_was_recorded_as_read_is_not_told_again() {
        let place = Place::new();
        place.add("one\ntwo\nthree\n");
        let mut tails = place.tails(Reach::Added, 8);
        assert_eq!(read(&mut tails), ["three"]);
    }

    #[test]
    fn l6_only_what_was_found_in_a_file_counts_as_read() {
        let source = |path: &str| Source {
            path: path.into(),
            kind: "journal".into(),
            reach: Reach::Added,
        };
        let read = |path: &str, position| ReadFile {
            path: path.into(),
            kind: "journal".into(),
            position,
        };
        let now = [source("/journal-2")];
        assert!(!was_read(&now, &[]));
        assert!(!was_read(&now, &[read("/journal-1", 9)]));
        assert!(!was_read(&now, &[read("/journal-2", 0)]));
        assert!(was_read(
            &now,
            &[read("/journal-1", 9), read("/journal-2", 9)]
        ));
    }

    #[test]
    fn a_file_that_was_cut_is_another_one() {
        let place = Place::new();
        place.add("one\ntwo\n");
        let mut tails = place.tails(Reach::Added, 0);
        read(&mut tails);
        fs::write(place.path(), "").unwrap();
        read(&mut tails);
        assert_eq!(tails.positions()[0].position, 0);
    }

    #[test]
    fn what_is_replaced_is_read_when_it_says_something_else() {
        let place = Place::new();
        let mut tails = place.tails(Reach::Whole, 0);
        fs::write(place.path(), "busy").unwrap();
        assert_eq!(read(&mut tails), ["busy"]);
        fs::write(place.path(), "busy").unwrap();
        assert_eq!(read(&mut tails), [""; 0]);
        fs::write(place.path(), "idle").unwrap();
        assert_eq!(read(&mut tails), ["idle"]);
        assert_eq!(tails.positions(), [], "there is nothing to remember of it");
    }

    #[test]
    fn a_process_is_known_by_its_start() {
        let me = process(std::process::id()).unwrap();
        assert_eq!(process(me.pid), Some(me));
        assert!(me.started > 0);
        assert_eq!(process(u32::MAX), None);
    }
}
