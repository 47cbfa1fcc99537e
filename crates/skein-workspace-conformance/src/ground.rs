//! A home, a managed root and a project in a temporary folder, with a git that knows nothing of the
//! machine's settings.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use skein_domain::AbsPath;

use skein_workspace::Git;
use skein_workspace::WorkspaceOptions;

/// Every file of a folder but git's own: path, mode, bytes (a link's target for a link).
pub type Files = BTreeMap<PathBuf, (u32, Vec<u8>)>;

#[derive(Debug)]
pub struct Ground {
    folder: tempfile::TempDir,
}

impl Default for Ground {
    fn default() -> Self {
        Self::new()
    }
}

impl Ground {
    /// With a project that has two commits.
    pub fn new() -> Self {
        let ground = Self::bare();
        ground.sh(
            ground.path("project with 'quotes' & $HOME"),
            "git init -q -b main . && mkdir src && echo one > src/one && echo two > two && printf 'x' > run.sh \
             && chmod +x run.sh && printf '.env\n*.secret\nnode_modules/\n' > .gitignore \
             && git add . && git commit -qm first && echo more >> two && git commit -qam second",
        );
        ground
    }

    /// With an empty folder for a project.
    pub fn bare() -> Self {
        let ground = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for folder in ["home", "project with 'quotes' & $HOME", "elsewhere"] {
            fs::create_dir(ground.path(folder)).unwrap();
        }
        let settings = "[user]\n\tname = Somebody\n\temail = somebody@localhost\n";
        fs::write(ground.path("home/.gitconfig"), settings).unwrap();
        ground
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub fn root(&self) -> PathBuf {
        self.path("managed root")
    }

    pub fn project(&self) -> AbsPath {
        let folder = self.path("project with 'quotes' & $HOME");
        folder.to_str().unwrap().parse().unwrap()
    }

    pub fn git(&self) -> Git {
        Git {
            env: self.env(),
            ..Git::default()
        }
    }

    pub fn options(&self) -> WorkspaceOptions {
        WorkspaceOptions {
            git: self.git(),
            ..WorkspaceOptions::default()
        }
    }

    pub fn env(&self) -> BTreeMap<String, String> {
        let home = self.path("home");
        let global = home.join(".gitconfig");
        [
            ("HOME", home.to_str().unwrap()),
            ("XDG_CONFIG_HOME", home.to_str().unwrap()),
            ("GIT_CONFIG_GLOBAL", global.to_str().unwrap()),
            ("GIT_CONFIG_NOSYSTEM", "1"),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .into()
    }

    /// Adds lines to the user's git settings.
    pub fn configure(&self, lines: &str) {
        let file = self.path("home/.gitconfig");
        let old = fs::read_to_string(&file).unwrap();
        fs::write(file, format!("{old}{lines}")).unwrap();
    }

    /// Runs a script that must succeed, as the user would; gives what it printed.
    pub fn sh(&self, folder: impl AsRef<Path>, script: &str) -> String {
        let (ok, said) = self.try_sh(folder, script);
        assert!(ok, "{script}\n{said}");
        said
    }

    pub fn try_sh(&self, folder: impl AsRef<Path>, script: &str) -> (bool, String) {
        let mut command = Command::new("sh");
        for (name, _) in std::env::vars_os() {
            if name.as_bytes().starts_with(b"GIT_") {
                command.env_remove(name);
            }
        }
        let output = command
            .arg("-ec")
            .arg(script)
            .current_dir(folder)
            .envs(self.env())
            // As our own calls of git; otherwise every commit of a script starts one more process.
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "maintenance.auto")
            .env("GIT_CONFIG_VALUE_0", "false")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned();
        let err = String::from_utf8_lossy(&output.stderr);
        let ok = output.status.success();
        (ok, if ok { out } else { format!("{out}\n{err}") })
    }

    pub fn project_sh(&self, script: &str) -> String {
        self.sh(self.project().as_str(), script)
    }

    pub fn files(&self, folder: impl AsRef<Path>) -> Files {
        let mut files = Files::new();
        read(folder.as_ref(), Path::new(""), &mut files);
        files
    }

    /// Everything about the project that must not change by accident.
    pub fn refs(&self) -> String {
        self.project_sh("git for-each-ref --format='%(refname) %(objectname)'; git worktree list")
    }
}

fn read(top: &Path, below: &Path, files: &mut Files) {
    for entry in fs::read_dir(top.join(below)).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() == ".git" {
            continue;
        }
        let path = below.join(entry.file_name());
        let meta = fs::symlink_metadata(entry.path()).unwrap();
        if meta.is_dir() {
            read(top, &path, files);
        } else if meta.is_symlink() {
            let target = fs::read_link(entry.path()).unwrap();
            files.insert(path, (0, target.as_os_str().as_bytes().to_vec()));
        } else {
            let mode = meta.permissions().mode() & 0o111;
            files.insert(path, (mode, fs::read(entry.path()).unwrap()));
        }
    }
}
