//! Sessions: in a table, in a line, in full, and as a tree.

use std::fmt::Write as _;

use anstyle::Style;
use skein_wire::{Project, Session, Thread, Tree, TreeNode};

use super::facts::Facts;
use crate::command::kill::way_back;
use crate::output::{BLUE, BOLD, CYAN, DIM, GREEN, Paint, RED, YELLOW};
use crate::table::{Cell, Table};
use crate::text::{self, line};
use crate::when;

pub(crate) fn sessions(sessions: &[Session]) -> Table {
    let now = when::now();
    let mut table =
        Table::new("SESSION STATUS AGENT OWNER PARENT >TOKENS ACTIVE BRANCH ~TASK ~WHY")
            .spare(&["PARENT", "TOKENS", "OWNER", "BRANCH", "ACTIVE", "AGENT"]);
    for session in sessions {
        let branch = session.workspace.branch.as_deref();
        table.row(vec![
            Cell::styled(&session.id, BOLD),
            Cell::styled(&session.status, status_style(&session.status)),
            Cell::new(&session.agent),
            Cell::new(&session.owner),
            Cell::styled(session.parent.as_deref().unwrap_or("–"), DIM),
            Cell::from(text::number(used(session))),
            Cell::from(when::ago(&session.last_activity_at, now)),
            Cell::styled(branch.unwrap_or("–"), DIM),
            Cell::new(&text::first_line(&session.display_name)),
            Cell::styled(&text::first_line(&session.status_reason), DIM),
        ]);
    }
    table
}

/// Id, status, owner and task in one line.
pub(crate) fn session_line(session: &Session, paint: Paint) -> String {
    format!(
        "{}  {}  {}  {}",
        paint.apply(BOLD, &line(&session.id)),
        paint.apply(status_style(&session.status), &line(&session.status)),
        paint.apply(BLUE, &line(&session.owner)),
        line(&text::first_line(&session.display_name))
    )
}

/// Records that a session names by id.
#[derive(Debug, Default)]
pub(crate) struct RelatedNames {
    pub(crate) project: Option<Project>,
    pub(crate) thread: Option<Thread>,
}

pub(crate) fn session(
    session: &Session,
    around: &RelatedNames,
    width: Option<usize>,
    paint: Paint,
) -> String {
    let now = when::now();
    let mut facts = Facts::new(width, paint);
    facts.styled("session", &session.id, BOLD);
    facts.add("task", &text::first_line(&session.display_name));
    facts.styled("status", &session.status, status_style(&session.status));
    facts.add("because", &session.status_reason);
    if session.phase != session.status {
        facts.add("phase", &session.phase);
    }
    if let Some(question) = &session.question {
        facts.styled("asks", &question.text, YELLOW);
        for option in &question.options {
            facts.add("", &format!("- {option}"));
        }
    }
    facts.add(
        "owner",
        &format!("{} (version {})", session.owner, session.owner_version),
    );
    if !session.previous_owners.is_empty() {
        facts.add("before", &session.previous_owners.join(", "));
    }
    let named = |name: Option<&String>, id: &str| match name {
        Some(name) => format!("{name} ({id})"),
        None => id.to_owned(),
    };
    let project = around.project.as_ref().map(|project| &project.name);
    facts.add("project", &named(project, &session.project));
    let thread = around.thread.as_ref().map(|thread| &thread.title);
    facts.add("thread", &named(thread, &session.thread));
    facts.optional("parent", session.parent.as_deref());
    facts.add("agent", &session.agent);
    facts.optional("native id", session.native.as_deref());
    gear(session, &mut facts);
    facts.add("run", &session.run.to_string());
    facts.add(
        "used",
        &format!(
            "{} tokens in, {} out, {}",
            text::number(session.usage.input_tokens),
            text::number(session.usage.output_tokens),
            text::dollars(session.usage.cost_usd)
        ),
    );
    facts.optional("budget", budget(session).as_deref());
    facts.optional("broadcast", session.broadcast.as_deref());
    for merge in &session.merges {
        facts.add(
            "merged",
            &format!("{} {}", merge.child, when::ago(&merge.at, now)),
        );
    }
    if let Some(from) = &session.forked_from {
        let at = from.message.as_deref();
        let at = at.map_or_else(String::new, |message| format!(" at {message}"));
        facts.add("fork of", &format!("{}{at}", from.session));
    }
    if let Some(transcript) = session.transcript.as_ref().filter(|t| t.messages > 0) {
        let tier = transcript.tier.as_deref().unwrap_or("hot");
        let messages = match transcript.messages {
            1 => "1 message".to_owned(),
            n => format!("{} messages", text::number(n)),
        };
        facts.add("said", &format!("{messages}, {tier}"));
    }
    if session.summary.is_some() {
        facts.add("summary", &format!("`skein summary show {}`", session.id));
    }
    facts.add("made", &when::ago(&session.created_at, now));
    facts.add("active", &when::ago(&session.last_activity_at, now));
    if let Some(task) = session
        .task
        .as_deref()
        .filter(|task| task.trim() != session.display_name.trim())
    {
        facts.block("text", task);
    }
    facts.finish()
}

