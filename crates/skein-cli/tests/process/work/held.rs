//! Every sort of work a session can hold, made in its folder by git itself.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Fleet, text};
use crate::work::tree::{Tree, tree};

/// What is done in the folder, and how git is asked about it.
pub(crate) struct Work {
    pub(crate) name: &'static str,
    script: &'static str,
    /// What must be the same once it is back, besides the files.
    look: &'static str,
    /// Whether something in it is neither committed nor on a branch.
    pub(crate) loose: bool,
    /// Whether a kill leaves the folder, since files in it are not committed.
    pub(crate) dirty: bool,
}

const STATUS: &str = "git status --porcelain --untracked-files=all; git log --oneline";
const CONFLICT: &str = "git branch other-$S; echo ours > two; git commit -qam ours; git switch -q other-$S; \
    echo theirs > two; git commit -qam theirs; git switch -q skein/$S";

pub(crate) const SORTS: [Work; 9] = [
    Work {
        name: "dirty",
        script: "echo changed > two; rm one; chmod +x src/three; ln -s two link; mv src/four src/five",
        look: STATUS,
        loose: true,
        dirty: true,
    },
    Work {
        name: "staged",
        script: "echo staged > two; git add two; echo later > two; echo new > new; git add new; rm new; git rm -q one",
        look: STATUS,
        loose: true,
        dirty: true,
    },
    Work {
        name: "untracked",
        script: "mkdir -p a/b; printf 'a\\000b' > a/b/bytes; echo x > 'with space'; echo y > \"$(printf 'new\\nline')\"",
        look: STATUS,
        loose: true,
        dirty: true,
    },
    Work {
        name: "copied",
        script: "grep -q SECRET=1 .env; echo SECRET=2 > .env",
        look: "cat .env; git status --porcelain",
        loose: true,
        dirty: true,
    },
    Work {
        name: "unpushed",
        script: "echo mine > two; git commit -qam mine; echo more > more; git add more; git commit -qm more",
        look: STATUS,
        loose: false,
        dirty: false,
    },
    Work {
        name: "detached",
        script: "git switch -q --detach; echo lost > two; git commit -qam lost",
        look: STATUS,
        loose: true,
        dirty: false,
    },
    Work {
        name: "rebase",
        script: "! git rebase -q other-$S; echo resolved > two; git add two; echo note > note",
        look: "git rev-parse HEAD; git diff --cached",
        loose: true,
        dirty: true,
    },
    Work {
        name: "merge",
        script: "! git merge -q other-$S; grep -q '<<<<' two; echo more >> two",
        look: "git log --oneline",
        loose: true,
        dirty: true,
    },
    Work {
        name: "submodule",
        script: "cd lib; git switch -qc topic; echo committed > committed; git add .; git commit -qm sub; \
                 echo staged > lib; git add lib; echo dirty >> lib; echo new > new",
        look: "git -C lib log --oneline; git -C lib status --porcelain; git -C lib branch --show-current",
        loose: true,
        dirty: true,
    },
];

/// A session at rest with work in its folder.
pub(crate) struct Held {
    pub(crate) id: String,
    pub(crate) work: &'static Work,
    pub(crate) folder: PathBuf,
    pub(crate) files: Tree,
    pub(crate) said: String,
}

/// A project with ignored files and a submodule, and an idle agent for each sort of work.
pub(crate) fn held() -> (Fleet, Vec<Held>) {
    let fleet = Fleet::new();
    fleet.configure("[protocol \"file\"]\n\tallow = always\n");
    let library = fleet.home.user().join("library");
    fs::create_dir(&library).unwrap();
    fleet.sh(
        &library,
        "git init -q .; echo lib > lib; git add .; git commit -qm lib",
    );
    fleet.sh(
        &fleet.repo,
        "git submodule --quiet add ../library lib; mkdir src; for f in one two src/three src/four; do echo $f > $f; done; \
         echo .env > .gitignore; echo SECRET=1 > .env; echo 'copy = [\".env\"]' > skein.toml; \
         git add .; git commit -qm project",
    );
    let tasks: Vec<String> = SORTS.iter().map(|w| format!("say {}", w.name)).collect();
    let tasks: Vec<&str> = tasks.iter().map(String::as_str).collect();
    let spawn = ["spawn", "--project", "api", "--agent", "scripted"];
    let list = fleet.json(&[&spawn, tasks.as_slice()].concat());
    let made = list["data"].as_array().unwrap();
    let held = SORTS.iter().zip(made).map(|(work, session)| {
        let id = text(&session["id"]);
        fleet.until_status(&id, "idle");
        assert_eq!(fleet.prompts(&id), [format!("say {}", work.name)]);
        hold(&fleet, id, work)
    });
    let held = held.collect();
    (fleet, held)
}

fn hold(fleet: &Fleet, id: String, work: &'static Work) -> Held {
    let folder = fleet.folder(&id);
    let before = match work.name {
        "rebase" | "merge" => CONFLICT,
        _ => ":",
    };
    fleet.sh(&folder, &format!("S={id}; {before}; {}", work.script));
    Held {
        files: tree(&folder),
        said: fleet.sh(&folder, work.look),
        id,
        work,
        folder,
    }
}

impl Held {
    /// The folder is as it was left, to the byte.
    pub(crate) fn assert_here(&self, fleet: &Fleet) {
        assert_eq!(tree(&self.folder), self.files, "{}", self.work.name);
        let said = fleet.sh(&self.folder, self.work.look);
        assert_eq!(said, self.said, "{}", self.work.name);
    }

    /// Another folder has all of its files, to the byte, but for those that are in the project as they were:
    /// its ignored files and its submodule.
    pub(crate) fn assert_in(&self, folder: &Path) {
        let there = tree(folder);
        for (path, entry) in &self.files {
            let name = self.work.name;
            let elsewhere = match name {
                "copied" => path.starts_with("lib"),
                "submodule" => path == Path::new(".env"),
                _ => path.starts_with("lib") || path == Path::new(".env"),
            };
            if elsewhere {
                continue;
            }
            assert_eq!(there.get(path), Some(entry), "{name}: {}", path.display());
        }
    }

    pub(crate) fn backups(&self, fleet: &Fleet) -> Vec<Value> {
        fleet.show(&self.id)["workspace"]["backups"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }
}

/// Whether a clean-up found nothing but the history of terminals.
pub(crate) fn only_logs(report: &Value) -> bool {
    let items = report["data"].as_array().unwrap();
    items.iter().all(|item| item["what"] == "log")
}
