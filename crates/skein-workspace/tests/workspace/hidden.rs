//! L5 for work that git does not list: behind tags, in ignored folders, in submodules that are not checked
//! out, in folders that cannot be read.

use std::path::Path;

use skein_domain::Workspace;
use skein_workspace::provider::{Removal, WorkspaceProvider};
use skein_workspace::{Clone, Error, Worktree};
use skein_workspace_conformance::{Ability, Fixture, Ground};

fn fixture(make: impl Fn(&Ground) -> Box<dyn WorkspaceProvider>) -> Fixture {
    let ground = Ground::new();
    ground.configure("[protocol \"file\"]\n\tallow = always\n");
    Fixture {
        provider: make(&ground),
        ground,
        abilities: vec![Ability::Managed, Ability::Git],
    }
}

fn worktree() -> Fixture {
    fixture(|ground| Box::new(Worktree::new(ground.root(), ground.options())))
}

fn clone() -> Fixture {
    fixture(|ground| Box::new(Clone::new(ground.root(), ground.options())))
}

fn is_clean(fixture: &Fixture, workspace: &Workspace) -> bool {
    let contents = fixture.provider.inspect(workspace).unwrap();
    !contents.dirty && contents.loose_commits == 0
}

fn assert_refused(fixture: &Fixture, workspace: &Workspace, removal: Removal) {
    let refused = fixture.provider.remove(workspace, removal).unwrap_err();
    assert!(matches!(refused, Error::HoldsWork { .. }), "{refused}");
}

/// Backs up, removes, makes again; says what a script says before and after.
fn there_and_back(fixture: &Fixture, made: &Workspace, script: &str) {
    let path = made.path.as_str();
    assert_refused(fixture, made, Removal::KeepWork);
    assert_refused(fixture, made, Removal::BackedUp);
    let before = fixture.ground.sh(path, script);
    let (made, _) = fixture.backed_up(made);
    fixture.provider.remove(&made, Removal::BackedUp).unwrap();
    assert!(!Path::new(path).exists());
    fixture.make_again(&made);
    assert_eq!(fixture.ground.sh(path, script), before);
}

const TAGGED: &str = "git switch -qc aside; echo a > a; git add a; git commit -qm one; git tag light; \
    echo b > a; git commit -qam two; git tag -a -m 'a message' heavy; git switch -q -; git branch -qD aside";
const TAGS: &str =
    "git tag -n; git rev-parse light heavy heavy^{}; git cat-file -p heavy; git show light:a";

#[test]
fn l5_commits_of_a_clone_that_only_a_tag_holds() {
    let fixture = clone();
    let made = fixture.made();
    fixture.ground.sh(made.path.as_str(), TAGGED);
    assert_eq!(fixture.provider.inspect(&made).unwrap().loose_commits, 2);
    there_and_back(&fixture, &made, TAGS);
}

#[test]
fn l5_commits_of_a_repository_inside_that_only_a_tag_holds() {
    let fixture = worktree();
    let made = fixture.made();
    let script = format!("git clone -q . inner; cd inner; {TAGGED}");
    fixture.ground.sh(made.path.as_str(), &script);
    there_and_back(&fixture, &made, &format!("cd inner; {TAGS}"));
}

#[test]
fn tags_of_the_project_are_no_work_of_a_clone() {
    let fixture = clone();
    fixture.ground.project_sh(TAGGED);
    let made = fixture.made();
    assert!(is_clean(&fixture, &made));
    fixture.provider.remove(&made, Removal::KeepWork).unwrap();
}

fn with_submodule(fixture: &Fixture) {
    let library = fixture.ground.path("elsewhere");
    fixture.ground.sh(
        &library,
        &format!("git init -q -b main .; echo l > lib; git add .; git commit -qm l; {TAGGED}"),
    );
    fixture.ground.project_sh(&format!(
        "git submodule --quiet add '{}' lib; git commit -qm sub",
        library.display()
    ));
}

