//! L2: one pure function derives the status from facts; no record stores it.

use crate::observed::{Activity, Observations, RuntimeState, StatusThresholds};
use crate::phase::{Outcome, Phase};
use crate::time::Timestamp;
use crate::word::words;

words! {
    pub enum Status: "status" {
        Spawning = "spawning",
        Working = "working",
        Idle = "idle",
        NeedsInput = "needs_input",
        Blocked = "blocked",
        Stuck = "stuck",
        NoSignal = "no_signal",
        Detecting = "detecting",
        Done = "done",
        Killed = "killed",
        Failed = "failed",
        Lost = "lost",
        Archived = "archived",
    }
}

/// A status with its reason and the rule that decided it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    pub status: Status,
    pub reason: String,
    /// For `skein why`.
    pub rule: &'static str,
}

impl Status {
    /// Derives the status from the phase, the observations and their age. `has_agent` says whether the session has an
    /// agent's process; without one there is nothing to observe and only the phase counts.
    pub fn derive(
        phase: &Phase,
        has_agent: bool,
        seen: &Observations,
        patience: &StatusThresholds,
        now: Timestamp,
    ) -> Derived {
        if has_agent
            && phase.is_live()
            && let Some(derived) = doubted(phase, seen, patience, now)
        {
            return derived;
        }
        match phase {
            Phase::Spawning => spawning(seen),
            Phase::Active if has_agent => working(seen, patience, now),
            Phase::Active => derived(Self::Working, "a turn is running", "phase active"),
            Phase::Idle => idle(seen),
            Phase::AwaitingInput(question) => derived(
                Self::NeedsInput,
                format!("asks: {}", question.text),
                "phase awaiting_input",
            ),
            Phase::Locked(handoff) => derived(
                Self::Blocked,
                format!("handoff {handoff} in progress"),
                "phase locked",
            ),
            Phase::AwaitingMerge(broadcast) => derived(
                Self::Blocked,
                format!("waits for the recipients of broadcast {broadcast}"),
                "phase awaiting_merge",
            ),
            Phase::Ended { outcome, reason } => {
                let status = match outcome {
                    Outcome::Done => Self::Done,
                    Outcome::Killed => Self::Killed,
                    Outcome::Failed => Self::Failed,
                    Outcome::Lost => Self::Lost,
                };
                let reason = reason
                    .as_ref()
                    .map_or_else(|| "no reason given".into(), ToString::to_string);
                derived(status, reason, "phase ended")
            }
            Phase::Archived { outcome } => derived(
                Self::Archived,
                outcome.map_or_else(
                    || "archived while idle".into(),
                    |o| format!("archived after it was {}", o.as_str()),
                ),
                "phase archived",
            ),
        }
    }
}

fn derived(status: Status, reason: impl Into<String>, rule: &'static str) -> Derived {
    Derived {
        status,
        reason: reason.into(),
        rule,
    }
}

/// The status if observations contradict the phase (L3).
fn doubted(
    phase: &Phase,
    seen: &Observations,
    patience: &StatusThresholds,
    now: Timestamp,
) -> Option<Derived> {
    // A saga starts and ends the process itself, so its absence is no contradiction.
    if seen.saga.is_some() || matches!(phase, Phase::Spawning) {
        return None;
    }
    if let Some(doubt) = &seen.doubt {
        let age = now.seconds_since(doubt.since);
        let given_up = doubt.looks >= StatusThresholds::LOOKS || age >= patience.doubt_seconds;
        return Some(if given_up {
            let reason = format!(
                "{}; checked {} times in {}",
                doubt.why,
                doubt.looks,
                ago(age)
            );
            derived(Status::Stuck, reason, "unreachable for too long")
        } else {
            derived(
                Status::Detecting,
                doubt.why.clone(),
                "runtime and record disagree",
            )
        });
    }
    match seen.runtime.as_ref().map(|r| &r.what) {
        None => Some(derived(
            Status::Detecting,
            "its agent has not been observed yet",
            "runtime not seen yet",
        )),
        Some(RuntimeState::Unobserved { why }) => Some(derived(
            Status::NoSignal,
            format!("its agent cannot be observed: {why}"),
            "runtime unobserved",
        )),
        Some(RuntimeState::Missing | RuntimeState::Exited(_)) => Some(derived(
            Status::Detecting,
            "its agent's process is gone; Skein is recording the end",
            "process gone, end not recorded yet",
        )),
        Some(RuntimeState::Alive { .. }) => None,
    }
}

