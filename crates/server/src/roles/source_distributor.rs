//! `quoteway source-distributor`: the provider side in a process of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;

use anyhow::anyhow;
use clap::Args;
use config::{Config, ConfigArgs, Route};
use hub_io::publisher::CONNECTIONS;

use super::delayed::{ConsumersAt, OwnP2ps};
use super::exposure::{self, Sides};
use super::process::{self, HttpArgs};
use super::service::{self, Pulse};
use crate::addresses;
use crate::agents::lifecycle::Lifecycle;
use crate::agents::source_distributor::{SourceDistributorAgent, name_of};
use crate::http::{self, About, Delays, Feeds, Replays};

/// Flags of the command line; they win over the file.
#[derive(Debug, Clone, Default, Args)]
pub struct SourceDistributorArgs {
    /// Interactive provider to dial; may be given several times
    #[arg(long = "route", value_name = "HOST:PORT", value_parser = process::server)]
    pub routes: Vec<String>,
    /// Port on which non-interactive providers connect; 0 takes a free one [default: 14003]
    #[arg(long, value_name = "PORT")]
    pub nip_port: Option<u16>,
    /// Port on which P2PSs connect; 0 takes a free one [default: 14004]
    #[arg(long, value_name = "PORT")]
    pub hub_port: Option<u16>,
    /// Address to listen on, for both ports [default: all]
    #[arg(long, value_name = "ADDRESS")]
    pub interface: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub http: HttpArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub file: ConfigArgs,
    /// Exchanges' feeds that are taken in beside, which tell how they stand.
    #[arg(skip)]
    pub feeds: Feeds,
    /// Services that are published later, which tell how they stand.
    #[arg(skip)]
    pub delays: Delays,
    /// Recordings that are played beside, which are steered by its administration.
    #[arg(skip)]
    pub replays: Replays,
    /// Where its delayed services, beside, consume what they publish later.
    #[arg(skip)]
    pub consumers_at: ConsumersAt,
}

impl SourceDistributorArgs {
    /// The configuration: defaults, then the file, then the command line.
    ///
    /// # Errors
    /// Every fault of the file, each with its line.
    pub fn configuration(&self) -> anyhow::Result<Config> {
        let mut config = process::load(&self.file)?;
        config.routes.extend(self.routes.iter().map(|r| Route { host_list: vec![r.clone()], ..Route::default() }));
        if let Some(port) = self.nip_port {
            config.source_distributor.nip_port = port;
        }
        if let Some(port) = self.hub_port {
            config.hub.port = port;
        }
        self.http.apply(&mut config.http);
        if let Some(interface) = &self.interface {
            config.source_distributor.interface.clone_from(interface);
            config.hub.interface.clone_from(interface);
        }
        Ok(config)
    }
}

/// Serves until SIGINT or SIGTERM. The first line on standard output comes when it is ready and names the ports.
///
/// # Errors
/// What keeps it from starting, or what ended it.
pub fn run(args: &SourceDistributorArgs) -> anyhow::Result<()> {
    let config = args.configuration()?;
    process::install_signals()?;
    let count = config::source_threads(&config);
    let connections = CONNECTIONS as u64 * u64::from(count);
    process::raise_open_files(u64::from(config.source_distributor.nip_max_mounts) + connections + 200);
    let incarnation = process::incarnation();
    let agent =
        |thread: u16| SourceDistributorAgent::new(&config, incarnation.wrapping_add(u32::from(thread) << 24), thread);
    let mut agents = (0..count).map(agent).collect::<std::io::Result<Vec<_>>>()?;
    let addresses = agents[0].addresses();
    let hubs: Vec<SocketAddr> = agents.iter().map(|agent| agent.addresses().hub).collect();
    // Ends behind the agents.
    let _own = OwnP2ps::start(&config, incarnation, &hubs, &args.consumers_at)?;
    let about = About {
        role: "source-distributor",
        nip: addresses.nip,
        hub: Some(addresses.hub),
        takes_websocket: false,
        feeds: args.feeds.clone(),
        delays: args.delays.clone(),
        replays: args.replays.clone(),
        ..process::about(&config)
    };
    let again = args.clone();
    if !config.record.folder.is_empty() {
        tracing::warn!("record.folder has no effect here: a Source Distributor has no consumers; its P2PS records");
    }
    let monitors = agents.iter().map(SourceDistributorAgent::handle).collect();
    let life = Lifecycle::new(config.clone(), monitors, Box::new(move || again.configuration()));
    let web = http::start(&config.http, about, &life, None).map_err(anyhow::Error::msg)?;
    exposure::tell(&config, Sides { consumers: false, providers: addresses.nip.is_some(), hub: true });
    let line = ready_line(addresses.nip, &hubs) + &process::web(web.as_ref());
    let first = agents.remove(0);
    run_all(&config, &life, first, agents, &line)
}

/// Runs the first agent here and each other one in a thread of its own.
fn run_all(
    config: &Config,
    life: &Lifecycle,
    mut first: SourceDistributorAgent,
    others: Vec<SourceDistributorAgent>,
    line: &str,
) -> anyhow::Result<()> {
    let over = Arc::new(AtomicBool::new(false));
    let pulse = Pulse::default();
    let mut watched = vec![(pulse.clone(), first.io().tcp().waker())];
    let mut threads = Vec::new();
    for (mut agent, thread) in others.into_iter().zip(1_u16..) {
        let beat = Pulse::default();
        watched.push((beat.clone(), agent.io().tcp().waker()));
        let (config, life, over) = (config.clone(), life.clone(), Arc::clone(&over));
        let run = move || {
            place(&config, thread);
            let ended = agent.run(|| process::turn_over(&beat, &life) || over.load(Ordering::Acquire));
            over.store(true, Ordering::Release);
            ended.map_err(anyhow::Error::from)
        };
        threads.push(Builder::new().name(name_of(thread)).spawn(run)?);
    }
    place(config, 0);
    process::announce(line, watched.clone());
    let mut result =
        first.run(|| process::turn_over(&pulse, life) || over.load(Ordering::Acquire)).map_err(anyhow::Error::from);
    service::stopping();
    over.store(true, Ordering::Release);
    for (_, waker) in &watched {
        waker.wake();
    }
    for thread in threads {
        result =
            result.and(thread.join().unwrap_or_else(|_| Err(anyhow!("a thread of the Source Distributor has failed"))));
    }
    result
}

/// Has the thread that calls run where the configuration says of this number.
fn place(config: &Config, thread: u16) {
    let own = config::of_source_thread(config, thread).source_distributor;
    let what = if thread == 0 { "the main thread" } else { "a source thread" };
    config::place(what, &own.bind_main_thread, &own.priority);
    config::slice(what, own.slice_us);
}

/// The line that tells people and programs that the ports are open: addresses that can be connected to, those of the hub one for each thread.
fn ready_line(nip: Option<SocketAddr>, hubs: &[SocketAddr]) -> String {
    let shown = nip.map_or("off".to_string(), addresses::show);
    let bound = process::bound([hubs.first().copied(), nip]);
    let hubs: Vec<String> = hubs.iter().map(|hub| addresses::show(*hub)).collect();
    format!("ready nip={shown} hub={}{bound}", hubs.join(","))
}