#[test]
fn tags_of_a_submodules_remote_are_no_work() {
    for fixture in [worktree(), clone()] {
        with_submodule(&fixture);
        let made = fixture.made();
        let tags = fixture.ground.sh(made.path.as_str(), "git -C lib tag");
        assert_eq!(tags, "heavy\nlight");
        assert!(is_clean(&fixture, &made));
        fixture.provider.remove(&made, Removal::KeepWork).unwrap();
    }
}

#[test]
fn l5_commits_of_a_submodule_that_is_not_checked_out() {
    for fixture in [worktree(), clone()] {
        for away in [
            "git submodule --quiet deinit -f lib",
            "git rm -qf lib; git commit -qm away",
        ] {
            with_submodule_once(&fixture);
            let made = fixture.made();
            let path = made.path.as_str();
            fixture.ground.sh(
                path,
                "cd lib; git switch -qc topic; echo mine > mine; git add .; git commit -qm mine",
            );
            let tip = fixture.ground.sh(path, "git -C lib rev-parse HEAD");
            fixture.ground.sh(path, away);
            assert_refused(&fixture, &made, Removal::KeepWork);
            assert!(fixture.provider.inspect(&made).unwrap().loose_commits > 0);
            let (made, backup) = fixture.backed_up(&made);
            fixture.provider.remove(&made, Removal::BackedUp).unwrap();
            fixture.ground.project_sh(&format!(
                "git merge-base --is-ancestor {tip} {}",
                backup.commit
            ));
            let kept = fixture
                .ground
                .project_sh(&format!("git log -1 {}", backup.commit));
            assert!(
                kept.contains("Skein-Module: ") && kept.contains(" lib"),
                "{kept}"
            );
            fixture.ground.project_sh("git branch -qD skein/api-7 || true; git for-each-ref --format='delete %(refname)' refs/skein | git update-ref --stdin");
        }
    }
}

#[test]
fn l5_commits_of_a_submodule_in_a_folder_deleted_by_hand_are_rescued() {
    let fixture = worktree();
    with_submodule(&fixture);
    let made = fixture.made();
    let path = made.path.as_str();
    let commit = "cd lib; echo mine > mine; git add .; git commit -qm mine; git rev-parse HEAD";
    let tip = fixture.ground.sh(path, commit);
    std::fs::remove_dir_all(path).unwrap();
    let note = fixture
        .provider
        .make(&fixture.session(), &made)
        .unwrap()
        .note;
    let name = fixture
        .ground
        .project_sh("git for-each-ref --format='%(refname)' refs/skein/rescued");
    fixture
        .ground
        .project_sh(&format!("git merge-base --is-ancestor {tip} {name}"));
    assert!(note.unwrap().contains(&name), "{name}");
}

fn with_submodule_once(fixture: &Fixture) {
    if !fixture.ground.path("elsewhere/lib").exists() {
        with_submodule(fixture);
    }
}

#[test]
fn l5_a_repository_in_an_ignored_folder() {
    for fixture in [worktree(), clone()] {
        let made = fixture.made();
        fixture.ground.sh(
            made.path.as_str(),
            "mkdir -p node_modules/deep/er; cd node_modules/deep/er; git init -q -b main .; echo a > a; \
             git add a; git commit -qm mine; echo b > b; echo x > ../plain",
        );
        let script = "cd node_modules/deep/er; git log --oneline; git status --porcelain; cat b";
        there_and_back(&fixture, &made, script);
    }
}

#[test]
fn what_was_only_fetched_into_an_ignored_folder_is_no_work() {
    let fixture = worktree();
    let project = fixture.ground.project();
    fixture.ground.project_sh("git tag v1");
    let made = fixture.made();
    fixture.ground.sh(
        made.path.as_str(),
        &format!(
            "mkdir node_modules; cd node_modules; P='{}'; git clone -q \"$P\" whole; \
             git clone -q --depth 1 --branch v1 \"file://$P\" part; mkdir -p broken/.git; echo x > broken/x",
            project.as_str().replace('\'', r"'\''")
        ),
    );
    assert!(is_clean(&fixture, &made));
    fixture.provider.remove(&made, Removal::KeepWork).unwrap();
}

