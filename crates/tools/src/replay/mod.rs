//! `quoteway replay`: recordings as a provider, served to any client from any time on.

mod choice;
mod front;
mod keys;
mod served;
mod service;
mod timeline;

use crate::places::Places;
use crate::source::publisher::Publisher;
use crate::when;
use anyhow::{Context as _, anyhow};
use choice::Choice;
pub use choice::Renaming;
use clap::Args as ClapArgs;
use feed::provider::{Provider, ProviderConfig};
use feed::shift::Shift;
use front::{Front, Lines, Logged};
use keys::Keys;
use net::Waker;
use net::tcp::SocketOptions;
use record::{By, Folder, Item, Overview, Pace, PlayedGap, Recording, Steering};
use record_io::dictionary_at;
use rssl::ServerConfig;
use rssl_io::RsslIo;
use rwf::dictionary::Dictionary;
use rwf::msg::Domain;
use served::{Plan, Replay};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use timeline::Span;

const SECOND: u64 = 1_000_000_000;
/// How often time is looked at when nothing happens, nanoseconds.
const STOP_EVERY: u64 = SECOND / 10;
/// Bytes of a stranger that are read at a time.
const READ_MOST: usize = 2 << 10;
/// Parts of what is played for which a rate is known.
const PARTS: usize = 240;
/// Gaps of it that are told of.
const GAPS: usize = 1_000;
/// Id of the first service; others, and those of other times, have the next ones.
const SERVICE_ID: u16 = 1;

/// Play recordings to any client, from any time on.
///
/// It serves the recorded services on a port, to EMA, ETA and other RSSL consumers, or as a provider to `quoteway serve --route` and with that
/// to WebSocket clients. Everybody who opens an item gets its image as it was at the time that the replay has come to, and the messages from
/// there on, as they were recorded. Behind a gap of the recording items are Suspect until an image is known again.
///
/// Several recordings are one, in the order of their times. An item that several have is that of the first one, in the order of the command, which
/// has a good image of it then: a gap of one is filled by another, and one that is over is followed by the next.
#[derive(ClapArgs, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    quoteway replay today\n  \
    quoteway replay today --from 2026-11-27T14:30:00Z --to 2026-11-27T14:35:00Z --speed 10 --loop\n  \
    quoteway replay today --speed max --start-on-open 100\n  \
    quoteway replay monday tuesday --rename '*.N=*.TEST'\n  \
    quoteway replay today --shift-to-now --by source-time\n  \
    quoteway replay today --nip localhost:14003\n  \
    quoteway replay today --at 2026-11-27T14:30:00Z\n\n\
    With --at there is a second service, FEED@2026-11-27T14:30:00Z beside FEED: a snapshot of it is the image of then, and a stream goes on from\n\
    there when the first item is opened. The same without --at, for a single item: IBM.N@2026-11-27T14:30:00Z.\n\
    Keys steer it on a terminal: space (pause, go), s (a step), S (ten), left and right (ten seconds), + and - (speed), m (as fast as\n\
    possible), l (loop), : (an order), q (quit). Elsewhere lines of standard input do: pause, go, step, step 10, speed 2, speed max,\n\
    seek 2026-11-27T14:30:00Z, skip 10, skip -10, loop on, loop off, where.\n\
    With --serve there are clients by RSSL and WebSocket, a web page with a time bar, and quoteway ctl replay.\n\
    The same recordings and command give the same messages in the same order.")]
