//! How a supervisor reads the files its agent writes: what was added since the last time, all of what was replaced,
//! or what a database says.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use skein_agent::agent::{Agent, Process, ReadRange, Reader, Reading, WatchedFile};
use skein_domain::ReadFile;
use skein_domain::observed::EvidenceSource;
use tokio::sync::Notify;

use super::files::{Files, Watch};
use super::hook_journal;
use super::parts::Databases;

/// How much of what was read before is shown to a reader that is new to the file.
const BEFORE: u64 = 64 * 1024;
/// How much is read at a time; a longer line is skipped.
const CHUNK: u64 = 8 * 1024 * 1024;

/// Whether anything was found in one of these files, by what was recorded.
pub(super) fn was_read(sources: &[WatchedFile], recorded: &[ReadFile]) -> bool {
    let begun = recorded.iter().filter(|r| r.position > 0);
    let paths: Vec<&str> = begun.map(|r| r.path.as_str()).collect();
    sources
        .iter()
        .any(|source| paths.contains(&&*source.path.to_string_lossy()))
}

/// Which readings of a file are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadingFilter {
    All,
    /// The file is about an earlier run: its usage is counted, its other readings are out of date.
    UsageOnly,
}

impl ReadingFilter {
    /// Messages are not filtered.
    fn accepts(self, reading: &Reading) -> bool {
        // A total of the run is left out too: it would be taken for one of the run that is on now.
        self == Self::All || matches!(reading, Reading::Usage(_) | Reading::ConversationTotal(_))
    }
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
    reach: ReadRange,
    filter: ReadingFilter,
    reader: Box<dyn Reader>,
    progress: Progress,
    /// What a file that is replaced held when it was last read, or what a database said.
    last: Option<Vec<u8>>,
    /// How long a database's log was when it was last asked, and since when.
    asked: Option<(u64, SystemTime)>,
    watch: Watch,
}

/// How far a file was read, and how much of that is recorded.
#[derive(Debug)]
struct Progress {
    position: u64,
    /// The system's number for the file that this is the position in.
    inode: Option<u64>,
    /// Up to where what was spent may be counted already: the file was written anew.
    counted: u64,
    /// All readings but messages are recorded up to here. Below it the file is read again only for messages.
    evidence_position: u64,
    /// Messages from here on may be missing in the transcript.
    first_unimported: Option<u64>,
    /// Whether some of those were dropped because the import queue was full.
    dropped: bool,
    /// Whether the reader has read what comes before the position.
    reader_has_context: bool,
}

impl Progress {
    fn recorded(known: Option<&ReadFile>) -> Self {
        let evidence_position = known.map_or(0, |r| r.position);
        let import_position = known.and_then(|r| r.said);
        let position = import_position
            .unwrap_or(evidence_position)
            .min(evidence_position);
        Self {
            position,
            inode: known.and_then(|r| r.inode),
            counted: 0,
            evidence_position,
            first_unimported: None,
            dropped: false,
            reader_has_context: position == 0,
        }
    }

    /// Whether there is a position to record; a file that was never there has none.
    const fn is_begun(&self) -> bool {
        self.inode.is_some() || self.evidence_position > 0
    }

    /// Where the import of messages has to continue, for the record.
    fn import_position(&self) -> Option<u64> {
        let reads_again = self.position < self.evidence_position;
        self.first_unimported
            .or_else(|| reads_again.then_some(self.position))
    }

    /// The file has this length and inode. Returns true when it was cut or written anew, perhaps with what it held
    /// before: then it is read from its start, and the reader may know it.
    fn update_file(&mut self, length: u64, inode: Option<u64>) -> bool {
        let replaced = self.inode.is_some() && self.inode != inode;
        let is_new = length < self.position || replaced;
        if is_new {
            self.counted = if self.position > 0 { length } else { 0 };
            self.position = 0;
            self.evidence_position = 0;
            self.first_unimported = self.first_unimported.map(|_| 0);
            self.reader_has_context = true;
        }
        self.inode = inode;
        is_new
    }

