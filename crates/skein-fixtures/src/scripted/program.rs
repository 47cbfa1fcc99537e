//! The scripted program: one thread, one wait for input, no clock but its own timers.

use std::collections::VecDeque;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::hook::Hook;
use super::journal::Journal;
use super::screen::Screen;
use super::script::Behaviour;
use super::view::{Block, clean};
use skein_terminal::{Key, TerminalEvent, TimedKeys};

/// Bytes of one read, and of one slow read.
const READ: usize = 64 * 1024;
const SLOW_READ: usize = 256;

#[derive(Debug)]
pub(super) enum Stop {
    Exit(i32),
    /// Ends without restoring the terminal.
    Crash(i32),
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Self {
        // The terminal or the disk is gone, so the error cannot be reported.
        Self::Exit(74)
    }
}

pub(super) type Go<T = ()> = Result<T, Stop>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    Working,
    Asking {
        text: String,
        options: Vec<String>,
    },
    /// Needs a key as the answer; there is no input box.
    Dialog {
        text: String,
    },
    Blocked {
        why: String,
    },
}

/// User actions that matter to a running turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Done {
    Interrupted,
    Answered(String),
    Dismissed,
    DialogClosed,
}

#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cost_micros: u64,
}

#[derive(Debug)]
pub(super) struct Program {
    pub(super) screen: Screen,
    pub(super) journal: Journal,
    pub(super) hook: Hook,
    pub(super) behaviour: Behaviour,
    pub(super) state: State,
    pub(super) turns: u64,
    pub(super) used: Totals,
    keys: TimedKeys,
    /// The lines printed in this turn.
    pub(super) said: Vec<String>,
    draft: String,
    /// The displayed part of the draft while the rest is delayed.
    stale: Option<(String, Instant)>,
    queue: VecDeque<String>,
    done: VecDeque<Done>,
    redraw_at: Option<Instant>,
}

impl Program {
    pub(super) fn new(screen: Screen, journal: Journal, hook: Hook, behaviour: Behaviour) -> Self {
        let redraw_at = behaviour.redraw.map(|every| Instant::now() + every);
        Self {
            redraw_at: redraw_at.filter(|_| screen.interactive),
            screen,
            journal,
            hook,
            behaviour,
            state: State::Working,
            turns: 0,
            used: Totals::default(),
            keys: TimedKeys::default(),
            said: Vec::new(),
            draft: String::new(),
            stale: None,
            queue: VecDeque::new(),
            done: VecDeque::new(),
        }
    }

    /// Greets, shows its first-run dialog, and accepts prompts until it ends.
    pub(super) fn live(&mut self, first: Option<String>) -> Stop {
        let lived = self.begin().and_then(|()| match first {
            Some(prompt) => self.turn(&prompt),
            None => Ok(()),
        });
        if let Err(stop) = lived {
            return stop;
        }
        loop {
            if let Err(stop) = self.next() {
                return stop;
            }
        }
    }

    fn begin(&mut self) -> Go {
        self.screen.begin()?;
        if let Some(text) = self.behaviour.dialog.clone() {
            self.dialog(text)?;
        }
        if let Some(busy) = self.behaviour.busy {
            self.say("busy by itself");
            self.be(State::Working)?;
            self.pause(Some(Instant::now() + busy))?;
        }
        self.be(State::Ready)
    }

    fn dialog(&mut self, text: String) -> Go {
        if !self.screen.interactive {
            return Ok(());
        }
        self.be(State::Dialog { text })?;
        while self.done.pop_front() != Some(Done::DialogClosed) {
            self.pump(None)?;
        }
        self.say("dialog answered");
        Ok(())
    }

    fn next(&mut self) -> Go {
        match self.queue.pop_front() {
            Some(prompt) => self.turn(&prompt),
            None if self.screen.interactive => self.pump(None),
            None => Err(Stop::Exit(0)),
        }
    }

    /// Waits until the time, or until a user action that matters to a turn.
    pub(super) fn pause(&mut self, until: Option<Instant>) -> Go<Option<Done>> {
        loop {
            if let Some(done) = self.done.pop_front() {
                return Ok(Some(done));
            }
            if until.is_some_and(|at| at <= Instant::now()) {
                return Ok(None);
            }
            self.pump(until)?;
        }
    }

    /// Handles input that has arrived.
    pub(super) fn glance(&mut self) -> Go<Option<Done>> {
        self.pause(Some(Instant::now()))
    }

