//! Clones: their commits are work too, since they go with the folder.

use std::fs;
use std::path::Path;

use skein_workspace::provider::{Plan, Removal};
use skein_workspace::{Clone, Error};
use skein_workspace_conformance::{Ability, Fixture, Ground};

fn fresh() -> Fixture {
    let ground = Ground::new();
    Fixture {
        provider: Box::new(Clone::new(ground.root(), ground.options())),
        ground,
        abilities: vec![Ability::Managed, Ability::Git],
    }
}

const LOG: &str = "git log --format='%h %s' --all --not --remotes; git branch --show-current";

#[test]
fn l5_commits_are_handed_over_before_the_folder_goes() {
    let fixture = fresh();
    let made = fixture.made();
    let path = made.path.as_str();
    fixture
        .ground
        .sh(path, "echo a > two; git commit -qam mine");
    assert_eq!(fixture.provider.inspect(&made).unwrap().own_commits, 1);
    let refused = fixture
        .provider
        .remove(&made, Removal::KeepWork)
        .unwrap_err();
    assert!(matches!(refused, Error::HoldsWork { .. }), "{refused}");
    let tip = fixture.ground.sh(path, "git rev-parse HEAD");
    assert_eq!(
        fixture
            .provider
            .backup(&fixture.session(), &made, &fixture.saga(1), fixture.now())
            .unwrap(),
        None
    );
    assert_eq!(fixture.ground.project_sh("git rev-parse skein/api-7"), tip);
    assert_eq!(fixture.provider.inspect(&made).unwrap().own_commits, 0);
    fixture.provider.remove(&made, Removal::KeepWork).unwrap();
    fixture.make_again(&made);
    assert_eq!(fixture.ground.sh(path, "git rev-parse HEAD"), tip);
}

/// git itself refuses to move the branch that the project has checked out, but no other.
#[test]
fn l5_a_branch_of_the_project_is_never_moved() {
    for branch in ["main", "side"] {
        is_never_moved(branch);
    }
}

fn is_never_moved(branch: &str) {
    let fixture = fresh();
    fixture.ground.project_sh("git branch side");
    let plan = Plan {
        branch: Some(branch.parse().unwrap()),
        ..fixture.plan()
    };
    let made = fixture.make(&fixture.provider.plan(&plan).unwrap());
    let path = made.path.as_str();
    let tip = || {
        fixture
            .ground
            .project_sh(&format!("git rev-parse {branch}"))
    };
    let first = tip();
    fixture.ground.sh(
        path,
        &format!(
            "echo a > two; git commit -qam mine; echo b > two; git stash -q; git switch -qc other; \
             echo c > c; git add c; git commit -qm other; git switch -q {branch}; echo d > d"
        ),
    );
    let before = (
        fixture.ground.files(path),
        fixture.ground.sh(path, LOG),
        fixture.ground.sh(path, "git stash list"),
    );
    let (made, _) = fixture.backed_up(&made);
    assert_eq!(tip(), first);
    fixture.provider.remove(&made, Removal::BackedUp).unwrap();
    fixture.ground.project_sh("git fsck --no-dangling");
    fixture.make_again(&made);
    let after = (
        fixture.ground.files(path),
        fixture.ground.sh(path, LOG),
        fixture.ground.sh(path, "git stash list"),
    );
    assert_eq!(before.0, after.0);
    assert_eq!(before.1, after.1);
    assert_eq!(after.2.lines().count(), 1);
    assert_eq!(tip(), first);
}

#[test]
fn it_shares_nothing_and_knows_its_remotes() {
    let fixture = fresh();
    fixture.ground.project_sh("git remote add origin ../elsewhere/up; git update-ref refs/remotes/origin/main HEAD; git config user.name Local");
    let made = fixture.made();
    let path = made.path.as_str();
    let remotes = fixture.ground.sh(
        path,
        "git remote -v | grep fetch; git config user.name; git rev-parse origin/main",
    );
    assert!(
        remotes.contains("elsewhere/up")
            && remotes.contains("skein-source")
            && remotes.contains("Local"),
        "{remotes}"
    );
    assert!(
        !Path::new(path)
            .join(".git/objects/info/alternates")
            .exists()
    );
    fs::remove_dir_all(fixture.ground.project().as_str()).unwrap();
    fixture.ground.sh(path, "git fsck && git log -p >/dev/null");
}

