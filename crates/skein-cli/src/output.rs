//! Everything that the command prints: data to stdout, everything else to stderr.

use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::os::fd::AsFd;

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use skein_wire::List;

use crate::env::Environment;
use crate::error::UserError;
use crate::table::Table;
use crate::text;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Human,
    Json,
}

/// Whether styles become escape codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint(bool);

impl Paint {
    pub(crate) const PLAIN: Self = Self(false);

    pub(crate) fn apply(self, style: Style, text: &str) -> String {
        if self.0 && style != Style::new() && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}

pub(crate) const RED: Style = AnsiColor::Red.on_default();
pub(crate) const GREEN: Style = AnsiColor::Green.on_default();
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default();
pub(crate) const CYAN: Style = AnsiColor::Cyan.on_default();
pub(crate) const BLUE: Style = AnsiColor::Blue.on_default();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const BOLD: Style = Style::new().bold();

#[derive(Clone, Debug)]
pub(crate) struct Output {
    format: Format,
    verbose: bool,
    stdout: Paint,
    stderr: Paint,
    /// The width of the terminal on stdout, if it is one.
    width: Option<usize>,
    /// Whether stderr is a terminal with a movable cursor.
    moves: bool,
    /// The tenant named on the command line, which hints must name too.
    tenant: Option<String>,
    /// Whether nothing is printed at all.
    silent: bool,
}

impl Output {
    pub(crate) fn new(format: Format, verbose: bool, environment: &Environment) -> Self {
        let dumb = environment
            .term
            .as_deref()
            .is_some_and(|term| term == "dumb");
        let colour = |terminal: bool| Paint(terminal && !environment.no_color && !dumb);
        let terminal = io::stdout().is_terminal();
        Self {
            format,
            verbose,
            stdout: colour(terminal),
            stderr: colour(io::stderr().is_terminal()),
            width: terminal.then(|| columns(io::stdout())).flatten(),
            moves: io::stderr().is_terminal() && !dumb,
            tenant: None,
            silent: false,
        }
    }

    /// For commands that run as a part of another one.
    #[must_use]
    pub(crate) fn silent(mut self) -> Self {
        self.silent = true;
        // Notes, questions and progress are for people only.
        self.format = Format::Json;
        self
    }

    #[must_use]
    pub(crate) fn for_tenant(mut self, tenant: Option<String>) -> Self {
        self.tenant = tenant;
        self
    }

    /// Adds `--tenant` to the commands in a text, so that they work when typed.
    pub(crate) fn addressed(&self, text: &str) -> String {
        match &self.tenant {
            Some(tenant) => addressed(text, tenant),
            None => text.to_owned(),
        }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.width.is_some()
    }

    pub(crate) fn width(&self) -> Option<usize> {
        self.width
    }

    pub(crate) fn paint(&self) -> Paint {
        self.stdout
    }

    /// Prints the answer of a command: the value as one JSON document, or the text made of it.
    pub(crate) fn show<T: Serialize>(
        &self,
        value: &T,
        human: impl FnOnce(Paint) -> String,
    ) -> Result<(), UserError> {
        match self.format {
            Format::Json => self.document(value),
            Format::Human => self.raw(&ended(human(self.stdout))),
        }
    }

    /// The same for texts that depend on the width of the terminal.
    pub(crate) fn show_wide<T: Serialize>(
        &self,
        value: &T,
        human: impl FnOnce(&T, Option<usize>, Paint) -> String,
    ) -> Result<(), UserError> {
        self.show(value, |paint| human(value, self.width, paint))
    }

    /// Prints rows: the value as one JSON document, or a table, or `empty` on stderr if there are none.
    pub(crate) fn rows<T>(
        &self,
        value: &impl Serialize,
        rows: &[T],
        table: impl FnOnce(&[T]) -> Table,
        empty: &str,
    ) -> Result<(), UserError> {
        match self.format {
            Format::Json => self.document(value),
            Format::Human if rows.is_empty() => {
                self.note(empty);
                Ok(())
            }
            Format::Human => self.raw(&table(rows).render(self.width, self.stdout)),
        }
    }

