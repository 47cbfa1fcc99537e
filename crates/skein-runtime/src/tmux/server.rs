//! The tmux server of one home: its socket, its options, and the connection to it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::Mutex;

use super::control::{Answer, Control};
use super::{folder, name};
use crate::error::Error;

/// A socket's path has at most 107 bytes.
const LONGEST_SOCKET: usize = 100;
/// Anchors of this process.
static ANCHORS: AtomicU64 = AtomicU64::new(0);

/// Set at every connect, so that a server of an older version obeys too. Nothing a program prints may reach
/// the clipboard, the title or the bare terminal of whoever looks on.
const OPTIONS: &[&str] = &[
    "set-option -s exit-empty on",
    "set-option -s exit-unattached off",
    "set-option -s set-clipboard off",
    "set-option -s escape-time 20",
    "set-option -g status off",
    "set-option -g set-titles off",
    "set-option -g history-limit 5000",
    "set-option -g detach-on-destroy on",
    "set-option -g update-environment ''",
    "set-option -g prefix C-b",
    "set-option -g prefix2 None",
    "set-option -gw allow-rename off",
    "set-option -gw automatic-rename off",
    "set-option -gw remain-on-exit off",
    "set-option -gw window-size latest",
    // Not known before 3.3, where it is always off in effect for other programs' output.
    "set-option -gwq allow-passthrough off",
    "bind-key -n C-q detach-client",
];

#[derive(Debug)]
pub(super) struct Server {
    root: PathBuf,
    socket: PathBuf,
    keeper: Vec<OsString>,
    patience: Duration,
    connection: Mutex<Option<Arc<Connection>>>,
}

#[derive(Debug)]
struct Connection {
    control: Control,
    /// The client's own session ends when this lock is let go, also by a crash.
    _anchor: Anchor,
}

#[derive(Debug)]
struct Anchor {
    path: PathBuf,
    _lock: File,
}

impl Drop for Anchor {
    fn drop(&mut self) {
        // Left behind at worst: it is empty, and nobody waits for it.
        let _ = fs::remove_file(&self.path);
    }
}

impl Server {
    pub(super) fn new(root: PathBuf, keeper: Vec<OsString>, patience: Duration) -> Self {
        let socket = socket(&root);
        Self {
            root,
            socket,
            keeper,
            patience,
            connection: Mutex::default(),
        }
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Sends commands over the connection, which is made first if there is none.
    pub(super) async fn request(&self, lines: Vec<u8>) -> Result<Answer, Error> {
        let connection = self.connection().await?;
        connection.control.request(lines).await
    }

    /// Lets go of the connection; without runs the server goes too.
    pub(super) async fn disconnect(&self) {
        *self.connection.lock().await = None;
    }

    async fn connection(&self) -> Result<Arc<Connection>, Error> {
        let mut held = self.connection.lock().await;
        if let Some(connection) = held.as_ref().filter(|c| !c.control.is_closed()) {
            return Ok(Arc::clone(connection));
        }
        *held = None;
        let connection = Arc::new(self.connect().await?);
        *held = Some(Arc::clone(&connection));
        Ok(connection)
    }

    async fn connect(&self) -> Result<Connection, Error> {
        let failed = |source| Error::io("cannot make", &self.root, source);
        make_private(&self.root).map_err(failed)?;
        if let Some(parent) = self.socket.parent().filter(|p| *p != self.root) {
            make_private(parent).map_err(|e| Error::io("cannot use", parent, e))?;
        }
        let number = ANCHORS.fetch_add(1, Ordering::Relaxed);
        let session = format!("_anchor-{}-{number}", std::process::id());
        let path = self.root.join(&session);
        let lock = folder::lock(&path).map_err(|e| Error::io("cannot lock", &path, e))?;
        let anchor = Anchor { path, _lock: lock };
        let command = self.client(&session, &anchor.path);
        let control = Control::start(command, self.patience)
            .map_err(|error| Error::unobserved(format!("cannot run `tmux`: {error}")))?;
        let connection = Connection {
            control,
            _anchor: anchor,
        };
        let mut lines = OPTIONS.join("\n").into_bytes();
        let terminal = format!("\nset-option -s default-terminal {}", terminal());
        lines.extend_from_slice(terminal.as_bytes());
        connection.control.request(lines).await?;
        Ok(connection)
    }

    /// A client in control mode, in a session of its own that shows nothing and sizes nothing.
    fn client(&self, session: &str, anchor: &Path) -> Command {
        let mut command = Command::new("tmux");
        keep_only_the_harmless(&mut command);
        command
            .current_dir(&self.root)
            .arg("-S")
            .arg(&self.socket)
            .args(["-f", "/dev/null", "-u", "-C", "new-session", "-s", session])
            .args(["-f", "no-output,ignore-size", "-x", "80", "-y", "24", "--"])
            .args(&self.keeper)
            .arg("--anchor")
            .arg(anchor)
            .args([";", "set-option", "destroy-unattached", "on"]);
        command
    }
}

/// The server lives long and hands its environment to what is started in it, so it gets no secrets (L14).
fn keep_only_the_harmless(command: &mut Command) {
    let kept = |name: &OsStr| {
        let kept = [
            "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR",
        ];
        kept.iter().any(|k| *k == name)
            || name.as_bytes().starts_with(b"LC_")
            || name.as_bytes().starts_with(b"TERMINFO")
    };
    command.env_clear();
    command.envs(std::env::vars_os().filter(|(name, _)| kept(name)));
    command.env("TERM", "dumb");
}

/// In the home when its path is short enough, else in a folder of this user's named after the home.
fn socket(root: &Path) -> PathBuf {
    let near = root.join("socket");
    if near.as_os_str().len() <= LONGEST_SOCKET {
        return near;
    }
    let user = rustix::process::getuid().as_raw();
    let home = name::hash(root.as_os_str().as_bytes());
    PathBuf::from(format!("/tmp/skein-tmux-{user}-{home:016x}/socket"))
}

/// A folder that nobody else can look into or has put there.
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(path)?;
    let ours = found.is_dir() && found.uid() == rustix::process::getuid().as_raw();
    if !ours || found.mode() & 0o077 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is not a folder of this user alone",
        ));
    }
    Ok(())
}

/// The best description of tmux's terminal that this machine has.
fn terminal() -> &'static str {
    let places = [
        "/etc/terminfo",
        "/lib/terminfo",
        "/usr/share/terminfo",
        "/usr/lib/terminfo",
    ];
    let known = |place: &&str| Path::new(place).join("t/tmux-256color").exists();
    if places.iter().any(|place| known(&place)) {
        "tmux-256color"
    } else {
        "screen-256color"
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn sockets_of_long_homes_are_short_and_their_own() {
        let deep = |name: &str| PathBuf::from(format!("/{}/{name}", "x".repeat(120)));
        assert_eq!(socket(Path::new("/h/tmux")), Path::new("/h/tmux/socket"));
        let (one, two) = (socket(&deep("one")), socket(&deep("two")));
        assert_ne!(one, two);
        assert!(one.as_os_str().len() <= LONGEST_SOCKET, "{one:?}");
    }

    #[test]
    fn l15_a_folder_open_to_others_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("open");
        make_private(&path).unwrap();
        make_private(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(make_private(&path).is_err());
        let link = temp.path().join("link");
        std::os::unix::fs::symlink(temp.path(), &link).unwrap();
        assert!(make_private(&link).is_err());
    }
}
