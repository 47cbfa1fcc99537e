//! The daemon's log: JSON lines in a file per day, the oldest removed.

use tracing_appender::non_blocking::WorkerGuard;
use tracing_appender::rolling::{Builder, Rotation};
use tracing_subscriber::EnvFilter;

use crate::error::UserError;
use crate::home::Home;

const KEPT_DAYS: usize = 7;

/// Writes the buffer when it is dropped.
pub(super) fn open(home: &Home, level: &str) -> Result<WorkerGuard, UserError> {
    let failed = |why: String| {
        UserError::unavailable(format!(
            "cannot write the log in `{}`",
            home.logs().display()
        ))
        .cause(why)
    };
    let file = Builder::new()
        .rotation(Rotation::DAILY)
        .filename_prefix("skeind")
        .filename_suffix("log")
        .max_log_files(KEPT_DAYS)
        .build(home.logs())
        .map_err(|e| failed(e.to_string()))?;
    let (writer, guard) = tracing_appender::non_blocking(file);
    let filter = EnvFilter::try_new(level).map_err(|e| {
        UserError::misuse(format!("invalid log level `{}`", crate::text::line(level)))
            .cause(e.to_string())
    })?;
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_target(true)
        .finish();
    // A second subscriber in one process happens only in tests; the first one stays.
    let _ = tracing::subscriber::set_global_default(subscriber);
    Ok(guard)
}
