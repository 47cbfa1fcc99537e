//! Token and cost budgets: a parent's budget is split among its children, and an ended child returns what it
//! did not spend.

use crate::error::Refused;
use crate::id::SessionId;
use crate::word::words;

/// An amount in both currencies. Cost is in millionths of a US dollar, so that sums are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_micros: u64,
}

impl Usage {
    pub const fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost_micros: self.cost_micros.saturating_add(other.cost_micros),
        }
    }

    /// The difference to `other`, per field, never below zero.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(other.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(other.output_tokens),
            cost_micros: self.cost_micros.saturating_sub(other.cost_micros),
        }
    }
}

/// What a session may spend; `None` means no limit in that currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Allowance {
    pub tokens: Option<u64>,
    pub cost_micros: Option<u64>,
}

impl Allowance {
    pub const UNLIMITED: Self = Self {
        tokens: None,
        cost_micros: None,
    };
}

/// One currency of a session's budget: its limit, and how much of it is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Account {
    pub limit: Option<u64>,
    /// Reserved for live children.
    pub reserved: u64,
    /// Spent by children that have ended.
    pub children: u64,
}

impl Account {
    const fn taken(&self, own: u64) -> u64 {
        own.saturating_add(self.reserved)
            .saturating_add(self.children)
    }

    /// What a session with this account charges its parent. Its reservations for its own children count as taken.
    fn charge(&self, own: u64, live: bool) -> Charge {
        let taken = self.taken(own);
        if live {
            Charge {
                reserved: taken.max(self.limit.unwrap_or(0)),
                spent: 0,
            }
        } else {
            Charge {
                reserved: 0,
                spent: taken,
            }
        }
    }

    /// This account after a child's charge changed. An account without a limit reserves nothing.
    fn carry(&self, before: Charge, after: Charge) -> Self {
        let swap =
            |sum: u64, before: u64, after: u64| sum.saturating_sub(before).saturating_add(after);
        let reserved = match self.limit {
            Some(_) => swap(self.reserved, before.reserved, after.reserved),
            None => self.reserved,
        };
        Self {
            reserved,
            children: swap(self.children, before.spent, after.spent),
            ..*self
        }
    }

    /// The rest of the limit; `None` without a limit.
    fn available(&self, own: u64) -> Option<u64> {
        self.limit
            .map(|limit| limit.saturating_sub(self.taken(own)))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Budget {
    pub tokens: Account,
    pub cost: Account,
}

/// What a session charges its parent's budget, in both currencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    tokens: Charge,
    cost: Charge,
}

/// A live child reserves its whole share, or more if it took more; an ended child counts as what it spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Charge {
    reserved: u64,
    spent: u64,
}

words! {
    pub enum Currency: "currency" {
        Tokens = "tokens",
        /// Millionths of a US dollar.
        Cost = "usd_micros",
    }
}

impl Currency {
    /// The amount as people write it.
    pub fn show(self, amount: u64) -> String {
        match self {
            Self::Tokens => format!("{amount} tokens"),
            Self::Cost => format!("${}.{:06}", amount / 1_000_000, amount % 1_000_000)
                .trim_end_matches('0')
                .trim_end_matches('.')
                .to_owned(),
        }
    }
}

const TOKENS: Currency = Currency::Tokens;
const COST: Currency = Currency::Cost;

impl Budget {
    pub const fn new(allowance: Allowance) -> Self {
        Self {
            tokens: Account {
                limit: allowance.tokens,
                reserved: 0,
                children: 0,
            },
            cost: Account {
                limit: allowance.cost_micros,
                reserved: 0,
                children: 0,
            },
        }
    }

    /// Reserves a child's share and returns the parent's budget with the child's allowance. A limited parent never
    /// has an unlimited child: a child that asks for no amount gets half of the rest.
    pub fn reserve(
        &self,
        session: &SessionId,
        own: &Usage,
        asked: Allowance,
    ) -> Result<(Self, Allowance), Refused> {
        let tokens = share(session, TOKENS, &self.tokens, own.tokens(), asked.tokens)?;
        let cost = share(
            session,
            COST,
            &self.cost,
            own.cost_micros,
            asked.cost_micros,
        )?;
        let allowance = Allowance {
            tokens,
            cost_micros: cost,
        };
        let child = Self::new(allowance).weight(&Usage::default(), true);
        Ok((self.carry(None, child), allowance))
    }

