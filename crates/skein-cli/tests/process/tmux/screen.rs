//! The tmux server of a fleet, and a person in front of a terminal.

use std::path::PathBuf;
use std::process::Output;

use serde_json::Value;

use crate::harness::{Fleet, eventually, text};

/// The server that the daemon of `fleet` starts. It ends with the fleet, whose `SKEIN_HOME` it carries.
pub(crate) struct Tmux<'a> {
    fleet: &'a Fleet,
    socket: PathBuf,
}

impl<'a> Tmux<'a> {
    pub(crate) fn of(fleet: &'a Fleet) -> Self {
        let socket = fleet.home.root().join("tmux.sock");
        Self::at(fleet, socket)
    }

    pub(crate) fn at(fleet: &'a Fleet, socket: PathBuf) -> Self {
        Self { fleet, socket }
    }

    fn output(&self, args: &[&str]) -> Output {
        let mut command = self.fleet.home.program("tmux");
        command.env("TERM", "xterm-256color").arg("-S");
        command.arg(&self.socket).args(["-f", "/dev/null"]);
        command.args(args).output().unwrap()
    }

    pub(crate) fn run(&self, args: &[&str]) -> String {
        let output = self.output(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Every window as `SESSION:INDEX NAME`; none without a server.
    pub(crate) fn windows(&self) -> Vec<String> {
        let format = "#{session_name}:#{window_index} #{window_name}";
        let output = self.output(&["list-windows", "-a", "-F", format]);
        let listed = String::from_utf8(output.stdout).unwrap();
        listed.lines().map(str::to_owned).collect()
    }

    pub(crate) fn until_windows(&self, wanted: &[&str]) {
        eventually(
            || (self.windows() == wanted).then_some(()),
            || format!("{:?}, not {wanted:?}", self.windows()),
        );
    }

    pub(crate) fn ask(&self, target: &str, format: &str) -> String {
        let printed = self.run(&["display-message", "-p", "-t", target, format]);
        printed.trim_end().to_owned()
    }

    pub(crate) fn server(&self) -> i32 {
        self.run(&["display-message", "-p", "#{pid}"])
            .trim()
            .parse()
            .unwrap()
    }

    pub(crate) fn until_shows(&self, target: &str, wanted: &str) {
        let shown = || self.run(&["capture-pane", "-p", "-t", target]);
        eventually(
            || shown().contains(wanted).then_some(()),
            || format!("no {wanted:?} in\n{}", shown()),
        );
    }

    /// Presses keys at the window itself.
    pub(crate) fn keys(&self, target: &str, keys: &[&str]) {
        self.run(&[&["send-keys", "-t", target], keys].concat());
    }

    /// Types a line as a person does: looks at it before pressing Enter.
    pub(crate) fn types(&self, target: &str, line: &str) {
        self.keys(target, &["-l", line]);
        self.until_shows(target, &format!("> {line}"));
        self.keys(target, &["Enter"]);
    }
}

/// A terminal of 100 by 30 in which the shell runs `line`; another tmux is the terminal.
pub(crate) struct Person<'a>(Tmux<'a>);

impl<'a> Person<'a> {
    /// `name` is unique to this terminal.
    pub(crate) fn runs(fleet: &'a Fleet, name: &str, line: &str) -> Self {
        let terminal = Tmux::at(fleet, fleet.home.user().join(name));
        let line = format!("unset TMUX; {line}; echo \"LEFT WITH $?\"; exec sleep 1000");
        let new = ["new-session", "-d", "-s", "outer", "-x", "100", "-y", "30"];
        terminal.run(&[&new[..], &["sh", "-c", &line]].concat());
        // The terminal must not take keys for itself.
        terminal.run(&["set-option", "-g", "prefix", "None"]);
        terminal.run(&["set-option", "-g", "status", "off"]);
        Self(terminal)
    }

    pub(crate) fn sees(&self, wanted: &str) {
        self.0.until_shows("outer", wanted);
    }

    pub(crate) fn presses(&self, keys: &[&str]) {
        self.0.keys("outer", keys);
    }

    pub(crate) fn types(&self, line: &str) {
        self.0.types("outer", line);
    }

    pub(crate) fn leaves(self) {
        self.sees("LEFT WITH 0");
        self.0.run(&["kill-server"]);
    }
}

/// A scripted agent at rest whose window shows it; the session's id.
pub(crate) fn shown(fleet: &Fleet, task: &str, args: &[&str]) -> String {
    let args = [&["--runtime", "tmux"], args].concat();
    let session = fleet.spawn(task, &args);
    fleet.until_status(&session, "idle");
    session
}

pub(crate) fn pid(session: &Value) -> i32 {
    i32::try_from(session["runtime"]["pid"].as_i64().unwrap()).unwrap()
}

/// The command that `show` prints for people.
pub(crate) fn command(fleet: &Fleet, session: &str) -> String {
    text(&fleet.show(session)["runtime"]["window"]["command"])
}
