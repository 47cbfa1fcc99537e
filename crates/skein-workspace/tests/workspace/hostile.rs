//! Repositories, remotes, settings and names that are not as one would wish.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use skein_domain::Kind;
use skein_workspace::provider::{Plan, Removal};
use skein_workspace::{Error, Worktree};
use skein_workspace_conformance::{Ability, Fixture, Ground};

fn fixture(ground: Ground) -> Fixture {
    Fixture {
        provider: Box::new(Worktree::new(ground.root(), ground.options())),
        ground,
        abilities: vec![Ability::Managed, Ability::Git],
    }
}

fn refused(fixture: &Fixture, plan: &Plan) -> Error {
    let refs = fixture
        .ground
        .try_sh(fixture.ground.project().as_str(), "git for-each-ref");
    let refused = fixture.provider.plan(plan).unwrap_err();
    assert_eq!(
        refs,
        fixture
            .ground
            .try_sh(fixture.ground.project().as_str(), "git for-each-ref")
    );
    assert!(!fixture.ground.root().exists());
    refused
}

fn with_branch(fixture: &Fixture, branch: &str) -> Plan {
    Plan {
        branch: Some(branch.parse().unwrap()),
        ..fixture.plan()
    }
}

#[test]
fn l13_no_repository() {
    let fixture = fixture(Ground::bare());
    let refused = refused(&fixture, &fixture.plan());
    assert!(matches!(refused, Error::NotARepository { .. }), "{refused}");
    assert_eq!((refused.kind(), refused.hints().len()), (Kind::Misuse, 1));
}

#[test]
fn l13_no_folder_any_more() {
    let fixture = fixture(Ground::bare());
    fs::remove_dir(fixture.ground.project().as_str()).unwrap();
    let refused = fixture.provider.plan(&fixture.plan()).unwrap_err();
    assert_eq!(refused.kind(), Kind::NotFound);
}

#[test]
fn l13_no_commits() {
    let fixture = fixture(Ground::bare());
    fixture.ground.project_sh("git init -q .");
    let refused = refused(&fixture, &fixture.plan());
    assert!(matches!(refused, Error::NoCommits { .. }), "{refused}");
    // The hint is a command that helps.
    let hint = refused.hints().remove(0);
    fixture.ground.sh("/", hint.split('`').nth(1).unwrap());
    fixture.made();
}

#[test]
fn l13_bare() {
    let fixture = fixture(Ground::bare());
    fixture.ground.project_sh("git init -q --bare .");
    assert!(matches!(
        refused(&fixture, &fixture.plan()),
        Error::Bare { .. }
    ));
}

#[test]
fn a_detached_head_is_a_base_like_any_other() {
    let fixture = fixture(Ground::new());
    fixture.ground.project_sh("git switch -q --detach HEAD~1");
    let made = fixture.made();
    let at = fixture.ground.sh(
        made.path.as_str(),
        "git rev-parse HEAD; git branch --show-current",
    );
    let head = fixture.ground.project_sh("git rev-parse HEAD");
    assert_eq!(at, format!("{head}\nskein/api-7"));
    assert_eq!(made.base_commit.unwrap().as_str(), head);
}

#[test]
fn l13_an_unknown_base() {
    let fixture = fixture(Ground::new());
    for base in ["nowhere", "HEAD:two", "HEAD~99"] {
        let plan = Plan {
            base: Some(base.parse().unwrap()),
            ..fixture.plan()
        };
        let refused = refused(&fixture, &plan);
        assert!(matches!(refused, Error::UnknownBase { .. }), "{refused}");
        assert_eq!(refused.kind(), Kind::NotFound);
    }
}

#[test]
fn l5_branches_in_use_are_refused() {
    let fixture = fixture(Ground::new());
    let refused = refused(&fixture, &with_branch(&fixture, "main"));
    assert!(
        matches!(&refused, Error::BranchInUse { path, .. } if path.ends_with(Path::new(fixture.ground.project().as_str()))),
        "{refused}"
    );
    assert_eq!(refused.kind(), Kind::Conflict);
    // Taken between plan and make.
    fixture.ground.project_sh("git branch free");
    let planned = fixture
        .provider
        .plan(&with_branch(&fixture, "free"))
        .unwrap();
    fixture.ground.project_sh("git switch -q free");
    let refused = fixture
        .provider
        .make(&fixture.session(), &planned)
        .unwrap_err();
    assert!(matches!(refused, Error::BranchInUse { .. }), "{refused}");
    fixture
        .provider
        .remove(&planned, Removal::KeepWork)
        .unwrap();
}