    /// Messages from here on are not in the transcript yet.
    fn mark_unimported(&mut self, readings: &[Reading], from: u64) {
        if readings.iter().any(is_transcript_change) {
            self.first_unimported =
                Some(self.first_unimported.map_or(from, |first| first.min(from)));
        }
    }

    /// All messages in the queue are in the transcript. Returns true when some were dropped: those are read again.
    fn mark_imported(&mut self) -> bool {
        let from = self.first_unimported.take().filter(|_| self.dropped);
        self.dropped = false;
        if let Some(from) = from {
            self.evidence_position = self.evidence_position.max(self.position);
            self.position = from;
            self.reader_has_context = from == 0;
        }
        from.is_some()
    }
}

/// Whether the import queue takes more messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImportCapacity {
    Available,
    Full,
}

/// What one read of all files brought.
#[derive(Debug, Default)]
pub(super) struct ReadBatch {
    /// The readings of each file, with the kind of evidence that they are.
    pub(super) readings: Vec<(EvidenceSource, Vec<Reading>)>,
    /// Messages and rewinds.
    pub(super) transcript: Vec<Reading>,
    /// The files hold more than was read.
    pub(super) more: bool,
    /// Some file cannot be watched, so nothing wakes the supervisor when it changes.
    pub(super) unwatched: bool,
}

impl Tails {
    /// Reads `source` from now on, from where the record says; nothing if that is done already.
    pub(super) fn add(
        &mut self,
        (source, filter): &(WatchedFile, ReadingFilter),
        agent: &Arc<dyn Agent>,
        process: Option<Process>,
        recorded: &[ReadFile],
        files: &Files,
        bell: &Arc<Notify>,
    ) {
        let Some(path) = source.at(process.map(|p| p.pid)) else {
            return;
        };
        if !path.is_absolute() {
            return;
        }
        // A database may be asked several things.
        let has_rows = matches!(source.reach, ReadRange::Rows { .. });
        let same = |t: &&mut Tail| t.path == path && (!has_rows || t.kind == source.kind);
        if let Some(tail) = self.tails.iter_mut().find(same) {
            if has_rows && tail.reach != source.reach {
                tail.reach = source.reach.clone();
                tail.asked = None;
                if tail.reader.mark().is_some() {
                    // It was about another conversation.
                    tail.reader = hook_journal::reader(agent, &source.kind, process);
                }
            }
            return;
        }
        let known = |r: &&ReadFile| r.path == path.to_string_lossy();
        let progress = Progress::recorded(recorded.iter().find(known));
        self.tails.push(Tail {
            watch: files.watch(&written(&path, &source.reach), bell),
            reader: hook_journal::reader(agent, &source.kind, process),
            kind: source.kind.clone(),
            reach: source.reach.clone(),
            filter: *filter,
            progress,
            last: None,
            asked: None,
            path,
        });
    }

    /// How far growing files were read.
    pub(super) fn positions(&self) -> Vec<ReadFile> {
        let grows = |t: &&Tail| t.reach == ReadRange::Added && t.progress.is_begun();
        self.tails
            .iter()
            .filter(grows)
            .map(|t| ReadFile {
                path: t.path.to_string_lossy().into_owned(),
                kind: t.kind.clone(),
                position: t.progress.position.max(t.progress.evidence_position),
                inode: t.progress.inode,
                said: t.progress.import_position(),
            })
            .collect()
    }

