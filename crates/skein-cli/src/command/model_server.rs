//! `skein model-server`

mod agents;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use skein_fixtures::model_server::{ModelServerSettings, STEPS, Script, Server};

use crate::context::Context;
use crate::error::UserError;
use crate::output::{BOLD, DIM, Paint};
use crate::signals::EndSignals;
use agents::Agent;

/// Serve a scripted model, to try agents without keys and without a network
///
/// Serves Anthropic Messages, OpenAI Responses, Chat Completions and Gemini on loopback until Ctrl-C. The prompt says
/// what to answer, in double brackets: `[[bash touch a ;; say done]]` makes the agent run a command and then say
/// "done". It needs no daemon.
#[derive(Debug, Args)]
#[command(after_long_help = format!(
    "Steps of a prompt, separated by `;;`:\n{}\n\nA script:\n{}",
    indented(STEPS),
    indented(SCRIPT)
))]
pub(crate) struct ModelServerArgs {
    /// Listen on this loopback address; port 0 chooses a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: String,
    /// Answer prompts without steps according to this file (TOML)
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Append every request and answer to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// An example for the help; a test reads it.
const SCRIPT: &str = r#"[[reply]]
when = "(?i)run the tests"       # a regular expression over the prompt
steps = ["bash cargo test", "say All is well."]

[defaults]                       # for prompts that no rule fits
say = "I am only a script."
input_tokens = 100
output_tokens = 20
words_per_second = 30"#;

/// The JSON that is printed before it serves.
#[derive(Debug, Serialize)]
struct Serving {
    url: String,
    pid: u32,
    agents: Vec<Agent>,
}

pub(crate) async fn run(context: &Context, args: ModelServerArgs) -> Result<(), UserError> {
    let mut signals = EndSignals::new()?;
    let settings = ModelServerSettings {
        listen: address(&args.listen)?,
        script: args.script.as_deref().map_or(Ok(Script::default()), read)?,
        log: args.log,
    };
    let server = Server::start(settings)
        .await
        .map_err(|error| cannot_serve(&args.listen, &error))?;
    let serving = Serving {
        url: server.url(),
        pid: std::process::id(),
        agents: agents::all(&server.url()),
    };
    context.out.show(&serving, |paint| human(&serving, paint))?;
    signals.received().await;
    Ok(())
}

fn address(text: &str) -> Result<SocketAddr, UserError> {
    let hint = "expected a loopback address and a port, as in 127.0.0.1:7800";
    let address: SocketAddr = text
        .parse()
        .map_err(|_| UserError::misuse(format!("`{text}` is not an address")).hint(hint))?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err(
            UserError::misuse(format!("`{text}` is not a loopback address"))
                .hint("everyone who can reach the server can make agents run commands")
                .hint(hint),
        )
    }
}

fn read(path: &Path) -> Result<Script, UserError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        UserError::misuse(format!("cannot read the script `{shown}`")).caused_by(&error)
    })?;
    Script::parse(&text).map_err(|error| {
        let user_error = UserError::misuse(format!(
            "cannot use the script `{shown}`, line {}",
            error.line
        ))
        .cause(error.message)
        .detail("line", error.line);
        error.hint.into_iter().fold(user_error, UserError::hint)
    })
}

fn cannot_serve(listen: &str, error: &std::io::Error) -> UserError {
    let user_error = UserError::unavailable(format!("cannot serve on {listen}")).caused_by(error);
    match error.kind() {
        ErrorKind::AddrInUse => user_error.hint("`--listen 127.0.0.1:0` takes a free port"),
        _ => user_error,
    }
}

fn human(serving: &Serving, paint: Paint) -> String {
    let mut out = format!(
        "Scripted model at {} until Ctrl-C.\n",
        paint.apply(BOLD, &serving.url)
    );
    for agent in &serving.agents {
        out.push_str(&format!(
            "\n{}  {}\n{}\n",
            paint.apply(BOLD, agent.title),
            paint.apply(DIM, agent.note),
            indented(&agent.command_line())
        ));
    }
    out.push_str(&format!(
        "\n{}\n{}\n",
        paint.apply(BOLD, "Steps of a prompt, separated by `;;`"),
        indented(STEPS)
    ));
    out
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_an_address() {
        for (text, part) in [
            ("127.0.0.1:0", None),
            ("[::1]:80", None),
            ("0.0.0.0:80", Some("not a loopback address")),
            ("localhost", Some("not an address")),
        ] {
            let error = address(text).err().map(|error| error.message().to_owned());
            assert_eq!(error.is_some(), part.is_some(), "{text}");
            assert!(error.unwrap_or_default().contains(part.unwrap_or("")));
        }
    }

    #[test]
    fn the_script_in_the_help_can_be_used() {
        assert!(Script::parse(SCRIPT).is_ok());
    }

    #[test]
    fn a_script_that_is_wrong_names_file_line_and_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.toml");
        std::fs::write(&path, "[[reply]]\nwhne = \"a\"\n").unwrap();
        let error = read(&path).unwrap_err();
        assert!(error.message().ends_with("s.toml`, line 2"), "{error:?}");
        assert_eq!(error.causes(), ["unknown key `whne`"]);
        assert_eq!(error.hints(), ["did you mean `when`?"]);
    }
}
