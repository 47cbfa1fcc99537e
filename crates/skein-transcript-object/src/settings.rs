//! Where the cold tier is and how to get there, as the composition root gives it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use skein_domain::Invalid;
use skein_transcript::{Cold, Result};

use crate::folder::Folder;
use crate::name::is_part;

/// Written as an absolute path, `file:///PATH`, `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or
/// `az://CONTAINER/PREFIX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    Folder(PathBuf),
    Bucket {
        provider: Provider,
        bucket: String,
        /// Without `/` at its ends; may be empty.
        prefix: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    S3,
    Gcs,
    Azure,
}

impl Provider {
    const ALL: [(&'static str, Self); 3] = [
        ("s3://", Self::S3),
        ("gs://", Self::Gcs),
        ("az://", Self::Azure),
    ];

    pub(crate) fn scheme(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, provider)| *provider == self)
            .map_or("", |(scheme, _)| scheme)
    }

    /// The feature it is built in with.
    #[cfg(not(all(feature = "s3", feature = "gcs", feature = "azure")))]
    pub(crate) fn feature(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gcs => "gcs",
            Self::Azure => "azure",
        }
    }
}

impl FromStr for Location {
    type Err = Invalid;

    fn from_str(location: &str) -> std::result::Result<Self, Invalid> {
        for (scheme, provider) in Provider::ALL {
            if let Some(rest) = location.strip_prefix(scheme) {
                return bucket(provider, rest);
            }
        }
        let path = Path::new(location.strip_prefix("file://").unwrap_or(location));
        if path.is_absolute() {
            return Ok(Self::Folder(path.to_owned()));
        }
        let expected = "expected an absolute path, `s3://BUCKET/PREFIX`, `gs://…` or `az://…`";
        Err(Invalid::new(
            "cold tier",
            &without_secrets(location),
            expected,
        ))
    }
}

fn bucket(provider: Provider, rest: &str) -> std::result::Result<Location, Invalid> {
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let prefix = prefix.trim_matches('/');
    let named = |part: &str| {
        (1..=255).contains(&part.len())
            && !part.starts_with('.')
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    if is_part(bucket) && (prefix.is_empty() || prefix.split('/').all(named)) {
        let (bucket, prefix) = (bucket.to_owned(), prefix.to_owned());
        return Ok(Location::Bucket {
            provider,
            bucket,
            prefix,
        });
    }
    let written = format!("{}{}", provider.scheme(), without_secrets(rest));
    let expected = "expected the name of a bucket and plain folders; keys are given beside it";
    Err(Invalid::new("cold tier", &written, expected))
}

/// Somebody may have written `s3://KEY:SECRET@BUCKET`.
fn without_secrets(text: &str) -> String {
    text.rsplit_once('@')
        .map_or_else(|| text.to_owned(), |(_, rest)| format!("…@{rest}"))
}

/// How a bucket is named in requests to S3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addressing {
    /// `https://HOST/BUCKET/KEY`, which every store understands.
    #[default]
    Path,
    /// `https://BUCKET.HOST/KEY`.
    VirtualHost,
}

/// Who we are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// Whoever the variables name. Without any, opening is refused.
    #[default]
    Given,
    /// The machine's own, which its provider's metadata service tells.
    Machine,
}

#[derive(Clone)]
pub struct Settings {
    pub location: Location,
    /// Of a store that is not the provider's own: `https://HOST:PORT`. With `http://` nothing is encrypted
    /// on its way.
    pub endpoint: Option<String>,
    pub region: Option<String>,
    pub addressing: Addressing,
    pub identity: Identity,
    /// Of one request, from its beginning to the end of its answer.
    pub timeout: Duration,
    /// How often a request that may go through later is made in all.
    pub attempts: usize,
    variables: Vec<(String, String)>,
}