    /// Prints a page of a list, and how to get the next one.
    pub(crate) fn list<T: Serialize>(
        &self,
        list: &List<T>,
        table: impl FnOnce(&[T]) -> Table,
        empty: &str,
    ) -> Result<(), UserError> {
        self.rows(list, &list.data, table, empty)?;
        self.more(list.next.as_deref());
        Ok(())
    }

    /// Notes that a list continues.
    pub(crate) fn more(&self, next: Option<&str>) {
        if let Some(next) = next {
            self.note(&format!("more follows: `--cursor {next}`"));
        }
    }

    /// Prints one JSON document: indented on a terminal, else in one line.
    pub(crate) fn document<T: Serialize>(&self, value: &T) -> Result<(), UserError> {
        let text = if self.is_terminal() {
            serde_json::to_string_pretty(value)
        } else {
            serde_json::to_string(value)
        };
        self.raw(&ended(text::json(text.map_err(not_json)?)))
    }

    /// Prints a JSON document as one line.
    pub(crate) fn json_line<T: Serialize>(&self, value: &T) -> Result<(), UserError> {
        let text = serde_json::to_string(value).map_err(not_json)?;
        self.raw(&ended(text::json(text)))
    }

    /// Prints the part of `{"data": […` that follows `shown` rows.
    pub(crate) fn json_part<T: Serialize>(
        &self,
        rows: &[T],
        shown: usize,
    ) -> Result<(), UserError> {
        let mut out = String::new();
        for (n, row) in rows.iter().enumerate() {
            out.push_str(if shown + n == 0 { "{\"data\":[" } else { "," });
            out.push_str(&text::json(serde_json::to_string(row).map_err(not_json)?));
        }
        self.raw(&out)
    }

    /// Prints the end of a list of `shown` rows.
    pub(crate) fn json_end(&self, shown: usize) -> Result<(), UserError> {
        let begin = if shown == 0 { "{\"data\":[" } else { "" };
        self.raw(&format!("{begin}],\"next\":null}}\n"))
    }

    /// Prints text to stdout unchanged; the caller has made foreign text safe.
    pub(crate) fn raw(&self, text: &str) -> Result<(), UserError> {
        self.raw_bytes(text.as_bytes())
    }