    /// Waits once: for input, a timer, or the deadline.
    fn pump(&mut self, deadline: Option<Instant>) -> Go {
        self.draw()?;
        if !self.screen.interactive {
            let Some(at) = deadline else {
                // Only a signal can wake it.
                thread::sleep(Duration::from_secs(3600));
                return Ok(());
            };
            thread::sleep(at.saturating_duration_since(Instant::now()));
            return Ok(());
        }
        let late = self.stale.as_ref().map(|(_, at)| *at);
        let timers = [deadline, late, self.redraw_at, self.keys.settles_at()];
        let wake = timers.into_iter().flatten().min();
        let most = match self.behaviour.slow_read {
            Some(_) => SLOW_READ,
            None => READ,
        };
        match self.screen.wait(wake, most)? {
            TerminalEvent::Bytes(bytes) => self.take(&bytes)?,
            TerminalEvent::Nothing => {}
            TerminalEvent::Gone => return Err(Stop::Exit(129)),
        }
        self.tick()?;
        self.draw()
    }

    fn take(&mut self, bytes: &[u8]) -> Go {
        if let Some(pause) = self.behaviour.slow_read {
            thread::sleep(pause);
        }
        let keys = self.keys.push(bytes, Instant::now());
        let finished = keys.iter().map(|key| match key {
            Key::Paste(text) => text.len(),
            _ => 0,
        });
        let pasted = finished.sum::<usize>().max(self.keys.pasted());
        if self
            .behaviour
            .die_on_paste
            .is_some_and(|n| pasted >= n.max(1))
        {
            return Err(Stop::Crash(137));
        }
        keys.into_iter().try_for_each(|key| self.press(key))
    }

    fn tick(&mut self) -> Go {
        let now = Instant::now();
        for key in self.keys.settle(now) {
            self.press(key)?;
        }
        if self.stale.as_ref().is_some_and(|(_, at)| *at <= now) {
            self.stale = None;
        }
        if self.redraw_at.is_some_and(|at| at <= now) {
            self.redraw_at = self.behaviour.redraw.map(|every| now + every);
            let block = self.block();
            self.screen.draw_whole(block)?;
        }
        Ok(())
    }

    fn press(&mut self, key: Key) -> Go {
        let key = match key {
            Key::Newline if self.behaviour.no_paste => Key::Enter,
            other => other,
        };
        if key == Key::Enter && self.behaviour.swallow_enter > 0 {
            self.behaviour.swallow_enter -= 1;
            return Ok(());
        }
        match &self.state {
            State::Dialog { .. } => self.press_in_dialog(key),
            State::Asking { options, .. } => {
                let options = options.clone();
                self.press_in_question(key, &options);
                Ok(())
            }
            State::Ready | State::Working | State::Blocked { .. } => self.press_in_box(key),
        }
    }

    fn press_in_dialog(&mut self, key: Key) -> Go {
        match key {
            Key::Enter => {}
            Key::Text(text) if text == "1" => {}
            Key::Text(text) if text == "2" => return Err(Stop::Exit(1)),
            Key::Escape | Key::Interrupt | Key::End => return Err(Stop::Exit(1)),
            // As a real dialog: text chooses the default and is lost.
            Key::Text(text) | Key::Paste(text) => self.journal.misdelivery(&text)?,
            Key::Newline | Key::Backspace | Key::Clear => return Ok(()),
        }
        self.done.push_back(Done::DialogClosed);
        // Further input belongs to the box.
        self.state = State::Working;
        Ok(())
    }

    fn press_in_question(&mut self, key: Key, options: &[String]) {
        match key {
            Key::Text(text) if self.draft.is_empty() && number(&text, options).is_some() => {
                let chosen = number(&text, options).map_or(0, |n| n - 1);
                self.answer(options[chosen].clone());
            }
            Key::Enter if self.draft.trim().is_empty() => {
                if let Some(default) = options.first() {
                    self.answer(default.clone());
                }
            }
            Key::Enter => {
                let text = self.draft.trim().to_owned();
                self.answer(text);
            }
            Key::Escape | Key::Interrupt => {
                self.done.push_back(Done::Dismissed);
                self.state = State::Working;
            }
            other => self.edit(other),
        }
    }

