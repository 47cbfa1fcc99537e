//! Makes the clients of a bucket from settings.

use std::sync::Arc;
use std::time::Duration;

use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use skein_transcript::{Error, Result};

use super::Bucket;
use crate::io::TIER;
use crate::settings::{BucketIdentity, BucketProvider, BucketSettings, Location};

/// A host that accepts no connection within this time is down.
const CONNECT: Duration = Duration::from_secs(5);

pub(super) fn bucket(settings: &BucketSettings) -> Result<Bucket> {
    let Location::Bucket {
        provider,
        bucket,
        prefix,
    } = &settings.location
    else {
        return Err(Error::Bug("a folder is not a bucket".into()));
    };
    // A process has one provider of cryptography; a second installation fails harmlessly.
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
    provider: BucketProvider,
    bucket: &str,
    settings: &BucketSettings,
    retries: usize,
) -> Result<Arc<dyn ObjectStore>> {
    match provider {
        BucketProvider::S3 => s3(bucket, settings, retries),
        BucketProvider::Gcs => gcs(bucket, settings, retries),
        BucketProvider::Azure => azure(bucket, settings, retries),
    }
}

fn retry(settings: &BucketSettings, retries: usize) -> RetryConfig {
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

fn options(settings: &BucketSettings, endpoint: Option<&str>) -> ClientOptions {
    let unencrypted = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
    ClientOptions::new()
        .with_timeout(settings.timeout)
        .with_connect_timeout(settings.timeout.min(CONNECT))
        .with_allow_http(unencrypted)
}

fn s3(bucket: &str, settings: &BucketSettings, retries: usize) -> Result<Arc<dyn ObjectStore>> {
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
    if settings.identity == BucketIdentity::Given && !known {
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
        // Not every store supports bulk deletes, and Skein deletes one object at a time.
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

/// The endpoint in the form of `object_store`: with the bucket in it for virtual hosts.
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
            reason: "the endpoint is not the address of a store".into(),
            hint: "write it as `https://HOST:PORT`, without keys".into(),
        });
    };
    Ok(match addressing {
        crate::settings::Addressing::VirtualHost if !host.starts_with(&format!("{bucket}.")) => {
            format!("{scheme}://{bucket}.{host}")
        }
        _ => endpoint,
    })
}

fn gcs(bucket: &str, settings: &BucketSettings, retries: usize) -> Result<Arc<dyn ObjectStore>> {
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
    if settings.identity == BucketIdentity::Given && !known {
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
        "check the file that GOOGLE_APPLICATION_CREDENTIALS names",
    )
}

fn azure(bucket: &str, settings: &BucketSettings, retries: usize) -> Result<Arc<dyn ObjectStore>> {
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
    if settings.identity == BucketIdentity::Given && !known {
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
        reason: "no credentials are set".into(),
        hint: format!("{hint}, or use the machine's own identity"),
    }
}

/// Omits the cause, because it may contain secrets from the settings.
fn built<T: ObjectStore>(
    client: object_store::Result<T>,
    hint: &str,
) -> Result<Arc<dyn ObjectStore>> {
    match client {
        Ok(client) => Ok(Arc::new(client)),
        Err(_) => Err(Error::Misconfigured {
            tier: TIER,
            reason: "the client cannot be made from these settings".into(),
            hint: hint.into(),
        }),
    }
}
