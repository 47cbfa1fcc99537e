//! An agent that a protocol drives instead of its own terminal.
//!
//! The session's terminal runs `skein drive`, which starts the agent, speaks with it, shows what happens, and takes
//! what people type. The daemon's prompts, answers and interrupts reach it as calls in a file ([`crate::turns`]). The
//! driver writes what happens to a journal, one line per event, with the events of [`crate::hooks`] and of calls:
//! `{"at": …, "event": …, "payload": {…}}`. Both are files, so nothing is lost while the other end is down.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use skein_domain::{PromptVia, Timestamp, Via};
use skein_transcript::json;

use crate::agent::{
    Abilities, Agent, InstalledProgram, LaunchRequest, Process, ProtocolLaunch, QuotaReset, Reader,
    Reading, Result, Start, TurnMessagePolicy, WatchedFile,
};
use crate::error::Error;
use crate::known::KnownAgent;
use crate::rules::Rules;
use crate::turns::{TurnEvent, calls_file};
use crate::{hooks, launch};

/// The source kind of its journal.
const JOURNAL: &str = "journal";

#[derive(Clone, Debug)]
pub struct DrivenAgent {
    inner: Arc<dyn Agent>,
    via: Via,
    known: KnownAgent,
}

impl DrivenAgent {
    /// Refuses protocols that the agent does not support.
    pub fn new(inner: Arc<dyn Agent>, via: Via) -> Result<Self> {
        let known = inner.known();
        let able = &known.abilities;
        if !able.protocols.contains(&via) {
            return Err(launch::no_protocol(inner.name(), via));
        }
        let abilities = Abilities {
            prompt: vec![PromptVia::Typed],
            resume: able.resume,
            hooks: false,
            screens: false,
            files: true,
            usage: true,
            protocols: able.protocols.clone(),
            during_turn: TurnMessagePolicy::Queues,
            enter_after: Duration::ZERO,
            inherits: able.inherits.clone(),
        };
        // The screen is the driver's and needs no rules.
        let known = KnownAgent {
            abilities,
            rules: Rules::default(),
            ..known.clone()
        };
        Ok(Self { inner, via, known })
    }

    fn launch(&self, order: &LaunchRequest, resume: bool) -> Result<Start> {
        let ProtocolLaunch {
            dialect,
            start,
            not_before,
        } = self.inner.protocol_launch(order, self.via, resume)?;
        let mut argv = vec![
            launch::text(&order.skein, "skein")?,
            "drive".to_owned(),
            dialect.to_owned(),
            "--journal".to_owned(),
            launch::text(&journal(order), "private")?,
            "--calls".to_owned(),
            launch::text(&calls_file(&order.private, order.run), "private")?,
            "--permission".to_owned(),
            order.settings.permission.as_str().to_owned(),
        ];
        if let Some(native) = order.native.as_ref().filter(|_| resume) {
            argv.extend(["--resume".to_owned(), native.to_string()]);
        } else if let Some(native) = &start.native {
            argv.extend(["--native".to_owned(), native.to_string()]);
        }
        launch::add_model(&mut argv, "--model", order);
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

fn journal(order: &LaunchRequest) -> PathBuf {
    journal_source(&order.private, order.run).path
}

/// The journal of one run's driver: where it reports what becomes of calls.
pub fn journal_source(private: &Path, run: u64) -> WatchedFile {
    WatchedFile::added(private.join(format!("journal-{run}.jsonl")), JOURNAL)
}

impl Agent for DrivenAgent {
    fn known(&self) -> &KnownAgent {
        &self.known
    }

    fn find(&self, path: &str, env: &BTreeMap<String, String>) -> InstalledProgram {
        self.inner.find(path, env)
    }

    fn start(&self, order: &LaunchRequest) -> Result<Start> {
        self.launch(order, false)
    }

    fn resume(&self, order: &LaunchRequest) -> Result<Start> {
        if order.native.is_none() {
            return Err(Error::CannotResume {
                why: "the agent never reported the id of its conversation".into(),
            });
        }
        self.launch(order, true)
    }

    fn resumes_from_private(&self) -> bool {
        self.inner.resumes_from_private()
    }

    fn protocol_launch(
        &self,
        order: &LaunchRequest,
        via: Via,
        resume: bool,
    ) -> Result<ProtocolLaunch> {
        self.inner.protocol_launch(order, via, resume)
    }

    fn sources(&self, order: &LaunchRequest) -> Vec<WatchedFile> {
        let journal = journal_source(&order.private, order.run);
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
}

/// Reads journals of drivers, and files of the same form.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Whether to use its reports of tokens and cost.
    pub(crate) counts: bool,
}

impl Reader for Journal {
    fn read(&mut self, text: &str) -> Vec<Reading> {
        text.lines()
            .filter_map(|line| json::read::<Value>(line).ok())
            .filter_map(|line| {
                let event = line.get("event")?.as_str()?.to_owned();
                let payload = line.get("payload");
                let text = payload.map(ToString::to_string).unwrap_or_default();
                let mut readings = hooks::read(&event, &text);
                let of_call = payload.and_then(|payload| TurnEvent::read(&event, payload));
                readings.extend(of_call.map(Reading::Turn));
                for reading in &mut readings {
                    if let Reading::Limited { resets } = reading {
                        *resets = ends(&line).or_else(|| resets.take());
                    }
                }
                Some(readings)
            })
            .flatten()
            .filter(|reading| self.counts || !reading.is_usage())
            .collect()
    }
}

/// The end of a limit that a line reports. The line may be read long after it was written, so its seconds count from
/// its own time.
fn ends(line: &Value) -> Option<QuotaReset> {
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
    Some(QuotaReset::At(Timestamp::from_micros(micros)))
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
    fn resumed(folder: &TempDir, chats: &[(&str, &str)]) -> LaunchRequest {
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("bin")).unwrap();
        std::os::unix::fs::symlink("/bin/sh", at("bin/gemini")).unwrap();
        fs::create_dir_all(at(".gemini/tmp/api/chats")).unwrap();
        for (minute, text) in chats {
            let name = format!(".gemini/tmp/api/chats/session-{minute}-41111111.jsonl");
            fs::write(at(&name), text).unwrap();
        }
        LaunchRequest {
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
        let agent = DrivenAgent::new(Arc::new(Gemini::new()), Via::Acp).unwrap();
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
        let agent = DrivenAgent::new(Arc::new(Gemini::new()), Via::Acp).unwrap();
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
        let at = |seconds: i64| Some(QuotaReset::At(Timestamp::from_micros(seconds * 1_000_000)));
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
                Some(QuotaReset::In { seconds: 60 }),
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
        for (inner, kinds, has_usage) in [
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
            let driven = DrivenAgent::new(inner, Via::Acp).unwrap();
            let sources = driven.sources(&order);
            let named: Vec<&str> = sources.iter().map(|s| s.kind.as_str()).collect();
            assert_eq!(named, kinds);
            let readings = driven.reader(JOURNAL, None).read(spent);
            assert_eq!(readings.iter().any(Reading::is_usage), has_usage);
            assert!(readings.contains(&Reading::TurnEnded), "{readings:?}");
        }
    }
}
