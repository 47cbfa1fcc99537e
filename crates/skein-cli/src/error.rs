//! The error of a command.

use std::error::Error as StdError;

use serde_json::{Map, Value};
use skein_client::{Error, ErrorKind};
use skein_wire::{ErrorBody, ErrorObject};

/// A message, its causes, and what to type next. `output` renders it, `exit` maps it to an exit code.
#[derive(Clone, Debug, PartialEq)]
pub struct UserError(Box<Inner>);

#[derive(Clone, Debug, PartialEq)]
struct Inner {
    kind: ErrorKind,
    message: String,
    causes: Vec<String>,
    hints: Vec<String>,
    details: Map<String, Value>,
    printing: Printing,
    /// The daemon did not answer in time.
    no_answer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Printing {
    Due,
    /// Already printed.
    Done,
    /// The reader of stdout has gone, so nothing is printed.
    PipeClosed,
}

impl UserError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            causes: vec![],
            hints: vec![],
            details: Map::new(),
            printing: Printing::Due,
            no_answer: false,
        }))
    }

    pub fn misuse(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Misuse, message)
    }

    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, message)
    }

    pub fn timed_out(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::TimedOut, message)
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    pub(crate) fn already_printed(kind: ErrorKind) -> Self {
        let mut error = Self::new(kind, "");
        error.0.printing = Printing::Done;
        error
    }

    pub(crate) fn pipe_closed() -> Self {
        let mut error = Self::new(ErrorKind::Failed, "the reader of the output has gone");
        error.0.printing = Printing::PipeClosed;
        error
    }

    /// From an error object of the daemon.
    pub fn from_object(object: ErrorObject) -> Self {
        let mut error = Self::new(object.kind, object.message);
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

    /// Adds an error and its sources.
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

    pub fn kind(&self) -> ErrorKind {
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

    pub(crate) fn is_no_answer(&self) -> bool {
        self.0.no_answer
    }

    pub(crate) fn is_printed(&self) -> bool {
        self.0.printing != Printing::Due
    }

    pub(crate) fn is_pipe_closed(&self) -> bool {
        self.0.printing == Printing::PipeClosed
    }

    /// The error object. Causes become part of the message, because the object has no field for them.
    pub fn to_body(&self) -> ErrorBody {
        let mut message = self.0.message.clone();
        for cause in &self.0.causes {
            message.push_str(": ");
            message.push_str(cause);
        }
        ErrorBody {
            error: ErrorObject {
                kind: self.0.kind,
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
        let no_answer = matches!(error, Error::TimedOut { .. });
        if let Error::Answered { object, .. } = error {
            return Self::from_object(object);
        }
        let mut built = Self::new(kind, error.to_string());
        if let Some(source) = error.source() {
            built = built.caused_by(source);
        }
        built.0.hints = hints;
        built.0.no_answer = no_answer;
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