    pub(crate) fn raw_bytes(&self, bytes: &[u8]) -> Result<(), UserError> {
        if self.silent {
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        stdout
            .write_all(bytes)
            .and_then(|()| stdout.flush())
            .map_err(|error| match error.kind() {
                ErrorKind::BrokenPipe => UserError::pipe_closed(),
                _ => UserError::failed("cannot write the output").caused_by(&error),
            })
    }

    /// Prints a note for people to stderr; not with `--json`.
    pub(crate) fn note(&self, text: &str) {
        if self.format == Format::Human {
            complain(&ended(text::block(&self.addressed(text))));
        }
    }

    pub(crate) fn warn(&self, warning: &str, hint: &str) {
        if self.format == Format::Human {
            let head = self.stderr.apply(YELLOW.bold(), "warning:");
            let foot = self.stderr.apply(CYAN, "hint:");
            complain(&format!(
                "{head} {}\n{foot} {}\n",
                text::line(warning),
                text::line(&self.addressed(hint))
            ));
        }
    }

    /// Rows and columns of the terminal on stderr, if progress can be drawn there.
    pub(crate) fn progress_area(&self) -> Option<(usize, usize)> {
        if self.format == Format::Json || !self.moves {
            return None;
        }
        let size = rustix::termios::tcgetwinsize(io::stderr()).ok()?;
        let or = |n: u16, usual: usize| if n == 0 { usual } else { n.into() };
        Some((or(size.ws_row, 24), or(size.ws_col, 80)))
    }

    /// Prints to stderr unchanged, cursor movements included.
    pub(crate) fn draw(&self, text: &str) {
        complain(text);
    }

    /// Asks a yes/no question; `None` if there is no terminal to ask on.
    pub(crate) fn ask(&self, question: &str) -> Option<bool> {
        let people = io::stdin().is_terminal() && io::stderr().is_terminal();
        if !people || self.format == Format::Json {
            return None;
        }
        complain(&format!("{} [y/N] ", text::line(question)));
        let mut line = String::new();
        io::stdin().read_line(&mut line).ok()?;
        Some(matches!(line.trim(), "y" | "Y" | "yes" | "Yes"))
    }

    /// Prints a note if `-v` was given.
    pub(crate) fn detail(&self, text: &str) {
        if self.verbose && self.format == Format::Human {
            complain(&format!(
                "{} {}\n",
                self.stderr.apply(DIM, "note:"),
                text::line(text)
            ));
        }
    }

    pub(crate) fn error(&self, error: &UserError) {
        if error.is_printed() {
            return;
        }
        let error = &error.clone().map_hints(|hint| self.addressed(hint));
        match self.format {
            Format::Human => complain(&human_error(error, self.stderr)),
            Format::Json => {
                let body = serde_json::to_string(&error.to_body()).unwrap_or_default();
                complain(&ended(text::json(body)));
            }
        }
    }

    /// Prints an error of clap, coloured like our own.
    pub(crate) fn clap_error(&self, error: &clap::Error) {
        let rendered = error.render();
        complain(&if self.stderr == Paint::PLAIN {
            rendered.to_string()
        } else {
            rendered.ansi().to_string()
        });
    }

    pub(crate) fn styled(&self, text: &clap::builder::StyledStr) -> String {
        if self.stdout == Paint::PLAIN {
            text.to_string()
        } else {
            text.ansi().to_string()
        }
    }
}

fn not_json(error: serde_json::Error) -> UserError {
    UserError::failed("cannot write JSON").caused_by(&error)
}

fn human_error(error: &UserError, paint: Paint) -> String {
    let mut out = format!(
        "{} {}\n",
        paint.apply(RED.bold(), "error:"),
        text::line(error.message())
    );
    for cause in error.causes() {
        out.push_str(&format!("  caused by: {}\n", text::line(cause)));
    }
    for hint in error.hints() {
        out.push_str(&format!(
            "{} {}\n",
            paint.apply(CYAN, "hint:"),
            text::line(hint)
        ));
    }
    out
}

/// Adds the tenant to every `skein …` command that works in one.
fn addressed(text: &str, tenant: &str) -> String {
    const COMMAND: &str = "`skein ";
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !tenant.chars().all(plain) {
        return text.to_owned();
    }
    let mut parts = text.split(COMMAND);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let word = part.split([' ', '`']).next().unwrap_or_default();
        out.push_str(COMMAND);
        if !matches!(
            word,
            "daemon" | "doctor" | "config" | "demo" | "man" | "completion"
        ) {
            out.push_str(&format!("--tenant {tenant} "));
        }
        out.push_str(part);
    }
    out
}

/// An unwritable stderr cannot be reported anywhere.
fn complain(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

fn ended(mut text: String) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn columns(terminal: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    Some(match size.ws_col {
        0 => 80,
        columns => columns.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_the_tenant_that_was_named() {
        assert_eq!(
            addressed("`skein ls --all` or `skein daemon stop`", "acme"),
            "`skein --tenant acme ls --all` or `skein daemon stop`"
        );
        assert_eq!(addressed("nothing to type", "acme"), "nothing to type");
    }

    #[test]
    fn errors_say_what_why_and_what_next() {
        let error = UserError::failed("cannot resume api-1\u{1b}[0m")
            .cause("it is held by run 4")
            .hint("`skein kill api-1` ends it");
        assert_eq!(
            human_error(&error, Paint::PLAIN),
            "error: cannot resume api-1\\u{1b}[0m\n  caused by: it is held by run 4\nhint: `skein kill api-1` ends it\n"
        );
    }
}
