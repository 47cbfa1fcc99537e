//! Plays the script of the demo: on a terminal line by line above a live table, elsewhere as plain lines.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use clap::Parser as _;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use skein_client::{Client, EventStream, Page, Sessions};
use skein_wire::{Event, Session};
use tokio::time::sleep;

use super::story::{BOB, STORY};
use super::{Proof, Shown};
use crate::cli::Cli;
use crate::command::dispatch;
use crate::context::Context;
use crate::error::UserError;
use crate::output::{BLUE, BOLD, CYAN, DIM, GREEN, YELLOW};
use crate::table::{Cell, Table};
use crate::text;
use crate::view;

/// How long people get to read a line.
const PAUSE: Duration = Duration::from_millis(800);
/// Not every change is an event, so the table is refreshed this often.
const REFRESH: Duration = Duration::from_millis(250);
/// How long, and how often, to look at a screen: it may change a moment after the status.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const LOOKS: usize = 1200;
const EVENTS_SHOWN: usize = 5;
/// On a narrower terminal lines of the table would wrap; on a wider one they would be hard to read.
const NARROWEST: usize = 80;
const WIDEST: usize = 100;
/// Where the text of a line begins.
const COLUMN: usize = 15;

pub(super) struct Stage<'a> {
    pub(super) context: &'a Context,
    pub(super) ann: &'a Context,
    pub(super) bob: &'a Context,
    pub(super) client: &'a Client,
    pub(super) stream: EventStream<'a>,
    pub(super) events: VecDeque<Event>,
    pub(super) fast: bool,
    /// The lines printed so far.
    pub(super) shown: Vec<Shown>,
    /// The table on the screen, which the next one replaces.
    pub(super) drawn: String,
}

/// All sessions, oldest first.
pub(super) async fn sessions(client: &Client) -> Result<Vec<Session>, UserError> {
    let all = Sessions {
        all: true,
        ..Sessions::default()
    };
    let mut sessions = client.list_sessions(&all).await?.data;
    sessions.reverse();
    Ok(sessions)
}

