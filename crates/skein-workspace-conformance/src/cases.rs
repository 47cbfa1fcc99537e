//! The cases, for [`crate::workspace_conformance`].

use std::fs;
use std::path::Path;
use std::time::Duration;

use skein_domain::{Kind, Workspace, WorkspaceOrigin, WorkspaceState};

use crate::{Ability, Fixture};
use skein_workspace::error::Error;
use skein_workspace::provider::{Removal, WorkspaceSetup};

fn write(workspace: &Workspace, name: &str, text: &str) {
    fs::write(Path::new(workspace.path.as_str()).join(name), text).unwrap();
}

fn root_entries(fixture: &Fixture) -> Vec<String> {
    let entries = fs::read_dir(fixture.ground.root()).into_iter().flatten();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        // An empty folder for locks may stay.
        .filter(|name| name != ".locks")
        .collect();
    names.sort();
    names
}

pub fn a_plan_touches_nothing(fixture: &Fixture) {
    let refs = fixture.can(Ability::Git).then(|| fixture.ground.refs());
    let plan = fixture.provider.plan(&fixture.plan()).unwrap();
    assert_eq!(plan.kind, fixture.provider.kind());
    assert_eq!(plan.state, WorkspaceState::Planned);
    assert_eq!(
        plan.is_managed(),
        fixture.abilities.contains(&Ability::Managed)
    );
    assert!(!fixture.ground.root().exists());
    if let Some(refs) = refs {
        assert_eq!(fixture.ground.refs(), refs);
    }
}

pub fn a_plan_without_a_folder_is_refused_or_needs_none(fixture: &Fixture) {
    let plan = skein_workspace::provider::Plan {
        project: None,
        ..fixture.plan()
    };
    match fixture.provider.plan(&plan) {
        Ok(workspace) => assert_eq!(workspace.repo, None),
        Err(e) => assert_eq!((e.kind(), e.hints().len()), (Kind::Misuse, 1)),
    }
}

pub fn made_is_ready_and_there(fixture: &Fixture) {
    let planned = fixture.provider.plan(&fixture.plan()).unwrap();
    let made = fixture.provider.make(&fixture.session(), &planned).unwrap();
    assert!(made.anew);
    assert_eq!(made.workspace.state, WorkspaceState::Ready);
    assert_eq!(made.workspace.path, planned.path);
    assert!(Path::new(planned.path.as_str()).is_dir());
    assert!(made.workspace.base_commit.is_some() || !fixture.can(Ability::Git));
}

pub fn making_twice_is_making_once(fixture: &Fixture) {
    let made = fixture.made();
    write(&made, "work", "mine");
    let again = fixture.provider.make(&fixture.session(), &made).unwrap();
    assert!(!again.anew);
    assert_eq!(again.workspace, made);
    let file = Path::new(made.path.as_str()).join("work");
    assert_eq!(fs::read_to_string(file).unwrap(), "mine");
}

pub fn an_unrecorded_workspace_needs_setup(fixture: &Fixture) {
    let planned = fixture.provider.plan(&fixture.plan()).unwrap();
    fixture.make(&planned);
    let again = fixture.provider.make(&fixture.session(), &planned).unwrap();
    assert!(again.anew);
}

pub fn l5_fresh_is_clean(fixture: &Fixture) {
    let made = fixture.made();
    let contents = fixture.provider.inspect(&made).unwrap();
    assert!(!contents.dirty && contents.in_progress.is_none());
    // The project's own folder may well have commits of its own.
    assert!(contents.own_commits == 0 || !fixture.can(Ability::Managed));
}

pub fn l5_files_are_seen(fixture: &Fixture) {
    if !fixture.can(Ability::Managed) && !fixture.can(Ability::Git) {
        return;
    }
    let made = fixture.made();
    write(&made, "work", "mine");
    assert!(fixture.provider.inspect(&made).unwrap().dirty);
}

pub fn l5_removal_keeps_work(fixture: &Fixture) {
    let made = fixture.made();
    write(&made, "work", "mine");
    let refused = fixture
        .provider
        .remove(&made, Removal::KeepWork)
        .unwrap_err();
    assert_eq!(refused.kind(), Kind::Refused);
    let file = Path::new(made.path.as_str()).join("work");
    assert_eq!(fs::read_to_string(file).unwrap(), "mine");
    if fixture.can(Ability::Managed) {
        assert!(matches!(refused, Error::HoldsWork { .. }), "{refused}");
    }
}