pub struct Args {
    /// Folder of a recording, or one of its segments; several are played as one
    #[arg(value_name = "FOLDER", required = true)]
    pub folders: Vec<PathBuf>,
    /// Only these recorded services; may be given several times
    #[arg(long = "service", value_name = "NAME")]
    pub services: Vec<String>,
    /// Name under which the service is served; OLD=NEW where there are several, and the same new name makes them one
    #[arg(long = "as", value_name = "NAME")]
    pub served_as: Vec<String>,
    /// Other names for items: IBM.N=IBM.XX, *.N=*.XX, *=TEST.*; the first that fits
    #[arg(long = "rename", value_name = "FROM=TO", value_parser = Renaming::parse)]
    pub renamings: Vec<Renaming>,
    /// Port to listen on
    #[arg(long, value_name = "PORT", default_value_t = 14_010)]
    pub port: u16,
    /// Address to listen on; 0.0.0.0 for clients on other hosts
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub bind: IpAddr,
    /// Publish at a Source Distributor, as a non-interactive provider, in place of listening
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["port", "bind", "at"])]
    pub nip: Option<String>,
    /// Seconds of the recording in a second, or max: as fast as the clients take it
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = str::parse::<Pace>)]
    pub speed: Pace,
    /// Time to begin at: UTC, 2026-11-27T14:30:00Z
    #[arg(long, value_name = "TIME", value_parser = when::parse)]
    pub from: Option<u64>,
    /// Time to end at
    #[arg(long, value_name = "TIME", value_parser = when::parse)]
    pub to: Option<u64>,
    /// By which clock time passes: receipt (the recorder's wall clock), or source-time (the source's own, where it was recorded)
    #[arg(long, value_name = "CLOCK", default_value = "receipt", value_parser = str::parse::<By>)]
    pub by: By,
    /// Move times in messages to now: times of day, milliseconds since midnight, and the dates of the last trade, quote and activity
    #[arg(long)]
    pub shift_to_now: bool,
    /// Begin anew at the end
    #[arg(long = "loop")]
    pub repeats: bool,
    /// Begin with time standing still
    #[arg(long)]
    pub paused: bool,
    /// Begin when so many items are open
    #[arg(long, value_name = "ITEMS", num_args = 0..=1, default_missing_value = "1")]
    pub start_on_open: Option<usize>,
    /// Only items whose recorded names match: * stands for any text, ? for a character, ^... is a regular expression
    #[arg(long = "item", value_name = "PATTERN")]
    pub items: Vec<String>,
    /// Only items of these domains, by number
    #[arg(long = "domain", value_name = "NUMBER")]
    pub domains: Vec<u8>,
    /// One more service, as of a time; may be given several times
    #[arg(long = "at", value_name = "TIME", value_parser = when::parse)]
    pub at: Vec<u64>,
    /// Poll without a pause while a message waits for its time: sent within microseconds of it, and a processor is kept busy
    #[arg(long)]
    pub spin: bool,
    /// Seconds between two lines of progress; 0 for none
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub interval: u64,
}

/// Replays until it is stopped.
///
/// # Errors
/// A text for the user: the recording cannot be read or has no such service or items, or the port cannot be used.
pub fn run(args: &Args) -> anyhow::Result<()> {
    net::signal::install().map_err(|e| anyhow!("signals: {e}"))?;
    let front = |waker: Waker, begun: &Begun| -> anyhow::Result<Box<dyn Front>> {
        begun.tell(args);
        Ok(match Keys::new(&waker)? {
            Some(keys) => Box::new(keys),
            None => Box::new(Lines::new(waker, args.interval.saturating_mul(SECOND))),
        })
    };
    let stop = || net::signal::stop_requested() > 0;
    play(args, &Steering::default(), &Around { stop: &stop, say: |line| eprintln!("{line}") }, front)
}

/// Replays on a free port of the loopback until `stop` is set, for a server in the same process: the body of a thread. `ready` gets the address.
///
/// # Errors
/// A text for the user, as [`run`]; `steering` has it, too.
pub fn serve(
    args: &Args,
    name: &str,
    steering: &Steering,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> anyhow::Result<()> {
    let args = Args { port: 0, bind: IpAddr::from([127, 0, 0, 1]), nip: None, ..args.clone() };
    let front = |_: Waker, begun: &Begun| -> anyhow::Result<Box<dyn Front>> {
        let Begun { items, from, to, services, .. } = begun;
        tracing::info!("replay {name}: {}, {items} items, from {from} to {to}", services.join(", "));
        if let Some(address) = begun.address {
            ready(address);
        }
        Ok(Box::new(Logged::new(name)))
    };
    let stop = || stop.load(Ordering::Acquire);
    play(&args, steering, &Around { stop: &stop, say: |line| tracing::warn!("replay: {line}") }, front)
}

/// What is around a replay.
struct Around<'a> {
    /// Whether it is to end.
    stop: &'a dyn Fn() -> bool,
    /// Tells people what was found before it begins.
    say: fn(&str),
}

/// What a replay is, once clients can come.
struct Begun {
    /// Where it listens, or what it dials, in words.
    way: String,
    address: Option<SocketAddr>,
    services: Vec<String>,
    items: usize,
    from: String,
    to: String,
}

impl Begun {
    fn tell(&self, args: &Args) {
        let Self { way, services, items, from, to, .. } = self;
        eprintln!("{} is replayed {way}, {items} items, from {from} to {to}", services[0]);
        for name in &services[1..] {
            eprintln!("{name} is served beside it");
        }
        if args.nip.is_none() && !args.bind.is_loopback() {
            eprintln!("open to all who reach this host: whoever connects is served (--bind 127.0.0.1 closes it)");
        }
    }
}

