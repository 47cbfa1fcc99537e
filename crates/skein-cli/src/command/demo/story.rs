//! What happens in the demo.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use skein_client::Page;
use skein_wire::Receipt;
use tokio::time::{sleep, timeout};

use super::stage::Stage;
use crate::error::UserError;

pub(super) const ANN: &str = "user:ann";
pub(super) const BOB: &str = "user:bob";

/// How often, and for how long, the demo looks at a screen.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(60);

/// Owner and task of each session. The table shows the first line of a task; the built-in agent follows the second.
const CAST: [(&str, &str); 5] = [
    (
        "agent:weaver",
        "Refuse empty input\nusage 18200 2100 0.12; wait 3; write parser.txt empty input is refused; \
         commit parser: refuse empty input; finish",
    ),
    (
        "agent:scout",
        "Shorten the cookie\nwait 1; usage 4100 300 0.02; ask It outlives the session. Shorten it? | yes | no; \
         wait 1; write cookie.txt one hour; commit cookie: one hour; finish",
    ),
    (
        "agent:herald",
        "Write release notes\nwait 1; write notes.md a draft; usage 2500 900 0.02; commit notes: a draft",
    ),
    (
        "agent:mender",
        "Migrate accounts\nwait 1; write accounts.txt step one of two; usage 9700 1200 0.06; commit accounts: step one",
    ),
    (
        "agent:mason",
        "Rebuild the index\nwrite index.txt half of it; usage 6600 400 0.03; wait 5; crash 3",
    ),
];

/// One thing that the demo shows, and what proves it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Shown {
    pub(super) session: String,
    pub(super) what: &'static str,
    pub(super) proof: String,
}

fn shown(session: &str, what: &'static str, proof: impl Into<String>) -> Shown {
    Shown {
        session: session.to_owned(),
        what,
        proof: proof.into(),
    }
}

