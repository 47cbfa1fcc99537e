//! The journal: a file with one line for each event, which the daemon reads.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};
use skein_agent::turns;

#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    /// Bytes that a full disk did not take; the next write begins with them.
    late: Vec<u8>,
    /// Number of messages written.
    messages: u64,
}

/// Which calls an earlier process of this run accepted or refused, by its journal.
pub(crate) fn settled_calls(path: &Path) -> Vec<String> {
    let text = std::fs::read(path).unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n');
    let events = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let settled = events.filter(|line| {
        let event = line["event"].as_str();
        event.is_some_and(|event| [turns::ACCEPTED, turns::REFUSED].contains(&event))
    });
    settled
        .filter_map(|line| Some(line["payload"][turns::CALL].as_str()?.to_owned()))
        .collect()
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: &'static str,
    pub(crate) payload: Value,
}

impl Event {
    /// Whether the screen shows it too.
    pub(crate) fn is_shown(&self) -> bool {
        !matches!(
            self.name,
            "native" | "usage" | "usage-total" | "message" | turns::ACCEPTED | turns::REFUSED
        )
    }

    /// Whether the driver must wait until it is on disk.
    pub(crate) fn must_last(&self) -> bool {
        self.name == turns::ACCEPTED
    }
}

impl Journal {
    /// Opens it to append. If a full disk tore the last line, a line end follows it, so that the next line is complete.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(path)?;
        if file.seek(SeekFrom::End(0))? > 0 {
            file.seek(SeekFrom::End(-1))?;
            let mut last = [0];
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
            }
        }
        Ok(Self {
            file,
            late: vec![],
            messages: 0,
        })
    }

    /// Appends a line with one write, so that a reader sees all of it or nothing. It then outlives this process and the
    /// daemon.
    pub(crate) fn write(&mut self, event: &Event) -> io::Result<()> {
        let (at, mut payload) = (now(), event.payload.clone());
        if let Some(time) = payload["resets_at"].as_u64() {
            payload["resets_in"] = time.saturating_sub(at / 1_000).into();
        }
        if event.name == "message" {
            // Unique among all runs, and stored in the line, so that reading again gives the same id.
            self.messages += 1;
            let id = format!("{at:x}-{:x}-{}", std::process::id(), self.messages);
            (payload["id"], payload["at"]) = (id.into(), at.into());
        }
        let line = json!({"at": at, "event": event.name, "payload": payload});
        let line = format!("{line}\n");
        self.late.extend_from_slice(line.as_bytes());
        while !self.late.is_empty() {
            match self.file.write(&self.late) {
                Ok(written) => drop(self.late.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    if event.must_last() {
                        self.forget(line.len());
                    }
                    return Err(error);
                }
            }
        }
        if event.must_last() {
            self.file.sync_data()?;
        }
        Ok(())
    }
}

impl Journal {
    /// Drops the last line, of that length, from what is still to be written: what it says is not done now.
    fn forget(&mut self, length: usize) {
        match self.late.len().checked_sub(length) {
            Some(rest) => self.late.truncate(rest),
            // A part of the line is written: end the line there, so that readers skip it.
            None => self.late = b"\n".to_vec(),
        }
    }
}

/// Milliseconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "a program of its own: no engine gives it the time"
)]
pub(crate) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l6_calls_of_an_earlier_process_are_found_in_the_journal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        assert_eq!(settled_calls(&path), [""; 0]);
        let mut journal = Journal::open(&path).unwrap();
        for (name, call) in [("accepted", "a"), ("prompt", "b"), ("refused", "c")] {
            let payload = json!({"call": call});
            journal.write(&Event { name, payload }).unwrap();
        }
        assert_eq!(settled_calls(&path), ["a", "c"]);
    }

    #[test]
    fn l6_an_acceptance_that_was_not_written_is_not_written_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut journal = Journal::open(&path).unwrap();
        let event = |name| Event {
            name,
            payload: json!({"call": "a"}),
        };
        // A disk that is always full.
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let file = std::mem::replace(&mut journal.file, full);
        journal.write(&event("prompt")).unwrap_err();
        journal.write(&event("accepted")).unwrap_err();
        journal.file = file;
        journal.write(&event("finished")).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let names: Vec<&str> = lines.iter().filter_map(|l| l["event"].as_str()).collect();
        assert_eq!(names, ["prompt", "finished"]);
    }

    #[test]
    fn a_torn_line_spoils_only_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        std::fs::write(&path, "{\"at\":1,\"ev").unwrap();
        let mut journal = Journal::open(&path).unwrap();
        let ready = Event {
            name: "ready",
            payload: json!({}),
        };
        journal.write(&ready).unwrap();
        Journal::open(&path).unwrap().write(&ready).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        for line in &lines[1..] {
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["event"], "ready");
            assert!(line["at"].as_u64().unwrap() > 0);
        }
    }
}
