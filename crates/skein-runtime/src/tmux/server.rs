//! The tmux server of one home: its sockets, its options, and how it is started.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::control::Answer;
use super::link::Link;
use super::name;
use crate::error::Error;

/// A socket's path has at most 107 bytes.
const LONGEST_PLACE: usize = 95;
/// The session of the bridge.
pub(super) const ANCHOR: &str = "_skein";
/// How often the bridge is built anew while it does not come.
const BUILD: Duration = Duration::from_millis(500);

/// Set by every bridge, so that a server of an older version obeys too. Nothing a program prints may reach
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
    place: Place,
    keeper: Vec<OsString>,
    patience: Duration,
    link: Mutex<Option<Arc<Link>>>,
}

/// Where the sockets are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place(PathBuf);

impl Place {
    pub(super) fn tmux(&self) -> PathBuf {
        self.0.join("tmux")
    }

    pub(super) fn bridge(&self) -> PathBuf {
        self.0.join("bridge")
    }
}

impl Server {
    pub(super) fn new(root: PathBuf, keeper: Vec<OsString>, patience: Duration) -> Self {
        let place = place(&root);
        Self {
            root,
            place,
            keeper,
            patience,
            link: Mutex::default(),
        }
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.place.tmux()
    }

    /// Sends commands to the server, which is started first if there is none.
    pub(super) async fn request(&self, lines: Vec<u8>) -> Result<Answer, Error> {
        let link = self.link().await?;
        link.request(lines, self.patience).await
    }

    /// Lets go of the server; without runs it goes.
    pub(super) async fn disconnect(&self) {
        *self.link.lock().await = None;
    }

    async fn link(&self) -> Result<Arc<Link>, Error> {
        let mut held = self.link.lock().await;
        if let Some(link) = held.as_ref().filter(|link| !link.is_closed()) {
            return Ok(Arc::clone(link));
        }
        *held = None;
        let link = Arc::new(self.connect().await?);
        *held = Some(Arc::clone(&link));
        Ok(link)
    }

    /// Over the bridge, which is built if it is not there. It may be going just now, and the server with it:
    /// then both are started anew.
    async fn connect(&self) -> Result<Link, Error> {
        make_private(&self.root).map_err(|e| Error::io("cannot use", &self.root, e))?;
        make_private(&self.place.0).map_err(|e| Error::io("cannot use", &self.place.0, e))?;
        let deadline = Instant::now() + self.patience;
        let mut build_at = Instant::now();
        loop {
            match Link::open(&self.place.bridge(), deadline).await {
                Ok(link) => return Ok(link),
                Err(why) if Instant::now() >= deadline => return Err(Error::unobserved(why)),
                Err(_) => {}
            }
            if Instant::now() >= build_at {
                self.build(deadline).await?;
                build_at = Instant::now() + BUILD;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Starts the session of the bridge. That it is there already is no error.
    async fn build(&self, deadline: Instant) -> Result<(), Error> {
        let mut command = client(&self.place.tmux());
        let mut child = command
            .current_dir(&self.root)
            .args([
                "new-session",
                "-d",
                "-s",
                ANCHOR,
                "-x",
                "80",
                "-y",
                "24",
                "--",
            ])
            .args(&self.keeper)
            .arg("--bridge")
            .arg(&self.place.0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| Error::unobserved(format!("cannot run `tmux`: {error}")))?;
        match tokio::time::timeout_at(deadline, child.wait()).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::unobserved("tmux does not answer")),
        }
    }
}

/// `tmux` for our server, without the user's settings.
pub(super) fn client(socket: &Path) -> Command {
    let mut command = Command::new("tmux");
    keep_only_the_harmless(&mut command);
    command
        .arg("-S")
        .arg(socket)
        .args(["-f", "/dev/null", "-u"]);
    command
}

/// All settings, as lines of commands.
pub(super) fn options() -> Vec<u8> {
    let terminal = format!("\nset-option -s default-terminal {}", terminal());
    (OPTIONS.join("\n") + &terminal).into_bytes()
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
fn place(root: &Path) -> Place {
    let near = root.join("server");
    if near.as_os_str().len() <= LONGEST_PLACE {
        return Place(near);
    }
    let user = rustix::process::getuid().as_raw();
    let home = name::hash(root.as_os_str().as_bytes());
    Place(PathBuf::from(format!("/tmp/skein-tmux-{user}-{home:016x}")))
}

impl From<&Path> for Place {
    fn from(path: &Path) -> Self {
        Self(path.to_owned())
    }
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
    if places.iter().any(known) {
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
        let near = place(Path::new("/h/tmux"));
        assert_eq!(near.tmux(), Path::new("/h/tmux/server/tmux"));
        let (one, two) = (place(&deep("one")), place(&deep("two")));
        assert_ne!(one, two);
        assert!(one.bridge().as_os_str().len() < 107, "{one:?}");
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
