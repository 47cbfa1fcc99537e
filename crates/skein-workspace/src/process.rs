//! Runs one child process: bounded in time, in a process group of its own, with its output as it comes.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// What becomes of processes the child left in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leftovers {
    End,
    Leave,
}

enum Part {
    Bytes(Stream, Vec<u8>),
    End,
}

/// How long output may still come once the child itself is over, when something it left behind holds its
/// pipes.
const GRACE: Duration = Duration::from_millis(300);
/// How long the group has to clean up after being asked to end: git removes its lock files then.
const POLITE: Duration = Duration::from_secs(2);

/// None when the time was up; the whole group is gone then.
pub(crate) fn run(
    command: &mut Command,
    limit: Duration,
    input: Option<Vec<u8>>,
    leftovers: Leftovers,
    on: &mut dyn FnMut(Stream, &[u8]),
) -> io::Result<Option<ExitStatus>> {
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let deadline = Instant::now() + limit;
    let mut child = command.spawn()?;
    feed(&mut child, input)?;
    let (sender, parts) = sync_channel(64);
    read(child.stdout.take(), Stream::Out, sender.clone())?;
    read(child.stderr.take(), Stream::Err, sender)?;

    let mut open = 2;
    let mut over: Option<(ExitStatus, Instant)> = None;
    while open > 0 {
        let now = Instant::now();
        if over.is_none() && now >= deadline {
            end(&mut child)?;
            return Ok(None);
        }
        if over.is_some_and(|(_, since)| now >= since + GRACE) {
            break;
        }
        match parts.recv_timeout(Duration::from_millis(50)) {
            Ok(Part::Bytes(stream, bytes)) => on(stream, &bytes),
            Ok(Part::End) => open -= 1,
            Err(RecvTimeoutError::Timeout) => {
                if over.is_none() {
                    over = child.try_wait()?.map(|status| (status, Instant::now()));
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = match over {
        Some((status, _)) => Some(status),
        None => wait(&mut child, deadline)?,
    };
    match status {
        None => end(&mut child)?,
        Some(_) if leftovers == Leftovers::End => signal(&child, Signal::KILL),
        Some(_) => {}
    }
    Ok(status)
}

/// On a thread of its own: a child that does not read must not hold us.
fn feed(child: &mut Child, input: Option<Vec<u8>>) -> io::Result<()> {
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        thread::Builder::new()
            .name("child-input".into())
            // A child that ends before it has read everything says so by its status.
            .spawn(move || drop(stdin.write_all(&input)))?;
    }
    Ok(())
}

fn read(
    stream: Option<impl Read + Send + 'static>,
    which: Stream,
    sender: SyncSender<Part>,
) -> io::Result<()> {
    let Some(mut stream) = stream else {
        return Ok(());
    };
    let work = move || {
        let mut buffer = [0; 16 * 1024];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => {
                    if sender
                        .send(Part::Bytes(which, buffer[..n].to_vec()))
                        .is_err()
                    {
                        return;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        // The receiver is gone when nobody waits for the rest.
        drop(sender.send(Part::End));
    };
    thread::Builder::new()
        .name("child-output".into())
        .spawn(work)?;
    Ok(())
}

fn wait(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn end(child: &mut Child) -> io::Result<()> {
    signal(child, Signal::TERM);
    if wait(child, Instant::now() + POLITE)?.is_none() {
        signal(child, Signal::KILL);
        child.wait()?;
    }
    // Members that outlived their leader.
    signal(child, Signal::KILL);
    Ok(())
}

fn signal(child: &Child, signal: Signal) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // Gone already is what is wanted.
        let _ = kill_process_group(group, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration, leftovers: Leftovers) -> (Option<ExitStatus>, String) {
        let mut said = Vec::new();
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).stdin(Stdio::null());
        let status = run(&mut command, limit, None, leftovers, &mut |_, bytes| {
            said.extend_from_slice(bytes);
        })
        .unwrap();
        (status, String::from_utf8_lossy(&said).into_owned())
    }

    #[test]
    fn output_of_both_streams_arrives() {
        let (status, said) = shell(
            "echo a; echo b >&2",
            Duration::from_secs(60),
            Leftovers::Leave,
        );
        assert!(status.unwrap().success());
        assert!(said.contains('a') && said.contains('b'));
    }

    #[test]
    fn time_is_bounded_even_against_a_deaf_group() {
        let script = "trap '' TERM; sleep 600 & sleep 600; sleep 600";
        let (status, _) = shell(script, Duration::from_millis(100), Leftovers::End);
        assert_eq!(status, None);
    }

    #[test]
    fn what_a_child_leaves_behind_does_not_hold_us() {
        let (status, said) = shell(
            "sleep 600 & echo $!; exit 3",
            Duration::from_secs(60),
            Leftovers::End,
        );
        assert_eq!(status.unwrap().code(), Some(3));
        let pid = Pid::from_raw(said.trim().parse().unwrap()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        // It is a zombie until its new parent collects it, so its state is read.
        let lives = || {
            std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))
                .is_ok_and(|stat| !stat.contains(") Z "))
        };
        while lives() {
            assert!(Instant::now() < deadline, "still there");
            thread::sleep(Duration::from_millis(10));
        }
    }
}
