//! How many gits a spawn starts. Each costs more than everything else a spawn adds to a worktree.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use crate::harness::{Fleet, text};

/// A `git` that writes down what it is asked and then does it.
struct Counted {
    fleet: Fleet,
    path: String,
    log: PathBuf,
}

impl Counted {
    fn new() -> Self {
        let fleet = Fleet::without_project();
        let folder = fleet.home.user().join("counted");
        let log = folder.join("log");
        fs::create_dir(&folder).unwrap();
        // The first word that is no option or option's value is the subcommand.
        let script = format!(
            "#!/bin/sh\nn=0\nfor word do\n  if [ $n = 1 ]; then n=0; continue; fi\n  case $word in\n    \
             -C|-c) n=1 ;;\n    *) echo \"$word\" >> '{}'; break ;;\n  esac\ndone\nexec /usr/bin/git \"$@\"\n",
            log.display()
        );
        let git = folder.join("git");
        fs::write(&git, script).unwrap();
        fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", folder.display());
        let counted = Self { fleet, path, log };
        let repo = counted.fleet.repo.display().to_string();
        counted.json(&["project", "add", &repo, "--name", "api"]);
        counted
    }

    fn json(&self, args: &[&str]) -> serde_json::Value {
        let args = [&["--json"], args].concat();
        let output = self
            .fleet
            .command(&args)
            .env("PATH", &self.path)
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What git was asked until the agent was launched.
    fn gits(&self, more: &[&str]) -> Vec<String> {
        let _ = fs::remove_file(&self.log);
        self.spawn(more);
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        said.lines().map(str::to_owned).collect()
    }

    fn spawn(&self, more: &[&str]) -> String {
        let spawn = ["spawn", "--project", "api", "--agent", "scripted", "say hi"];
        text(&self.json(&[&spawn[..], more].concat())["id"])
    }
}

#[test]
fn a_spawn_looks_once_and_writes_twice() {
    let counted = Counted::new();
    // The first one in a repository finds out where it is.
    counted.spawn(&[]);
    let usual = ["cat-file", "worktree", "reset"];
    assert_eq!(counted.gits(&[]), usual);
    assert_eq!(counted.gits(&["--base", "main"]), usual);
    assert_eq!(counted.gits(&["--workspace", "none"]), [""; 0]);
}

#[test]
fn what_changed_since_the_last_spawn_is_seen() {
    let counted = Counted::new();
    counted.spawn(&[]);
    let fleet = &counted.fleet;
    let other = fleet.home.user().join("other");
    let (here, there) = (
        fleet.repo.display().to_string(),
        other.display().to_string(),
    );
    fleet.git(&["clone", "--quiet", &here, &there]);
    fs::write(other.join("theirs.txt"), "x").unwrap();
    fleet.git_in(&other, &["add", "."]);
    fleet.git_in(&other, &["commit", "--quiet", "--message", "theirs"]);
    fleet.git(&["remote", "add", "origin", &there]);
    let newest = counted.spawn(&[]);
    assert!(fleet.folder(&newest).join("theirs.txt").is_file());
}
