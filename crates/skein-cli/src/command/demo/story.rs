//! What happens in the demo.

use skein_client::{Client, Key};
use skein_wire::{
    AddProject, Answer, Ask, BeginTurn, Broadcast, BudgetAsked, EndSession, EndTurn, Handoff,
    Merge, NewThread, Session, SetSummary, Spawn, Thread,
};

use super::stage::Stage;
use crate::error::UserError;

const ANN: &str = "user:ann";
const BOB: &str = "user:bob";
const SCOUT: &str = "agent:scout";
const WEAVER: &str = "agent:weaver";
const MENDER: &str = "agent:mender";

/// The cast, each calling in its own name.
struct Cast {
    ann: Client,
    bob: Client,
    scout: Client,
    weaver: Client,
    mender: Client,
}

pub(super) async fn tell(
    stage: &mut Stage<'_>,
    client: &dyn Fn(&str) -> Client,
    folder: &str,
) -> Result<(), UserError> {
    let cast = Cast {
        ann: client(ANN),
        bob: client(BOB),
        scout: client(SCOUT),
        weaver: client(WEAVER),
        mender: client(MENDER),
    };
    let thread = open(stage, &cast, folder).await?;
    let root = begin(stage, &cast, &thread).await?;
    let (scout, mender) = delegate(stage, &cast, &root).await?;
    question(stage, &cast, &scout).await?;
    finish_children(stage, &cast, &scout, &mender).await?;
    hand_over(stage, &cast, &root).await?;
    broadcast(stage, &cast, &root).await?;
    close(stage, &cast, &root, &thread).await
}

async fn open(stage: &mut Stage<'_>, cast: &Cast, folder: &str) -> Result<Thread, UserError> {
    let project = cast
        .ann
        .add_project(
            &AddProject {
                name: Some("demo".to_owned()),
                path: Some(folder.to_owned()),
                width: Some(2),
                ..AddProject::default()
            },
            &Key::random(),
        )
        .await?;
    stage
        .did(
            ANN,
            "adds a project whose sessions may have 2 live children each",
        )
        .await?;
    let thread = cast
        .ann
        .new_thread(
            &NewThread {
                project: project.id,
                title: "Login fails after an hour".to_owned(),
            },
            &Key::random(),
        )
        .await?;
    stage
        .did(ANN, "opens the thread “Login fails after an hour”")
        .await?;
    Ok(thread)
}

async fn begin(stage: &mut Stage<'_>, cast: &Cast, thread: &Thread) -> Result<Session, UserError> {
    let root = cast
        .ann
        .spawn(
            &Spawn {
                task: "Make logins last".to_owned(),
                thread: Some(thread.id.clone()),
                budget: Some(BudgetAsked {
                    tokens: Some(100_000),
                    cost_usd: Some(2.0),
                }),
                ..Spawn::default()
            },
            &Key::random(),
        )
        .await?;
    stage.watch(&root);
    stage
        .did(
            ANN,
            &format!("starts {} with 100,000 tokens and $2", root.id),
        )
        .await?;
    Ok(root)
}

async fn delegate(
    stage: &mut Stage<'_>,
    cast: &Cast,
    root: &Session,
) -> Result<(Session, Session), UserError> {
    let child = |task: &str, owner: &str| Spawn {
        task: task.to_owned(),
        parent: Some(root.id.clone()),
        owner: Some(owner.to_owned()),
        budget: Some(BudgetAsked {
            tokens: Some(20_000),
            cost_usd: Some(0.5),
        }),
        ..Spawn::default()
    };
    let scout = cast
        .ann
        .spawn(&child("Find the cause", SCOUT), &Key::random())
        .await?;
    stage
        .did(
            ANN,
            &format!("delegates “Find the cause” to {SCOUT}, 20,000 tokens set aside"),
        )
        .await?;
    let mender = cast
        .ann
        .spawn(&child("Write a failing test", MENDER), &Key::random())
        .await?;
    stage
        .did(
            ANN,
            &format!("delegates “Write a failing test” to {MENDER}"),
        )
        .await?;
    let refused = cast
        .ann
        .spawn(&child("Write the release notes", WEAVER), &Key::random())
        .await;
    stage
        .was_refused(ANN, "wants a third child; the project allows two", refused)
        .await?;
    Ok((scout, mender))
}

async fn question(stage: &mut Stage<'_>, cast: &Cast, scout: &Session) -> Result<(), UserError> {
    turn(&cast.scout, scout, 8_200, 900, 0.11).await?;
    stage
        .did(SCOUT, "works a turn: 9,100 tokens, $0.11")
        .await?;
    cast.scout
        .begin_turn(&scout.id, &BeginTurn::default(), &Key::random())
        .await?;
    let ask = Ask {
        question: "The cookie outlives the session. May I shorten it?".to_owned(),
        options: vec!["yes".to_owned(), "no".to_owned()],
        ..Ask::default()
    };
    cast.scout.ask(&scout.id, &ask, &Key::random()).await?;
    stage
        .did(
            SCOUT,
            "asks: the cookie outlives the session, may I shorten it?",
        )
        .await?;
    let answer = Answer {
        text: "yes".to_owned(),
    };
    cast.bob.answer(&scout.id, &answer, &Key::random()).await?;
    stage.did(BOB, "answers: yes").await
}

