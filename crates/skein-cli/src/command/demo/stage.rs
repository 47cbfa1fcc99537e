//! How the demo is shown: step by step with a living table below on a terminal, plain lines elsewhere.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

use anstyle::Style;
use serde::Serialize;
use skein_client::{Client, Error, EventStream, Sessions};
use skein_wire::{Event, Session};
use tokio::time::{Instant, timeout, timeout_at};

use crate::error::UserError;
use crate::output::{BLUE, BOLD, CYAN, DIM, GREEN, Output, RED, YELLOW};
use crate::table::{Align, Cell, Table};
use crate::text;
use crate::view;

/// How long people get to read a step.
const PAUSE: Duration = Duration::from_millis(800);
/// Without an event for so long it is looked again: not every change of what is seen is an event.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// What takes longer has gone wrong.
const PATIENCE: Duration = Duration::from_secs(60);
const EVENTS_SHOWN: usize = 5;
/// On a narrower terminal the picture's lines would wrap, and could not be taken back by counting them; on a
/// wider one they would be hard to read.
const NARROWEST: usize = 80;
const WIDEST: usize = 100;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Step {
    pub(super) actor: String,
    pub(super) did: String,
    /// What to type for it.
    pub(super) command: Option<String>,
    /// The refusal that was meant to happen.
    pub(super) refused: Option<String>,
}

pub(super) struct Stage<'a> {
    out: &'a Output,
    client: &'a Client,
    stream: EventStream<'a>,
    events: VecDeque<Event>,
    fast: bool,
    steps: Vec<Step>,
    /// The picture on the screen, to be replaced by the next.
    drawn: String,
}

impl<'a> Stage<'a> {
    pub(super) async fn open(
        out: &'a Output,
        client: &'a Client,
        fast: bool,
    ) -> Result<Self, UserError> {
        let mut stream = client.follow_events(None, None);
        stream.open().await?;
        Ok(Self {
            out,
            client,
            stream,
            events: VecDeque::new(),
            fast,
            steps: vec![],
            drawn: String::new(),
        })
    }