    fn answer(&mut self, text: String) {
        self.draft.clear();
        self.stale = None;
        self.done.push_back(Done::Answered(text));
        self.state = State::Working;
    }

    fn press_in_box(&mut self, key: Key) -> Go {
        match key {
            Key::Enter => {
                if !self.draft.trim().is_empty() {
                    self.stale = None;
                    self.queue.push_back(std::mem::take(&mut self.draft));
                }
            }
            Key::Escape if self.state != State::Ready => self.done.push_back(Done::Interrupted),
            Key::Interrupt if self.state != State::Ready => self.done.push_back(Done::Interrupted),
            Key::Interrupt => self.edit(Key::Clear),
            Key::End if self.draft.is_empty() && self.state == State::Ready => {
                return Err(Stop::Exit(0));
            }
            other => self.edit(other),
        }
        Ok(())
    }

    fn edit(&mut self, key: Key) {
        let before = self.draft.clone();
        match key {
            Key::Text(text) | Key::Paste(text) => {
                self.draft.push_str(&text);
                if let Some(late) = self.behaviour.echo_late {
                    let shown = self.stale.take().map_or(before, |(shown, _)| shown);
                    self.stale = Some((shown, Instant::now() + late));
                }
            }
            Key::Newline => self.draft.push('\n'),
            Key::Backspace => {
                self.draft.pop();
            }
            Key::Clear => self.draft.clear(),
            Key::Enter | Key::Escape | Key::Interrupt | Key::End => {}
        }
    }

    pub(super) fn say(&mut self, text: &str) {
        let line = clean(text);
        self.said.push(line.clone());
        self.screen.print(line);
    }

    pub(super) fn be(&mut self, state: State) -> Go {
        self.state = state;
        self.draw()
    }

    pub(super) fn draw(&mut self) -> Go {
        let block = self.block();
        Ok(self.screen.draw(block)?)
    }

    /// Writes raw bytes in place of the block.
    pub(super) fn raw(&mut self, bytes: &[u8]) -> Go {
        self.draw()?;
        Ok(self.screen.raw(bytes)?)
    }

    /// Restores the screen after bytes that may have changed anything.
    pub(super) fn tidy(&mut self) -> Go {
        let block = self.block();
        Ok(self.screen.tidy(block)?)
    }

    /// Draws the last lines and restores the terminal.
    pub(super) fn leave(&mut self) {
        let _ = self.draw();
        self.screen.leave();
    }

    fn block(&self) -> Block {
        let mut above = Vec::new();
        let word = match &self.state {
            State::Ready => "ready",
            State::Working => "working",
            State::Asking { text, options } => {
                above.push(format!("? {text}"));
                above.extend(numbered(options));
                "asking"
            }
            State::Dialog { text } => {
                above.push(format!("! {text}"));
                above.extend(numbered(&["Continue".into(), "Exit".into()]));
                "dialog"
            }
            State::Blocked { why } => {
                above.push(format!("! {why}"));
                "blocked"
            }
        };
        let draft = match (&self.state, &self.stale) {
            (State::Dialog { .. }, _) => None,
            _ if self.behaviour.deaf => Some(String::new()),
            (_, Some((shown, _))) => Some(shown.clone()),
            (_, None) => Some(self.draft.clone()),
        };
        Block {
            above,
            draft,
            status: self.status(word),
        }
    }

    fn status(&self, word: &str) -> String {
        let Totals {
            input,
            output,
            cost_micros,
        } = self.used;
        let cost = format!("{}.{:06}", cost_micros / 1_000_000, cost_micros % 1_000_000);
        let queued = match self.queue.len() {
            0 => String::new(),
            n => format!(" | {n} queued"),
        };
        let turns = self.turns;
        format!("[{word}] turns {turns} | {input} in, {output} out, ${cost}{queued}")
    }

    /// Reports its conversation's id by a hook.
    pub(super) fn announce(&self, native: Option<&str>) {
        if let Some(native) = native {
            self.hook.call("native", &json!({"id": native}));
        }
    }
}

fn numbered(options: &[String]) -> impl Iterator<Item = String> {
    options
        .iter()
        .enumerate()
        .map(|(index, option)| format!("  {}. {option}", index + 1))
}

/// The option that a key press chooses, from 1.
fn number(text: &str, options: &[String]) -> Option<usize> {
    let number: usize = text.parse().ok()?;
    (text.len() == 1 && (1..=options.len()).contains(&number)).then_some(number)
}