#[test]
fn l5_a_repository_inside_with_a_name_like_a_pattern() {
    let fixture = worktree();
    let made = fixture.made();
    fixture.ground.sh(
        made.path.as_str(),
        "echo 1 > ab; echo 2 > ac; git add ab; mkdir 'a*'; cd 'a*'; git init -q .; echo x > x; git add x; git commit -qm x",
    );
    let script = "cat ab ac a*/x; git status --porcelain";
    there_and_back(&fixture, &made, script);
}

#[test]
fn l5_a_worktree_inside_is_not_taken_for_a_repository_that_goes() {
    let fixture = worktree();
    let made = fixture.made();
    fixture
        .ground
        .project_sh("git switch -qc far; git commit -q --allow-empty -m far; git switch -q main");
    fixture.ground.sh(
        made.path.as_str(),
        "git worktree add -q -b side node_modules/side",
    );
    assert!(is_clean(&fixture, &made));
    fixture
        .ground
        .sh(made.path.as_str(), "echo mine > node_modules/side/mine");
    assert!(!is_clean(&fixture, &made));
}

#[test]
fn l5_a_repository_in_a_folder_with_tracked_files_is_work() {
    for fixture in [worktree(), clone()] {
        let made = fixture.made();
        let make = "cd src; git init -q -b main .; git add .; git commit -qm mine";
        fixture.ground.sh(made.path.as_str(), make);
        assert!(!is_clean(&fixture, &made));
        there_and_back(&fixture, &made, "git -C src log --format='%H %s'");
    }
}

#[test]
fn l5_a_dot_git_in_a_folder_with_tracked_files_is_work() {
    for fixture in [worktree(), clone()] {
        let made = fixture.made();
        let make = "mkdir src/.git; echo notes > src/.git/notes.txt";
        fixture.ground.sh(made.path.as_str(), make);
        assert!(!is_clean(&fixture, &made));
        there_and_back(&fixture, &made, "cat src/.git/notes.txt");
    }
}

#[test]
fn l5_a_pushed_repository_inside_is_work() {
    for fixture in [worktree(), clone()] {
        let made = fixture.made();
        fixture.ground.sh(
            made.path.as_str(),
            "git init -q --bare -b main ../up.git; git init -q -b main inner; cd inner; echo a > a; git add a; \
             git commit -qm mine; git push -q -u ../../up.git main; git update-ref refs/remotes/x/y HEAD",
        );
        assert!(!is_clean(&fixture, &made));
        there_and_back(&fixture, &made, "git -C inner log --format='%H %s'");
    }
}

#[test]
fn a_clean_clone_of_the_project_inside_is_no_work() {
    for fixture in [worktree(), clone()] {
        let made = fixture.made();
        let project = fixture.ground.project();
        let project = project.as_str().replace('\'', r"'\''");
        fixture.ground.sh(
            made.path.as_str(),
            &format!("git clone -q '{project}' inner"),
        );
        // The project moving on does not make it work.
        fixture
            .ground
            .project_sh("git commit -q --allow-empty -m later");
        assert!(is_clean(&fixture, &made));
        let (session, saga) = (fixture.session(), fixture.saga(1));
        let backup = fixture
            .provider
            .backup(&session, &made, &saga, fixture.now());
        assert_eq!(backup.unwrap(), None);
        fixture.provider.remove(&made, Removal::KeepWork).unwrap();
    }
}

#[test]
fn l5_a_submodule_at_another_commit_of_its_remote_is_kept() {
    for fixture in [worktree(), clone()] {
        with_submodule(&fixture);
        fixture.ground.sh(
            fixture.ground.path("elsewhere"),
            "git commit -q --allow-empty -m newer",
        );
        let made = fixture.made();
        fixture.ground.sh(
            made.path.as_str(),
            "cd lib; git fetch -q; git checkout -q origin/main",
        );
        let script = "git -C lib log --format='%H %s'; git status --porcelain";
        there_and_back(&fixture, &made, script);
    }
}

