//! `skein completion`

use clap::{Args, ValueEnum};
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
    #[arg(value_enum)]
    shell: Which,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    Bash,
    Zsh,
    Fish,
}

pub(crate) async fn run(context: &Context, args: CompletionArgs) -> Result<(), UserError> {
    let (shell, name) = match args.shell {
        Which::Bash => (Shell::Bash, "bash"),
        Which::Zsh => (Shell::Zsh, "zsh"),
        Which::Fish => (Shell::Fish, "fish"),
    };
    let mut script = Vec::new();
    generate(shell, &mut command_tree(), "skein", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let document = serde_json::json!({ "shell": name, "script": script });
    context.out.show(&document, |_| script)
}
