//! The location of the cold tier and how to reach it, from the composition root.

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
        provider: BucketProvider,
        bucket: String,
        /// Without `/` at its ends; may be empty.
        prefix: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketProvider {
    S3,
    Gcs,
    Azure,
}

impl BucketProvider {
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
}

impl FromStr for Location {
    type Err = Invalid;

    fn from_str(location: &str) -> std::result::Result<Self, Invalid> {
        for (scheme, provider) in BucketProvider::ALL {
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

fn bucket(provider: BucketProvider, rest: &str) -> std::result::Result<Location, Invalid> {
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
    let expected = "expected the name of a bucket and plain folders; keys are set separately";
    Err(Invalid::new("cold tier", &written, expected))
}

/// A user may have written `s3://KEY:SECRET@BUCKET`.
fn without_secrets(text: &str) -> String {
    text.rsplit_once('@')
        .map_or_else(|| text.to_owned(), |(_, rest)| format!("…@{rest}"))
}

/// How requests to S3 name the bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addressing {
    /// `https://HOST/BUCKET/KEY`, which every store understands.
    #[default]
    Path,
    /// `https://BUCKET.HOST/KEY`.
    VirtualHost,
}

/// Where credentials come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BucketIdentity {
    /// From the variables. Without any, opening is refused.
    #[default]
    Given,
    /// The machine's own identity, from its provider's metadata service.
    Machine,
}

#[derive(Clone)]
pub struct BucketSettings {
    pub location: Location,
    /// Of a store that is not the provider's own: `https://HOST:PORT`. `http://` sends data unencrypted.
    pub endpoint: Option<String>,
    pub region: Option<String>,
    pub addressing: Addressing,
    pub identity: BucketIdentity,
    /// Of one request, until its answer is complete.
    pub timeout: Duration,
    /// Total attempts of a request that may succeed later.
    pub attempts: usize,
    variables: Vec<(String, String)>,
}

impl BucketSettings {
    pub fn new(location: Location) -> Self {
        Self {
            location,
            endpoint: None,
            region: None,
            addressing: Addressing::default(),
            identity: BucketIdentity::default(),
            timeout: Duration::from_secs(60),
            attempts: 4,
            variables: vec![],
        }
    }

    /// Variables of the provider's own tools: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`,
    /// `AWS_REGION`, `AWS_ENDPOINT_URL`, `GOOGLE_…`, `AZURE_…`. Others are ignored, so the caller may pass a whole
    /// environment. The fields take precedence.
    #[must_use]
    pub fn variables(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let known = |name: &str| {
            ["AWS_", "GOOGLE_", "AZURE_"]
                .iter()
                .any(|provider| name.starts_with(provider))
        };
        self.variables
            .extend(variables.into_iter().filter(|(name, _)| known(name)));
        self
    }

    pub(crate) fn given(&self) -> &[(String, String)] {
        &self.variables
    }

    /// Opens the tier. Makes a missing folder; sends a bucket no request yet, see [`crate::probe`].
    pub fn open(&self) -> Result<Arc<dyn Cold>> {
        match &self.location {
            Location::Folder(root) => Ok(Arc::new(Folder::open(root)?)),
            Location::Bucket { .. } => Ok(Arc::new(crate::bucket::Bucket::open(self)?)),
        }
    }
}

impl fmt::Debug for BucketSettings {
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

    /// An account that opens nothing: only opening a real object would need its key.
    const GOOGLE: &str = r#"{"private_key": "none", "private_key_id": "1", "client_email": "a@b", "disable_oauth": true}"#;

    #[test]
    fn locations_are_parsed() {
        let bucket = |prefix: &str| Location::Bucket {
            provider: BucketProvider::S3,
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
    fn l13_every_provider_opens_and_names_the_variables_it_lacks() {
        let cases = [
            (
                "s3://bucket",
                "AWS_ACCESS_KEY_ID",
                vec![("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", "s")],
            ),
            (
                "gs://bucket",
                "GOOGLE_APPLICATION_CREDENTIALS",
                vec![("GOOGLE_SERVICE_ACCOUNT_KEY", GOOGLE)],
            ),
            (
                "az://bucket",
                "AZURE_STORAGE_ACCOUNT_NAME",
                vec![
                    ("AZURE_STORAGE_ACCOUNT_NAME", "a"),
                    ("AZURE_STORAGE_ACCOUNT_KEY", "a2V5"),
                ],
            ),
        ];
        for (location, lacks, variables) in cases {
            let settings = BucketSettings::new(location.parse().unwrap());
            let error = settings.open().unwrap_err();
            let hints = error.hints().join("; ");
            assert!(hints.contains(lacks), "{location}: {error}; {hints}");
            let variables = variables
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()));
            let opened = settings.variables(variables).open();
            assert!(opened.is_ok(), "{location}: {opened:?}");
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
        let mut settings = BucketSettings::new(location).variables(variables);
        settings.endpoint = Some("https://me:hush@host".into());
        let shown = format!("{settings:?}");
        assert!(
            !shown.contains("hush") && !shown.contains("HOME"),
            "{shown}"
        );
        assert!(shown.contains("AWS_SECRET_ACCESS_KEY"), "{shown}");
    }
}
