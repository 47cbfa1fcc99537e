//! L5 for git worktrees: whatever is in one when it goes comes back, byte for byte, and the printed way to
//! get a backup works.

use std::fs;
use std::path::{Path, PathBuf};

use skein_domain::{Backup, Workspace};
use skein_workspace::provider::{Removal, WorkspaceSetup};
use skein_workspace::{Error, Worktree, backups, drop_backup, how_to_get_back};
use skein_workspace_conformance::{Ability, Files, Fixture, Ground};

fn fixture(ground: Ground) -> Fixture {
    Fixture {
        provider: Box::new(Worktree::new(ground.root(), ground.options())),
        ground,
        abilities: vec![Ability::Managed, Ability::Git],
    }
}

fn fresh() -> Fixture {
    fixture(Ground::new())
}

/// Runs the command that is printed, and reads the folder it makes.
fn got_back(fixture: &Fixture, backup: &Backup) -> Files {
    let project = fixture.ground.project();
    let line = how_to_get_back(&fixture.session(), backup, &project);
    fixture.ground.sh("/", &line);
    let folder = PathBuf::from(format!("{project}-api-7-{}", backup.n));
    let files = fixture.ground.files(&folder);
    fixture.ground.project_sh(&format!(
        "git worktree remove -f '../{}'",
        folder
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .replace('\'', r"'\''")
    ));
    files
}

/// Backs up, removes, makes again; the files must be the same, there and by the printed command.
fn there_and_back(fixture: &Fixture, made: &Workspace, status: &str) -> (Workspace, Backup) {
    let path = made.path.as_str();
    assert!(matches!(
        fixture.provider.remove(made, Removal::KeepWork),
        Err(Error::HoldsWork { .. })
    ));
    let before = (fixture.ground.files(path), fixture.ground.sh(path, status));
    let (made, backup) = fixture.backed_up(made);
    assert_eq!(before.0, fixture.ground.files(path));
    fixture.provider.remove(&made, Removal::BackedUp).unwrap();
    assert!(!Path::new(path).exists());
    let printed = got_back(fixture, &backup);
    for (file, content) in &before.0 {
        assert_eq!(printed.get(file), Some(content), "{}", file.display());
    }
    let again = fixture.make_again(&made);
    let after = (fixture.ground.files(path), fixture.ground.sh(path, status));
    assert_eq!(before, after);
    (again, backup)
}

const STATUS: &str = "git status --porcelain --untracked-files=all; git log --oneline";

#[test]
fn l5_dirty_staged_and_untracked() {
    let fixture = fresh();
    let made = fixture.made();
    fixture.ground.sh(
        made.path.as_str(),
        "echo a > two; git add two; echo b > two; echo c > 'new\nline'; mkdir d; echo d > d/d; git add d; rm d/d; rm src/one",
    );
    there_and_back(&fixture, &made, STATUS);
}

#[test]
fn l5_unpushed_commits_stay_on_the_branch() {
    let fixture = fresh();
    let made = fixture.made();
    fixture
        .ground
        .sh(made.path.as_str(), "echo a > two; git commit -qam mine");
    let contents = fixture.provider.inspect(&made).unwrap();
    assert_eq!((contents.dirty, contents.own_commits), (false, 1));
    let tip = fixture.ground.sh(made.path.as_str(), "git rev-parse HEAD");
    assert_eq!(
        fixture
            .provider
            .backup(&fixture.session(), &made, &fixture.saga(1), fixture.now())
            .unwrap(),
        None
    );
    fixture.provider.remove(&made, Removal::KeepWork).unwrap();
    assert_eq!(fixture.ground.project_sh("git rev-parse skein/api-7"), tip);
    let again = fixture.make_again(&made);
    assert_eq!(
        fixture.ground.sh(again.path.as_str(), "git rev-parse HEAD"),
        tip
    );
}

