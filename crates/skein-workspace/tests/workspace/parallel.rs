//! Sessions that share a repository, and calls that git fails in the middle.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use skein_domain::SessionId;
use skein_workspace::provider::{Plan, Removal, WorkspaceProvider};
use skein_workspace::{Git, WorkspaceOptions, Worktree};
use skein_workspace_conformance::{Ability, Fixture, Ground};

fn locks(ground: &Ground) -> Vec<String> {
    let entries = fs::read_dir(ground.root().join(".locks"));
    let entries = entries.into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string());
    names.map(Result::unwrap).collect()
}

/// A git that fails for commands whose words contain `words`, as it does when it runs out of memory.
fn failing_git(ground: &Ground, words: &str) -> Git {
    let folder = ground.path("failing git");
    fs::create_dir_all(&folder).unwrap();
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *\" {words} \"*) echo 'fatal: out of memory' >&2; exit 128 ;; esac\n\
         PATH=${{PATH#*:}}\nexec git \"$@\"\n"
    );
    let program = folder.join("git");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut git = ground.git();
    let path = ground.sh("/", "printf %s \"$PATH\"");
    git.env
        .insert("PATH".into(), format!("{}:{path}", folder.display()));
    git
}

#[test]
fn l4_a_removal_that_git_fails_after_the_folder_is_gone_leaves_no_lock() {
    let ground = Ground::new();
    let before = ground.refs();
    let fixture = Fixture {
        provider: Box::new(Worktree::new(ground.root(), ground.options())),
        ground,
        abilities: vec![Ability::Managed, Ability::Git],
    };
    let ground = &fixture.ground;
    let made = fixture.made();
    let options = WorkspaceOptions {
        git: failing_git(ground, "worktree list"),
        ..ground.options()
    };
    let failing = Worktree::new(ground.root(), options);
    failing.remove(&made, Removal::KeepWork).unwrap_err();
    assert!(!Path::new(made.path.as_str()).exists());
    assert_eq!(locks(ground), Vec::<String>::new());
    // A repetition removes the rest, here a branch.
    fixture.provider.remove(&made, Removal::KeepWork).unwrap();
    assert_eq!(ground.refs(), before);
    assert_eq!(locks(ground), Vec::<String>::new());
}

#[test]
fn l4_sessions_of_one_repository_come_and_go_side_by_side() {
    let ground = Ground::new();
    let before = ground.refs();
    let provider = Worktree::new(ground.root(), ground.options());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Its own failures are git's; it only reads all registrations while they change.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _ = ground.try_sh(ground.project().as_str(), "git worktree list");
            }
        });
        let sessions: Vec<_> = (1..=8)
            .map(|n| {
                let (ground, provider) = (&ground, &provider);
                let session: SessionId = format!("api-{n}").parse().unwrap();
                let plan = Plan {
                    session: session.clone(),
                    tenant: "default".into(),
                    project: Some(ground.project()),
                    branch: None,
                    base: None,
                };
                scope.spawn(move || {
                    for _ in 0..4 {
                        let planned = provider.plan(&plan).unwrap();
                        let made = provider.make(&session, &planned).unwrap().workspace;
                        assert!(!provider.inspect(&made).unwrap().dirty);
                        provider.remove(&made, Removal::KeepWork).unwrap();
                    }
                })
            })
            .collect();
        let ended: Vec<_> = sessions.into_iter().map(|session| session.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    assert_eq!(locks(&ground), Vec::<String>::new());
    assert_eq!(ground.refs(), before);
}