#[test]
fn l5_a_submodule_whose_folder_is_gone_does_not_block_removal() {
    for fixture in [worktree(), clone()] {
        with_submodule(&fixture);
        let made = fixture.made();
        fixture.ground.sh(made.path.as_str(), "rm -r lib");
        let (made, _) = fixture.backed_up(&made);
        fixture.provider.remove(&made, Removal::BackedUp).unwrap();
    }
}

/// An object as git-lfs keeps it.
const LARGE: &str =
    "D=$(git rev-parse --git-common-dir)/lfs/objects/ab/cd; mkdir -p $D; echo large > $D/abcd";
const CONTENT: &str = "cat $(git rev-parse --git-common-dir)/lfs/objects/ab/cd/abcd";

#[test]
fn l5_large_files_of_a_clone_are_kept_with_its_commits() {
    let fixture = clone();
    let made = fixture.made();
    let path = made.path.as_str();
    let commit = format!("echo pointer > big; git add big; git commit -qm big; {LARGE}");
    fixture.ground.sh(path, &commit);
    // Handed over, so nothing is left to be backed up.
    let (session, saga) = (fixture.session(), fixture.saga(1));
    let backup = fixture
        .provider
        .backup(&session, &made, &saga, fixture.now());
    assert_eq!(backup.unwrap(), None);
    assert_eq!(fixture.ground.project_sh(CONTENT), "large");
    fixture.ground.sh(path, &LARGE.replace("abcd", "abce"));
    fixture.provider.remove(&made, Removal::KeepWork).unwrap();
    let later = CONTENT.replace("abcd", "abce");
    assert_eq!(fixture.ground.project_sh(&later), "large");
    fixture.make_again(&made);
    assert_eq!(fixture.ground.sh(path, CONTENT), "large");
}

#[test]
fn l5_large_files_of_a_repository_inside_are_kept() {
    for fixture in [worktree(), clone()] {
        let made = fixture.made();
        let inner = format!(
            "git init -q inner; cd inner; echo x > x; git add x; git commit -qm x; {LARGE}"
        );
        fixture.ground.sh(made.path.as_str(), &inner);
        there_and_back(&fixture, &made, &format!("cd inner; {CONTENT}"));
        assert_eq!(fixture.ground.project_sh(CONTENT), "large");
    }
}

/// Permissions do not bind the administrator, so the test starts itself again as another user.
#[test]
fn l5_a_folder_that_cannot_be_read_is_not_removed() {
    const NOBODY: &str = "65534";
    const AGAIN: &str = "hidden::l5_a_folder_that_cannot_be_read_is_not_removed";
    if rustix::process::getuid().is_root() {
        let test = std::process::Command::new("setpriv")
            .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", AGAIN])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&test.stdout);
        assert!(
            test.status.success() && said.contains("1 passed"),
            "{test:?}"
        );
        return;
    }
    for fixture in [worktree(), clone()] {
        for folder in ["loose", "node_modules"] {
            let made = fixture.made();
            let path = made.path.as_str();
            fixture.ground.sh(
                path,
                &format!("mkdir -p {folder}/in; echo x > {folder}/in/x; chmod 0 {folder}/in"),
            );
            let unreadable = |error: Error| {
                assert!(matches!(error, Error::Unreadable { .. }), "{error}");
                assert!(error.to_string().contains(folder), "{error}");
            };
            unreadable(fixture.provider.inspect(&made).unwrap_err());
            for removal in [Removal::KeepWork, Removal::BackedUp] {
                assert!(fixture.provider.remove(&made, removal).is_err());
            }
            let (session, saga) = (fixture.session(), fixture.saga(1));
            let backup = fixture
                .provider
                .backup(&session, &made, &saga, fixture.now());
            unreadable(backup.unwrap_err());
            fixture
                .ground
                .sh(path, &format!("chmod 700 {folder}/in; rm -r {folder}"));
            fixture.provider.remove(&made, Removal::KeepWork).unwrap();
        }
    }
}
