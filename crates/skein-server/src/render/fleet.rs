//! Agents at work on the wire: receipts, screens, reasons, programs.

use skein_domain as domain;
use skein_domain::RuntimeState;
use skein_domain::observed::Observations;
use skein_fleet::FleetRequests;
use skein_fleet::examine::is_tested;
use skein_fleet::explain::{Draft, RuleTrial, ScreenExplained, UnmetCondition};
use skein_fleet::{AgentView, TerminalAddress, Why};
use skein_wire as wire;

use super::{session, time};

/// Never the text: a message may hold what only its receiver should read (L14).
pub(crate) fn receipt(r: &domain::Receipt) -> wire::Receipt {
    wire::Receipt {
        id: r.id.to_string(),
        session: r.session.to_string(),
        key: r.key.as_ref().map(ToString::to_string),
        purpose: r.purpose.as_str().into(),
        from: r.from.as_ref().map(ToString::to_string),
        state: r.state.as_str().into(),
        attempts: r.attempts,
        note: r.note.as_ref().map(ToString::to_string),
        doubt: r.doubt.map(|doubt| doubt.as_str().to_owned()),
        history: r
            .history
            .iter()
            .map(|(state, at)| wire::ReceiptStep {
                state: state.as_str().into(),
                at: time(*at),
            })
            .collect(),
    }
}

pub(crate) fn terminal(t: &TerminalAddress) -> wire::TerminalAddress {
    wire::TerminalAddress {
        session: t.session.to_string(),
        run: t.run,
        runtime: t.runtime.as_str().into(),
        handle: t.handle.as_ref().map(ToString::to_string),
        log: t.log.display().to_string(),
        setup_log: t.setup_log.display().to_string(),
    }
}

pub(crate) fn why(
    requests: &FleetRequests,
    w: &Why,
    screen: Option<&ScreenExplained>,
) -> wire::Why {
    wire::Why {
        session: session::session(requests, &w.session),
        status: w.derived.status.as_str().into(),
        reason: w.derived.reason.clone(),
        rule: w.derived.rule.into(),
        facts: facts(&w.session, &w.observed, screen),
        receipts_open: w.receipts_open,
        saga: session::saga(&w.session, &w.observed),
        screen: screen.map(screen_explanation),
    }
}

pub(crate) fn screen_explanation(explained: &ScreenExplained) -> wire::ScreenExplanation {
    let reading = explained.reading.as_ref();
    wire::ScreenExplanation {
        activity: reading.map(|(activity, _)| activity.as_str().into()),
        rule: reading.map(|(_, rule)| rule.clone()),
        input_box: match &explained.draft {
            Draft::Unknown => "unknown",
            Draft::Unseen => "unseen",
            Draft::Empty => "empty",
            Draft::Holds(_) => "holds",
        }
        .into(),
        rules: explained.rules.iter().map(rule_trial).collect(),
    }
}

fn rule_trial(trial: &RuleTrial) -> wire::RuleTrial {
    let miss = |miss: &UnmetCondition| wire::RuleMiss {
        condition: miss.condition.into(),
        pattern: miss.pattern.clone(),
        row: miss.row.as_ref().map(|row| row.number as u64),
        text: miss.row.as_ref().map(|row| row.text.clone()),
        part: miss.row.as_ref().map(|row| row.part.clone()),
    };
    wire::RuleTrial {
        rule: trial.rule.clone(),
        says: trial.says.into(),
        fits: trial.fits(),
        region: trial.region.clone(),
        first_row: trial.rows.map(|(first, _)| first as u64),
        last_row: trial.rows.map(|(_, last)| last as u64),
        misses: trial.misses.iter().map(miss).collect(),
    }
}

fn fact(fact: &str, value: impl Into<String>, source: &str, at: Option<String>) -> wire::WhyFact {
    wire::WhyFact {
        fact: fact.into(),
        value: value.into(),
        source: source.into(),
        at,
    }
}

