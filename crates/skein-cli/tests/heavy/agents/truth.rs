//! Whether the status of many sessions at once is true at every moment: the programs note when they took a prompt, and
//! the model knows who is being answered.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use skein_fixtures::model_server::Exchange;

use crate::agents::stage::{CLAUDE, CODEX, Program, Stage, Who};
use crate::harness::Call;
use crate::harness::{eventually, text};

/// How long a change may take to be told.
const WINDOW_MS: u64 = 500;

/// How often is looked.
const PACE: Duration = Duration::from_millis(50);

/// What a program tells comes by several steps, a process for a hook among them. Where a nap and a process that does
/// nothing take longer than this, which is several times what they should, the machine stood still.
const NAP: Duration = Duration::from_millis(50);
const LATE_MS: u64 = 120;

/// What was told at one time: asked after the first of its times, answered before the second.
struct Sample {
    asked_ms: u64,
    told_ms: u64,
    statuses: BTreeMap<String, String>,
}

/// A time in which nothing can be said about what was told.
#[derive(Clone, Copy, Debug)]
struct Standstill {
    from_ms: u64,
    to_ms: u64,
}

/// One task of one session.
#[derive(Clone, Copy, Debug)]
struct Work {
    /// When the program took it, and when the turn was over for it, as it noted itself.
    took_ms: u64,
    over_ms: u64,
    /// When the model had answered to the end.
    answered_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    /// It was not begun: the program is not up, or does something before its first prompt.
    Starts,
    Works,
    Rests,
}

impl Truth {
    fn is_told_by(self, status: &str) -> bool {
        status
            == match self {
                Self::Starts => "spawning",
                Self::Works => "working",
                Self::Rests => "idle",
            }
    }
}

/// What a look between two times must have shown; none near a change.
fn truth(works: &[Work], asked_ms: u64, told_ms: u64) -> Option<Truth> {
    let mut truth = Truth::Starts;
    for work in works {
        let changes = [
            (work.took_ms, work.took_ms, Truth::Works),
            (work.answered_ms, work.over_ms, Truth::Rests),
        ];
        for (from, to, then) in changes {
            if told_ms + WINDOW_MS >= from && asked_ms <= to + WINDOW_MS {
                return None;
            }
            if asked_ms > to {
                truth = then;
            }
        }
    }
    Some(truth)
}

#[expect(
    clippy::disallowed_methods,
    reason = "compared with the model's log, which has the machine's time"
)]
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