    pub(super) fn client(&self) -> &'a Client {
        self.client
    }

    pub(super) fn into_steps(self) -> Vec<Step> {
        self.steps
    }

    /// The oldest first.
    pub(super) async fn sessions(&self) -> Result<Vec<Session>, UserError> {
        let which = Sessions {
            all: true,
            ..Sessions::default()
        };
        let mut sessions = self.client.list_sessions(&which).await?.data;
        sessions.reverse();
        Ok(sessions)
    }

    /// Something was done.
    pub(super) async fn did(
        &mut self,
        actor: &str,
        what: &str,
        command: Option<&str>,
    ) -> Result<(), UserError> {
        self.step(actor, what, command, None).await
    }

    /// Something was tried and rightly refused; being allowed would be a fault.
    pub(super) async fn was_refused<T>(
        &mut self,
        actor: &str,
        what: &str,
        command: &str,
        result: Result<T, Error>,
    ) -> Result<(), UserError> {
        match result {
            Ok(_) => Err(UserError::failed(format!(
                "the demo expected a refusal: {what}"
            ))),
            Err(error @ Error::Answered { .. }) => {
                self.step(actor, what, Some(command), Some(error.to_string()))
                    .await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Shows what happens until `look` finds something.
    pub(super) async fn until<T>(
        &mut self,
        what: &str,
        look: impl AsyncFn(&Client) -> Result<Option<T>, UserError>,
    ) -> Result<T, UserError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.redraw().await?;
            if let Some(found) = look(self.client).await? {
                return Ok(found);
            }
            if Instant::now() >= deadline {
                return Err(UserError::failed(format!(
                    "the demo waited in vain: {what}"
                )));
            }
            if let Ok(event) = timeout(LOOK_AGAIN, self.stream.next()).await {
                self.heard(event?);
            }
        }
    }

    /// Until a session has one of some statuses.
    pub(super) async fn until_is(
        &mut self,
        session: &str,
        statuses: &[&str],
    ) -> Result<Session, UserError> {
        let what = format!("{session} is {}", statuses.join(" or "));
        self.until(&what, async |client| {
            let session = client.get_session(session).await?;
            let is = session.saga.is_none() && statuses.contains(&session.status.as_str());
            Ok(is.then_some(session))
        })
        .await
    }

    async fn step(
        &mut self,
        actor: &str,
        what: &str,
        command: Option<&str>,
        refused: Option<String>,
    ) -> Result<(), UserError> {
        let told = self.told(actor, what, command, refused.as_deref());
        self.steps.push(Step {
            actor: actor.to_owned(),
            did: what.to_owned(),
            command: command.map(str::to_owned),
            refused,
        });
        if self.out.is_json() {
            return Ok(());
        }
        self.erase()?;
        self.out.raw(&told)?;
        self.redraw().await?;
        if self.is_live() && !self.fast {
            let until = Instant::now() + PAUSE;
            while let Ok(event) = timeout_at(until, self.stream.next()).await {
                self.heard(event?);
                self.redraw().await?;
            }
        }
        Ok(())
    }

    fn heard(&mut self, event: Event) {
        self.events.push_back(event);
        while self.events.len() > EVENTS_SHOWN {
            self.events.pop_front();
        }
    }

    fn is_live(&self) -> bool {
        !self.out.is_json() && self.out.width().is_some_and(|width| width >= NARROWEST)
    }

    fn width(&self) -> Option<usize> {
        self.out.width().map(|width| width.min(WIDEST))
    }

    fn told(
        &self,
        actor: &str,
        what: &str,
        command: Option<&str>,
        refused: Option<&str>,
    ) -> String {
        let paint = self.out.paint();
        let (mark, style) = match refused {
            None => ("✓", GREEN),
            Some(_) => ("✗", YELLOW),
        };
        let mut out = format!(
            "{} {} {}\n",
            paint.apply(style, mark),
            paint.apply(BLUE, &format!("{actor:<12}")),
            self.hanging(what, 15)
        );
        if let Some(command) = command {
            let command = self.hanging(&format!("$ {command}"), 15);
            let _ = writeln!(out, "{:15}{}", "", paint.apply(CYAN, &command));
        }
        if let Some(why) = refused {
            let why = self.hanging(why, 15);
            let _ = writeln!(out, "{:15}{}", "", paint.apply(YELLOW, &why));
        }
        out
    }

    /// A text that begins in some column, and goes on below it where the terminal is too narrow.
    fn hanging(&self, text: &str, column: usize) -> String {
        let text = text::line(text);
        match self.width() {
            Some(width) => {
                text::wrap(&text, width.saturating_sub(column)).join(&format!("\n{:column$}", ""))
            }
            None => text,
        }
    }

    /// The last picture stays; elsewhere than on a terminal it is the only one.
    pub(super) async fn curtain(&mut self) -> Result<(), UserError> {
        if self.out.is_json() {
            return Ok(());
        }
        self.erase()?;
        let table = table(&self.sessions().await?);
        let table = table.render(self.width(), self.out.paint());
        self.out.raw(&format!("\n{table}"))
    }

    /// Only where it changed, so that nothing flickers.
    async fn redraw(&mut self) -> Result<(), UserError> {
        if !self.is_live() {
            return Ok(());
        }
        let picture = self.picture().await?;
        if picture == self.drawn {
            return Ok(());
        }
        // In one write, so that nobody sees an empty screen in between.
        let back = self.back();
        self.out.raw(&format!("{back}{picture}"))?;
        self.drawn = picture;
        Ok(())
    }

    async fn picture(&self) -> Result<String, UserError> {
        let paint = self.out.paint();
        let width = self.width();
        let sessions = self.sessions().await?;
        if sessions.is_empty() {
            return Ok(String::new());
        }
        let mut out = format!("\n{}\n", table(&sessions).render(width, paint));
        for event in &self.events {
            let line = view::event_line(event, view::Time::Clock, width, paint);
            let _ = writeln!(out, "{line}");
        }
        Ok(out)
    }

    /// Takes the picture off a terminal.
    fn erase(&mut self) -> Result<(), UserError> {
        let back = self.back();
        self.drawn.clear();
        match back.is_empty() {
            true => Ok(()),
            false => self.out.raw(&back),
        }
    }

    /// Cursor up, clear to the end.
    fn back(&self) -> String {
        match self.drawn.lines().count() {
            0 => String::new(),
            lines => format!("\u{1b}[{lines}A\u{1b}[J"),
        }
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
        let usage = &session.usage;
        table.row(vec![
            Cell::styled(&session.id, BOLD),
            Cell::styled(&session.status, style(&session.status)),
            Cell::styled(&session.owner, BLUE),
            Cell::from(session.run.to_string()),
            Cell::from(text::number(usage.input_tokens + usage.output_tokens)),
            Cell::new(&text::first_line(&session.display_name)),
            Cell::styled(&text::first_line(&doing(session)), DIM),
        ]);
    }
    table
}

fn doing(session: &Session) -> String {
    let step = session.saga.as_ref().and_then(|saga| saga.step.as_deref());
    match (&session.saga, step) {
        (Some(saga), Some(step)) => format!("{}: {step}", saga.kind),
        _ => session.status_reason.clone(),
    }
}

fn style(status: &str) -> Style {
    match status {
        "working" => GREEN,
        "needs_input" | "spawning" => YELLOW,
        "failed" | "lost" => RED,
        "done" | "killed" => DIM,
        _ => Style::new(),
    }
}
