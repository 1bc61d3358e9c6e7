//! `[feed.NAME]`: exchanges' feeds that a server takes in itself, each a provider in a thread of its own, which the server dials.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use anyhow::anyhow;
use clap::Parser as _;
use config::{ConfigArgs, Feed};
use feed::replay::venue::live::{LineCounts, LiveFigures};
use server::http;
use server::roles::delayed::ConsumersAt;
use server::roles::serve::{self, ServeArgs};
use server::roles::source_distributor::{self, SourceDistributorArgs};
use tools::exchange_feed;

use crate::delays::{self, Delays};
use crate::replays::{self, Replays};

/// Providers in threads, which stop with this.
#[derive(Default)]
pub(crate) struct Feeds {
    stop: Arc<AtomicBool>,
    /// How they stand, for the server's metrics.
    standing: http::Feeds,
    threads: Vec<(String, JoinHandle<anyhow::Result<()>>)>,
}

impl Feeds {
    /// Starts one, and gives the address at which it is to be dialled.
    pub(crate) fn start(&mut self, name: &str, args: exchange_feed::Args) -> anyhow::Result<SocketAddr> {
        let (flag, (ready, bound), told) = (self.stop.clone(), channel(), name.to_owned());
        let report = reporter(name, self.standing.clone());
        let thread = Builder::new().name(format!("feed {name}")).spawn(move || {
            // Nobody waits for the address any more only if the start has failed elsewhere.
            let ended = exchange_feed::serve(&args, &flag, report, |at| ready.send(at).unwrap_or_default());
            if let Err(error) = &ended {
                tracing::error!("feed {told} has ended: {error}");
            }
            ended
        })?;
        // Without an address it has ended before it was ready, and says why.
        match bound.recv() {
            Ok(at) => {
                self.threads.push((name.to_owned(), thread));
                Ok(at)
            }
            Err(_) => Err(joined(thread).err().unwrap_or_else(|| anyhow!("feed {name} has ended before it began"))),
        }
    }

    /// How they stand, as it changes.
    pub(crate) fn standing(&self) -> http::Feeds {
        self.standing.clone()
    }

    /// Stops all and waits for them.
    pub(crate) fn end(self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Release);
        self.threads.into_iter().try_for_each(|(name, thread)| joined(thread).map_err(|e| anyhow!("feed {name}: {e}")))
    }
}

fn joined(thread: JoinHandle<anyhow::Result<()>>) -> anyhow::Result<()> {
    thread.join().unwrap_or_else(|_| Err(anyhow!("the thread of the feed has failed")))
}

/// Tells the server how a feed stands.
fn reporter(name: &str, standing: http::Feeds) -> exchange_feed::Report {
    let name = name.to_owned();
    let mut last: Option<(u64, Instant)> = None;
    Box::new(move |protocol: &str, figures: &LiveFigures, dropped: u64| {
        let now = Instant::now();
        let (before, since) = last.replace((figures.messages, now)).unwrap_or((figures.messages, now));
        let seconds = now.duration_since(since).as_secs_f64();
        let rate = if seconds > 0.0 { (figures.messages - before) as f64 / seconds } else { 0.0 };
        let line = |(letter, counts): (u8, &LineCounts)| http::Line {
            line: char::from(letter).to_string(),
            packets: counts.packets,
            first: counts.first,
            behind: counts.behind,
            behind_ns: counts.behind_ns,
        };
        let lines = (b'A'..).zip(&figures.lines).filter(|(_, counts)| counts.packets > 0);
        standing.tell(http::Feed {
            name: name.clone(),
            protocol: protocol.to_owned(),
            suspect: figures.is_in_doubt,
            messages: figures.messages,
            messages_per_second: rate,
            items: figures.books,
            gaps: figures.stream.gaps,
            repairs: figures.stream.repairs,
            requests: figures.stream.requests,
            lost: figures.stream.lost,
            snapshots: figures.snapshots,
            connections: figures.dials,
            dropped,
            latency_median_ns: figures.latency_median_ns,
            latency_p99_ns: figures.latency_p99_ns,
            latency_max_ns: figures.latency_max_ns,
            early: figures.early,
            lines: lines.map(line).collect(),
            bad: figures.bad.iter().cloned().collect(),
        });
    })
}

