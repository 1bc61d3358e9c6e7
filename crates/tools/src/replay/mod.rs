//! `quoteway replay`: recordings as a provider, served to any client from any time on.

mod choice;
mod order;
mod served;
mod service;
mod timeline;

use crate::places::Places;
use crate::source::publisher::Publisher;
use crate::when;
use anyhow::{Context as _, anyhow};
use choice::{Choice, Renaming};
use clap::Args as ClapArgs;
use feed::provider::{Provider, ProviderConfig};
use feed::shift::Shift;
use net::tcp::SocketOptions;
use order::Order;
use record::{By, Folder, Item, Recording};
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
use timeline::{Pace, Span};

const SECOND: u64 = 1_000_000_000;
/// How often time is looked at when nothing happens, nanoseconds.
const STOP_EVERY: u64 = SECOND / 10;
/// Bytes of a stranger that are read at a time.
const READ_MOST: usize = 2 << 10;
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
    Lines of standard input steer it: pause, go, step, step 10, speed 2, speed max, seek 2026-11-27T14:30:00Z, where.\n\
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
    renamings: Vec<Renaming>,
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
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = pace)]
    speed: Pace,
    /// Time to begin at: UTC, 2026-11-27T14:30:00Z
    #[arg(long, value_name = "TIME", value_parser = when::parse)]
    pub from: Option<u64>,
    /// Time to end at
    #[arg(long, value_name = "TIME", value_parser = when::parse)]
    pub to: Option<u64>,
    /// By which clock time passes: receipt (the recorder's wall clock), or source-time (the source's own, where it was recorded)
    #[arg(long, value_name = "CLOCK", default_value = "receipt", value_parser = by)]
    by: By,
    /// Move times in messages to now: times of day, milliseconds since midnight, and the dates of the last trade, quote and activity
    #[arg(long)]
    pub shift_to_now: bool,
    /// Begin anew at the end
    #[arg(long = "loop")]
    pub repeats: bool,
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
    /// Seconds between two lines of progress; 0 for none
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub interval: u64,
}

/// What `--speed` says.
fn pace(text: &str) -> anyhow::Result<Pace> {
    let speed = text.parse::<f64>().ok().filter(|speed| speed.is_finite() && *speed > 0.0);
    match (text, speed) {
        ("max", _) => Ok(Pace::Unpaced),
        (_, Some(speed)) => Ok(Pace::Scaled(speed)),
        _ => Err(anyhow!("write a factor as 1, 0.5 or 60, or max")),
    }
}

/// The value of `--by`.
fn by(text: &str) -> anyhow::Result<By> {
    match text {
        "receipt" => Ok(By::Receipt),
        "source-time" => Ok(By::Source),
        _ => Err(anyhow!("write receipt or source-time")),
    }
}

/// Replays until it is stopped.
///
/// # Errors
/// A text for the user: the recording cannot be read or has no such service or items, or the port cannot be used.
pub fn run(args: &Args) -> anyhow::Result<()> {
    net::signal::install().map_err(|e| anyhow!("signals: {e}"))?;
    let recordings = open(&args.folders)?;
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
    let also: Vec<(u16, String)> = (SERVICE_ID + 1..).zip(services.iter().skip(1).cloned().chain(at)).collect();
    let config = ProviderConfig {
        service: services[0].clone(),
        service_id: SERVICE_ID,
        also: also.clone(),
        domains: domains.into_iter().collect(),
        ..ProviderConfig::default()
    };
    let dictionary = dictionary_of(&recordings, &choice, span.from)?;
    let shift = args.shift_to_now.then(|| Shift::of(&dictionary, net::clock::wall().wrapping_sub(net::clock::now())));
    let mut io = RsslIo::new(net::clock::now()).map_err(|e| anyhow!("no sockets: {e}"))?;
    net::signal::wake(&io.tcp().waker());
    let provider = Provider::new(config, Arc::new(dictionary));
    let plan = Plan {
        services,
        span,
        pace: args.speed,
        by: args.by,
        // A non-interactive provider has all items open as soon as it is connected.
        begin_with: args.start_on_open.unwrap_or(usize::from(args.nip.is_some())),
        at: args.at.clone(),
    };
    let replay = Replay::new(&recordings, plan, &choice, shift.as_ref(), net::clock::now()).context("the recording")?;
    let name = provider.config.service.clone();
    let mut publisher = Publisher::new(provider, replay);
    let way = match &args.nip {
        Some(server) => {
            let places = Places::of(server, "--nip")?;
            let way = format!("to {places}");
            let options = SocketOptions { no_delay: true, ..SocketOptions::default() };
            let offered = publisher.feed().offered();
            publisher.dial(places, options, "replay", offered);
            way
        }
        None => format!("on {}", listen(args, &mut io)?),
    };
    let (first, last) = whole_span(args, &recordings)?;
    let from = when::text(span.from.max(first));
    eprintln!("{name} is replayed {way}, {} items, from {from} to {}", items.len(), when::text(span.to.min(last)));
    for (_, name) in &also {
        eprintln!("{name} is served beside it");
    }
    if args.nip.is_none() && !args.bind.is_loopback() {
        eprintln!("open to all who reach this host: whoever connects is served (--bind 127.0.0.1 closes it)");
    }
    tell_services(&mut publisher);
    play(args, &mut io, &mut publisher)
}

