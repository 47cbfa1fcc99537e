//! How the demo is shown: on a terminal step by step above a live table, elsewhere as plain lines.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::pin::pin;
use std::time::Duration;

use clap::Parser as _;
use serde::Serialize;
use skein_client::{Client, EventStream, Sessions};
use skein_wire::{Event, Session};
use tokio::time::sleep;

use super::story::{ANN, BOB};
use crate::cli::Cli;
use crate::command::dispatch;
use crate::context::Context;
use crate::error::UserError;
use crate::output::{BLUE, BOLD, CYAN, DIM, GREEN, Output, YELLOW};
use crate::table::{Align, Cell, Table};
use crate::text;
use crate::view;

/// How long people get to read a step.
const PAUSE: Duration = Duration::from_millis(800);
/// Not every change is an event, so the table is refreshed this often.
const REFRESH: Duration = Duration::from_millis(250);
const EVENTS_SHOWN: usize = 5;
/// On a narrower terminal lines of the table would wrap; on a wider one they would be hard to read.
const NARROWEST: usize = 80;
const WIDEST: usize = 100;
/// Where the text of a step begins.
const COLUMN: usize = 15;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Step {
    actor: String,
    did: String,
    /// What to type for it.
    command: Option<String>,
    /// The expected refusal.
    refused: Option<String>,
}

pub(super) struct Stage<'a> {
    out: &'a Output,
    pub(super) ann: &'a Context,
    bob: &'a Context,
    pub(super) client: &'a Client,
    stream: EventStream<'a>,
    events: VecDeque<Event>,
    fast: bool,
    steps: Vec<Step>,
    /// What to type for what happens next.
    pub(super) command: Option<String>,
    refused: Option<String>,
    /// The table on the screen, which the next one replaces.
    drawn: String,
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

impl<'a> Stage<'a> {
    pub(super) async fn open(
        out: &'a Output,
        ann: &'a Context,
        bob: &'a Context,
        fast: bool,
    ) -> Result<Self, UserError> {
        let client = ann.client().await?;
        let mut stream = client.follow_events(None, None);
        stream.open().await?;
        Ok(Self {
            out,
            ann,
            bob,
            client,
            stream,
            events: VecDeque::new(),
            fast,
            steps: vec![],
            command: None,
            refused: None,
            drawn: String::new(),
        })
    }

    pub(super) fn into_steps(self) -> Vec<Step> {
        self.steps
    }

    /// Runs a command of `skein` as this actor, without its output; `text` is its last argument, if not empty. The next
    /// step shows the command.
    pub(super) async fn run(
        &mut self,
        actor: &str,
        line: &str,
        text: &str,
    ) -> Result<(), UserError> {
        let first = text.lines().next().map(|first| format!(" \"{first}\""));
        self.command = Some(format!("skein {line}{}", first.unwrap_or_default()));
        let words = std::iter::once("skein").chain(line.split(' '));
        let words = words.chain(Some(text).filter(|text| !text.is_empty()));
        let cli = Cli::try_parse_from(words)
            .map_err(|error| UserError::failed("cannot play the demo").caused_by(&error))?;
        let context = if actor == BOB { self.bob } else { self.ann };
        self.watch(Box::pin(dispatch(context, cli.command))).await?
    }

    /// Waits until a session has one of these statuses.
    pub(super) async fn wait(&mut self, id: &str, statuses: &str) -> Result<Session, UserError> {
        let line = format!("wait {id} --until {statuses} --timeout 1m");
        self.run(ANN, &line, "").await?;
        self.command = None;
        Ok(self.client.get_session(id).await?)
    }

    /// Keeps the table up to date until `work` is done.
    pub(super) async fn watch<T>(&mut self, work: impl Future<Output = T>) -> Result<T, UserError> {
        let mut work = pin!(work);
        loop {
            self.redraw().await?;
            tokio::select! {
                done = &mut work => return Ok(done),
                event = self.stream.next() => {
                    self.events.push_back(event?);
                    while self.events.len() > EVENTS_SHOWN {
                        self.events.pop_front();
                    }
                }
                () = sleep(REFRESH) => {}
            }
        }
    }

