//! A home with a tmux of its own, and waiting for what must come.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use skein_domain::RunHandle;
use skein_runtime::conformance::Home;
use skein_runtime::runtime::{Grace, Launch, Run, Runtime, Size};
use skein_runtime::tmux::{Attach, TmuxOptions, TmuxRuntime};
use tempfile::TempDir;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct TmuxHome {
    folder: TempDir,
    /// Below the folder, where the runtime's root is.
    below: &'static str,
}

pub(crate) fn fresh() -> TmuxHome {
    TmuxHome {
        folder: TempDir::new().unwrap(),
        below: "tmux",
    }
}

/// Too deep for a socket, and full of characters that mean something to tmux or a shell.
pub(crate) fn awkward() -> TmuxHome {
    TmuxHome {
        below: "a #{pid} 'quoted' $HOME; %H -x/0123456789012345678901234567890123456789012345678901234567890123456789/tmux",
        folder: TempDir::new().unwrap(),
    }
}

impl TmuxHome {
    pub(crate) fn tmux(&self) -> TmuxRuntime {
        TmuxRuntime::new(self.options())
    }

    pub(crate) fn impatient(&self, patience: Duration) -> TmuxRuntime {
        TmuxRuntime::with_patience(self.options(), patience)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn shell(&self, run: u64, script: &str) -> Launch {
        let env = BTreeMap::from([
            ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("LC_ALL".to_owned(), "C.UTF-8".to_owned()),
        ]);
        Launch {
            tenant: "default".into(),
            session: "api-1".parse().unwrap(),
            run,
            argv: ["sh", "-c", script].map(String::from).to_vec(),
            env,
            cwd: self.folder.path().to_owned(),
            stdin: None,
            size: Size { rows: 24, cols: 80 },
            log: self.path(&format!("log-{run}")),
        }
    }

    fn options(&self) -> TmuxOptions {
        TmuxOptions {
            keeper: vec![env!("CARGO_BIN_EXE_skein-tmux-keeper").into()],
            root: self.folder.path().join(self.below),
        }
    }

    /// Where the sockets are.
    fn place(&self) -> PathBuf {
        let tmux = self.tmux();
        let handle = tmux.handle("default", &"api-1".parse().unwrap(), 1);
        let words = tmux.attach_command(&handle, Attach::LookOn).unwrap();
        PathBuf::from(&words[2]).parent().unwrap().to_owned()
    }

    /// The process that carries commands to the server.
    pub(crate) fn bridge(&self) -> u32 {
        let all = self.processes();
        let bridge = all.iter().find(|words| {
            words.contains("skein-tmux-keeper --bridge") && !words.contains("new-session")
        });
        bridge.unwrap().split(' ').next().unwrap().parse().unwrap()
    }

    /// Processes that belong to this home: servers, bridges, keepers.
    fn processes(&self) -> Vec<String> {
        let (home, place) = (self.folder.path().to_owned(), self.place());
        let ours = [home.to_str().unwrap(), place.to_str().unwrap()];
        let mut found = vec![];
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let pid = entry.file_name();
            if !pid.to_str().unwrap().bytes().all(|b| b.is_ascii_digit()) {
                continue;
            }
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).replace('\0', " ");
            if ours.iter().any(|path| words.contains(path)) {
                found.push(format!("{} {words}", pid.display()));
            }
        }
        found
    }
}

impl Drop for TmuxHome {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let deadline = Instant::now() + PATIENCE;
        while !self.processes().is_empty() {
            assert!(Instant::now() < deadline, "left: {:#?}", self.processes());
            std::thread::sleep(Duration::from_millis(10));
        }
        if !self.place().starts_with(self.folder.path()) {
            let _ = fs::remove_dir_all(self.place());
        }
    }
}

impl Home for TmuxHome {
    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::new(self.tmux())
    }

    fn another(&self) -> Box<dyn Home> {
        Box::new(fresh())
    }

    fn keeper(&self, handle: &RunHandle) -> u32 {
        self.tmux().keeper_pid(handle).unwrap()
    }
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

pub(crate) async fn shown(run: &dyn Run, text: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let rows = run.screen().await.unwrap().rows;
        if rows.iter().any(|row| row.contains(text)) {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "`{text}` never showed: {rows:#?}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited too long for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Ends and forgets everything.
pub(crate) async fn clear(runtime: &dyn Runtime) {
    let grace = Grace {
        terminate: Duration::ZERO,
    };
    for found in runtime.list().await.unwrap() {
        runtime.end(&found.handle, grace).await.unwrap();
        runtime.forget(&found.handle).await.unwrap();
    }
}
