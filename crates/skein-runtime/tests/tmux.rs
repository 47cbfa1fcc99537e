//! The tmux runtime passes the suite, and what only tmux can get wrong.
#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::sync::Arc;

use skein_domain::RunHandle;
use skein_runtime::conformance::Home;
use skein_runtime::runtime::Runtime;
use skein_runtime::tmux::{TmuxOptions, TmuxRuntime};
use tempfile::TempDir;

#[derive(Debug)]
struct TmuxHome {
    folder: TempDir,
}

impl TmuxHome {
    fn tmux(&self) -> TmuxRuntime {
        TmuxRuntime::new(TmuxOptions {
            keeper: vec![env!("CARGO_BIN_EXE_skein-tmux-keeper").into()],
            root: self.folder.path().join("tmux"),
        })
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

fn fresh() -> TmuxHome {
    TmuxHome {
        folder: TempDir::new().unwrap(),
    }
}

skein_runtime::runtime_conformance!(fresh);
