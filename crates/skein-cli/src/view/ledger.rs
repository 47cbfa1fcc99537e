//! Projects, threads, tokens, summaries and the daemon itself.

use anstyle::Style;
use skein_wire::{DaemonStatus, Deliverable, Project, Summary, Thread, Token};

use super::facts::Facts;
use crate::duration::Seconds;
use crate::output::{BOLD, DIM, GREEN, Paint, RED, YELLOW};
use crate::table::{Cell, Table};
use crate::text::{self, line};
use crate::when;

pub(crate) fn projects(projects: &[Project]) -> Table {
    let mut table = Table::new("PROJECT ~NAME PREFIX >DEPTH >WIDTH ~FOLDER");
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
        "{}{place} ({}; its sessions are {prefix}-1, {prefix}-2, …)",
        paint.apply(BOLD, &line(&project.name)),
        line(&project.id),
        prefix = line(&project.prefix),
    )
}

pub(crate) fn project(project: &Project, width: Option<usize>, paint: Paint) -> String {
    let mut facts = Facts::new(width, paint);
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
        facts.add("archive", &format!("sessions idle for {}", Seconds(ttl)));
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
    let mut table = Table::new("THREAD STATE CHANGED ~TITLE");
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

pub(crate) fn thread(thread: &Thread, width: Option<usize>, paint: Paint) -> String {
    let now = when::now();
    let mut facts = Facts::new(width, paint);
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
    let mut table = Table::new("TOKEN ~NAME ROLE RIGHTS STATE EXPIRES ~ACTOR");
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
            Cell::from(match token.allow.is_empty() {
                true => "–".to_owned(),
                false => token.allow.join(", "),
            }),
            Cell::styled(state, style),
            Cell::from(expires),
            Cell::new(token.actor.as_deref().unwrap_or("–")),
        ]);
    }
    table
}

pub(crate) fn summary(summary: &Summary, width: Option<usize>, paint: Paint) -> String {
    let mut facts = Facts::new(width, paint);
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

pub(crate) fn daemon(status: &DaemonStatus, width: Option<usize>, paint: Paint) -> String {
    let mut facts = Facts::new(width, paint);
    facts.styled("daemon", "running", GREEN);
    facts.add("pid", &status.pid.to_string());
    facts.add("version", &status.version);
    facts.add("uptime", &when::span(status.uptime_s));
    facts.add("sessions", &format!("{} live", status.sessions));
    facts.add("socket", &status.socket);
    facts.optional("listen", status.listen.as_deref());
    facts.finish()
}

fn state_style(state: &str) -> Style {
    if state == "open" { GREEN } else { DIM }
}
