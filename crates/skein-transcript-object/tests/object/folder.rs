//! The cold tier in a folder of this machine.

mod killed;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use skein_domain::Kind;
use skein_transcript::cold::{Cold, Name, PutCondition, PutResult};
use skein_transcript::hot::Hot;
use skein_transcript_conformance::memory::MemoryHot;
use skein_transcript_conformance::{Pair, Subject, block_on};
use skein_transcript_object::{BucketSettings, Folder, probe};
use tempfile::TempDir;

use crate::race;

fn fresh() -> Subject<dyn Cold> {
    let root = TempDir::new().unwrap();
    let open = move |_: Option<Arc<dyn Cold>>| -> Arc<dyn Cold> {
        Arc::new(Folder::open(root.path()).unwrap())
    };
    let first = open(None);
    Subject::new(first, move |old| open(Some(old)))
}

fn pair() -> Pair {
    let hot: Arc<dyn Hot> = Arc::new(MemoryHot::default());
    Pair {
        hot: Subject::new(hot, |hot| hot),
        cold: fresh(),
    }
}

mod cold {
    skein_transcript_conformance::cold_conformance!(super::fresh);
}

mod service {
    skein_transcript_conformance::transcript_conformance!(super::pair);
}

fn folder(root: &Path) -> Arc<dyn Cold> {
    Arc::new(Folder::open(root).unwrap())
}

fn name(name: &str) -> Name {
    Name::from_stored(name)
}

fn put(cold: &dyn Cold, object: &str, body: &str) -> skein_transcript::Result<PutResult> {
    block_on(cold.put(&name(object), body.into(), PutCondition::Absent))
}

#[tokio::test]
async fn l1_of_32_creators_one_wins() {
    let root = TempDir::new().unwrap();
    race::of_many_creators_one_wins((0..32).map(|_| folder(root.path())).collect()).await;
}

#[tokio::test]
async fn l1_16_writers_count_without_a_loss() {
    let root = TempDir::new().unwrap();
    race::of_many_counters_nothing_is_lost((0..16).map(|_| folder(root.path())).collect(), 10)
        .await;
}

#[test]
fn a_folder_keeps_its_word() {
    let root = TempDir::new().unwrap();
    let cold = folder(root.path());
    block_on(probe(&*cold)).unwrap();
    assert_eq!(files(root.path()), Vec::<String>::new());
}

#[test]
fn l15_everything_is_for_the_owner_only() {
    let parent = TempDir::new().unwrap();
    let root = parent.path().join("made/by/us");
    let cold = folder(&root);
    put(&*cold, "t/segments/a/0f", "x").unwrap();
    let (mut waiting, mut seen) = (vec![parent.path().join("made")], 0);
    while let Some(path) = waiting.pop() {
        let data = fs::symlink_metadata(&path).unwrap();
        let mode = data.permissions().mode() & 0o777;
        assert_eq!(
            mode,
            if data.is_dir() { 0o700 } else { 0o600 },
            "{}",
            path.display()
        );
        seen += 1;
        if data.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
        }
    }
    assert!(seen >= 11, "{seen}");
}