    /// Runs a command that must be refused. The next step shows the refusal.
    pub(super) async fn run_refused(&mut self, actor: &str, line: &str) -> Result<(), UserError> {
        match self.run(actor, line, "").await {
            Ok(()) => Err(UserError::failed(format!(
                "the demo expected a refusal of `{line}`"
            ))),
            Err(error) => {
                self.refused = Some(error.message().to_owned());
                Ok(())
            }
        }
    }

    /// Shows what an actor did, with the last command.
    pub(super) async fn step(&mut self, actor: &str, what: &str) -> Result<(), UserError> {
        let step = Step {
            actor: actor.to_owned(),
            did: what.to_owned(),
            command: self.command.take(),
            refused: self.refused.take(),
        };
        let printed = self.rendered(&step);
        self.steps.push(step);
        if self.out.is_json() {
            return Ok(());
        }
        self.replace_table("")?;
        self.out.raw(&printed)?;
        match self.is_live() && !self.fast {
            true => self.watch(sleep(PAUSE)).await,
            false => self.redraw().await,
        }
    }

    /// Leaves the final table on the screen.
    pub(super) async fn finish(&mut self) -> Result<(), UserError> {
        if self.out.is_json() {
            return Ok(());
        }
        self.replace_table("")?;
        let table = table(&sessions(self.client).await?);
        let table = table.render(self.width(), self.out.paint());
        self.out.raw(&format!("\n{table}"))
    }

    fn is_live(&self) -> bool {
        !self.out.is_json() && self.out.width().is_some_and(|width| width >= NARROWEST)
    }

    fn width(&self) -> Option<usize> {
        self.out.width().map(|width| width.min(WIDEST))
    }

    fn rendered(&self, step: &Step) -> String {
        let paint = self.out.paint();
        let hanging = |text: &str| {
            let text = text::line(text);
            let width = self.width().map_or(usize::MAX, |width| width - COLUMN);
            text::wrap(&text, width).join(&format!("\n{:COLUMN$}", ""))
        };
        let (mark, style) = match step.refused {
            None => ("✓", GREEN),
            Some(_) => ("✗", YELLOW),
        };
        let mut out = format!(
            "{} {} {}\n",
            paint.apply(style, mark),
            paint.apply(BLUE, &format!("{:<12}", step.actor)),
            hanging(&step.did)
        );
        let command = step.command.as_ref().map(|command| format!("$ {command}"));
        for (text, style) in [(&command, CYAN), (&step.refused, YELLOW)] {
            if let Some(text) = text {
                let _ = writeln!(out, "{:COLUMN$}{}", "", paint.apply(style, &hanging(text)));
            }
        }
        out
    }

    /// Draws the table with the latest events, if it changed.
    async fn redraw(&mut self) -> Result<(), UserError> {
        if !self.is_live() {
            return Ok(());
        }
        let (paint, width) = (self.out.paint(), self.width());
        let sessions = sessions(self.client).await?;
        let mut table = match sessions.is_empty() {
            true => String::new(),
            false => format!("\n{}\n", table(&sessions).render(width, paint)),
        };
        for event in self.events.iter().filter(|_| !sessions.is_empty()) {
            let line = view::event_line(event, view::Time::Clock, width, paint);
            let _ = writeln!(table, "{line}");
        }
        match table == self.drawn {
            true => Ok(()),
            false => self.replace_table(&table),
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
        self.out.raw(&format!("{back}{table}"))
    }
}

fn table(sessions: &[Session]) -> Table {
    let mut table = Table::new(&[
        ("SESSION", Align::Left),
        ("STATUS", Align::Left),
        ("OWNER", Align::Left),
        ("RUN", Align::Right),
        ("TOKENS", Align::Right),
        ("TASK", Align::Left),
        ("WHY", Align::Flex),
    ]);
    for session in sessions {
        let step = session
            .saga
            .as_ref()
            .and_then(|s| Some((&s.kind, s.step.as_ref()?)));
        let why = match step {
            Some((kind, step)) => format!("{kind}: {step}"),
            None => session.status_reason.clone(),
        };
        let tokens = session.usage.input_tokens + session.usage.output_tokens;
        table.row(vec![
            Cell::styled(&session.id, BOLD),
            Cell::styled(&session.status, view::status_style(&session.status)),
            Cell::styled(&session.owner, BLUE),
            Cell::from(session.run.to_string()),
            Cell::from(text::number(tokens)),
            Cell::new(&text::first_line(&session.display_name)),
            Cell::styled(&text::first_line(&why), DIM),
        ]);
    }
    table
}
