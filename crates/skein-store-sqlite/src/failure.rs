//! Maps SQLite's errors to those of the ledger.

use std::path::Path;

use rusqlite::ErrorCode;
use skein_store::Error;

pub(crate) fn of(path: &Path, error: &rusqlite::Error) -> Error {
    use rusqlite::Error as E;
    let path = path.display().to_string();
    let corrupt = |path| Error::Corrupt {
        path,
        reason: error.to_string(),
    };
    match (error.sqlite_error_code(), error) {
        (Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase), _) => corrupt(path),
        // A value that this build never writes.
        (None, E::InvalidColumnType(..) | E::IntegralValueOutOfRange(..))
        | (None, E::FromSqlConversionFailure(..) | E::Utf8Error(..)) => corrupt(path),
        (None, _) => Error::Bug(format!("database `{path}`: {error}")),
        (Some(code), _) => Error::Unavailable {
            reason: format!("database `{path}`: {error}"),
            hints: hints(code, &path),
        },
    }
}

pub(crate) fn of_file(path: &Path, what: &str, error: &std::io::Error) -> Error {
    let shown = path.display().to_string();
    let code = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorCode::DiskFull,
        std::io::ErrorKind::ReadOnlyFilesystem => ErrorCode::ReadOnly,
        std::io::ErrorKind::PermissionDenied => ErrorCode::PermissionDenied,
        _ => ErrorCode::CannotOpen,
    };
    Error::Unavailable {
        reason: format!("cannot {what} database `{shown}`: {error}"),
        hints: hints(code, &shown),
    }
}

pub(crate) fn hints(code: ErrorCode, path: &str) -> Vec<String> {
    let hint = match code {
        ErrorCode::DiskFull => {
            format!("the disk is full: free some space where `{path}` is, then try again")
        }
        ErrorCode::ReadOnly => format!(
            "`{path}` and its folder must be writable; on a read-only disk, set SKEIN_HOME to another folder"
        ),
        ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied => format!(
            "`{path}` and its folder must belong to you: check with `ls -ld`, or set SKEIN_HOME to another folder"
        ),
        ErrorCode::CannotOpen => format!(
            "the folder of `{path}` must exist and be writable, or set SKEIN_HOME to another folder"
        ),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            format!("another program has locked `{path}`: `fuser {path}` shows which")
        }
        ErrorCode::SystemIoFailure => {
            format!("the disk failed: check the system log, then run `skein doctor` on `{path}`")
        }
        _ => return vec![],
    };
    vec![hint]
}
