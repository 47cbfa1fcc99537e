//! L5 where several homes and tenants work in one repository: their sessions may have equal ids.

use std::fs;
use std::path::Path;

use skein_domain::Workspace;
use skein_workspace::provider::{Plan, Removal, WorkspaceProvider};
use skein_workspace::{Clone, Worktree};
use skein_workspace_conformance::{Ability, Fixture, Ground};

fn fixture(ground: Ground, provider: Box<dyn WorkspaceProvider>) -> Fixture {
    Fixture {
        provider,
        ground,
        abilities: vec![Ability::Managed, Ability::Git],
    }
}

fn made(fixture: &Fixture, provider: &dyn WorkspaceProvider, branch: &str) -> Workspace {
    let plan = Plan {
        branch: Some(branch.parse().unwrap()),
        ..fixture.plan()
    };
    let planned = provider.plan(&plan).unwrap();
    let made = provider
        .make(&fixture.session(), &planned)
        .unwrap()
        .workspace;
    fs::write(Path::new(made.path.as_str()).join("whose"), branch).unwrap();
    made
}

/// Two homes, each with a session `api-7`; each gets back what was its own.
fn equal_ids(fixture: &Fixture, other: &dyn WorkspaceProvider) {
    let session = fixture.session();
    let ours = made(fixture, &*fixture.provider, "ours");
    let (ours, backup) = fixture.backed_up(&ours);
    fixture.provider.remove(&ours, Removal::BackedUp).unwrap();

    let theirs = made(fixture, other, "theirs");
    let kept = other
        .backup(&session, &theirs, &fixture.saga(2), fixture.now())
        .unwrap()
        .unwrap();
    assert_eq!(kept.n, backup.n + 1);
    let theirs = theirs.with_backup(Some(kept));
    other.remove(&theirs, Removal::BackedUp).unwrap();
    let at = |name: &str| fixture.ground.project_sh(&format!("git rev-parse {name}"));
    assert_eq!(at("refs/skein/backup/api-7/1"), backup.commit.as_str());

    for (provider, workspace, whose) in [
        (&*fixture.provider, &ours, "ours"),
        (other, &theirs, "theirs"),
    ] {
        let gone = workspace.in_state(skein_domain::WorkspaceState::Gone);
        provider.make(&session, &gone).unwrap();
        let file = Path::new(workspace.path.as_str()).join("whose");
        assert_eq!(fs::read_to_string(file).unwrap(), whose);
    }
}

#[test]
fn l5_worktrees_of_two_homes_share_no_backup() {
    let ground = Ground::new();
    let other = Worktree::new(ground.path("other root"), ground.options());
    let own = Worktree::new(ground.root(), ground.options());
    equal_ids(&fixture(ground, Box::new(own)), &other);
}

#[test]
fn l5_clones_of_two_homes_share_no_backup() {
    let ground = Ground::new();
    let other = Clone::new(ground.path("other root"), ground.options());
    let own = Clone::new(ground.root(), ground.options());
    equal_ids(&fixture(ground, Box::new(own)), &other);
}

#[test]
fn l5_a_branch_that_is_gone_never_comes_back_from_a_backup_of_another_home() {
    let ground = Ground::new();
    let other = Worktree::new(ground.path("other root"), ground.options());
    let own = Worktree::new(ground.root(), ground.options());
    let fixture = fixture(ground, Box::new(own));
    let session = fixture.session();
    let theirs = made(&fixture, &other, "theirs");
    fixture.ground.sh(
        theirs.path.as_str(),
        "git add .; git commit -qm theirs; echo x > x",
    );
    other
        .backup(&session, &theirs, &fixture.saga(2), fixture.now())
        .unwrap()
        .unwrap();
    let ours = fixture.made();
    fixture.provider.remove(&ours, Removal::KeepWork).unwrap();
    let again = fixture.make_again(&ours);
    assert!(!Path::new(again.path.as_str()).join("whose").exists());
}
