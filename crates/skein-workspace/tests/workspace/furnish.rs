//! Copies and links of ignored files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use skein_domain::{Kind, Workspace};
use skein_workspace::provider::{Result, WorkspaceSetup};
use skein_workspace::{Worktree, adopt_with};
use skein_workspace_conformance::{Ability, Fixture, Ground};

fn fresh() -> Fixture {
    let ground = Ground::new();
    ground.project_sh(
        "echo A > .env; chmod 600 .env; mkdir -p sub node_modules/x; echo S > sub/b.secret; echo m > node_modules/x/m; \
         echo plain > untracked",
    );
    Fixture {
        provider: Box::new(Worktree::new(ground.root(), ground.options())),
        ground,
        abilities: vec![Ability::Managed, Ability::Git],
    }
}

fn furnish(fixture: &Fixture, copy: &[&str], symlink: &[&str]) -> (Result<()>, Vec<String>) {
    let made = fixture.made();
    furnish_more(fixture, &made, copy, symlink)
}

fn furnish_more(
    fixture: &Fixture,
    made: &Workspace,
    copy: &[&str],
    symlink: &[&str],
) -> (Result<()>, Vec<String>) {
    let own = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
    let furnishing = WorkspaceSetup {
        copy: own(copy),
        symlink: own(symlink),
        ..WorkspaceSetup::default()
    };
    let mut told = Vec::new();
    let result = fixture
        .provider
        .furnish(made, &furnishing, &mut |line| told.push(line.to_owned()));
    (result, told)
}

fn folder(fixture: &Fixture) -> std::path::PathBuf {
    fixture.ground.root().join("default/api-7")
}

#[test]
fn ignored_files_are_copied_with_their_mode_and_linked() {
    let fixture = fresh();
    let (result, told) = furnish(
        &fixture,
        &[".env", "**/*.secret", "nothing/*"],
        &["node_modules"],
    );
    result.unwrap();
    let folder = folder(&fixture);
    assert_eq!(fs::read_to_string(folder.join(".env")).unwrap(), "A\n");
    let mode = fs::metadata(folder.join(".env"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(
        fs::read_to_string(folder.join("sub/b.secret")).unwrap(),
        "S\n"
    );
    assert!(
        told.iter().any(|t| t == "nothing to copy for `nothing/*`"),
        "{told:?}"
    );
    // The rule is `node_modules/`: a link of that name would not be ignored, links in it are.
    assert!(!folder.join("node_modules").is_symlink());
    assert!(folder.join("node_modules/x").is_symlink());
    assert_eq!(
        fs::read_to_string(folder.join("node_modules/x/m")).unwrap(),
        "m\n"
    );
    assert_eq!(fixture.ground.sh(&folder, "git status --porcelain"), "");
}

#[test]
fn links_are_made_where_the_link_is_ignored_too() {
    let fixture = fresh();
    fixture
        .ground
        .project_sh("echo node_modules >> .gitignore; git commit -qam ignore");
    let (result, _) = furnish(&fixture, &[], &["node_modules", "sub/*.secret"]);
    result.unwrap();
    let folder = folder(&fixture);
    let target = fs::read_link(folder.join("node_modules")).unwrap();
    assert_eq!(
        target,
        Path::new(fixture.ground.project().as_str()).join("node_modules")
    );
    assert!(folder.join("sub/b.secret").is_symlink());
    assert_eq!(fixture.ground.sh(&folder, "git status --porcelain"), "");
}

#[test]
fn l15_what_is_tracked_outside_or_not_ignored_is_refused() {
    let fixture = fresh();
    fs::write(fixture.ground.path("elsewhere/out.secret"), "x").unwrap();
    fixture
        .ground
        .project_sh("ln -s ../elsewhere/out.secret link.secret; ln -s ../elsewhere dir.secret");
    let made = fixture.made();
    for bad in [
        "two",
        "untracked",
        "../elsewhere/out.secret",
        "/etc/passwd",
        "",
        ".git/config",
        "link.secret",
        "dir.secret",
        "a/../.env",
    ] {
        for (copy, symlink) in [(vec![bad], vec![]), (vec![], vec![bad])] {
            let (result, _) = furnish_more(&fixture, &made, &copy, &symlink);
            assert_eq!(result.unwrap_err().kind(), Kind::Misuse, "{bad}");
        }
    }
}

#[test]
fn what_another_branch_does_not_ignore_is_left_out() {
    let fixture = fresh();
    fixture.ground.project_sh("git branch bare; git switch -q bare; git rm -q .gitignore; git commit -qm no; git switch -q main");
    let plan = skein_workspace::provider::Plan {
        base: Some("bare".parse().unwrap()),
        ..fixture.plan()
    };
    let made = fixture.make(&fixture.provider.plan(&plan).unwrap());
    let furnishing = WorkspaceSetup {
        copy: vec![".env".into()],
        ..WorkspaceSetup::default()
    };
    let mut told = Vec::new();
    fixture
        .provider
        .furnish(&made, &furnishing, &mut |line| told.push(line.to_owned()))
        .unwrap();
    assert_eq!(told, ["skipped .env: the branch does not ignore it"]);
    assert!(!Path::new(made.path.as_str()).join(".env").exists());
}

#[test]
fn l5_a_worktree_made_by_hand_is_adopted_and_never_removed() {
    let fixture = fresh();
    fixture.ground.project_sh(
        "git worktree add -q -b mine ../by-hand; git worktree add -q --detach ../detached",
    );
    let git = fixture.ground.git();
    let project = fixture.ground.project();
    let path = |name: &str| fixture.ground.path(name).to_str().unwrap().parse().unwrap();
    let adopted = adopt_with(&git, &project, &path("by-hand")).unwrap();
    assert_eq!(adopted.branch.as_ref().unwrap().as_str(), "mine");
    let made = fixture.provider.make(&fixture.session(), &adopted).unwrap();
    assert!(!made.anew);
    fs::write(fixture.ground.path("by-hand/x"), "x").unwrap();
    assert!(fixture.provider.inspect(&adopted).unwrap().dirty);
    assert!(
        fixture
            .provider
            .backup(
                &fixture.session(),
                &adopted,
                &fixture.saga(1),
                fixture.now()
            )
            .unwrap()
            .is_some()
    );
    for removal in [
        skein_workspace::provider::Removal::KeepWork,
        skein_workspace::provider::Removal::Discard,
    ] {
        assert_eq!(
            fixture
                .provider
                .remove(&adopted, removal)
                .unwrap_err()
                .kind(),
            Kind::Refused
        );
    }
    fs::create_dir(fixture.ground.path("by-hand/inner")).unwrap();
    for bad in ["detached", "elsewhere", "by-hand/inner", "nowhere"] {
        assert!(adopt_with(&git, &project, &path(bad)).is_err(), "{bad}");
    }
    assert!(adopt_with(&git, &project, &project).is_err());
}
