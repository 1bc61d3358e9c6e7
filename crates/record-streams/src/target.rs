//! Where messages go, as people write it.

use std::fmt;
use std::path::PathBuf;

/// The port of a NATS server that names none.
const NATS_PORT: u16 = 4222;
/// The port of a Kafka broker that names none.
const KAFKA_PORT: u16 = 9092;

/// A broker, and what it calls the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A stream of NATS `JetStream`; it is made if it is not there.
    Nats {
        /// Servers, `HOST:PORT`, any of a cluster.
        servers: Vec<String>,
        /// Name of the stream, and what its subjects begin with.
        stream: String,
        /// Whether the connection is encrypted.
        tls: bool,
    },
    /// A topic of Kafka; it is made with one partition if it is not there.
    Kafka {
        /// Brokers, `HOST:PORT`, any of a cluster.
        brokers: Vec<String>,
        /// Name of the topic.
        topic: String,
    },
    /// A bucket of S3, or of what speaks as it does.
    S3 {
        /// Name of the bucket, which is there.
        bucket: String,
        /// What names of objects begin with; empty: nothing.
        prefix: String,
    },
    /// A folder, to whose files the same happens as to objects.
    Folder {
        /// The folder; it is made if it is not there.
        path: PathBuf,
    },
}

impl Target {
    /// Whether it takes tables as objects, and not messages.
    pub const fn takes_objects(&self) -> bool {
        matches!(self, Self::S3 { .. } | Self::Folder { .. })
    }
}

/// The sender's login.
#[derive(Clone, Default)]
pub struct Access {
    /// User and password, if the broker asks for them; of S3 the id of the key and the secret one.
    pub login: Option<(String, String)>,
    /// File with the certificates (PEM) that a server's must be signed by, beside those of the system.
    pub certificates: Option<PathBuf>,
    /// Where S3 is, if it is not Amazon's: `http://localhost:9000`.
    pub endpoint: Option<String>,
    /// The region of a bucket.
    pub region: Option<String>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.login.as_ref().map(|(user, _)| user);
        f.debug_struct("Access")
            .field("user", &user)
            .field("certificates", &self.certificates)
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .finish()
    }
}

/// Why a text names no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It begins otherwise.
    #[error(
        "{0:?} names no target: nats://HOST:PORT/STREAM, tls://HOST:PORT/STREAM (NATS, encrypted), kafka://HOST:PORT/TOPIC, s3://BUCKET/PREFIX or \
         file:///FOLDER"
    )]
    Scheme(String),
    /// Nothing is behind the hosts.
    #[error("{0:?} says no stream or topic: nats://localhost:4222/FEED")]
    NoName(String),
    /// The name has characters that the broker refuses.
    #[error("{0:?}: names of streams and topics have letters, digits, - and _ alone (of topics also .)")]
    Name(String),
    /// A host or port is none.
    #[error("{0:?}: {1:?} is no HOST:PORT")]
    Host(String, String),
    /// A bucket or a prefix is none.
    #[error("{0:?}: {1}: s3://BUCKET/PREFIX, the bucket of 3 to 63 small letters, digits, - and .")]
    Bucket(String, String),
    /// A folder is not named from the root on.
    #[error("{0:?}: the folder is named from the root on: file:///var/lake")]
    Folder(String),
    /// User and password stand in it, which everybody can see who sees the processes of the host.
    #[error("the login of {0} does not belong on the command line: --broker-user NAME --broker-password-file FILE")]
    Login(String),
}

