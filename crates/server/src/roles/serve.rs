//! `quoteway serve`: Source Distributor and P2PS in one process.

use clap::Args;
use config::{Config, ConfigArgs, Route};

use super::delayed::ConsumersAt;
use super::exposure::{self, Sides};
use super::process::{self, HttpArgs};
use super::service::{self, Pulse};
use crate::addresses;
use crate::agents::lifecycle::Lifecycle;
use crate::agents::monitor::MonitorHandle;
use crate::agents::server::{Addresses, Server};
use crate::agents::shards::Sharded;
use crate::http::{self, About, Delays, Feeds, Replays, Running};

/// Flags of the command line; they win over the file.
#[derive(Debug, Clone, Default, Args)]
pub struct ServeArgs {
    /// Interactive provider to dial; may be given several times
    #[arg(long = "route", value_name = "HOST:PORT", value_parser = process::server)]
    pub routes: Vec<String>,
    /// Port on which consumers connect (RSSL); 0 takes a free one [default: 14002]
    #[arg(long, value_name = "PORT")]
    pub rssl_port: Option<u16>,
    /// Port on which non-interactive providers connect; 0 takes a free one [default: 14003]
    #[arg(long, value_name = "PORT")]
    pub nip_port: Option<u16>,
    /// Address to listen on, for both ports [default: all]
    #[arg(long, value_name = "ADDRESS")]
    pub interface: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub http: HttpArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub file: ConfigArgs,
    /// Egress shards: threads that each serve a part of the clients; 0 does everything in one thread [default: 0]
    #[arg(long, value_name = "N")]
    pub shards: Option<u16>,
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

impl ServeArgs {
    /// The configuration: defaults, then the file, then the command line.
    ///
    /// # Errors
    /// Every fault of the file, each with its line.
    pub fn configuration(&self) -> anyhow::Result<Config> {
        let mut config = process::load(&self.file)?;
        config.routes.extend(self.routes.iter().map(|r| Route { host_list: vec![r.clone()], ..Route::default() }));
        if let Some(port) = self.rssl_port {
            config.p2ps.rssl_port = port;
        }
        if let Some(port) = self.nip_port {
            config.source_distributor.nip_port = port;
        }
        if let Some(interface) = &self.interface {
            config.p2ps.interface.clone_from(interface);
            config.source_distributor.interface.clone_from(interface);
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
pub fn run(args: &ServeArgs) -> anyhow::Result<()> {
    let config = args.configuration()?;
    process::install_signals()?;
    // A descriptor for each mount, and some for everything else.
    let mounts = u64::from(config.p2ps.max_mounts) + u64::from(config.source_distributor.nip_max_mounts);
    process::raise_open_files(mounts + 100);
    if config::source_threads(&config) > 1 {
        tracing::warn!(
            "source_distributor.source_thread_count has no effect here: quoteway serve has one thread for providers; a Source Distributor of its own has several"
        );
    }
    let pulse = Pulse::default();
    let result = if config.p2ps.writer_thread_count == 0 {
        let mut server = Server::new(&config, process::incarnation())?;
        let life = lifecycle(args, &config, server.monitors());
        life.record(&config, server.addresses().rssl);
        args.consumers_at.tell(server.addresses().rssl);
        let about = About {
            feeds: args.feeds.clone(),
            delays: args.delays.clone(),
            replays: args.replays.clone(),
            ..about(&config, server.addresses(), "serve")
        };
        let web = http::start(&config.http, about, &life, server.administration()).map_err(anyhow::Error::msg)?;
        announce(&config, server.addresses(), web.as_ref(), (pulse.clone(), server.io().tcp().waker()));
        let result = server.run(|| process::turn_over(&pulse, &life));
        life.end_recording();
        result
    } else {
        let mut server = Sharded::new(&config, process::incarnation())?;
        let life = lifecycle(args, &config, server.monitors());
        life.record(&config, server.addresses().rssl);
        args.consumers_at.tell(server.addresses().rssl);
        let about = About {
            feeds: args.feeds.clone(),
            delays: args.delays.clone(),
            replays: args.replays.clone(),
            ..about(&config, server.addresses(), "serve")
        };
        let web = http::start(&config.http, about, &life, server.administration()).map_err(anyhow::Error::msg)?;
        announce(&config, server.addresses(), web.as_ref(), (pulse.clone(), server.io().tcp().waker()));
        let result = server.run(|| process::turn_over(&pulse, &life));
        life.end_recording();
        result
    };
    service::stopping();
    Ok(result?)
}

fn lifecycle(args: &ServeArgs, config: &Config, monitors: Vec<MonitorHandle>) -> Lifecycle {
    let args = args.clone();
    Lifecycle::new(config.clone(), monitors, Box::new(move || args.configuration()))
}

/// Facts that the page and the administration tell of a server.
pub fn about(config: &Config, addresses: Addresses, role: &'static str) -> About {
    About {
        role,
        rssl: Some(addresses.rssl),
        encrypted: addresses.encrypted,
        websocket: addresses.websocket,
        nip: addresses.nip,
        ..process::about(config)
    }
}

fn announce(config: &Config, addresses: Addresses, web: Option<&Running>, thread: service::Watched) {
    let (p2ps, sd) = (&config.p2ps, &config.source_distributor);
    // The main thread is the Source Distributor's when there are shards, else that of both sides.
    let (ours, other) = if p2ps.writer_thread_count > 0 {
        ((&sd.bind_main_thread, &sd.priority), (&p2ps.bind_main_thread, &p2ps.priority))
    } else {
        ((&p2ps.bind_main_thread, &p2ps.priority), (&sd.bind_main_thread, &sd.priority))
    };
    let either = |a: &'_ String, b: &'_ String| if a.is_empty() { b.clone() } else { a.clone() };
    config::place("the main thread", &either(ours.0, other.0), &either(ours.1, other.1));
    config::slice("the main thread", p2ps.slice_us);
    exposure::tell(config, Sides { consumers: true, providers: addresses.nip.is_some(), hub: false });
    process::announce(&(ready_line(addresses) + &process::web(web)), vec![thread]);
}

/// The line that tells people and programs that the ports are open: addresses that can be connected to.
pub fn ready_line(addresses: Addresses) -> String {
    let nip = addresses.nip.map_or("off".to_string(), addresses::show);
    let further = process::show_ports(addresses.encrypted, addresses.websocket, addresses.marketfeed);
    let bound = process::bound([Some(addresses.rssl), addresses.nip]);
    format!("ready rssl={} nip={nip}{further}{bound}", addresses::show(addresses.rssl))
}