pub fn l5_clean_goes_without_a_trace(fixture: &Fixture) {
    if !fixture.can(Ability::Managed) {
        return;
    }
    let refs = fixture
        .abilities
        .contains(&Ability::Git)
        .then(|| fixture.ground.refs());
    let made = fixture.made();
    fixture.provider.remove(&made, Removal::KeepWork).unwrap();
    assert!(!Path::new(made.path.as_str()).exists());
    assert_eq!(root_entries(fixture), Vec::<String>::new());
    let locks = fs::read_dir(fixture.ground.root().join(".locks"));
    assert_eq!(locks.into_iter().flatten().count(), 0);
    if let Some(refs) = refs {
        assert_eq!(fixture.ground.refs(), refs);
    }
}

pub fn removing_twice_is_removing_once(fixture: &Fixture) {
    if !fixture.can(Ability::Managed) {
        return;
    }
    let made = fixture.made();
    for _ in 0..2 {
        fixture.provider.remove(&made, Removal::KeepWork).unwrap();
    }
    // Nor does it matter that it was never made.
    let planned = fixture.provider.plan(&fixture.plan()).unwrap();
    fixture
        .provider
        .remove(&planned, Removal::KeepWork)
        .unwrap();
}

pub fn a_removal_cut_short_is_completed(fixture: &Fixture) {
    if !fixture.can(Ability::Managed) {
        return;
    }
    let made = fixture.made();
    // As after a kill -9 in the middle: out of its place, half deleted.
    let trash = fixture.ground.root().join(".trash");
    fs::create_dir_all(&trash).unwrap();
    fs::rename(made.path.as_str(), trash.join("default.api-7")).unwrap();
    fixture.provider.remove(&made, Removal::KeepWork).unwrap();
    assert_eq!(root_entries(fixture), Vec::<String>::new());
}

pub fn l5_what_is_not_ours_stays(fixture: &Fixture) {
    let made = fixture.made();
    let elsewhere = fixture.ground.path("elsewhere");
    fs::write(elsewhere.join("file"), "theirs").unwrap();
    for path in [
        elsewhere.to_str().unwrap(),
        "/",
        fixture.ground.root().to_str().unwrap(),
    ] {
        for origin in [
            WorkspaceOrigin::Made,
            WorkspaceOrigin::Adopted,
            WorkspaceOrigin::Given,
        ] {
            let other = Workspace {
                path: path.parse().unwrap(),
                origin,
                ..made.clone()
            };
            let refused = fixture
                .provider
                .remove(&other, Removal::Discard)
                .unwrap_err();
            assert!(matches!(refused, Error::Unmanaged { .. }), "{refused}");
        }
    }
    assert!(elsewhere.join("file").exists());
}

/// Every sort of change at once.
fn dirty(fixture: &Fixture, workspace: &Workspace) {
    fixture.ground.sh(
        workspace.path.as_str(),
        "echo staged > two && git add two && echo unstaged >> two && echo new > 'src/new file' \
         && echo added > added && git add added && rm src/one && ln -s two link && chmod -x run.sh \
         && printf '\\000\\377' > binary && mkdir -p deep/er && echo x > deep/er/x",
    );
}

pub fn l5_a_backup_changes_nothing(fixture: &Fixture) {
    if !fixture.can(Ability::Git) {
        return;
    }
    let made = fixture.made();
    dirty(fixture, &made);
    let index = fixture
        .ground
        .sh(made.path.as_str(), "git rev-parse --absolute-git-dir");
    let index = Path::new(&index).join("index");
    let before = (
        fixture.ground.files(made.path.as_str()),
        fs::read(&index).unwrap(),
        fixture.ground.sh(
            made.path.as_str(),
            "git rev-parse HEAD; git symbolic-ref HEAD",
        ),
    );
    let (_, backup) = fixture.backed_up(&made);
    assert_eq!((backup.n, backup.at), (1, fixture.now()));
    let after = (
        fixture.ground.files(made.path.as_str()),
        fs::read(&index).unwrap(),
        fixture.ground.sh(
            made.path.as_str(),
            "git rev-parse HEAD; git symbolic-ref HEAD",
        ),
    );
    assert!(before == after);
    let kept = fixture
        .ground
        .project_sh("git rev-parse refs/skein/backup/api-7/1");
    assert_eq!(kept, backup.commit.as_str());
    let litter = fs::read_dir(index.parent().unwrap()).unwrap();
    let litter = litter.filter(|e| {
        let name = e.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with("skein-")
    });
    assert_eq!(litter.count(), 0);
}