/// Replays until it is to end, or whoever is in front ends it. `steering` is told when it has ended.
fn play(
    args: &Args,
    steering: &Steering,
    around: &Around<'_>,
    front: impl FnOnce(Waker, &Begun) -> anyhow::Result<Box<dyn Front>>,
) -> anyhow::Result<()> {
    let ended = play_to(args, steering, around, front);
    steering.finish(ended.as_ref().err().map_or_else(|| "it was stopped".to_owned(), |error| format!("{error:#}")));
    ended
}

fn play_to(
    args: &Args,
    steering: &Steering,
    around: &Around<'_>,
    front: impl FnOnce(Waker, &Begun) -> anyhow::Result<Box<dyn Front>>,
) -> anyhow::Result<()> {
    let recordings = open(&args.folders, around.say)?;
    let choice = Choice::new(args, &recordings)?;
    let span = span(args, &recordings)?;
    let items: BTreeSet<Item> =
        recordings.iter().flat_map(Recording::items).filter_map(|item| choice.serve(item)).collect();
    if items.is_empty() {
        return Err(anyhow!("the recording has no such items; quoteway record info shows what it has"));
    }
    let domains: BTreeSet<Domain> = items.iter().map(|item| Domain(item.domain)).collect();
    let services = choice.names();
    let at = args.at.iter().flat_map(|at| services.iter().map(|name| format!("{name}@{}", when::text(*at))));
    let all: Vec<String> = services.iter().cloned().chain(at).collect();
    let config = ProviderConfig {
        service: services[0].clone(),
        service_id: SERVICE_ID,
        also: (SERVICE_ID + 1..).zip(all.iter().skip(1).cloned()).collect(),
        domains: domains.into_iter().collect(),
        ..ProviderConfig::default()
    };
    let dictionary = dictionary_of(&recordings, &choice, span.from, around.say)?;
    let shift = args.shift_to_now.then(|| Shift::of(&dictionary, net::clock::wall().wrapping_sub(net::clock::now())));
    let mut io = RsslIo::new(net::clock::now()).map_err(|e| anyhow!("no sockets: {e}"))?;
    net::signal::wake(&io.tcp().waker());
    let provider = Provider::new(config, Arc::new(dictionary));
    let overview = overview(args, &recordings, span, &all, items.len())?;
    let (from, to) = (when::text(overview.from), when::text(overview.to));
    let waker = io.tcp().waker();
    steering.begin(overview, move || waker.wake());
    let plan = Plan {
        services,
        span,
        pace: args.speed,
        by: args.by,
        // A non-interactive provider has all items open as soon as it is connected.
        begin_with: args.start_on_open.unwrap_or(usize::from(args.nip.is_some())),
        is_paused: args.paused,
        at: args.at.clone(),
    };
    let replay = Replay::new(&recordings, plan, &choice, shift.as_ref(), steering.clone(), net::clock::now());
    let mut publisher = Publisher::new(provider, replay.context("the recording")?);
    let (way, address) = reach(args, &mut io, &mut publisher)?;
    let begun = Begun { way, address, services: all, items: items.len(), from, to };
    let mut front = front(io.tcp().waker(), &begun)?;
    tell_services(&mut publisher);
    turns(args.spin, &mut io, &mut publisher, steering, around.stop, &mut *front)
}

/// Listens, or dials; in words, and the address that is listened on.
fn reach(
    args: &Args,
    io: &mut RsslIo,
    publisher: &mut Publisher<Replay<'_>>,
) -> anyhow::Result<(String, Option<SocketAddr>)> {
    let Some(server) = &args.nip else {
        let address = listen(args, io)?;
        return Ok((format!("on {address}"), Some(address)));
    };
    let places = Places::of(server, "--nip")?;
    let way = format!("to {places}");
    let options = SocketOptions { no_delay: true, ..SocketOptions::default() };
    let offered = publisher.feed().offered();
    publisher.dial(places, options, "replay", offered);
    Ok((way, None))
}

/// What is played, for those who look at it.
fn overview(
    args: &Args,
    recordings: &[Recording<Folder>],
    span: Span,
    services: &[String],
    items: usize,
) -> anyhow::Result<Overview> {
    let (first, last) = whole_span(args, recordings)?;
    let (from, to) = (span.from.max(first), span.to.min(last));
    let mut rates = vec![0.0; PARTS];
    for recording in recordings {
        rates.iter_mut().zip(recording.rates_between(from, to, PARTS)).for_each(|(sum, rate)| *sum += rate);
    }
    let played = |gap: &PlayedGap| gap.to >= from && gap.from <= to;
    let mut gaps: Vec<PlayedGap> =
        recordings.iter().flat_map(|recording| recording.info().gaps).map(gap_of).filter(played).collect();
    gaps.sort_by_key(|gap| gap.from);
    gaps.truncate(GAPS);
    Ok(Overview { services: services.to_vec(), items, from, to, by: args.by, rates, gaps })
}

