//! The conversation: ties protocol, keys, journal and transcript together. Decides everything, touches nothing.

mod calls;
mod keys;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use skein_agent::turns::{self, CallId};

use crate::input::Draft;
use crate::journal::Event;
use crate::permission;
use crate::protocol::{
    Answer, Call, Effect, Kind, Over, Protocol, Question, Resets, Setting, Used, Wants,
};
use crate::said::{self, Said};
use crate::text::{cut, first_line, grouped, plain};
use crate::transcript::{Line, Transcript};
use crate::view::{Block, Size};

/// How many waiting prompts are shown.
const QUEUED: usize = 3;
/// A question of more rows is shown in part; the journal has it whole.
const QUESTION_LINES: usize = 12;
/// Why a question that was asked takes no answer.
const ANSWERED: &str = "question already answered";
const WITHDRAWN: &str = "question no longer asked";

/// What is to be done outside.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Act {
    Send(Value),
    Connect(String),
    Call(Call),
    Journal(Event),
    End(Why),
}

/// Why it is to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Somebody at the terminal said so.
    Asked,
    /// The protocol cannot go on.
    Failed(String),
}

pub(crate) struct Conversation {
    protocol: Box<dyn Protocol>,
    setting: Setting,
    transcript: Transcript,
    /// What was said in this turn and is not journalled.
    said: Said,
    draft: Draft,
    /// Prompts that wait for their turn.
    queue: VecDeque<Prompt>,
    /// The ids of all calls so far: each is acted on once.
    calls: HashSet<String>,
    /// What became of questions that are no longer asked, by id.
    settled: HashMap<String, &'static str>,
    ready: bool,
    /// What is waited for before the program is started, in words.
    awaits: Option<String>,
    turn: Option<Turn>,
    /// The first is the one that is asked.
    questions: VecDeque<Question>,
    used: Used,
    total: Used,
    /// Until when a second Ctrl-C ends it.
    ending: Option<Instant>,
    acts: Vec<Act>,
}

#[derive(Debug)]
struct Prompt {
    text: String,
    /// The call that carried it; none when a person typed it at the terminal.
    call: Option<CallId>,
}

#[derive(Debug)]
struct Turn {
    prompt: String,
    call: Option<CallId>,
    since: Instant,
    taken: bool,
    interrupted: bool,
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Conversation");
        shown.field("turn", &self.turn).finish_non_exhaustive()
    }
}

impl Conversation {
    pub(crate) fn new(protocol: Box<dyn Protocol>, setting: Setting) -> Self {
        Self {
            protocol,
            setting,
            transcript: Transcript::default(),
            said: Said::default(),
            draft: Draft::default(),
            queue: VecDeque::new(),
            calls: HashSet::new(),
            settled: HashMap::new(),
            ready: false,
            awaits: None,
            turn: None,
            questions: VecDeque::new(),
            used: Used::default(),
            total: Used::default(),
            ending: None,
            acts: vec![],
        }
    }

    /// The program is not started yet. What is typed meanwhile is kept.
    pub(crate) fn wait(&mut self, awaits: String) {
        self.awaits = Some(awaits);
    }

    pub(crate) fn begin(&mut self, now: Instant) -> Vec<Act> {
        self.awaits = None;
        let effects = self.protocol.begin();
        self.apply(effects, now);
        self.done()
    }

    /// One message of the program.
    pub(crate) fn hear(&mut self, line: &str, now: Instant) -> Vec<Act> {
        let effects = self.protocol.hear(line);
        self.apply(effects, now);
        self.done()
    }

    /// The last words before everything ends: the turn is cancelled, and the journal says that it is over.
    pub(crate) fn stop(&mut self, reason: &str, now: Instant) -> Vec<Act> {
        // First: the end of a turn would begin the next.
        self.queue.clear();
        if let Some(turn) = &mut self.turn {
            if !turn.taken {
                // The driver cannot know whether the turn would have begun.
                turn.call = None;
            }
            let effects = self.protocol.interrupt();
            self.apply(effects, now);
            self.over(Over::Failed(reason.to_owned()), now);
        }
        self.done()
    }

    pub(crate) fn note(&mut self, text: &str) {
        self.transcript.note(text);
    }

