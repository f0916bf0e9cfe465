//! The client of a bucket: made from the URL, the environment and the options, once a process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use object_store::client::ClientConfigKey;
use object_store::multipart::MultipartStore;
use object_store::{ObjectStore, RetryConfig};
use tokio::sync::Semaphore;

use super::super::RemoteOptions;
use super::location::{Kind, Location};
use super::transport::{Connector, Counters};
use super::version::Version;
use crate::error::{Error, Result};

type Store = (Arc<dyn ObjectStore>, Option<Arc<dyn MultipartStore>>);

/// A client with its connections. They belong to the process that made them: a forked child makes another one.
#[derive(Debug)]
pub(super) struct Connection {
    /// The process it belongs to.
    pub(super) process: u32,
    /// What requests go to.
    pub(super) store: Arc<dyn ObjectStore>,
    /// The same, for uploads in parts, where the kind of bucket has them.
    pub(super) parts: Option<Arc<Parts>>,
    /// Bounds the requests under way.
    pub(super) permits: Semaphore,
    versions: Mutex<HashMap<String, Version>>,
}

/// A [`MultipartStore`] that can be shown.
pub(super) struct Parts(pub(super) Arc<dyn MultipartStore>);

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Parts")
    }
}

impl Connection {
    /// Makes the client. Nothing is sent yet.
    pub(super) fn new(
        location: &Location,
        options: &RemoteOptions,
        counters: &Arc<Counters>,
    ) -> Result<Self> {
        let connector = Connector { counters: Arc::clone(counters) };
        let (store, parts) = build(location, options, connector)?;
        Ok(Self {
            process: std::process::id(),
            store,
            parts: parts.map(|p| Arc::new(Parts(p))),
            permits: Semaphore::new(options.max_requests.clamp(1, Semaphore::MAX_PERMITS)),
            versions: Mutex::default(),
        })
    }

    /// The versions of the objects of which parts have been read.
    pub(super) fn versions(&self) -> MutexGuard<'_, HashMap<String, Version>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn build(location: &Location, options: &RemoteOptions, connector: Connector) -> Result<Store> {
    match location.kind {
        Kind::S3 => s3(location, options, connector),
        Kind::Gcs => gcs(location, options, connector),
        Kind::Azure => azure(location, options, connector),
        Kind::Http => http(location, options, connector),
    }
}

/// Retries are ours alone (`retry.rs`): they know what has arrived, and one loop has one deadline.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, retry_timeout: Duration::ZERO, ..RetryConfig::default() }
}

/// Settings of the HTTP client. There is no limit to a whole request, since objects have any size: attempts end
/// when nothing arrives (`stall_timeout`) or the deadline is over.
fn client_settings(options: &RemoteOptions) -> [(ClientConfigKey, String); 3] {
    [
        (ClientConfigKey::Timeout, "1day".to_owned()),
        (ClientConfigKey::ConnectTimeout, format!("{}ms", options.connect_timeout.as_millis())),
        (ClientConfigKey::UserAgent, concat!("celltile/", env!("CARGO_PKG_VERSION")).to_owned()),
    ]
}

/// Whether the variables name an endpoint without TLS, which is then allowed.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn plain_endpoint(options: &RemoteOptions, names: &[&str]) -> bool {
    names.iter().any(|name| {
        let set = options.settings.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        set.or_else(|| std::env::var(name.to_ascii_uppercase()).ok())
            .is_some_and(|value| value.starts_with("http://"))
    })
}

fn unusable(location: &Location, error: &dyn std::fmt::Display) -> Error {
    let reason = location.redact(&error.to_string());
    Error::Io { path: location.show(""), action: "connect", source: std::io::Error::other(reason) }
}

/// Settings that the kind of bucket does not know are refused.
fn unknown(name: &str) -> Error {
    Error::Argument {
        what: "storage setting",
        found: format!("{name:?}"),
        expected: "the lower-case name of one of the bucket's environment variables".to_owned(),
    }
}

/// What is left of a kind of bucket that this build does not have.
#[cfg(not(all(feature = "s3", feature = "gcs", feature = "azure", feature = "http")))]
fn left_out(location: &Location, feature: &'static str) -> Error {
    Error::Argument {
        what: "URL",
        found: location.show(""),
        expected: format!("a build of celltile with the feature {feature:?}"),
    }
}