/// The parts of a session that only exist with an agent.
fn gear(session: &Session, facts: &mut Facts) {
    let now = when::now();
    if let Some(saga) = &session.saga {
        let mut value = saga.kind.clone();
        if let Some(step) = &saga.step {
            value.push_str(&format!(", step {step}"));
        }
        if let Some(place) = saga.place {
            value.push_str(&format!(", place {place} in the queue"));
        }
        if let Some(why) = &saga.why {
            value.push_str(&format!(": {why}"));
        }
        facts.styled("under way", &value, YELLOW);
    }
    let runtime = &session.runtime;
    if runtime.kind != "none" {
        let pid = runtime
            .pid
            .map_or_else(String::new, |pid| format!(" (pid {pid})"));
        facts.add(
            "runtime",
            &format!("{}, {}{pid}", runtime.kind, runtime.state),
        );
    }
    window(session, facts);
    let workspace = &session.workspace;
    if workspace.kind != "none" {
        let state = workspace.state.as_deref().unwrap_or("ready");
        let dirty = match workspace.dirty {
            Some(true) => ", with uncommitted changes",
            Some(false) | None => "",
        };
        facts.add("workspace", &format!("{}, {state}{dirty}", workspace.kind));
        facts.optional("folder", workspace.path.as_deref());
        facts.optional("branch", workspace.branch.as_deref());
    }
    for backup in &workspace.backups {
        facts.add(
            "backup",
            &format!("{} {}", backup.name, when::ago(&backup.at, now)),
        );
    }
    if let Some(newest) = workspace.backups.last()
        && let Some(command) = way_back(session, newest)
    {
        facts.add("get back", &format!("`{command}`"));
    }
    if session.queued > 0 {
        facts.add(
            "messages",
            &format!("{} wait", text::number(session.queued)),
        );
    }
    if let Some(note) = &session.note {
        facts.styled("note", note, YELLOW);
    }
}

/// How to show its tmux window, or why there is none.
pub(super) fn window(session: &Session, facts: &mut Facts) {
    let Some(window) = &session.runtime.window else {
        return;
    };
    match &window.problem {
        None => facts.add("window", &format!("`{}`", window.command)),
        Some(problem) => facts.styled("window", problem, YELLOW),
    }
}

/// The tokens that a session used.
pub(crate) fn used(session: &Session) -> u64 {
    session
        .usage
        .input_tokens
        .saturating_add(session.usage.output_tokens)
}