fn args_of(name: &str, feed: &Feed) -> anyhow::Result<exchange_feed::Args> {
    let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let mut args = exchange_feed::Args::try_parse_from(["feed", "--", &feed.source])?;
    args.service = some(&feed.service).unwrap_or_else(|| name.to_owned());
    args.suffix = Some(feed.suffix.clone()).filter(|suffix| suffix != "usual");
    args.symbols = some(&feed.symbols_file).map(Into::into);
    args.schema = some(&feed.schema_file).map(Into::into);
    let interfaces = feed.line_interfaces.iter().map(|text| {
        text.parse().map_err(|_| anyhow!("feed.{name}.line_interfaces: {text} is no address of an interface"))
    });
    args.site = exchange_feed::SiteArgs {
        line_interface: interfaces.collect::<anyhow::Result<_>>()?,
        repeater: some(&feed.repeater),
        snapshot: some(&feed.snapshot_server),
        user: feed.login_user.clone(),
        password_file: some(&feed.login_password_file).map(Into::into),
        session: feed.login_session.clone(),
        receive_buffer: feed.receive_buffer as usize,
        channel: some(&feed.channel),
        web_socket: some(&feed.web_socket),
        http_server: some(&feed.http_server),
        ca_file: some(&feed.ca_file).map(Into::into),
    };
    Ok(args)
}

/// What a server has beside it.
struct Beside {
    /// Addresses that it dials beside its other routes.
    routes: Vec<String>,
    feeds: http::Feeds,
    replays: http::Replays,
    delays: http::Delays,
    /// The news of it for its delayed services.
    consumers_at: ConsumersAt,
}

/// Starts what the file names, and runs a server that dials these addresses. What is wrong with the file the server says.
fn around(file: &ConfigArgs, run: impl FnOnce(Beside) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let loaded = file.config.as_ref().and_then(|path| config::load(path, &file.selection).ok());
    let config = loaded.map(|loaded| loaded.config).unwrap_or_default();
    if !config.feeds.is_empty() || !config.replays.is_empty() || !config.delays.is_empty() {
        server::log::set_first_format(config.log.format == config::LogFormat::Json);
    }
    let (mut feeds, mut replays, mut delays) = (Feeds::default(), Replays::default(), Delays::default());
    let mut routes = Vec::new();
    for (name, feed) in config.feeds.iter().filter(|(_, feed)| feed.feed_enabled) {
        let started = args_of(name, feed).and_then(|args| feeds.start(name, args));
        routes.push(started.map_err(|e| anyhow!("[feed.{name}]: {e}"))?.to_string());
    }
    for (name, replay) in config.replays.iter().filter(|(_, replay)| replay.replay_enabled) {
        let started = replays::args_of(replay).and_then(|args| replays.start(name, args));
        routes.push(started.map_err(|e| anyhow!("[replay.{name}]: {e:#}"))?.to_string());
    }
    for (name, delay) in config.delays.iter().filter(|(_, delay)| delay.delay_enabled) {
        let started = delays::config_of(name, delay).and_then(|config| delays.start(config));
        routes.push(started.map_err(|e| anyhow!("[delay.{name}]: {e:#}"))?.to_string());
    }
    let (consumers_at, standing) = (delays.consumers_at(), delays.standing());
    let beside = Beside { routes, feeds: feeds.standing(), replays: replays.shown(), delays: standing, consumers_at };
    run(beside).and(feeds.end()).and(replays.end()).and(delays.end())
}

/// `quoteway serve`, with its feeds, replays and delayed services.
///
/// # Errors
/// A text for the user.
pub(crate) fn serve(args: &ServeArgs) -> anyhow::Result<()> {
    around(&args.file, |Beside { routes, feeds, replays, delays, consumers_at }| {
        serve::run(&ServeArgs {
            routes: [args.routes.clone(), routes].concat(),
            feeds,
            replays,
            delays,
            consumers_at,
            ..args.clone()
        })
    })
}

/// `quoteway source-distributor`, with its feeds, replays and delayed services.
///
/// # Errors
/// A text for the user.
pub(crate) fn source_distributor(args: &SourceDistributorArgs) -> anyhow::Result<()> {
    around(&args.file, |Beside { routes, feeds, replays, delays, consumers_at }| {
        source_distributor::run(&SourceDistributorArgs {
            routes: [args.routes.clone(), routes].concat(),
            feeds,
            replays,
            delays,
            consumers_at,
            ..args.clone()
        })
    })
}
