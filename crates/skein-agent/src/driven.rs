//! An agent that is driven by a protocol instead of its own terminal.
//!
//! What runs in the session's terminal is `skein drive`, which starts the agent, speaks with it, shows what
//! happens, and takes what is typed. What happens it also writes to a journal, one line per event, with the
//! events of [`crate::hooks`]: `{"at": …, "event": …, "payload": {…}}`. The journal is a file like others that
//! agents write, so nothing is lost while no daemon reads it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use skein_domain::{AgentName, Message, NativeId, PromptVia, Question, Reason, Via};

use crate::agent::{
    Abilities, Agent, Draft, DuringTurn, Found, Order, Picture, Process, Profile, Reach, Reader,
    Reading, Reply, Result, Source, Spoken, Start,
};
use crate::error::Error;
use crate::rules::meant;
use crate::{hooks, launch};

/// What its files are called.
const JOURNAL: &str = "journal";

#[derive(Clone, Debug)]
pub struct Driven {
    inner: Arc<dyn Agent>,
    via: Via,
    abilities: Abilities,
}

impl Driven {
    /// Refuses protocols that the agent does not speak.
    pub fn new(inner: Arc<dyn Agent>, via: Via) -> Result<Self> {
        let known = inner.abilities();
        if !known.protocols.contains(&via) {
            return Err(launch::no_protocol(inner.name(), via));
        }
        let abilities = Abilities {
            prompt: vec![PromptVia::Typed],
            resume: known.resume,
            fork: false,
            hooks: false,
            screens: false,
            files: true,
            usage: true,
            protocols: known.protocols.clone(),
            during_turn: DuringTurn::Queues,
            enter_after: Duration::ZERO,
            inherits: known.inherits.clone(),
        };
        Ok(Self {
            inner,
            via,
            abilities,
        })
    }

    fn launch(&self, order: &Order, resume: bool) -> Result<Start> {
        let Spoken { dialect, start } = self.inner.speak(order, self.via, resume)?;
        let mut argv = vec![
            launch::text(&order.skein, "skein")?,
            "drive".to_owned(),
            dialect.to_owned(),
            "--journal".to_owned(),
            launch::text(&journal(order), "private")?,
            "--permission".to_owned(),
            order.settings.permission.as_str().to_owned(),
        ];
        if let Some(native) = order.native.as_ref().filter(|_| resume) {
            argv.extend(["--resume".to_owned(), native.to_string()]);
        } else if let Some(native) = &start.native {
            argv.extend(["--native".to_owned(), native.to_string()]);
        }
        if let Some(model) = &order.settings.model {
            argv.extend(["--model".to_owned(), model.to_string()]);
        }
        argv.push("--".to_owned());
        argv.extend(start.argv);
        Ok(Start {
            argv,
            prompt: (!resume).then_some(PromptVia::Typed),
            ..start
        })
    }
}

fn journal(order: &Order) -> PathBuf {
    order.private.join(format!("journal-{}.jsonl", order.run))
}

impl Agent for Driven {
    fn name(&self) -> &AgentName {
        self.inner.name()
    }

    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    fn profile(&self) -> Option<&Profile> {
        self.inner.profile()
    }

    fn find(&self, path: &str, env: &BTreeMap<String, String>) -> Found {
        self.inner.find(path, env)
    }

    fn memory_mb(&self) -> u64 {
        self.inner.memory_mb()
    }

    fn start(&self, order: &Order) -> Result<Start> {
        self.launch(order, false)
    }

    fn resume(&self, order: &Order) -> Result<Start> {
        if order.native.is_none() {
            return Err(Error::CannotResume {
                why: "the agent never told the name of its conversation".into(),
            });
        }
        self.launch(order, true)
    }

    fn fork(&self, _order: &Order, _from: &NativeId) -> Result<Start> {
        Err(Error::CannotFork {
            agent: self.name().to_string(),
        })
    }

    fn speak(&self, order: &Order, via: Via, resume: bool) -> Result<Spoken> {
        self.inner.speak(order, via, resume)
    }

    fn read_hook(&self, _event: &str, _payload: &str) -> Vec<Reading> {
        vec![]
    }

    fn read_screen(&self, _picture: Picture<'_>) -> Vec<Reading> {
        vec![]
    }

    fn draft(&self, _picture: Picture<'_>) -> Draft {
        Draft::Unseen
    }

    fn sources(&self, order: &Order) -> Vec<Source> {
        vec![Source {
            path: journal(order),
            kind: JOURNAL.into(),
            reach: Reach::Added,
        }]
    }

    fn reader(&self, kind: &str, process: Option<Process>) -> Box<dyn Reader> {
        match kind {
            JOURNAL => Box::new(Journal),
            other => self.inner.reader(other, process),
        }
    }

    fn submit(&self) -> Vec<u8> {
        b"\r".to_vec()
    }

    fn interrupt(&self) -> Vec<u8> {
        b"\x1b".to_vec()
    }

    fn answer(&self, question: &Question, option: Option<usize>, text: &Reason) -> Reply {
        if question.options.is_empty() {
            return Reply::Text(Message::from(text));
        }
        match option.or_else(|| meant(question, text)) {
            Some(chosen @ 0..9) => Reply::Keys((chosen + 1).to_string().into_bytes()),
            Some(chosen) => Reply::Keys(format!("{}\r", chosen + 1).into_bytes()),
            None => Reply::Cannot {
                why: "that is none of its options".into(),
            },
        }
    }
}

#[derive(Debug)]
struct Journal;

impl Reader for Journal {
    fn read(&mut self, text: &str) -> Vec<Reading> {
        text.lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter_map(|line| {
                let event = line.get("event")?.as_str()?.to_owned();
                let payload = line.get("payload").map(ToString::to_string);
                Some(hooks::read(&event, &payload.unwrap_or_default()))
            })
            .flatten()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use skein_domain::Activity;

    use super::*;

    #[test]
    fn l3_a_journal_is_read_line_by_line_and_what_is_no_event_says_nothing() {
        let text = "{\"at\":1,\"event\":\"prompt\",\"payload\":{\"text\":\"do it\"}}\nnonsense\n\
                    {\"event\":\"turn-end\"}\n{\"event\":7}\n";
        let readings = Journal.read(text);
        assert_eq!(
            readings[0],
            Reading::PromptTaken {
                text: Some("do it".into())
            }
        );
        let last = readings.last();
        assert!(
            matches!(
                last,
                Some(Reading::Activity {
                    activity: Activity::Ready,
                    ..
                })
            ),
            "{readings:?}"
        );
        assert_eq!(readings.len(), 4);
    }
}
