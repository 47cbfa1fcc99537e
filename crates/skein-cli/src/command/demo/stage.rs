//! How the demo is shown: step by step with a living picture below on a terminal, plain lines elsewhere.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use skein_client::{Client, Error, Events, Sessions};
use skein_wire::Session;
use tokio::time::sleep;

use crate::error::UserError;
use crate::output::{BLUE, BOLD, DIM, GREEN, Output, YELLOW};
use crate::text;
use crate::view;

const PAUSE: Duration = Duration::from_millis(900);
const EVENTS_SHOWN: usize = 6;
const TAIL_SHOWN: usize = 12;
/// On a narrower terminal the picture's lines would wrap, and could not be taken back by counting them.
const NARROWEST: usize = 80;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Step {
    pub(super) actor: String,
    pub(super) did: String,
    /// The refusal that was meant to happen.
    pub(super) refused: Option<String>,
}

#[derive(Debug)]
pub(super) struct Stage<'a> {
    out: &'a Output,
    client: Client,
    fast: bool,
    root: Option<String>,
    steps: Vec<Step>,
    /// Lines of the picture on the screen, to be replaced by the next.
    drawn: usize,
}

impl<'a> Stage<'a> {
    pub(super) fn new(out: &'a Output, client: Client, fast: bool) -> Self {
        Self {
            out,
            client,
            fast,
            root: None,
            steps: vec![],
            drawn: 0,
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn into_steps(self) -> Vec<Step> {
        self.steps
    }

    /// The session whose tree is the picture.
    pub(super) fn watch(&mut self, root: &Session) {
        self.root = Some(root.id.clone());
    }

    pub(super) async fn sessions(&self) -> Result<Vec<Session>, UserError> {
        let which = Sessions {
            all: true,
            ..Sessions::default()
        };
        Ok(self.client.list_sessions(&which).await?.data)
    }

    /// Something was done.
    pub(super) async fn did(&mut self, actor: &str, what: &str) -> Result<(), UserError> {
        self.step(actor, what, None).await
    }

    /// Something was tried and rightly refused; being allowed would be a fault.
    pub(super) async fn was_refused<T>(
        &mut self,
        actor: &str,
        what: &str,
        result: Result<T, Error>,
    ) -> Result<(), UserError> {
        match result {
            Ok(_) => Err(UserError::failed(format!(
                "the demo expected a refusal: {what}"
            ))),
            Err(error @ Error::Answered { .. }) => {
                let why = error.to_string();
                self.step(actor, what, Some((why, error.hints()))).await
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn step(
        &mut self,
        actor: &str,
        what: &str,
        refused: Option<(String, Vec<String>)>,
    ) -> Result<(), UserError> {
        let told = self.told(actor, what, refused.as_ref());
        self.steps.push(Step {
            actor: actor.to_owned(),
            did: what.to_owned(),
            refused: refused.map(|(why, _)| why),
        });
        if self.out.is_json() {
            return Ok(());
        }
        self.erase()?;
        self.out.raw(&told)?;
        if self.out.width().is_some_and(|width| width >= NARROWEST) {
            let picture = self.picture(EVENTS_SHOWN).await?;
            self.drawn = picture.lines().count();
            self.out.raw(&picture)?;
            if !self.fast {
                sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    fn told(&self, actor: &str, what: &str, refused: Option<&(String, Vec<String>)>) -> String {
        let paint = self.out.paint();
        let number = self.steps.len() + 1;
        let (mark, style) = match refused {
            None => ("✓", GREEN),
            Some(_) => ("✗", YELLOW),
        };
        let mut out = format!(
            "{} {} {} {}\n",
            paint.apply(style, mark),
            paint.apply(DIM, &format!("{number:>2}")),
            paint.apply(BLUE, &format!("{actor:<12}")),
            self.hanging(what, 18)
        );
        if let Some((why, hints)) = refused {
            let why = self.hanging(why, 7);
            let _ = writeln!(out, "       {}", paint.apply(YELLOW, &why));
            for hint in hints {
                let head = paint.apply(DIM, "hint:");
                let _ = writeln!(out, "       {head} {}", self.hanging(hint, 13));
            }
        }
        out
    }

    /// A text that begins in some column, and goes on below it where the terminal is too narrow.
    fn hanging(&self, text: &str, column: usize) -> String {
        let text = text::line(text);
        match self.out.width() {
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
        let picture = self.picture(TAIL_SHOWN).await?;
        self.out.raw(&picture)
    }

    async fn picture(&self, most: usize) -> Result<String, UserError> {
        let paint = self.out.paint();
        let width = self.out.width();
        let mut out = String::new();
        if let Some(root) = &self.root {
            let tree = self.client.tree(root).await?;
            let _ = writeln!(out, "\n{}", paint.apply(BOLD, "tree"));
            out.push_str(&view::tree(&tree).render(width, paint));
        }
        let which = Events {
            limit: Some(1000),
            ..Events::default()
        };
        let events = self.client.list_events(&which).await?.data;
        let _ = writeln!(out, "\n{}", paint.apply(BOLD, "events"));
        for event in &events[events.len().saturating_sub(most)..] {
            let _ = writeln!(
                out,
                "{}",
                view::event_line(event, view::Time::Ago, width, paint)
            );
        }
        Ok(out)
    }

    /// Takes the picture off a terminal: cursor up, clear to the end.
    fn erase(&mut self) -> Result<(), UserError> {
        let lines = std::mem::take(&mut self.drawn);
        if lines == 0 {
            return Ok(());
        }
        self.out.raw(&format!("\u{1b}[{lines}A\u{1b}[J"))
    }
}
