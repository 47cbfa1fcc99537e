//! `skein transcript export` and `import`

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::json;
use skein_client::Download;

use super::place::{Place, Sink};
use crate::cli::{KeyArgs, reference};
use crate::context::Context;
use crate::error::UserError;
use crate::text;

/// No snapshot that is taken in is longer.
const MOST_SNAPSHOT: u64 = 64 * 1024 * 1024;

/// Write the whole transcript to stdout or a file
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// As what
    #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
    format: ExportFormat,
    /// Write it to this file instead of stdout; `-` is stdout
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// A message per line, which `transcript append` takes again
    Jsonl,
    Markdown,
    /// One page that needs nothing else
    Html,
    /// zeitlich's snapshot (gzip JSON, version 1)
    Zeitlich,
}

impl ExportFormat {
    fn as_str(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Markdown => "markdown",
            Self::Html => "html",
            Self::Zeitlich => "zeitlich",
        }
    }
}

/// Take over a transcript of another system
///
/// Its messages are added after what is there; the command can be repeated.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Session id
    #[arg(value_parser = reference)]
    session: String,
    /// The file; `-` is stdin
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// What it is
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
    let place = match &args.out {
        None => Place::Stdout,
        Some(path) => Place::of(path).map_err(|e| unwritten(path, &e))?,
    };
    let to_stdout = matches!(place, Place::Stdout);
    if to_stdout && context.out.is_json() {
        let error = UserError::misuse("an export is a file of its own, not a JSON document");
        return Err(error.hint("`--out FILE` writes it to a file and tells so in JSON"));
    }
    if to_stdout && args.format == ExportFormat::Zeitlich && context.out.is_terminal() {
        let error = UserError::misuse("a packed snapshot is nothing for a terminal");
        return Err(error.hint("`--out FILE` writes it to a file"));
    }
    let format = args.format.as_str();
    let client = context.client().await?;
    let download = client.export_transcript(&args.session, format).await?;
    let Some(path) = args.out.filter(|_| !to_stdout) else {
        return print(context, download).await;
    };
    let bytes = write(download, place, &path).await?;
    let done = json!({"session": args.session, "format": format, "path": path, "bytes": bytes});
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
        // What goes to a terminal holds nothing that it would act on.
        if context.out.is_terminal() {
            let piece = String::from_utf8_lossy(&piece);
            let ends = if piece.ends_with('\n') { "\n" } else { "" };
            context.out.raw(&(text::block(&piece) + ends))?;
        } else {
            context.out.raw_bytes(&piece)?;
        }
    }
}

/// Writes all of it to a place with a name, and tells how many bytes that were.
async fn write(mut download: Download<'_>, place: Place, path: &Path) -> Result<u64, UserError> {
    let failed = |error: io::Error| unwritten(path, &error);
    let (mut sink, is_kept) = match place {
        Place::Whole { path, mode } => (Sink::beside(path, mode).map_err(failed)?, false),
        Place::Stdout | Place::Stream => (Sink::into(path).map_err(failed)?, true),
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

/// The file ended before its end. Exports have no key: they change nothing.
fn broke_off(error: skein_client::Error, written: u64, place: &str) -> UserError {
    let left = match written {
        0 => "nothing was written".to_owned(),
        n => format!("the {} bytes {place} are not all of it", text::number(n)),
    };
    let kind = error.kind();
    let told = UserError::new(kind, format!("the export broke off; {left}")).caused_by(&error);
    let hints = match error {
        skein_client::Error::Answered { .. } => error.hints(),
        _ => vec!["`skein daemon status` tells whether the daemon still runs".to_owned()],
    };
    hints.into_iter().fold(told, UserError::hint)
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
        let error = UserError::new(skein_client::Kind::Refused, format!("{shown} is too large"));
        return Err(error.hint(format!("a snapshot may have {limit} MiB, packed")));
    }
    let key = context.key(args.key.key.as_deref());
    let client = context.client().await?;
    let done = client.import_transcript(&args.session, blob.into(), &key);
    let done = done.await.map_err(|error| no_snapshot(error, &shown))?;
    context.out.show(&done, |_| {
        let added = match done.added {
            1 => "1 message added".to_owned(),
            n => format!("{} messages added", text::number(n)),
        };
        format!("{added}, {} there already", text::number(done.already))
    })
}

/// The daemon does not know the file's name, and what was meant.
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
    UserError::new(error.kind(), format!("{file} is no snapshot of zeitlich"))
        .cause(reason)
        .hint("lines of JSON go to `skein transcript append SESSION < FILE`")
}
