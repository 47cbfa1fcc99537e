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
use skein_domain::{Message, NativeId, PromptVia, Question, Reason, Timestamp, Via};
use skein_transcript::json;

use crate::agent::{
    Abilities, Agent, DuringTurn, Found, Order, Process, Reach, Reader, Reading, Reply, Resets,
    Result, Source, Spoken, Start,
};
use crate::error::Error;
use crate::known::Known;
use crate::rules::{Rules, meant};
use crate::{hooks, launch};

/// What its files are called.
const JOURNAL: &str = "journal";

#[derive(Clone, Debug)]
pub struct Driven {
    inner: Arc<dyn Agent>,
    via: Via,
    known: Known,
}

impl Driven {
    /// Refuses protocols that the agent does not speak.
    pub fn new(inner: Arc<dyn Agent>, via: Via) -> Result<Self> {
        let known = inner.known();
        let able = &known.abilities;
        if !able.protocols.contains(&via) {
            return Err(launch::no_protocol(inner.name(), via));
        }
        let abilities = Abilities {
            prompt: vec![PromptVia::Typed],
            resume: able.resume,
            fork: false,
            hooks: false,
            screens: false,
            files: true,
            usage: true,
            protocols: able.protocols.clone(),
            during_turn: DuringTurn::Queues,
            enter_after: Duration::ZERO,
            inherits: able.inherits.clone(),
        };
        // What is shown is the driver's; its screens need no reading.
        let known = Known {
            abilities,
            rules: Rules::default(),
            ..known.clone()
        };
        Ok(Self { inner, via, known })
    }

