//! `quoteway p2ps`: the consumer side in a process of its own.

use anyhow::anyhow;
use config::{Config, ConfigArgs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use clap::Args;

use super::exposure::{self, Sides};
use super::process::{self, HttpArgs};
use super::service::{self, Pulse};
use crate::addresses;
use crate::agents::consumer_ports::{Bound, Port};
use crate::agents::lifecycle::{Lifecycle, Load};
use crate::agents::p2ps::P2psAgent;
use crate::agents::permissions::Permissioning;
use crate::http::{self, About};

/// Flags of the command line; they win over the file.
#[derive(Debug, Clone, Default, Args)]
pub struct P2psArgs {
    /// Source Distributor to join when the hub's transport is tcp, or srv:_SERVICE._tcp.DOMAIN for those that the DNS names (SRV); may be
    /// given several times
    #[arg(long = "source-distributor", value_name = "HOST:PORT", value_parser = process::server)]
    pub source_distributors: Vec<String>,
    /// Port on which consumers connect (RSSL); 0 takes a free one [default: 14002]
    #[arg(long, value_name = "PORT")]
    pub rssl_port: Option<u16>,
    /// Address to listen on [default: all]
    #[arg(long, value_name = "ADDRESS")]
    pub interface: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub http: HttpArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub file: ConfigArgs,
    /// Threads, each a P2PS with its own part of the clients; 0 and 1 are one thread [default: 0]
    #[arg(long, value_name = "N")]
    pub shards: Option<u16>,
}

impl P2psArgs {
    /// The configuration: defaults, then the file, then the command line.
    ///
    /// # Errors
    /// Every fault of the file, each with its line; a hub without anyone to join.
    pub fn configuration(&self) -> anyhow::Result<Config> {
        let mut config = process::load(&self.file)?;
        config.hub.source_distributors.extend(self.source_distributors.iter().cloned());
        if let Some(port) = self.rssl_port {
            config.p2ps.rssl_port = port;
        }
        if let Some(interface) = &self.interface {
            config.p2ps.interface.clone_from(interface);
        }
        self.http.apply(&mut config.http);
        if let Some(shards) = self.shards {
            config.p2ps.writer_thread_count = shards;
        }
        Ok(config)
    }
}

/// Serves until SIGINT or SIGTERM. The first line on standard output comes when it is ready and names the ports.
///
/// # Errors
/// What keeps it from starting, before any client could connect, or what ended it.
pub fn run(args: &P2psArgs) -> anyhow::Result<()> {
    let config = args.configuration()?;
    process::install_signals()?;
    let again = args.clone();
    serve(&config, Box::new(move || again.configuration()))
}

/// Serves by a configuration until the process is to end; `again` reads it anew.
pub(super) fn serve(config: &Config, again: Load) -> anyhow::Result<()> {
    process::raise_open_files(u64::from(config.p2ps.max_mounts) + 200);
    let count = config.p2ps.writer_thread_count.max(1);
    let (mounts, incarnation) = (Arc::default(), process::incarnation());
    let mut port = Port::of(&config.p2ps, count > 1);
    // Ends behind the agents, whose last lines its audit takes.
    let permissioning = Permissioning::start(config)?;
    let mut agents = Vec::new();
    for shard in 0..count {
        let life = incarnation.wrapping_add(u32::from(shard) << 24);
        let agent = P2psAgent::new(config, (life, shard), Arc::clone(&mounts), port, permissioning.as_ref())?;
        port.follow(&agent.bound());
        agents.push(agent);
    }
    let monitors = agents.iter().map(P2psAgent::handle).collect();
    let first = agents.remove(0);
    let bound = first.bound();
    let about = About {
        role: "p2ps",
        rssl: Some(bound.rssl),
        encrypted: bound.encrypted,
        websocket: bound.websocket,
        ..process::about(config)
    };
    let life = Lifecycle::new(config.clone(), monitors, again);
    life.record(config, bound.rssl);
    let administration = permissioning.as_ref().map(Permissioning::administration);
    let web = http::start(&config.http, about, &life, administration).map_err(anyhow::Error::msg)?;
    exposure::tell(config, Sides { consumers: true, providers: false, hub: false });
    let line = ready_line(&bound) + &process::web(web.as_ref());
    let result = run_all(config, &life, first, agents, &line);
    life.end_recording();
    result
}

/// Runs the first agent here and each other one in a thread of its own.
fn run_all(
    config: &Config,
    life: &Lifecycle,
    mut first: P2psAgent,
    others: Vec<P2psAgent>,
    line: &str,
) -> anyhow::Result<()> {
    let over = Arc::new(AtomicBool::new(false));
    let pulse = Pulse::default();
    let mut watched = vec![(pulse.clone(), first.io().tcp().waker())];
    let mut threads = Vec::new();
    for (mut agent, number) in others.into_iter().zip(1_usize..) {
        let beat = Pulse::default();
        watched.push((beat.clone(), agent.io().tcp().waker()));
        let cpus = config.p2ps.bind_writer_threads.get(number - 1).cloned().unwrap_or_default();
        let (priority, slice, over) = (config.p2ps.priority.clone(), config.p2ps.slice_us, Arc::clone(&over));
        let life = life.clone();
        let run = move || {
            config::place("a writer thread", &cpus, &priority);
            config::slice("a writer thread", slice);
            let ended = agent.run(|| process::turn_over(&beat, &life) || over.load(Ordering::Acquire));
            over.store(true, Ordering::Release);
            ended.map_err(anyhow::Error::from)
        };
        threads.push(Builder::new().name(format!("p2ps {number}")).spawn(run)?);
    }
    config::place("the main thread", &config.p2ps.bind_main_thread, &config.p2ps.priority);
    config::slice("the main thread", config.p2ps.slice_us);
    process::announce(line, watched.clone());
    let mut result =
        first.run(|| process::turn_over(&pulse, life) || over.load(Ordering::Acquire)).map_err(anyhow::Error::from);
    service::stopping();
    over.store(true, Ordering::Release);
    for (_, waker) in &watched {
        waker.wake();
    }
    for thread in threads {
        result = result.and(ended(thread));
    }
    result
}

fn ended(thread: JoinHandle<anyhow::Result<()>>) -> anyhow::Result<()> {
    thread.join().unwrap_or_else(|_| Err(anyhow!("a thread of the P2PS has failed")))
}

/// The line that tells people and programs that the ports are open: addresses that can be connected to.
fn ready_line(at: &Bound) -> String {
    let (further, bound) =
        (process::show_ports(at.encrypted, at.websocket, at.marketfeed), process::bound([Some(at.rssl)]));
    format!("ready rssl={}{further}{bound}", addresses::show(at.rssl))
}
