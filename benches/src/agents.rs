//! The agent programs people use, against a model on loopback that does as it is told: how long a task and a
//! message take to reach the model, beside doing the same by hand, and how soon is told what the agent does.
//!
//! The model's own log says when it was asked and when it had answered; everything is compared with that.

mod ear;
mod hand;
mod spawning;
mod stage;
mod talking;
mod terminal;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Failure;
use crate::daemon::Program;
use crate::table::Row;

use stage::Stage;

/// Longest wait for anything; OpenCode's first start in a home can take minutes.
const LONGEST: Duration = Duration::from_secs(300);

/// One of the programs.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// As `--agent` knows it.
    name: &'static str,
    /// The file that is started.
    program: &'static str,
    /// How it can be driven, as `--via` knows it; its terminal first.
    ways: &'static [&'static str],
    /// What tells its status in a terminal.
    told_by: &'static str,
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "claude-code",
        program: "claude",
        ways: &["terminal", "native", "acp"],
        told_by: "hooks, state file",
    },
    Kind {
        name: "codex",
        program: "codex",
        ways: &["terminal", "native", "acp"],
        told_by: "hooks, rollout",
    },
    Kind {
        name: "opencode",
        program: "opencode",
        ways: &["terminal", "native", "acp"],
        told_by: "screen",
    },
    Kind {
        name: "gemini",
        program: "gemini",
        ways: &["terminal", "acp"],
        told_by: "screen",
    },
    Kind {
        name: "aider",
        program: "aider",
        ways: &["terminal"],
        told_by: "screen",
    },
];

/// Which programs are measured, and where they are.
#[derive(Debug)]
pub(crate) struct Programs {
    folder: PathBuf,
    kinds: Vec<Kind>,
    /// How often each thing is done, besides once for warm caches.
    turns: usize,
}

impl Programs {
    pub(crate) fn new(folder: &Path, only: &[String], turns: usize) -> Result<Self, Failure> {
        let wanted = |kind: &Kind| only.is_empty() || only.iter().any(|name| name == kind.name);
        let kinds: Vec<Kind> = KINDS.into_iter().filter(wanted).collect();
        if kinds.len() < only.len() {
            let names = KINDS.map(|kind| kind.name).join(", ");
            return Err(format!("`--agent` is one of {names}").into());
        }
        let missing = |kind: &&Kind| !folder.join("bin").join(kind.program).exists();
        if let Some(kind) = kinds.iter().find(missing) {
            let (program, folder) = (kind.program, folder.display());
            return Err(format!(
                "no `{program}` in `{folder}/bin`; `./test --agents` installs the programs, `--agents PATH` names \
                 another place"
            )
            .into());
        }
        let folder = folder.canonicalize()?;
        Ok(Self {
            folder,
            kinds,
            turns: turns.max(1),
        })
    }
}

pub(crate) async fn measure(program: &Program, programs: &Programs) -> Result<Vec<Row>, Failure> {
    let (mut spawning, mut sending, mut telling) = (vec![], vec![], vec![]);
    for kind in &programs.kinds {
        let stage = Stage::new(program, *kind, &programs.folder).await?;
        spawning.extend(spawning::measure(&stage, programs.turns).await?);
        let (sent, told) = talking::measure(&stage, programs.turns).await?;
        sending.extend(sent);
        telling.extend(told);
    }
    Ok([spawning, sending, telling].concat())
}

/// Milliseconds since 1970, as in the model's log.
#[expect(
    clippy::disallowed_methods,
    reason = "compared with the model's log, which has the machine's time"
)]
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
