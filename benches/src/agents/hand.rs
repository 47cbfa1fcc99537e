//! The same program started and typed to by hand: a worktree, and a terminal.

use std::time::Duration;

use super::now_ms;
use super::stage::Stage;
use super::terminal::Terminal;
use crate::Failure;
use crate::place::{end_marked, git};

/// How long a person waits before they press Enter once more.
const PATIENCE: Duration = Duration::from_secs(1);
const ENTERS: usize = 20;

/// A program that runs; ended with everything it started when dropped.
#[derive(Debug)]
pub(super) struct Hand<'a> {
    stage: &'a Stage<'a>,
    mark: String,
    terminal: Terminal,
}

/// How long it took, and how often one Enter was not enough.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) took: Duration,
    pub(super) again: usize,
}

impl<'a> Hand<'a> {
    /// From the first command until the model has the task.
    pub(super) async fn start(
        stage: &'a Stage<'a>,
        name: &str,
        task: &str,
    ) -> Result<(Self, Arrival), Failure> {
        let from_ms = now_ms();
        let folder = stage.folder().join(name);
        let path = folder.display().to_string();
        git(
            &stage.repo(),
            &["worktree", "add", "--quiet", "-b", name, &path, "main"],
        )?;
        let (argv, typed) = command(stage.kind.name, task);
        let mark = ("HAND".to_owned(), name.to_owned());
        let env = stage.env.iter().cloned().chain([mark]);
        let hand = Self {
            stage,
            mark: format!("HAND={name}"),
            terminal: Terminal::new(&argv, env, &folder)?,
        };
        let again = if typed {
            let prompt = |row: &str| row == ">";
            hand.terminal.until_last_row(prompt)?;
            hand.send(task, task).await?.again
        } else {
            0
        };
        let heard = stage.heard(task).await;
        let heard = heard.map_err(|why| format!("{why}\n{}", hand.terminal.screen()))?;
        let arrival = Arrival {
            took: Duration::from_millis(heard.began_ms.saturating_sub(from_ms)),
            again,
        };
        Ok((hand, arrival))
    }

    /// From the first byte until the model has the message: a paste, and Enter as soon as it is known to be a key
    /// of its own. When it was not, it is pressed again.
    pub(super) async fn send(&self, text: &str, mark: &str) -> Result<Arrival, Failure> {
        let from_ms = now_ms();
        self.terminal.write(&format!("\x1b[200~{text}\x1b[201~"))?;
        if self.stage.kind.name == "gemini" {
            // It takes an Enter that comes too soon for a part of the paste; on a busy machine 50 ms are too soon.
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        for again in 0..ENTERS {
            self.terminal.write("\r")?;
            if let Ok(heard) = self.stage.heard_within(mark, PATIENCE).await {
                return Ok(Arrival {
                    took: Duration::from_millis(heard.began_ms.saturating_sub(from_ms)),
                    again,
                });
            }
        }
        Err(format!("{mark} never came\n{}", self.terminal.screen()).into())
    }
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        // Some have children that would outlive their terminal.
        end_marked(&self.mark);
    }
}

/// What a person types to start it on a task, and whether the task is typed once it is there.
fn command<'a>(agent: &str, task: &'a str) -> (Vec<&'a str>, bool) {
    let words = match agent {
        "claude-code" => vec!["claude", "--permission-mode", "default", "--", task],
        // Without the first flag it leaves a server behind. The others are among ours, and it starts sooner by them;
        // that is no merit of ours.
        "codex" => vec![
            "codex",
            "--no-daemon",
            "-c",
            "tui.animations=false",
            "-c",
            "tui.show_tooltips=false",
            "--",
            task,
        ],
        "opencode" => vec!["opencode", "--prompt", task],
        "gemini" => vec!["gemini", "-i", task],
        // With the task as an argument it would end after it.
        _ => vec![
            "aider",
            "--no-analytics",
            "--no-check-update",
            "--no-gitignore",
            "--no-show-model-warnings",
            "--no-show-release-notes",
            "--disable-playwright",
        ],
    };
    (words, agent == "aider")
}
