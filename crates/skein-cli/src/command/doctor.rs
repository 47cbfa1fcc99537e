//! `skein doctor`

mod check;

use clap::Args;
use serde::Serialize;

use crate::context::Context;
use crate::error::UserError;
use crate::output::{DIM, GREEN, Paint, RED, YELLOW};
use crate::text;

/// Check the machine, the home and the daemon, and say how to fix what is wrong
///
/// Works with and without a daemon, and starts none. To check whether it can, it makes a file in the home and a cgroup,
/// and removes both; it changes nothing else. It runs git, tmux and the agents' programs to get their versions. Exits
/// with 1 if there is a problem.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    Warning,
    Problem,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    state: State,
    message: String,
    /// How to fix it.
    fix: Option<String>,
}

/// What a check is about.
#[derive(Clone, Copy, Debug)]
struct Check(&'static str);

impl Check {
    fn ok(self, message: impl Into<String>) -> Finding {
        self.found(State::Ok, message.into(), None)
    }

    fn warning(self, message: impl Into<String>, fix: impl Into<String>) -> Finding {
        self.found(State::Warning, message.into(), Some(fix.into()))
    }

    fn problem(self, message: impl Into<String>, fix: impl Into<String>) -> Finding {
        self.found(State::Problem, message.into(), Some(fix.into()))
    }

    fn found(self, state: State, message: String, fix: Option<String>) -> Finding {
        Finding {
            check: self.0,
            state,
            message,
            fix,
        }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    ok: bool,
    findings: Vec<Finding>,
}

pub(crate) async fn run(context: &Context, _args: DoctorArgs) -> Result<(), UserError> {
    let mut findings = vec![check::git(), check::tmux()];
    findings.extend(check::agents(context));
    findings.push(check::settings(context));
    findings.extend(check::home(&context.home));
    findings.push(check::socket(&context.home));
    findings.extend(check::database(&context.home));
    findings.extend(check::transcripts(&context.home));
    findings.extend(check::home_files(&context.home));
    let daemon = check::daemon(context).await;
    let answers = daemon.state != State::Problem;
    findings.push(daemon);
    if answers {
        findings.extend(check::events(context).await);
    }
    findings.extend(check::process_control(context));
    findings.push(check::clock(&context.home));
    let problems = findings
        .iter()
        .filter(|finding| finding.state == State::Problem)
        .count();
    let report = Report {
        ok: problems == 0,
        findings,
    };
    context
        .out
        .show(&report, |paint| render(&report, context.out.width(), paint))?;
    match problems {
        0 => Ok(()),
        n => Err(UserError::failed(format!(
            "{} found",
            text::count(n, "problem")
        ))),
    }
}

fn render(report: &Report, width: Option<usize>, paint: Paint) -> String {
    let mut out = String::new();
    for finding in &report.findings {
        let (word, style) = match finding.state {
            State::Ok => ("ok", GREEN),
            State::Warning => ("warning", YELLOW),
            State::Problem => ("problem", RED),
        };
        out.push_str(&format!(
            "{}  {:<8}  {}\n",
            paint.apply(style, &format!("{word:<7}")),
            finding.check,
            text::hanging(&finding.message, width, 19)
        ));
        if let Some(fix) = &finding.fix {
            out.push_str(&format!(
                "{:19}{} {}\n",
                "",
                paint.apply(DIM, "fix:"),
                text::hanging(fix, width, 24)
            ));
        }
    }
    out
}