#[test]
fn l5_changed_copies_of_ignored_files() {
    let fixture = fresh();
    fixture
        .ground
        .project_sh("echo A=1 > .env; echo B > b.secret; echo C > c.secret");
    let made = fixture.made();
    let furnishing = WorkspaceSetup {
        copy: vec![".env".into(), "*.secret".into()],
        ..WorkspaceSetup::default()
    };
    fixture
        .provider
        .furnish(&made, &furnishing, &mut |_| ())
        .unwrap();
    assert!(!fixture.provider.inspect(&made).unwrap().dirty);
    fixture
        .ground
        .sh(made.path.as_str(), "echo A=2 > .env; rm c.secret b.secret");
    assert!(fixture.provider.inspect(&made).unwrap().dirty);
    let (again, _) = there_and_back(&fixture, &made, STATUS);
    // Furnishing again keeps what came back.
    fixture
        .provider
        .furnish(&again, &furnishing, &mut |_| ())
        .unwrap();
    assert_eq!(
        fixture.ground.sh(again.path.as_str(), "cat .env b.secret"),
        "A=2\nB"
    );
}

#[test]
fn l5_in_the_middle_of_a_merge() {
    let fixture = fresh();
    let made = fixture.made();
    fixture.ground.sh(
        made.path.as_str(),
        "git branch other; echo a > two; git commit -qam a; git switch -q other; echo b > two; \
         git commit -qam b; git switch -q skein/api-7; ! git merge -q other; grep -q '<<<<' two; echo more >> two",
    );
    let contents = fixture.provider.inspect(&made).unwrap();
    assert_eq!(contents.in_progress.as_deref(), Some("merge"));
    let (again, backup) = there_and_back(&fixture, &made, "git log --oneline");
    // Both sides are reachable from the backup.
    let parents = fixture
        .ground
        .project_sh(&format!("git rev-list --parents -1 {}", backup.commit));
    let other = fixture.ground.project_sh("git rev-parse other");
    assert!(parents.contains(&other), "{parents}");
    assert!(fixture.provider.inspect(&again).unwrap().dirty);
}

#[test]
fn l5_in_the_middle_of_a_rebase_with_an_autostash() {
    let fixture = fresh();
    let made = fixture.made();
    fixture.ground.sh(
        made.path.as_str(),
        "git branch other; echo a > two; git commit -qam a; echo a2 > a2; git add a2; git commit -qm a2; \
         git switch -q other; echo b > two; git commit -qam b; git switch -q skein/api-7; echo stashed >> src/one; \
         ! git rebase -q --autostash other; echo resolved > two; git add two",
    );
    let contents = fixture.provider.inspect(&made).unwrap();
    assert_eq!(contents.in_progress.as_deref(), Some("rebase"));
    let stash = fixture.ground.sh(
        made.path.as_str(),
        r#"cat "$(git rev-parse --git-path rebase-merge/autostash)""#,
    );
    let branch = fixture.ground.project_sh("git rev-parse skein/api-7");
    let (again, backup) = there_and_back(&fixture, &made, "git rev-parse HEAD; git diff --cached");
    let parents = fixture
        .ground
        .project_sh(&format!("git rev-list --parents -1 {}", backup.commit));
    assert!(parents.contains(&stash), "{parents}");
    assert_eq!(
        fixture.ground.project_sh("git rev-parse skein/api-7"),
        branch
    );
    assert!(fixture.provider.inspect(&again).unwrap().dirty);
}

#[test]
fn l5_commits_on_a_detached_head() {
    let fixture = fresh();
    let made = fixture.made();
    fixture.ground.sh(
        made.path.as_str(),
        "git switch -q --detach; echo a > two; git commit -qam lost",
    );
    assert_eq!(fixture.provider.inspect(&made).unwrap().own_commits, 1);
    let (again, _) = there_and_back(&fixture, &made, STATUS);
    let subject = fixture
        .ground
        .sh(again.path.as_str(), "git log -1 --format=%s");
    assert_eq!(subject, "lost");
}

#[test]
fn l5_another_branch_than_its_own() {
    let fixture = fresh();
    let made = fixture.made();
    fixture.ground.sh(
        made.path.as_str(),
        "git switch -qc mine; echo a > two; git commit -qam m; echo b > two",
    );
    let (again, _) = there_and_back(&fixture, &made, STATUS);
    assert_eq!(
        fixture
            .ground
            .sh(again.path.as_str(), "git branch --show-current"),
        "mine"
    );
}