/// The recordings of these folders; what is damaged is told.
fn open(folders: &[PathBuf]) -> anyhow::Result<Vec<Recording<Folder>>> {
    let mut recordings = Vec::with_capacity(folders.len());
    for folder in folders {
        let recording = Recording::open(Folder::to_read(folder))?;
        for found in recording.damage() {
            eprintln!("{}: {}", folder.display(), net::plain::escaped(&found.to_string()));
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
fn dictionary_of(recordings: &[Recording<Folder>], choice: &Choice, from: u64) -> anyhow::Result<Dictionary> {
    let mut whole: Option<Dictionary> = None;
    for recording in recordings {
        for service in choice.names().iter().flat_map(|name| choice.recorded(name)) {
            match (dictionary_at(recording, service, from)?, &mut whole) {
                (Some(found), Some(whole)) => {
                    for conflict in whole.merge(&found) {
                        eprintln!("{conflict}");
                    }
                }
                (Some(found), none) => *none = Some(found),
                (None, _) => {}
            }
        }
    }
    Ok(whole.unwrap_or_else(|| {
        eprintln!("the recording has no whole dictionary: the built-in one is handed out");
        Dictionary::builtin()
    }))
}

/// Tells whose services went up or down.
fn tell_services(publisher: &mut Publisher<Replay<'_>>) {
    while let Some((service_id, is_up)) = publisher.feed().take_service() {
        publisher.set_service_of(service_id, is_up);
    }
}

fn play(args: &Args, io: &mut RsslIo, publisher: &mut Publisher<Replay<'_>>) -> anyhow::Result<()> {
    let every = args.interval.saturating_mul(SECOND);
    let orders = crate::command_line::lines_of_input(io.tcp().waker());
    let mut now = net::clock::now();
    let (mut line_at, mut last) = (now.saturating_add(every), (now, 0));
    while net::signal::stop_requested() == 0 {
        let due = publisher.due(now, io).unwrap_or(u64::MAX).min(now + STOP_EVERY);
        now = publisher.turn(io, due).map_err(|e| anyhow!("sockets: {e}"))?;
        if let Some(error) = publisher.feed().take_failure() {
            return Err(anyhow!(error).context("the recording"));
        }
        for line in publisher.feed().take_lines() {
            eprintln!("{line}");
        }
        while let Ok(line) = orders.try_recv() {
            match Order::parse(&line) {
                Ok(Some(order)) => publisher.feed().order(order),
                Ok(None) => {}
                Err(error) => eprintln!("{error}"),
            }
        }
        tell_services(publisher);
        if every > 0 && now >= line_at {
            line_at = now + every;
            let (time, streams, told) = publisher.feed().figures();
            let rate = told.saturating_sub(last.1) as f64 * 1e9 / now.saturating_sub(last.0).max(1) as f64;
            last = (now, told);
            eprintln!("{}: {streams} streams, {told} messages, {rate:.0}/s", when::text(time));
        }
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
