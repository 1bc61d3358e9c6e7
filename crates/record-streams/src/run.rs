//! Sending until somebody says stop.

use crate::config::{Config, Progress, Start};
use crate::dataset;
use crate::error::Error;
use crate::follow::Follower;
use crate::kafka::Kafka;
use crate::message::{Message, Taken};
use crate::nats::Nats;
use crate::place::Place;
use crate::retry::Retry;
use crate::target::{Access, Target};
use std::time::{Duration, Instant};

/// Bytes and messages that are sent before the broker has to have said that it has them.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_MESSAGES: usize = 4_000;
/// How often a recording is looked at that had nothing new: its writer gives what it has to the disk each 50 ms.
const LOOK: Duration = Duration::from_millis(25);
/// How often the place is written while messages are taken.
const KEEP: Duration = Duration::from_secs(1);

/// A connection to a broker.
enum Broker {
    Nats(Box<Nats>),
    Kafka(Kafka),
}

impl Broker {
    async fn connect(target: &Target, access: &Access) -> Result<Self, String> {
        match target {
            Target::Nats { servers, stream, tls } => {
                Nats::connect(servers, stream, *tls, access).await.map(|nats| Self::Nats(Box::new(nats)))
            }
            Target::Kafka { brokers, topic } => Kafka::connect(brokers, topic, access).await.map(Self::Kafka),
            Target::S3 { .. } | Target::Folder { .. } => Err("an object store takes no messages".to_owned()),
        }
    }

    async fn send(&self, messages: &[Message]) -> Result<Taken, String> {
        match self {
            Self::Nats(nats) => nats.send(messages).await,
            Self::Kafka(kafka) => kafka.send(messages).await,
        }
    }
}

/// Sends until `stop` says so. A target that cannot be reached is tried again; `tell` hears about each turn how far it is.
///
/// # Errors
/// The recording or the place cannot be read or written.
pub fn run(config: &Config, stop: &dyn Fn() -> bool, tell: &mut dyn FnMut(&Progress)) -> Result<Progress, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Runtime)?;
    if config.target.takes_objects() {
        return runtime.block_on(dataset::send(config, stop, tell));
    }
    runtime.block_on(Sending::begin(config)?.go_on(stop, tell))
}

struct Sending<'c> {
    config: &'c Config,
    follower: Follower,
    place: Place,
    /// Content of the place, and since when.
    kept: (u64, Instant),
    progress: Progress,
    broker: Option<Broker>,
    retry: Retry,
}

impl<'c> Sending<'c> {
    fn begin(config: &'c Config) -> Result<Self, Error> {
        let mut follower = Follower::open(&config.folder, config.form, config.items.clone())?;
        let place = Place::new(&config.folder, &config.target.to_string());
        let next = match (place.read(follower.recording())?, config.start) {
            (Some(next), _) => next,
            (None, Start::Beginning) => 0,
            (None, Start::Now) => follower.end(),
        };
        follower.go_on_at(next);
        let kept = (next, Instant::now());
        Ok(Self { config, follower, place, kept, progress: Progress::default(), broker: None, retry: Retry::new() })
    }

    async fn go_on(mut self, stop: &dyn Fn() -> bool, tell: &mut dyn FnMut(&Progress)) -> Result<Progress, Error> {
        while !stop() {
            let messages = self.follower.messages(BATCH_BYTES, BATCH_MESSAGES)?;
            self.progress.behind = self.follower.end().saturating_sub(self.follower.next());
            self.progress.removed = self.follower.removed();
            tell(&self.progress);
            if messages.is_empty() {
                self.keep(false)?;
                if self.config.until_end && self.follower.is_over() {
                    break;
                }
                tokio::time::sleep(LOOK).await;
                continue;
            }
            self.deliver(&messages, stop, tell).await?;
        }
        self.keep(true)?;
        self.progress.behind = self.follower.end().saturating_sub(self.follower.next());
        tell(&self.progress);
        Ok(self.progress)
    }

    /// Sends messages until they are taken, or somebody says stop.
    async fn deliver(
        &mut self,
        messages: &[Message],
        stop: &dyn Fn() -> bool,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<(), Error> {
        while !stop() {
            match self.try_once(messages).await {
                Ok(taken) => {
                    self.progress.sent += taken.new;
                    self.progress.known += taken.known;
                    self.progress.gone += taken.gone;
                    self.progress.too_long += taken.too_long;
                    self.progress.trouble = None;
                    self.retry.worked();
                    self.follower.taken();
                    return self.keep(false);
                }
                Err(what) => {
                    self.broker = None;
                    let error = Error::Broker { target: self.config.target.to_string(), what };
                    self.progress.trouble = Some(error.to_string());
                    tell(&self.progress);
                    self.retry.rest(stop).await;
                }
            }
        }
        Ok(())
    }

    async fn try_once(&mut self, messages: &[Message]) -> Result<Taken, String> {
        let broker = match self.broker.take() {
            Some(broker) => broker,
            None => Broker::connect(&self.config.target, &self.config.access).await?,
        };
        let taken = broker.send(messages).await?;
        self.broker = Some(broker);
        Ok(taken)
    }

    /// Writes the place, if it is time.
    fn keep(&mut self, at_once: bool) -> Result<(), Error> {
        let next = self.follower.next();
        if next != self.kept.0 && (at_once || self.kept.1.elapsed() >= KEEP) {
            self.place.write(self.follower.recording(), next)?;
            self.kept = (next, Instant::now());
        }
        Ok(())
    }
}
