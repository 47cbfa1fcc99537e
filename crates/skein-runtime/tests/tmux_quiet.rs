//! Looking at runs starts no process. Alone in its binary, because processes are counted.
#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use skein_runtime::runtime::{Grace, Input, Launch, Runtime, Size};
use skein_runtime::tmux::{TmuxOptions, TmuxRuntime};

/// Page faults of all children that ended: grows with every process that was started and waited for.
fn children_of(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = stat.rsplit(')').next().unwrap();
    fields.split_whitespace().nth(8).unwrap().parse().unwrap()
}

fn processes_with(word: &str) -> Vec<u32> {
    let mut found = vec![];
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if let Ok(pid) = entry.file_name().to_str().unwrap().parse()
            && String::from_utf8_lossy(&words).contains(word)
        {
            found.push(pid);
        }
    }
    found.sort_unstable();
    found
}

#[tokio::test]
async fn l12_looking_starts_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().to_str().unwrap().to_owned();
    let tmux = TmuxRuntime::new(TmuxOptions {
        keeper: vec![env!("CARGO_BIN_EXE_skein-tmux-keeper").into()],
        root: folder.path().join("tmux"),
    });
    let launch = Launch {
        tenant: "default".into(),
        session: "api-1".parse().unwrap(),
        run: 1,
        argv: vec!["cat".into()],
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        cwd: folder.path().to_owned(),
        stdin: None,
        size: Size::default(),
        log: folder.path().join("log"),
    };
    let handle = tmux.launch(launch).await.unwrap();
    let run = tmux.connect(&handle).await.unwrap();

    let ours = processes_with(&home);
    // This process, and all of the home: the server, the bridge and its client, the keeper.
    let count = || -> Vec<u64> {
        let all = ours.iter().copied().chain([std::process::id()]);
        all.map(children_of).collect()
    };
    let before = count();
    for number in 1..50 {
        run.write(number, Input::Keys(b"x".to_vec())).await.unwrap();
        run.screen().await.unwrap();
        tmux.list().await.unwrap();
        tmux.connect(&handle).await.unwrap();
    }
    assert_eq!(count(), before);
    assert_eq!(processes_with(&home), ours);

    let grace = Grace {
        terminate: Duration::ZERO,
    };
    tmux.end(&handle, grace).await.unwrap();
    tmux.forget(&handle).await.unwrap();
    drop((run, tmux));
    let deadline = Instant::now() + Duration::from_secs(60);
    while !processes_with(&home).is_empty() {
        assert!(Instant::now() < deadline, "{:?}", processes_with(&home));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
