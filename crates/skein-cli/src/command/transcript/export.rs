//! `skein transcript export` and `import`

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::json;

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
    /// Write it to this file instead of stdout
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
    let format = args.format.as_str();
    if args.out.is_none() {
        if context.out.is_json() {
            let error = UserError::misuse("an export is a file of its own, not a JSON document");
            return Err(error.hint("`--out FILE` writes it to a file and tells so in JSON"));
        }
        if args.format == ExportFormat::Zeitlich && context.out.is_terminal() {
            let error = UserError::misuse("a packed snapshot is nothing for a terminal");
            return Err(error.hint("`--out FILE` writes it to a file"));
        }
    }
    let client = context.client().await?;
    let mut download = client.export_transcript(&args.session, format).await?;
    let Some(path) = &args.out else {
        let mut written = 0;
        loop {
            let next = download.next().await;
            let next = next.map_err(|e| broke_off(e, written, "stdout"))?;
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
    };
    let mut bytes = 0u64;
    // Beside its place first, so that a file that breaks off never takes the place of a whole one.
    let half = half_of(path);
    let failed = |error: &std::io::Error| {
        UserError::failed(format!("cannot write `{}`", path.display())).caused_by(error)
    };
    let mut file = File::create(&half).map_err(|e| failed(&e))?;
    let written = async {
        loop {
            let next = download.next().await;
            let next = next.map_err(|e| broke_off(e, 0, ""))?;
            let Some(piece) = next else { break };
            bytes += piece.len() as u64;
            file.write_all(&piece).map_err(|e| failed(&e))?;
        }
        file.sync_all().map_err(|e| failed(&e))?;
        std::fs::rename(&half, path).map_err(|e| failed(&e))
    };
    if let Err(error) = written.await {
        let _ = std::fs::remove_file(&half);
        return Err(error);
    }
    let done = json!({"session": args.session, "format": format, "path": path, "bytes": bytes});
    context.out.show(&done, |_| {
        format!("{} bytes in {}", text::number(bytes), path.display())
    })
}

/// The file ended before its end. Exports have no key: they change nothing.
fn broke_off(error: skein_client::Error, written: u64, place: &str) -> UserError {
    let left = match written {
        0 => "nothing was written".to_owned(),
        n => format!("the {} bytes on {place} are not all of it", text::number(n)),
    };
    let kind = error.kind();
    let told = UserError::new(kind, format!("the export broke off; {left}")).caused_by(&error);
    let hints = match error {
        skein_client::Error::Answered { .. } => error.hints(),
        _ => vec!["`skein daemon status` tells whether the daemon still runs".to_owned()],
    };
    hints.into_iter().fold(told, UserError::hint)
}

fn half_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".part-{}", std::process::id()));
    path.with_file_name(name)
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
