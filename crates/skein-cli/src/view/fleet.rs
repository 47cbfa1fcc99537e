//! Statuses, rules, receipts, clean-up and agent programs.

use skein_wire::{Agent, GcItem, Receipt, RuleMiss, ScreenExplanation, Why};

use super::facts::Facts;
use super::session::{status_style, window};
use crate::output::{BOLD, DIM, GREEN, Paint, YELLOW};
use crate::table::{Cell, Table};
use crate::{text, when};

pub(crate) fn why(why: &Why, width: Option<usize>, paint: Paint) -> String {
    let now = when::now();
    let mut facts = Facts::new(width, paint);
    facts.styled("session", &why.session.id, BOLD);
    facts.styled("status", &why.status, status_style(&why.status));
    facts.add("because", &why.reason);
    facts.add("rule", &why.rule);
    for fact in &why.facts {
        let mut value = format!("{} (from {}", fact.value, fact.source);
        if let Some(at) = &fact.at {
            value.push_str(", ");
            value.push_str(&when::ago(at, now));
        }
        value.push(')');
        facts.add(&fact.fact, &value);
    }
    if why.receipts_open > 0 {
        facts.add(
            "messages",
            &format!("{} not delivered yet", text::number(why.receipts_open)),
        );
    }
    window(&why.session, &mut facts);
    facts.optional("note", why.session.note.as_deref());
    // If a rule matches, the activity names it, and the other rules explain nothing.
    if let Some(screen) = why.screen.as_ref().filter(|screen| screen.rule.is_none()) {
        explain(&mut facts, screen);
    }
    facts.finish()
}

/// What the rules of an agent make of its screen.
pub(crate) fn screen_explanation(
    explanation: &ScreenExplanation,
    width: Option<usize>,
    paint: Paint,
) -> String {
    let mut facts = Facts::new(width, paint);
    let reading = match (&explanation.activity, &explanation.rule) {
        (Some(activity), Some(rule)) => format!("{activity} (rule `{rule}`)"),
        _ if explanation.rules.is_empty() => "nothing: this agent has no rules".to_owned(),
        _ => "nothing: no rule matches".to_owned(),
    };
    facts.add("says", &reading);
    explain(&mut facts, explanation);
    facts.finish()
}

fn explain(facts: &mut Facts, explanation: &ScreenExplanation) {
    let input_box = match explanation.input_box.as_str() {
        "empty" => "empty",
        "holds" => "holds text that was not sent",
        "unseen" => "not on the screen; Skein types nothing",
        _ => "unknown: no rule says where it is",
    };
    facts.add("box", input_box);
    for trial in &explanation.rules {
        let decides = explanation.rule.as_deref() == Some(trial.rule.as_str());
        let verdict = match (trial.fits, decides) {
            (true, true) => "matches and decides",
            (true, false) => "matches",
            (false, _) => "does not match",
        };
        let rows = match (trial.first_row, trial.last_row) {
            (Some(first), Some(last)) if first == last => format!("row {first}"),
            (Some(first), Some(last)) => format!("rows {first} to {last}"),
            _ => "no row".to_owned(),
        };
        let (name, says, region) = (&trial.rule, &trial.says, &trial.region);
        facts.add(
            "tried",
            &format!("`{name}` ({says}) in {region}, {rows}: {verdict}"),
        );
        for miss in &trial.misses {
            facts.add("", &missed(miss));
        }
    }
}

/// Why a condition of a rule is not met.
fn missed(miss: &RuleMiss) -> String {
    let (condition, pattern) = (&miss.condition, &miss.pattern);
    match (miss.row, miss.text.as_deref(), miss.part.as_deref()) {
        (Some(row), Some(text), _) if condition == "not" => {
            format!("{condition} `{pattern}`: row {row} contains it: `{text}`")
        }
        (Some(row), Some(text), Some(part)) => {
            format!(
                "{condition} `{pattern}`: nearest is row {row}, `{text}`, which matches `{part}`"
            )
        }
        _ => format!("{condition} `{pattern}`: no row is near"),
    }
}

