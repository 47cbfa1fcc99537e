//! A place to start agents in, where the program is one that writes down what it was given.

#![expect(clippy::unwrap_used, reason = "only tests use the suite")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use skein_domain::{LaunchSettings, Message, PromptVia};
use tempfile::TempDir;

use crate::Subject;
use skein_agent::agent::{LaunchRequest, Start};

/// Linked, not written: a file just written may still be open for writing in a process another test
/// started, and could not be run then.
const STUB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/stub.sh");

pub(crate) struct Place {
    folder: TempDir,
}

/// What a program saw.
pub(crate) struct Saw {
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) input: Vec<u8>,
}

impl Place {
    pub(crate) fn new(subject: &Subject) -> Self {
        let place = Self {
            folder: TempDir::new().unwrap(),
        };
        for folder in ["bin", "workspace", "private"] {
            fs::create_dir(place.at(folder)).unwrap();
        }
        for name in [subject.program, "skein"] {
            // Some programs are called `skein` themselves.
            let _ = symlink(STUB, place.at("bin").join(name));
        }
        place
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn path(&self) -> String {
        format!("{}:/usr/local/bin:/usr/bin:/bin", self.at("bin").display())
    }

    pub(crate) fn order(&self, task: &str, via: Option<PromptVia>) -> LaunchRequest {
        LaunchRequest {
            session: "api-7".parse().unwrap(),
            run: 1,
            task: task.parse::<Message>().unwrap(),
            settings: LaunchSettings {
                prompt_via: via,
                ..LaunchSettings::default()
            },
            workspace: self.at("workspace"),
            private: self.at("private"),
            skein: self.at("bin").join("skein"),
            path: self.path(),
            env: [("HOME".to_owned(), self.at("home").display().to_string())].into(),
            native: None,
        }
    }

    /// Starts it as a runtime would, and waits for its end.
    pub(crate) fn run(&self, start: &Start) -> Saw {
        for (file, content) in &start.files {
            let file = self.at("private").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        let stdin = match &start.stdin {
            Some(file) => fs::File::open(self.at("private").join(file))
                .unwrap()
                .into(),
            None => Stdio::null(),
        };
        let status = Command::new(&start.argv[0])
            .args(&start.argv[1..])
            .env_clear()
            .envs(&start.env)
            .env("PATH", self.path())
            .env("STUB_ARGS", self.at("args"))
            .env("STUB_INPUT", self.at("input"))
            .current_dir(self.at("workspace"))
            .stdin(stdin)
            .status()
            .unwrap();
        assert!(status.success(), "{:?}: {status}", start.argv);
        Saw {
            args: words(&self.at("args")),
            input: fs::read(self.at("input")).unwrap(),
        }
    }
}

fn words(file: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(file).unwrap();
    let mut words: Vec<Vec<u8>> = bytes.split(|b| *b == 0).map(<[u8]>::to_vec).collect();
    words.pop();
    words
}
