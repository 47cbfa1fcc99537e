//! kill -9 in the middle of making a worktree, by the states it leaves.

use std::fs;
use std::path::{Path, PathBuf};

use skein_domain::Workspace;
use skein_workspace::provider::Removal;
use skein_workspace::{Worktree, managed};
use skein_workspace_conformance::{Ability, Fixture, Ground};

fn fresh() -> Fixture {
    let ground = Ground::new();
    Fixture {
        provider: Box::new(Worktree::new(ground.root(), ground.options())),
        ground,
        abilities: vec![Ability::Managed, Ability::Git],
    }
}

fn registration(fixture: &Fixture) -> PathBuf {
    Path::new(fixture.ground.project().as_str()).join(".git/worktrees/api-7")
}

fn making(workspace: &Workspace) -> String {
    format!("skein api-7: being made for {}", workspace.path)
}

/// Makes it from whatever is there; it must be whole, clean, locked, and go without a trace.
fn completed(fixture: &Fixture, planned: &Workspace, before: &str) {
    let made = fixture.provider.make(&fixture.session(), planned).unwrap();
    assert!(made.anew);
    assert!(!fixture.provider.inspect(&made.workspace).unwrap().dirty);
    let path = planned.path.as_str();
    assert_eq!(
        fixture.ground.sh(path, "git branch --show-current"),
        "skein/api-7"
    );
    assert_eq!(
        fixture.ground.files(path),
        fixture.ground.files(fixture.ground.project().as_str())
    );
    let list = fixture
        .ground
        .project_sh("git worktree list --porcelain | grep locked");
    assert_eq!(list, "locked skein api-7");
    fixture
        .ground
        .project_sh("git fsck --no-dangling && git worktree prune --expire now");
    fixture
        .provider
        .remove(&made.workspace, Removal::KeepWork)
        .unwrap();
    assert_eq!(fixture.ground.refs(), before);
    assert!(!registration(fixture).exists());
}

/// As far as `git worktree add` gets; what comes after the step is taken away.
fn cut_short(step: fn(&Fixture, &Workspace)) {
    let fixture = fresh();
    let before = fixture.ground.refs();
    let planned = fixture.provider.plan(&fixture.plan()).unwrap();
    fixture.make(&planned);
    fs::write(registration(&fixture).join("locked"), making(&planned)).unwrap();
    step(&fixture, &planned);
    completed(&fixture, &planned, &before);
}

#[test]
fn l4_only_the_branch_was_made() {
    cut_short(|fixture, planned| {
        fs::remove_dir_all(registration(fixture)).unwrap();
        fs::remove_dir_all(planned.path.as_str()).unwrap();
    });
}

#[test]
fn l4_an_empty_registration() {
    cut_short(|fixture, planned| {
        fs::remove_dir_all(registration(fixture)).unwrap();
        fs::remove_dir_all(planned.path.as_str()).unwrap();
        fs::create_dir_all(registration(fixture)).unwrap();
    });
}

#[test]
fn l4_a_registration_without_a_folder() {
    cut_short(|fixture, planned| {
        fs::remove_dir_all(planned.path.as_str()).unwrap();
        for file in ["HEAD", "commondir", "index", "ORIG_HEAD"] {
            let _ = fs::remove_file(registration(fixture).join(file));
        }
    });
}

#[test]
fn l4_a_registration_that_names_no_folder() {
    cut_short(|fixture, planned| {
        fs::remove_dir_all(planned.path.as_str()).unwrap();
        fs::remove_file(registration(fixture).join("gitdir")).unwrap();
    });
}

#[test]
fn l4_half_the_files_and_gits_locks() {
    cut_short(|fixture, planned| {
        let folder = Path::new(planned.path.as_str());
        fs::remove_file(folder.join("two")).unwrap();
        fs::write(folder.join("run.sh"), "").unwrap();
        for file in ["index.lock", "HEAD.lock"] {
            fs::write(registration(fixture).join(file), "").unwrap();
        }
        fs::remove_file(registration(fixture).join("index")).unwrap();
    });
}

#[test]
fn l4_the_lock_of_our_own_branch() {
    cut_short(|fixture, planned| {
        fs::remove_dir_all(registration(fixture)).unwrap();
        fs::remove_dir_all(planned.path.as_str()).unwrap();
        fixture.ground.project_sh("git branch -qD skein/api-7; mkdir -p .git/refs/heads/skein; touch .git/refs/heads/skein/api-7.lock");
    });
}

#[test]
fn l4_made_but_not_yet_locked() {
    cut_short(|fixture, _| fs::remove_file(registration(fixture).join("locked")).unwrap());
}

#[test]
fn l4_an_empty_folder() {
    cut_short(|fixture, planned| {
        fs::remove_dir_all(registration(fixture)).unwrap();
        fs::remove_dir_all(planned.path.as_str()).unwrap();
        fs::create_dir_all(planned.path.as_str()).unwrap();
    });
}

