//! Parsing of budgets: `200000`, `200k tokens`, `5usd`, `$5`, `200000,5usd`.

use skein_wire::BudgetAsked;

pub(crate) fn parse(text: &str) -> Result<BudgetAsked, String> {
    let mut budget = BudgetAsked::default();
    for part in text.split(',') {
        let part = part.trim();
        let twice = match money(part)? {
            Some(cost) => budget.cost_usd.replace(cost).is_some(),
            None => budget.tokens.replace(tokens(part)?).is_some(),
        };
        if twice {
            return Err(format!(
                "`{}` names the same currency twice",
                crate::text::line(text)
            ));
        }
    }
    Ok(budget)
}

/// `None` if the part is not an amount of money.
fn money(part: &str) -> Result<Option<f64>, String> {
    let lower = part.to_ascii_lowercase();
    let Some(amount) = lower
        .strip_suffix("usd")
        .or_else(|| lower.strip_prefix('$'))
    else {
        return Ok(None);
    };
    let amount = amount.trim();
    let plain = !amount.is_empty()
        && amount
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
    match amount.parse::<f64>() {
        Ok(cost) if plain && cost.is_finite() => Ok(Some(cost)),
        _ => Err(refusal(part)),
    }
}

fn tokens(part: &str) -> Result<u64, String> {
    let lower = part.to_ascii_lowercase();
    let amount = lower
        .strip_suffix("tokens")
        .or_else(|| lower.strip_suffix("token"))
        .unwrap_or(&lower)
        .trim();
    let (digits, unit) = match amount.strip_suffix('k') {
        Some(digits) => (digits, 1_000),
        None => match amount.strip_suffix('m') {
            Some(digits) => (digits, 1_000_000),
            None => (amount, 1),
        },
    };
    let plain = !digits.is_empty()
        && digits
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'_');
    digits
        .replace('_', "")
        .parse::<u64>()
        .ok()
        .filter(|_| plain)
        .and_then(|n| n.checked_mul(unit))
        .ok_or_else(|| refusal(part))
}

fn refusal(part: &str) -> String {
    format!(
        "`{}` is not a budget; write tokens (`200000`, `200k`), dollars (`5usd`) or both (`200k,5usd`)",
        crate::text::line(part)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_name_tokens_dollars_or_both() {
        let check = |text: &str, tokens: Option<u64>, cost_usd: Option<f64>| {
            assert_eq!(parse(text), Ok(BudgetAsked { tokens, cost_usd }), "{text}");
        };
        check("200000", Some(200_000), None);
        check("200_000 tokens", Some(200_000), None);
        check("200k", Some(200_000), None);
        check("2M tokens", Some(2_000_000), None);
        check("0", Some(0), None);
        check("5usd", None, Some(5.0));
        check("$2.50", None, Some(2.5));
        check("200000,5usd", Some(200_000), Some(5.0));
        check("5 USD, 10k", Some(10_000), Some(5.0));
        for bad in [
            "",
            ",",
            "-1",
            "1.5",
            "usd",
            "$",
            "-5usd",
            "1e3usd",
            "infusd",
            "nanusd",
            "1,2",
            "1usd,2usd",
            "99999999999999999999",
            "18446744073709551615k",
            "lots",
            "1 2",
            "_",
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
