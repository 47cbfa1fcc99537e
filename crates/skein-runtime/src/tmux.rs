//! Windows of a tmux server that belongs to one home.
//!
//! Each session has its own tmux session of the same name, whose window 0 runs `skein attach` on the session's holder.
//! tmux holds no agent: closing a window or killing the server only removes the view.
//!
//! - **The server** has a socket in the home, reads no settings of the user, and ends with its last window. It gets a
//!   short list of variables, because every window inherits its environment (L14).
//! - **Commands** are words of an argument list. No shell reads them, and `word` escapes the only character that tmux
//!   itself interprets in a word (L15).
//! - **The keyboard.** The window's viewer types only while no other viewer does, because it exists as long as the
//!   run, also while no user looks at it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use skein_domain::{SessionId, TenantId};
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::error::Error;
use crate::runtime::{BoxFuture, Result, Size};
use crate::window::{OpenMode, Windows};

/// How long a caller waits for its window, including windows that others open before it.
const PATIENCE: Duration = Duration::from_secs(10);
/// A server that loses its last window ends. A command that meets it then fails, and is repeated on a new server.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(50);

/// Set with every window, so that they also apply to a server that another program started. An agent's output must not
/// reach the clipboard, the title or the bare terminal of viewers.
const SETTINGS: &[&[&str]] = &[
    &["set-option", "-s", "exit-empty", "on"],
    &["set-option", "-s", "exit-unattached", "off"],
    &["set-option", "-s", "set-clipboard", "off"],
    &["set-option", "-s", "escape-time", "20"],
    &["set-option", "-g", "status", "off"],
    &["set-option", "-g", "set-titles", "off"],
    &["set-option", "-g", "detach-on-destroy", "on"],
    &["set-option", "-g", "update-environment", ""],
    &["set-option", "-g", "base-index", "0"],
    &["set-option", "-gw", "allow-rename", "off"],
    &["set-option", "-gw", "automatic-rename", "off"],
    &["set-option", "-gw", "remain-on-exit", "off"],
    // Versions before 3.3 do not know it and pass nothing through.
    &["set-option", "-gwq", "allow-passthrough", "off"],
    // `skein attach` offers these keys. When tmux detaches, the window stays; `skein attach` would close it.
    &["bind-key", "-n", "C-q", "detach-client"],
    &["bind-key", "t", "send-keys", "C-b", "t"],
];

#[derive(Clone, Debug)]
pub struct TmuxOptions {
    /// The `skein` program that windows run.
    pub skein: PathBuf,
    /// The home whose sessions are shown.
    pub home: PathBuf,
    /// The server's socket, in a folder that only this user can access.
    pub socket: PathBuf,
    /// The environment of the server and of every window. No secrets.
    pub environment: BTreeMap<String, String>,
}

#[derive(Debug)]
pub struct TmuxWindows {
    options: TmuxOptions,
    /// Held while a window is opened, because looking for one and opening it are two commands.
    opening: Mutex<()>,
}

impl TmuxWindows {
    pub fn new(options: TmuxOptions) -> Self {
        Self {
            options,
            opening: Mutex::default(),
        }
    }

    async fn open_window(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        mode: OpenMode,
    ) -> Result<()> {
        let _alone = self.opening.lock().await;
        let name = name(tenant, session);
        let mut why = String::new();
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            let windows = self.windows_of(&name).await?;
            let is_open = windows.iter().flatten().any(|index| index == "0");
            if is_open && mode == OpenMode::IfMissing {
                return Ok(());
            }
            let words = self.opening_words(tenant, session, &name, windows.is_some());
            let output = self.run(&words).await?;
            if output.status.success() {
                return Ok(());
            }
            why = complaint(&output);
        }
        Err(Error::NoWindow { why })
    }

    /// The indexes of the windows in the tmux session; none without such a session or a server.
    async fn windows_of(&self, name: &str) -> Result<Option<Vec<String>>> {
        let target = format!("={name}");
        let words = ["list-windows", "-F", "#{window_index}", "-t", &target];
        let output = self.run(&words.map(OsString::from)).await?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let indexes = printed.lines().map(str::to_owned).collect();
        Ok(output.status.success().then_some(indexes))
    }

    /// All commands that open the window, as one argument list.
    fn opening_words(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        name: &str,
        has_session: bool,
    ) -> Vec<OsString> {
        let mut words = vec!["set-environment".into(), "-g".into(), "SKEIN_HOME".into()];
        words.push(word(self.options.home.as_os_str()));
        for setting in SETTINGS {
            words.push(";".into());
            words.extend(setting.iter().map(OsString::from));
        }
        words.push(";".into());
        if has_session {
            let target = format!("={name}:0");
            words.extend(["new-window", "-d", "-k", "-t", &target].map(OsString::from));
        } else {
            // The viewer's status line needs one more row.
            let Size { rows, cols } = Size::default();
            let (cols, rows) = (cols.to_string(), (rows + 1).to_string());
            words.extend(["new-session", "-d", "-s", name].map(OsString::from));
            words.extend(["-x", &cols, "-y", &rows].map(OsString::from));
        }
        // tmux expands formats in a window's name; a session id contains none.
        words.extend(["-n", session.as_str(), "--"].map(OsString::from));
        words.push(word(self.options.skein.as_os_str()));
        words.extend(["--tenant", tenant.as_str()].map(OsString::from));
        words.extend(["attach", "--yield", session.as_str()].map(OsString::from));
        words
    }

    async fn run(&self, words: &[OsString]) -> Result<Output> {
        let output = Command::new("tmux")
            .arg("-S")
            .arg(&self.options.socket)
            .args(["-f", "/dev/null", "-u"])
            .args(words)
            .env_clear()
            .envs(&self.options.environment)
            .env("SKEIN_HOME", &self.options.home)
            .env("TERM", "dumb")
            .current_dir("/")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        output.await.map_err(cannot_start)
    }
}

