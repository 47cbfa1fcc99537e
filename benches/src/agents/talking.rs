//! From a message until the model has it, and from what the model does until it is told.

use std::time::Duration;

use skein_client::{Client, IdempotencyKey};
use skein_fixtures::model_server::Exchange;
use skein_wire::Send;

use super::ear::Ear;
use super::hand::Hand;
use super::spawning::spawn;
use super::stage::Stage;
use super::{LONGEST, now_ms};
use crate::Failure;
use crate::stats::{Times, ms, ratio};
use crate::table::Row;

/// What a screen takes to come to rest after a turn.
const REST: Duration = Duration::from_millis(1000);
/// How far a status may be from the truth: the budget.
const WINDOW_MS: i64 = 500;

/// What was measured with one session.
#[derive(Debug)]
struct Talk {
    way: &'static str,
    session: String,
    by_command: Vec<Duration>,
    by_call: Vec<Duration>,
    /// Milliseconds from the model's log to the event; below zero when the event was first.
    working: Vec<i64>,
    idle: Vec<i64>,
}

/// Rows about sending, and rows about what is told.
pub(super) async fn measure(
    stage: &Stage<'_>,
    messages: usize,
) -> Result<(Vec<Row>, Vec<Row>), Failure> {
    let mut ear = Ear::new(stage.client()?).await?;
    let mut talks = vec![];
    for way in stage.kind.ways {
        let task = format!("TALK-{way}- [[say ready]]");
        let (session, took) = spawn(stage, way, &task, LONGEST).await?;
        if took.is_none() {
            return Err(format!("{task} never arrived{}", stage.account()).into());
        }
        ear.next(&session, "session.turn_ended").await?;
        talks.push(Talk {
            way,
            session,
            by_command: vec![],
            by_call: vec![],
            working: vec![],
            idle: vec![],
        });
    }
    let (hand, _) = Hand::start(stage, "talk", "TALK-hand- [[say ready]]").await?;
    let client = stage.client()?;
    let (mut by_hand, mut again) = (vec![], 0);
    for n in 0..=messages {
        tokio::time::sleep(REST).await;
        let (text, mark) = message("hand", n);
        let arrival = hand.send(&text, &mark).await?;
        stage.answered(&mark).await?;
        if n > 0 {
            by_hand.push(arrival.took);
            again += usize::from(arrival.again > 0);
        }
        for talk in &mut talks {
            let command = turn(stage, &mut ear, talk, n, None).await?;
            let call = turn(stage, &mut ear, talk, n, Some(&client)).await?;
            if n > 0 {
                talk.by_command.push(command.took);
                talk.by_call.push(call.took);
                talk.working.extend([command.working, call.working]);
                talk.idle.extend([command.idle, call.idle]);
            }
        }
    }
    for talk in &talks {
        stage.json(&["kill", &talk.session])?;
    }
    let by_hand = Times::new(by_hand).p50();
    let name = stage.kind.name;
    let (mut sent, mut told) = (vec![], vec![]);
    for talk in talks {
        let (command, call) = (Times::new(talk.by_command), Times::new(talk.by_call));
        let (command, call) = (command.p50(), call.p50());
        let way = talk.way;
        let beside = match again {
            0 => format!("by hand {}", ms(by_hand)),
            n => format!(
                "by hand {}, {n} of {messages} only by a second Enter",
                ms(by_hand)
            ),
        };
        sent.push(
            Row::fact(
                format!("message to the model, {name}, {way}, p50"),
                format!("`skein send` {}, API {}", ms(command), ms(call)),
            )
            .beside(beside, ratio(command, by_hand)),
        );
        let source = match way {
            "terminal" => stage.kind.told_by,
            _ => "journal of the protocol",
        };
        told.push(status(
            format!("working, {name}, {way} ({source})"),
            talk.working,
        ));
        told.push(status(format!("idle, {name}, {way} ({source})"), talk.idle));
    }
    Ok((sent, told))
}

/// Long enough for its status to be seen.
fn message(how: &str, n: usize) -> (String, String) {
    let mark = format!("MESSAGE-{how}-{n}-");
    (format!("{mark} [[slow 1 one two three four]]"), mark)
}

/// One message and what followed.
#[derive(Debug)]
struct Turn {
    took: Duration,
    working: i64,
    idle: i64,
}

/// Sends by the command line, or by the API where there is a client.
async fn turn(
    stage: &Stage<'_>,
    ear: &mut Ear,
    talk: &Talk,
    n: usize,
    client: Option<&Client>,
) -> Result<Turn, Failure> {
    tokio::time::sleep(REST).await;
    ear.clear();
    let how = match client {
        Some(_) => "call",
        None => "command",
    };
    let (text, mark) = message(&format!("{}-{how}", talk.way), n);
    let from_ms = now_ms();
    let heard = match client {
        Some(client) => {
            let body = Send {
                text,
                ..Send::default()
            };
            client
                .send(&talk.session, &body, &IdempotencyKey::random())
                .await?;
            stage.heard(&mark).await?
        }
        None => by_command(stage, &talk.session, &text, &mark).await?,
    };
    let began = ear.next(&talk.session, "session.turn_began").await?;
    let ended = ear.next(&talk.session, "session.turn_ended").await?;
    let answered = stage.answered(&mark).await?;
    Ok(Turn {
        took: Duration::from_millis(heard.began_ms.saturating_sub(from_ms)),
        working: since(heard.began_ms, began.at_ms),
        idle: since(answered.ended_ms.unwrap_or_default(), ended.at_ms),
    })
}

async fn by_command(
    stage: &Stage<'_>,
    session: &str,
    text: &str,
    mark: &str,
) -> Result<Exchange, Failure> {
    let mut child = stage.skein(&["send", session, text]).spawn()?;
    let heard = stage.heard(mark).await?;
    child.wait()?;
    Ok(heard)
}

fn since(before_ms: u64, after_ms: u64) -> i64 {
    let difference = i128::from(after_ms) - i128::from(before_ms);
    i64::try_from(difference).unwrap_or(i64::MAX)
}

fn status(work: String, mut offsets: Vec<i64>) -> Row {
    offsets.sort_unstable();
    let least = offsets.first().copied().unwrap_or_default();
    let most = offsets.last().copied().unwrap_or_default();
    let p50 = offsets.get(offsets.len() / 2).copied().unwrap_or_default();
    let met = least >= -WINDOW_MS && most <= WINDOW_MS;
    Row::fact(work, format!("p50 {p50} ms, {least} to {most} ms")).budget("± 500 ms", met)
}