#[test]
fn l15_links_lead_nowhere() {
    let (root, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let cold = folder(root.path());
    fs::write(outside.path().join("secret"), "x").unwrap();
    fs::create_dir(root.path().join("t")).unwrap();
    symlink(outside.path().join("secret"), root.path().join("t/a")).unwrap();
    assert!(block_on(cold.get(&name("t/a"))).is_err());
    assert_eq!(block_on(cold.list(&name("t/"), None, 9)).unwrap(), []);
    assert_eq!(put(&*cold, "t/a", "y").unwrap(), PutResult::Refused);
    assert_eq!(
        fs::read_to_string(outside.path().join("secret")).unwrap(),
        "x"
    );
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let root = TempDir::new().unwrap();
    fs::create_dir_all(root.path().join("t/lost+found")).unwrap();
    fs::write(root.path().join("t/.DS_Store"), "x").unwrap();
    fs::write(root.path().join("t/README"), "x").unwrap();
    let cold = folder(root.path());
    put(&*cold, "t/a", "y").unwrap();
    assert_eq!(
        block_on(cold.list(&name("t/"), None, 9)).unwrap(),
        [name("t/a")]
    );
    block_on(cold.delete(&name("t/a"))).unwrap();
    assert!(root.path().join("t/README").exists());
}

#[test]
fn lists_are_in_the_order_of_whole_names() {
    let root = TempDir::new().unwrap();
    let cold = folder(root.path());
    // As in a bucket: `-` and `.` come before `/`, which comes before `0`.
    let ordered = ["t/a", "t/b-c", "t/b.c", "t/b/c", "t/b/d/e", "t/b0"];
    for object in ordered.iter().rev() {
        put(&*cold, object, "x").unwrap();
    }
    for start in 0..=ordered.len() {
        let after = start.checked_sub(1).map(|n| name(ordered[n]));
        for limit in 0..=ordered.len() {
            let listed = block_on(cold.list(&name("t/"), after.as_ref(), limit)).unwrap();
            let expected: Vec<_> = ordered[start..]
                .iter()
                .take(limit)
                .map(|n| name(n))
                .collect();
            assert_eq!(listed, expected);
        }
    }
}

#[test]
fn a_folder_that_is_gone_is_not_an_empty_one() {
    let parent = TempDir::new().unwrap();
    let root = parent.path().join("disk");
    let cold = folder(&root);
    put(&*cold, "t/a", "x").unwrap();
    fs::rename(&root, parent.path().join("unmounted")).unwrap();
    let failures = [
        block_on(cold.get(&name("t/a"))).unwrap_err(),
        put(&*cold, "t/a", "y").unwrap_err(),
        block_on(cold.delete(&name("t/a"))).unwrap_err(),
        block_on(cold.list(&name("t/"), None, 9)).unwrap_err(),
    ];
    for failure in failures {
        assert_eq!(failure.kind(), Kind::Unavailable);
        assert!(
            failure.to_string().contains("is its disk mounted?"),
            "{failure}"
        );
    }
    assert!(!root.exists());
    fs::rename(parent.path().join("unmounted"), &root).unwrap();
    assert_eq!(
        block_on(cold.get(&name("t/a"))).unwrap().unwrap().body,
        b"x"
    );
}

#[test]
fn something_in_the_way_is_told_with_a_hint() {
    let root = TempDir::new().unwrap();
    fs::write(root.path().join("t"), "not a folder").unwrap();
    let cold = folder(root.path());
    let failure = put(&*cold, "t/a", "x").unwrap_err();
    assert_eq!(failure.kind(), Kind::Failed, "{failure}");
    assert!(
        failure.hints()[0].contains("move it away"),
        "{:?}",
        failure.hints()
    );
    let settings = BucketSettings::new(root.path().join("t").to_str().unwrap().parse().unwrap());
    assert_eq!(settings.open().unwrap_err().kind(), Kind::Failed);
}

#[test]
fn half_written_files_of_the_dead_are_swept_and_of_the_living_are_not() {
    let root = TempDir::new().unwrap();
    let temp = root.path().join(".skein/temp");
    drop(folder(root.path()));
    fs::write(temp.join("dead"), "half").unwrap();
    fs::write(temp.join("alive"), "half").unwrap();
    let alive = fs::File::open(temp.join("alive")).unwrap();
    rustix::fs::flock(&alive, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let cold = folder(root.path());
    assert!(!temp.join("dead").exists());
    assert!(temp.join("alive").exists());
    assert_eq!(
        block_on(cold.list(&name(".skein/"), None, 9))
            .unwrap_err()
            .kind(),
        Kind::Misuse
    );
}

fn files(root: &Path) -> Vec<String> {
    let (mut waiting, mut found) = (vec![root.to_owned()], vec![]);
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true if path.ends_with(".skein/locks") => {}
                true => waiting.push(path),
                false => found.push(path.strip_prefix(root).unwrap().display().to_string()),
            }
        }
    }
    found.sort();
    found
}
