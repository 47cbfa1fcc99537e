//! What happens in the demo.

use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use skein_client::{Client, Key};
use skein_wire::{AddProject, Answer, Handoff, Receipt, Restore, Send, Session, Spawn};

use super::stage::Stage;
use crate::error::UserError;

pub(super) const ANN: &str = "user:ann";
pub(super) const BOB: &str = "user:bob";

/// Owner, task, and what the built-in agent does about it. Their first words come in the table.
const CAST: [(&str, &str, &str); 5] = [
    (
        "agent:weaver",
        "Refuse empty input",
        "usage 18200 2100 0.12; wait 3; write parser.txt empty input is refused; \
         commit parser: refuse empty input; finish",
    ),
    (
        "agent:scout",
        "Shorten the cookie",
        "wait 1; usage 4100 300 0.02; ask It outlives the session. Shorten it? | yes | no; \
         write cookie.txt one hour; commit cookie: one hour; finish",
    ),
    (
        "agent:herald",
        "Write release notes",
        "wait 1; write notes.md a draft; usage 2500 900 0.02; commit notes: a draft",
    ),
    (
        "agent:mender",
        "Migrate accounts",
        "wait 1; write accounts.txt step one of two; usage 9700 1200 0.06; commit accounts: step one",
    ),
    (
        "agent:mason",
        "Rebuild the index",
        "write index.txt half of it; usage 6600 400 0.03; wait 5; crash 3",
    ),
];

/// One of the things that were to be seen, and by what.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Shown {
    pub(super) session: String,
    pub(super) what: &'static str,
    pub(super) proof: String,
}

pub(super) async fn tell(
    stage: &mut Stage<'_>,
    bob: &Client,
    folder: &str,
) -> Result<Vec<Shown>, UserError> {
    let ids = spawn(stage, folder).await?;
    let [weaver, scout, herald, mender, mason] = &ids;
    let asked = question(stage, scout).await?;
    Ok(vec![
        finish(stage, weaver).await?,
        asked,
        hand_over(stage, bob, herald).await?,
        kill_and_restore(stage, mender).await?,
        crash(stage, mason).await?,
    ])
}

async fn spawn(stage: &mut Stage<'_>, folder: &str) -> Result<[String; 5], UserError> {
    let ann = stage.client();
    let body = AddProject {
        name: Some("demo".to_owned()),
        path: Some(folder.to_owned()),
        ..AddProject::default()
    };
    let project = ann.add_project(&body, &Key::random()).await?;
    stage
        .did(
            ANN,
            "makes a project of a throwaway repository",
            Some("skein init"),
        )
        .await?;
    let mut ids = [const { String::new() }; 5];
    for (id, (owner, task, script)) in ids.iter_mut().zip(CAST) {
        let body = Spawn {
            task: format!("{task}\n{script}"),
            project: Some(project.id.clone()),
            owner: Some(owner.to_owned()),
            agent: Some("scripted".to_owned()),
            prompt_via: Some("argv".to_owned()),
            ..Spawn::default()
        };
        *id = ann.spawn(&body, &Key::random()).await?.id;
    }
    stage
        .did(
            ANN,
            "spawns five agents, each in a worktree and a terminal of its own",
            Some("skein spawn --from tasks.txt --agent scripted"),
        )
        .await?;
    Ok(ids)
}

async fn question(stage: &mut Stage<'_>, id: &str) -> Result<Shown, UserError> {
    let asks = stage.until_is(id, &["needs_input"]).await?;
    let question = asks.question.map(|question| question.text);
    let question = question.unwrap_or_default();
    stage
        .did(&asks.owner, &format!("asks: {question}"), None)
        .await?;
    let answer = Answer {
        text: "yes".to_owned(),
    };
    stage.client().answer(id, &answer, &Key::random()).await?;
    stage
        .did(ANN, "answers: yes", Some(&format!("skein answer {id} yes")))
        .await?;
    stage.until_is(id, &["done"]).await?;
    Ok(Shown {
        session: id.to_owned(),
        what: "asked",
        proof: "was answered, went on and finished".to_owned(),
    })
}

async fn finish(stage: &mut Stage<'_>, id: &str) -> Result<Shown, UserError> {
    let done = stage.until_is(id, &["done"]).await?;
    let stat = stage.client().diff(id, true).await?.diff;
    let file = stat.lines().next().unwrap_or_default().trim();
    let branch = branch(&done);
    stage
        .did(
            &done.owner,
            &format!("finishes; its commit is on {branch}: {file}"),
            Some(&format!("skein diff --stat {id}")),
        )
        .await?;
    Ok(Shown {
        session: id.to_owned(),
        what: "finished",
        proof: format!("its commit is on branch {branch}"),
    })
}