fn gap_of((_, gap): (u64, record::Gap)) -> PlayedGap {
    PlayedGap { from: gap.from, to: gap.to, reason: gap.reason.text(), messages: gap.messages }
}

/// The recordings of these folders; what is damaged is told.
fn open(folders: &[PathBuf], say: fn(&str)) -> anyhow::Result<Vec<Recording<Folder>>> {
    let mut recordings = Vec::with_capacity(folders.len());
    for folder in folders {
        let recording = Recording::open(Folder::to_read(folder))?;
        for found in recording.damage() {
            say(&format!("{}: {}", folder.display(), net::plain::escaped(&found.to_string())));
        }
        recordings.push(recording);
    }
    Ok(recordings)
}

/// From the first to the last record of all.
fn whole_span(args: &Args, recordings: &[Recording<Folder>]) -> anyhow::Result<(u64, u64)> {
    let spans = recordings.iter().filter_map(|recording| recording.info().span);
    let whole = spans.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    whole.ok_or_else(|| anyhow!("{} has no records", args.folders[0].display()))
}

/// What of them is played.
fn span(args: &Args, recordings: &[Recording<Folder>]) -> anyhow::Result<Span> {
    let (first, last) = whole_span(args, recordings)?;
    let span = Span {
        from: args.from.unwrap_or_else(|| first.saturating_sub(1)),
        to: args.to.unwrap_or(u64::MAX),
        repeats: args.repeats,
    };
    if span.from > span.to || span.from > last {
        let (first, last) = (when::text(first), when::text(last));
        return Err(anyhow!(
            "nothing is recorded in the time from --from to --to: the recording goes from {first} to {last}"
        ));
    }
    Ok(span)
}

/// The dictionaries of all: where two say another thing of a field, that of the first one counts.
fn dictionary_of(
    recordings: &[Recording<Folder>],
    choice: &Choice,
    from: u64,
    say: fn(&str),
) -> anyhow::Result<Dictionary> {
    let mut whole: Option<Dictionary> = None;
    for recording in recordings {
        for service in choice.names().iter().flat_map(|name| choice.recorded(name)) {
            match (dictionary_at(recording, service, from)?, &mut whole) {
                (Some(found), Some(whole)) => {
                    for conflict in whole.merge(&found) {
                        say(&conflict.to_string());
                    }
                }
                (Some(found), none) => *none = Some(found),
                (None, _) => {}
            }
        }
    }
    Ok(whole.unwrap_or_else(|| {
        say("the recording has no whole dictionary: the built-in one is handed out");
        Dictionary::builtin()
    }))
}

/// Tells whose services went up or down.
fn tell_services(publisher: &mut Publisher<Replay<'_>>) {
    while let Some((service_id, is_up)) = publisher.feed().take_service() {
        publisher.set_service_of(service_id, is_up);
    }
}

/// Turns until it is to end. With `spins` nothing sleeps while a message waits for its time; a replay that is paused or at its end does.
fn turns(
    spins: bool,
    io: &mut RsslIo,
    publisher: &mut Publisher<Replay<'_>>,
    steering: &Steering,
    stop: &dyn Fn() -> bool,
    front: &mut dyn Front,
) -> anyhow::Result<()> {
    let mut now = net::clock::now();
    while !stop() {
        let due = match publisher.due(now, io) {
            Some(_) if spins => now,
            due => due.unwrap_or(u64::MAX).min(now + STOP_EVERY),
        };
        now = publisher.turn(io, due).map_err(|e| anyhow!("sockets: {e}"))?;
        if let Some(error) = publisher.feed().take_failure() {
            return Err(anyhow!(error).context("the recording"));
        }
        for line in publisher.feed().take_lines() {
            front.say(&line);
        }
        publisher.feed().tell(now);
        if front.turn(now, steering).is_break() {
            break;
        }
        tell_services(publisher);
    }
    Ok(())
}

fn listen(args: &Args, io: &mut RsslIo) -> anyhow::Result<SocketAddr> {
    let options = SocketOptions { no_delay: true, ..SocketOptions::default() };
    let address = SocketAddr::new(args.bind, args.port);
    let (listener, bound) = io
        .listen(address, &options, Arc::new(ServerConfig::default()))
        .map_err(|e| anyhow!("cannot listen on {address}: {e}; choose another port with --port"))?;
    io.limit_reading(listener, READ_MOST);
    Ok(bound)
}