fn spawning(seen: &Observations) -> Derived {
    let Some(saga) = &seen.saga else {
        return derived(Status::Spawning, "being set up", "phase spawning");
    };
    let why = saga
        .why
        .as_ref()
        .map_or(String::new(), |w| format!(": {w}"));
    match (saga.place, saga.step) {
        (Some(place), _) => derived(
            Status::Spawning,
            format!("queued at place {place}{why}"),
            "saga queued",
        ),
        (None, Some(step)) => derived(
            Status::Spawning,
            format!("{}{why}", step.doing()),
            "spawn or restore in progress",
        ),
        (None, None) => derived(Status::Spawning, format!("queued{why}"), "saga queued"),
    }
}

fn working(seen: &Observations, patience: &StatusThresholds, now: Timestamp) -> Derived {
    let silent = seen.output_at.map(|at| now.seconds_since(at));
    if let Some(blocked) = blocked(seen) {
        return blocked;
    }
    if seen.starting {
        let reason = "its program is starting and has not begun the task";
        return derived(Status::Spawning, reason, "task not begun");
    }
    if !seen.has_signal {
        let reason = match silent {
            Some(silent) => format!(
                "no source shows what it does; last output {} ago",
                ago(silent)
            ),
            None => "no source shows what it does; no output yet".into(),
        };
        return derived(Status::NoSignal, reason, "agent without signals");
    }
    match silent {
        Some(silent) if silent >= patience.stall_seconds => derived(
            Status::Stuck,
            format!("a turn is running, but without output for {}", ago(silent)),
            "no output for longer than the stall threshold",
        ),
        _ => derived(Status::Working, "a turn is running", "phase active"),
    }
}

fn idle(seen: &Observations) -> Derived {
    if let Some(blocked) = blocked(seen) {
        return blocked;
    }
    let why = match seen.draft {
        true => ", because unsent text is in its input box: `skein attach` shows it",
        false => "",
    };
    let reason = match seen.queued {
        0 => "between turns".into(),
        1 => format!("between turns; 1 message waits{why}"),
        n => format!("between turns; {n} messages wait{why}"),
    };
    derived(Status::Idle, reason, "phase idle")
}

fn blocked(seen: &Observations) -> Option<Derived> {
    let activity = &seen.activity.as_ref()?.what;
    let detail = activity.detail.as_deref();
    (activity.activity == Activity::Blocked).then(|| {
        let detail = detail.unwrap_or("it cannot continue by itself");
        derived(Status::Blocked, detail, "activity blocked")
    })
}

