//! `skein init`

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::Args;
use serde::Serialize;
use skein_agent::Registry;
use skein_wire::Project;

use super::adopt::git;
use crate::cli::KeyArgs;
use crate::context::{Context, current_folder};
use crate::error::UserError;
use crate::settings::{PROJECT_FILE, Settings};
use crate::text;
use crate::view;

/// Make a project of the current repository, and show what was found
///
/// Finds the repository, its default branch and the installed agents. Writes nothing into the repository unless
/// `--write` asks for a `skein.toml`, and never overwrites one.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Write a `skein.toml` in which every line is explained
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    key: KeyArgs,
}

#[derive(Debug, Serialize)]
struct Report {
    project: Project,
    /// Whether the project was made by this call.
    added: bool,
    repository: bool,
    default_branch: Option<String>,
    agents: Vec<String>,
    /// The settings file, if it exists.
    settings: Option<String>,
    wrote: bool,
}

pub(crate) async fn run(context: &Context, args: InitArgs) -> Result<(), UserError> {
    let here = current_folder()?;
    let top = work_tree(&here)?;
    if top.is_none()
        && git(&here, &["rev-parse", "--is-bare-repository"]).as_deref() == Some("true")
    {
        return Err(UserError::misuse(format!("`{here}` is a bare repository"))
            .hint("run `skein init` in a checkout: `git clone` one"));
    }
    let folder = top.clone().unwrap_or(here);
    let branch = top.as_deref().and_then(default_branch);
    let agents = installed(context);
    let file = Path::new(&folder).join(PROJECT_FILE);
    if args.write {
        // Fails before the project is added.
        write(&file, &template(branch.as_deref(), &agents))?;
    }
    let (project, added) = project(context, &folder, &args).await?;
    let report = Report {
        project,
        added,
        repository: top.is_some(),
        default_branch: branch,
        agents,
        settings: file.exists().then(|| file.display().to_string()),
        wrote: args.write,
    };
    context.out.show(&report, |paint| {
        let verb = if report.added { "added" } else { "found" };
        let mut out = format!(
            "{verb} project {}\n",
            view::project_line(&report.project, paint)
        );
        out.push_str(&match (&report.default_branch, report.repository) {
            (Some(branch), _) => {
                format!("sessions start from branch {}\n", text::line(branch))
            }
            (None, true) => {
                "the repository has no commit; agents need one to start from\n".to_owned()
            }
            (None, false) => {
                "this is not a git repository; agents work in the folder itself\n".to_owned()
            }
        });
        out.push_str(&found(&report.agents));
        if report.wrote {
            out.push_str(&format!("wrote {PROJECT_FILE}\n"));
        }
        out
    })?;
    if !report.wrote && report.settings.is_none() {
        context
            .out
            .note("`skein init --write` writes a commented skein.toml");
    }
    Ok(())
}

/// The installed agents, and how to start one.
fn found(agents: &[String]) -> String {
    let built_in = "`--agent scripted` is built in, to try things out";
    match agents {
        [] => format!(
            "no agent found in PATH (`skein agent ls` shows how to install one); `--command CMD` starts any \
             program, {built_in}\n"
        ),
        [first, ..] => format!(
            "found in PATH: {}; `--agent {first}` starts one, {built_in}\n",
            agents.join(", "),
        ),
    }
}

/// The project of exactly this folder, and whether it is new.
async fn project(
    context: &Context,
    folder: &str,
    args: &InitArgs,
) -> Result<(Project, bool), UserError> {
    let client = context.client().await?;
    let real = Path::new(folder)
        .canonicalize()
        .ok()
        .and_then(|path| path.to_str().map(str::to_owned));
    if let Some(found) = client.find_project_at(folder).await?
        && (found.path.as_deref() == Some(folder) || found.path == real)
    {
        return Ok((found, false));
    }
    let settings = Settings::load(&context.environment, Some(Path::new(folder)))?;
    let body = settings.new_project(Some(folder.to_owned()));
    let key = args.key.get();
    Ok((client.add_project(&body, &key).await?, true))
}

/// The top folder of the work tree around `folder`, if there is one.
fn work_tree(folder: &str) -> Result<Option<String>, UserError> {
    let output = Command::new("git")
        .args(["-C", folder, "rev-parse", "--show-toplevel"])
        // The messages below are not translated then.
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            UserError::unavailable("cannot run git")
                .caused_by(&error)
                .hint("install git; `skein doctor` checks it")
        })?;
    if output.status.success() {
        let top = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        return Ok(Some(top).filter(|top| !top.is_empty()));
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    // Also outside of a work tree: in a bare repository, or in a `.git` folder.
    let is_outside = ["not a git repository", "must be run in a work tree"];
    if is_outside.iter().any(|text| why.contains(text)) {
        return Ok(None);
    }
    let mut lines = why.lines().map(str::trim);
    let error = UserError::failed(format!("git cannot read the repository at `{folder}`"))
        .cause(lines.next().unwrap_or_default());
    Err(match lines.find(|line| line.starts_with("git ")) {
        Some(command) => error.hint(format!("git suggests `{command}`")),
        None => error,
    })
}

