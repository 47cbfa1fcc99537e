//! Maps Redis errors to those of transcripts, without the password.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use skein_transcript::Error;

use crate::options::RedisOptions;

/// Always `Unavailable`, because every write can be repeated.
pub(crate) fn failure(options: &RedisOptions, what: &str, error: &RedisError) -> Error {
    let mut text = if error.is_timeout() {
        format!(
            "Redis did not {what} within {} ms",
            options.timeout.as_millis()
        )
    } else if error.kind() == ErrorKind::AuthenticationFailed {
        format!("Redis refused to {what}: the user or password is wrong, or one is needed")
    } else {
        format!("Redis could not {what}: {error}")
    };
    for secret in options.secrets() {
        text = text.replace(secret, "***");
    }
    Error::hot(text)
}

/// The server does not know the script: it was restarted, or is another one.
pub(crate) fn is_no_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// An answer that the scripts never give.
pub(crate) fn unexpected(what: &str) -> Error {
    Error::hot(format!("Redis did not answer with {what}"))
}