#[test]
fn l5_existing_branches_are_attached_and_never_moved() {
    let fixture = fixture(Ground::new());
    fixture
        .ground
        .project_sh("git branch old HEAD~1; git tag old HEAD");
    let tip = fixture.ground.project_sh("git rev-parse refs/heads/old");
    let plan = Plan {
        base: Some("main".parse().unwrap()),
        ..with_branch(&fixture, "old")
    };
    let planned = fixture.provider.plan(&plan).unwrap();
    assert!(!planned.branch_made);
    let made = fixture.make(&planned);
    let at = fixture.ground.sh(
        made.path.as_str(),
        "git rev-parse HEAD; git symbolic-ref HEAD; git status --porcelain",
    );
    assert_eq!(at, format!("{tip}\nrefs/heads/old"));
    fixture.provider.remove(&made, Removal::Discard).unwrap();
    assert_eq!(
        fixture.ground.project_sh("git rev-parse refs/heads/old"),
        tip
    );
}

#[test]
fn l5_a_branch_with_our_name_that_is_not_ours_is_refused() {
    let fixture = fixture(Ground::new());
    fixture.ground.project_sh("git branch skein/api-7");
    let refused = refused(&fixture, &fixture.plan());
    assert!(matches!(refused, Error::BranchExists { .. }), "{refused}");
    assert_eq!((refused.kind(), refused.hints().len()), (Kind::Conflict, 1));
    // And between plan and make.
    fixture.ground.project_sh("git branch -q -D skein/api-7");
    let planned = fixture.provider.plan(&fixture.plan()).unwrap();
    fixture.ground.project_sh("git branch skein/api-7 HEAD~1");
    let refused = fixture
        .provider
        .make(&fixture.session(), &planned)
        .unwrap_err();
    assert!(matches!(refused, Error::BranchExists { .. }), "{refused}");
    // Also checked out: the error says where.
    fixture
        .ground
        .project_sh("git branch -q -D skein/api-7; git switch -q -c skein/api-7");
    let refused = fixture
        .provider
        .make(&fixture.session(), &planned)
        .unwrap_err();
    assert!(
        matches!(&refused, Error::BranchInUse { path, .. } if path.ends_with(Path::new(fixture.ground.project().as_str()))),
        "{refused}"
    );
}

#[test]
fn l13_a_branch_in_the_way_of_ours() {
    let fixture = fixture(Ground::new());
    fixture
        .ground
        .project_sh("git branch skein; git branch deep/er");
    let beside_deeper = refused(&fixture, &with_branch(&fixture, "deep"));
    assert!(
        matches!(beside_deeper, Error::BranchInTheWay { .. }),
        "{beside_deeper}"
    );
    // A plan may contain a stand-in for the session's number.
    assert_eq!(
        refused(&fixture, &fixture.plan()).to_string(),
        "branches of sessions, `skein/…`, cannot be made beside branch `skein`"
    );
}

#[test]
fn a_remote_that_answers_is_the_base() {
    let fixture = fixture(Ground::new());
    fixture.ground.sh(fixture.ground.path("elsewhere"), "git clone -q '../project with '\\''quotes'\\'' & $HOME' up; cd up; git commit -q --allow-empty -m upstream; git branch -m main trunk");
    fixture
        .ground
        .project_sh("git remote add origin ../elsewhere/up");
    let planned = fixture.provider.plan(&fixture.plan()).unwrap();
    let made = fixture.provider.make(&fixture.session(), &planned).unwrap();
    assert_eq!(
        made.note.as_deref(),
        Some("from origin/trunk, just fetched")
    );
    let subject = fixture.ground.sh(
        planned.path.as_str(),
        "git log -1 --format=%s; git config --get-regexp 'branch.*' || true",
    );
    assert_eq!(subject, "upstream");
}

