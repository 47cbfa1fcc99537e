//! The calls, one file per noun. Each is declared once, for the router and for the OpenAPI document.

pub(crate) mod daemon;
pub(crate) mod event;
pub(crate) mod project;
pub(crate) mod session;
pub(crate) mod summary;
pub(crate) mod thread;
pub(crate) mod token;

use skein_domain::Invalid;

use crate::error::ApiError;

/// Items in a page when the caller does not say.
const PAGE: usize = 100;
/// Most items in a page; the document says so at every `limit`.
const MOST_PAGE: usize = 1000;

fn limit(asked: Option<usize>) -> Result<usize, ApiError> {
    match asked {
        None => Ok(PAGE),
        Some(n) if (1..=MOST_PAGE).contains(&n) => Ok(n),
        Some(n) => Err(Invalid::new(
            "limit",
            &n.to_string(),
            format!("expected 1 to {MOST_PAGE}"),
        )
        .into()),
    }
}

fn cursor(asked: Option<&str>) -> Result<Option<u64>, ApiError> {
    asked
        .map(|c| {
            c.parse().map_err(|_| {
                Invalid::new("cursor", c, "expected the `next` of an earlier page").into()
            })
        })
        .transpose()
}

fn optional<T: std::str::FromStr<Err = Invalid>>(
    text: Option<String>,
) -> Result<Option<T>, Invalid> {
    text.map(|t| t.parse()).transpose()
}

/// Most dollars anything can cost here; keeps the sum of millionths exact.
const MOST_DOLLARS: f64 = 1e9;

fn micros(dollars: f64) -> Result<u64, Invalid> {
    if dollars.is_finite() && (0.0..=MOST_DOLLARS).contains(&dollars) {
        Ok((dollars * 1e6).round() as u64)
    } else {
        Err(Invalid::new(
            "cost",
            &dollars.to_string(),
            format!("expected 0 to {MOST_DOLLARS} dollars"),
        ))
    }
}
