//! Sessions: in a table, in a line, in full, and as a tree.

use std::fmt::Write as _;

use anstyle::Style;
use skein_wire::{Account, Session, Tree, TreeNode};

use super::facts::Facts;
use crate::output::{BLUE, BOLD, CYAN, DIM, GREEN, Paint, RED, YELLOW};
use crate::table::{Align, Cell, Table};
use crate::text::{self, line};
use crate::when;

pub(crate) fn sessions(sessions: &[Session]) -> Table {
    let now = when::now();
    let mut table = Table::new(&[
        ("SESSION", Align::Left),
        ("STATUS", Align::Left),
        ("OWNER", Align::Left),
        ("PARENT", Align::Left),
        ("TOKENS", Align::Right),
        ("ACTIVE", Align::Left),
        ("TASK", Align::Flex),
    ]);
    for session in sessions {
        table.row(vec![
            Cell::styled(&session.id, BOLD),
            Cell::styled(&session.status, status_style(&session.status)),
            Cell::new(&session.owner),
            Cell::styled(session.parent.as_deref().unwrap_or("–"), DIM),
            Cell::from(text::number(used(session))),
            Cell::from(when::ago(&session.last_activity_at, now)),
            Cell::new(&session.display_name),
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
        line(&session.display_name)
    )
}

pub(crate) fn session(session: &Session, paint: Paint) -> String {
    let now = when::now();
    let mut facts = Facts::new(paint);
    facts.styled("session", &session.id, BOLD);
    facts.add("task", &session.display_name);
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
    facts.add("project", &session.project);
    facts.add("thread", &session.thread);
    facts.optional("parent", session.parent.as_deref());
    facts.add("agent", &session.agent);
    if session.workspace.kind != "none" {
        facts.add("workspace", &session.workspace.kind);
        facts.optional("folder", session.workspace.path.as_deref());
        facts.optional("branch", session.workspace.branch.as_deref());
    }
    facts.add("run", &session.run.to_string());
    facts.add(
        "used",
        &format!(
            "{} tokens in, {} out, ${:.2}",
            text::number(session.usage.input_tokens),
            text::number(session.usage.output_tokens),
            session.usage.cost_usd
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
    if session.summary.is_some() {
        facts.add("summary", &format!("`skein summary show {}`", session.id));
    }
    facts.add("made", &when::ago(&session.created_at, now));
    facts.add("active", &when::ago(&session.last_activity_at, now));
    if session.task.trim() != session.display_name.trim() {
        facts.block("text", &session.task);
    }
    facts.finish()
}

fn used(session: &Session) -> u64 {
    session
        .usage
        .input_tokens
        .saturating_add(session.usage.output_tokens)
}

fn budget(session: &Session) -> Option<String> {
    let tokens = account(&session.budget.tokens, |n| {
        format!("{} tokens", text::number(n as u64))
    });
    let cost = account(&session.budget.cost, |n| format!("${n:.2}"));
    match (tokens, cost) {
        (None, None) => None,
        (one, None) | (None, one) => one,
        (Some(tokens), Some(cost)) => Some(format!("{tokens}; {cost}")),
    }
}

fn account(account: &Account, show: impl Fn(f64) -> String) -> Option<String> {
    let limit = account.limit?;
    let mut out = format!(
        "{} left of {}",
        show(account.available.unwrap_or(0.0)),
        show(limit)
    );
    if account.reserved > 0.0 {
        let _ = write!(out, ", {} set aside for children", show(account.reserved));
    }
    Some(out)
}

pub(crate) fn tree(tree: &Tree, width: Option<usize>, paint: Paint) -> String {
    let mut out = String::new();
    for (n, ancestor) in tree.ancestors.iter().enumerate() {
        let lead = if n == 0 {
            String::new()
        } else {
            format!("{}└─ ", "   ".repeat(n - 1))
        };
        branch(&lead, ancestor, width, paint, &mut out);
    }
    let depth = tree.ancestors.len();
    let (lead, below) = match depth {
        0 => (String::new(), String::new()),
        _ => (
            format!("{}└─ ", "   ".repeat(depth - 1)),
            "   ".repeat(depth),
        ),
    };
    branch(&lead, &tree.root.session, width, paint, &mut out);
    children(&tree.root, &below, width, paint, &mut out);
    out
}

fn children(node: &TreeNode, indent: &str, width: Option<usize>, paint: Paint, out: &mut String) {
    for (n, child) in node.children.iter().enumerate() {
        let last = n + 1 == node.children.len();
        let (lead, below) = if last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        branch(
            &format!("{indent}{lead}"),
            &child.session,
            width,
            paint,
            out,
        );
        children(child, &format!("{indent}{below}"), width, paint, out);
    }
}

fn branch(lead: &str, session: &Session, width: Option<usize>, paint: Paint, out: &mut String) {
    let id = line(&session.id);
    let status = line(&session.status);
    let owner = line(&session.owner);
    let used = match used(session) {
        0 => String::new(),
        n => format!(" {} tokens", text::number(n)),
    };
    let taken = text::width(lead) + id.len() + status.len() + owner.len() + used.len() + 6;
    let task = line(&session.display_name);
    let task = width.map_or(task.clone(), |width| {
        text::fit(&task, width.saturating_sub(taken).max(8))
    });
    let _ = writeln!(
        out,
        "{}{}  {}  {}{}  {}",
        paint.apply(DIM, lead),
        paint.apply(BOLD, &id),
        paint.apply(status_style(&session.status), &status),
        paint.apply(BLUE, &owner),
        paint.apply(DIM, &used),
        task
    );
}

fn status_style(status: &str) -> Style {
    match status {
        "working" | "spawning" => GREEN,
        "needs_input" | "awaiting_merge" | "locked" | "detecting" | "no_signal" => YELLOW,
        "blocked" | "stuck" | "failed" | "killed" | "lost" => RED,
        "idle" => CYAN,
        "done" | "archived" => DIM,
        _ => Style::new(),
    }
}
