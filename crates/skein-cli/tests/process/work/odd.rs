//! Odd states of git, from spawn to kill, clean-up and restore: nothing in them is lost, and operations in progress
//! go on. `skein-workspace` has the whole table; here are the ones that matter most to users, in one fleet.

use std::path::PathBuf;

use crate::harness::{Fleet, text};
use crate::work::tree::{Tree, tree};

struct Odd {
    name: &'static str,
    workspace: &'static str,
    make: &'static str,
    look: &'static str,
    /// Goes on with the work once it is back.
    after: &'static str,
}

const CONFLICT: &str = "git branch other-$S; echo ours > two; git commit -qam ours; git switch -q other-$S; \
    echo theirs > two; git commit -qam theirs; git switch -q -;";

const ODD: [Odd; 7] = [
    Odd {
        name: "rebase",
        workspace: "worktree",
        make: "! git rebase -q other-$S",
        look: "git status; git ls-files --stage",
        after: "echo both > two; git add two; GIT_EDITOR=true git rebase --continue; \
                test \"$(git branch --show-current)\" = skein/$S; git log -1 --format=%s | grep -x ours",
    },
    Odd {
        name: "merge",
        workspace: "clone",
        make: "! git merge -q other-$S",
        look: "git status; git ls-files --stage",
        after: "git checkout -q --theirs two; git add two; git commit -q --no-edit; git rev-parse HEAD^2",
    },
    Odd {
        name: "bisect",
        workspace: "worktree",
        make: "for i in 1 2 3 4; do echo $i > two; git commit -qam $i; done; git bisect start HEAD HEAD~4",
        look: "git bisect log; git rev-parse HEAD; git for-each-ref refs/bisect",
        after: "git bisect good; git bisect reset",
    },
    Odd {
        name: "nested",
        workspace: "worktree",
        make: "for d in a a/b a/b/c; do git init -q -b main $d; echo $d > $d/f; git -C $d add f; git -C $d commit -qm $d; \
               echo dirty >> $d/f; echo new > $d/new; git -C $d add new; done; git -C a/b checkout -q --detach",
        look: "for d in . a a/b a/b/c; do git -C $d status --porcelain --branch; git -C $d log --oneline -1; done",
        after: "git -C a/b/c commit -qm more",
    },
    Odd {
        name: "case",
        workspace: "worktree",
        make: "git config core.ignorecase true; echo mine > TWO; chmod +x two; git config core.fileMode false",
        look: "cat TWO; ls -l two | cut -c1-10",
        after: "git config --unset core.ignorecase; git config --unset core.fileMode",
    },
    Odd {
        name: "claimed",
        workspace: "clone",
        make: "echo mine > mine; git add mine; git commit -qm mine; git update-ref refs/remotes/origin/mine HEAD; \
               git switch -q --detach HEAD~1; git branch -qD skein/$S",
        look: "git show refs/remotes/origin/mine:mine",
        after: ":",
    },
    Odd {
        name: "filters",
        workspace: "worktree",
        make: "git config filter.lossy.clean 'echo lost'; git config filter.must.clean false; \
               git config filter.must.required true; printf '*.l filter=lossy\\n*.m filter=must\\n' > .gitattributes; \
               echo precious > f.l; echo precious > f.m; mkfifo pipe",
        look: "cat f.l f.m",
        after: "git config --remove-section filter.lossy; git config --remove-section filter.must",
    },
];

#[test]
fn l5_odd_states_survive_kill_clean_up_and_restore() {
    let fleet = Fleet::new();
    fleet.sh(
        &fleet.repo,
        "echo two > two; git add two; git commit -qm two",
    );
    let mut held: Vec<(&Odd, String, PathBuf, Tree, String)> = Vec::new();
    for odd in &ODD {
        let id = fleet.spawn("say ready", &["--workspace", odd.workspace]);
        fleet.until_status(&id, "idle");
        let folder = PathBuf::from(text(&fleet.show(&id)["workspace"]["path"]));
        let before = match odd.name {
            "rebase" | "merge" => CONFLICT,
            _ => ":;",
        };
        fleet.sh(&folder, &format!("S={id}; {before} {}", odd.make));
        let said = fleet.sh(&folder, odd.look);
        held.push((odd, id, folder.clone(), tree(&folder), said));
    }
    let main = fleet.main_state();
    for (odd, id, ..) in &held {
        let ran = fleet.run(&["kill", id]);
        assert_eq!(ran.code, 0, "{}: {ran:?}", odd.name);
    }
    let report = fleet.json(&["gc", "--older-than", "0s"]);
    for (odd, _, folder, ..) in &held {
        assert!(!folder.exists(), "{}: {report}", odd.name);
    }
    fleet.git(&["prune", "--expire=now"]);
    for (odd, id, folder, files, said) in &held {
        let restored = fleet.json(&["restore", id]);
        assert_eq!(text(&restored["id"]), *id);
        fleet.until_status(id, "idle");
        assert_eq!(tree(folder), *files, "{}", odd.name);
        assert_eq!(fleet.sh(folder, odd.look), *said, "{}", odd.name);
        fleet.sh(folder, &format!("S={id}; {}", odd.after));
    }
    assert_eq!(fleet.main_state(), main, "the project's folder is not ours");
}
