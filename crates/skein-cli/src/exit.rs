//! The table of exit codes. Scripts depend on it.

use skein_client::ErrorKind;

use crate::error::UserError;

pub(crate) fn code(error: &UserError) -> u8 {
    if error.is_pipe_closed() {
        return 0;
    }
    match error.kind() {
        ErrorKind::Failed => 1,
        ErrorKind::Misuse => 2,
        ErrorKind::NotFound => 3,
        ErrorKind::Conflict => 4,
        ErrorKind::Refused => 5,
        ErrorKind::Unavailable => 6,
        ErrorKind::TimedOut => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_as_contracted() {
        for (word, expected) in [
            ("misuse", 2),
            ("not_found", 3),
            ("conflict", 4),
            ("refused", 5),
            ("unavailable", 6),
            ("timed_out", 7),
            ("failed", 1),
            ("of_the_future", 1),
        ] {
            let kind: ErrorKind = serde_json::from_value(word.into()).unwrap();
            assert_eq!(code(&UserError::new(kind, "x")), expected, "{word}");
        }
        assert_eq!(code(&UserError::pipe_closed()), 0);
    }
}
