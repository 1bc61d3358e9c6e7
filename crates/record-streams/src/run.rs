//! Sending until somebody says stop.

use crate::error::Error;
use crate::follow::Follower;
use crate::kafka::Kafka;
use crate::message::{Form, Message, Taken};
use crate::nats::Nats;
use crate::place::Place;
use crate::target::{Access, Target};
use names::Pattern;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Bytes and messages that are sent before the broker has to have said that it has them.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_MESSAGES: usize = 4_000;
/// How often a recording is looked at that had nothing new: its writer gives what it has to the disk each 50 ms.
const LOOK: Duration = Duration::from_millis(25);
/// How often the place is written while messages are taken.
const KEEP: Duration = Duration::from_secs(1);
/// Between two attempts at a broker that does not answer, at first and at most.
const RETRY: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Where a recording is sent from that was never sent there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Start {
    /// Its first record.
    #[default]
    Beginning,
    /// Records that come from now on.
    Now,
}

/// What is sent where.
#[derive(Debug)]
pub struct Config {
    /// Folder of the recording.
    pub folder: PathBuf,
    /// The broker.
    pub target: Target,
    /// The login at the broker.
    pub access: Access,
    /// How messages are written.
    pub form: Form,
    /// Patterns of the items that are sent; none: all.
    pub items: Vec<Pattern>,
    /// Where to begin.
    pub start: Start,
    /// Ends when the recording has ended and all of it was sent.
    pub until_end: bool,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Messages that were sent, and taken.
    pub sent: u64,
    /// Messages that the broker had already: they were sent again.
    pub known: u64,
    /// Messages that are longer than the broker takes, and were left out.
    pub too_long: u64,
    /// Records that the recording let go of (retention) before they were taken.
    pub removed: u64,
    /// Records of the recording that are behind what was taken.
    pub behind: u64,
    /// Why nothing is taken now.
    pub trouble: Option<String>,
}

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
        }
    }

    async fn send(&self, messages: &[Message]) -> Result<Taken, String> {
        match self {
            Self::Nats(nats) => nats.send(messages).await,
            Self::Kafka(kafka) => kafka.send(messages).await,
        }
    }
}

/// Sends until `stop` says so. A broker that cannot be reached is tried again; `tell` hears about each turn how far it is.
///
/// # Errors
/// The recording or the place cannot be read or written.
pub fn run(config: &Config, stop: &dyn Fn() -> bool, tell: &mut dyn FnMut(&Progress)) -> Result<Progress, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Runtime)?;
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
    retry: Duration,
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
        Ok(Self { config, follower, place, kept, progress: Progress::default(), broker: None, retry: RETRY })
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
                    self.progress.too_long += taken.too_long;
                    (self.progress.trouble, self.retry) = (None, RETRY);
                    self.follower.taken();
                    return self.keep(false);
                }
                Err(what) => {
                    self.broker = None;
                    let error = Error::Broker { target: self.config.target.to_string(), what };
                    self.progress.trouble = Some(error.to_string());
                    tell(&self.progress);
                    self.rest(stop).await;
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

    /// Waits before the next attempt, each time longer.
    async fn rest(&mut self, stop: &dyn Fn() -> bool) {
        let end = Instant::now() + self.retry;
        self.retry = (self.retry * 2).min(RETRY_MAX);
        while !stop() && Instant::now() < end {
            tokio::time::sleep(LOOK).await;
        }
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