#[test]
fn l5_files_git_was_told_not_to_look_at() {
    let fixture = fresh();
    let made = fixture.made();
    fixture.ground.sh(
        made.path.as_str(),
        "git update-index --assume-unchanged two; git update-index --skip-worktree src/one; echo x > two; echo y > src/one",
    );
    assert!(fixture.provider.inspect(&made).unwrap().dirty);
    there_and_back(&fixture, &made, "git log --oneline");
}

/// A project with a submodule that has a remote of its own.
fn with_submodule() -> Fixture {
    let fixture = fresh();
    fixture
        .ground
        .configure("[protocol \"file\"]\n\tallow = always\n");
    let library = fixture.ground.path("elsewhere");
    fixture.ground.sh(
        &library,
        "git init -q -b main . && echo lib > lib && git add . && git commit -qm lib",
    );
    fixture
        .ground
        .project_sh("git submodule --quiet add ../elsewhere lib && git commit -qm submodule");
    fixture
}

#[test]
fn l5_work_in_a_submodule() {
    let fixture = with_submodule();
    let made = fixture.made();
    assert!(!fixture.provider.inspect(&made).unwrap().dirty);
    let lib = format!("{}/lib", made.path);
    assert_eq!(fixture.ground.sh(&lib, "cat lib"), "lib");
    fixture.ground.sh(
        &lib,
        "git switch -qc topic; echo committed > committed; git add .; git commit -qm sub; \
         echo staged > lib; git add lib; echo dirty >> lib; echo new > new",
    );
    let inner =
        "git -C lib log --oneline; git -C lib status --porcelain; git -C lib branch --show-current";
    there_and_back(&fixture, &made, inner);
}

#[test]
fn l5_commits_of_a_submodule_that_are_nowhere_else() {
    let fixture = with_submodule();
    let made = fixture.made();
    fixture.ground.sh(
        made.path.as_str(),
        "cd lib; git switch -qc topic; echo c > c; git add .; git commit -qm sub; cd ..; git commit -qam bump",
    );
    // The superproject is clean, yet the submodule's commits would go with the folder.
    assert!(fixture.provider.inspect(&made).unwrap().dirty);
    there_and_back(
        &fixture,
        &made,
        "git -C lib log --oneline; git status --porcelain",
    );
}

#[test]
fn l5_a_clean_submodule_needs_no_backup() {
    let fixture = with_submodule();
    let made = fixture.made();
    assert_eq!(
        fixture
            .provider
            .backup(&fixture.session(), &made, &fixture.saga(1), fixture.now())
            .unwrap(),
        None
    );
    fixture.provider.remove(&made, Removal::KeepWork).unwrap();
}

#[test]
fn l5_a_repository_made_inside() {
    let fixture = fresh();
    let made = fixture.made();
    fixture.ground.sh(
        made.path.as_str(),
        "mkdir inner; cd inner; git init -q -b main .; echo a > a; git add .; git commit -qm a; echo b > b; \
         git stash -qu; echo c > c; mkdir ../empty; cd ../empty; git init -q .; echo x > x",
    );
    let inner = "git -C inner log --oneline; git -C inner status --porcelain; git -C inner stash show -p --include-untracked; cat empty/x";
    there_and_back(&fixture, &made, inner);
}

#[test]
fn l5_bytes_survive_line_end_settings() {
    let fixture = fresh();
    fixture.ground.configure("[core]\n\tautocrlf = true\n");
    let made = fixture.made();
    fixture.ground.sh(
        made.path.as_str(),
        "printf 'a\\nb\\n' > lf; printf 'a\\r\\nb\\r\\n' > crlf; printf 'a\\r\\nb\\n' > mixed; \
         printf 'id $Id$ x\\n' > ident; printf 'ident ident\\nlf eol=lf\\n' > .gitattributes",
    );
    there_and_back(&fixture, &made, "git status --porcelain");
}

#[test]
fn l5_a_folder_deleted_by_hand_comes_back_from_its_branch() {
    let fixture = fresh();
    let made = fixture.made();
    fixture
        .ground
        .sh(made.path.as_str(), "echo a > two; git commit -qam mine");
    fs::remove_dir_all(made.path.as_str()).unwrap();
    let again = fixture.provider.make(&fixture.session(), &made).unwrap();
    assert!(again.anew && again.note.unwrap().contains("rebuilt from branch"));
    assert_eq!(fixture.ground.sh(made.path.as_str(), "cat two"), "a");
}