/// A receipt, step by step.
pub(crate) fn receipt(receipt: &Receipt, width: Option<usize>, paint: Paint) -> String {
    let now = when::now();
    let mut facts = Facts::new(width, paint);
    facts.styled("receipt", &receipt.id, BOLD);
    facts.add("session", &receipt.session);
    facts.add("state", &receipt.state);
    facts.optional("note", receipt.note.as_deref());
    facts.optional("key", receipt.key.as_deref());
    for step in &receipt.history {
        let value = format!("{} {}", step.state, when::ago(&step.at, now));
        facts.add("was", &value);
    }
    facts.finish()
}

pub(crate) fn gc(items: &[GcItem]) -> Table {
    let mut table = Table::new("WHAT ID ACTION ~REASON ~PATH");
    for item in items {
        table.row(vec![
            Cell::new(&item.what),
            Cell::styled(&item.id, BOLD),
            Cell::styled(&item.action, action_style(&item.action)),
            Cell::new(&item.reason),
            Cell::styled(item.path.as_deref().unwrap_or("–"), DIM),
        ]);
    }
    table
}

fn action_style(action: &str) -> anstyle::Style {
    match action {
        "kept" | "keep" | "skipped" => DIM,
        "failed" => YELLOW,
        _ => GREEN,
    }
}

/// What to do to make an agent of the list work, one line each.
pub(crate) fn agent_notes(agents: &[Agent]) -> Vec<String> {
    let mut notes = vec![];
    for agent in agents {
        let name = text::line(&agent.name);
        if let (Some(_), Some(install)) = (&agent.missing, &agent.install) {
            notes.push(format!("{name}: `{}` installs it", text::line(install)));
        }
        if let (true, Some(false), Some(tested)) = (agent.found, agent.is_tested, &agent.tested) {
            notes.push(format!("{name}: tested with {}", text::line(tested)));
        }
        if let (true, Some(false), Some(login)) = (agent.found, agent.logged_in, &agent.login) {
            notes.push(format!("{name}: `{}` logs in", text::line(login)));
        }
    }
    notes
}

fn version(agent: &Agent) -> Cell {
    let shown = agent.version.as_deref().unwrap_or("–");
    match agent.is_tested {
        Some(false) => Cell::styled(&format!("{shown} (untested)"), YELLOW),
        _ => Cell::new(shown),
    }
}

pub(crate) fn agents(agents: &[Agent]) -> Table {
    let mut table = Table::new("AGENT STATE VERSION LOGIN >MEMORY TASK_BY ~CAN");
    for agent in agents {
        let (state, style) = match (agent.found, agent.default) {
            (true, true) => ("default".to_owned(), GREEN),
            (true, false) if agent.built_in => ("built in".to_owned(), GREEN),
            (true, false) => ("found".to_owned(), GREEN),
            (false, _) => (
                agent
                    .missing
                    .clone()
                    .unwrap_or_else(|| "missing".to_owned()),
                YELLOW,
            ),
        };
        let can = &agent.abilities;
        let abilities: Vec<&str> = [
            (can.resume, "resume"),
            (can.hooks, "hooks"),
            (can.screens, "screens"),
            (can.files, "files"),
            (can.usage, "usage"),
        ]
        .into_iter()
        .filter_map(|(can, word)| can.then_some(word))
        .chain(can.protocols.iter().map(String::as_str))
        .collect();
        table.row(vec![
            Cell::styled(&agent.name, BOLD),
            Cell::styled(&state, style),
            version(agent),
            Cell::new(match agent.logged_in {
                Some(true) => "yes",
                Some(false) => "no",
                None => "–",
            }),
            Cell::from(format!("{} MB", text::number(agent.memory_mb))),
            Cell::new(&can.prompt.join(", ")),
            Cell::new(&abilities.join(", ")),
        ]);
    }
    table
}
