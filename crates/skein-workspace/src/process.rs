//! Runs one child process with a time limit, in its own process group, and streams its output.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// What happens to processes that the child left in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leftovers {
    End,
    Leave,
}

/// How long to read after the child's end, if a process it left behind holds its pipes open.
const GRACE: Duration = Duration::from_millis(300);
/// Interval of checks whether the child has ended while its pipes are open.
const MOMENT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
/// Time for the group to clean up after SIGTERM; git removes its lock files then.
const POLITE: Duration = Duration::from_secs(2);

/// The first `most` bytes of a command's output; none if it takes too long or cannot be started. Kills what it leaves
/// in its group.
pub fn printed(command: &mut Command, limit: Duration, most: usize) -> Option<Vec<u8>> {
    let mut output = vec![];
    let status = run(
        command,
        limit,
        None,
        Leftovers::End,
        &mut |stream, bytes| {
            let room = most - output.len();
            if stream == Stream::Out {
                output.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
        },
    );
    status.ok().flatten().map(|_| output)
}

/// None after a timeout; the whole group is dead then.
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
    let ran = supervise(&mut child, deadline, input, leftovers, on);
    if ran.is_err() {
        end(&mut child)?;
    }
    ran
}

fn supervise(
    child: &mut Child,
    deadline: Instant,
    input: Option<Vec<u8>>,
    leftovers: Leftovers,
    on: &mut dyn FnMut(Stream, &[u8]),
) -> io::Result<Option<ExitStatus>> {
    feed(child, input)?;
    let mut pipes = Pipes::of(child)?;
    let mut over: Option<(ExitStatus, Instant)> = None;
    while !pipes.are_closed() {
        let now = Instant::now();
        if over.is_none() && now >= deadline {
            end(child)?;
            return Ok(None);
        }
        // Checked before reading, so that the child's own output is complete, however late this runs.
        let late = over.is_some_and(|(_, since)| now >= since + GRACE);
        if over.is_none() {
            over = child.try_wait()?.map(|status| (status, now));
        }
        if !pipes.read(on)? && late {
            break;
        }
    }
    let status = match over {
        Some((status, _)) => Some(status),
        None => wait(child, deadline)?,
    };
    match status {
        None => end(child)?,
        // What a killed leader leaves would go on without the lock that its caller now gives up.
        Some(status) if leftovers == Leftovers::End || status.code().is_none() => {
            signal(child, Signal::KILL);
        }
        Some(_) => {}
    }
    Ok(status)
}

/// Writes on a separate thread, because the child may not read.
fn feed(child: &mut Child, input: Option<Vec<u8>>) -> io::Result<()> {
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        thread::Builder::new()
            .name("child-input".into())
            // A child that ends before reading everything reports that by its status.
            .spawn(move || drop(stdin.write_all(&input)))?;
    }
    Ok(())
}

/// The child's open output pipes.
struct Pipes {
    out: Option<ChildStdout>,
    err: Option<ChildStderr>,
}

impl Pipes {
    fn of(child: &mut Child) -> io::Result<Self> {
        let pipes = Self {
            out: child.stdout.take(),
            err: child.stderr.take(),
        };
        for pipe in pipes.fds() {
            fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
        }
        Ok(pipes)
    }

    fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let out = self.out.as_ref().map(AsFd::as_fd);
        out.into_iter().chain(self.err.as_ref().map(AsFd::as_fd))
    }

    fn are_closed(&self) -> bool {
        self.fds().next().is_none()
    }

    /// Waits briefly for output and reads it; returns whether there was any.
    fn read(&mut self, on: &mut dyn FnMut(Stream, &[u8])) -> io::Result<bool> {
        let mut fds: Vec<PollFd<'_>> = self
            .fds()
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        match poll(&mut fds, Some(&MOMENT)) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            other => other?,
        };
        let out = drain(&mut self.out, &mut |bytes| on(Stream::Out, bytes));
        let err = drain(&mut self.err, &mut |bytes| on(Stream::Err, bytes));
        Ok(out || err)
    }
}

/// Reads what is available and closes the pipe at its end; returns whether there was any.
fn drain(pipe: &mut Option<impl Read>, on: &mut dyn FnMut(&[u8])) -> bool {
    let mut buffer = [0; 16 * 1024];
    let mut any = false;
    while let Some(open) = pipe {
        match open.read(&mut buffer) {
            Ok(n) if n > 0 => {
                on(&buffer[..n]);
                any = true;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
            Ok(_) | Err(_) => *pipe = None,
        }
    }
    any
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
    // Kills members that outlived their leader.
    signal(child, Signal::KILL);
    Ok(())
}

fn signal(child: &Child, signal: Signal) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // A missing group is the goal.
        let _ = kill_process_group(group, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration, leftovers: Leftovers) -> (Option<ExitStatus>, String) {
        let mut output = Vec::new();
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).stdin(Stdio::null());
        let status = run(&mut command, limit, None, leftovers, &mut |_, bytes| {
            output.extend_from_slice(bytes);
        })
        .unwrap();
        (status, String::from_utf8_lossy(&output).into_owned())
    }

    #[test]
    fn output_of_both_streams_arrives() {
        let (status, output) = shell(
            "echo a; echo b >&2",
            Duration::from_secs(60),
            Leftovers::Leave,
        );
        assert!(status.unwrap().success());
        assert!(output.contains('a') && output.contains('b'));
    }

    #[test]
    fn what_a_child_said_is_read_however_late_we_come() {
        let (sender, slow) = std::sync::mpsc::channel::<()>();
        let mut output = Vec::new();
        let mut command = Command::new("sh");
        // `sleep` keeps the pipe open, so reading ends by its time limit.
        let script = "sleep 600 & seq 1 30000; exit 0";
        command.arg("-c").arg(script).stdin(Stdio::null());
        let limit = Duration::from_secs(60);
        run(
            &mut command,
            limit,
            None,
            Leftovers::End,
            &mut |_, bytes| {
                output.extend_from_slice(bytes);
                // Held up at each piece for longer than output is waited for.
                if output.len() < 40_000 {
                    let _ = slow.recv_timeout(GRACE * 2);
                }
            },
        )
        .unwrap();
        drop(sender);
        assert!(output.ends_with(b"\n30000\n"), "{} bytes", output.len());
    }

    #[test]
    fn time_is_bounded_even_against_a_deaf_group() {
        let script = "trap '' TERM; sleep 600 & sleep 600; sleep 600";
        let (status, _) = shell(script, Duration::from_millis(100), Leftovers::End);
        assert_eq!(status, None);
    }

    #[test]
    fn what_a_child_leaves_behind_does_not_hold_us() {
        let (status, output) = shell(
            "sleep 600 & echo $!; exit 3",
            Duration::from_secs(60),
            Leftovers::End,
        );
        assert_eq!(status.unwrap().code(), Some(3));
        let pid = Pid::from_raw(output.trim().parse().unwrap()).unwrap();
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