    fn launch(&self, order: &Order, resume: bool) -> Result<Start> {
        let Spoken {
            dialect,
            start,
            not_before,
        } = self.inner.speak(order, self.via, resume)?;
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
        if let Some(moment) = not_before {
            argv.extend(["--not-before".to_owned(), seconds(moment).to_string()]);
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

/// The first whole second since 1970 that is not before the moment.
fn seconds(moment: Timestamp) -> i64 {
    let micros = moment.as_micros().max(0);
    micros / 1_000_000 + i64::from(micros % 1_000_000 > 0)
}

fn journal(order: &Order) -> PathBuf {
    order.private.join(format!("journal-{}.jsonl", order.run))
}

impl Agent for Driven {
    fn known(&self) -> &Known {
        &self.known
    }

    fn find(&self, path: &str, env: &BTreeMap<String, String>) -> Found {
        self.inner.find(path, env)
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

    fn resumes_from_private(&self) -> bool {
        self.inner.resumes_from_private()
    }

    fn fork(&self, _order: &Order, _from: &NativeId) -> Result<Start> {
        Err(Error::CannotFork {
            agent: self.name().to_string(),
        })
    }

    fn speak(&self, order: &Order, via: Via, resume: bool) -> Result<Spoken> {
        self.inner.speak(order, via, resume)
    }

    fn sources(&self, order: &Order) -> Vec<Source> {
        let journal = Source {
            path: journal(order),
            kind: JOURNAL.into(),
            reach: Reach::Added,
        };
        let mut accounts = self.inner.sources(order);
        accounts.retain(|source| self.inner.accounts().contains(&source.kind.as_str()));
        [vec![journal], accounts].concat()
    }

    fn reader(&self, kind: &str, process: Option<Process>) -> Box<dyn Reader> {
        match kind {
            JOURNAL => Box::new(Journal {
                counts: self.inner.accounts().is_empty(),
            }),
            other => self.inner.reader(other, process),
        }
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

/// Understands journals, of drivers and of others that write lines like theirs.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Whether what it says of tokens and cost is taken.
    pub(crate) counts: bool,
}

impl Reader for Journal {
    fn read(&mut self, text: &str) -> Vec<Reading> {
        text.lines()
            .filter_map(|line| json::read::<Value>(line).ok())
            .filter_map(|line| {
                let event = line.get("event")?.as_str()?.to_owned();
                let payload = line.get("payload").map(ToString::to_string);
                let mut readings = hooks::read(&event, &payload.unwrap_or_default());
                for reading in &mut readings {
                    if let Reading::Limited { resets } = reading {
                        *resets = ends(&line).or_else(|| resets.take());
                    }
                }
                Some(readings)
            })
            .flatten()
            .filter(|reading| self.counts || !reading.is_spending())
            .collect()
    }
}

/// When a limit ends that a line tells of. The line may be read long after it was written, so seconds that it
/// names count from then.
fn ends(line: &Value) -> Option<Resets> {
    let payload = line.get("payload")?;
    let number = |of: &Value, key: &str| i64::try_from(of.get(key)?.as_u64()?).ok();
    let micros = match number(payload, "resets_at") {
        Some(seconds) => seconds.checked_mul(1_000_000)?,
        None => {
            let seconds = number(payload, "resets_in")?.checked_mul(1_000_000)?;
            number(line, "at")?
                .checked_mul(1_000)?
                .checked_add(seconds)?
        }
    };
    Some(Resets::At(Timestamp::from_micros(micros)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use skein_domain::{Activity, LaunchSettings};
    use tempfile::TempDir;

    use super::*;
    use crate::Gemini;

    const HELLO: &str = r#"{"id":"u1","type":"user","content":[{"text":"hello"}]}"#;
    /// What a load leaves in a minute of its own, and at the end of a conversation that was begun in the same.
    const NOTHING: &str = r#"{"$set":{"messages":[{"id":"c1","type":"user","content":[]}]}}"#;

    /// An order to resume a conversation that left chats of these minutes.
    fn resumed(folder: &TempDir, chats: &[(&str, &str)]) -> Order {
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("bin")).unwrap();
        std::os::unix::fs::symlink("/bin/sh", at("bin/gemini")).unwrap();
        fs::create_dir_all(at(".gemini/tmp/api/chats")).unwrap();
        for (minute, text) in chats {
            let name = format!(".gemini/tmp/api/chats/session-{minute}-41111111.jsonl");
            fs::write(at(&name), text).unwrap();
        }
        Order {
            session: "api-7".parse().unwrap(),
            run: 2,
            task: "fix it".parse().unwrap(),
            settings: LaunchSettings::default(),
            workspace: at("work"),
            private: at("private"),
            skein: "/bin/skein".into(),
            path: at("bin").display().to_string(),
            env: [("HOME".to_owned(), folder.path().display().to_string())].into(),
            native: Some("41111111-1111-4111-8111-111111111111".parse().unwrap()),
        }
    }

    fn not_before(start: &Start) -> Option<&str> {
        let ours = start.argv.split(|word| word == "--").next()?;
        let at = ours.iter().position(|word| word == "--not-before")?;
        Some(ours[at + 1].as_str())
    }

    #[test]
    fn l4_gemini_is_not_started_in_the_minute_its_conversation_was_begun() {
        let agent = Driven::new(Arc::new(Gemini::new()), Via::Acp).unwrap();
        let folder = TempDir::new().unwrap();
        let chats = [("2026-11-17T03-48", HELLO), ("2026-11-17T03-50", NOTHING)];
        let order = resumed(&folder, &chats);
        let start = agent.resume(&order).unwrap();
        // 2026-11-17 03:49:00 UTC.
        assert_eq!(not_before(&start), Some("1794887340"));
        assert_eq!(agent.resume(&order).unwrap(), start);
        let native = order.native.as_ref().unwrap().to_string();
        assert_eq!(start.argv[start.argv.len() - 2..], ["--resume", &native]);
        assert_eq!(not_before(&agent.start(&order).unwrap()), None);
    }

    #[test]
    fn what_left_no_chat_is_not_waited_for() {
        let agent = Driven::new(Arc::new(Gemini::new()), Via::Acp).unwrap();
        let folder = TempDir::new().unwrap();
        let order = resumed(&folder, &[("2026-11-17T03-50", NOTHING)]);
        assert_eq!(not_before(&agent.resume(&order).unwrap()), None);
    }

    #[test]
    fn no_second_that_began_before_the_moment_is_given() {
        for (micros, expected) in [(-1, 0), (0, 0), (1, 1), (2_000_000, 2), (2_000_001, 3)] {
            assert_eq!(seconds(Timestamp::from_micros(micros)), expected);
        }
    }

    #[test]
    fn a_limit_ends_when_it_was_said_to_and_not_later_because_it_is_read_later() {
        let resets = |line: &str| match &(Journal { counts: true }).read(line)[..] {
            [_, Reading::Limited { resets }] => resets.clone(),
            other => panic!("{other:?}"),
        };
        let at = |seconds: i64| Some(Resets::At(Timestamp::from_micros(seconds * 1_000_000)));
        for (line, expected) in [
            (
                r#"{"at":5000,"event":"limit","payload":{"resets_at":90,"resets_in":85}}"#,
                at(90),
            ),
            (
                r#"{"at":5000,"event":"limit","payload":{"resets_in":60}}"#,
                at(65),
            ),
            (
                r#"{"event":"limit","payload":{"resets_in":60}}"#,
                Some(Resets::In { seconds: 60 }),
            ),
            (r#"{"at":5000,"event":"limit","payload":{}}"#, None),
        ] {
            assert_eq!(resets(line), expected, "{line}");
        }
    }

    #[test]
    fn l3_a_journal_is_read_line_by_line_and_what_is_no_event_says_nothing() {
        let text = "{\"at\":1,\"event\":\"prompt\",\"payload\":{\"text\":\"do it\"}}\nnonsense\n\
                    {\"event\":\"turn-end\"}\n{\"event\":7}\n";
        let readings = Journal { counts: true }.read(text);
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

    #[test]
    fn what_a_program_keeps_accounts_of_is_counted_there_only() {
        let folder = tempfile::tempdir().unwrap();
        let order = resumed(&folder, &[]);
        let spent = "{\"event\":\"usage-total\",\"payload\":{\"cost_usd\":0.5}}\n{\"event\":\"turn-end\"}\n";
        for (inner, kinds, told) in [
            (
                Arc::new(Gemini::new()) as Arc<dyn Agent>,
                vec![JOURNAL],
                true,
            ),
            (
                Arc::new(crate::OpenCode::new()),
                vec![JOURNAL, "log", "database"],
                false,
            ),
        ] {
            let driven = Driven::new(inner, Via::Acp).unwrap();
            let sources = driven.sources(&order);
            let named: Vec<&str> = sources.iter().map(|s| s.kind.as_str()).collect();
            assert_eq!(named, kinds);
            let readings = driven.reader(JOURNAL, None).read(spent);
            assert_eq!(readings.iter().any(Reading::is_spending), told);
            assert!(readings.contains(&Reading::TurnEnded), "{readings:?}");
        }
    }
}
