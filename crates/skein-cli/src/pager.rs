//! Long texts, shown by a pager.

use std::io::{self, ErrorKind, Write as _};
use std::process::{Child, Command, Stdio};

use crate::env::Environment;
use crate::error::UserError;
use crate::output::Output;

/// The default pager; it lets colours through and ends at once if the text fits on a screen.
const USUAL: &str = "less -FRX";
/// The same options for a `less` that was chosen without any.
const LESS: &str = "FRX";
/// More than fits into a pipe: once this much was written, the pager is known to read.
const KEPT: usize = 2 * 1024 * 1024;

/// Prints text through a pager, or straight to stdout.
pub(crate) struct Pager<'a> {
    out: &'a Output,
    child: Option<Child>,
    /// What was written to the pager, until it is known to run.
    kept: Option<String>,
}

impl<'a> Pager<'a> {
    /// Uses a pager only if stdout is a terminal.
    pub(crate) fn open(out: &'a Output, environment: &Environment) -> Self {
        let wanted = out.is_terminal() && !out.is_json() && !environment.no_pager;
        let chosen = environment.pager.as_deref();
        let program = chosen.map_or(USUAL.into(), |p| p.to_string_lossy().into_owned());
        let child = (wanted && program.trim() != "cat")
            .then(|| start(&program, environment).ok())
            .flatten();
        Self {
            out,
            child,
            kept: Some(String::new()),
        }
    }

    pub(crate) fn write(&mut self, text: &str) -> Result<(), UserError> {
        if self.child.is_none() {
            return self.out.raw(text);
        }
        match self.send(text) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => match self.wait() {
                Some(unseen) => self.out.raw(&unseen),
                // The reader has quit the pager.
                None => Err(UserError::pipe_closed()),
            },
            Err(error) => Err(UserError::failed("cannot write to the pager").caused_by(&error)),
        }
    }

    /// Waits for the pager.
    pub(crate) fn close(mut self) -> Result<(), UserError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), UserError> {
        match self.wait() {
            Some(unseen) => self.out.raw(&unseen),
            None => Ok(()),
        }
    }

    fn send(&mut self, text: &str) -> io::Result<()> {
        if let Some(kept) = &mut self.kept {
            kept.push_str(text);
        }
        if let Some(stdin) = self.child.as_mut().and_then(|child| child.stdin.as_mut()) {
            stdin.write_all(text.as_bytes())?;
        }
        self.kept.take_if(|kept| kept.len() > KEPT);
        Ok(())
    }

    /// Waits for the pager. Returns the text if the pager could not be started.
    fn wait(&mut self) -> Option<String> {
        let mut child = self.child.take()?;
        drop(child.stdin.take());
        let code = child.wait().ok()?.code();
        // The exit codes by which a shell says that a program is missing or cannot be run.
        matches!(code, Some(126 | 127))
            .then(|| self.kept.take())
            .flatten()
    }
}

impl Drop for Pager<'_> {
    fn drop(&mut self) {
        // Also after an error: a pager in the background would compete with the shell for the terminal.
        let _ = self.end();
    }
}

/// Through a shell, because $PAGER may contain options.
fn start(program: &str, environment: &Environment) -> io::Result<Child> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", program]).stdin(Stdio::piped());
    if !environment.has_less {
        command.env("LESS", LESS);
    }
    command.spawn()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;

    /// What comes back of a text, and whether all of it was taken.
    fn unseen(program: &str, text: &str) -> (Option<String>, bool) {
        let environment = Environment::default();
        let out = Output::new(Format::Human, false, &environment);
        let mut pager = Pager {
            out: &out,
            child: Some(start(program, &environment).unwrap()),
            kept: Some(String::new()),
        };
        let taken = pager.send(text).is_ok();
        (pager.wait(), taken)
    }

    #[test]
    fn a_text_comes_back_from_a_pager_that_is_not_there() {
        for text in ["short", &"long".repeat(KEPT)] {
            for absent in ["exec /nowhere/pager", "exec /dev/null", "no-such-pager -R"] {
                let (back, _) = unseen(absent, text);
                assert_eq!(back.map(|t| t.len()), Some(text.len()), "{absent}");
            }
            assert_eq!(unseen("cat > /dev/null", text), (None, true));
            assert_eq!(unseen("true", text).0, None);
        }
    }

    #[test]
    fn less_is_told_how() {
        let told = "test \"$LESS\" = FRX || exit 127; cat > /dev/null";
        assert_eq!(unseen(told, "text"), (None, true));
    }
}