#[test]
fn l5_a_folder_rebuilt_from_its_branch_names_the_newest_backup() {
    let fixture = fresh();
    let made = fixture.made();
    let path = made.path.as_str();
    fixture.ground.sh(path, "echo precious > new");
    // A crash right after the backup: it is neither recorded nor marked as what belongs into the folder.
    let (_, backup) = fixture.backed_up(&made);
    fixture.ground.project_sh(
        "git for-each-ref --format='delete %(refname)' refs/skein/left | git update-ref --stdin",
    );
    fs::remove_dir_all(path).unwrap();
    let again = fixture.provider.make(&fixture.session(), &made).unwrap();
    let note = again.note.unwrap();
    assert!(note.contains("rebuilt from branch skein/api-7"), "{note}");
    assert!(note.contains(&backup.name(&fixture.session())), "{note}");
    assert!(!std::path::Path::new(path).join("new").exists());
    // The command in the note shows what the backup holds.
    let command = note.split('`').nth(1).unwrap();
    let shown = fixture.ground.project_sh(command);
    assert!(shown.contains("precious"), "{note}");
}

#[test]
fn l5_what_was_staged_in_a_folder_deleted_by_hand_is_rescued() {
    let fixture = fresh();
    let made = fixture.made();
    fixture.ground.sh(
        made.path.as_str(),
        "git switch -q --detach; echo a > a; git add a; git commit -qm lost; echo b > b; git add b",
    );
    fs::remove_dir_all(made.path.as_str()).unwrap();
    let again = fixture.provider.make(&fixture.session(), &made).unwrap();
    let name = fixture
        .ground
        .project_sh("git for-each-ref --format='%(refname)' refs/skein/rescued");
    assert!(again.note.unwrap().contains(&name), "{name}");
    let show = format!("git show {name}:b; git log -1 --format=%s {name}^");
    assert_eq!(fixture.ground.project_sh(&show), "b\nlost");
}

#[test]
fn l5_a_branch_that_is_gone_comes_back_from_its_backup() {
    let fixture = fresh();
    let made = fixture.made();
    fixture.ground.sh(
        made.path.as_str(),
        "echo a > two; git commit -qam mine; echo b > two",
    );
    let (made, _) = fixture.backed_up(&made);
    fixture.provider.remove(&made, Removal::BackedUp).unwrap();
    fixture.ground.project_sh(
        "git branch -qD skein/api-7; git update-ref -d $(git for-each-ref --format='%(refname)' refs/skein/left)",
    );
    fixture.make_again(&made);
    let seen = fixture
        .ground
        .sh(made.path.as_str(), "cat two; git log -1 --format=%s");
    assert_eq!(seen, "b\nmine");
}

#[test]
fn l5_a_branch_that_moved_on_is_not_touched() {
    let fixture = fresh();
    let made = fixture.made();
    fixture.ground.sh(
        made.path.as_str(),
        "echo a > two; git commit -qam mine; echo b > two",
    );
    let session = fixture.session();
    let (made, _) = fixture.backed_up(&made);
    fixture.provider.remove(&made, Removal::BackedUp).unwrap();
    fixture.ground.project_sh(
        "git switch -q skein/api-7; echo c > two; git commit -qam later; git switch -q main",
    );
    let again = fixture
        .provider
        .make(&session, &made.in_state(skein_domain::WorkspaceState::Gone))
        .unwrap();
    assert!(again.note.unwrap().contains("moved on"));
    assert_eq!(fixture.ground.sh(made.path.as_str(), "cat two"), "c");
}

