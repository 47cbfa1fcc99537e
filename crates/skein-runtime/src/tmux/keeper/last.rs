//! What is kept of a run that is over: the last screen, asked from tmux once.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::super::folder::{Count, Ending, Last, Order, Started};
use super::super::run::{FACTS, Facts, shown};

/// How long tmux may take for each step; without its answer the run is over all the same.
const PATIENCE: Duration = Duration::from_secs(3);

/// The last screen, or none when tmux does not answer.
pub(super) fn last(
    order: &Order,
    started: &Started,
    name: &str,
    ending: Ending,
    count: Count,
) -> Last {
    let mut last = Last {
        ending,
        input: 0,
        rows: vec![],
        cursor: (0, 0),
        count,
    };
    let Some(text) = ask(order, started) else {
        return last;
    };
    let mut lines = text.split('\n');
    if let Some(facts) = Facts::parse(lines.next().unwrap_or(""), name) {
        last.input = facts.input;
        last.cursor = facts.cursor;
        let rows = lines.chain(std::iter::repeat("")).take(facts.height);
        last.rows = rows.map(shown).collect();
    }
    last
}

fn ask(order: &Order, started: &Started) -> Option<String> {
    let pane = started.pane.as_str();
    let mut client = Command::new("tmux")
        .arg("-S")
        .arg(&order.socket)
        .args(["-f", "/dev/null", "-u", "-N"])
        .args(["display-message", "-p", "-t", pane, FACTS, ";"])
        .args(["capture-pane", "-p", "-t", pane])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let text = client.stdout.take().and_then(|stdout| {
        let mut stdout = File::from(std::os::fd::OwnedFd::from(stdout));
        read(&mut stdout, Instant::now() + PATIENCE)
    });
    // It is done, or it never will be.
    let _ = client.kill();
    let _ = client.wait();
    text
}

fn read(stdout: &mut File, deadline: Instant) -> Option<String> {
    let (mut text, mut buffer) = (Vec::new(), [0; 16 * 1024]);
    while readable(stdout, deadline) {
        match stdout.read(&mut buffer) {
            Ok(0) => return Some(String::from_utf8_lossy(&text).into_owned()),
            Ok(count) => text.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    None
}

/// Waits until tmux has drawn everything before: it answers in order.
pub(super) fn settle(outer: &mut File) {
    use std::io::Write as _;
    let deadline = Instant::now() + PATIENCE;
    if outer.write_all(b"\x1b[5n").is_err() {
        return;
    }
    let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
    while readable(outer, deadline) {
        match outer.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => seen.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(1));
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
        if seen.windows(4).any(|four| four == b"\x1b[0n") {
            return;
        }
    }
}

/// Whether there is something to read before the deadline.
fn readable(file: &File, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(left) = rustix::event::Timespec::try_from(left) else {
            return false;
        };
        let mut fds = [PollFd::new(file, PollFlags::IN)];
        match poll(&mut fds, Some(&left)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