impl Stage<'_> {
    pub(super) async fn play(&mut self) -> Result<Vec<Shown>, UserError> {
        let repository = self.ann.home.root().with_file_name("demo");
        let repository = repository.to_string_lossy().into_owned();
        self.run(ANN, "project add", &repository).await?;
        self.command = Some("skein init".to_owned());
        self.step(ANN, "makes a project of a throwaway repository")
            .await?;
        for (owner, task) in CAST {
            let options = "--project demo --agent scripted --prompt-via argv";
            let line = format!("spawn {options} --owner {owner}");
            self.run(ANN, &line, task).await?;
        }
        // One line for five spawns, each with its own owner.
        self.command = Some("skein spawn --from tasks.txt --agent scripted".to_owned());
        let what = "spawns five agents, each in a worktree and a terminal of its own";
        self.step(ANN, what).await?;
        let asked = self.question("demo-2").await?;
        Ok(vec![
            self.finished("demo-1").await?,
            asked,
            self.hand_over("demo-3").await?,
            self.kill_and_restore("demo-4").await?,
            self.crash("demo-5").await?,
        ])
    }

    async fn question(&mut self, id: &str) -> Result<Shown, UserError> {
        let session = self.wait(id, "needs_input").await?;
        let question = session.question.map(|question| question.text);
        let asks = format!("asks: {}", question.unwrap_or_default());
        self.step(&session.owner, &asks).await?;
        self.run(ANN, &format!("answer {id} yes"), "").await?;
        self.step(ANN, "answers: yes").await?;
        self.wait(id, "done").await?;
        Ok(shown(id, "asked", "was answered, went on and finished"))
    }

    async fn finished(&mut self, id: &str) -> Result<Shown, UserError> {
        let done = self.wait(id, "done").await?;
        let branch = done.workspace.branch.unwrap_or_default();
        let what = format!(
            "finishes; its commit is on {branch}: {}",
            self.change(id).await?
        );
        self.command = Some(format!("skein diff --stat {id}"));
        self.step(&done.owner, &what).await?;
        let proof = format!("its commit is on branch {branch}");
        Ok(shown(id, "finished", proof))
    }

    async fn hand_over(&mut self, id: &str) -> Result<Shown, UserError> {
        let version = self.wait(id, "idle").await?.owner_version;
        self.run(ANN, &format!("handoff {id} --to {BOB}"), "")
            .await?;
        let what = format!("hands {id} over to {BOB}: same session, same terminal, new owner");
        self.step(ANN, &what).await?;
        let late = format!("handoff {id} --to agent:mason --expect-version {version}");
        self.run_refused(ANN, &late).await?;
        self.step(ANN, "hands it over again, from what she saw before")
            .await?;
        let message = "Name the fixes\nappend notes.md fixes: parser, cookie; commit notes: fixes; wait 1; finish";
        let receipt = self.send(BOB, id, message).await?;
        let states: Vec<_> = receipt.history.iter().map(|s| s.state.as_str()).collect();
        let what = format!("tells it to continue; receipt: {}", states.join(" → "));
        self.step(BOB, &what).await?;
        let done = self.wait(id, "done").await?;
        let proof = format!(
            "{} owns it; the message was seen as {}",
            done.owner, receipt.state
        );
        Ok(shown(id, "changed hands", proof))
    }

    async fn kill_and_restore(&mut self, id: &str) -> Result<Shown, UserError> {
        let live = self.wait(id, "idle").await?;
        let pid = live.runtime.pid.and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| UserError::failed(format!("{id} has no process")))?;
        kill_process(pid, Signal::KILL)
            .map_err(|error| UserError::failed("cannot kill an agent").caused_by(&error))?;
        let killed = self.wait(id, "failed,lost").await?;
        self.command = Some(format!("kill -9 {}", pid.as_raw_nonzero()));
        let what = format!("kills the process of {id}: {}", killed.status_reason);
        self.step(ANN, &what).await?;
        let restore = format!("restore {id}");
        self.run(ANN, &restore, "").await?;
        let greeting = self.greeting(id).await?;
        let what = format!("restores it in its conversation; it says: {greeting}");
        self.step(ANN, &what).await?;
        let message = "Go on\nappend accounts.txt step two of two; usage 8800 700 0.05; commit accounts: step two; wait 1; finish";
        self.send(ANN, id, message).await?;
        self.step(ANN, "tells it to continue with the second step")
            .await?;
        let run = self.wait(id, "done").await?.run;
        let proof = format!("restored in its conversation, finished in run {run}");
        Ok(shown(id, "killed -9", proof))
    }

    async fn crash(&mut self, id: &str) -> Result<Shown, UserError> {
        let owner = self.wait(id, "failed").await?.owner;
        let why = self.client.why(id).await?;
        let what = format!(
            "crashed. Why: {}; rule: {}; not committed and still there: {}",
            why.reason,
            why.rule,
            self.change(id).await?
        );
        self.command = Some(format!("skein why {id}; skein diff --stat {id}"));
        self.step(&owner, &what).await?;
        Ok(shown(id, "crashed", format!("explained: {}", why.reason)))
    }

    /// The first file that a session changed, as `skein diff --stat` prints it.
    async fn change(&self, id: &str) -> Result<String, UserError> {
        let diff = self.client.diff(id, true).await?.diff;
        Ok(diff.lines().next().unwrap_or_default().trim().to_owned())
    }

    /// What the restored agent prints; the screen may come a moment after the status.
    async fn greeting(&mut self, id: &str) -> Result<String, UserError> {
        let client = self.client;
        let look = async {
            loop {
                let rows = client.screen(id).await?.rows;
                if let Some(row) = rows.into_iter().find(|row| row.contains("resumed")) {
                    return Ok(row);
                }
                sleep(LOOK_AGAIN).await;
            }
        };
        let found = self.watch(timeout(PATIENCE, look)).await?;
        found.map_err(|_| UserError::failed(format!("{id} does not show that it was resumed")))?
    }

    /// Sends a message; `send` returns when the agent took it.
    async fn send(&mut self, actor: &str, id: &str, text: &str) -> Result<Receipt, UserError> {
        self.run(actor, &format!("send --key {id} {id}"), text)
            .await?;
        self.command = Some(format!(
            "skein send {id} \"{}\"",
            text.lines().next().unwrap_or_default()
        ));
        let receipts = self.client.list_receipts(id, &Page::default()).await?;
        let of_key = |receipt: &Receipt| receipt.key.as_deref() == Some(id);
        let receipt = receipts.data.into_iter().find(of_key);
        receipt.ok_or_else(|| UserError::failed(format!("the message to {id} has no receipt")))
    }
}