pub fn l5_nothing_to_keep_is_no_backup(fixture: &Fixture) {
    let made = fixture.made();
    let session = fixture.session();
    let backup = fixture
        .provider
        .backup(&session, &made, &fixture.saga(1), fixture.now())
        .unwrap();
    assert_eq!(backup, None);
}

pub fn l5_a_backup_made_twice_is_one(fixture: &Fixture) {
    if !fixture.can(Ability::Git) {
        return;
    }
    let made = fixture.made();
    dirty(fixture, &made);
    let session = fixture.session();
    let make = |n| {
        fixture
            .provider
            .backup(&session, &made, &fixture.saga(n), fixture.now())
            .unwrap()
    };
    let refs = || {
        fixture
            .ground
            .project_sh("git for-each-ref --format='%(refname)' refs/skein/backup")
    };
    assert_eq!(make(3), make(3));
    assert_eq!(refs(), "refs/skein/backup/api-7/1");
    // What was written since gets in by being repeated; another saga has a ref of its own.
    let first = make(3).unwrap();
    write(&made, "later", "mine");
    let again = make(3).unwrap();
    assert_eq!(again.n, 1);
    assert_ne!(again.commit, first.commit);
    assert_eq!(make(4).unwrap().n, 2);
    assert_eq!(refs().lines().count(), 2);
    if fixture.can(Ability::Managed) {
        fixture.provider.remove(&made, Removal::Discard).unwrap();
        let found = make(3).unwrap();
        assert_eq!((found.n, found.at), (1, fixture.now()));
    }
}

pub fn l5_what_came_after_the_backup_is_not_removed(fixture: &Fixture) {
    if !fixture.can(Ability::Git) || !fixture.can(Ability::Managed) {
        return;
    }
    let mut made = fixture.made();
    dirty(fixture, &made);
    for later in [
        "echo late > late",
        "echo other >> two",
        // Only the index has it.
        "cp two keep && echo staged late > two && git add two && mv keep two",
        "git stash -q && git stash apply -q && echo x >> two",
    ] {
        made = fixture.backed_up(&made).0;
        fixture.ground.sh(made.path.as_str(), later);
        let refused = fixture
            .provider
            .remove(&made, Removal::BackedUp)
            .unwrap_err();
        assert!(matches!(refused, Error::HoldsWork { .. }), "{refused}");
        assert!(Path::new(made.path.as_str()).is_dir(), "{later}");
    }
    // A backup that is in no record may be another home's.
    let stranger = Workspace {
        backups: vec![],
        ..fixture.backed_up(&made).0
    };
    let refused = fixture.provider.remove(&stranger, Removal::BackedUp);
    assert!(matches!(refused, Err(Error::HoldsWork { .. })));
    made = fixture.backed_up(&made).0;
    fixture.provider.remove(&made, Removal::BackedUp).unwrap();
    assert!(!Path::new(made.path.as_str()).exists());
}

pub fn l5_work_comes_back_byte_for_byte(fixture: &Fixture) {
    if !fixture.can(Ability::Git) || !fixture.can(Ability::Managed) {
        return;
    }
    let made = fixture.made();
    dirty(fixture, &made);
    let status =
        "git status --porcelain=v2 --untracked-files=all; git diff --cached; git log --oneline";
    let before = (
        fixture.ground.files(made.path.as_str()),
        fixture.ground.sh(made.path.as_str(), status),
    );
    let (made, _) = fixture.backed_up(&made);
    fixture.provider.remove(&made, Removal::BackedUp).unwrap();
    assert!(!Path::new(made.path.as_str()).exists());
    let again = fixture.make_again(&made);
    let after = (
        fixture.ground.files(again.path.as_str()),
        fixture.ground.sh(again.path.as_str(), status),
    );
    assert_eq!(before, after);
    // Brought back once; what happens to it from here on is not undone by another restore.
    fixture.ground.sh(
        again.path.as_str(),
        "git reset -q --hard && git clean -qfdx",
    );
    fixture.provider.remove(&again, Removal::KeepWork).unwrap();
    let third = fixture.make_again(&again);
    assert!(!fixture.provider.inspect(&third).unwrap().dirty);
}