fn look(stage: &Stage) -> Sample {
    let asked_ms = now_ms();
    let list = stage
        .fleet
        .home
        .call(&Call::get("/api/v1/sessions?limit=100"))
        .json();
    let status = |session: &Value| (text(&session["id"]), text(&session["status"]));
    Sample {
        asked_ms,
        told_ms: now_ms(),
        statuses: list["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(status)
            .collect(),
    }
}

fn look_until(stage: &Stage, over: &AtomicBool) -> Vec<Sample> {
    let mut samples = vec![];
    while !over.load(Ordering::Relaxed) {
        samples.push(look(stage));
        thread::sleep(PACE);
    }
    samples
}

fn stand_until(stage: &Stage, over: &AtomicBool) -> Vec<Standstill> {
    let mut found = vec![];
    while !over.load(Ordering::Relaxed) {
        let from_ms = now_ms();
        thread::sleep(NAP);
        let ran = stage.run(&["--version"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let to_ms = now_ms();
        if to_ms > from_ms + LATE_MS {
            found.push(Standstill { from_ms, to_ms });
        }
    }
    found
}

/// By what the program noted of it, one line after the other, and by the model's log.
fn work(stage: &Stage, noted: &str, mark: &str) -> Option<Work> {
    let at = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        let at: jiff::Timestamp = line["timestamp"].as_str()?.parse().ok()?;
        u64::try_from(at.as_millisecond()).ok()
    };
    let mut lines = noted.lines();
    let took_ms = lines.by_ref().filter(|l| l.contains(mark)).find_map(at)?;
    let is_over = |line: &&str| OVER.iter().any(|word| line.contains(word));
    let over_ms = lines.filter(is_over).find_map(at)?;
    let turns = stage.turns();
    let mine = |e: &&Exchange| e.last_user.as_deref().is_some_and(|t| t.contains(mark));
    let answered_ms = turns.iter().filter(mine).find(|e| is_last(e))?.ended_ms?;
    Some(Work {
        took_ms,
        over_ms: over_ms.max(answered_ms),
        answered_ms,
    })
}

/// What Codex and Claude Code write down at the end of a turn.
const OVER: [&str; 2] = [
    "\"type\":\"task_complete\"",
    "\"subtype\":\"turn_duration\"",
];

/// Whether it is the last answer of a task.
fn is_last(exchange: &Exchange) -> bool {
    exchange.step == Some(2)
}

/// What is wrong in what was told, outside of the windows and the standstills.
#[derive(Debug, Default)]
struct Verdict {
    looked: u64,
    wrong: u64,
    left_out: u64,
    report: String,
}

impl Verdict {
    fn of(samples: &[Sample], still: &[Standstill], works: &BTreeMap<String, Vec<Work>>) -> Self {
        let mut verdict = Self::default();
        for pair in samples.windows(2) {
            let [sample, next] = pair else { continue };
            let lasted = next.asked_ms - sample.asked_ms;
            // What comes after a standstill may be as late as that.
            let touches = |s: &Standstill| {
                let shadow = s.to_ms + (s.to_ms - s.from_ms) + WINDOW_MS;
                s.from_ms <= sample.told_ms && sample.asked_ms <= shadow
            };
            for (session, works) in works {
                let Some(status) = sample.statuses.get(session) else {
                    continue;
                };
                let Some(truth) = truth(works, sample.asked_ms, sample.told_ms) else {
                    continue;
                };
                if still.iter().any(touches) {
                    verdict.left_out += lasted;
                    continue;
                }
                verdict.looked += lasted;
                if !truth.is_told_by(status) {
                    verdict.wrong += lasted;
                    let at = |ms: u64| i128::from(ms) - i128::from(sample.asked_ms);
                    let around: Vec<_> = works
                        .iter()
                        .map(|w| (at(w.took_ms), at(w.over_ms)))
                        .collect();
                    let _ = writeln!(
                        verdict.report,
                        "{session} {status}, and {truth:?}; its turns are {around:?} ms from then"
                    );
                }
            }
        }
        verdict
    }
}

#[test]
fn heavy_l2_of_ten_codex_and_three_claude_code_sessions_every_status_is_true() {
    let stage = Stage::of(&[CODEX, CLAUDE], Who::Us);
    let programs = [[CODEX; 10].as_slice(), &[CLAUDE; 3]].concat();
    // Each has its own pace, so that some rest while others work.
    let task = |n: usize, mark: &str| {
        let (nap, pause) = (1 + n % 3, 1 + n % 4);
        format!(
            "{mark} [[bash sleep {nap} ;; think {pause} ;; write out.txt {mark} ;; \
             slow {pause} one two three four ;; say DONE]]"
        )
    };
    let begin = |n: usize, program: Program| {
        let mark = format!("FIRST-{n}-");
        let session = stage.spawn_by(program, &task(n, &mark), &["--permission", "full"]);
        (session, mark)
    };
    let until_rest = |sessions: &[String]| {
        let rests = |s: &String| stage.json(&["show", s])["status"] == "idle";
        sessions.iter().for_each(|session| {
            eventually(
                || rests(session).then_some(()),
                || stage.run(&["why", session]).stdout,
            );
        });
    };
    let over = AtomicBool::new(false);
    let (samples, still, marks) = thread::scope(|scope| {
        let samples = scope.spawn(|| look_until(&stage, &over));
        let still = scope.spawn(|| stand_until(&stage, &over));
        // All at once, and looked at from the first moment.
        let begin = &begin;
        let begun: Vec<_> = (0..)
            .zip(&programs)
            .map(|(n, program)| scope.spawn(move || begin(n, *program)))
            .collect();
        let begun: Vec<_> = begun.into_iter().map(|one| one.join().unwrap()).collect();
        let sessions: Vec<String> = begun.iter().map(|(session, _)| session.clone()).collect();
        until_rest(&sessions);
        let mut marks: BTreeMap<_, _> = begun.into_iter().map(|(s, m)| (s, vec![m])).collect();
        // And once more, by a message.
        for (n, session) in sessions.iter().enumerate() {
            let mark = format!("THEN-{n}-");
            stage.post(session, &task(n, &mark));
            marks.get_mut(session).unwrap().push(mark);
        }
        for marks in marks.values() {
            let mark = marks.last().unwrap();
            stage.asked(mark, |e| {
                let said = e.last_user.as_deref();
                said.is_some_and(|t| t.contains(mark.as_str())) && e.outcome.is_some() && is_last(e)
            });
        }
        until_rest(&sessions);
        over.store(true, Ordering::Relaxed);
        (samples.join().unwrap(), still.join().unwrap(), marks)
    });
    let noted = stage.transcripts();
    let works = marks.iter().map(|(session, marks)| {
        let works = marks.iter().map(|mark| work(&stage, &noted, mark).unwrap());
        (session.clone(), works.collect::<Vec<_>>())
    });
    let verdict = Verdict::of(&samples, &still, &works.collect());
    println!(
        "{} of {} ms of {} sessions were told wrong; {} ms were left out, in which the machine stood still; {} looks",
        verdict.wrong,
        verdict.looked,
        marks.len(),
        verdict.left_out,
        samples.len()
    );
    assert_eq!(
        verdict.wrong, 0,
        "of {} ms\n{}",
        verdict.looked, verdict.report
    );
    // Who hardly looks sees nothing wrong.
    assert!(verdict.looked > 60_000, "only {} ms", verdict.looked);
    for (session, marks) in &marks {
        let written = std::fs::read_to_string(stage.folder(session).join("out.txt")).unwrap();
        assert_eq!(written.trim_end(), marks.last().unwrap());
    }
}
