//! `skein man`

use std::path::PathBuf;

use clap::Args;
use clap_mangen::Man;
use serde_json::json;

use crate::cli::command_tree;
use crate::context::Context;
use crate::error::UserError;
use crate::text;

/// Print the manual page (`skein man | man -l -` shows it), or write the pages of all commands into a folder
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write one page per command into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) async fn run(context: &Context, args: ManArgs) -> Result<(), UserError> {
    let failed =
        |error: std::io::Error| UserError::failed("cannot write the manual").caused_by(&error);
    let Some(folder) = args.out else {
        let mut page = Vec::new();
        Man::new(command_tree()).render(&mut page).map_err(failed)?;
        let page = String::from_utf8_lossy(&page).into_owned();
        context
            .out
            .show(&json!({ "page": page }), |_| page.clone())?;
        if context.out.is_terminal() {
            context
                .out
                .note("this is the source of the page; `skein man | man -l -` shows it");
        }
        return Ok(());
    };
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let mut tree = command_tree().disable_help_subcommand(true);
    tree.build();
    let mut names = Vec::new();
    for (name, command) in pages("skein".to_owned(), &tree) {
        let mut page = Vec::new();
        Man::new(command).render(&mut page).map_err(failed)?;
        let file = format!("{name}.1");
        std::fs::write(folder.join(&file), page).map_err(failed)?;
        names.push(file);
    }
    let document = json!({ "folder": folder.to_string_lossy(), "pages": names });
    context.out.show(&document, |_| {
        format!(
            "wrote {} into {}",
            text::count(names.len(), "page"),
            folder.display()
        )
    })
}

/// Every command with the name of its page, such as `skein-thread-new`.
fn pages(name: String, command: &clap::Command) -> Vec<(String, clap::Command)> {
    let mut all = vec![(name.clone(), command.clone())];
    for child in command
        .get_subcommands()
        .filter(|child| !child.is_hide_set())
    {
        all.extend(pages(format!("{name}-{}", child.get_name()), child));
    }
    all
}
