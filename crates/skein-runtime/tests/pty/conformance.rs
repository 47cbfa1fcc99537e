//! The built-in runtime passes the suite.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use skein_domain::RunHandle;
use skein_runtime::pty::{PtyOptions, PtyRuntime};
use skein_runtime::{Error, Grace, InputResult, Run, Runtime, TerminalInput};
use skein_runtime_conformance::{Bench, TestHome, dead};
use tempfile::TempDir;

#[derive(Debug)]
struct Folder(TempDir);

impl Folder {
    /// Deeper than a socket's address is long, and full of characters that mean something to a shell.
    fn root(&self) -> PathBuf {
        let awkward = "a #{pid} 'quoted' $HOME; %H -x ".repeat(5);
        self.0.path().join(awkward).join("runs")
    }
}

fn runtime(root: &Path) -> PtyRuntime {
    PtyRuntime::new(PtyOptions {
        holder: vec![env!("CARGO_BIN_EXE_skein-holder").into()],
        root: root.to_owned(),
        groups: skein_runtime::Groups::default(),
    })
}

impl TestHome for Folder {
    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::new(runtime(&self.root()))
    }

    fn another(&self) -> Box<dyn TestHome> {
        Box::new(fresh())
    }

    fn holder(&self, handle: &RunHandle) -> u32 {
        let run = handle.as_str().strip_prefix("pty:").unwrap();
        let record = fs::read_to_string(self.root().join(run).join("run.json")).unwrap();
        let record: serde_json::Value = serde_json::from_str(&record).unwrap();
        u32::try_from(record["holder"].as_u64().unwrap()).unwrap()
    }
}

fn fresh() -> Folder {
    Folder(TempDir::new().unwrap())
}

skein_runtime_conformance::runtime_conformance!(fresh);

/// Runs a case of this runtime's own as the suite runs its cases.
fn check(case: impl for<'a> AsyncFnOnce(&'a Bench) + 'static) {
    Bench::run(Box::new(fresh()), |bench| Box::pin(case(bench)));
}

const READER: &str = "echo ready; while read -r line; do echo \"got $line\"; done";

async fn shown(run: &dyn Run, text: &str) {
    let shows = async {
        while !run.screen().await.unwrap().rows.join("\n").contains(text) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let shown = tokio::time::timeout(Duration::from_secs(60), shows).await;
    shown.unwrap_or_else(|_| panic!("`{text}` never showed"));
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn twenty_launches_at_once_are_twenty_runs_and_two_of_one_are_one() {
    check(async |bench| {
        let mut launches = tokio::task::JoinSet::new();
        for number in 1..=20 {
            for runtime in [bench.runtime(), bench.runtime()] {
                let mut launch = bench.shell(&format!("echo started >> starts-{number}; {READER}"));
                (launch.run, launch.log) = (number, bench.path(&format!("log-{number}")));
                launches.spawn(async move { runtime.launch(launch).await });
            }
        }
        while let Some(launched) = launches.join_next().await {
            launched.unwrap().unwrap();
        }
        let found = bench.runtime().list().await.unwrap();
        assert_eq!(found.len(), 20);
        for found in found {
            let run = bench.runtime().connect(&found.handle).await.unwrap();
            shown(&*run, "ready").await;
            let starts = fs::read_to_string(bench.path(&format!("starts-{}", found.run)));
            assert_eq!(starts.unwrap(), "started\n");
        }
    });
}

#[test]
fn l3_a_holder_that_hangs_is_unobserved_and_ends_nothing() {
    check(async |bench| {
        let (handle, run) = bench.start(bench.shell(READER)).await;
        shown(&*run, "ready").await;
        let holder = bench.home.holder(&handle);
        signal(holder, Signal::STOP);
        let looked = bench.runtime().connect(&handle).await;
        assert!(
            matches!(looked, Err(Error::Unobserved { .. })),
            "{looked:?}"
        );
        // What needs no answer of the holder is known all the same.
        let found = bench.runtime().list().await.unwrap();
        assert_eq!((found.len(), found[0].exit), (1, None));
        assert!(found[0].pid.is_some());
        assert!(!run.sight().borrow().cut_off);
        signal(holder, Signal::CONT);

        shown(&*run, "ready").await;
        let typed = run.write(1, TerminalInput::Keys(b"once\r".to_vec())).await;
        assert_eq!(typed.unwrap(), InputResult::Now);
        shown(&*run, "got once").await;
    });
}

#[test]
fn a_holder_that_is_stopped_does_not_keep_its_run() {
    check(async |bench| {
        let (handle, run) = bench.start(bench.shell("echo up; exec sleep 600")).await;
        shown(&*run, "up").await;
        let agent = run.sight().borrow().pid.unwrap();
        let holder = bench.home.holder(&handle);
        signal(holder, Signal::STOP);
        let grace = Grace {
            terminate: Duration::from_millis(100),
        };
        bench.runtime().end(&handle, grace).await.unwrap();
        assert!(dead(agent));
        assert!(dead(holder));
    });
}

#[test]
fn l14_what_is_started_is_not_left_in_the_home() {
    let home = fresh();
    let root = home.root();
    Bench::run(Box::new(home), |bench| {
        Box::pin(async move {
            let mut launch = bench.shell(READER);
            launch.env.insert("TOKEN".into(), "hunter2-secret".into());
            let (_, run) = bench.start(launch).await;
            shown(&*run, "ready").await;
            let found = Command::new("grep")
                .args(["-rl", "hunter2-secret"])
                .arg(root)
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(found.stdout).unwrap(), "");
        })
    });
}
