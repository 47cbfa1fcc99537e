//! Processes that share a folder, and are killed while they write.

#![expect(
    clippy::disallowed_methods,
    reason = "a child process is told its task by its environment"
)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use skein_transcript::cold::{Cold, Name};
use skein_transcript::service::HotCopy;
use skein_transcript::{Message, Transcript};
use skein_transcript_conformance::block_on;
use skein_transcript_conformance::memory::MemoryHot;
use skein_transcript_object::Folder;
use tempfile::TempDir;

use crate::{race, talk};

/// The folder a child process works in; set for children only.
const FOLDER: &str = "SKEIN_TEST_CHILD_FOLDER";
/// How far the transcript has grown.
const ROUND: &str = "SKEIN_TEST_CHILD_ROUND";

/// Starts this program again, for one of the tests below that wait for it.
fn child(task: &str, root: &Path, round: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", task, "--quiet"])
        .env(FOLDER, root)
        .env(ROUND, round.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn task() -> Option<(Arc<dyn Cold>, usize)> {
    let root = std::env::var_os(FOLDER)?;
    let round = std::env::var(ROUND).unwrap().parse().unwrap();
    Some((Arc::new(Folder::open(Path::new(&root)).unwrap()), round))
}

/// Every process makes the same transcript, as if it had read it from one hot tier.
fn messages(round: usize) -> Vec<Message> {
    let text = |n: usize| format!("{n} ").repeat(200 + n * 7919 % 3_000);
    (0..round * 40)
        .map(|n| talk::message(&format!("m{n}"), &text(n)))
        .collect()
}

async fn grown(cold: &Arc<dyn Cold>, round: usize) -> Transcript {
    let hot = Arc::<MemoryHot>::default();
    let all = talk::on(&hot, cold);
    let transcript = talk::talk(&all, "t", &[]).await;
    for round in 1..=round {
        transcript
            .append(talk::by(), &messages(round))
            .await
            .unwrap();
    }
    transcript
}

#[test]
fn child_that_flushes() {
    let Some((cold, round)) = task() else {
        return;
    };
    block_on(async {
        grown(&cold, round).await.flush(HotCopy::Hot).await.unwrap();
    });
}

#[test]
fn child_that_counts() {
    let Some((cold, times)) = task() else {
        return;
    };
    block_on(async {
        for _ in 0..times {
            race::count(&*cold, &Name::from_stored("t/manifests/count")).await;
        }
    });
}

#[test]
fn l1_processes_count_without_a_loss() {
    let root = TempDir::new().unwrap();
    let children: Vec<_> = (0..6)
        .map(|_| child("folder::killed::child_that_counts", root.path(), 25))
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let cold = Folder::open(root.path()).unwrap();
    let object = block_on(cold.get(&Name::from_stored("t/manifests/count")))
        .unwrap()
        .unwrap();
    assert_eq!(race::number(&object.body), 150);
}

#[test]
fn l4_flushers_killed_anywhere_lose_nothing() {
    let root = TempDir::new().unwrap();
    // How long a flush takes here, so that kills fall into it.
    let since = Instant::now();
    assert!(
        child("folder::killed::child_that_flushes", root.path(), 1)
            .wait()
            .unwrap()
            .success()
    );
    let whole = since.elapsed();
    let mut killed = 0;
    for round in 2..=12_u32 {
        let mut children: Vec<_> = (0..2)
            .map(|_| {
                child(
                    "folder::killed::child_that_flushes",
                    root.path(),
                    round as usize,
                )
            })
            .collect();
        std::thread::sleep(whole * round / 13 + Duration::from_millis(u64::from(round)));
        for child in &mut children {
            // One that has ended already was killed after its last write, so to say.
            let _ = child.kill();
            killed += usize::from(!child.wait().unwrap().success());
        }
        let cold: Arc<dyn Cold> = Arc::new(Folder::open(root.path()).unwrap());
        assert_eq!(
            std::fs::read_dir(root.path().join(".skein/temp"))
                .unwrap()
                .count(),
            0
        );
        block_on(async {
            // Whatever they left can be read, and is a beginning of what was said.
            let left = talk::elsewhere(&cold).open(&talk::id("t"));
            let said = talk::said(&messages(round as usize));
            let there = talk::all_of(&left).await;
            assert!(said.starts_with(&there), "{} messages", there.len());
            // Flushing again adds what is missing, and then nothing.
            let transcript = grown(&cold, round as usize).await;
            transcript.flush(HotCopy::Hot).await.unwrap();
            assert_eq!(transcript.flush(HotCopy::Hot).await.unwrap().segments, 0);
            let back = talk::elsewhere(&cold).open(&talk::id("t"));
            back.hydrate().await.unwrap();
            assert_eq!(talk::all_of(&back).await, said);
        });
    }
    assert!(killed > 0, "no child was killed in time");
}
