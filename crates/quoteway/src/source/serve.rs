//! A market source as a whole: what `quoteway demo` starts as its provider, and `sink-driven-src -Q` publishes.

use super::generator::{Generator, GeneratorConfig};
use super::provider::{Provider, ProviderConfig};
use super::publisher::{MarketFeed, Publisher};
use super::replay::market::{ReplayConfig, TickReplay};
use super::session::{Calendar, Nanos};
use super::{Event, InstrumentId, MarketSource, Model};
use crate::agents::rssl_io::RsslIo;
use net::tcp::SocketOptions;
use rssl::ServerConfig;
use rwf::dictionary::Dictionary;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a market source publishes.
#[derive(Clone, Debug)]
pub struct SourceSettings {
    /// Name of the service.
    pub service: String,
    /// Recorded data: a directory of tick files. Names that are not in it come from the generator.
    pub data: Option<PathBuf>,
    /// How recorded data is played.
    pub replay: ReplayConfig,
    /// Seed of the generated market.
    pub seed: u64,
    /// Multiplies the event rates of generated instruments.
    pub rate: f64,
    /// Every market price update carries a time stamp (`TIM_TRK_1`, microseconds of the monotonic clock).
    pub stamps: bool,
}

impl Default for SourceSettings {
    /// `DIRECT_FEED`, generated, at its own rate.
    fn default() -> Self {
        Self {
            service: "DIRECT_FEED".to_owned(),
            data: None,
            replay: ReplayConfig::default(),
            seed: 1,
            rate: 1.0,
            stamps: true,
        }
    }
}

/// Recorded instruments first, generated ones for every other name.
pub struct Composite {
    replay: Option<TickReplay>,
    /// Instruments of the replay; the generator's ids begin behind them.
    recorded: u32,
    /// `None` refuses names that are not recorded.
    generator: Option<Generator>,
}

impl Composite {
    /// Opens what the settings name. `progress` hears what is done.
    ///
    /// # Errors
    /// Recorded data that is asked for cannot be read, or there is none.
    pub fn open(settings: &SourceSettings, progress: &mut dyn FnMut(&str)) -> io::Result<Self> {
        let replay = match &settings.data {
            None => None,
            Some(path) => Some(open_replay(path, settings.replay, progress)?),
        };
        let config =
            GeneratorConfig { seed: settings.seed, rate: settings.rate, calendar: Calendar::new(net::clock::wall()) };
        let recorded = replay.as_ref().map_or(0, |r| r.names().count() as u32);
        Ok(Self { replay, recorded, generator: Some(Generator::new(config)) })
    }

    /// Refuses names that are not recorded.
    #[must_use]
    pub fn without_generator(mut self) -> Self {
        self.generator = None;
        self
    }

    /// Names that are recorded.
    pub fn recorded(&self) -> Vec<String> {
        self.replay.iter().flat_map(TickReplay::names).map(str::to_owned).collect()
    }

    fn split(&mut self, id: InstrumentId) -> Option<(&mut dyn MarketSource, InstrumentId)> {
        if id.0 < self.recorded {
            return self.replay.as_mut().map(|r| (r as &mut dyn MarketSource, id));
        }
        let inner = InstrumentId(id.0 - self.recorded);
        self.generator.as_mut().map(|g| (g as &mut dyn MarketSource, inner))
    }
}

fn open_replay(path: &Path, config: ReplayConfig, progress: &mut dyn FnMut(&str)) -> io::Result<TickReplay> {
    // The folder of all data sets is as good as the one of the ticks.
    let nested = path.join("us-equity-ticks");
    let folder = if nested.is_dir() { &nested } else { path };
    let found = TickReplay::open(folder, config, progress)
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", folder.display())))?;
    found.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("{}: no recorded ticks there", folder.display()))
    })
}

impl MarketSource for Composite {
    fn find(&mut self, name: &str) -> Option<InstrumentId> {
        if let Some(id) = self.replay.as_mut().and_then(|r| r.find(name)) {
            return Some(id);
        }
        let id = self.generator.as_mut()?.find(name)?;
        Some(InstrumentId(id.0 + self.recorded))
    }

    fn offers(&self, id: InstrumentId, model: Model) -> bool {
        if id.0 < self.recorded {
            return self.replay.as_ref().is_some_and(|r| r.offers(id, model));
        }
        self.generator.as_ref().is_some_and(|g| g.offers(InstrumentId(id.0 - self.recorded), model))
    }

    fn image(&mut self, id: InstrumentId, model: Model, part: usize, out: &mut Vec<u8>) -> bool {
        self.split(id).is_some_and(|(source, id)| source.image(id, model, part, out))
    }

    fn watch(&mut self, id: InstrumentId, model: Model, on: bool) {
        if let Some((source, id)) = self.split(id) {
            source.watch(id, model, on);
        }
    }

    fn due(&self) -> Option<Nanos> {
        let replay = self.replay.as_ref().and_then(MarketSource::due);
        let generated = self.generator.as_ref().and_then(MarketSource::due);
        replay.into_iter().chain(generated).min()
    }

    fn advance(&mut self, now: Nanos, limit: usize, sink: &mut dyn FnMut(Event<'_>)) {
        if let Some(replay) = &mut self.replay {
            replay.advance(now, limit, sink);
        }
        let recorded = self.recorded;
        if let Some(generator) = &mut self.generator {
            generator.advance(now, limit, &mut |event| {
                sink(Event { instrument: InstrumentId(event.instrument.0 + recorded), ..event });
            });
        }
    }
}

/// Listens on `addr` and publishes until `stop` is set: the body of a thread. `ready` gets the address that was bound.
///
/// # Errors
/// A text for the user: the address cannot be used, or recorded data cannot be read.
pub fn serve(
    addr: SocketAddr,
    settings: &SourceSettings,
    stop: &Arc<AtomicBool>,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), String> {
    let source = Composite::open(settings, &mut |line| tracing::info!("{line}")).map_err(|e| format!("source: {e}"))?;
    let config = ProviderConfig { service: settings.service.clone(), ..ProviderConfig::default() };
    let service_id = config.service_id;
    let provider = Provider::new(config, Arc::new(Dictionary::builtin()));
    let mut io = RsslIo::new(net::clock::now()).map_err(|e| format!("source: {e}"))?;
    let options = SocketOptions { no_delay: true, ..SocketOptions::default() };
    let (_, bound) = io
        .listen(addr, &options, Arc::new(ServerConfig::default()))
        .map_err(|e| format!("source cannot listen on {addr}: {e}"))?;
    let mut publisher =
        Publisher::new(provider, MarketFeed::new(source, service_id, net::clock::now()).stamped(settings.stamps));
    ready(bound);
    while !stop.load(Ordering::Acquire) {
        let now = net::clock::now();
        let wake = publisher.due(now, &mut io).unwrap_or(Nanos::MAX).min(now + STOP_EVERY);
        publisher.turn(&mut io, wake).map_err(|e| format!("source: {e}"))?;
    }
    Ok(())
}

/// How often the stop flag is looked at when nothing happens.
const STOP_EVERY: Nanos = 100_000_000;