#[test]
fn a_remote_that_is_gone_is_no_error() {
    let fixture = fixture(Ground::new());
    fixture.ground.project_sh(
        "git remote add origin /nowhere/at/all; git update-ref refs/remotes/origin/main HEAD~1",
    );
    let planned = fixture.provider.plan(&fixture.plan()).unwrap();
    let made = fixture.provider.make(&fixture.session(), &planned).unwrap();
    assert!(made.note.unwrap().contains("did not answer"));
    let seen = fixture.ground.project_sh("git rev-parse HEAD~1");
    assert_eq!(planned.base_commit.unwrap().as_str(), seen);
}

#[test]
fn a_remote_that_hangs_is_given_up_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let ground = Ground::new();
    ground.project_sh(&format!(
        "git remote add origin git://user@127.0.0.1:{port}/x.git"
    ));
    let mut options = ground.options();
    options.fetch = Duration::from_millis(300);
    let fixture = Fixture {
        provider: Box::new(Worktree::new(ground.root(), options)),
        ground,
        abilities: vec![Ability::Managed, Ability::Git],
    };
    let made = fixture.made();
    let head = fixture.ground.project_sh("git rev-parse HEAD");
    assert_eq!(made.base_commit.unwrap().as_str(), head);
    drop(listener);
}

#[test]
fn the_users_hooks_are_not_run() {
    let fixture = fixture(Ground::new());
    let hooks = fixture.ground.path("home/hooks");
    fs::create_dir(&hooks).unwrap();
    for name in [
        "post-checkout",
        "pre-commit",
        "reference-transaction",
        "post-index-change",
    ] {
        let hook = hooks.join(name);
        fs::write(&hook, "#!/bin/sh\ntouch ../hooked\nexit 1\n").unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fixture.ground.configure(&format!(
        "[core]\n\thooksPath = {}\n\tfsmonitor = {}\n",
        hooks.display(),
        hooks.join("pre-commit").display()
    ));
    let made = fixture.made();
    fs::write(Path::new(made.path.as_str()).join("x"), "x").unwrap();
    let (made, _) = fixture.backed_up(&made);
    fixture.provider.remove(&made, Removal::BackedUp).unwrap();
    fixture.make_again(&made);
    assert!(!fixture.ground.path("hooked").exists());
    assert!(!fixture.ground.root().join("default/hooked").exists());
}

#[test]
fn strange_settings_change_nothing() {
    let fixture = fixture(Ground::new());
    fixture.ground.configure(
        "[user]\n\tuseConfigOnly = true\n[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = /bin/false\n\
         [diff]\n\texternal = /bin/false\n\tnoprefix = true\n[color]\n\tui = always\n[core]\n\tquotePath = true\n\
         \tpager = /bin/false\n\tabbrev = 4\n[status]\n\tshowUntrackedFiles = no\n\trelativePaths = true\n\
         [submodule]\n\trecurse = true\n[branch]\n\tautoSetupMerge = always\n\tautoSetupRebase = always\n\
         [checkout]\n\tdefaultRemote = none\n[merge]\n\tconflictStyle = zdiff3\n[index]\n\tversion = 4\n",
    );
    let made = fixture.made();
    fs::write(Path::new(made.path.as_str()).join("дом"), "x").unwrap();
    assert!(fixture.provider.inspect(&made).unwrap().dirty);
    let diff = fixture.provider.diff(&made, false).unwrap();
    assert!(
        diff.contains("+++ ") && diff.contains("+x") && !diff.contains('\u{1b}'),
        "{diff}"
    );
    let (made, backup) = fixture.backed_up(&made);
    let author = fixture.ground.project_sh(&format!(
        "git --no-pager log -1 --no-color --format='%an <%ae>' {}",
        backup.commit
    ));
    assert_eq!(author, "Skein <skein@localhost>");
    fixture.provider.remove(&made, Removal::BackedUp).unwrap();
    fixture.make_again(&made);
    assert!(Path::new(made.path.as_str()).join("дом").exists());
}

#[test]
fn l13_a_git_that_is_too_old_is_refused_with_a_hint() {
    let ground = Ground::new();
    let bin = ground.path("elsewhere");
    let git = bin.join("git");
    fs::write(&git, "#!/bin/sh\necho git version 2.35.9\n").unwrap();
    fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).unwrap();
    let mut options = ground.options();
    let path = bin.to_str().unwrap().to_owned();
    options.git.env.insert("PATH".into(), path);
    let provider = Worktree::new(ground.root(), options);
    let fixture = Fixture {
        provider: Box::new(provider),
        ground,
        abilities: vec![Ability::Managed, Ability::Git],
    };
    let refused = fixture.provider.plan(&fixture.plan()).unwrap_err();
    assert_eq!(refused.to_string(), "git version 2.35.9 is too old");
    assert_eq!(refused.hints(), ["install git 2.36 or newer"]);
}