#[test]
fn l5_backups_are_numbered_listed_and_dropped() {
    let fixture = fresh();
    let made = fixture.made();
    let (session, project) = (fixture.session(), fixture.ground.project());
    fs::write(Path::new(made.path.as_str()).join("x"), "x").unwrap();
    let mut commits = Vec::new();
    for (saga, wanted) in [(1, 1), (2, 2), (3, 11)] {
        // Numbers grow beyond all that are used, also by other homes.
        if wanted > 10 {
            fixture
                .ground
                .project_sh("git update-ref refs/skein/backup/api-7/10 HEAD");
        }
        let backup = fixture
            .provider
            .backup(&session, &made, &fixture.saga(saga), fixture.now())
            .unwrap()
            .unwrap();
        assert_eq!(backup.n, wanted);
        commits.push((backup.n, backup.commit));
    }
    fixture
        .ground
        .project_sh("git update-ref -d refs/skein/backup/api-7/10");
    let all: Vec<_> = backups(&project)
        .unwrap()
        .into_iter()
        .map(|(_, n, commit, at)| {
            assert_eq!(at, fixture.now());
            (n, commit)
        })
        .collect();
    assert_eq!(all, commits);
    fixture.provider.remove(&made, Removal::Discard).unwrap();
    // A number with another commit belongs to another session.
    drop_backup(&project, &session, 1, &commits[1].1).unwrap();
    assert_eq!(backups(&project).unwrap().len(), 3);
    for (n, commit) in [&commits[2], &commits[2], &commits[0], &commits[1]] {
        drop_backup(&project, &session, *n, commit).unwrap();
    }
    assert_eq!(backups(&project).unwrap(), []);
    let left = fixture.ground.project_sh("git for-each-ref refs/skein");
    assert_eq!(left, "");
}

#[test]
fn l5_an_orphan_branch_without_commits() {
    let fixture = fresh();
    let made = fixture.made();
    fixture.ground.sh(
        made.path.as_str(),
        "git switch -q --orphan fresh; echo a > a; git add a; echo b > b",
    );
    let (_, backup) = fixture.backed_up(&made);
    let files = fixture.ground.files(made.path.as_str());
    assert_eq!(got_back(&fixture, &backup), files);
}

#[test]
fn l5_an_operation_in_a_folder_deleted_by_hand_is_rescued() {
    let fixture = fresh();
    let made = fixture.made();
    fixture.ground.sh(
        made.path.as_str(),
        "git branch other; echo a > two; git commit -qam a; git switch -q other; echo b > two; git commit -qam b; \
         git switch -q -; ! git rebase -q other",
    );
    fs::remove_dir_all(made.path.as_str()).unwrap();
    fixture.provider.make(&fixture.session(), &made).unwrap();
    let todo = fixture.ground.project_sh(
        "for r in $(git for-each-ref --format='%(refname)' refs/skein/rescued); do \
         git cat-file blob $r:git/rebase-merge/head-name; done",
    );
    assert_eq!(todo, "refs/heads/skein/api-7");
}

#[test]
fn l5_a_lock_of_the_project_left_behind_loses_nothing() {
    let fixture = fresh();
    let made = fixture.made();
    fs::write(Path::new(made.path.as_str()).join("x"), "x").unwrap();
    let lock = Path::new(fixture.ground.project().as_str()).join(".git/packed-refs.lock");
    fs::write(&lock, "").unwrap();
    let (made, backup) = fixture.backed_up(&made);
    let refused = fixture.provider.remove(&made, Removal::BackedUp);
    assert!(
        matches!(&refused, Err(Error::Locked { file, .. }) if *file == lock),
        "{refused:?}"
    );
    let show = format!("git show {}:x", backup.commit);
    assert_eq!(fixture.ground.project_sh(&show), "x");
    fs::remove_file(&lock).unwrap();
    fixture.provider.remove(&made, Removal::BackedUp).unwrap();
    fixture.make_again(&made);
    assert!(Path::new(made.path.as_str()).join("x").exists());
}

#[test]
fn a_first_make_with_backups_deletes_what_an_earlier_workspace_left() {
    let fixture = fresh();
    let made = fixture.made();
    fs::write(Path::new(made.path.as_str()).join("x"), "x").unwrap();
    let (made, _) = fixture.backed_up(&made);
    fixture.provider.remove(&made, Removal::BackedUp).unwrap();
    let left = || {
        fixture
            .ground
            .project_sh("git for-each-ref refs/skein/left/")
    };
    assert_ne!(left(), "");
    fixture.make(&made.in_state(skein_domain::WorkspaceState::Planned));
    assert_eq!(left(), "");
}