#[test]
fn l4_a_clone_cut_short_begins_again() {
    let fixture = fresh();
    let planned = fixture.provider.plan(&fixture.plan()).unwrap();
    let half = fixture.ground.root().join(".making/default.api-7/.git");
    fs::create_dir_all(&half).unwrap();
    fs::write(half.join("HEAD.lock"), "").unwrap();
    let made = fixture.make(&planned);
    assert!(!fixture.provider.inspect(&made).unwrap().dirty);
    assert!(!fixture.ground.root().join(".making").exists());
}

#[test]
fn l5_a_project_that_is_gone_keeps_the_clone() {
    let fixture = fresh();
    let made = fixture.made();
    fs::remove_dir_all(fixture.ground.project().as_str()).unwrap();
    assert!(fixture.provider.remove(&made, Removal::KeepWork).is_err());
    assert!(Path::new(made.path.as_str()).is_dir());
}

/// Removes the clone, with whatever backup it takes, and prunes what no ref of the project holds.
fn gone(fixture: &Fixture, made: &skein_domain::Workspace) -> skein_domain::Workspace {
    let (session, saga) = (fixture.session(), fixture.saga(1));
    let backup = fixture
        .provider
        .backup(&session, made, &saga, fixture.now())
        .unwrap();
    let made = made.with_backup(backup);
    fixture.provider.remove(&made, Removal::BackedUp).unwrap();
    fixture.ground.project_sh("git prune --expire=now");
    made
}

#[test]
fn l5_commits_that_a_remote_is_only_said_to_have_are_kept() {
    for claim in [
        // Made up, with and without a remote of that name.
        "git update-ref refs/remotes/origin/mine HEAD",
        "git update-ref refs/remotes/nobody/mine HEAD",
        // Pushed, and gone from the remote since.
        "git init -q --bare ../up.git; git remote add up ../up.git; git push -q up HEAD:mine; \
         git -C ../up.git update-ref -d refs/heads/mine; git remote set-url up /nowhere",
        // Nothing but the claim is left of the commit.
        "git update-ref refs/remotes/origin/mine HEAD; git reset -q --hard HEAD~1",
    ] {
        let fixture = fresh();
        let made = fixture.made();
        let path = made.path.as_str();
        fixture
            .ground
            .sh(path, "echo a > two; git commit -qam mine");
        let tip = fixture.ground.sh(path, "git rev-parse HEAD");
        fixture.ground.sh(path, claim);
        let contents = fixture.provider.inspect(&made).unwrap();
        assert_eq!(contents.loose_commits, 1, "{claim}");
        let refused = fixture.provider.remove(&made, Removal::KeepWork);
        assert!(matches!(refused, Err(Error::HoldsWork { .. })), "{claim}");
        gone(&fixture, &made);
        let show = format!(
            "git branch -a --contains {tip} | grep -q . || git for-each-ref --contains {tip} | grep refs/skein/backup; git show {tip}:two"
        );
        assert!(fixture.ground.project_sh(&show).ends_with('a'), "{claim}");
    }
}

#[test]
fn l5_what_the_project_has_needs_no_backup_of_a_clone() {
    let fixture = fresh();
    fixture.ground.project_sh(
        "git init -q --bare ../elsewhere/up; git remote add origin ../elsewhere/up; git push -q origin main; git branch side; \
         git tag v1 HEAD~1",
    );
    let made = fixture.made();
    fixture.ground.sh(
        made.path.as_str(),
        "git fetch -q origin; git switch -qc own origin/main",
    );
    let contents = fixture.provider.inspect(&made).unwrap();
    assert_eq!((contents.dirty, contents.loose_commits), (false, 0));
    fixture.provider.remove(&made, Removal::KeepWork).unwrap();
}