    /// Reads what is new. A file that is not there, or cannot be read, says nothing (L3).
    pub(super) fn read(
        &mut self,
        databases: &dyn Databases,
        capacity: ImportCapacity,
        files: EvidenceSource,
    ) -> ReadBatch {
        let mut batch = ReadBatch::default();
        for tail in &mut self.tails {
            batch.unwatched |= tail.watch.ensure().is_err();
            let read = match tail.reach {
                ReadRange::Whole => tail.read_whole(),
                ReadRange::Added => tail.read_added(),
                ReadRange::Rows { .. } => tail.read_rows(databases),
            };
            if let Ok((readings, more)) = read {
                let (changes, evidence): (Vec<_>, Vec<_>) =
                    readings.into_iter().partition(is_transcript_change);
                let evidence: Vec<_> = evidence
                    .into_iter()
                    .filter(|r| tail.filter.accepts(r))
                    .collect();
                let source = match hook_journal::is_hooks(&tail.kind) {
                    true => EvidenceSource::Hook,
                    false => files,
                };
                if !evidence.is_empty() {
                    batch.readings.push((source, evidence));
                }
                batch.more |= more;
                match capacity {
                    _ if changes.is_empty() => {}
                    ImportCapacity::Available if !tail.progress.dropped => {
                        batch.transcript.extend(changes)
                    }
                    ImportCapacity::Available | ImportCapacity::Full => {
                        tail.progress.dropped = true
                    }
                }
            }
        }
        batch
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tails.is_empty()
    }

    /// All messages in the queue are in the transcript. Those that were dropped are read again. Returns whether there
    /// are such.
    pub(super) fn mark_imported(
        &mut self,
        agent: &Arc<dyn Agent>,
        process: Option<Process>,
    ) -> bool {
        let mut again = false;
        for tail in &mut self.tails {
            if tail.progress.mark_imported() {
                tail.reader = hook_journal::reader(agent, &tail.kind, process);
                (tail.last, tail.asked) = (None, None);
                again = true;
            }
        }
        again
    }
}

fn is_transcript_change(reading: &Reading) -> bool {
    matches!(reading, Reading::Message(_) | Reading::Rewound { .. })
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

    /// Asks a database when its log has changed.
    fn read_rows(&mut self, databases: &dyn Databases) -> std::io::Result<(Vec<Reading>, bool)> {
        let ReadRange::Rows { statement, of } = &self.reach else {
            return Ok((vec![], false));
        };
        let log = std::fs::metadata(written(&self.path, &self.reach))?;
        let now = (log.len(), log.modified()?);
        if self.asked == Some(now) {
            return Ok((vec![], false));
        }
        let mark = self.reader.mark();
        let after = mark.as_deref().unwrap_or_default();
        let rows = databases.rows(&self.path, statement, of, after)?;
        self.asked = Some(now);
        if self.last.as_deref() == Some(rows.as_bytes()) {
            return Ok((vec![], false));
        }
        let readings = self.reader.read(&rows);
        self.last = Some(rows.into_bytes());
        self.progress.mark_unimported(&readings, 0);
        // What comes a piece at a time is asked for until nothing comes.
        let more = self.reader.mark() != mark;
        if more {
            self.asked = None;
        }
        Ok((readings, more))
    }

    fn read_added(&mut self) -> std::io::Result<(Vec<Reading>, bool)> {
        let metadata = std::fs::metadata(&self.path)?;
        let (length, inode) = (metadata.len(), Some(metadata.ino()));
        if self.progress.update_file(length, inode) {
            self.reader.begins(0);
        }
        let progress = &mut self.progress;
        if !progress.reader_has_context {
            let from = progress.position.saturating_sub(BEFORE);
            let before = read_from(&self.path, from, progress.position - from)?;
            // The first line is perhaps only half of one.
            let whole = before.iter().position(|b| *b == b'\n').map_or(0, |n| n + 1);
            let whole = if from == 0 { 0 } else { whole };
            self.reader.begins(from + whole as u64);
            let _ = self.reader.read(&String::from_utf8_lossy(&before[whole..]));
            progress.reader_has_context = true;
        }
        if length == progress.position {
            return Ok((vec![], false));
        }
        let again = progress.position < progress.counted;
        let is_known = progress.position < progress.evidence_position;
        let ends = [
            (again, progress.counted),
            (is_known, progress.evidence_position),
        ];
        let ends = ends.into_iter().filter_map(|(is, end)| is.then_some(end));
        let most = ends
            .min()
            .map_or(CHUNK, |end| CHUNK.min(end - progress.position));
        let added = read_from(&self.path, progress.position, most)?;
        let full = added.len() as u64 == most;
        let Some(end) = added.iter().rposition(|b| *b == b'\n') else {
            if again && progress.position + most == progress.counted {
                // Its last line was not whole when it was measured, so it has not been counted.
                progress.counted = progress.position;
            } else if is_known && progress.position + most == progress.evidence_position {
                progress.evidence_position = progress.position;
            } else if full {
                progress.position += most;
            }
            return Ok((vec![], full));
        };
        let from = progress.position;
        progress.position += end as u64 + 1;
        let mut readings = self.reader.read(&String::from_utf8_lossy(&added[..=end]));
        if again {
            readings.retain(|r| !matches!(r, Reading::Usage(_)));
        }
        if is_known {
            readings.retain(is_transcript_change);
        }
        progress.mark_unimported(&readings, from);
        Ok((readings, full))
    }
}

