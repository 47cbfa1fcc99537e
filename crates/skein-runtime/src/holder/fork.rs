//! Starts a program as a child with a terminal of its own, in a cgroup from its first instruction on.
//!
//! A process that is moved into another cgroup waits for all processors to pass a grace period of the kernel, ten
//! milliseconds and more. One that is made inside it does not wait, but the standard library cannot make one.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Pid, WaitOptions, ioctl_tiocsctty, setsid, waitpid};

/// Exit code of a child that could not become the program; the parent reads the reason from a pipe.
const NOT_STARTED: i32 = 127;

/// `CLONE_INTO_CGROUP` and `CLONE_CLEAR_SIGHAND` of clone3(2), which `libc` declares too narrow.
const INTO_CGROUP: u64 = 0x2_0000_0000;
const CLEAR_SIGNAL_HANDLERS: u64 = 0x1_0000_0000;

/// Starts `command` in a session of its own with `terminal` as its controlling terminal, inside `cgroup` if one is given.
/// Returns the child's process id once it runs the program.
///
/// Only for processes with one thread, like the holder: the child is a copy of this process until it runs the program.
pub(super) fn spawn(
    command: &mut Command,
    terminal: impl AsFd,
    cgroup: Option<&File>,
) -> Result<i32, StartError> {
    let (mut reason, report) = io::pipe().map_err(StartError::Fork)?;
    let Some(child) = fork(cgroup).map_err(StartError::Fork)? else {
        let error = become_program(command, terminal);
        exit_with(report, &error)
    };
    drop(report);
    match read_reason(&mut reason) {
        None => Ok(child),
        Some(error) => {
            let _ = Pid::from_raw(child).map(|child| waitpid(Some(child), WaitOptions::empty()));
            Err(StartError::Program(error))
        }
    }
}

#[derive(Debug)]
pub(super) enum StartError {
    /// There is no child; the kernel may refuse the cgroup.
    Fork(io::Error),
    /// The child could not run the program.
    Program(io::Error),
}

/// `None` in the child.
#[expect(unsafe_code, reason = "there is no safe way to fork")]
fn fork(cgroup: Option<&File>) -> io::Result<Option<i32>> {
    let child = match cgroup {
        // SAFETY: this process has one thread, so the child's copy of its memory is consistent.
        None => i64::from(unsafe { libc::fork() }),
        Some(cgroup) => {
            // SAFETY: all fields are integers, for which zero is valid and means "default".
            let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
            args.flags = INTO_CGROUP | CLEAR_SIGNAL_HANDLERS;
            args.exit_signal = u64::from(libc::SIGCHLD.unsigned_abs());
            args.cgroup = u64::from(cgroup.as_raw_fd().unsigned_abs());
            // SAFETY: `args` outlives the call and has the size that is given; without CLONE_VM the child gets a copy
            // of this process, which has one thread.
            unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of_val(&args)) }
        }
    };
    match i32::try_from(child) {
        Ok(0) => Ok(None),
        Ok(child) if child > 0 => Ok(Some(child)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns only if it fails.
fn become_program(command: &mut Command, terminal: impl AsFd) -> io::Error {
    let session = setsid().and_then(|_| ioctl_tiocsctty(terminal));
    match session {
        Ok(()) => command.exec(),
        Err(error) => error.into(),
    }
}

#[expect(
    unsafe_code,
    reason = "`std::process::exit` would run what the parent has registered for its own exit"
)]
fn exit_with(mut report: PipeWriter, error: &io::Error) -> ! {
    let code = error.raw_os_error().unwrap_or_default();
    let _ = report.write_all(&code.to_ne_bytes());
    // SAFETY: ends the child, and touches nothing of the parent.
    unsafe { libc::_exit(NOT_STARTED) }
}

/// Why the program could not be run; `None` if it runs, which closes the child's end of the pipe.
fn read_reason(reason: &mut PipeReader) -> Option<io::Error> {
    let mut code = [0; 4];
    let read = reason.read_exact(&mut code);
    read.ok()
        .map(|()| io::Error::from_raw_os_error(i32::from_ne_bytes(code)))
}
