//! What a folder holds, whole, and what people do in one.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::harness::{Fleet, eventually};

/// One thing in a folder.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    File { bytes: Vec<u8>, executable: bool },
    Link(PathBuf),
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File { bytes, executable } => {
                write!(f, "{:?} {executable}", String::from_utf8_lossy(bytes))
            }
            Self::Link(to) => write!(f, "-> {}", to.display()),
        }
    }
}

pub(crate) type Tree = BTreeMap<PathBuf, Entry>;

/// Everything in a folder but what git keeps for itself.
pub(crate) fn tree(folder: &Path) -> Tree {
    let mut found = Tree::new();
    walk(folder, Path::new(""), &mut found);
    found
}

/// Everything in a folder.
pub(crate) fn everything(folder: &Path) -> Tree {
    let mut found = Tree::new();
    walk_all(folder, Path::new(""), &mut found, &|_| true);
    found
}

fn walk(folder: &Path, below: &Path, found: &mut Tree) {
    walk_all(folder, below, found, &|name| name != ".git");
}

fn walk_all(folder: &Path, below: &Path, found: &mut Tree, wanted: &dyn Fn(&str) -> bool) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name();
        if !wanted(&name.to_string_lossy()) {
            continue;
        }
        let (path, inner) = (entry.path(), below.join(&name));
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            walk_all(&path, &inner, found, wanted);
        } else if kind.is_symlink() {
            found.insert(inner, Entry::Link(fs::read_link(&path).unwrap()));
        } else if kind.is_file() {
            let executable = entry.metadata().unwrap().permissions().mode() & 0o100 != 0;
            let bytes = fs::read(&path).unwrap();
            found.insert(inner, Entry::File { bytes, executable });
        }
    }
}

impl Fleet {
    /// A script that must succeed, as the user would run it.
    pub(crate) fn sh(&self, folder: &Path, script: &str) -> String {
        let output = self
            .home
            .program("sh")
            .current_dir(folder)
            .args(["-ec", script])
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            output.status.success(),
            "{script}\n{}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout).trim_end().to_owned()
    }

    /// Adds lines to the user's git settings.
    pub(crate) fn configure(&self, lines: &str) {
        let file = self.home.user().join(".gitconfig");
        let before = fs::read_to_string(&file).unwrap();
        fs::write(file, format!("{before}{lines}")).unwrap();
    }

    /// Waits until so many processes of agents are left.
    pub(crate) fn until_agents(&self, count: usize) {
        eventually(
            || (self.agents().len() == count).then_some(()),
            || format!("{:?}", self.agents()),
        );
    }

    /// All refs of the project's repository, with what they point to.
    pub(crate) fn refs(&self) -> String {
        self.git(&["for-each-ref", "--format=%(refname) %(objectname)"])
    }

    /// The project's own folder and git's view of it, which no session may touch.
    pub(crate) fn main_state(&self) -> (Tree, String) {
        let status = "git status --porcelain --untracked-files=all; git symbolic-ref HEAD; git rev-parse HEAD";
        (tree(&self.repo), self.sh(&self.repo, status))
    }
}

/// Commands that a message gives for people to type.
pub(crate) fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once('`')
            && let Some((command, _)) = rest.rsplit_once('`')
        {
            found.push(command.to_owned());
        }
    }
    found
}
