//! Idempotency keys.

/// Sent as `Idempotency-Key`. The daemon acts once per key and replays its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// A key chosen by the caller; the daemon checks its form.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// A new key.
    pub fn random() -> Self {
        let mut bits = [0u8; 16];
        getrandom::fill(&mut bits).expect("the operating system has randomness");
        Self(bits.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}