/// The use of a budget, in parts that add up to it.
fn budget(session: &Session) -> Option<String> {
    let rest = match (session.phase.as_str(), &session.parent) {
        ("ended" | "archived", Some(_)) => "returned",
        ("ended" | "archived", None) => "not used",
        _ => "left",
    };
    let tokens = &session.budget.tokens;
    let cost = &session.budget.cost;
    // In hundredths of a cent, so that one function serves tokens and money.
    let small = |usd: f64| (usd * 10_000.0).round() as u64;
    let parts = [
        tokens.limit.map(|limit| {
            let parts = [tokens.spent, tokens.children, tokens.reserved];
            account(limit, parts, rest, " tokens", text::number)
        }),
        cost.limit.map(|limit| {
            let parts = [cost.spent, cost.children, cost.reserved].map(small);
            account(small(limit), parts, rest, "", |n| {
                text::dollars(n as f64 / 10_000.0)
            })
        }),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn account(
    limit: u64,
    [spent, children, reserved]: [u64; 3],
    rest: &str,
    unit: &str,
    show: impl Fn(u64) -> String,
) -> String {
    let mut out = format!("{}{unit}: {} spent", show(limit), show(spent));
    if children > 0 {
        let _ = write!(out, ", {} spent by ended children", show(children));
    }
    if reserved > 0 {
        let _ = write!(out, ", {} reserved for children", show(reserved));
    }
    let used = spent.saturating_add(children).saturating_add(reserved);
    let _ = match limit.checked_sub(used) {
        Some(left) => write!(out, ", {} {rest}", show(left)),
        None => write!(out, ", {} too much", show(used - limit)),
    };
    out
}

/// By how much a session has exceeded its budget.
pub(crate) fn overspent(session: &Session) -> Option<String> {
    let tokens = &session.budget.tokens;
    let cost = &session.budget.cost;
    let used = tokens
        .spent
        .saturating_add(tokens.children)
        .saturating_add(tokens.reserved);
    let over = [
        tokens
            .limit
            .and_then(|limit| used.checked_sub(limit))
            .filter(|over| *over > 0)
            .map(|over| format!("{} tokens", text::number(over))),
        cost.limit
            .map(|limit| cost.spent + cost.children + cost.reserved - limit)
            .filter(|over| *over > 0.000_05)
            .map(text::dollars),
    ];
    let over: Vec<String> = over.into_iter().flatten().collect();
    (!over.is_empty()).then(|| over.join(" and "))
}

/// Ancestors, the session and everything below it, in a table whose first column is the tree.
pub(crate) fn tree(tree: &Tree) -> Table {
    let mut table = Table::new("SESSION STATUS OWNER >TOKENS ~TASK");
    let mut above: Option<&Session> = None;
    for (n, ancestor) in tree.ancestors.iter().enumerate() {
        branch(&stem(n), ancestor, above, &mut table);
        above = Some(ancestor);
    }
    let depth = tree.ancestors.len();
    branch(&stem(depth), &tree.root.session, above, &mut table);
    children(&tree.root, &"   ".repeat(depth), &mut table);
    table
}

fn stem(depth: usize) -> String {
    match depth {
        0 => String::new(),
        n => format!("{}└─ ", "   ".repeat(n - 1)),
    }
}

fn children(node: &TreeNode, indent: &str, table: &mut Table) {
    for (n, child) in node.children.iter().enumerate() {
        let last = n + 1 == node.children.len();
        let (lead, below) = if last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        let lead = format!("{indent}{lead}");
        branch(&lead, &child.session, Some(&node.session), table);
        children(child, &format!("{indent}{below}"), table);
    }
}

fn branch(lead: &str, session: &Session, parent: Option<&Session>, table: &mut Table) {
    let merged =
        parent.is_some_and(|parent| parent.merges.iter().any(|merge| merge.child == session.id));
    let status = if merged {
        format!("{}, merged", session.status)
    } else {
        session.status.clone()
    };
    table.row(vec![
        Cell::styled(&session.id, BOLD).after(lead),
        Cell::styled(&status, status_style(&session.status)),
        Cell::styled(&session.owner, BLUE),
        Cell::styled(&text::number(used(session)), DIM),
        Cell::new(&text::first_line(&session.display_name)),
    ]);
}

pub(crate) fn status_style(status: &str) -> Style {
    match status {
        "working" | "spawning" => GREEN,
        "needs_input" | "awaiting_merge" | "locked" | "detecting" | "no_signal" => YELLOW,
        "blocked" | "stuck" | "failed" | "killed" | "lost" | "damaged" => RED,
        "idle" => CYAN,
        "done" | "archived" => DIM,
        _ => Style::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_budget_add_up() {
        let show = |n: u64| text::number(n);
        assert_eq!(
            account(1000, [100, 200, 300], "left", " tokens", show),
            "1,000 tokens: 100 spent, 200 spent by ended children, 300 reserved for children, 400 left"
        );
        assert_eq!(
            account(1000, [1500, 0, 0], "returned", " tokens", show),
            "1,000 tokens: 1,500 spent, 500 too much"
        );
    }
}