    /// The allowance of each of `parts` children made at once: equal shares of the rest, with one more share kept
    /// for the session itself.
    pub fn equal_share(&self, own: &Usage, parts: u64) -> Allowance {
        let left = self.unspent(own);
        let part = |left: u64| left / (parts + 1);
        Allowance {
            tokens: left.tokens.map(part),
            cost_micros: left.cost_micros.map(part),
        }
    }

    /// What a session with this budget charges its parent.
    pub fn weight(&self, own: &Usage, live: bool) -> Weight {
        Weight {
            tokens: self.tokens.charge(own.tokens(), live),
            cost: self.cost.charge(own.cost_micros, live),
        }
    }

    /// The parent's budget after a child's charge changed: the child was made, spent more than its share, ended or
    /// was restored. Nothing else changes a parent's budget on behalf of a child.
    #[must_use]
    pub fn carry(&self, before: Option<Weight>, after: Weight) -> Self {
        let tokens = before.map_or(Charge::default(), |w| w.tokens);
        let cost = before.map_or(Charge::default(), |w| w.cost);
        Self {
            tokens: self.tokens.carry(tokens, after.tokens),
            cost: self.cost.carry(cost, after.cost),
        }
    }

    pub const fn is_limited(&self) -> bool {
        self.tokens.limit.is_some() || self.cost.limit.is_some()
    }

    /// The parent's budget after an ended child is restored; refused if the rest is too small for the child.
    pub fn take_back(
        &self,
        session: &SessionId,
        own: &Usage,
        before: Weight,
        after: Weight,
    ) -> Result<Self, Refused> {
        let back = self.carry(Some(before), after);
        let check = |currency, account: &Account, own, before: Charge, after: Charge| {
            let without = account.carry(before, Charge::default());
            match without.available(own) {
                Some(available) if after.reserved > available => Err(Refused::Budget {
                    session: session.clone(),
                    currency,
                    asked: after.reserved,
                    available,
                }),
                _ => Ok(()),
            }
        };
        check(
            TOKENS,
            &self.tokens,
            own.tokens(),
            before.tokens,
            after.tokens,
        )?;
        check(COST, &self.cost, own.cost_micros, before.cost, after.cost)?;
        Ok(back)
    }

    /// What the session could still spend; a child returns it when it ends.
    pub fn unspent(&self, own: &Usage) -> Allowance {
        Allowance {
            tokens: self.tokens.available(own.tokens()),
            cost_micros: self.cost.available(own.cost_micros),
        }
    }

    /// Refuses a new turn when nothing is left.
    pub fn check_left(&self, session: &SessionId, own: &Usage) -> Result<(), Refused> {
        for (currency, account, own) in [
            (TOKENS, &self.tokens, own.tokens()),
            (COST, &self.cost, own.cost_micros),
        ] {
            if let (Some(limit), Some(0)) = (account.limit, account.available(own)) {
                return Err(Refused::BudgetSpent {
                    session: session.clone(),
                    currency,
                    limit,
                });
            }
        }
        Ok(())
    }
}

