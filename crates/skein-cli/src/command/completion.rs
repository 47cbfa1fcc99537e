//! `skein completion`

use clap::Args;
use clap_complete::{Shell, generate};

use crate::cli::command_tree;
use crate::context::Context;
use crate::error::UserError;

/// Print the completions for a shell
///
/// bash: `source <(skein completion bash)`. zsh: `skein completion zsh > ~/.zfunc/_skein`.
/// fish: `skein completion fish > ~/.config/fish/completions/skein.fish`.
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    #[arg(value_parser = ["bash", "zsh", "fish"])]
    shell: String,
}

pub(crate) async fn run(context: &Context, args: CompletionArgs) -> Result<(), UserError> {
    let shell: Shell = args.shell.parse().map_err(UserError::misuse)?;
    let mut script = Vec::new();
    generate(shell, &mut command_tree(), "skein", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let document = serde_json::json!({ "shell": args.shell, "script": script });
    context.out.show(&document, |_| script)
}
