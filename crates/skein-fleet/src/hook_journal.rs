//! Hook calls of a run, kept in a file of the session's private folder before the caller is answered. The supervisor
//! reads it like any other file that an agent writes, and records what it read, so a call that was answered `ok` counts
//! once, whatever crashes afterwards.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use skein_agent::agent::{Agent, Process, ReadRange, Reader, Reading, WatchedFile};
use skein_agent::hooks::UNNAMED;
use skein_domain::Timestamp;

use super::lines;

/// What files of hook calls are called among an agent's sources.
const KIND: &str = "hooks";

/// Where the calls of one run are kept, as a source.
pub(super) fn source(private: &Path, run: u64) -> WatchedFile {
    WatchedFile {
        path: path(private, run),
        kind: KIND.into(),
        reach: ReadRange::Added,
    }
}

fn path(private: &Path, run: u64) -> PathBuf {
    private.join(format!("hooks-{run}.jsonl"))
}

/// Adds a call, and returns once it is on disk. `id` is unlike that of any other call.
pub(super) fn append(
    private: &Path,
    run: u64,
    id: &str,
    at: Timestamp,
    (event, payload): (&str, &str),
) -> io::Result<()> {
    let path = path(private, run);
    let line = json!({"id": id, "at": at.as_micros(), "event": event, "payload": payload});
    lines::append(private, &path, &line.to_string())
}

/// What reads a source of this agent: its own reader, or ours for hook calls.
pub(super) fn reader(
    agent: &Arc<dyn Agent>,
    kind: &str,
    process: Option<Process>,
) -> Box<dyn Reader> {
    match kind {
        KIND => Box::new(HookReader(agent.clone())),
        other => agent.reader(other, process),
    }
}

pub(super) fn is_hooks(kind: &str) -> bool {
    kind == KIND
}

#[derive(Debug)]
struct HookReader(Arc<dyn Agent>);

impl Reader for HookReader {
    fn read(&mut self, text: &str) -> Vec<Reading> {
        let calls = text.lines().filter_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            let text = |key: &str| line.get(key)?.as_str().map(ToOwned::to_owned);
            let at = Timestamp::from_micros(line.get("at")?.as_i64()?);
            let readings = self.0.read_hook(&text("event")?, &text("payload")?);
            Some(named(readings, &text("id")?, at))
        });
        calls.flatten().collect()
    }
}

/// Gives messages without a name one that is the same whenever the call is read.
fn named(mut readings: Vec<Reading>, call: &str, at: Timestamp) -> Vec<Reading> {
    for (n, reading) in readings.iter_mut().enumerate() {
        let Reading::Message(message) = reading else {
            continue;
        };
        if message.at <= Timestamp::from_micros(0) {
            message.at = at;
        }
        if message.id.as_str().starts_with(UNNAMED)
            && let Ok(id) = format!("hook-{call}-{n}").parse()
        {
            message.id = id;
        }
    }
    readings
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write as _;

    use skein_agent::Custom;

    use super::*;

    fn add(private: &Path, id: &str, event: &str, payload: &str) {
        let at = Timestamp::from_micros(7);
        append(private, 1, id, at, (event, payload)).unwrap();
    }

    fn read(private: &Path) -> Vec<Reading> {
        let agent: Arc<dyn Agent> = Arc::new(Custom::bare());
        let text = fs::read_to_string(path(private, 1)).unwrap();
        reader(&agent, KIND, None).read(&text)
    }

    #[test]
    fn l10_a_call_is_read_alike_however_often_and_torn_lines_spoil_only_themselves() {
        let folder = tempfile::tempdir().unwrap();
        let private = folder.path().join("private");
        add(
            &private,
            "a",
            "message",
            r#"{"role":"user","text":"hello"}"#,
        );
        let mut file = OpenOptions::new()
            .append(true)
            .open(path(&private, 1))
            .unwrap();
        file.write_all(b"{\"id\":\"torn\",\"ev").unwrap();
        add(&private, "b", "turn-end", "{}");
        let readings = read(&private);
        let [Reading::Message(message), .., last] = &readings[..] else {
            panic!("{readings:?}");
        };
        assert_eq!(message.id.as_str(), "hook-a-0");
        assert_eq!(message.at, Timestamp::from_micros(7));
        assert!(matches!(
            last,
            Reading::TurnEnded | Reading::Activity { .. }
        ));
        assert_eq!(read(&private), readings);
    }

    #[test]
    fn l15_calls_are_kept_where_only_the_user_reads() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        add(folder.path(), "a", "turn-end", "{}");
        let mode = fs::metadata(path(folder.path(), 1)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }
}
