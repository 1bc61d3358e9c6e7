//! The event loop of `sink-driven-src`, and what it prints.

use super::args::{Args, Idle};
use super::catalogue::Catalogue;
use super::commands::{self, Command};
use super::load::{Load, LoadConfig};
use super::stream::Origin;
use crate::command_line::lines_of_input;
use crate::dump;
use crate::output::Output;
use crate::places::Places;
use crate::source::publisher::{Egress, Feed, MarketFeed, Publisher};
use crate::source::serve::{Composite, SourceSettings, VenueSettings, is_capture};
use crate::{names, table};
use anyhow::anyhow;
use feed::MarketSource;
use feed::datafile::DataFile;
use feed::pace::{Pacer, Rate};
use feed::provider::noninteractive::Offered;
use feed::provider::{Items, Post, Prank, Provider, ProviderConfig, SessionId};
use feed::records::RecordStream;
use feed::replay::ReplaySpeed;
use feed::replay::market::ReplayConfig;
use feed::replay::venue::VenueFile;
use measure::latency::{Latency, Summary};
use measure::observer::Observer;
use net::tcp::SocketOptions;
use rssl::ServerConfig;
use rssl_io::RsslIo;
use rwf::dictionary::Dictionary;
use rwf::msg::Domain;
use rwf::{DataState, State, StateCode, StreamState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;
/// Bytes of requests that are taken from a connection in a turn: those of some forty items, whose answers keep updates waiting for less than a tenth of a
/// millisecond. A turn that took what a socket holds had 12,000 closes in it, and no update for 7 ms.
const READ_MOST: usize = 2 << 10;
/// How often the wish to stop is looked at when nothing happens.
const STOP_EVERY: u64 = SECOND / 10;

/// Publishes until it is stopped.
///
/// # Errors
/// A text for the user.
pub fn run(args: &Args) -> anyhow::Result<()> {
    net::signal::install().map_err(|e| anyhow!("signals: {e}"))?;
    run_until(args, &|| net::signal::stop_requested() > 0, |_| {})
}

/// Publishes until `stop` says so; `ready` gets the address that was bound, when it listens.
///
/// # Errors
/// A text for the user.
pub fn run_until(args: &Args, stop: &dyn Fn() -> bool, ready: impl FnOnce(SocketAddr)) -> anyhow::Result<()> {
    let dictionary = dump::load_dictionary(args.dictionary.as_deref())?;
    let lock = args.lock.clone().unwrap_or_default();
    let mut config = ProviderConfig { service: args.service.clone(), lock, ..ProviderConfig::default() };
    let now = net::clock::now();
    let mut io = RsslIo::new(now).map_err(|e| anyhow!("no sockets: {e}"))?;
    let dictionary = Arc::new(dictionary);
    let source = match data_of(args, &dictionary)? {
        Data::Templates(catalogue) => {
            config.domains = catalogue.domains();
            let feed = LoadFeed::new(args, catalogue)?;
            return publish(args, &mut io, Provider::new(config, dictionary), feed, stop, ready);
        }
        Data::Stream(origin) => {
            let arrivals = origin.read(io.tcp().waker())?;
            let source = RecordStream::new(Arc::clone(&dictionary), arrivals, args.keep);
            config.domains = vec![Domain::MARKET_PRICE, Domain::SYMBOL_LIST];
            let feed = MarketFeed::new(source, config.service_id, now).stamped(args.timestamps || args.stamp_all);
            return publish(args, &mut io, Provider::new(config, dictionary), feed, stop, ready);
        }
        Data::Recorded(file) => Composite::of_recording(file, &settings_of(args, None), args.keep),
        Data::Market(path) => {
            let settings = settings_of(args, path);
            let generated = settings.data.is_none() || args.keep;
            Composite::open(&settings, generated, &mut |line| eprintln!("{line}"))?
        }
    };
    publish_source(args, source, Provider::new(config, dictionary), (io, now), stop, ready)
}

/// Publishes a source that was opened elsewhere, as `args` say, until `stop` says so.
///
/// # Errors
/// A text for the user.
pub fn publish_opened(
    args: &Args,
    source: Composite,
    stop: &dyn Fn() -> bool,
    ready: impl FnOnce(SocketAddr),
) -> anyhow::Result<()> {
    net::signal::install().map_err(|e| anyhow!("signals: {e}"))?;
    let dictionary = Arc::new(dump::load_dictionary(args.dictionary.as_deref())?);
    let config = ProviderConfig { service: args.service.clone(), ..ProviderConfig::default() };
    let now = net::clock::now();
    let io = RsslIo::new(now).map_err(|e| anyhow!("no sockets: {e}"))?;
    publish_source(args, source, Provider::new(config, dictionary), (io, now), stop, ready)
}

fn publish_source(
    args: &Args,
    source: Composite,
    provider: Provider,
    (mut io, now): (RsslIo, u64),
    stop: &dyn Fn() -> bool,
    ready: impl FnOnce(SocketAddr),
) -> anyhow::Result<()> {
    source.wake_with(&mut io).map_err(|e| anyhow!("no sockets: {e}"))?;
    let stamped = args.timestamps || args.stamp_all;
    let pacer = is_paced(args).then(|| Pacer::new(args.shape(), args.update_rate, now));
    let feed = MarketFeed::new(source, provider.config.service_id, now).stamped(stamped).paced(pacer);
    publish(args, &mut io, provider, feed, stop, ready)
}

/// What `-Q` names.
enum Data {
    /// Series that are published at the rate of `-U`.
    Templates(Catalogue),
    /// Messages with times of their own.
    Recorded(DataFile),
    /// Records of Marketfeed as they come.
    Stream(Origin),
    /// A market: recorded, or generated when there is no path.
    Market(Option<std::path::PathBuf>),
}

fn data_of(args: &Args, dictionary: &Dictionary) -> anyhow::Result<Data> {
    let reference =
        || Catalogue::reference(args.message_size(), args.stamp_all).map(Data::Templates).map_err(anyhow::Error::from);
    let Some(path) = &args.data_file else { return reference() };
    if path.as_os_str() == "market" {
        return Ok(Data::Market(None));
    }
    if path.as_os_str() == "pages" {
        return Ok(Data::Templates(Catalogue::pages(args.stamp_all)));
    }
    if let Some(origin) = Origin::of(path) {
        return Ok(Data::Stream(origin));
    }
    if path.file_name().is_some_and(|n| n == "sample.xml") && !path.exists() {
        // The file that came with the original holds the reference update, which is built in here.
        eprintln!("{} is not there; the reference updates are published, which it held", path.display());
        return reference();
    }
    if path.is_dir() || is_capture(path) || VenueFile::of(path, false).is_ok_and(|file| file.is_some()) {
        return Ok(Data::Market(Some(path.clone())));
    }
    let file = DataFile::open(path, dictionary)?;
    if file.skipped > 0 {
        eprintln!("{}: {} messages are not those of a source, and left out", path.display(), file.skipped);
    }
    if file.losses.kinds() > 0 {
        eprint!("{}: lost on the way from Marketfeed to RWF, by field:\n{}", path.display(), file.losses);
    }
    if file.is_timed() {
        return Ok(Data::Recorded(file));
    }
    let template = args.template_item.as_deref();
    let mut catalogue = Catalogue::of_file(
        &file,
        &path.display().to_string(),
        template,
        args.keep,
        args.message_size(),
        args.stamp_all,
    )?;
    catalogue.cycle = args.cycle;
    Ok(Data::Templates(catalogue))
}

/// Recorded data is played at a rate when one is given.
fn is_paced(args: &Args) -> bool {
    let is_recorded =
        args.data_file.as_ref().is_some_and(|path| !["market", "pages"].iter().any(|made| path.as_os_str() == *made));
    is_recorded && args.update_rate != Rate::Stopped
}

fn settings_of(args: &Args, data: Option<std::path::PathBuf>) -> SourceSettings {
    let pace = if args.speed > 0.0 && !is_paced(args) { ReplaySpeed::Scaled(args.speed) } else { ReplaySpeed::Unpaced };
    SourceSettings {
        service: args.service.clone(),
        replay: ReplayConfig { pace, repeat: args.cycle, pause: 0, ..ReplayConfig::default() },
        venue: VenueSettings::default(),
        start_on_open: args.start_on_open,
        seed: args.seed,
        rate: 1.0,
        stamps: args.timestamps || args.stamp_all,
        data,
    }
}

/// A feed that the tool can steer and report on.
trait Steered: Feed {
    /// Another rate.
    fn set_rate(&mut self, rate: Rate, now: u64) -> anyhow::Result<()>;

    /// What was due until now is forgotten: the service was down.
    fn resume(&mut self, now: u64);

    /// So many of the updates to come are numbered, and not sent.
    fn lose(&mut self, count: u64);

    /// What it did and how it is.
    fn figures(&mut self) -> Figures;

    /// What could not be read or told so far, for people.
    fn remarks(&self) -> Option<String> {
        None
    }

    /// Writes what was observed, if it was.
    ///
    /// # Errors
    /// It cannot be written; or what is published was not read whole.
    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

struct Figures {
    sent: u64,
    target: Rate,
    streams: usize,
    blocked: u64,
    skipped: u64,
    lateness: Latency,
}

fn publish<F: Steered>(
    args: &Args,
    io: &mut RsslIo,
    provider: Provider,
    feed: F,
    stop: &dyn Fn() -> bool,
    ready: impl FnOnce(SocketAddr),
) -> anyhow::Result<()> {
    let service = provider.config.service_id;
    let mut publisher = Publisher::new(provider, feed);
    let waker = io.tcp().waker();
    net::signal::wake(&waker);
    let commands = lines_of_input(waker);
    if let Some(server) = &args.nip {
        let names = names::parse_list(&args.items)?;
        let places = Places::of(server, "--nip")?;
        eprintln!("{} is published to {places}; ur RATE changes the update rate", args.service);
        let offered = names.into_iter().map(|name| Offered { service, domain: Domain::MARKET_PRICE, name });
        publisher.dial(places, socket_options(args), "sink-driven-src", offered.collect());
    } else {
        ready(listen(args, io)?);
    }
    let started = net::clock::now();
    let every = args.every().as_nanos() as u64;
    let mut printer =
        Printer { started, last_at: started, last_sent: 0, lines: 0, output: Output::default(), remarks: None };
    let mut total = Latency::new();
    let mut next_line = started + every;
    let end = args.seconds.map_or(u64::MAX, |s| started + (s * 1e9) as u64);
    let mut now = started;
    let mut delay = Duration::ZERO;
    while now < end && !stop() && !printer.output.is_gone() {
        let limit = next_line.min(end).min(now + STOP_EVERY);
        let due = publisher.due(now, io);
        let wake = match (args.idle, due) {
            // Nobody listens, or the sockets take no more: that is no wait for the next update.
            (_, None) => limit,
            (Idle::Block, Some(due)) => due.min(limit),
            (Idle::Yield | Idle::Spin, Some(_)) => now,
        };
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        now = publisher.turn(io, wake).map_err(|e| anyhow!("sockets: {e}"))?;
        if args.idle == Idle::Yield && due.is_some() {
            std::thread::yield_now();
        }
        if now >= next_line {
            next_line = (next_line + every).max(now + 1);
            printer.line(&mut publisher, now, &mut total);
            printer.remarks(&mut publisher);
        }
        while let Ok(command) = commands.try_recv() {
            delay = obey(&command, &mut publisher, io, now).unwrap_or(delay);
        }
    }
    printer.line(&mut publisher, now, &mut total);
    printer.remarks(&mut publisher);
    printer.output.line(&summary(args, &mut publisher, now - started, &total.summary()));
    printer.output.finish()?;
    publisher.feed().finish()
}

fn socket_options(args: &Args) -> SocketOptions {
    SocketOptions {
        no_delay: args.tcp_no_delay,
        send_buffer: Some(args.send_buffer).filter(|&b| b > 0),
        ..SocketOptions::default()
    }
}

fn listen(args: &Args, io: &mut RsslIo) -> anyhow::Result<SocketAddr> {
    let options = socket_options(args);
    let address = SocketAddr::new(args.bind, args.port);
    let (listener, bound) = io
        .listen(address, &options, Arc::new(ServerConfig::default()))
        .map_err(|e| anyhow!("cannot listen on {address}: {e}; choose another port with -N"))?;
    io.limit_reading(listener, READ_MOST);
    eprintln!("{} is published on {bound}; ur RATE changes the update rate", args.service);
    if !bound.ip().is_loopback() {
        eprintln!("open to all who reach this host: whoever connects is served (--bind 127.0.0.1 closes it)");
    }
    Ok(bound)
}

/// What a command does to the streams of an item, or of all; `None` if it is about something else.
fn prank_of(command: &Command) -> Option<(Option<&str>, Prank<'_>)> {
    let state = |stream, data, text| Prank::State(State::new(stream, data, StateCode::NONE, text));
    let (open, suspect) = (StreamState::OPEN, DataState::SUSPECT);
    let (name, prank) = match command {
        Command::Suspect(name) => (name, state(open, suspect, "suspect on command")),
        Command::Ok(name) => (name, state(open, DataState::OK, "good again")),
        Command::Close(name) => (name, state(StreamState::CLOSED, suspect, "closed on command")),
        Command::Recover(name) => (name, state(StreamState::CLOSED_RECOVER, suspect, "to be opened again")),
        Command::Image(name) => (name, Prank::Image),
        Command::Malformed(name) => (name, Prank::Malformed),
        _ => return None,
    };
    Some((name.as_deref(), prank))
}

fn turn_service<F: Steered>(publisher: &mut Publisher<F>, up: bool, now: u64) {
    if up {
        publisher.feed().resume(now);
    }
    publisher.set_service(up);
    eprintln!("the service is {}", if up { "up" } else { "down" });
}

/// Does what a line says. Returns the delay of all work from now on, if the line is about that.
fn obey<F: Steered>(line: &str, publisher: &mut Publisher<F>, io: &mut RsslIo, now: u64) -> Option<Duration> {
    let command = match Command::parse(line) {
        Ok(command) => command?,
        Err(text) => {
            eprintln!("{text}");
            return None;
        }
    };
    if let Some((name, prank)) = prank_of(&command) {
        eprintln!("{} streams", publisher.prank(name, prank));
        return None;
    }
    match &command {
        Command::UpdateRate(rate) => match publisher.feed().set_rate(*rate, now) {
            Ok(()) => eprintln!("update rate {rate}"),
            Err(text) => eprintln!("{text}"),
        },
        Command::Down => turn_service(publisher, false, now),
        Command::Up => turn_service(publisher, true, now),
        Command::Suspect(_)
        | Command::Ok(_)
        | Command::Close(_)
        | Command::Recover(_)
        | Command::Image(_)
        | Command::Malformed(_) => debug_assert!(false, "{command:?} is about streams"),
        Command::Gap(count) => {
            publisher.feed().lose(*count);
            eprintln!("{count} updates will be lost");
        }
        Command::Mute => {
            publisher.set_mute(true);
            eprintln!("item requests are not answered");
        }
        Command::Answer => {
            publisher.set_mute(false);
            eprintln!("item requests are answered");
        }
        Command::Hang(time) => {
            eprintln!("nothing is done for {} s", time.as_secs_f64());
            std::thread::sleep(*time);
        }
        Command::Delay(time) => {
            eprintln!("everything is late by up to {} s", time.as_secs_f64());
            return Some(*time);
        }
        Command::Cut => eprintln!("{} connections", publisher.cut(io)),
        Command::Status => {
            let counters = publisher.counters();
            let figures = publisher.feed().figures();
            eprintln!("{} streams, {} updates sent, {counters}", figures.streams, figures.sent);
        }
        Command::Help => eprintln!("{}", commands::HELP),
        Command::Quit => net::signal::request_stop(),
    }
    None
}

struct Printer {
    started: u64,
    last_at: u64,
    last_sent: u64,
    lines: u64,
    output: Output,
    /// What was said of what could not be read or told.
    remarks: Option<String>,
}

impl Printer {
    /// Says what could not be read or told, when that is news.
    fn remarks<F: Steered>(&mut self, publisher: &mut Publisher<F>) {
        let remarks = publisher.feed().remarks();
        if let Some(text) = remarks.as_ref().filter(|_| remarks != self.remarks) {
            eprintln!("{text}");
        }
        self.remarks = remarks;
    }

    fn line<F: Steered>(&mut self, publisher: &mut Publisher<F>, now: u64, total: &mut Latency) {
        let requests = publisher.counters().messages;
        let figures = publisher.feed().figures();
        let seconds = (now - self.last_at) as f64 / 1e9;
        if seconds <= 0.0 {
            return;
        }
        let late = figures.lateness.summary();
        total.add(&figures.lateness);
        if self.lines.is_multiple_of(20) {
            self.output.line(&table::heading(table::SOURCE));
        }
        self.output.line(&table::source_row(&table::SourceLine {
            seconds: (now - self.started) as f64 / SECOND as f64,
            updates_per_s: (figures.sent - self.last_sent) as f64 / seconds,
            target: figures.target.to_string(),
            streams: figures.streams,
            requests,
            blocked: figures.blocked,
            skipped: figures.skipped,
            late,
        }));
        self.lines += 1;
        (self.last_at, self.last_sent) = (now, figures.sent);
    }
}

fn summary<F: Steered>(args: &Args, publisher: &mut Publisher<F>, nanos: u64, late: &Summary) -> String {
    let figures = publisher.feed().figures();
    let seconds = nanos as f64 / 1e9;
    serde_json::json!({
        "name": args.name,
        "sent": figures.sent,
        "rate_per_s": (figures.sent as f64 / seconds.max(1e-9)).round(),
        "seconds": (seconds * 1e3).round() / 1e3,
        "blocked": figures.blocked,
        "skipped": figures.skipped,
        "late_p50_us": late.p50_us,
        "late_p99_us": late.p99_us,
        "late_max_us": late.max_us,
    })
    .to_string()
}

/// The load generator of every session.
struct LoadFeed {
    config: LoadConfig,
    catalogue: Arc<Catalogue>,
    loads: Vec<Option<Load>>,
    rate: Rate,
    write_size: usize,
    /// Turns in which a session had not taken what it was sent before.
    blocked: u64,
    sent_by_closed: u64,
    skipped_by_closed: u64,
    lateness: Latency,
    /// For sessions that ask before they are known: answers nothing.
    spare: Load,
    observer: Option<Observer>,
}

impl LoadFeed {
    fn new(args: &Args, catalogue: Catalogue) -> anyhow::Result<Self> {
        let catalogue = Arc::new(catalogue);
        let config = LoadConfig {
            shape: args.shape(),
            rate: args.update_rate,
            stamps_per_second: args.stamps_per_second(),
            stamp_item: args.timestamp_item.clone(),
            stamp_all: args.stamp_all,
            stamp_every: args.stamp_every,
            order: args.order(),
        };
        let spare = Load::new(LoadConfig { rate: Rate::Stopped, ..config.clone() }, catalogue.clone(), 0);
        Ok(Self {
            rate: args.update_rate,
            loads: Vec::new(),
            write_size: args.write_size.max(4_096),
            blocked: 0,
            sent_by_closed: 0,
            skipped_by_closed: 0,
            lateness: Latency::new(),
            spare,
            observer: args.observer()?,
            catalogue,
            config,
        })
    }
}

impl Feed for LoadFeed {
    fn items(&mut self, session: SessionId) -> &mut dyn Items {
        match self.loads.get_mut(session.0 as usize) {
            Some(Some(load)) => load,
            _ => &mut self.spare,
        }
    }

    fn opened(&mut self, session: SessionId, now: u64) {
        let slot = session.0 as usize;
        if self.loads.len() <= slot {
            self.loads.resize_with(slot + 1, || None);
        }
        let config = LoadConfig { rate: self.rate, ..self.config.clone() };
        self.loads[slot] = Some(Load::new(config, self.catalogue.clone(), now));
    }

    fn posted(&mut self, post: &Post, egress: &mut Egress<'_>) -> bool {
        let mut known = false;
        for (slot, load) in self.loads.iter_mut().enumerate() {
            let Some(load) = load else { continue };
            known |= load.post(post, &mut |message| egress.queue(SessionId(slot as u32), message));
        }
        known
    }

    fn closed(&mut self, session: SessionId) {
        if let Some(load) = self.loads.get_mut(session.0 as usize).and_then(Option::take) {
            self.sent_by_closed += load.sent();
            self.skipped_by_closed += load.skipped();
        }
    }

    fn due(&self, now: u64, egress: &Egress<'_>) -> Option<u64> {
        let open = self.loads.iter().enumerate().filter_map(|(n, load)| Some((SessionId(n as u32), load.as_ref()?)));
        open.filter(|(session, _)| egress.is_clear(*session)).filter_map(|(_, load)| load.due_at(now)).min()
    }

    fn publish(&mut self, now: u64, egress: &mut Egress<'_>) {
        for (slot, load) in self.loads.iter_mut().enumerate() {
            let session = SessionId(slot as u32);
            let Some(load) = load else { continue };
            if load.due_at(now).is_none_or(|at| at > now) {
                continue;
            }
            if !egress.is_clear(session) {
                self.blocked += 1;
                continue;
            }
            let bytes = self.write_size;
            egress.send(now, session, |packer| {
                load.push_observed(now, bytes, self.observer.as_mut(), |message, stream_id| {
                    packer.push(message, Some(stream_id));
                });
            });
        }
    }
}

impl Steered for LoadFeed {
    fn set_rate(&mut self, rate: Rate, now: u64) -> anyhow::Result<()> {
        self.rate = rate;
        self.loads.iter_mut().flatten().for_each(|load| load.set_rate(rate, now));
        Ok(())
    }

    fn resume(&mut self, now: u64) {
        self.loads.iter_mut().flatten().for_each(|load| load.set_rate(self.rate, now));
    }

    fn lose(&mut self, count: u64) {
        self.loads.iter_mut().flatten().for_each(|load| load.lose(count));
    }

    fn figures(&mut self) -> Figures {
        for load in self.loads.iter_mut().flatten() {
            self.lateness.add(&load.take_lateness());
        }
        Figures {
            sent: self.sent_by_closed + self.loads.iter().flatten().map(Load::sent).sum::<u64>(),
            target: self.rate,
            streams: self.loads.iter().flatten().map(Load::open_streams).sum(),
            blocked: self.blocked,
            skipped: self.skipped_by_closed + self.loads.iter().flatten().map(Load::skipped).sum::<u64>(),
            lateness: std::mem::take(&mut self.lateness),
        }
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(self.observer.as_ref().map_or(Ok(()), Observer::finish)?)
    }
}

impl<S: MarketSource> Steered for MarketFeed<S> {
    fn set_rate(&mut self, rate: Rate, now: u64) -> anyhow::Result<()> {
        let Some(pacer) = self.pacer() else {
            return Err(anyhow!("this data has times of its own (--speed); start with -U to play it at a rate"));
        };
        pacer.set_rate(rate, now);
        Ok(())
    }

    fn resume(&mut self, now: u64) {
        if let Some(pacer) = self.pacer() {
            pacer.set_rate(pacer.rate(), now);
        }
    }

    fn lose(&mut self, count: u64) {
        MarketFeed::lose(self, count);
    }

    fn figures(&mut self) -> Figures {
        Figures {
            sent: self.published(),
            target: self.pacer().map_or(Rate::Stopped, |pacer| pacer.rate()),
            streams: self.streams(),
            blocked: 0,
            skipped: 0,
            lateness: Latency::new(),
        }
    }

    fn remarks(&self) -> Option<String> {
        let texts: Vec<String> = [self.source().unread(), self.source().remarks()].into_iter().flatten().collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        match self.source().unread() {
            Some(_) => Err(anyhow!("not all of the data could be read: see above")),
            None => Ok(()),
        }
    }
}