impl Stage<'_> {
    /// Performs the script and leaves the final table on the screen.
    pub(super) async fn play(&mut self) -> Result<Vec<Proof>, UserError> {
        let (mut session, mut command, mut refused) = ("", None, None);
        let mut proofs = vec![];
        for step in STORY.lines() {
            let first = step
                .split(' ')
                .next()
                .filter(|word| word.starts_with("demo-"));
            session = first.unwrap_or(session);
            let step = self.filled(session, step).await?;
            let mut words = step.splitn(3, ' ');
            let mut word = || words.next().unwrap_or_default();
            match (word(), word(), word()) {
                (id, "reaches", statuses) => {
                    let wait = format!("skein wait {id} --until {statuses} --timeout 1m");
                    self.run(id, &wait).await?;
                }
                (_, "types", line) => command = Some(line.to_owned()),
                (actor, "does", did) => {
                    let shown = Shown {
                        actor: actor.to_owned(),
                        did: did.to_owned(),
                        command: command.take(),
                        refused: refused.take(),
                    };
                    self.show(shown).await?;
                }
                (_, "proves", text) => {
                    let (what, proof) = text.split_once(": ").unwrap_or((text, ""));
                    let (what, proof) = (what.to_owned(), proof.to_owned());
                    proofs.push(Proof {
                        session,
                        what,
                        proof,
                    });
                }
                (actor, verb, line) => {
                    match (self.run(actor, line).await, verb) {
                        (ran, "runs") => ran?,
                        (Err(error), _) => refused = Some(error.message().to_owned()),
                        (Ok(()), _) => {
                            return Err(UserError::failed(format!("not refused: {line}")));
                        }
                    }
                    let visible = line.split_once(" // ");
                    command = Some(visible.map_or(line.into(), |(first, _)| format!("{first}\"")));
                }
            }
        }
        self.replace_table("")?;
        let sessions = sessions(self.client).await?;
        self.print(&format!("\n{}", self.table(&sessions)))?;
        Ok(proofs)
    }

    /// Runs a command as this actor, without its output. The text in quotes is its last argument.
    async fn run(&mut self, actor: &str, line: &str) -> Result<(), UserError> {
        if let Some(pid) = line.strip_prefix("kill -9 ") {
            let pid = pid.parse().ok().and_then(Pid::from_raw);
            let pid = pid.ok_or_else(|| UserError::failed("the agent has no process"))?;
            return kill_process(pid, Signal::KILL)
                .map_err(|error| UserError::failed("cannot kill an agent").caused_by(&error));
        }
        let (words, text) = line.split_once(" \"").unwrap_or((line, ""));
        let text = text.trim_end_matches('"').replace(" // ", "\n");
        let words = words
            .split(' ')
            .chain(Some(&*text).filter(|text| !text.is_empty()));
        let cli = Cli::try_parse_from(words)
            .map_err(|error| UserError::failed("cannot play the demo").caused_by(&error))?;
        let context = if actor == BOB { self.bob } else { self.ann };
        self.watch(Box::pin(dispatch(context, cli.command))).await?
    }

    /// The text with facts of the session in place of their names in braces.
    async fn filled(&mut self, session: &str, text: &str) -> Result<String, UserError> {
        let mut pieces = text.split('{');
        let mut out = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (name, rest) = piece.split_once('}').unwrap_or((piece, ""));
            out = out + &self.fact(session, name).await? + rest;
        }
        Ok(out)
    }

    /// A field of what the daemon says of a session, such as `session/workspace/branch`.
    async fn fact(&mut self, id: &str, name: &str) -> Result<String, UserError> {
        let client = self.client;
        let (of, field) = name.split_at(name.find('/').unwrap_or(name.len()));
        let document = match of {
            "repository" => json!(
                self.ann
                    .home
                    .root()
                    .with_file_name("demo")
                    .display()
                    .to_string()
            ),
            "session" => json!(client.get_session(id).await?),
            "why" => json!(client.why(id).await?),
            "diff" => json!(client.diff(id, true).await?),
            "receipt" => {
                let mut receipts = client.list_receipts(id, &Page::default()).await?.data;
                receipts.retain(|receipt| receipt.purpose == "message");
                json!(receipts.first())
            }
            // What the restored agent prints.
            _ => {
                let (mut row, mut looks) = (None, 0..LOOKS);
                while row.is_none() && looks.next().is_some() {
                    self.watch(sleep(LOOK_AGAIN)).await?;
                    let rows = client.screen(id).await?.rows;
                    row = rows.into_iter().find(|row| row.contains("resumed"));
                }
                json!(row)
            }
        };
        match document.pointer(field) {
            Some(Value::String(text)) => {
                Ok(text.lines().next().unwrap_or_default().trim().to_owned())
            }
            Some(Value::Number(number)) => Ok(number.to_string()),
            Some(Value::Array(history)) => {
                let states = history.iter().filter_map(|step| step["state"].as_str());
                Ok(states.collect::<Vec<_>>().join(" → "))
            }
            _ => Err(UserError::failed(format!("{id} has no {name}"))),
        }
    }

    /// Keeps the table up to date until `work` is done.
    async fn watch<T>(&mut self, work: impl Future<Output = T>) -> Result<T, UserError> {
        let mut work = pin!(work);
        loop {
            self.redraw().await?;
            tokio::select! {
                done = &mut work => return Ok(done),
                event = self.stream.next() => {
                    self.events.push_back(event?);
                    self.events.drain(..self.events.len().saturating_sub(EVENTS_SHOWN));
                }
                () = sleep(REFRESH) => {}
            }
        }
    }

    /// Prints who did what, the command for it, and the expected refusal.
    async fn show(&mut self, shown: Shown) -> Result<(), UserError> {
        let paint = self.context.out.paint();
        let hanging = |text: &str| text::hanging(text, self.width(), COLUMN);
        let (mark, style) = match shown.refused {
            None => ("✓", GREEN),
            Some(_) => ("✗", YELLOW),
        };
        let actor = paint.apply(BLUE, &format!("{:<12}", shown.actor));
        let mut out = format!(
            "{} {actor} {}\n",
            paint.apply(style, mark),
            hanging(&shown.did)
        );
        let command = shown.command.as_ref().map(|command| format!("$ {command}"));
        for (text, style) in [(&command, CYAN), (&shown.refused, YELLOW)] {
            if let Some(text) = text {
                let text = paint.apply(style, &hanging(text));
                out.push_str(&format!("{:COLUMN$}{text}\n", ""));
            }
        }
        self.shown.push(shown);
        self.replace_table("")?;
        self.print(&out)?;
        match self.is_live() && !self.fast {
            true => self.watch(sleep(PAUSE)).await,
            false => self.redraw().await,
        }
    }

    fn print(&self, text: &str) -> Result<(), UserError> {
        match self.context.out.is_json() {
            true => Ok(()),
            false => self.context.out.raw(text),
        }
    }

    fn is_live(&self) -> bool {
        let width = self
            .context
            .out
            .width()
            .filter(|_| !self.context.out.is_json());
        width.is_some_and(|width| width >= NARROWEST)
    }

    fn width(&self) -> Option<usize> {
        self.context.out.width().map(|width| width.min(WIDEST))
    }

    /// Draws the table with the latest events, if it changed.
    async fn redraw(&mut self) -> Result<(), UserError> {
        if !self.is_live() {
            return Ok(());
        }
        let sessions = sessions(self.client).await?;
        let mut drawn = String::new();
        if !sessions.is_empty() {
            drawn = format!("\n{}\n", self.table(&sessions));
            for event in &self.events {
                let paint = self.context.out.paint();
                drawn += &view::event_line(event, view::Time::Clock, self.width(), paint);
                drawn.push('\n');
            }
        }
        match drawn == self.drawn {
            true => Ok(()),
            false => self.replace_table(&drawn),
        }
    }

    /// Replaces the table in one write, so that the screen does not flicker.
    fn replace_table(&mut self, table: &str) -> Result<(), UserError> {
        let back = match self.drawn.lines().count() {
            0 => String::new(),
            // Cursor up, clear to the end.
            lines => format!("\u{1b}[{lines}A\u{1b}[J"),
        };
        table.clone_into(&mut self.drawn);
        self.print(&format!("{back}{table}"))
    }

    fn table(&self, sessions: &[Session]) -> String {
        let mut table = Table::new("SESSION STATUS OWNER >RUN >TOKENS TASK ~WHY");
        for session in sessions {
            let step = session
                .saga
                .as_ref()
                .and_then(|s| Some((&s.kind, s.step.as_ref()?)));
            let why = match step {
                Some((kind, step)) => format!("{kind}: {step}"),
                None => session.status_reason.clone(),
            };
            table.row(vec![
                Cell::styled(&session.id, BOLD),
                Cell::styled(&session.status, view::status_style(&session.status)),
                Cell::styled(&session.owner, BLUE),
                Cell::from(session.run.to_string()),
                Cell::from(text::number(view::used(session))),
                Cell::new(&text::first_line(&session.display_name)),
                Cell::styled(&text::first_line(&why), DIM),
            ]);
        }
        table.render(self.width(), self.context.out.paint())
    }
}