#[test]
fn nobody_needs_a_name() {
    let fixture = fixture(Ground::new());
    fs::write(
        fixture.ground.path("home/.gitconfig"),
        "[user]\n\tuseConfigOnly = true\n",
    )
    .unwrap();
    let made = fixture.made();
    fs::write(Path::new(made.path.as_str()).join("x"), "x").unwrap();
    fixture
        .provider
        .backup(&fixture.session(), &made, &fixture.saga(1), fixture.now())
        .unwrap()
        .unwrap();
}

#[test]
fn a_lock_left_behind_is_named_and_stays() {
    let fixture = fixture(Ground::new());
    let planned = fixture
        .provider
        .plan(&with_branch(&fixture, "mine"))
        .unwrap();
    let lock = Path::new(fixture.ground.project().as_str()).join(".git/refs/heads/mine.lock");
    fs::write(&lock, "").unwrap();
    let refused = fixture
        .provider
        .make(&fixture.session(), &planned)
        .unwrap_err();
    assert!(
        matches!(&refused, Error::Locked { file, .. } if *file == lock),
        "{refused}"
    );
    assert_eq!(refused.kind(), Kind::Conflict);
    assert!(refused.hints()[0].contains("mine.lock"));
    assert!(lock.exists());
    // What the hint says helps.
    fixture
        .ground
        .sh("/", refused.hints()[0].split('`').nth(1).unwrap());
    fixture.make(&planned);
}

#[test]
fn l5_an_agents_index_lock_does_not_stop_a_backup() {
    let fixture = fixture(Ground::new());
    let made = fixture.made();
    fs::write(Path::new(made.path.as_str()).join("x"), "x").unwrap();
    let lock = fixture
        .ground
        .sh(made.path.as_str(), "git rev-parse --git-path index.lock");
    fs::write(&lock, "").unwrap();
    let (made, _) = fixture.backed_up(&made);
    assert!(Path::new(&lock).exists());
    fixture.provider.remove(&made, Removal::BackedUp).unwrap();
}

#[test]
fn read_only_folders_are_removed_too() {
    let fixture = fixture(Ground::new());
    let made = fixture.made();
    fixture.ground.sh(
        made.path.as_str(),
        "mkdir -p node_modules/a/b; echo x > node_modules/a/b/x; chmod -R a-w node_modules",
    );
    fixture.provider.remove(&made, Removal::KeepWork).unwrap();
    assert!(!Path::new(made.path.as_str()).exists());
}

#[test]
fn l4_many_at_once_do_not_disturb_each_other() {
    let ground = Ground::new();
    let provider = Worktree::new(ground.root(), ground.options());
    let fixture = fixture(ground);
    let make = |n: u64| {
        let plan = Plan {
            session: format!("api-{n}").parse().unwrap(),
            ..fixture.plan()
        };
        use skein_workspace::provider::WorkspaceProvider;
        let planned = provider.plan(&plan).unwrap();
        let made = provider.make(&plan.session, &planned).unwrap().workspace;
        provider.remove(&made, Removal::KeepWork).unwrap();
    };
    std::thread::scope(|scope| {
        for n in 1..=8 {
            scope.spawn(move || make(n));
        }
    });
    assert_eq!(
        fixture
            .ground
            .project_sh("git worktree list | wc -l; git branch --list 'skein/*'")
            .trim(),
        "1"
    );
}