impl Settings {
    pub fn new(location: Location) -> Self {
        Self {
            location,
            endpoint: None,
            region: None,
            addressing: Addressing::default(),
            identity: Identity::default(),
            timeout: Duration::from_secs(60),
            attempts: 4,
            variables: vec![],
        }
    }

    /// Variables as the provider's own tools know them: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
    /// `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL`, `GOOGLE_…`, `AZURE_…`. Others are left out, so a
    /// whole environment can be given. What is set in the fields goes first.
    #[must_use]
    pub fn variables(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let ours = |name: &str| {
            ["AWS_", "GOOGLE_", "AZURE_"]
                .iter()
                .any(|provider| name.starts_with(provider))
        };
        self.variables
            .extend(variables.into_iter().filter(|(name, _)| ours(name)));
        self
    }

    #[cfg(feature = "remote")]
    pub(crate) fn given(&self) -> &[(String, String)] {
        &self.variables
    }

    /// Opens the tier. Makes a folder that is not there; asks a bucket nothing yet, see [`crate::probe`].
    pub fn open(&self) -> Result<Arc<dyn Cold>> {
        match &self.location {
            Location::Folder(root) => Ok(Arc::new(Folder::open(root)?)),
            #[cfg(feature = "remote")]
            Location::Bucket { .. } => Ok(Arc::new(crate::bucket::Bucket::open(self)?)),
            #[cfg(not(feature = "remote"))]
            Location::Bucket { provider, .. } => Err(not_built(*provider)),
        }
    }
}

#[cfg(not(all(feature = "s3", feature = "gcs", feature = "azure")))]
pub(crate) fn not_built(provider: Provider) -> skein_transcript::Error {
    skein_transcript::Error::Misconfigured {
        tier: crate::io::TIER,
        reason: format!(
            "this program was built without `{}` locations",
            provider.scheme()
        ),
        hint: format!(
            "build it with the feature `{}`, or use a folder",
            provider.feature()
        ),
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self
            .variables
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        f.debug_struct("Settings")
            .field("location", &self.location)
            .field("endpoint", &self.endpoint.as_deref().map(without_secrets))
            .field("region", &self.region)
            .field("addressing", &self.addressing)
            .field("identity", &self.identity)
            .field("timeout", &self.timeout)
            .field("attempts", &self.attempts)
            .field("variables", &names)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_parsed() {
        let bucket = |prefix: &str| Location::Bucket {
            provider: Provider::S3,
            bucket: "my.bucket-1".into(),
            prefix: prefix.into(),
        };
        assert_eq!("s3://my.bucket-1".parse(), Ok(bucket("")));
        assert_eq!("s3://my.bucket-1/".parse(), Ok(bucket("")));
        assert_eq!("s3://my.bucket-1/a/B_1/".parse(), Ok(bucket("a/B_1")));
        assert_eq!("file:///a/b".parse(), Ok(Location::Folder("/a/b".into())));
        assert_eq!("/a/b".parse(), Ok(Location::Folder("/a/b".into())));
        for bad in [
            "",
            "a/b",
            "s3://",
            "s3:///a",
            "s3://b/..",
            "s3://b/a//c",
            "s3://B",
            "ftp://a/b",
        ] {
            assert!(bad.parse::<Location>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn l14_secrets_are_not_shown() {
        let error = "s3://AKIA:hush@bucket"
            .parse::<Location>()
            .unwrap_err()
            .to_string();
        assert!(
            !error.contains("hush") && !error.contains("AKIA"),
            "{error}"
        );
        let location = "s3://bucket".parse().unwrap();
        let variables = [("AWS_SECRET_ACCESS_KEY", "hush"), ("HOME", "/home/me")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut settings = Settings::new(location).variables(variables);
        settings.endpoint = Some("https://me:hush@host".into());
        let shown = format!("{settings:?}");
        assert!(
            !shown.contains("hush") && !shown.contains("HOME"),
            "{shown}"
        );
        assert!(shown.contains("AWS_SECRET_ACCESS_KEY"), "{shown}");
    }
}
