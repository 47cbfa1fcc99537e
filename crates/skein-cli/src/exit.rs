//! Exit codes, one table. They are a contract: scripts depend on them.

use skein_client::Kind;

use crate::error::UserError;

pub(crate) fn code(error: &UserError) -> u8 {
    if error.is_pipe_closed() {
        return 0;
    }
    match error.kind() {
        Kind::Failed => 1,
        Kind::Misuse => 2,
        Kind::NotFound => 3,
        Kind::Conflict => 4,
        Kind::Refused => 5,
        Kind::Unavailable => 6,
        Kind::TimedOut => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_as_contracted() {
        let table: Vec<(&str, u8)> = Kind::ALL
            .into_iter()
            .map(|kind| (kind.as_str(), code(&UserError::new(kind, "x"))))
            .collect();
        assert_eq!(
            table,
            [
                ("misuse", 2),
                ("not_found", 3),
                ("conflict", 4),
                ("refused", 5),
                ("unavailable", 6),
                ("timed_out", 7),
                ("failed", 1),
            ]
        );
        assert_eq!(code(&UserError::pipe_closed()), 0);
    }
}
