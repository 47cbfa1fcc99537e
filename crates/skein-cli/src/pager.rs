//! Long texts for people, one screen at a time.

use std::io::{ErrorKind, Write as _};
use std::process::{Child, Command, Stdio};

use crate::env::Environment;
use crate::error::UserError;
use crate::output::Output;

/// What shows text where nobody chose; lets colours through and ends at once with what fits on a screen.
const USUAL: &str = "less -FRX";

/// Where a text goes: to a program that shows it, or straight to stdout.
pub(crate) struct Pager<'a> {
    out: &'a Output,
    child: Option<Child>,
}

impl<'a> Pager<'a> {
    /// A program is used only by people who look at a terminal.
    pub(crate) fn open(out: &'a Output, environment: &Environment) -> Self {
        let wanted = out.is_terminal() && !out.is_json() && !environment.no_pager;
        let chosen = environment.pager.as_deref();
        let program = chosen.map_or(USUAL.into(), |p| p.to_string_lossy().into_owned());
        let child = (wanted && program.trim() != "cat")
            .then(|| {
                // As a shell would: people give it options.
                Command::new("/bin/sh")
                    .args(["-c", &program])
                    .stdin(Stdio::piped())
                    .spawn()
                    .ok()
            })
            .flatten();
        Self { out, child }
    }

    pub(crate) fn write(&mut self, text: &str) -> Result<(), UserError> {
        let Some(stdin) = self.child.as_mut().and_then(|child| child.stdin.as_mut()) else {
            return self.out.raw(text);
        };
        match stdin.write_all(text.as_bytes()) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                // Whoever looked has seen enough.
                self.wait();
                Err(UserError::pipe_closed())
            }
            Err(error) => Err(UserError::failed("cannot write to the pager").caused_by(&error)),
        }
    }

    /// Waits until it was read.
    pub(crate) fn close(mut self) -> Result<(), UserError> {
        self.wait();
        Ok(())
    }

    fn wait(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

impl Drop for Pager<'_> {
    fn drop(&mut self) {
        // After an error too: a pager that is left alone would fight the shell for the terminal.
        self.wait();
    }
}
