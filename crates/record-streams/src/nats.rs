//! NATS `JetStream`.

use crate::message::{Message, Taken, subject};
use crate::target::Access;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::{Context, stream};
use async_nats::{ConnectOptions, HeaderMap};
use std::time::Duration;

/// A broker that says nothing for so long is taken for lost.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that headers and subject of a message may take of what a server allows.
const HEAD_MAX: usize = 4 << 10;

/// A connection to a stream.
pub(crate) struct Nats {
    context: Context,
    stream: String,
    /// Bytes of the longest message that the server takes.
    payload_max: usize,
}

impl Nats {
    /// Connects, and makes the stream if it is not there: all subjects that begin with its name, in files.
    ///
    /// # Errors
    /// What the server or the system says.
    pub(crate) async fn connect(servers: &[String], stream: &str, tls: bool, access: &Access) -> Result<Self, String> {
        let mut options = ConnectOptions::new().name("quoteway").connection_timeout(PATIENCE).require_tls(tls);
        if let Some((user, password)) = &access.login {
            options = options.user_and_password(user.clone(), password.clone());
        }
        if let Some(path) = &access.certificates {
            options = options.add_root_certificates(path.clone());
        }
        let client = options.connect(servers).await.map_err(|error| error.to_string())?;
        let payload_max = client.server_info().max_payload.saturating_sub(HEAD_MAX);
        let context = ContextBuilder::new().timeout(PATIENCE).build(client);
        let config = stream::Config {
            name: stream.to_owned(),
            subjects: vec![format!("{stream}.>")],
            ..stream::Config::default()
        };
        context.get_or_create_stream(config).await.map_err(|error| format!("stream {stream}: {error}"))?;
        Ok(Self { context, stream: stream.to_owned(), payload_max })
    }

    /// Sends messages and waits until the stream has them all. Gives how many it had already, and how many are too long for the server.
    ///
    /// # Errors
    /// What the server or the system says; some of the messages may have been taken.
    pub(crate) async fn send(&self, messages: &[Message]) -> Result<Taken, String> {
        let mut taken = Taken::default();
        let mut acks = Vec::with_capacity(messages.len());
        for message in messages {
            if message.payload.len() > self.payload_max {
                taken.too_long += 1;
                continue;
            }
            let mut headers = HeaderMap::new();
            headers.insert(NATS_MESSAGE_ID, message.id());
            for (name, value) in message.headers() {
                headers.insert(name, value);
            }
            let subject = subject(&self.stream, message.item.as_ref());
            let sent = self.context.publish_with_headers(subject, headers, message.payload.clone().into()).await;
            acks.push(sent.map_err(|error| error.to_string())?);
        }
        let mut known = Vec::new();
        for ack in acks {
            let ack = ack.await.map_err(|error| error.to_string())?;
            taken.new += u64::from(!ack.duplicate);
            if ack.duplicate {
                known.push(ack.sequence);
            }
        }
        taken.known = known.len() as u64;
        taken.gone = self.gone(&known).await?;
        Ok(taken)
    }

    /// How many of these messages the stream once had and has no more. Whoever purges a stream does not purge its ids: nats-server 2.12.2 acknowledges
    /// a message as known, by a number that nothing has, until its window of duplicates is over or it is started again.
    async fn gone(&self, known: &[u64]) -> Result<u64, String> {
        if known.is_empty() {
            return Ok(0);
        }
        let stream = self.context.get_stream(&self.stream).await.map_err(|error| error.to_string())?;
        let first = stream.cached_info().state.first_sequence;
        Ok(known.iter().filter(|&&sequence| sequence < first).count() as u64)
    }
}
