//! Making the clients of a bucket out of settings.

use std::sync::Arc;
use std::time::Duration;

use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use skein_transcript::{Error, Result};

use super::Bucket;
use crate::io::TIER;
#[cfg(not(all(feature = "s3", feature = "gcs", feature = "azure")))]
use crate::settings::not_built;
use crate::settings::{Identity, Location, Provider, Settings};

/// A host that does not even take the connection is down.
const CONNECT: Duration = Duration::from_secs(5);

pub(super) fn bucket(settings: &Settings) -> Result<Bucket> {
    let Location::Bucket {
        provider,
        bucket,
        prefix,
    } = &settings.location
    else {
        return Err(Error::Bug("a folder is no bucket".into()));
    };
    // The process has one provider of cryptography; whoever comes second finds it in place.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let retries = settings.attempts.saturating_sub(1);
    let client = |retries| client(*provider, bucket, settings, retries);
    Ok(Bucket {
        label: [provider.scheme(), bucket, "/", prefix].concat(),
        prefix: prefix.clone(),
        reads: client(retries)?,
        writes: client(0)?,
        timeout: settings.timeout,
        attempts: settings.attempts,
    })
}

fn client(
    provider: Provider,
    bucket: &str,
    settings: &Settings,
    retries: usize,
) -> Result<Arc<dyn ObjectStore>> {
    match provider {
        #[cfg(feature = "s3")]
        Provider::S3 => s3(bucket, settings, retries),
        #[cfg(feature = "gcs")]
        Provider::Gcs => gcs(bucket, settings, retries),
        #[cfg(feature = "azure")]
        Provider::Azure => azure(bucket, settings, retries),
        #[cfg(not(all(feature = "s3", feature = "gcs", feature = "azure")))]
        other => Err(not_built(other)),
    }
}

fn retry(settings: &Settings, retries: usize) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(2),
            base: 2.0,
        },
        max_retries: retries,
        retry_timeout: settings.timeout * u32::try_from(retries + 1).unwrap_or(1),
    }
}

fn options(settings: &Settings, endpoint: Option<&str>) -> ClientOptions {
    let unencrypted = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
    ClientOptions::new()
        .with_timeout(settings.timeout)
        .with_connect_timeout(settings.timeout.min(CONNECT))
        .with_allow_http(unencrypted)
}

#[cfg(feature = "s3")]
fn s3(bucket: &str, settings: &Settings, retries: usize) -> Result<Arc<dyn ObjectStore>> {
    use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key, S3ConditionalPut};

    use crate::settings::Addressing;

    let mut builder = AmazonS3Builder::new();
    for (name, value) in settings.given() {
        if let Ok(key) = name.to_ascii_lowercase().parse::<Key>() {
            builder = builder.with_config(key, value);
        }
    }
    let given = |key| builder.get_config_value(&key);
    let known = [
        Key::AccessKeyId,
        Key::WebIdentityTokenFile,
        Key::ContainerCredentialsRelativeUri,
    ]
    .into_iter()
    .chain([Key::ContainerCredentialsFullUri])
    .any(|key| given(key).is_some());
    if settings.identity == Identity::Given && !known {
        return Err(anonymous("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"));
    }
    let endpoint = settings.endpoint.clone();
    let endpoint = endpoint
        .or_else(|| given(Key::S3Endpoint))
        .or_else(|| given(Key::Endpoint));
    let endpoint = endpoint
        .map(|endpoint| checked(endpoint, bucket, settings.addressing))
        .transpose()?;
    builder = builder
        .with_bucket_name(bucket)
        .with_virtual_hosted_style_request(settings.addressing == Addressing::VirtualHost)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        // Not every store takes deletes in bulk, and we delete one at a time.
        .with_disable_bulk_delete(true)
        .with_retry(retry(settings, retries))
        .with_client_options(options(settings, endpoint.as_deref()));
    if let Some(region) = &settings.region {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = endpoint {
        builder = builder.with_config(Key::S3Endpoint, endpoint);
    }
    built(
        builder.build(),
        "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the endpoint",
    )
}