#[test]
fn l4_a_failed_spawn_is_undone_from_every_state() {
    let fixture = fresh();
    let before = fixture.ground.refs();
    let planned = fixture.provider.plan(&fixture.plan()).unwrap();
    fixture.make(&planned);
    fs::write(registration(&fixture).join("locked"), making(&planned)).unwrap();
    fs::remove_file(Path::new(planned.path.as_str()).join("two")).unwrap();
    // It is half-made, so the missing file is not work.
    fixture
        .provider
        .remove(&planned, Removal::KeepWork)
        .unwrap();
    assert_eq!(fixture.ground.refs(), before);
}

#[test]
fn l5_files_git_has_forgotten_are_kept() {
    let fixture = fresh();
    let made = fixture.made();
    fixture.ground.sh(
        made.path.as_str(),
        "echo a > two; git commit -qam mine; echo changed > two; echo new > new; rm run.sh",
    );
    fs::remove_dir_all(registration(&fixture)).unwrap();
    assert!(fixture.provider.remove(&made, Removal::KeepWork).is_err());
    let again = fixture.provider.make(&fixture.session(), &made).unwrap();
    assert!(again.note.unwrap().contains("unchanged"));
    let status = fixture.ground.sh(
        made.path.as_str(),
        "git status --porcelain; git branch --show-current; cat two new",
    );
    assert_eq!(status, " M two\n?? new\nskein/api-7\nchanged\nnew");
    // The same cut short once more: registered, but not settled.
    let registration = fixture
        .ground
        .sh(made.path.as_str(), "git rev-parse --absolute-git-dir");
    let registration = PathBuf::from(registration);
    let reason = format!("skein api-7: being registered for {}", made.path);
    fs::write(registration.join("locked"), reason).unwrap();
    fs::remove_file(registration.join("index")).unwrap();
    fixture.provider.make(&fixture.session(), &made).unwrap();
    let status = fixture
        .ground
        .sh(made.path.as_str(), "git status --porcelain");
    assert_eq!(status, " M two\n?? new");
}

#[test]
fn l4_a_registration_another_session_begins_right_now_is_left_alone() {
    let fixture = fresh();
    let made = fixture.made();
    let other = registration(&fixture).with_file_name("api-72");
    fs::create_dir(&other).unwrap();
    // The process that registers holds the lock, and fills the folder before it releases the lock.
    let name = repo_lock(&fixture);
    let held = fs::File::create(&name).unwrap();
    held.lock().unwrap();
    let waiting = || {
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        open.filter(|fd| fs::read_link(fd.path()).is_ok_and(|to| to == name))
            .count()
            > 1
    };
    std::thread::scope(|scope| {
        let removal = scope.spawn(|| fixture.provider.remove(&made, Removal::KeepWork));
        while !removal.is_finished() && !waiting() {
            std::thread::yield_now();
        }
        fs::write(other.join("locked"), "skein api-72").unwrap();
        drop(held);
        removal.join().unwrap().unwrap();
    });
    assert!(other.join("locked").exists());
}

/// As `add` names it.
fn repo_lock(fixture: &Fixture) -> PathBuf {
    let common = Path::new(fixture.ground.project().as_str()).join(".git");
    let hash = common
        .to_str()
        .unwrap()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    fixture
        .ground
        .root()
        .join(format!(".locks/.repo-{hash:016x}"))
}

#[test]
fn l5_the_dot_git_file_alone_is_gone() {
    let fixture = fresh();
    let made = fixture.made();
    fs::write(Path::new(made.path.as_str()).join("new"), "x").unwrap();
    fs::remove_file(Path::new(made.path.as_str()).join(".git")).unwrap();
    assert!(fixture.provider.inspect(&made).is_err());
    assert!(fixture.provider.remove(&made, Removal::KeepWork).is_err());
    fixture.make(&made);
    assert!(fixture.provider.inspect(&made).unwrap().dirty);
}

#[test]
fn a_restore_cut_short_begins_again() {
    let fixture = fresh();
    let made = fixture.made();
    fs::write(Path::new(made.path.as_str()).join("new"), "x").unwrap();
    let (made, backup) = fixture.backed_up(&made);
    fixture.provider.remove(&made, Removal::BackedUp).unwrap();
    let left = fixture
        .ground
        .project_sh("git for-each-ref --format='%(refname)' refs/skein/left/api-7/");
    fixture.make_again(&made);
    // Killed before the end: the files are half back, the mark is still there.
    fs::write(registration(&fixture).join("locked"), making(&made)).unwrap();
    fs::write(Path::new(made.path.as_str()).join("new"), "").unwrap();
    fixture
        .ground
        .project_sh(&format!("git update-ref {left} {}", backup.commit));
    fixture.make_again(&made);
    let file = Path::new(made.path.as_str()).join("new");
    assert_eq!(fs::read_to_string(file).unwrap(), "x");
}

#[test]
fn what_is_below_the_root_is_listed() {
    let fixture = fresh();
    let made = fixture.made();
    fs::create_dir_all(fixture.ground.root().join("default/not a session")).unwrap();
    fs::create_dir_all(fixture.ground.root().join(".pool/x-1")).unwrap();
    fixture.ground.project_sh("git worktree add -q ../by-hand");
    let root = fixture.ground.root();
    let all = managed(&root).unwrap();
    assert_eq!(
        all,
        [("default".to_owned(), fixture.session(), made.path.clone())]
    );
    assert_eq!(managed(&fixture.ground.path("nowhere")).unwrap(), []);
}
