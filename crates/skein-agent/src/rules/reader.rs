//! Takes the keys of a TOML table one by one, and reports unknown ones.

use regex::{Regex, RegexBuilder};
use toml::{Table, Value};

use super::Pattern;
use crate::error::Error;

/// Larger compiled regexes are refused, so that a settings file cannot take the memory.
const LARGEST: usize = 1 << 20;

pub(super) struct Reader {
    place: String,
    table: Table,
    known: Vec<&'static str>,
}

impl Reader {
    pub(super) fn new(place: impl Into<String>, table: Table) -> Self {
        Self {
            place: place.into(),
            table,
            known: Vec::new(),
        }
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn bad(&self, key: &str, why: impl Into<String>) -> Error {
        Error::BadSettings {
            place: format!("{}.{key}", self.place),
            why: why.into(),
            hints: vec![],
        }
    }

    fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.table.remove(key)
    }

    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<String>, Error> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.bad(key, format!("expected a text, not {}", kind(&other)))),
        }
    }

    pub(super) fn regex(&mut self, key: &'static str) -> Result<Option<Regex>, Error> {
        let Some(text) = self.text(key)? else {
            return Ok(None);
        };
        compile(&text).map(Some).map_err(|why| self.bad(key, why))
    }

    pub(super) fn texts(&mut self, key: &'static str) -> Result<Vec<String>, Error> {
        let values = self.list(key)?;
        let mut texts = Vec::with_capacity(values.len());
        for value in values {
            match value {
                Value::String(text) => texts.push(text),
                other => {
                    return Err(self.bad(key, format!("expected texts, not {}", kind(&other))));
                }
            }
        }
        Ok(texts)
    }

    pub(super) fn patterns(&mut self, key: &'static str) -> Result<Vec<Pattern>, Error> {
        let values = self.list(key)?;
        let mut patterns = Vec::with_capacity(values.len());
        for value in values {
            patterns.push(self.pattern(key, value)?);
        }
        Ok(patterns)
    }

    fn pattern(&self, key: &str, value: Value) -> Result<Pattern, Error> {
        match value {
            Value::String(text) if text.is_empty() => Err(self.bad(key, "a text is empty")),
            Value::String(text) => Ok(Pattern::Text(text)),
            Value::Table(table) => {
                let mut inner = Self::new(format!("{}.{key}", self.place), table);
                let regex = inner.regex("regex")?;
                inner.finish()?;
                regex
                    .map(Pattern::regex)
                    .ok_or_else(|| self.bad(key, "expected `{ regex = \"…\" }`"))
            }
            other => Err(self.bad(
                key,
                format!(
                    "expected texts or `{{ regex = \"…\" }}`, not {}",
                    kind(&other)
                ),
            )),
        }
    }

    pub(super) fn table(&mut self, key: &'static str) -> Result<Option<Table>, Error> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Table(table)) => Ok(Some(table)),
            Some(other) => Err(self.bad(key, format!("expected a table, not {}", kind(&other)))),
        }
    }

    pub(super) fn list(&mut self, key: &'static str) -> Result<Vec<Value>, Error> {
        match self.take(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) => Ok(values),
            Some(other) => Err(self.bad(key, format!("expected a list, not {}", kind(&other)))),
        }
    }

    /// Refuses keys that were not taken.
    pub(super) fn finish(self) -> Result<(), Error> {
        let Some(unknown) = self.table.keys().next() else {
            return Ok(());
        };
        let hint = match nearest(unknown, self.known.iter().copied()) {
            Some(known) => format!("did you mean `{known}`?"),
            None => format!("the known keys are `{}`", self.known.join("`, `")),
        };
        Err(Error::BadSettings {
            place: self.place,
            why: format!("unknown key `{}`", unknown.escape_debug()),
            hints: vec![hint],
        })
    }
}

pub(super) fn compile(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text)
        .size_limit(LARGEST)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "this regex is too large".into(),
            // The message spans lines and points at the regex; its last line states the error.
            other => {
                let text = other.to_string();
                let last = text.lines().last().unwrap_or_default();
                format!("not a regex: {}", last.trim_start_matches("error: "))
            }
        })
}

/// The most similar known word, if any is similar.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|k| (strsim::jaro_winkler(word, k), k))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a text",
        Value::Integer(_) | Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a time",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}