fn share(
    session: &SessionId,
    currency: Currency,
    parent: &Account,
    own: u64,
    asked: Option<u64>,
) -> Result<Option<u64>, Refused> {
    let refuse = |asked, available| Refused::Budget {
        session: session.clone(),
        currency,
        asked,
        available,
    };
    match (parent.available(own), asked) {
        (_, Some(0)) => Err(refuse(0, parent.available(own).unwrap_or(u64::MAX))),
        (None, asked) => Ok(asked),
        (Some(available), Some(asked)) if asked <= available => Ok(Some(asked)),
        (Some(available), None) if available / 2 > 0 => Ok(Some(available / 2)),
        (Some(0), _) => Err(Refused::BudgetSpent {
            session: session.clone(),
            currency,
            limit: parent.limit.unwrap_or(0),
        }),
        (Some(available), asked) => Err(refuse(asked.unwrap_or(1), available)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id() -> SessionId {
        "api-1".parse().unwrap()
    }

    fn tokens(n: u64) -> Allowance {
        Allowance {
            tokens: Some(n),
            cost_micros: None,
        }
    }

    fn spent(n: u64) -> Usage {
        Usage {
            input_tokens: n,
            ..Usage::default()
        }
    }

    /// A child as its parent sees it.
    #[derive(Clone, Copy, Debug)]
    struct Child {
        budget: Budget,
        usage: Usage,
        live: bool,
    }

    impl Child {
        fn weight(&self) -> Weight {
            self.budget.weight(&self.usage, self.live)
        }
    }

    #[test]
    fn a_share_is_taken_and_the_rest_returned() {
        let parent = Budget::new(tokens(100));
        let (parent, share) = parent.reserve(&id(), &spent(10), tokens(60)).unwrap();
        assert_eq!(share, tokens(60));
        assert_eq!(
            parent.reserve(&id(), &spent(10), tokens(31)),
            Err(Refused::Budget {
                session: id(),
                currency: TOKENS,
                asked: 31,
                available: 30
            })
        );
        let child = Budget::new(share);
        let (live, ended) = (
            child.weight(&spent(25), true),
            child.weight(&spent(25), false),
        );
        let parent = parent.carry(Some(live), ended);
        assert_eq!(parent.unspent(&spent(10)), tokens(65));
        assert_eq!(
            parent.tokens,
            Account {
                limit: Some(100),
                reserved: 0,
                children: 25
            }
        );
    }

    #[test]
    fn l8_a_child_that_took_too_much_gives_nothing_back_by_returning() {
        let (parent, share) = Budget::new(tokens(100))
            .reserve(&id(), &spent(0), tokens(50))
            .unwrap();
        let child = Budget::new(share);
        let at = |used: u64, live: bool| child.weight(&spent(used), live);
        // It spends 1000 of its 50: the parent feels it at once, when it ends, and when it would return.
        let parent = parent.carry(Some(at(0, true)), at(1000, true));
        assert_eq!(parent.unspent(&spent(0)), tokens(0));
        let parent = parent.carry(Some(at(1000, true)), at(1000, false));
        assert_eq!(
            parent.tokens,
            Account {
                limit: Some(100),
                reserved: 0,
                children: 1000
            }
        );
        assert!(
            parent
                .take_back(&id(), &spent(0), at(1000, false), at(1000, true))
                .is_err()
        );
    }

    #[test]
    fn a_limited_parent_never_has_an_unlimited_child() {
        let (_, child) = Budget::new(tokens(100))
            .reserve(&id(), &spent(0), Allowance::UNLIMITED)
            .unwrap();
        assert_eq!(child, tokens(50));
        assert!(
            Budget::new(tokens(1))
                .reserve(&id(), &spent(0), Allowance::UNLIMITED)
                .is_err()
        );
        assert!(
            Budget::new(tokens(9))
                .reserve(&id(), &spent(0), tokens(0))
                .is_err()
        );
    }

    #[test]
    fn amounts_are_shown_as_people_write_them() {
        for (micros, shown) in [
            (0, "$0"),
            (5_000_000, "$5"),
            (1_250_000, "$1.25"),
            (1, "$0.000001"),
        ] {
            assert_eq!(Currency::Cost.show(micros), shown);
        }
        assert_eq!(Currency::Tokens.show(7), "7 tokens");
    }

    proptest! {
        /// Make, spend (also too much), end and bring back in any order: the parent's account is always the
        /// sum of what its children weigh, and what is given out never exceeds what is there.
        #[test]
        fn l8_reservations_always_balance(
            limit in 1u64..1000,
            steps in prop::collection::vec((0u8..4, 0usize..6, 1u64..400), 0..40),
        ) {
            let mut parent = Budget::new(tokens(limit));
            let mut children: Vec<Child> = vec![];
            for (step, which, amount) in steps {
                let before = parent;
                if step == 0 {
                    if let Ok((after, share)) = parent.reserve(&id(), &spent(0), tokens(amount)) {
                        prop_assert!(after.tokens.taken(0) <= limit);
                        parent = after;
                        children.push(Child { budget: Budget::new(share), usage: spent(0), live: true });
                    }
                } else if let Some(child) = children.get_mut(which) {
                    let old = child.weight();
                    match step {
                        1 if child.live => child.usage = child.usage.plus(spent(amount)),
                        2 => child.live = false,
                        3 if !child.live => {
                            let back = Child { live: true, ..*child };
                            match parent.take_back(&id(), &spent(0), old, back.weight()) {
                                Ok(after) => {
                                    prop_assert!(after.tokens.taken(0) <= limit);
                                    *child = back;
                                }
                                Err(_) => prop_assert!(before == parent),
                            }
                        }
                        _ => {}
                    }
                    parent = parent.carry(Some(old), child.weight());
                }
                let held: u64 = children.iter().map(|c| c.weight().tokens.reserved).sum();
                let charged: u64 = children.iter().map(|c| c.weight().tokens.spent).sum();
                prop_assert_eq!((parent.tokens.reserved, parent.tokens.children), (held, charged));
            }
        }
    }
}
