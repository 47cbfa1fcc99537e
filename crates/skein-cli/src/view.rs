//! How things look to people. Everything from the daemon is cleaned on its way through `text`.

use std::fmt::Write as _;

use anstyle::Style;
use serde_json::Value;
use skein_wire::{
    Account, DaemonStatus, Deliverable, Event, Project, Session, Summary, Thread, Token, Tree,
    TreeNode,
};

use crate::duration::Seconds;
use crate::output::{BLUE, BOLD, CYAN, DIM, GREEN, Output, Paint, RED, YELLOW};
use crate::table::{Align, Cell, Table};
use crate::text::{self, line};
use crate::when;

/// Tells on stderr that a list goes on.
pub(crate) fn more(out: &Output, next: Option<&str>) {
    if let Some(next) = next {
        out.note(&format!("there are more; `--cursor {next}` goes on"));
    }
}

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

pub(crate) fn projects(projects: &[Project]) -> Table {
    let mut table = Table::new(&[
        ("PROJECT", Align::Left),
        ("NAME", Align::Left),
        ("PREFIX", Align::Left),
        ("DEPTH", Align::Right),
        ("WIDTH", Align::Right),
        ("FOLDER", Align::Flex),
    ]);
    for project in projects {
        table.row(vec![
            Cell::styled(&project.id, DIM),
            Cell::styled(&project.name, BOLD),
            Cell::new(&project.prefix),
            Cell::from(project.limits.depth.to_string()),
            Cell::from(project.limits.width.to_string()),
            Cell::new(project.path.as_deref().unwrap_or("–")),
        ]);
    }
    table
}

pub(crate) fn project_line(project: &Project, paint: Paint) -> String {
    let place = project
        .path
        .as_deref()
        .map_or_else(String::new, |path| format!(" at {}", line(path)));
    format!(
        "{}{place} ({})",
        paint.apply(BOLD, &line(&project.name)),
        line(&project.id)
    )
}

pub(crate) fn project(project: &Project, paint: Paint) -> String {
    let mut facts = Facts::new(paint);
    facts.styled("project", &project.name, BOLD);
    facts.add("id", &project.id);
    facts.optional("folder", project.path.as_deref());
    facts.add("prefix", &project.prefix);
    facts.add(
        "limits",
        &format!(
            "depth {}, width {}",
            project.limits.depth, project.limits.width
        ),
    );
    if let Some(ttl) = project.retention.idle_ttl_seconds {
        facts.add("archive", &format!("what was idle for {}", Seconds(ttl)));
    }
    if let Some(most) = project.retention.max_ended {
        facts.add("archive", &format!("ended sessions beyond {most}"));
    }
    facts.add("version", &project.version.to_string());
    facts.add("made", &when::ago(&project.created_at, when::now()));
    facts.finish()
}

pub(crate) fn threads(threads: &[Thread]) -> Table {
    let now = when::now();
    let mut table = Table::new(&[
        ("THREAD", Align::Left),
        ("STATE", Align::Left),
        ("CHANGED", Align::Left),
        ("TITLE", Align::Flex),
    ]);
    for thread in threads {
        table.row(vec![
            Cell::styled(&thread.id, BOLD),
            Cell::styled(&thread.state, state_style(&thread.state)),
            Cell::from(when::ago(&thread.updated_at, now)),
            Cell::new(&thread.title),
        ]);
    }
    table
}

pub(crate) fn thread_line(thread: &Thread, paint: Paint) -> String {
    format!(
        "{}  {}",
        paint.apply(BOLD, &line(&thread.id)),
        line(&thread.title)
    )
}

pub(crate) fn thread(thread: &Thread, paint: Paint) -> String {
    let now = when::now();
    let mut facts = Facts::new(paint);
    facts.styled("thread", &thread.id, BOLD);
    facts.add("title", &thread.title);
    facts.styled("state", &thread.state, state_style(&thread.state));
    facts.add("project", &thread.project);
    facts.add("made", &when::ago(&thread.created_at, now));
    if let Some(at) = &thread.archived_at {
        facts.add("archived", &when::ago(at, now));
    }
    facts.finish()
}

fn token_state(token: &Token) -> (&'static str, Style) {
    let expired = token
        .expires_at
        .as_deref()
        .and_then(|at| at.parse::<jiff::Timestamp>().ok())
        .is_some_and(|at| at <= when::now());
    match (&token.revoked_at, expired) {
        (Some(_), _) => ("revoked", DIM),
        (None, true) => ("expired", DIM),
        (None, false) => ("valid", GREEN),
    }
}

pub(crate) fn tokens(tokens: &[Token]) -> Table {
    let now = when::now();
    let mut table = Table::new(&[
        ("TOKEN", Align::Left),
        ("NAME", Align::Left),
        ("ROLE", Align::Left),
        ("STATE", Align::Left),
        ("EXPIRES", Align::Left),
        ("ACTOR", Align::Left),
    ]);
    for token in tokens {
        let (state, style) = token_state(token);
        let expires = token
            .expires_at
            .as_deref()
            .map_or_else(|| "never".to_owned(), |at| when::ago(at, now));
        table.row(vec![
            Cell::new(&token.id),
            Cell::styled(&token.name, BOLD),
            Cell::new(&token.role),
            Cell::styled(state, style),
            Cell::from(expires),
            Cell::new(token.actor.as_deref().unwrap_or("–")),
        ]);
    }
    table
}

