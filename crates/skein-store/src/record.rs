//! Disk forms. A record is stored as its domain type serialises, as JSON that begins with the number of its form.
//! Golden files in `tests/golden/` contain one of each, so a test fails when a type changes its disk form.
//!
//! A change of form needs a new number and a reader for the old one. The data of an event is what its
//! `Fact` serialises as.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::backend::Result;
use crate::error::Error;

/// The only form so far.
const FORM: u8 = 1;

#[derive(Deserialize)]
struct Form {
    v: u8,
}

pub(crate) fn encode<T: Serialize>(record: &T) -> Result<String> {
    let body = serde_json::to_string(record)
        .map_err(|e| Error::Bug(format!("cannot encode a record: {e}")))?;
    match body.strip_prefix('{') {
        Some(fields) => Ok(format!("{{\"v\":{FORM},{fields}")),
        None => Err(Error::Bug("a record is not a JSON object".into())),
    }
}

pub(crate) fn decode<T: DeserializeOwned>(body: &str) -> std::result::Result<T, String> {
    let form: Form = serde_json::from_str(body).map_err(|e| e.to_string())?;
    if form.v != FORM {
        return Err(format!("this build does not know form {}", form.v));
    }
    serde_json::from_str(body).map_err(|e| e.to_string())
}
