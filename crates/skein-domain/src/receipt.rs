//! What is known of the delivery of one message.

use crate::id::{ReceiptId, SessionId};
use crate::text::{Key, Reason};
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    pub id: ReceiptId,
    pub session: SessionId,
    pub key: Option<Key>,
    pub text: Reason,
    pub state: Delivery,
    pub attempts: u32,
    pub history: Vec<(Delivery, Timestamp)>,
}

/// How far a message is known to have come. Never more than was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Delivery {
    /// Durable with us; an external program reads it from there.
    Accepted,
}

impl Delivery {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
        }
    }

    pub fn parse(value: &str) -> Option<Self> {
        (value == "accepted").then_some(Self::Accepted)
    }
}