/// The evidence from which the status was derived, the strongest first.
fn facts(
    s: &domain::Session,
    seen: &Observations,
    screen: Option<&ScreenExplained>,
) -> Vec<wire::WhyFact> {
    let mut facts = vec![fact(
        "phase",
        s.phase.name().as_str(),
        "record",
        Some(time(s.updated_at)),
    )];
    if s.gear.is_none() {
        return facts;
    }
    if s.phase.is_live() {
        facts.extend(of_the_run(seen, screen));
    } else {
        // No supervisor watches a run that is over; the record says how it ended.
        let how = seen.runtime.as_ref().map(|r| runtime_text(&r.what));
        let how = how.unwrap_or_else(|| "nothing runs; the record says how it ended".into());
        facts.push(fact("runtime", how, "record", Some(time(s.updated_at))));
    }
    if let Some(saga) = &seen.saga {
        let mut value = saga.kind.as_str().to_owned();
        if let Some(step) = saga.step {
            value.push_str(&format!(", step `{}`", step.as_str()));
        }
        if let Some(place) = saga.place {
            value.push_str(&format!(", place {place} in the queue"));
        }
        if let Some(why) = &saga.why {
            value.push_str(&format!(": {why}"));
        }
        facts.push(fact("saga", value, "record", None));
    }
    if seen.queued > 0 {
        facts.push(fact("queued", seen.queued.to_string(), "record", None));
    }
    facts
}

/// The observations of a live run.
fn of_the_run(seen: &Observations, screen: Option<&ScreenExplained>) -> Vec<wire::WhyFact> {
    let mut facts = vec![];
    match &seen.runtime {
        Some(runtime) => facts.push(fact(
            "runtime",
            runtime_text(&runtime.what),
            "runtime",
            Some(time(runtime.at)),
        )),
        None => facts.push(fact("runtime", "not checked yet", "runtime", None)),
    }
    if let Some(doubt) = &seen.doubt {
        let value = format!("{} (checked {} times)", doubt.why, doubt.looks);
        facts.push(fact("doubt", value, "runtime", Some(time(doubt.since))));
    }
    match &seen.activity {
        Some(activity) => {
            let what = &activity.what;
            let mut value = format!("{} (rule `{}`)", what.activity.as_str(), what.rule);
            if let Some(detail) = &what.detail {
                value.push_str(": ");
                value.push_str(detail);
            }
            let source = what.source.as_str();
            facts.push(fact("activity", value, source, Some(time(activity.at))));
        }
        None if seen.has_signal => {
            let unmatched = screen.filter(|s| s.reading.is_none() && !s.rules.is_empty());
            let value = match unmatched {
                Some(screen) => format!(
                    "no rule matches the screen ({} tried), and no hook or file has reported",
                    screen.rules.len()
                ),
                None => "no report yet".into(),
            };
            facts.push(fact("activity", value, "screen", None));
        }
        None => facts.push(fact(
            "activity",
            "no source shows what this agent does",
            "record",
            None,
        )),
    }
    match seen.output_at {
        Some(at) => facts.push(fact("output", "last seen", "runtime", Some(time(at)))),
        None => facts.push(fact("output", "none seen", "runtime", None)),
    }
    facts
}

fn runtime_text(state: &RuntimeState) -> String {
    match state {
        RuntimeState::Alive { pid: Some(pid) } => format!("alive (pid {pid})"),
        RuntimeState::Alive { pid: None } => "alive".into(),
        RuntimeState::Exited(exit) => format!("its agent {exit}"),
        RuntimeState::Missing => "definitely not there".into(),
        RuntimeState::Unobserved { why } => format!("could not be checked: {why}"),
    }
}

pub(crate) fn agent(a: &AgentView) -> wire::Agent {
    let can = &a.abilities;
    wire::Agent {
        name: a.name.to_string(),
        found: a.found.missing.is_none(),
        program: a.found.program.as_ref().map(|p| p.display().to_string()),
        version: a.found.version.clone(),
        built_in: a.found.built_in,
        missing: a.found.missing.clone(),
        install: a.found.install.clone(),
        tested: a
            .profile
            .map(|p| format!("{} to {}", p.tested.0, p.tested.1)),
        is_tested: a
            .found
            .version
            .as_deref()
            .zip(a.profile)
            .and_then(|(version, profile)| is_tested(version, profile.tested)),
        logged_in: a.found.logged_in,
        login: a.profile.map(|p| p.login.to_owned()),
        abilities: wire::Abilities {
            prompt: can.prompt.iter().map(|v| v.as_str().into()).collect(),
            resume: can.resume,
            hooks: can.hooks,
            screens: can.screens,
            files: can.files,
            usage: can.usage,
            protocols: can.protocols.iter().map(|p| p.as_str().into()).collect(),
        },
        memory_mb: a.memory_mb,
        default: a.default,
    }
}