    fn done(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts)
    }

    fn apply(&mut self, effects: Vec<Effect>, now: Instant) {
        for effect in effects {
            match effect {
                Effect::Send(message) => self.acts.push(Act::Send(message)),
                Effect::Connect(address) => self.acts.push(Act::Connect(address)),
                Effect::Call(call) => self.acts.push(Act::Call(call)),
                Effect::Ready => self.become_ready(now),
                Effect::Native(id) => self.journal("native", json!({"id": id})),
                Effect::Took => self.took(),
                Effect::Over(over) => self.over(over, now),
                Effect::Ask(question) => self.ask(question, now),
                Effect::Withdrawn(ticket) => {
                    if let Some(at) = self.questions.iter().position(|q| q.ticket == ticket) {
                        self.settled(at, WITHDRAWN, json!({}));
                    }
                }
                Effect::Used(used) => self.spend(used),
                Effect::Total(used) => self.spent(used),
                Effect::Limit { text, resets } => {
                    let text = plain(&text).unwrap_or_else(|| "a limit".into());
                    self.transcript.note(&format!("limit: {text}"));
                    let mut payload = json!({"text": text});
                    match resets {
                        Some(Resets::In(seconds)) => payload["resets_in"] = seconds.into(),
                        Some(Resets::At(time)) => payload["resets_at"] = time.into(),
                        None => {}
                    }
                    self.journal("limit", payload);
                }
                Effect::Show(shown) => {
                    // What is shown between turns was said before.
                    if self.turn.is_some() {
                        let messages = self.said.show(&shown);
                        self.tell(messages);
                    }
                    self.transcript.show(shown);
                }
                Effect::Stop(why) => self.acts.push(Act::End(Why::Failed(why))),
            }
        }
    }

    fn become_ready(&mut self, now: Instant) {
        if !self.ready {
            self.ready = true;
            self.journal("ready", json!({}));
        }
        self.next(now);
    }

    /// Submits what waits, when nothing is in its way.
    fn next(&mut self, now: Instant) {
        if !self.ready || self.turn.is_some() {
            return;
        }
        let Some(prompt) = self.queue.pop_front() else {
            return;
        };
        let Prompt { text, call } = prompt;
        if let Some(call) = &call {
            self.accept(call);
        }
        self.transcript.you(&text);
        let effects = self.protocol.submit(&text);
        self.turn = Some(Turn {
            prompt: text,
            call,
            since: now,
            taken: false,
            interrupted: false,
        });
        self.apply(effects, now);
    }

    fn took(&mut self) {
        if let Some(turn) = self.turn.as_mut().filter(|turn| !turn.taken) {
            turn.taken = true;
            let text = std::mem::take(&mut turn.prompt);
            let words = vec![said::text(&text)];
            let payload = with_call(json!({"text": text}), turn.call.as_ref());
            self.journal("prompt", payload);
            self.tell(vec![said::message("user", words)]);
        }
    }

    fn tell(&mut self, messages: Vec<Value>) {
        for message in messages {
            self.journal("message", message);
        }
    }

    fn over(&mut self, over: Over, now: Instant) {
        let Some(turn) = self.turn.take() else { return };
        while !self.questions.is_empty() {
            self.settled(self.questions.len() - 1, WITHDRAWN, json!({}));
        }
        self.transcript.end_turn();
        let messages = self.said.end_turn();
        self.tell(messages);
        let payload = match &over {
            Over::Done => json!({}),
            Over::Interrupted => json!({"reason": "interrupted"}),
            Over::Failed(why) => json!({"reason": plain(why).unwrap_or_else(|| "failed".into())}),
        };
        match &over {
            Over::Done => {}
            Over::Interrupted => self.transcript.note("interrupted"),
            Over::Failed(why) => self.transcript.note(&format!("failed: {why}")),
        }
        let summary = self.summary(now.duration_since(turn.since));
        self.transcript.note(&summary);
        self.used = Used::default();
        self.journal("turn-end", with_call(payload, turn.call.as_ref()));
        self.next(now);
    }

    fn summary(&self, took: Duration) -> String {
        let mut parts = vec![];
        let told = |used: Used| used.input_tokens.zip(used.output_tokens);
        if let Some((input, output)) = told(self.used) {
            parts.push(format!("{} in, {} out", grouped(input), grouped(output)));
        } else if let Some((input, output)) = told(self.total) {
            let (input, output) = (grouped(input), grouped(output));
            parts.push(format!("{input} in, {output} out in all"));
        }
        if let Some(cost) = self.total.cost_usd {
            parts.push(format!("${cost:.4} in all"));
        }
        parts.push(span(took));
        parts.join(" · ")
    }

    fn ask(&mut self, question: Question, now: Instant) {
        let messages = self.said.told();
        self.tell(messages);
        let cwd = &self.setting.cwd;
        if let Some(option) = permission::decide(self.setting.permission, cwd, &question) {
            let what = first_line(&question.text);
            self.transcript
                .note(&format!("allowed by the permission setting: {what}"));
            let effects = self
                .protocol
                .answer(question.ticket, &Answer::Option(option));
            return self.apply(effects, now);
        }
        self.questions.push_back(presentable(question));
        if self.questions.len() == 1 {
            self.tell_question();
        }
    }

    /// Journals the question that is now the first.
    fn tell_question(&mut self) {
        let Some(question) = self.questions.front() else {
            return;
        };
        let names: Vec<&str> = question.options.iter().map(|o| o.name.as_str()).collect();
        let (wants, has_kinds) = match question.wants {
            Wants::Permission => ("permission", true),
            Wants::Choice { .. } => ("choice", false),
            Wants::Text => ("text", false),
        };
        let mut payload =
            json!({"id": question.id(), "text": question.text, "options": names, "wants": wants});
        if has_kinds {
            let kinds: Vec<&str> = question.options.iter().map(|o| o.kind.as_str()).collect();
            payload["kinds"] = kinds.into();
        }
        self.journal("ask", payload);
    }

    /// Asks for the end of the running turn.
    fn interrupt(&mut self, now: Instant) {
        let Some(turn) = self.turn.as_mut() else {
            return;
        };
        turn.interrupted = true;
        let effects = self.protocol.interrupt();
        self.apply(effects, now);
    }

    /// Gives the agent an answer to its question: from a call, or typed by a person at the terminal.
    fn answer(&mut self, answer: Answer, call: Option<&CallId>, now: Instant) {
        let Some(question) = self.questions.front() else {
            return;
        };
        let mut payload = Map::new();
        let said = match &answer {
            Answer::Option(index) => {
                let option = question.options.get(*index);
                payload.insert("option".into(), (*index).into());
                if let Some(kind) = option.map(|o| o.kind).filter(|kind| *kind != Kind::Other) {
                    payload.insert("kind".into(), kind.as_str().into());
                }
                option.map_or_else(String::new, |option| option.name.clone())
            }
            Answer::Text(text) => first_line(text),
            Answer::Dismissed => "dismissed".into(),
        };
        let (ticket, asked) = (question.ticket, first_line(&question.text));
        self.transcript.note(&format!("{asked} → {said}"));
        let effects = self.protocol.answer(ticket, &answer);
        self.apply(effects, now);
        self.settled(0, ANSWERED, with_call(payload.into(), call));
    }

    fn settled(&mut self, at: usize, how: &'static str, mut payload: Value) {
        let Some(question) = self.questions.remove(at) else {
            return;
        };
        self.settled.insert(question.id(), how);
        if at > 0 {
            return;
        }
        payload["question"] = question.id().into();
        self.journal("answered", payload);
        self.tell_question();
    }

    fn spend(&mut self, used: Used) {
        let add = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        self.used.input_tokens = add(self.used.input_tokens, used.input_tokens);
        self.used.output_tokens = add(self.used.output_tokens, used.output_tokens);
        if !used.is_nothing() {
            self.journal("usage", counts(used));
        }
    }

    fn spent(&mut self, used: Used) {
        let total = Used {
            input_tokens: used.input_tokens.or(self.total.input_tokens),
            output_tokens: used.output_tokens.or(self.total.output_tokens),
            cost_usd: used.cost_usd.or(self.total.cost_usd),
        };
        // Programs repeat what is known.
        if total == self.total {
            return;
        }
        self.total = total;
        let mut payload = counts(used);
        payload["scope"] = "conversation".into();
        self.journal("usage-total", payload);
    }

    fn journal(&mut self, name: &'static str, payload: Value) {
        self.acts.push(Act::Journal(Event { name, payload }));
    }

    /// The lines that became whole since the last time.
    pub(crate) fn lines(&mut self) -> Vec<Line> {
        self.transcript.take()
    }

    /// The bottom of the screen.
    pub(crate) fn block(&self, size: Size, now: Instant) -> Block {
        let mut above = Vec::new();
        let line = |mark, text: &str| Line {
            mark,
            text: crate::text::clean(text),
        };
        if let Some(question) = self.questions.front() {
            let mut lines = question.text.split('\n');
            let shown = lines.by_ref().take(QUESTION_LINES).enumerate();
            above.extend(
                shown.map(|(index, text)| line(if index == 0 { "? " } else { "  " }, text)),
            );
            for (index, option) in question.options.iter().enumerate() {
                above.push(line("  ", &format!("{}. {}", index + 1, option.name)));
            }
        }
        for prompt in self.queue.iter().take(QUEUED) {
            let text = cut(
                &first_line(&prompt.text),
                size.width().saturating_sub(8).max(4),
            );
            above.push(line("queued: ", &text));
        }
        Block {
            growing: self.transcript.growing(),
            above,
            status: self.status(now),
            draft: self.draft.rows(size.width().saturating_sub(2)),
        }
    }

    fn status(&self, now: Instant) -> String {
        if self.ending.is_some_and(|until| now < until) {
            return "ctrl-c again ends the session".into();
        }
        if let Some(question) = self.questions.front() {
            let how = match (question.options.len(), question.wants) {
                (0, _) => "type an answer".to_owned(),
                (n, Wants::Choice { free: true }) => {
                    format!("1-{n} chooses, or type another answer")
                }
                (n, _) => format!("1-{n} chooses"),
            };
            return format!("asks · {how} · esc rejects");
        }
        match &self.turn {
            Some(turn) if turn.interrupted => "interrupting".into(),
            Some(turn) => {
                let since = span(now.duration_since(turn.since));
                format!("working {since} · esc interrupts")
            }
            None if self.ready => "ready".into(),
            None => self.awaits.clone().unwrap_or_else(|| "starting".into()),
        }
    }

    /// When the screen changes by itself.
    pub(crate) fn changes_at(&self, now: Instant) -> Option<Instant> {
        if let Some(until) = self.ending.filter(|until| now < *until) {
            return Some(until);
        }
        let turn = self.turn.as_ref().filter(|_| self.questions.is_empty())?;
        let passed = now.duration_since(turn.since);
        // Past the first minute only minutes are shown.
        let step = if passed.as_secs() < 60 { 1 } else { 60 };
        let next = (passed.as_secs() / step + 1) * step;
        Some(turn.since + Duration::from_secs(next))
    }
}

/// A payload that names the call it is about, if there is one.
fn with_call(mut payload: Value, call: Option<&CallId>) -> Value {
    if let Some(call) = call {
        payload[turns::CALL] = call.as_str().into();
    }
    payload
}

/// Without what cannot be stored or shown. No option is without a name: readers count them.
fn presentable(mut question: Question) -> Question {
    question.text = plain(&question.text).unwrap_or_else(|| "a question without words".into());
    for (index, option) in question.options.iter_mut().enumerate() {
        let name = plain(&option.name).map(|name| name.replace('\n', " "));
        option.name = name.unwrap_or_else(|| format!("option {}", index + 1));
    }
    question
}

fn counts(used: Used) -> Value {
    let mut payload = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            payload.insert(key.into(), value);
        }
    };
    put("input_tokens", used.input_tokens.map(Value::from));
    put("output_tokens", used.output_tokens.map(Value::from));
    put("cost_usd", used.cost_usd.map(dollars));
    payload.into()
}

/// In millionths, so that no reader sees the noise of binary fractions or an exponent.
fn dollars(usd: f64) -> Value {
    let rounded = format!("{:.6}", usd.max(0.0));
    serde_json::from_str(&rounded).unwrap_or_default()
}

fn span(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests;
