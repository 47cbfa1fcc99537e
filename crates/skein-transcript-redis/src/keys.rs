//! Names of keys. All keys of one transcript carry the tag `{tenant/transcript}`, so a cluster stores them on one
//! node; neither part can contain a brace or a slash.

use skein_domain::TenantId;
use skein_transcript::TranscriptId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisKeys {
    /// The transcript itself.
    pub main: String,
    /// The tokens of its stages; each stage has its own key, see [`RedisKeys::stage`].
    pub stages: String,
    /// With expiry: the version of the last head, which outlives the transcript.
    pub was: String,
}

impl RedisKeys {
    pub fn new(prefix: &str, tenant: &TenantId, id: &TranscriptId) -> Self {
        let main = format!("{prefix}{{{tenant}/{id}}}");
        Self {
            stages: format!("{main}:stages"),
            was: format!("{main}:was"),
            main,
        }
    }

    pub fn stage(&self, token: &str) -> String {
        format!("{}:stage:{token}", self.main)
    }
}

/// A SCAN pattern for the main keys of a tenant.
pub(crate) fn pattern(prefix: &str, tenant: &TenantId) -> String {
    let mut pattern = String::new();
    for c in format!("{prefix}{{{tenant}/").chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '^' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern + "*}"
}

/// The transcript of a main key.
pub(crate) fn transcript(prefix: &str, tenant: &TenantId, key: &str) -> Option<TranscriptId> {
    let rest = key.strip_prefix(prefix)?.strip_prefix('{')?;
    let rest = rest.strip_prefix(tenant.as_str())?.strip_prefix('/')?;
    rest.strip_suffix('}')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l7_keys_of_other_tenants_are_not_taken_for_ours() {
        let (tenant, id) = (TenantId::default_tenant(), "api-7".parse().unwrap());
        let keys = RedisKeys::new("skein:", &tenant, &id);
        assert_eq!(keys.main, "skein:{default/api-7}");
        assert_eq!(transcript("skein:", &tenant, &keys.main), Some(id));
        let other: TenantId = "default2".parse().unwrap();
        for foreign in [
            keys.stages.as_str(),
            &keys.was,
            &keys.stage("x}"),
            "skein:{default2/a}",
        ] {
            assert_eq!(transcript("skein:", &tenant, foreign), None, "{foreign}");
        }
        assert_eq!(transcript("skein:", &other, &keys.main), None);
    }

    #[test]
    fn prefixes_are_taken_literally() {
        let tenant = TenantId::default_tenant();
        assert_eq!(pattern("a*[b]?:", &tenant), r"a\*\[b\]\?:{default/*}");
    }
}
