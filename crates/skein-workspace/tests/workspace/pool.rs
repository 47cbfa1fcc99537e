//! Prepared worktrees: taken by sessions, never mistaken for one, right after crashes.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use skein_workspace::provider::{Plan, Removal};
use skein_workspace::{Pool, Worktree, managed};
use skein_workspace_conformance::{Ability, Fixture, Ground};

fn fresh() -> (Fixture, Arc<Pool>) {
    let ground = Ground::new();
    let pool = Arc::new(Pool::with(ground.git(), ground.root(), 2));
    let mut options = ground.options();
    options.pool = Some(Arc::clone(&pool));
    let fixture = Fixture {
        provider: Box::new(Worktree::new(ground.root(), options)),
        ground,
        abilities: vec![Ability::Managed, Ability::Git],
    };
    (fixture, pool)
}

fn members(fixture: &Fixture) -> usize {
    let entries = fs::read_dir(fixture.ground.root().join(".pool"));
    entries.into_iter().flatten().count()
}

fn conformance() -> Fixture {
    let (fixture, _) = fresh();
    fixture
}

mod with_an_empty_pool {
    fn fresh() -> skein_workspace_conformance::Fixture {
        super::conformance()
    }
    skein_workspace_conformance::workspace_conformance!(@each fresh: made_is_ready_and_there, l5_clean_goes_without_a_trace);
}

#[test]
fn a_session_takes_a_prepared_worktree_at_its_own_base() {
    let (fixture, pool) = fresh();
    let project = fixture.ground.project();
    assert_eq!(pool.prepare(&project).unwrap(), 2);
    assert_eq!(pool.prepare(&project).unwrap(), 0);
    assert_eq!(managed(&fixture.ground.root()).unwrap(), []);
    let plan = Plan {
        base: Some("HEAD~1".parse().unwrap()),
        ..fixture.plan()
    };
    let made = fixture.make(&fixture.provider.plan(&plan).unwrap());
    assert_eq!(members(&fixture), 1);
    let path = made.path.as_str();
    let seen = fixture.ground.sh(
        path,
        "git status --porcelain; git branch --show-current; cat two; git rev-parse HEAD",
    );
    let base = fixture.ground.project_sh("git rev-parse HEAD~1");
    assert_eq!(seen, format!("skein/api-7\ntwo\n{base}"));
    let locks = fixture
        .ground
        .project_sh("git worktree list --porcelain | grep ^locked | sort");
    assert_eq!(locks, "locked skein api-7\nlocked skein pool");
    fixture
        .ground
        .project_sh("git worktree prune --expire now; git fsck --no-dangling");
    fixture.provider.remove(&made, Removal::KeepWork).unwrap();
    pool.empty(&project).unwrap();
    assert_eq!(
        fixture
            .ground
            .project_sh("git worktree list | wc -l")
            .trim(),
        "1"
    );
    assert_eq!(members(&fixture), 0);
}

#[test]
fn l4_a_member_taken_halfway_is_nobodys_work() {
    for moved in [false, true] {
        let (fixture, pool) = fresh();
        pool.prepare(&fixture.ground.project()).unwrap();
        let planned = fixture.provider.plan(&fixture.plan()).unwrap();
        // Claimed, and moved or not, then killed.
        let registrations = Path::new(fixture.ground.project().as_str()).join(".git/worktrees");
        let one = fs::read_dir(registrations)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        let reason = format!("skein api-7: being made for {}", planned.path);
        fs::write(one.join("locked"), reason).unwrap();
        if moved {
            let dot_git = fs::read_to_string(one.join("gitdir")).unwrap();
            let folder = Path::new(dot_git.trim()).parent().unwrap().to_owned();
            fs::create_dir_all(Path::new(planned.path.as_str()).parent().unwrap()).unwrap();
            fs::rename(folder, planned.path.as_str()).unwrap();
        }
        let made = fixture.make(&planned);
        assert!(!fixture.provider.inspect(&made).unwrap().dirty);
        let locks = fixture
            .ground
            .project_sh("git worktree list --porcelain | grep ^locked");
        assert_eq!(locks, "locked skein api-7");
        assert_eq!(members(&fixture), 0);
    }
}

#[test]
fn l4_a_member_made_halfway_is_made_again() {
    let (fixture, pool) = fresh();
    let project = fixture.ground.project();
    pool.prepare(&project).unwrap();
    let registrations = Path::new(project.as_str()).join(".git/worktrees");
    let one = fs::read_dir(registrations)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    fs::write(one.join("locked"), "skein pool: being made").unwrap();
    assert_eq!(pool.prepare(&project).unwrap(), 1);
    assert_eq!(members(&fixture), 2);
}
