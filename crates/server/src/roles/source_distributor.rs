//! `quoteway source-distributor`: the provider side in a process of its own.

use clap::Args;
use config::{Config, ConfigArgs, Route};
use hub_io::publisher::CONNECTIONS;

use super::delayed::{ConsumersAt, OwnP2ps};
use super::exposure::{self, Sides};
use super::process::{self, HttpArgs};
use super::service::{self, Pulse};
use crate::addresses;
use crate::agents::lifecycle::Lifecycle;
use crate::agents::source_distributor::{Addresses, SourceDistributorAgent};
use crate::http::{self, About, Feeds, Replays};

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
    process::raise_open_files(u64::from(config.source_distributor.nip_max_mounts) + CONNECTIONS as u64 + 200);
    let incarnation = process::incarnation();
    let mut agent = SourceDistributorAgent::new(&config, incarnation)?;
    let c = &config.source_distributor;
    config::place("the main thread", &c.bind_main_thread, &c.priority);
    config::slice("the main thread", c.slice_us);
    let pulse = Pulse::default();
    let addresses = agent.addresses();
    // Ends behind the agent.
    let _own = OwnP2ps::start(&config, incarnation, addresses.hub, &args.consumers_at)?;
    let about = About {
        role: "source-distributor",
        nip: addresses.nip,
        hub: Some(addresses.hub),
        takes_websocket: false,
        feeds: args.feeds.clone(),
        replays: args.replays.clone(),
        ..process::about(&config)
    };
    let again = args.clone();
    if !config.record.folder.is_empty() {
        tracing::warn!("record.folder has no effect here: a Source Distributor has no consumers; its P2PS records");
    }
    let life = Lifecycle::new(config.clone(), vec![agent.handle()], Box::new(move || again.configuration()));
    let web = http::start(&config.http, about, &life, None).map_err(anyhow::Error::msg)?;
    exposure::tell(&config, Sides { consumers: false, providers: addresses.nip.is_some(), hub: true });
    let line = ready_line(addresses) + &process::web(web.as_ref());
    process::announce(&line, vec![(pulse.clone(), agent.io().tcp().waker())]);
    let result = agent.run(|| process::turn_over(&pulse, &life)).map_err(anyhow::Error::from);
    service::stopping();
    result
}

/// The line that tells people and programs that the ports are open: addresses that can be connected to.
fn ready_line(addresses: Addresses) -> String {
    let nip = addresses.nip.map_or("off".to_string(), addresses::show);
    let bound = process::bound([Some(addresses.hub), addresses.nip]);
    format!("ready nip={nip} hub={}{bound}", addresses::show(addresses.hub))
}
