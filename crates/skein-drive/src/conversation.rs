//! The conversation: connects protocol, keys, journal and transcript. It decides everything and does no IO.

mod calls;
mod keys;
mod shown;
mod usage;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Instant;

use serde_json::{Map, Value, json};
use skein_agent::turns::{self, CallId};

use crate::input::Draft;
use crate::journal::Event;
use crate::message_collector::{self, MessageCollector};
use crate::permission;
use crate::protocol::{
    Answer, Effect, HttpRequest, Kind, Protocol, Question, QuestionForm, Resets, Setting,
    TurnOutcome,
};
use crate::text::{first_line, plain};
use crate::transcript::Transcript;
use usage::Usage;

/// Why a former question takes no answer.
const ANSWERED: &str = "question already answered";
const WITHDRAWN: &str = "question no longer asked";

/// What the driver must do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DriverCommand {
    Send(Value),
    Connect(String),
    Request(HttpRequest),
    Journal(Event),
    End(EndReason),
}

/// Why the driver ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// The user asked for it at the terminal.
    Requested,
    /// The protocol cannot go on.
    Failed(String),
}

#[derive(Debug)]
pub(crate) struct Conversation {
    protocol: Box<dyn Protocol>,
    setting: Setting,
    transcript: Transcript,
    /// Messages of this turn that are not journalled yet.
    collector: MessageCollector,
    draft: Draft,
    /// Prompts that wait for their turn.
    queue: VecDeque<Prompt>,
    /// The ids of all calls so far; the driver acts on each once.
    calls: HashSet<String>,
    /// Why former questions take no answer, by id.
    settled: HashMap<String, &'static str>,
    ready: bool,
    /// In words, what the driver waits for before it starts the program.
    awaits: Option<String>,
    turn: Option<Turn>,
    /// The first one is asked now.
    questions: VecDeque<Question>,
    usage: Usage,
    /// Until then a second Ctrl-C ends the driver.
    ending: Option<Instant>,
    commands: Vec<DriverCommand>,
}

#[derive(Debug)]
struct Prompt {
    text: String,
    /// The call that carried it; none if it was typed at the terminal.
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

impl Conversation {
    pub(crate) fn new(protocol: Box<dyn Protocol>, setting: Setting) -> Self {
        Self {
            protocol,
            setting,
            transcript: Transcript::default(),
            collector: MessageCollector::default(),
            draft: Draft::default(),
            queue: VecDeque::new(),
            calls: HashSet::new(),
            settled: HashMap::new(),
            ready: false,
            awaits: None,
            turn: None,
            questions: VecDeque::new(),
            usage: Usage::default(),
            ending: None,
            commands: vec![],
        }
    }

    /// The program is not started yet. Prompts wait meanwhile.
    pub(crate) fn wait(&mut self, awaits: String) {
        self.awaits = Some(awaits);
    }

    pub(crate) fn begin(&mut self, now: Instant) -> Vec<DriverCommand> {
        self.awaits = None;
        let effects = self.protocol.begin();
        self.apply(effects, now);
        self.done()
    }

    /// One message of the program.
    pub(crate) fn on_message(&mut self, line: &str, now: Instant) -> Vec<DriverCommand> {
        let effects = self.protocol.on_message(line);
        self.apply(effects, now);
        self.done()
    }

    /// Before the end: cancels the turn, and journals that it is over.
    pub(crate) fn stop(&mut self, reason: &str, now: Instant) -> Vec<DriverCommand> {
        // First: the end of a turn would begin the next.
        self.queue.clear();
        if let Some(turn) = &mut self.turn {
            if !turn.taken {
                // The driver cannot know whether the turn would have begun.
                turn.call = None;
            }
            let effects = self.protocol.interrupt();
            self.apply(effects, now);
            self.end_turn(TurnOutcome::Failed(reason.to_owned()), now);
        }
        self.done()
    }

    pub(crate) fn note(&mut self, text: &str) {
        self.transcript.note(text);
    }

    fn done(&mut self) -> Vec<DriverCommand> {
        std::mem::take(&mut self.commands)
    }

