//! `skein transcript export` and `import`

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use serde_json::json;
use skein_client::Download;

use super::target::{ExportTarget, Sink};
use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::text;

/// Longest snapshot.
const MOST_SNAPSHOT: u64 = 64 * 1024 * 1024;

/// Write the whole transcript to stdout or a file
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// The format
    #[arg(long, value_parser = formats(), default_value = "jsonl")]
    format: String,
    /// Write it to this file instead of stdout; `-` is stdout
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

fn formats() -> PossibleValuesParser {
    PossibleValuesParser::new([
        PossibleValue::new("jsonl").help("One message per line; `transcript append` accepts it"),
        PossibleValue::new("markdown"),
        PossibleValue::new("html").help("One self-contained page"),
        PossibleValue::new("zeitlich").help("zeitlich's snapshot (gzip JSON, version 1)"),
    ])
}

/// Import a transcript of another system
///
/// Adds its messages after the existing ones; the command can be repeated.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// The file; `-` is stdin
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// The format
    #[arg(long, value_enum, default_value_t = ImportFormat::Zeitlich)]
    format: ImportFormat,
    #[command(flatten)]
    key: KeyArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ImportFormat {
    /// zeitlich's snapshot (gzip JSON, version 1)
    Zeitlich,
}

pub(crate) async fn run(context: &Context, args: ExportArgs) -> Result<(), UserError> {
    let target = match &args.out {
        None => ExportTarget::Stdout,
        Some(path) => ExportTarget::of(path).map_err(|e| unwritten(path, &e))?,
    };
    let to_stdout = matches!(target, ExportTarget::Stdout);
    if to_stdout && context.out.is_json() {
        let error = UserError::misuse("an export to stdout cannot be combined with `--json`");
        return Err(error.hint("`--out FILE` writes it to a file and prints JSON about it"));
    }
    if to_stdout && args.format == "zeitlich" && context.out.is_terminal() {
        let error = UserError::misuse("a snapshot is binary and cannot be printed to a terminal");
        return Err(error.hint("`--out FILE` writes it to a file"));
    }
    let client = context.client().await?;
    let download = client
        .export_transcript(&args.session, &args.format)
        .await?;
    let Some(path) = args.out.filter(|_| !to_stdout) else {
        return print(context, download).await;
    };
    let bytes = write(download, target, &path).await?;
    let done =
        json!({"session": args.session, "format": args.format, "path": path, "bytes": bytes});
    context.out.show(&done, |_| {
        format!("{} bytes in {}", text::number(bytes), path.display())
    })
}

async fn print(context: &Context, mut download: Download<'_>) -> Result<(), UserError> {
    let mut written = 0;
    loop {
        let next = download.next().await;
        let next = next.map_err(|e| broke_off(e, written, "on stdout"))?;
        let Some(piece) = next else {
            return Ok(());
        };
        written += piece.len() as u64;
        // A terminal must not get escape sequences of the messages.
        if context.out.is_terminal() {
            let piece = String::from_utf8_lossy(&piece);
            let ends = if piece.ends_with('\n') { "\n" } else { "" };
            context.out.raw(&(text::block(&piece) + ends))?;
        } else {
            context.out.raw_bytes(&piece)?;
        }
    }
}

/// Writes everything to a file and returns the number of bytes.
async fn write(
    mut download: Download<'_>,
    target: ExportTarget,
    path: &Path,
) -> Result<u64, UserError> {
    let failed = |error: io::Error| unwritten(path, &error);
    let (mut sink, is_kept) = match target {
        ExportTarget::Whole { path, mode } => (Sink::beside(path, mode).map_err(failed)?, false),
        ExportTarget::Stdout | ExportTarget::Stream => (Sink::into(path).map_err(failed)?, true),
    };
    let mut bytes = 0;
    loop {
        let next = download.next().await;
        let left = if is_kept { bytes } else { 0 };
        let next = next.map_err(|e| broke_off(e, left, &format!("in {}", path.display())))?;
        let Some(piece) = next else { break };
        bytes += piece.len() as u64;
        sink.write(&piece).map_err(failed)?;
    }
    sink.finish().map_err(failed)?;
    Ok(bytes)
}

fn unwritten(path: &Path, error: &io::Error) -> UserError {
    UserError::failed(format!("cannot write `{}`", path.display())).caused_by(error)
}

/// The export broke off.
fn broke_off(error: skein_client::Error, written: u64, target: &str) -> UserError {
    let left = match written {
        0 => "nothing was written".to_owned(),
        n => format!("the {} bytes {target} are incomplete", text::number(n)),
    };
    let kind = error.kind();
    let user_error =
        UserError::new(kind, format!("the export broke off; {left}")).caused_by(&error);
    let hints = match error {
        skein_client::Error::Answered { .. } => error.hints(),
        _ => vec!["`skein daemon status` shows whether the daemon runs".to_owned()],
    };
    hints.into_iter().fold(user_error, UserError::hint)
}

pub(crate) async fn import(context: &Context, args: ImportArgs) -> Result<(), UserError> {
    let ImportFormat::Zeitlich = args.format;
    let mut blob = vec![];
    let limit = MOST_SNAPSHOT + 1;
    let read = if args.file == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_end(&mut blob)
    } else {
        File::open(&args.file).and_then(|file| file.take(limit).read_to_end(&mut blob))
    };
    let shown = match args.file.to_str() {
        Some("-") => "stdin".to_owned(),
        _ => format!("`{}`", args.file.display()),
    };
    read.map_err(|e| UserError::misuse(format!("cannot read {shown}")).caused_by(&e))?;
    if blob.len() as u64 > MOST_SNAPSHOT {
        let limit = MOST_SNAPSHOT / 1024 / 1024;
        let error = UserError::refused(format!("{shown} is too large"));
        return Err(error.hint(format!("the limit is {limit} MiB, compressed")));
    }
    let key = args.key.get();
    let client = context.client().await?;
    let done = client.import_transcript(&args.session, blob.into(), &key);
    let done = done.await.map_err(|error| no_snapshot(error, &shown))?;
    context.out.show(&done, |_| {
        let added = match done.added {
            1 => "1 message added".to_owned(),
            n => format!("{} messages added", text::number(n)),
        };
        format!("{added}, {} already there", text::number(done.already))
    })
}

/// Adds the name of the file, which the daemon does not know.
fn no_snapshot(error: skein_client::Error, file: &str) -> UserError {
    let skein_client::Error::Answered { object, .. } = &error else {
        return error.into();
    };
    let detail = |name: &str| object.details.get(name).and_then(|v| v.as_str());
    if detail("what") != Some("snapshot") {
        return error.into();
    }
    let message = object.message.as_str();
    let reason = message
        .split_once("`: ")
        .map_or(message, |(_, reason)| reason);
    UserError::new(error.kind(), format!("{file} is not a zeitlich snapshot"))
        .cause(reason)
        .hint("for lines of JSON use `skein transcript append SESSION < FILE`")
}
