//! `quoteway rrcpd`: the daemon that brings the hub's streams to a host once.

use clap::Args;
use config::{Config, ConfigArgs, HubTransport};

use super::process::{self, HttpArgs};
use super::service::{self, Pulse};
use crate::agents::lifecycle::Lifecycle;
use crate::agents::relay::Relay;
use crate::counters::Samples;
use crate::http::{self, About};

/// Flags of the command line; they win over the file.
#[derive(Debug, Clone, Default, Args)]
pub struct RrcpdArgs {
    /// Address of the network interface on whose side the network is [default: the kernel's choice]
    #[arg(long, value_name = "ADDRESS")]
    pub interface: Option<String>,
    /// Hub to carry; may be given several times [default: hub.name of the file, or quoteway]
    #[arg(long = "hub", value_name = "NAME")]
    pub hubs: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub http: HttpArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub file: ConfigArgs,
}

impl RrcpdArgs {
    /// The configuration: defaults, then the file, then the command line. Without a word on the transport it is multicast.
    ///
    /// # Errors
    /// Every fault of the file, each with its line.
    pub fn configuration(&self) -> anyhow::Result<Config> {
        let mut config = process::load(&self.file)?;
        if config.hub.transport == HubTransport::Tcp {
            config.hub.transport = HubTransport::LbtRm;
        }
        if let Some(interface) = &self.interface {
            config.hub.interface.clone_from(interface);
        }
        if let Some((first, others)) = self.hubs.split_first() {
            config.hub.name.clone_from(first);
            config.rrcpd.hubs = others.to_vec();
        }
        self.http.apply(&mut config.http);
        Ok(config)
    }
}

/// Carries until SIGINT or SIGTERM. The first line on standard output comes when it is ready.
///
/// # Errors
/// What keeps it from starting, or what ended it.
pub fn run(args: &RrcpdArgs) -> anyhow::Result<()> {
    let config = args.configuration()?;
    process::install_signals()?;
    let mut relay = Relay::new(&config)?;
    config::place("rrcpd", &config.rrcpd.bind_main_thread, &config.rrcpd.priority);
    let pulse = Pulse::default();
    let again = args.clone();
    let life = Lifecycle::new(config.clone(), vec![relay.handle()], Box::new(move || again.configuration()));
    let about = About { role: http::RRCPD, takes_websocket: false, ..process::about(&config) };
    let web = http::start(&config.http, about, &life, None).map_err(anyhow::Error::msg)?;
    let line = format!("ready hub={}", config.hub.name) + &process::web(web.as_ref());
    process::announce(&line, vec![(pulse.clone(), relay.waker())]);
    let ended = relay.run(|| process::turn_over(&pulse, &life));
    let ended = ended.map_err(anyhow::Error::from);
    service::stopping();
    let mut samples = Samples::default();
    relay.sample(&mut samples);
    for line in samples.summary() {
        tracing::info!("{line}");
    }
    ended
}