/// A span of time as people say it.
fn ago(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::SagaId;
    use crate::observed::{
        ActivityObservation, DetectionState, EvidenceSource, Exit, Observation, SagaObservation,
    };
    use crate::phase::Question;
    use crate::saga::{SagaKind, SagaStep};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn bare(phase: &Phase) -> Status {
        Status::derive(
            phase,
            false,
            &Observations::default(),
            &StatusThresholds::default(),
            at(0),
        )
        .status
    }

    #[test]
    fn l2_every_phase_has_one_status() {
        let handoff = SagaId::from_random([1; 10]);
        let ended = |outcome| Phase::Ended {
            outcome,
            reason: None,
        };
        for (phase, expected) in [
            (Phase::Spawning, Status::Spawning),
            (Phase::Active, Status::Working),
            (Phase::Idle, Status::Idle),
            (
                Phase::AwaitingInput(Question {
                    text: "a or b?".parse().unwrap(),
                    options: vec![],
                    kinds: vec![],
                    id: None,
                }),
                Status::NeedsInput,
            ),
            (Phase::Locked(handoff.clone()), Status::Blocked),
            (Phase::AwaitingMerge(handoff), Status::Blocked),
            (ended(Outcome::Done), Status::Done),
            (ended(Outcome::Killed), Status::Killed),
            (ended(Outcome::Failed), Status::Failed),
            (ended(Outcome::Lost), Status::Lost),
            (Phase::Archived { outcome: None }, Status::Archived),
        ] {
            assert_eq!(bare(&phase), expected, "{phase:?}");
        }
    }

    fn alive() -> Observations {
        Observations {
            runtime: Some(Observation {
                what: RuntimeState::Alive { pid: Some(7) },
                at: at(0),
            }),
            has_signal: true,
            output_at: Some(at(0)),
            ..Observations::default()
        }
    }

    fn doubt(looks: u32, since: i64) -> Observations {
        Observations {
            doubt: Some(DetectionState {
                since: at(since),
                looks,
                why: "holder gone, process there".into(),
            }),
            ..alive()
        }
    }

    fn runtime(what: RuntimeState) -> Observations {
        Observations {
            runtime: Some(Observation { what, at: at(0) }),
            ..alive()
        }
    }

    fn blocked() -> Observations {
        Observations {
            activity: Some(Observation {
                what: ActivityObservation {
                    activity: Activity::Blocked,
                    source: EvidenceSource::Hook,
                    rule: "limit".into(),
                    detail: Some("usage limit until 15:00".into()),
                },
                at: at(0),
            }),
            ..alive()
        }
    }

    #[test]
    fn the_reason_of_a_start_says_what_its_step_does() {
        let seen = Observations {
            saga: Some(SagaObservation {
                kind: SagaKind::Spawn,
                step: Some(SagaStep::Prompt),
                place: None,
                why: None,
            }),
            ..Observations::default()
        };
        let derived = spawning(&seen);
        assert_eq!(derived.reason, "waiting for the agent to take its task");
        assert_eq!(derived.rule, "spawn or restore in progress");
    }

    #[test]
    fn l2_l3_what_is_seen_decides_the_status_of_an_agent() {
        let queued = Observations {
            saga: Some(SagaObservation {
                kind: SagaKind::Spawn,
                step: None,
                place: Some(3),
                why: None,
            }),
            ..Observations::default()
        };
        let launching = Observations {
            saga: Some(SagaObservation {
                kind: SagaKind::Spawn,
                step: Some(SagaStep::Launch),
                place: None,
                why: None,
            }),
            ..Observations::default()
        };
        let starting = Observations {
            starting: true,
            ..alive()
        };
        let dumb = Observations {
            has_signal: false,
            ..alive()
        };
        let unobserved = RuntimeState::Unobserved { why: "no".into() };
        for (name, phase, seen, now, expected) in [
            ("queued", Phase::Spawning, queued, 0, Status::Spawning),
            ("launching", Phase::Spawning, launching, 0, Status::Spawning),
            ("comes up", Phase::Active, starting, 9, Status::Spawning),
            ("works", Phase::Active, alive(), 599, Status::Working),
            ("stalls", Phase::Active, alive(), 600, Status::Stuck),
            (
                "idle may be silent",
                Phase::Idle,
                alive(),
                9999,
                Status::Idle,
            ),
            ("tells nothing", Phase::Active, dumb, 1, Status::NoSignal),
            (
                "never looked at",
                Phase::Active,
                Observations::default(),
                1,
                Status::Detecting,
            ),
            (
                "cannot look",
                Phase::Idle,
                runtime(unobserved),
                1,
                Status::NoSignal,
            ),
            (
                "missing",
                Phase::Idle,
                runtime(RuntimeState::Missing),
                1,
                Status::Detecting,
            ),
            (
                "exited",
                Phase::Active,
                runtime(RuntimeState::Exited(Exit::Code(0))),
                1,
                Status::Detecting,
            ),
            ("doubt", Phase::Active, doubt(1, 0), 299, Status::Detecting),
            ("old doubt", Phase::Active, doubt(1, 0), 300, Status::Stuck),
            ("three looks", Phase::Active, doubt(3, 0), 1, Status::Stuck),
            ("limit", Phase::Active, blocked(), 1, Status::Blocked),
            ("limit, idle", Phase::Idle, blocked(), 1, Status::Blocked),
        ] {
            let derived =
                Status::derive(&phase, true, &seen, &StatusThresholds::default(), at(now));
            assert_eq!(derived.status, expected, "{name}: {derived:?}");
        }
    }
}
