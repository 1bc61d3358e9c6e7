//! An object store: a bucket of S3, or a folder. An object is there when it is whole.

use crate::error::Error;
use crate::http::Connector;
use crate::target::{Access, Target};
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Name;
use object_store::{ObjectStore, ObjectStoreExt as _, PutPayload, RetryConfig};
use std::io::Read as _;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A store that does not answer for so long is taken for lost.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often somebody is asked whether to stop.
const LOOK: Duration = Duration::from_millis(25);
/// An object is sent in parts of so many bytes; S3 wants 5 MB at least and takes 10,000 parts.
const PART: usize = 16 << 20;
/// The library tries again so often by itself, within so long.
const RETRIES: usize = 2;
const RETRY_MAX: Duration = Duration::from_secs(5);
/// The region of a server that has none, as S3-compatible ones mostly do.
const REGION: &str = "us-east-1";

/// Why an object is not there.
#[derive(Debug)]
pub(crate) enum Failed {
    /// Somebody has said stop.
    Stopped,
    /// The store cannot be reached, or refuses; the text is its answer.
    Trouble(String),
}

impl From<object_store::Error> for Failed {
    fn from(error: object_store::Error) -> Self {
        Self::Trouble(error.to_string())
    }
}

/// A place for objects.
pub(crate) struct Objects<'a> {
    store: Arc<dyn ObjectStore>,
    prefix: Name,
    stop: &'a dyn Fn() -> bool,
}

impl<'a> Objects<'a> {
    /// Opens a store; nothing is sent yet. A folder is made if it is not there, a bucket is not. What takes long asks `stop` meanwhile.
    ///
    /// # Errors
    /// The target is none, or the folder cannot be made.
    pub(crate) fn open(target: &Target, access: &Access, stop: &'a dyn Fn() -> bool) -> Result<Self, Failed> {
        let (store, prefix): (Arc<dyn ObjectStore>, Name) = match target {
            Target::S3 { bucket, prefix } => {
                let prefix = Name::parse(prefix).map_err(|e| Failed::Trouble(e.to_string()))?;
                (Arc::new(s3(bucket, access)?), prefix)
            }
            Target::Folder { path } => {
                std::fs::create_dir_all(path).map_err(|e| Failed::Trouble(e.to_string()))?;
                (Arc::new(LocalFileSystem::new_with_prefix(path)?.with_fsync(true)), Name::ROOT)
            }
            Target::Nats { .. } | Target::Kafka { .. } => {
                return Err(Failed::Trouble("it is a broker, and no store of objects".to_owned()));
            }
        };
        Ok(Self { store, prefix, stop })
    }

    /// Whether there is an object.
    pub(crate) async fn has(&self, name: &str) -> Result<bool, Failed> {
        let name = self.name(name)?;
        let head = async {
            match self.store.head(&name).await {
                Ok(_) => Ok(true),
                Err(object_store::Error::NotFound { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        };
        self.in_time(head).await
    }

    /// Puts an object in the place of what has its name.
    pub(crate) async fn put(&self, name: &str, content: Vec<u8>) -> Result<(), Failed> {
        let name = self.name(name)?;
        self.in_time(self.store.put(&name, PutPayload::from(content))).await.map(drop)
    }

    /// Puts a file as an object, in parts if it is long. Nobody sees it before its last part is there.
    pub(crate) async fn put_file(&self, name: &str, path: &Path) -> Result<(), Failed> {
        let trouble = |e: std::io::Error| Failed::Trouble(format!("{}: {e}", path.display()));
        let mut file = std::fs::File::open(path).map_err(trouble)?;
        let mut part = || -> Result<Vec<u8>, Failed> {
            let mut bytes = Vec::new();
            file.by_ref().take(PART as u64).read_to_end(&mut bytes).map_err(trouble)?;
            Ok(bytes)
        };
        let first = part()?;
        if first.len() < PART {
            return self.put(name, first).await;
        }
        let name = self.name(name)?;
        let mut upload = self.in_time(self.store.put_multipart(&name)).await?;
        let sent = async {
            let mut next = first;
            while !next.is_empty() {
                self.in_time(upload.put_part(PutPayload::from(next))).await?;
                next = part()?;
            }
            self.in_time(upload.complete()).await.map(drop)
        };
        let sent = sent.await;
        if sent.is_err() {
            // Parts that stay where this fails are seen by nobody; the bucket's rule for unfinished uploads removes them.
            let _ = tokio::time::timeout(RETRY_MAX, upload.abort()).await;
        }
        sent
    }

    fn name(&self, name: &str) -> Result<Name, Failed> {
        let below = if self.prefix.as_ref().is_empty() { name.to_owned() } else { format!("{}/{name}", self.prefix) };
        Name::parse(below).map_err(|e| Failed::Trouble(e.to_string()))
    }

    /// Waits for the store's answer, unless somebody says stop.
    async fn in_time<T>(&self, work: impl Future<Output = object_store::Result<T>>) -> Result<T, Failed> {
        let mut work = pin!(work);
        let end = Instant::now() + PATIENCE;
        loop {
            match tokio::time::timeout(LOOK, &mut work).await {
                Ok(done) => return Ok(done?),
                Err(_) if (self.stop)() => return Err(Failed::Stopped),
                Err(_) if Instant::now() >= end => {
                    return Err(Failed::Trouble(format!("no answer within {} s", PATIENCE.as_secs())));
                }
                Err(_) => {}
            }
        }
    }
}

/// A bucket: what is not said here is taken from the environment, as AWS's own programs do (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, ...), or from the
/// machine's role.
fn s3(bucket: &str, access: &Access) -> Result<impl ObjectStore, Failed> {
    let retry = RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_MAX, ..RetryConfig::default() };
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry).with_allow_http(true);
    if let Some((id, secret)) = &access.login {
        builder = builder.with_access_key_id(id).with_secret_access_key(secret);
    }
    if let Some(endpoint) = &access.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    let is_known = ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().any(|name| std::env::var_os(name).is_some());
    match &access.region {
        Some(region) => builder = builder.with_region(region),
        None if !is_known => builder = builder.with_region(REGION),
        None => {}
    }
    let connector = Connector::new(access).map_err(Failed::Trouble)?;
    Ok(builder.with_http_connector(connector).build()?)
}

/// Puts files of a folder as objects, each under its path below the folder; tells how many.
///
/// # Errors
/// The store cannot be reached, or refuses; what was put before stays. [`Error::Stopped`]: `stop` has said so.
pub fn put_files(
    target: &Target,
    access: &Access,
    folder: &Path,
    files: &[std::path::PathBuf],
    stop: &dyn Fn() -> bool,
) -> Result<u64, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Runtime)?;
    let put = async {
        let objects = Objects::open(target, access, stop)?;
        for path in files {
            objects.put_file(&name_below(folder, path), path).await?;
        }
        Ok(files.len() as u64)
    };
    runtime.block_on(put).map_err(|failed| match failed {
        Failed::Stopped => Error::Stopped,
        Failed::Trouble(what) => Error::Broker { target: target.to_string(), what },
    })
}

/// The path of a file below a folder, as objects are named.
pub(crate) fn name_below(folder: &Path, path: &Path) -> String {
    let below = path.strip_prefix(folder).unwrap_or(path);
    below.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}