#[test]
fn l5_a_link_in_place_of_a_workspace_is_not_followed() {
    let fixture = fixture(Ground::new());
    let made = fixture.made();
    let path = Path::new(made.path.as_str());
    let victim = fixture.ground.path("victim");
    for is_repository in [false, true] {
        fs::remove_dir_all(&victim).unwrap_or_default();
        fs::create_dir_all(&victim).unwrap();
        fs::write(victim.join("own"), "own").unwrap();
        if is_repository {
            fixture.ground.sh(&victim, "git init -q");
        }
        fs::remove_dir_all(path)
            .or_else(|_| fs::remove_file(path))
            .unwrap();
        std::os::unix::fs::symlink(&victim, path).unwrap();
        let refused = fixture.provider.make(&fixture.session(), &made);
        assert!(
            matches!(refused, Err(Error::Unmanaged { .. })),
            "{refused:?}"
        );
        let backup =
            fixture
                .provider
                .backup(&fixture.session(), &made, &fixture.saga(1), fixture.now());
        assert!(matches!(backup, Err(Error::Unmanaged { .. })), "{backup:?}");
        let files = fs::read_dir(&victim).unwrap().count();
        assert_eq!(files, 1 + usize::from(is_repository));
    }
    // The user took it away.
    fs::remove_file(path).unwrap();
    fixture.make_again(&made);
}

#[test]
fn l5_a_workspace_that_a_user_moved_behind_a_link_is_still_one() {
    let fixture = fixture(Ground::new());
    let made = fixture.made();
    let moved = fixture.ground.path("moved");
    fs::rename(made.path.as_str(), &moved).unwrap();
    std::os::unix::fs::symlink(&moved, made.path.as_str()).unwrap();
    fs::write(moved.join("new"), "new").unwrap();
    fixture.make_again(&made);
    fixture.backed_up(&made);
}

/// Makes a program of every setting that git runs one for, in a repository's own settings.
const PROGRAMS: &str = r#"
    R="$(git rev-parse --path-format=absolute --git-common-dir)"
    mkdir -p "$R/hooks"
    for h in post-checkout pre-commit post-commit reference-transaction post-index-change pre-auto-gc post-rewrite; do
        cp "$RUN" "$R/hooks/$h"
    done
    for s in core.fsmonitor core.editor core.pager core.askPass core.sshCommand core.alternateRefsCommand \
        diff.external merge.tool filter.evil.clean filter.evil.smudge uploadpack.packObjectsHook gpg.program \
        diff.evil.textconv diff.evil.command credential.helper sequence.editor; do
        git config "$s" "$RUN"
    done
    git config filter.evil.required true
    git config filter.proc.process "$RUN"
    git config alias.status "!$RUN"
    git config alias.add "!$RUN"
    git config commit.gpgSign true
    git config core.hooksPath "$R/hooks"
    printf '* filter=evil diff=evil\n*.p filter=proc\n' > .gitattributes
    echo changed > two; echo new > new; echo p > x.p; git rev-parse HEAD > "$R/MERGE_HEAD"
"#;

#[test]
fn l15_no_program_of_a_repository_runs_while_work_is_looked_at_and_kept() {
    let fixture = fixture(Ground::new());
    let made = fixture.made();
    let path = made.path.as_str();
    let elsewhere = fixture.ground.path("elsewhere");
    let (run, ran) = (elsewhere.join("run"), elsewhere.join("ran"));
    fs::write(&run, format!("#!/bin/sh\ntouch {}\ncat\n", ran.display())).unwrap();
    fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).unwrap();
    let script = format!("RUN={}; {PROGRAMS}", run.display());
    // In the project's repository, and in one inside with a borrowed object.
    fixture.ground.sh(path, &script);
    fixture.ground.sh(
        path,
        &format!("GIT_CONFIG_COUNT=0 git -c core.hooksPath=/dev/null -c core.fsmonitor=false clone -q -s --no-checkout . inner; cd inner; echo two > two; {script}"),
    );
    // A user who works there does run them.
    fixture.ground.sh(path, "git add two");
    fs::remove_file(&ran).unwrap();
    fs::write(Path::new(path).join("two"), "again").unwrap();
    let contents = fixture.provider.inspect(&made).unwrap();
    assert!(contents.dirty);
    fixture.provider.diff(&made, false).unwrap();
    let (made, backup) = fixture.backed_up(&made);
    fixture.provider.remove(&made, Removal::BackedUp).unwrap();
    assert!(!ran.exists(), "a program of the repository ran");
    let kept = fixture.ground.project_sh(&format!(
        "git -c core.pager=cat cat-file blob {0}:x.p; git cat-file blob {0}:inner/new",
        backup.commit
    ));
    assert_eq!(kept, "p\nnew");
}