pub fn l5_what_was_dropped_stays_away(fixture: &Fixture) {
    if !fixture.can(Ability::Git) || !fixture.can(Ability::Managed) {
        return;
    }
    let made = fixture.made();
    dirty(fixture, &made);
    let (made, _) = fixture.backed_up(&made);
    write(&made, "later", "dropped");
    fixture.provider.remove(&made, Removal::Discard).unwrap();
    let again = fixture.make_again(&made);
    assert!(!fixture.provider.inspect(&again).unwrap().dirty);
}

pub fn differences_show_everything(fixture: &Fixture) {
    let made = fixture.made();
    assert_eq!(fixture.provider.diff(&made, false).unwrap(), "");
    if !fixture.can(Ability::Git) {
        return;
    }
    dirty(fixture, &made);
    if fixture.can(Ability::Managed) {
        fixture
            .ground
            .sh(made.path.as_str(), "git commit -qm committed");
    }
    let diff = fixture.provider.diff(&made, false).unwrap();
    for part in [
        "+unstaged",
        "+++ b/src/new file",
        "+added",
        "deleted file",
        "deep/er/x",
    ] {
        assert!(diff.contains(part), "{part}\n{diff}");
    }
    let stat = fixture.provider.diff(&made, true).unwrap();
    assert!(
        stat.contains("src/new file") && stat.contains("changed"),
        "{stat}"
    );
}

fn set_up(
    fixture: &Fixture,
    setup: &[&str],
    timeout: Duration,
) -> (Result<(), Error>, Vec<String>) {
    let made = fixture.made();
    let furnishing = WorkspaceSetup {
        setup: setup.iter().map(|s| (*s).to_owned()).collect(),
        timeout: Some(timeout),
        env: [("COLOUR".to_owned(), "green".to_owned())].into(),
        ..WorkspaceSetup::default()
    };
    let mut told = Vec::new();
    let result = fixture
        .provider
        .furnish(&made, &furnishing, &mut |line| told.push(line.to_owned()));
    (result, told)
}

pub fn set_up_is_told_line_by_line(fixture: &Fixture) {
    let script = ["printf 'a\\nb\\r\\n'; echo c >&2", "echo $COLOUR; pwd; cat"];
    let (result, told) = set_up(fixture, &script, Duration::from_secs(60));
    result.unwrap();
    for line in ["a", "b", "c", "green"] {
        assert!(told.iter().any(|t| t == line), "{line} {told:?}");
    }
}

pub fn set_up_that_fails_says_why(fixture: &Fixture) {
    let (result, told) = set_up(
        fixture,
        &["echo the reason >&2; exit 7", "echo never"],
        Duration::from_secs(60),
    );
    match result {
        Err(Error::SetupFailed { status, tail, .. }) => {
            assert_eq!((status.as_str(), tail.as_str()), ("status 7", "the reason"));
        }
        other => panic!("{other:?}"),
    }
    assert!(!told.iter().any(|t| t == "never"));
}

pub fn set_up_that_hangs_is_ended(fixture: &Fixture) {
    let (result, _) = set_up(
        fixture,
        &["sleep 600 & sleep 600"],
        Duration::from_millis(200),
    );
    let refused = result.unwrap_err();
    assert_eq!(refused.kind(), Kind::TimedOut);
    assert_eq!(refused.hints().len(), 1);
}

pub fn l14_set_up_gets_only_its_environment(fixture: &Fixture) {
    let (result, told) = set_up(fixture, &["env"], Duration::from_secs(60));
    result.unwrap();
    assert!(told.iter().any(|t| t == "COLOUR=green"));
    // The test runner's own, which a secret would be like.
    assert!(
        !told.iter().any(|t| t.starts_with("CARGO_MANIFEST_DIR=")),
        "{told:?}"
    );
}

pub fn l15_tenants_are_names(fixture: &Fixture) {
    if !fixture.can(Ability::Managed) {
        return;
    }
    for tenant in ["", "..", "a/b", ".pool", "-x"] {
        let plan = skein_workspace::provider::Plan {
            tenant: tenant.into(),
            ..fixture.plan()
        };
        let refused = fixture.provider.plan(&plan).unwrap_err();
        assert_eq!(refused.kind(), Kind::Misuse, "{tenant}");
    }
}