/// One builder a kind of bucket, all with the same steps but without a common trait.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
macro_rules! configure {
    ($builder:expr, $key:ty, $client:path, $options:expr, $connector:expr) => {{
        let mut builder = $builder.with_retry(no_retries()).with_http_connector($connector);
        for (key, value) in client_settings($options) {
            builder = builder.with_config($client(key), value);
        }
        for (name, value) in &$options.settings {
            let key: $key = name.parse().map_err(|_| unknown(name))?;
            builder = builder.with_config(key, value);
        }
        builder
    }};
}

#[cfg(feature = "s3")]
fn s3(location: &Location, options: &RemoteOptions, connector: Connector) -> Result<Store> {
    use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
    let builder = AmazonS3Builder::from_env()
        .with_bucket_name(&location.bucket)
        // One DELETE an object is what every server knows.
        .with_disable_bulk_delete(true);
    let mut builder = configure!(builder, AmazonS3ConfigKey, AmazonS3ConfigKey::Client, options, connector);
    if plain_endpoint(options, &["aws_endpoint_url_s3", "aws_endpoint_url", "aws_endpoint"]) {
        builder = builder.with_allow_http(true);
    }
    let store = Arc::new(builder.build().map_err(|e| unusable(location, &e))?);
    Ok((Arc::clone(&store) as _, Some(store as _)))
}

#[cfg(not(feature = "s3"))]
fn s3(location: &Location, _: &RemoteOptions, _: Connector) -> Result<Store> {
    Err(left_out(location, "s3"))
}

#[cfg(feature = "gcs")]
fn gcs(location: &Location, options: &RemoteOptions, connector: Connector) -> Result<Store> {
    use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
    let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(&location.bucket);
    let mut builder = configure!(builder, GoogleConfigKey, GoogleConfigKey::Client, options, connector);
    if plain_endpoint(options, &["google_base_url"]) {
        builder = builder.with_config(GoogleConfigKey::Client(ClientConfigKey::AllowHttp), "true");
    }
    let store = Arc::new(builder.build().map_err(|e| unusable(location, &e))?);
    Ok((Arc::clone(&store) as _, Some(store as _)))
}

#[cfg(not(feature = "gcs"))]
fn gcs(location: &Location, _: &RemoteOptions, _: Connector) -> Result<Store> {
    Err(left_out(location, "gcs"))
}

#[cfg(feature = "azure")]
fn azure(location: &Location, options: &RemoteOptions, connector: Connector) -> Result<Store> {
    use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
    let builder = MicrosoftAzureBuilder::from_env().with_url(&location.bucket);
    let mut builder = configure!(builder, AzureConfigKey, AzureConfigKey::Client, options, connector);
    if plain_endpoint(options, &["azure_storage_endpoint", "azure_endpoint"]) {
        builder = builder.with_allow_http(true);
    }
    let store = Arc::new(builder.build().map_err(|e| unusable(location, &e))?);
    Ok((Arc::clone(&store) as _, Some(store as _)))
}

#[cfg(not(feature = "azure"))]
fn azure(location: &Location, _: &RemoteOptions, _: Connector) -> Result<Store> {
    Err(left_out(location, "azure"))
}

#[cfg(feature = "http")]
fn http(location: &Location, options: &RemoteOptions, connector: Connector) -> Result<Store> {
    use object_store::http::HttpBuilder;
    let mut builder = HttpBuilder::new()
        .with_url(&location.bucket)
        .with_retry(no_retries())
        .with_http_connector(connector)
        .with_config(ClientConfigKey::AllowHttp, "true");
    for (key, value) in client_settings(options) {
        builder = builder.with_config(key, value);
    }
    for (name, value) in &options.settings {
        let key: ClientConfigKey = name.parse().map_err(|_| unknown(name))?;
        builder = builder.with_config(key, value);
    }
    Ok((Arc::new(builder.build().map_err(|e| unusable(location, &e))?), None))
}

#[cfg(not(feature = "http"))]
fn http(location: &Location, _: &RemoteOptions, _: Connector) -> Result<Store> {
    Err(left_out(location, "http"))
}