pub(crate) fn summary(summary: &Summary, paint: Paint) -> String {
    let mut facts = Facts::new(paint);
    facts.styled("session", &summary.session, BOLD);
    let style = match summary.outcome.as_str() {
        "succeeded" => GREEN,
        "failed" => RED,
        _ => YELLOW,
    };
    facts.styled("outcome", &summary.outcome, style);
    for decision in &summary.key_decisions {
        facts.add("decided", decision);
    }
    for deliverable in &summary.deliverables {
        facts.add("left", &deliverable_line(deliverable));
    }
    facts.optional("based on", summary.based_on.as_deref());
    facts.add("written", &when::ago(&summary.at, when::now()));
    facts.block("text", &summary.text);
    facts.finish()
}

fn deliverable_line(deliverable: &Deliverable) -> String {
    match deliverable {
        Deliverable::File { path, size, .. } => match size {
            Some(size) => format!("file {path} ({} bytes)", text::number(*size)),
            None => format!("file {path}"),
        },
        Deliverable::Message { session, message } => format!("message {message} of {session}"),
        Deliverable::Summary { session } => format!("summary of {session}"),
        Deliverable::Blob { reference, .. } => format!("blob {reference}"),
    }
}

pub(crate) fn daemon(status: &DaemonStatus, paint: Paint) -> String {
    let mut facts = Facts::new(paint);
    facts.styled("daemon", "running", GREEN);
    facts.add("pid", &status.pid.to_string());
    facts.add("version", &status.version);
    facts.add("uptime", &when::span(status.uptime_s));
    facts.add("sessions", &format!("{} live", status.sessions));
    facts.add("socket", &status.socket);
    facts.optional("listen", status.listen.as_deref());
    facts.finish()
}

/// Number, age, kind, what it is about, who, and the facts, cut to the terminal.
pub(crate) fn event_line(event: &Event, width: Option<usize>, paint: Paint) -> String {
    let about = [&event.session, &event.thread, &event.project]
        .into_iter()
        .find_map(Option::as_deref)
        .unwrap_or("–");
    let number = format!("{:>5}", event.seq);
    let age = format!("{:<8}", when::ago(&event.at, when::now()));
    let kind = format!("{:<23}", line(&event.kind));
    let about = format!("{:<20}", line(about));
    let actor = format!("{:<12}", line(&event.actor));
    let facts = line(&compact(&event.data));
    let taken = [&number, &age, &kind, &about, &actor]
        .iter()
        .map(|part| text::width(part) + 2)
        .sum::<usize>();
    let facts = width.map_or(facts.clone(), |width| {
        text::fit(&facts, width.saturating_sub(taken))
    });
    format!(
        "{}  {}  {}  {}  {}  {}",
        paint.apply(DIM, &number),
        paint.apply(DIM, &age),
        paint.apply(kind_style(&event.kind), &kind),
        paint.apply(BOLD, &about),
        paint.apply(BLUE, &actor),
        paint.apply(DIM, &facts)
    )
    .trim_end()
    .to_owned()
}

/// `name=value name=value`, without braces and quotes where they say nothing.
fn compact(value: &Value) -> String {
    let Value::Object(map) = value else {
        return inner(value);
    };
    map.iter()
        .filter(|(_, value)| !says_nothing(value))
        .map(|(name, value)| format!("{name}={}", inner(value)))
        .collect::<Vec<_>>()
        .join(" ")
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(says_nothing),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn inner(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() && !text.contains(char::is_whitespace) => {
            text.clone()
        }
        Value::Null => String::new(),
        Value::Object(_) => format!("({})", compact(value)),
        other => other.to_string(),
    }
}

pub(crate) fn status_style(status: &str) -> Style {
    match status {
        "working" | "spawning" => GREEN,
        "needs_input" | "awaiting_merge" | "locked" | "detecting" | "no_signal" => YELLOW,
        "blocked" | "stuck" | "failed" | "killed" | "lost" => RED,
        "idle" => CYAN,
        "done" | "archived" => DIM,
        _ => Style::new(),
    }
}

fn state_style(state: &str) -> Style {
    if state == "open" { GREEN } else { DIM }
}

fn kind_style(kind: &str) -> Style {
    match kind.split('.').next() {
        Some("audit") => RED,
        Some("handoff" | "broadcast") => YELLOW,
        Some("session") => GREEN,
        _ => CYAN,
    }
}

/// Names and values, one per line, the names in a column.
struct Facts {
    paint: Paint,
    out: String,
}

impl Facts {
    const COLUMN: usize = 10;

    fn new(paint: Paint) -> Self {
        Self {
            paint,
            out: String::new(),
        }
    }

    fn add(&mut self, name: &str, value: &str) {
        self.styled(name, value, Style::new());
    }

    fn styled(&mut self, name: &str, value: &str, style: Style) {
        let name = format!("{name:<width$}", width = Self::COLUMN);
        let _ = writeln!(
            self.out,
            "{}{}",
            self.paint.apply(DIM, &name),
            self.paint.apply(style, &line(value))
        );
    }

    fn optional(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    /// A text of several lines, indented like the other values.
    fn block(&mut self, name: &str, value: &str) {
        for (n, part) in text::block(value).lines().enumerate() {
            self.add(if n == 0 { name } else { "" }, part);
        }
    }

    fn finish(self) -> String {
        self.out
    }
}
