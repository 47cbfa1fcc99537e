//! How commands find their project: by id, name or folder, and never beyond the repository they are in.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Home, Ran};

/// Runs a command in `folder`.
fn run(home: &Home, folder: &Path, args: &[&str]) -> Ran {
    let args = [&["--json"], args].concat();
    let mut command = home.command(&args);
    Ran::from(command.current_dir(folder).output().unwrap())
}

fn json_in(home: &Home, folder: &Path, args: &[&str]) -> Value {
    let ran = run(home, folder, args);
    assert_eq!(ran.code, 0, "{args:?} in {}: {ran:?}", folder.display());
    ran.document()
}

fn git(home: &Home, folder: &Path, args: &[&str]) {
    let ran = home.program("git").current_dir(folder).args(args).output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{args:?}: {ran:?}");
}

fn folder(home: &Home, path: &str) -> PathBuf {
    let folder = home.user().join(path);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn repository(home: &Home, path: &str) -> PathBuf {
    let folder = folder(home, path);
    git(home, &folder, &["init", "-q", "-b", "main"]);
    for (key, value) in [("user.name", "t"), ("user.email", "t@example.com")] {
        git(home, &folder, &["config", key, value]);
    }
    git(
        home,
        &folder,
        &["commit", "-q", "--allow-empty", "-m", "begin"],
    );
    folder
}

#[test]
fn a_project_can_be_given_by_any_folder_in_it_wherever_it_can_be_given() {
    let home = Home::new();
    let api = repository(&home, "api");
    let inside = folder(&home, "api/src/deep");
    let project = json_in(&home, &api, &["init"])["project"]["id"].clone();
    let spawned = ["spawn", "--agent", "none", "work", "--project"];
    let session = json_in(&home, &home.user(), &[&spawned[..], &["api"]].concat());
    let absolute = inside.to_str().unwrap();
    for (from, reference) in [
        (&api, "."),
        (&inside, "."),
        (&inside, ".."),
        (&inside, "../.."),
        (&home.user(), "api"),
        (&home.user(), "./api/src"),
        (&home.user(), "api/"),
        (&home.user(), absolute),
    ] {
        let of = |args: &[&str], name: &str| {
            let args = [args, &[reference]].concat();
            json_in(&home, from, &args)[name].clone()
        };
        assert_eq!(of(&spawned, "project"), project, "{reference}");
        assert_eq!(of(&["thread", "new", "T", "--project"], "project"), project);
        assert_eq!(of(&["project", "show"], "id"), project);
        assert_eq!(of(&["project", "set", "--depth", "3"], "id"), project);
        let ids = |args: &[&str]| {
            let list = of(args, "data");
            let items = list.as_array().unwrap().iter();
            items.map(|item| item["id"].clone()).collect::<Vec<_>>()
        };
        assert!(ids(&["ls", "--project"]).contains(&session["id"]));
        assert!(ids(&["thread", "ls", "--project"]).contains(&session["thread"]));
        assert!(of(&["agent", "ls", "--project"], "data").is_array());
        assert!(of(&["transcript", "search", "x", "--project"], "data").is_array());
    }
    json_in(
        &home,
        &home.user(),
        &["project", "add", "--no-folder", "--name", "gone"],
    );
    folder(&home, "api/gone");
    let removed = json_in(&home, &api, &["project", "rm", "gone"]);
    assert_eq!(removed["name"], "gone");
    let missing = run(&home, &api, &["ls", "--project", "./nope"]);
    assert_eq!(missing.code, 2, "{missing:?}");
    let outside = run(&home, &api, &["ls", "--project", "/"]);
    assert_eq!(outside.code, 3, "{outside:?}");
}

#[test]
fn an_id_or_a_name_wins_over_a_folder() {
    let home = Home::new();
    let alpha = repository(&home, "alpha");
    folder(&home, "alpha/beta");
    json_in(&home, &alpha, &["init"]);
    let here = ["project", "show", "beta"];
    assert_eq!(json_in(&home, &alpha, &here)["name"], "alpha");
    let beta = ["project", "add", "--no-folder", "--name", "beta"];
    let beta = json_in(&home, &alpha, &beta);
    assert_eq!(json_in(&home, &alpha, &here)["name"], "beta");
    let path = ["project", "show", "./beta"];
    assert_eq!(json_in(&home, &alpha, &path)["name"], "alpha");
    // The beginning of an id counts as an id.
    let prefix = &beta["id"].as_str().unwrap()[..9];
    folder(&home, &format!("alpha/{prefix}"));
    let shown = json_in(&home, &alpha, &["project", "show", prefix]);
    assert_eq!(shown["name"], "beta");
}

#[test]
fn a_repository_is_no_part_of_the_project_around_it() {
    let home = Home::new();
    let work = folder(&home, "work");
    json_in(&home, &work, &["project", "add"]);
    let (api, inside) = (repository(&home, "work/api"), folder(&home, "work/api/src"));
    let root = api.canonicalize().unwrap();
    let root = root.to_str().unwrap();
    for args in [
        &["spawn", "--agent", "none", "fix it"][..],
        &["thread", "new", "T"],
        &["project", "show"],
        &["ls", "--project", "."],
    ] {
        let ran = run(&home, &inside, args);
        assert_eq!(ran.code, 3, "{args:?}: {ran:?}");
        let error = ran.error();
        let message = format!("the repository `{root}` is not a project yet");
        assert_eq!(error["message"], message);
        let add = format!("`skein project add {root}` adds it");
        let around = "`--project work` uses the project around it";
        assert_eq!(error["hints"], json!([add, around]), "{args:?}");
    }
    assert_eq!(home.json(&["ls", "--all"])["data"], json!([]));
    let other = folder(&home, "elsewhere");
    let ran = run(&home, &other, &["spawn", "--agent", "none", "fix it"]);
    let message = ran.error()["message"].clone();
    assert!(
        message.to_string().contains("is not in a project"),
        "{ran:?}"
    );
    json_in(&home, &api, &["project", "add", "."]);
    let spawned = json_in(&home, &inside, &["spawn", "--agent", "none", "fix it"]);
    let project = json_in(&home, &inside, &["project", "show"]);
    assert_eq!(
        (&spawned["project"], &project["name"]),
        (&project["id"], &json!("api"))
    );
}

#[test]
fn a_linked_worktree_belongs_to_the_project_of_its_repository() {
    let home = Home::new();
    let api = repository(&home, "api");
    json_in(&home, &api, &["init"]);
    let around = folder(&home, "others");
    json_in(&home, &around, &["project", "add"]);
    for path in ["../others/linked", "inside/linked"] {
        git(&home, &api, &["worktree", "add", "-q", "--detach", path]);
        let shown = json_in(&home, &api.join(path), &["project", "show"]);
        assert_eq!(shown["name"], "api", "{path}");
    }
}