/// An endpoint as `object_store` wants it: with the bucket in it, if it is to be there.
#[cfg(feature = "s3")]
fn checked(
    endpoint: String,
    bucket: &str,
    addressing: crate::settings::Addressing,
) -> Result<String> {
    let parts = endpoint.split_once("://").filter(|(scheme, host)| {
        matches!(*scheme, "http" | "https")
            && !host.is_empty()
            && !host.contains(['@', '?', '#', ' '])
    });
    let Some((scheme, host)) = parts else {
        return Err(Error::Misconfigured {
            tier: TIER,
            reason: "the endpoint is no address of a store".into(),
            hint: "write it as `https://HOST:PORT`, and keys beside it".into(),
        });
    };
    Ok(match addressing {
        crate::settings::Addressing::VirtualHost if !host.starts_with(&format!("{bucket}.")) => {
            format!("{scheme}://{bucket}.{host}")
        }
        _ => endpoint,
    })
}

#[cfg(feature = "gcs")]
fn gcs(bucket: &str, settings: &Settings, retries: usize) -> Result<Arc<dyn ObjectStore>> {
    use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey as Key};

    let mut builder = GoogleCloudStorageBuilder::new();
    for (name, value) in settings.given() {
        if let Ok(key) = name.to_ascii_lowercase().parse::<Key>() {
            builder = builder.with_config(key, value);
        }
    }
    let known = [
        Key::ServiceAccount,
        Key::ServiceAccountKey,
        Key::ApplicationCredentials,
    ]
    .into_iter()
    .any(|key| builder.get_config_value(&key).is_some());
    if settings.identity == Identity::Given && !known {
        return Err(anonymous(
            "set GOOGLE_APPLICATION_CREDENTIALS to a file with a key",
        ));
    }
    let builder = builder
        .with_bucket_name(bucket)
        .with_retry(retry(settings, retries))
        .with_client_options(options(settings, None));
    built(
        builder.build(),
        "check the file GOOGLE_APPLICATION_CREDENTIALS names",
    )
}

#[cfg(feature = "azure")]
fn azure(bucket: &str, settings: &Settings, retries: usize) -> Result<Arc<dyn ObjectStore>> {
    use object_store::azure::{AzureConfigKey as Key, MicrosoftAzureBuilder};

    let mut builder = MicrosoftAzureBuilder::new();
    for (name, value) in settings.given() {
        if let Ok(key) = name.to_ascii_lowercase().parse::<Key>() {
            builder = builder.with_config(key, value);
        }
    }
    let known = [
        Key::AccessKey,
        Key::ClientSecret,
        Key::SasKey,
        Key::Token,
        Key::FederatedTokenFile,
    ]
    .into_iter()
    .any(|key| builder.get_config_value(&key).is_some());
    if settings.identity == Identity::Given && !known {
        let hint = "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY";
        return Err(anonymous(hint));
    }
    let endpoint = settings
        .endpoint
        .clone()
        .or_else(|| builder.get_config_value(&Key::Endpoint));
    if let Some(endpoint) = &endpoint {
        builder = builder.with_endpoint(endpoint.clone());
    }
    let builder = builder
        .with_container_name(bucket)
        .with_retry(retry(settings, retries))
        .with_client_options(options(settings, endpoint.as_deref()));
    built(
        builder.build(),
        "check AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    )
}

fn anonymous(hint: &str) -> Error {
    Error::Misconfigured {
        tier: TIER,
        reason: "it is not said who we are".into(),
        hint: format!("{hint}, or let it be the machine's own identity"),
    }
}

/// The cause is left out: it may repeat what it was given.
fn built<T: ObjectStore>(
    client: object_store::Result<T>,
    hint: &str,
) -> Result<Arc<dyn ObjectStore>> {
    match client {
        Ok(client) => Ok(Arc::new(client)),
        Err(_) => Err(Error::Misconfigured {
            tier: TIER,
            reason: "no client can be made out of what was given".into(),
            hint: hint.into(),
        }),
    }
}
