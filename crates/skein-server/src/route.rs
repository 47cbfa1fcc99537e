//! The calls, one file per noun. Each is declared once, for the router and for the OpenAPI document.

pub(crate) mod daemon;
pub(crate) mod event;
pub(crate) mod fleet;
mod launch;
pub(crate) mod project;
pub(crate) mod session;
pub(crate) mod summary;
pub(crate) mod thread;
pub(crate) mod token;
pub(crate) mod transcript;

use serde::Deserialize;
use skein_domain::Invalid;
use utoipa::IntoParams;

use crate::error::ApiError;

/// Items in a page unless the caller gives a limit.
const PAGE: usize = 100;
/// Most items in a page; the document says so at every `limit`.
const MOST_PAGE: usize = 1000;

/// Which page of a list a caller wants.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PageQuery {
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    cursor: Option<String>,
}

/// The position that a page begins after, and how many items it has.
fn page(at: Option<&str>, most: Option<usize>) -> Result<(Option<u64>, usize), ApiError> {
    Ok((cursor(at)?, limit(most)?))
}

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

/// How a fraction of a millionth is rounded: spending up and budgets down, so that no spending is free and no budget
/// grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fraction {
    Up,
    Down,
}

pub(crate) fn micros(dollars: f64, fraction: Fraction) -> Result<u64, Invalid> {
    if !dollars.is_finite() || !(0.0..=MOST_DOLLARS).contains(&dollars) {
        let why = format!("expected 0 to {MOST_DOLLARS} dollars");
        return Err(Invalid::new("cost", &dollars.to_string(), why));
    }
    let exact = dollars * 1e6;
    // 0.11 dollars are 110000.00000000001 millionths in floating point, but 110000 are meant.
    let whole = if exact >= 1.0 && (exact - exact.round()).abs() < 1e-3 {
        exact.round()
    } else {
        match fraction {
            Fraction::Up => exact.ceil(),
            Fraction::Down => exact.floor(),
        }
    };
    Ok(whole as u64)
}

/// Most tokens that one turn can report; more must be a mistake.
const MOST_TOKENS: u64 = 1_000_000_000_000;

pub(crate) fn tokens(count: u64) -> Result<u64, Invalid> {
    if count > MOST_TOKENS {
        let why = format!("one turn uses at most {MOST_TOKENS}");
        return Err(Invalid::new("tokens", &count.to_string(), why));
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l8_fractions_of_a_millionth_are_not_free() {
        for (dollars, up, down) in [
            (0.0, 0, 0),
            (0.11, 110_000, 110_000),
            (0.000_000_4, 1, 0),
            (1e-12, 1, 0),
            (2.5, 2_500_000, 2_500_000),
            (0.000_001_5, 2, 1),
        ] {
            assert_eq!(micros(dollars, Fraction::Up).unwrap(), up, "{dollars} up");
            assert_eq!(
                micros(dollars, Fraction::Down).unwrap(),
                down,
                "{dollars} down"
            );
        }
        for bad in [-0.1, f64::NAN, f64::INFINITY, 1e10] {
            assert!(micros(bad, Fraction::Up).is_err(), "{bad}");
        }
    }
}