impl Target {
    /// Reads `nats://HOST:PORT,HOST:PORT/STREAM`, `tls://...` or `kafka://.../TOPIC`, whose ports may be left out, `s3://BUCKET/PREFIX` or `file:///FOLDER`.
    ///
    /// # Errors
    /// The text is none of these.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| TargetError::Scheme(text.to_owned()))?;
        let (is_kafka, tls, port) = match scheme {
            "nats" => (false, false, NATS_PORT),
            "tls" => (false, true, NATS_PORT),
            "kafka" => (true, false, KAFKA_PORT),
            "s3" => return bucket(text, rest),
            "file" if rest.starts_with('/') => return Ok(Self::Folder { path: rest.into() }),
            "file" => return Err(TargetError::Folder(text.to_owned())),
            _ => return Err(TargetError::Scheme(text.to_owned())),
        };
        let (hosts, name) = rest.split_once('/').unwrap_or((rest, ""));
        if let Some((_, host)) = hosts.rsplit_once('@') {
            return Err(TargetError::Login(format!("{scheme}://{host}")));
        }
        if name.is_empty() {
            return Err(TargetError::NoName(text.to_owned()));
        }
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || is_kafka && c == '.';
        if !name.chars().all(is_allowed) || name == "." || name == ".." {
            return Err(TargetError::Name(name.to_owned()));
        }
        let places = hosts.split(',').map(|host| place(host, port)).collect::<Option<Vec<_>>>();
        let places = places.ok_or_else(|| TargetError::Host(text.to_owned(), hosts.to_owned()))?;
        let name = name.to_owned();
        Ok(if is_kafka {
            Self::Kafka { brokers: places, topic: name }
        } else {
            Self::Nats { servers: places, stream: name, tls }
        })
    }
}

/// `BUCKET/PREFIX`.
fn bucket(text: &str, rest: &str) -> Result<Target, TargetError> {
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if let Some((_, name)) = bucket.rsplit_once('@') {
        return Err(TargetError::Login(format!("s3://{name}")));
    }
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(is_allowed) {
        return Err(TargetError::Bucket(text.to_owned(), "no name of a bucket".to_owned()));
    }
    let parsed = object_store::path::Path::parse(prefix);
    let prefix = parsed.map_err(|e| TargetError::Bucket(text.to_owned(), e.to_string()))?.to_string();
    Ok(Target::S3 { bucket: bucket.to_owned(), prefix })
}

/// `HOST:PORT` of a host that may have left out its port.
fn place(host: &str, port: u16) -> Option<String> {
    let (name, port) = match host.rsplit_once(':') {
        // The last colon of an address in brackets may be one within it.
        Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()?),
        _ => (host, port),
    };
    let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
    is_name.then(|| format!("{name}:{port}"))
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nats { servers, stream, tls } => {
                write!(f, "{}://{}/{stream}", if *tls { "tls" } else { "nats" }, servers.join(","))
            }
            Self::Kafka { brokers, topic } => write!(f, "kafka://{}/{topic}", brokers.join(",")),
            Self::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
            Self::Folder { path } => write!(f, "file://{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_shown_alike() {
        for (text, shown) in [
            ("nats://localhost/FEED", "nats://localhost:4222/FEED"),
            ("tls://a,b:5/X", "tls://a:4222,b:5/X"),
            ("kafka://[::1]:9/ticks.all", "kafka://[::1]:9/ticks.all"),
            ("kafka://[::1]/t", "kafka://[::1]:9092/t"),
            ("s3://ticks", "s3://ticks"),
            ("s3://ticks.2026/a b/c/", "s3://ticks.2026/a b/c"),
            ("file:///var/lake", "file:///var/lake"),
        ] {
            let target = Target::parse(text).expect(text);
            assert_eq!(target.to_string(), shown);
            assert_eq!(Target::parse(shown), Ok(target));
        }
    }

    #[test]
    fn what_is_no_target_is_told_with_what_is() {
        for (text, part) in [
            ("http://a/b", "kafka://HOST:PORT/TOPIC"),
            ("localhost:4222", "nats://HOST:PORT/STREAM"),
            ("nats://localhost", "says no stream"),
            ("nats://localhost/a.b", "names of streams"),
            ("kafka://localhost/a b", "names of streams"),
            ("nats://:4222/x", "no HOST:PORT"),
            ("nats://a:x/x", "no HOST:PORT"),
            ("nats://me:secret@a/x", "--broker-password-file"),
            ("s3://me:secret@bucket/x", "--broker-password-file"),
            ("s3://", "no name of a bucket"),
            ("s3://Ticks/x", "no name of a bucket"),
            ("s3://ticks/a//b", "s3://BUCKET/PREFIX"),
            ("file://lake", "file:///var/lake"),
        ] {
            let error = Target::parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