/// The file that is written to when what is read changes: of a database, its log.
fn written(path: &Path, reach: &ReadRange) -> PathBuf {
    match reach {
        ReadRange::Added | ReadRange::Whole => path.to_owned(),
        ReadRange::Rows { .. } => {
            let mut name = path.as_os_str().to_owned();
            name.push("-wal");
            name.into()
        }
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

    use skein_domain::{NativeId, Usage};

    use super::*;

    /// Tells each line as a name, so that tests see what was read; and a number of tokens as that.
    #[derive(Debug)]
    struct Lines;

    impl Reader for Lines {
        fn read(&mut self, text: &str) -> Vec<Reading> {
            let name = |line: &str| line.parse::<NativeId>().map(Reading::Native).ok();
            let used = |line: &str| {
                Some(Reading::Usage(Usage {
                    input_tokens: line.strip_prefix('+')?.parse().ok()?,
                    ..Usage::default()
                }))
            };
            let reading = |line: &str| used(line).or_else(|| name(line));
            text.lines().filter_map(reading).collect()
        }
    }

    /// Finds what it is asked for, and counts how often.
    #[derive(Debug, Default)]
    struct CountingDatabase(std::sync::atomic::AtomicUsize);

    impl Databases for CountingDatabase {
        fn rows(&self, _: &Path, statement: &str, of: &str, _: &str) -> std::io::Result<String> {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(format!("{statement}-{of}\n"))
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

        fn tails(&self, reach: ReadRange, position: u64) -> Tails {
            let recorded = ReadFile {
                path: String::new(),
                kind: "lines".into(),
                position,
                inode: None,
                said: None,
            };
            let tail = Tail {
                watch: self.files.watch(&written(&self.path(), &reach), &self.bell),
                path: self.path(),
                kind: "lines".into(),
                reach,
                filter: ReadingFilter::All,
                reader: Box::new(Lines),
                progress: Progress::recorded(Some(&recorded)),
                last: None,
                asked: None,
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
        read_with(tails, &CountingDatabase::default())
    }

    fn read_with(tails: &mut Tails, databases: &dyn Databases) -> Vec<String> {
        let batch = tails.read(databases, ImportCapacity::Available, EvidenceSource::File);
        batch
            .readings
            .iter()
            .flat_map(|(_, readings)| readings)
            .map(|r| match r {
                Reading::Native(id) => id.to_string(),
                Reading::Usage(usage) => format!("+{}", usage.input_tokens),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn what_grows_is_read_once_and_in_whole_lines() {
        let place = Place::new();
        let mut tails = place.tails(ReadRange::Added, 0);
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
        let mut tails = place.tails(ReadRange::Added, 8);
        assert_eq!(read(&mut tails), ["three"]);
    }

    #[test]
    fn l6_only_what_was_found_in_a_file_counts_as_read() {
        let source = |path: &str| WatchedFile {
            path: path.into(),
            kind: "journal".into(),
            reach: ReadRange::Added,
        };
        let read = |path: &str, position| ReadFile {
            path: path.into(),
            kind: "journal".into(),
            position,
            inode: None,
            said: None,
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
        let mut tails = place.tails(ReadRange::Added, 0);
        read(&mut tails);
        fs::write(place.path(), "").unwrap();
        read(&mut tails);
        assert_eq!(tails.positions()[0].position, 0);
    }

    #[test]
    fn l8_what_stands_in_a_file_that_was_written_anew_is_not_counted_again() {
        let place = Place::new();
        place.add("+1\n+2\n+3\n");
        let mut tails = place.tails(ReadRange::Added, 0);
        assert_eq!(read(&mut tails), ["+1", "+2", "+3"]);
        fs::write(place.path(), "+1\n+2\n+").unwrap();
        assert_eq!(read(&mut tails), [""; 0], "it was cut");
        place.add("4\n");
        assert_eq!(read(&mut tails), [""; 0], "its last line was not whole");
        assert_eq!(read(&mut tails), ["+4"]);

        let other = place.folder.path().join("other");
        fs::write(&other, "one\n+1\n+2\n+4\n").unwrap();
        fs::rename(&other, place.path()).unwrap();
        assert_eq!(read(&mut tails), ["one"], "another one of the same name");
        place.add("+5\n");
        assert_eq!(read(&mut tails), ["+5"]);
        let inode = fs::metadata(place.path()).unwrap().ino();
        assert_eq!(tails.positions()[0].inode, Some(inode));
    }

    #[test]
    fn what_is_replaced_is_read_when_it_says_something_else() {
        let place = Place::new();
        let mut tails = place.tails(ReadRange::Whole, 0);
        fs::write(place.path(), "busy").unwrap();
        assert_eq!(read(&mut tails), ["busy"]);
        fs::write(place.path(), "busy").unwrap();
        assert_eq!(read(&mut tails), [""; 0]);
        fs::write(place.path(), "idle").unwrap();
        assert_eq!(read(&mut tails), ["idle"]);
        assert_eq!(tails.positions(), [], "there is nothing to remember of it");
    }

    #[test]
    fn a_database_is_asked_when_its_log_has_changed_and_says_the_same_once() {
        let place = Place::new();
        let source = |of: &str| WatchedFile {
            path: place.path(),
            kind: "lines".into(),
            reach: ReadRange::Rows {
                statement: "total",
                of: of.into(),
            },
        };
        let mut tails = place.tails(source("one").reach, 0);
        let databases = CountingDatabase::default();
        let asked = || databases.0.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(
            read_with(&mut tails, &databases),
            [""; 0],
            "there is no log"
        );
        let log = place.folder.path().join("log-wal");
        fs::write(&log, "1").unwrap();
        assert_eq!(read_with(&mut tails, &databases), ["total-one"]);
        assert_eq!(read_with(&mut tails, &databases), [""; 0]);
        assert_eq!(asked(), 1);
        fs::write(&log, "12").unwrap();
        assert_eq!(read_with(&mut tails, &databases), [""; 0]);
        assert_eq!(asked(), 2);
        let agent: Arc<dyn Agent> = Arc::new(skein_agent::Custom::bare());
        let files = &place.files;
        tails.add(
            &(source("two"), ReadingFilter::All),
            &agent,
            None,
            &[],
            files,
            &place.bell,
        );
        assert_eq!(read_with(&mut tails, &databases), ["total-two"]);
        assert_eq!(tails.positions(), [], "totals are asked for, not added up");
    }

    #[test]
    fn a_process_is_known_by_its_start() {
        let me = process(std::process::id()).unwrap();
        assert_eq!(process(me.pid), Some(me));
        assert!(me.started > 0);
        assert_eq!(process(u32::MAX), None);
    }
}
