//! How a run ends: the agent's exit, and whether a client asked for it.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use skein_domain::Exit;

/// How long to read after the agent's end: since the last output, and in total.
const DRAIN_QUIET: Duration = Duration::from_millis(200);
const DRAIN_MOST: Duration = Duration::from_secs(1);

/// The agent has ended; its last output is being read.
struct Draining {
    exit: Exit,
    since: Instant,
    last: Instant,
}

#[derive(Default)]
pub(super) struct RunEnd {
    /// Whether a client asked for the end.
    is_requested: bool,
    /// Whether a signal from outside asked for the end before a client did.
    is_dismissed: bool,
    draining: Option<Draining>,
    /// Set once the last output is read; the exit is then recorded and sent.
    pub(super) exit: Option<Exit>,
}

impl RunEnd {
    pub(super) fn request(&mut self) {
        self.is_requested = true;
    }

    pub(super) fn dismiss(&mut self) {
        self.is_dismissed |= !self.is_requested;
    }

    pub(super) fn agent_ended(&mut self, exit: Exit) {
        let now = Instant::now();
        self.draining = Some(Draining {
            exit,
            since: now,
            last: now,
        });
    }

    /// The agent's processes have written output.
    pub(super) fn saw_output(&mut self) {
        if let Some(draining) = &mut self.draining {
            draining.last = Instant::now();
        }
    }

    /// The exit of an agent that has ended, even if its last output is not read yet.
    pub(super) fn agent_exit(&self) -> Option<Exit> {
        self.exit.or(self.draining.as_ref().map(|d| d.exit))
    }

    /// Returns the exit once, when the last output is read. `is_closed`: there is no more output.
    pub(super) fn settle(&mut self, is_closed: bool) -> Option<Exit> {
        let draining = self.draining.as_ref()?;
        let quiet = draining.last.elapsed() >= DRAIN_QUIET;
        let enough = draining.since.elapsed() >= DRAIN_MOST;
        if self.exit.is_some() || !(is_closed || quiet || enough) {
            return None;
        }
        // A shutdown signals all processes at once, and the agent may end before the holder gets its signal.
        let waits = was_terminated(draining.exit) && !self.is_requested && !self.is_dismissed;
        if waits && draining.since.elapsed() < DRAIN_QUIET {
            return None;
        }
        self.exit = Some(match self.is_dismissed {
            true => Exit::Dismissed,
            false => draining.exit,
        });
        self.exit
    }
}

/// Whether it ended as after a signal to terminate, directly or through a shell.
fn was_terminated(exit: Exit) -> bool {
    let terminating = [Signal::TERM, Signal::HUP, Signal::INT].map(Signal::as_raw);
    match exit {
        Exit::Signal(signal) => terminating.contains(&signal),
        Exit::Code(code) => terminating.contains(&(code - 128)),
        Exit::Dismissed | Exit::Unseen => false,
    }
}