async fn hand_over(stage: &mut Stage<'_>, bob: &Client, id: &str) -> Result<Shown, UserError> {
    let before = stage.until_is(id, &["idle"]).await?;
    let handoff = |to: &str| Handoff {
        to: to.to_owned(),
        workspace: None,
        expect_version: Some(before.owner_version),
    };
    let ann = stage.client();
    ann.handoff(id, &handoff(BOB), &Key::random()).await?;
    stage
        .did(
            ANN,
            &format!("hands {id} over to {BOB}: same session, same terminal, new owner"),
            Some(&format!("skein handoff {id} --to {BOB}")),
        )
        .await?;
    let late = ann
        .handoff(id, &handoff("agent:mason"), &Key::random())
        .await;
    let version = before.owner_version;
    stage
        .was_refused(
            ANN,
            "hands it over again, from what she saw before",
            &format!("skein handoff {id} --to agent:mason --expect-version {version}"),
            late,
        )
        .await?;
    let message = "Name the fixes\nappend notes.md fixes: parser, cookie; commit notes: fixes; wait 1; finish";
    let receipt = send(stage, bob, id, message).await?;
    let steps: Vec<_> = receipt.history.iter().map(|s| s.state.as_str()).collect();
    stage
        .did(
            BOB,
            &format!("tells it to go on; receipt: {}", steps.join(" → ")),
            Some(&format!("skein send {id} \"Name the fixes\"")),
        )
        .await?;
    let done = stage.until_is(id, &["done"]).await?;
    Ok(Shown {
        session: id.to_owned(),
        what: "changed hands",
        proof: format!("{} owns it, and was heard: {}", done.owner, receipt.state),
    })
}

async fn kill_and_restore(stage: &mut Stage<'_>, id: &str) -> Result<Shown, UserError> {
    let live = stage.until_is(id, &["idle"]).await?;
    let pid = live.runtime.pid.and_then(|pid| i32::try_from(pid).ok());
    let pid = pid
        .and_then(Pid::from_raw)
        .ok_or_else(|| UserError::failed(format!("{id} has no process")))?;
    kill_process(pid, Signal::KILL)
        .map_err(|error| UserError::failed("cannot kill an agent").caused_by(&error))?;
    let killed = stage.until_is(id, &["failed", "lost"]).await?;
    stage
        .did(
            ANN,
            &format!("kills the process of {id}: {}", killed.status_reason),
            Some(&format!("kill -9 {}", pid.as_raw_nonzero())),
        )
        .await?;
    stage
        .client()
        .restore(id, &Restore {}, &Key::random())
        .await?;
    let greeting = stage
        .until("the conversation goes on", async |client| {
            let session = client.get_session(id).await?;
            if session.saga.is_some() || session.status != "idle" {
                return Ok(None);
            }
            let screen = client.screen(id).await?;
            Ok(screen.rows.into_iter().find(|row| row.contains("resumed")))
        })
        .await?;
    stage
        .did(
            ANN,
            &format!("restores it in its conversation; it says: {greeting}"),
            Some(&format!("skein restore {id}")),
        )
        .await?;
    let message = "Go on\nappend accounts.txt step two of two; usage 8800 700 0.05; commit accounts: step two; wait 1; finish";
    send(stage, stage.client(), id, message).await?;
    stage
        .did(
            ANN,
            "tells it to go on with the second step",
            Some(&format!("skein send {id} \"Go on\"")),
        )
        .await?;
    let done = stage.until_is(id, &["done"]).await?;
    Ok(Shown {
        session: id.to_owned(),
        what: "killed -9",
        proof: format!("restored in its conversation, finished in run {}", done.run),
    })
}

async fn crash(stage: &mut Stage<'_>, id: &str) -> Result<Shown, UserError> {
    let crashed = stage.until_is(id, &["failed"]).await?;
    let why = stage.client().why(id).await?;
    let left = stage.client().diff(id, true).await.map(|left| left.diff);
    let left = left.unwrap_or_default();
    let left = left.lines().next().unwrap_or_default().trim().to_owned();
    stage
        .did(
            &crashed.owner,
            &format!(
                "crashed. Why: {}; rule: {}; not committed and still there: {left}",
                why.reason, why.rule
            ),
            Some(&format!("skein why {id}; skein diff --stat {id}")),
        )
        .await?;
    Ok(Shown {
        session: id.to_owned(),
        what: "crashed",
        proof: format!("explained: {}", why.reason),
    })
}

/// Until it is known whether the agent took it.
async fn send(
    stage: &mut Stage<'_>,
    client: &Client,
    id: &str,
    text: &str,
) -> Result<Receipt, UserError> {
    let body = Send {
        text: text.to_owned(),
        from: None,
    };
    let receipt = client.send(id, &body, &Key::random()).await?;
    stage
        .until("the message arrives", async |client| {
            let receipt = client.get_receipt(&receipt.id).await?;
            let state = receipt.state.as_str();
            let is = matches!(state, "submitted" | "turn_started" | "unknown");
            Ok(is.then_some(receipt))
        })
        .await
}

fn branch(session: &Session) -> &str {
    session.workspace.branch.as_deref().unwrap_or("its branch")
}
