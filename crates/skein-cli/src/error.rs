//! What a command tells its user when it cannot do what was asked.

use std::error::Error as StdError;

use serde_json::{Map, Value};
use skein_client::{Error, Kind};
use skein_wire::{ErrorBody, ErrorObject};

/// A message, why, and what to type next. Rendered by `output`, counted by `exit`.
#[derive(Clone, Debug, PartialEq)]
pub struct UserError(Box<Inner>);

#[derive(Clone, Debug, PartialEq)]
struct Inner {
    kind: Kind,
    message: String,
    causes: Vec<String>,
    hints: Vec<String>,
    details: Map<String, Value>,
    voice: Voice,
    /// The daemon was asked and said nothing.
    silent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Voice {
    Tell,
    /// The message has been written already.
    AlreadyTold,
    /// Whoever read our output has gone; there is nobody to tell.
    PipeClosed,
}

impl UserError {
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            causes: vec![],
            hints: vec![],
            details: Map::new(),
            voice: Voice::Tell,
            silent: false,
        }))
    }

    pub fn misuse(message: impl Into<String>) -> Self {
        Self::new(Kind::Misuse, message)
    }

    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Kind::Failed, message)
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Kind::Unavailable, message)
    }

    pub(crate) fn already_told(kind: Kind) -> Self {
        let mut error = Self::new(kind, "");
        error.0.voice = Voice::AlreadyTold;
        error
    }

    pub(crate) fn pipe_closed() -> Self {
        let mut error = Self::new(Kind::Failed, "the reader of the output has gone");
        error.0.voice = Voice::PipeClosed;
        error
    }

    /// As it came in an error object of the daemon.
    pub fn from_object(object: ErrorObject) -> Self {
        let mut error = Self::new(Kind::from_word(&object.kind), object.message);
        error.0.hints = object.hints;
        error.0.details = object.details;
        error
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hints.push(hint.into());
        self
    }

    #[must_use]
    pub fn cause(mut self, cause: impl Into<String>) -> Self {
        self.0.causes.push(cause.into());
        self
    }

    /// Adds an error and everything behind it.
    #[must_use]
    pub fn caused_by(mut self, error: &dyn StdError) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            self = self.cause(error.to_string());
            next = error.source();
        }
        self
    }

    #[must_use]
    pub fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.details.insert(name.to_owned(), value.into());
        self
    }

    #[must_use]
    pub(crate) fn map_hints(mut self, map: impl Fn(&str) -> String) -> Self {
        for hint in &mut self.0.hints {
            *hint = map(hint);
        }
        self
    }

    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub fn causes(&self) -> &[String] {
        &self.0.causes
    }

    pub fn hints(&self) -> &[String] {
        &self.0.hints
    }

    pub fn details(&self) -> &Map<String, Value> {
        &self.0.details
    }

    pub(crate) fn is_silence(&self) -> bool {
        self.0.silent
    }

    pub(crate) fn is_told(&self) -> bool {
        self.0.voice != Voice::Tell
    }

    pub(crate) fn is_pipe_closed(&self) -> bool {
        self.0.voice == Voice::PipeClosed
    }

    /// The error object; causes become part of the message, for the object has no other place for them.
    pub fn to_body(&self) -> ErrorBody {
        let mut message = self.0.message.clone();
        for cause in &self.0.causes {
            message.push_str(": ");
            message.push_str(cause);
        }
        ErrorBody {
            error: ErrorObject {
                kind: self.0.kind.as_str().to_owned(),
                message,
                hints: self.0.hints.clone(),
                details: self.0.details.clone(),
            },
        }
    }
}

impl From<Error> for UserError {
    fn from(error: Error) -> Self {
        let hints = error.hints();
        let kind = error.kind();
        let silent = matches!(error, Error::TimedOut { .. });
        if let Error::Answered { object, .. } = error {
            return Self::from_object(object);
        }
        let mut built = Self::new(kind, error.to_string());
        if let Some(source) = error.source() {
            built = built.caused_by(source);
        }
        built.0.hints = hints;
        built.0.silent = silent;
        built
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_part_of_the_error_object() {
        let error = UserError::failed("cannot read `x`")
            .cause("no such file")
            .hint("make it")
            .detail("path", "x");
        assert_eq!(
            serde_json::to_string(&error.to_body()).unwrap(),
            r#"{"error":{"kind":"failed","message":"cannot read `x`: no such file","hints":["make it"],"details":{"path":"x"}}}"#
        );
    }
}
