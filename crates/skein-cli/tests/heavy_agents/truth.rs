//! Whether the status of many sessions at once is true at every moment: the model knows who is being answered.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::base::Call;
use crate::common::{DEADLINE, text};
use crate::stage::{CLAUDE, CODEX, Program, Stage, Who};

/// How long a change may take to be told.
const WINDOW_MS: u64 = 500;

/// How often is looked.
const PACE: Duration = Duration::from_millis(100);

/// By session: what marks its task, and when it was sent.
type Marks = BTreeMap<String, (String, u64)>;

/// What was told at one time: asked after the first of its times, answered before the second.
struct Sample {
    asked_ms: u64,
    told_ms: u64,
    statuses: BTreeMap<String, String>,
}

/// When the model had a session's task in hand.
#[derive(Clone, Copy, Debug)]
struct Work {
    /// When the task was sent. Until the model is asked, only the program knows whether it has begun.
    sent_ms: u64,
    from_ms: u64,
    to_ms: u64,
}

impl Work {
    /// Whether it was told to work although the model, by a clear margin, had not been asked.
    fn is_early(self, told_ms: u64, status: &str) -> bool {
        status == "working" && told_ms >= self.sent_ms && told_ms + WINDOW_MS < self.from_ms
    }

    /// What a look between the two times must have shown; none near a change.
    fn expects(self, asked_ms: u64, told_ms: u64) -> Option<bool> {
        let inside = asked_ms > self.from_ms + WINDOW_MS && told_ms + WINDOW_MS < self.to_ms;
        let before = told_ms < self.sent_ms;
        let after = asked_ms > self.to_ms + WINDOW_MS;
        match (inside, before || after) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }
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

/// Looks until everything that was begun is done and was seen at rest for a while.
fn watch(stage: &Stage, marks: &Marks) -> Vec<Sample> {
    let mut samples = vec![];
    let until = now_ms() + u64::try_from(DEADLINE.as_millis()).unwrap();
    loop {
        let sample = look(stage);
        let now = sample.told_ms;
        samples.push(sample);
        let works = works(stage, marks);
        let over = works.values().all(|work| work.to_ms + 6 * WINDOW_MS < now);
        if over && works.len() == marks.len() {
            return samples;
        }
        assert!(now < until, "not all were done: {works:?}");
        thread::sleep(PACE);
    }
}

/// By session: from the first time the model was asked about its task to the end of the last answer.
fn works(stage: &Stage, marks: &Marks) -> BTreeMap<String, Work> {
    let turns = stage.turns();
    let work = |(mark, sent_ms): &(String, u64)| {
        let asked = |e: &&_| said(e).is_some_and(|text| text.contains(mark.as_str()));
        let mine: Vec<_> = turns.iter().filter(asked).collect();
        // The last answer of every task is its fourth.
        let last = mine.iter().find(|e| e.step == Some(3))?;
        Some(Work {
            sent_ms: *sent_ms,
            from_ms: mine.iter().map(|e| e.began_ms).min()?,
            to_ms: last.ended_ms?,
        })
    };
    marks
        .iter()
        .filter_map(|(session, mark)| Some((session.clone(), work(mark)?)))
        .collect()
}

fn said(exchange: &skein_model_server::Exchange) -> Option<&str> {
    exchange.last_user.as_deref()
}

#[test]
fn heavy_l2_of_ten_codex_and_three_claude_code_sessions_every_status_is_true() {
    let stage = Stage::of(&[CODEX, CLAUDE], Who::Us);
    let programs = [[CODEX; 10].as_slice(), &[CLAUDE; 3]].concat();
    // One after the other: Codex programs that make the database of a home at the same time fail in it.
    let ready = |program: &Program| {
        let session = stage.spawn_by(*program, "[[say ready]]", &["--permission", "full"]);
        let rests = |s: &Value| s["status"] == "idle" && s["turns"] == 1;
        stage.until(&session, "rest", rests);
        session
    };
    let sessions: Vec<_> = programs.iter().map(ready).collect();
    let mut marks = BTreeMap::new();
    for (n, session) in sessions.iter().enumerate() {
        let mark = format!("MARK-{n}-");
        // Each has its own pace, so that some rest while others work.
        let (nap, pause) = (1 + n % 3, 1 + n % 4);
        let task = format!(
            "{mark} [[bash sleep {nap} ;; think {pause} ;; write out.txt {mark} ;; \
             slow {pause} one two three four ;; bash sleep {pause} ;; say done]]"
        );
        marks.insert(session.clone(), (mark, now_ms()));
        stage.post(session, &task);
    }
    let samples = watch(&stage, &marks);
    let works = works(&stage, &marks);

    let (mut looked, mut wrong, mut early, mut report) = (0, 0, 0, String::new());
    for pair in samples.windows(2) {
        let [sample, next] = pair else { continue };
        for (session, work) in &works {
            let status = sample.statuses[session].as_str();
            let lasted = next.asked_ms - sample.asked_ms;
            if work.is_early(sample.told_ms, status) {
                early += lasted;
            }
            let Some(working) = work.expects(sample.asked_ms, sample.told_ms) else {
                continue;
            };
            looked += lasted;
            if status != if working { "working" } else { "idle" } {
                wrong += lasted;
                let at = i128::from(sample.asked_ms) - i128::from(work.from_ms);
                let to = work.to_ms - work.from_ms;
                let _ = writeln!(report, "{session} {status} at {at} of 0..{to} ms");
            }
        }
    }
    println!(
        "{wrong} of {looked} ms of {} sessions were told wrong, {early} ms were work before the model was asked, {} looks",
        works.len(),
        samples.len()
    );
    // None is the aim, and is what a machine of one's own shows. One that is shared may stand still for longer than the
    // window; what is wrong with us would last.
    assert!(wrong * 50 <= looked, "{wrong} of {looked} ms\n{report}");
    for (session, (mark, _)) in &marks {
        let written = std::fs::read_to_string(stage.folder(session).join("out.txt")).unwrap();
        assert_eq!(written.trim_end(), mark);
    }
}