/// The remote's default branch, else the current branch.
fn default_branch(folder: &str) -> Option<String> {
    let remote = git(
        folder,
        &[
            "symbolic-ref",
            "--quiet",
            "--short",
            "refs/remotes/origin/HEAD",
        ],
    )
    .and_then(|name| name.strip_prefix("origin/").map(str::to_owned));
    remote
        .or_else(|| git(folder, &["branch", "--show-current"]))
        .filter(|name| !name.is_empty())
        .filter(|_| git(folder, &["rev-parse", "--verify", "--quiet", "HEAD"]).is_some())
}

/// Most popular first; the hint names the first installed one.
const USUAL: [&str; 5] = ["claude-code", "codex", "gemini", "opencode", "aider"];

/// The agents whose programs are in PATH.
fn installed(context: &Context) -> Vec<String> {
    let path = context.search_path().unwrap_or_default();
    let env = crate::env::for_agents();
    let mut found: Vec<String> = Registry::built_in()
        .list()
        .into_iter()
        .filter(|agent| {
            agent.known().profile.is_some() && agent.find(&path, &env).program.is_some()
        })
        .map(|agent| agent.name().to_string())
        .collect();
    found.sort_by_key(|name| USUAL.iter().position(|usual| usual == name));
    found
}

/// Creates the file; never overwrites one.
fn write(file: &Path, content: &str) -> Result<(), UserError> {
    let made = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(file)
        .and_then(|mut made| made.write_all(content.as_bytes()));
    match made {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(
            UserError::conflict(format!("`{}` already exists", file.display()))
                .hint("edit it; `skein config show` shows its values"),
        ),
        Err(error) => {
            Err(UserError::failed(format!("cannot write `{}`", file.display())).caused_by(&error))
        }
    }
}

fn template(branch: Option<&str>, agents: &[String]) -> String {
    let found = match agents {
        [] => "none found in PATH".to_owned(),
        agents => format!("found in PATH: {}", agents.join(", ")),
    };
    let base = branch.unwrap_or("main");
    format!(
        r#"# Settings of this project for Skein. Every line is optional. Commented lines show the defaults, or examples
# (copy, symlink, setup, concurrency, model, pass and the tables).

# The agent of a session that names none; {found}. Any program can be made one, see [agents.NAME].
# agent = "none"

# Where sessions work: "worktree", "clone", "dir" (this folder itself) or "none".
# workspace = "worktree"

# What new branches start from.
# base = "{base}"

# "pty", or "tmux" to show agents in tmux windows too.
# runtime = "pty"

# Git-ignored files that a new workspace gets, copied or linked.
# copy = [".env"]
# symlink = ["node_modules"]

# Commands that prepare a new workspace, and how long they may take together.
# setup = ["npm ci"]
# setup_timeout = "10m"

# How many agents run at once in this project; the rest wait in a queue.
# concurrency = 4

# Workspaces made ahead, so that a spawn does not wait for a checkout.
# pool = 0

# A working agent without output for this long is stuck.
# stall = "10m"

# What agents may do without asking: "ask", "edits" or "full"; and their model.
# permission = "ask"
# model = "NAME"

# Tell agents to continue when a limit of their provider is over.
# resume_after_limit = false

# Variables of the daemon's environment that agents get.
# pass = ["GITHUB_TOKEN"]

# [env]
# NO_COLOR = "1"

# [agents.mine]
# command = "my-agent --interactive"
# prompt = "typed"

# [limits]
# depth = 4
# width = 8
"#
    )
}

#[cfg(test)]
mod tests {
    use skein_client::ErrorKind;

    use super::*;
    use crate::settings::RawConfig;

    #[test]
    fn the_file_it_writes_can_be_read_also_with_every_line_switched_on() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join(PROJECT_FILE);
        let text = template(Some("main"), &["claude-code".to_owned()]);
        write(&file, &text).unwrap();
        assert_eq!(write(&file, "").unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        let on: String = text
            .lines()
            .filter_map(|line| line.strip_prefix("# "))
            .filter(|line| line.starts_with('[') || line.contains(" = "))
            .map(|line| format!("{line}\n"))
            .collect();
        assert!(on.contains("[env]"), "{on}");
        std::fs::write(&file, on).unwrap();
        let raw = RawConfig::read(&file, crate::settings::Scope::Project)
            .unwrap()
            .unwrap();
        assert_eq!(raw.agent.as_deref(), Some("none"));
        assert_eq!(raw.base.as_deref(), Some("main"));
        assert!(raw.agents.contains_key("mine"));
    }
}