impl Windows for TmuxWindows {
    fn check(&self) -> Result<()> {
        let mut command = std::process::Command::new("tmux");
        command
            .arg("-V")
            .env_clear()
            .envs(&self.options.environment);
        let output = command
            .stdin(Stdio::null())
            .output()
            .map_err(cannot_start)?;
        match output.status.success() {
            true => Ok(()),
            false => Err(cannot_start(io::Error::other(complaint(&output)))),
        }
    }

    fn command(&self, tenant: &TenantId, session: &SessionId) -> String {
        let socket = self.options.socket.to_string_lossy();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,@".contains(c);
        let socket = match socket.chars().all(is_plain) {
            true => socket.into_owned(),
            false => format!("'{}'", socket.replace('\'', r"'\''")),
        };
        format!("tmux -S {socket} attach -t {}", name(tenant, session))
    }

    fn open<'a>(
        &'a self,
        tenant: &'a TenantId,
        session: &'a SessionId,
        mode: OpenMode,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let opened = timeout(PATIENCE, self.open_window(tenant, session, mode)).await;
            let why = format!("no answer from it within {} s", PATIENCE.as_secs());
            opened.map_err(|_| Error::NoWindow { why })?
        })
    }
}

/// The name of the session's tmux session. Ids of tenants and sessions contain only `a-z`, `0-9` and `-`, none of
/// which is special to tmux.
fn name(tenant: &TenantId, session: &SessionId) -> String {
    match *tenant == TenantId::default_tenant() {
        true => session.to_string(),
        false => format!("{tenant}/{session}"),
    }
}

/// Escapes a final semicolon, which would begin another tmux command.
fn word(word: &OsStr) -> OsString {
    let mut bytes = word.as_bytes().to_vec();
    if bytes.last() == Some(&b';') {
        bytes.insert(bytes.len() - 1, b'\\');
    }
    OsString::from_vec(bytes)
}

fn cannot_start(error: io::Error) -> Error {
    Error::CannotStart {
        program: "tmux".into(),
        why: error.to_string(),
    }
}

/// The last line of tmux's error output.
fn complaint(output: &Output) -> String {
    let printed = String::from_utf8_lossy(&output.stderr);
    match printed.lines().last() {
        Some(line) => line.to_owned(),
        None => output.status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l15_no_word_ends_a_command() {
        let check = |text: &str, expected: &str| assert_eq!(word(OsStr::new(text)), expected);
        check("/a b;c", "/a b;c");
        check("/home;", r"/home\;");
        check(r"/home\;", r"/home\\;");
        check(";", r"\;");
        check("", "");
    }

    #[test]
    fn the_command_for_people_names_one_socket_and_one_session() {
        let check = |socket: &str, tenant: &str, expected: &str| {
            let windows = TmuxWindows::new(TmuxOptions {
                skein: "/bin/skein".into(),
                home: "/h".into(),
                socket: socket.into(),
                environment: BTreeMap::new(),
            });
            let (tenant, session) = (tenant.parse().unwrap(), "api-7".parse().unwrap());
            assert_eq!(windows.command(&tenant, &session), expected);
        };
        check("/h/s", "default", "tmux -S /h/s attach -t api-7");
        check("/h/s", "acme", "tmux -S /h/s attach -t acme/api-7");
        let quoted = r"tmux -S '/it'\''s; $HOME' attach -t api-7";
        check("/it's; $HOME", "default", quoted);
    }
}