    fn apply(&mut self, effects: Vec<Effect>, now: Instant) {
        for effect in effects {
            match effect {
                Effect::Send(message) => self.commands.push(DriverCommand::Send(message)),
                Effect::Connect(address) => self.commands.push(DriverCommand::Connect(address)),
                Effect::Request(request) => self.commands.push(DriverCommand::Request(request)),
                Effect::Ready => self.become_ready(now),
                Effect::Native(id) => self.journal("native", json!({"id": id})),
                Effect::PromptTaken => self.prompt_taken(),
                Effect::TurnEnded(outcome) => self.end_turn(outcome, now),
                Effect::Ask(question) => self.ask(question, now),
                Effect::Withdrawn(local_id) => {
                    if let Some(at) = self.questions.iter().position(|q| q.local_id == local_id) {
                        self.settled(at, WITHDRAWN, json!({}));
                    }
                }
                Effect::UsageDelta(used) => {
                    if let Some(payload) = self.usage.add(used) {
                        self.journal("usage", payload);
                    }
                }
                Effect::UsageTotal(used) => {
                    if let Some(payload) = self.usage.total(used) {
                        self.journal("usage-total", payload);
                    }
                }
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
                    // Between turns a program only repeats earlier messages.
                    if self.turn.is_some() {
                        let messages = self.collector.show(&shown);
                        self.journal_messages(messages);
                    }
                    self.transcript.show(shown);
                }
                Effect::Stop(why) => self
                    .commands
                    .push(DriverCommand::End(EndReason::Failed(why))),
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

    /// Submits the first prompt of the queue, unless a turn runs.
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

    fn prompt_taken(&mut self) {
        if let Some(turn) = self.turn.as_mut().filter(|turn| !turn.taken) {
            turn.taken = true;
            let text = std::mem::take(&mut turn.prompt);
            let words = vec![message_collector::text(&text)];
            let payload = with_call(json!({"text": text}), turn.call.as_ref());
            self.journal("prompt", payload);
            self.journal_messages(vec![message_collector::message("user", words)]);
        }
    }

    fn journal_messages(&mut self, messages: Vec<Value>) {
        for message in messages {
            self.journal("message", message);
        }
    }

    fn end_turn(&mut self, outcome: TurnOutcome, now: Instant) {
        let Some(turn) = self.turn.take() else { return };
        while !self.questions.is_empty() {
            self.settled(self.questions.len() - 1, WITHDRAWN, json!({}));
        }
        self.transcript.end_turn();
        let messages = self.collector.end_turn();
        self.journal_messages(messages);
        let payload = match &outcome {
            TurnOutcome::Done => json!({}),
            TurnOutcome::Interrupted => json!({"reason": "interrupted"}),
            TurnOutcome::Failed(why) => {
                json!({"reason": plain(why).unwrap_or_else(|| "failed".into())})
            }
        };
        match &outcome {
            TurnOutcome::Done => {}
            TurnOutcome::Interrupted => self.transcript.note("interrupted"),
            TurnOutcome::Failed(why) => self.transcript.note(&format!("failed: {why}")),
        }
        let summary = self.usage.end_turn(now.duration_since(turn.since));
        self.transcript.note(&summary);
        self.journal("turn-end", with_call(payload, turn.call.as_ref()));
        self.next(now);
    }

    fn ask(&mut self, question: Question, now: Instant) {
        let messages = self.collector.finish_message();
        self.journal_messages(messages);
        let cwd = &self.setting.cwd;
        if let Some(option) = permission::decide(self.setting.permission, cwd, &question) {
            let what = first_line(&question.text);
            self.transcript
                .note(&format!("allowed by the permission setting: {what}"));
            let effects = self
                .protocol
                .answer(question.local_id, &Answer::Option(option));
            return self.apply(effects, now);
        }
        self.questions.push_back(presentable(question));
        if self.questions.len() == 1 {
            self.journal_question();
        }
    }

    /// Journals the question that is now the first.
    fn journal_question(&mut self) {
        let Some(question) = self.questions.front() else {
            return;
        };
        let names: Vec<&str> = question.options.iter().map(|o| o.name.as_str()).collect();
        let (wants, has_kinds) = match question.form {
            QuestionForm::Permission => ("permission", true),
            QuestionForm::Choice { .. } => ("choice", false),
            QuestionForm::Text => ("text", false),
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

    /// Answers the agent's question: from a call, or typed at the terminal.
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
        let (local_id, asked) = (question.local_id, first_line(&question.text));
        self.transcript.note(&format!("{asked} → {said}"));
        let effects = self.protocol.answer(local_id, &answer);
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
        self.journal_question();
    }

    fn journal(&mut self, name: &'static str, payload: Value) {
        self.commands
            .push(DriverCommand::Journal(Event { name, payload }));
    }
}

/// Adds the id of its call to a payload, if it has one.
fn with_call(mut payload: Value, call: Option<&CallId>) -> Value {
    if let Some(call) = call {
        payload[turns::CALL] = call.as_str().into();
    }
    payload
}

/// Removes what cannot be stored or shown. Every option gets a name, because readers count options.
fn presentable(mut question: Question) -> Question {
    question.text = plain(&question.text).unwrap_or_else(|| "a question without words".into());
    for (index, option) in question.options.iter_mut().enumerate() {
        let name = plain(&option.name).map(|name| name.replace('\n', " "));
        option.name = name.unwrap_or_else(|| format!("option {}", index + 1));
    }
    question
}

#[cfg(test)]
mod tests;