async fn finish_children(
    stage: &mut Stage<'_>,
    cast: &Cast,
    scout: &Session,
    mender: &Session,
) -> Result<(), UserError> {
    end_turn(&cast.scout, scout, 2_400, 300, 0.03).await?;
    let summary = SetSummary {
        text: "The cookie lives 24 hours, the session only one.".to_owned(),
        key_decisions: vec!["shorten the cookie, not lengthen the session".to_owned()],
        ..SetSummary::default()
    };
    cast.scout
        .set_summary(&scout.id, &summary, &Key::random())
        .await?;
    end(&cast.scout, scout, "done").await?;
    stage
        .did(
            SCOUT,
            "writes its summary and ends; what it did not spend goes back",
        )
        .await?;
    turn(&cast.mender, mender, 5_000, 1_500, 0.08).await?;
    end(&cast.mender, mender, "done").await?;
    stage.did(MENDER, "works a turn and ends").await
}

async fn hand_over(stage: &mut Stage<'_>, cast: &Cast, root: &Session) -> Result<(), UserError> {
    let handoff = |to: &str| Handoff {
        workspace: None,
        to: to.to_owned(),
        expect_version: Some(root.owner_version),
    };
    cast.ann
        .handoff(&root.id, &handoff(BOB), &Key::random())
        .await?;
    stage
        .did(
            ANN,
            &format!("hands {} to {BOB}: same session, new owner", root.id),
        )
        .await?;
    let late = cast
        .ann
        .handoff(&root.id, &handoff(WEAVER), &Key::random())
        .await;
    stage
        .was_refused(
            ANN,
            &format!("hands it to {WEAVER} too, from what she saw before"),
            late,
        )
        .await
}

async fn broadcast(stage: &mut Stage<'_>, cast: &Cast, root: &Session) -> Result<(), UserError> {
    let both = Broadcast {
        to: vec![WEAVER.to_owned(), MENDER.to_owned()],
        ..Broadcast::default()
    };
    let children = cast
        .bob
        .broadcast(&root.id, &both, &Key::random())
        .await?
        .data;
    let (Some(first), Some(second)) = (children.first(), children.get(1)) else {
        return Err(UserError::failed("the broadcast made no two sessions"));
    };
    let (weaver, mender) = if first.owner == WEAVER {
        (first, second)
    } else {
        (second, first)
    };
    stage
        .did(
            BOB,
            &format!("broadcasts the work to {WEAVER} and {MENDER}; the better one wins"),
        )
        .await?;
    turn(&cast.weaver, weaver, 9_000, 3_000, 0.19).await?;
    end(&cast.weaver, weaver, "done").await?;
    stage.did(WEAVER, "mends the login and ends").await?;
    turn(&cast.mender, mender, 11_000, 2_000, 0.21).await?;
    end(&cast.mender, mender, "failed").await?;
    stage
        .did(
            MENDER,
            "gives up; the last recipient has ended, so the source is idle again",
        )
        .await?;
    let merge = Merge {
        from: weaver.id.clone(),
    };
    cast.bob.merge(&root.id, &merge, &Key::random()).await?;
    stage
        .did(BOB, &format!("merges {}, the winner", weaver.id))
        .await
}

async fn close(
    stage: &mut Stage<'_>,
    cast: &Cast,
    root: &Session,
    thread: &Thread,
) -> Result<(), UserError> {
    end(&cast.bob, root, "done").await?;
    cast.bob.archive_thread(&thread.id, &Key::random()).await?;
    stage
        .did(BOB, &format!("ends {} and archives the thread", root.id))
        .await
}

async fn turn(
    client: &Client,
    session: &Session,
    input: u64,
    output: u64,
    cost: f64,
) -> Result<(), UserError> {
    client
        .begin_turn(&session.id, &BeginTurn::default(), &Key::random())
        .await?;
    end_turn(client, session, input, output, cost).await
}

async fn end_turn(
    client: &Client,
    session: &Session,
    input: u64,
    output: u64,
    cost: f64,
) -> Result<(), UserError> {
    let used = EndTurn {
        input_tokens: input,
        output_tokens: output,
        cost_usd: cost,
        ..EndTurn::default()
    };
    client.end_turn(&session.id, &used, &Key::random()).await?;
    Ok(())
}

async fn end(client: &Client, session: &Session, outcome: &str) -> Result<(), UserError> {
    let body = EndSession {
        outcome: Some(outcome.to_owned()),
        ..EndSession::default()
    };
    client
        .end_session(&session.id, &body, &Key::random())
        .await?;
    Ok(())
}
