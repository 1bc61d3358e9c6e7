//! `quoteway desktop`: a P2PS for the programs of one user, which takes the hub's multicast itself (what RTIC is called in the field).

use clap::Args;
use config::{Config, ConfigArgs, Hub, HubTransport, P2ps};

use super::p2ps;
use super::process::{self, HttpArgs};

/// Flags of the command line; they win over the file.
#[derive(Debug, Clone, Default, Args)]
pub struct DesktopArgs {
    /// Name of the hub to look for [default: hub.name of the file, or quoteway]
    #[arg(long, value_name = "NAME")]
    pub hub: Option<String>,
    /// Address of this machine in the hub's network, or that network, such as 10.1.0.0/16 [default: the kernel's choice]
    #[arg(long, value_name = "ADDRESS")]
    pub hub_interface: Option<String>,
    /// Source Distributor to join by TCP where no multicast passes, or srv:_SERVICE._tcp.DOMAIN for those that the DNS names (SRV); may be
    /// given several times [default: those that are heard]
    #[arg(long = "source-distributor", value_name = "HOST:PORT", value_parser = process::server)]
    pub source_distributors: Vec<String>,
    /// Port for RSSL programs of this machine, WebSocket ones too; 0 takes a free one [default: 14002]
    #[arg(long, value_name = "PORT")]
    pub rssl_port: Option<u16>,
    /// Port by which WebSocket programs of this machine find a server by habit; 0 takes a free one [default: 15000]
    #[arg(long, value_name = "PORT")]
    pub websocket_port: Option<u16>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub http: HttpArgs,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub file: ConfigArgs,
}

/// LBM options of one among very many receivers.
///
/// * All of them may lose the same datagram (a switch that drops it), and the repetition is sent to all: who waits longer mostly sees it
///   before asking.
/// * Each query goes to all, and so does each answer. Source Distributors advertise themselves every second, for ever: who hears that need
///   hardly ask.
const MANY_RECEIVERS: [&str; 7] = [
    "receiver resolver_query_minimum_initial_interval 200",
    "receiver resolver_query_maximum_initial_interval 2000",
    "receiver resolver_query_minimum_initial_duration 3000",
    "receiver resolver_query_sustain_interval 60000",
    "receiver transport_lbtrm_nak_initial_backoff_interval 50",
    "receiver transport_lbtrm_nak_backoff_interval 200",
    "receiver transport_lbtrm_nak_suppress_interval 200",
];

impl DesktopArgs {
    /// The configuration: what suits a desktop, then the file, then the command line. A parameter that the file leaves at the default of all
    /// processes has that of a desktop.
    ///
    /// # Errors
    /// Every fault of the file, each with its line.
    pub fn configuration(&self) -> anyhow::Result<Config> {
        let mut config = process::load(&self.file)?;
        if let Some(name) = &self.hub {
            config.hub.name.clone_from(name);
        }
        if let Some(interface) = &self.hub_interface {
            config.hub.interface.clone_from(interface);
        }
        config.hub.source_distributors.extend(self.source_distributors.iter().cloned());
        suit_hub(&mut config.hub);
        suit_p2ps(&mut config.p2ps);
        if let Some(port) = self.rssl_port {
            config.p2ps.rssl_port = port;
        }
        if let Some(port) = self.websocket_port {
            config.p2ps.websocket_port = port;
        }
        self.http.apply(&mut config.http);
        Ok(config)
    }
}

/// Sets a parameter that nobody has set.
fn suit<T: PartialEq>(parameter: &mut T, usual: &T, here: T) {
    if *parameter == *usual {
        *parameter = here;
    }
}

fn suit_hub(hub: &mut Hub) {
    let usual = Hub::default();
    // A desktop that is told whom to join has no multicast.
    if hub.source_distributors.is_empty() {
        suit(&mut hub.transport, &usual.transport, HubTransport::LbtRm);
    }
    suit(&mut hub.paces_providers, &usual.paces_providers, false);
    // A heartbeat each 10 s: a Source Distributor takes such a P2PS for gone that is silent for five times its hub.peer_timeout_ms, 25 s.
    suit(&mut hub.heartbeat_interval_ms, &usual.heartbeat_interval_ms, 2_000);
    suit(&mut hub.udp_recv_buf_size, &usual.udp_recv_buf_size, 2 << 20);
    suit(&mut hub.udp_send_buf_size, &usual.udp_send_buf_size, 64 << 10);
    suit(&mut hub.tcp_send_buf_size, &usual.tcp_send_buf_size, 64 << 10);
    suit(&mut hub.tcp_recv_buf_size, &usual.tcp_recv_buf_size, 256 << 10);
    // The options of the file come behind, and win.
    hub.lbm_options.splice(0..0, MANY_RECEIVERS.map(str::to_owned));
}

fn suit_p2ps(p2ps: &mut P2ps) {
    let usual = P2ps::default();
    suit(&mut p2ps.interface, &usual.interface, "127.0.0.1".to_owned());
    // A page of any other server, this machine's own ones too, would have the user's market data.
    suit(&mut p2ps.websocket_origins, &usual.websocket_origins, vec!["own".to_owned()]);
    suit(&mut p2ps.max_mounts, &usual.max_mounts, 100);
    suit(&mut p2ps.item_limit, &usual.item_limit, 50_000);
    // Further programs of the user, and those that start again, have their images from here.
    suit(&mut p2ps.enable_cache, &usual.enable_cache, true);
    suit(&mut p2ps.max_cache_size, &usual.max_cache_size, 50_000);
    // Buffers of 6 KB: 30 MB over all programs, 6 MB for a slow one.
    suit(&mut p2ps.pool_size, &usual.pool_size, 5_000);
    suit(&mut p2ps.max_output_buffers, &usual.max_output_buffers, 1_000);
    suit(&mut p2ps.guaranteed_output_buffers, &usual.guaranteed_output_buffers, 100);
    // A desktop is nobody's server: other programs of the machine come first as often.
    suit(&mut p2ps.slice_us, &usual.slice_us, 0);
}

/// Serves until SIGINT or SIGTERM. The first line on standard output comes when it is ready and names the ports.
///
/// # Errors
/// What keeps it from starting, before any program could connect, or what ended it.
pub fn run(args: &DesktopArgs) -> anyhow::Result<()> {
    let config = args.configuration()?;
    process::install_signals()?;
    let again = args.clone();
    p2ps::serve(&config, Box::new(move || again.configuration()))
}

#[cfg(test)]
mod tests {
    use super::DesktopArgs;
    use config::{ConfigArgs, HubTransport};

    #[test]
    fn it_needs_no_file_and_no_address() {
        let config = DesktopArgs::default().configuration().expect("defaults");
        assert_eq!((config.hub.transport, config.hub.paces_providers), (HubTransport::LbtRm, false));
        assert_eq!((config.p2ps.interface.as_str(), config.p2ps.rssl_port), ("127.0.0.1", 14002));
        assert_eq!((config.p2ps.enable_websocket_port, config.p2ps.websocket_port), (true, 15000));
        assert!(config.p2ps.enable_cache);
        assert_eq!(config.p2ps.websocket_origins, ["own"]);
    }

    #[test]
    fn who_is_told_whom_to_join_does_so_by_tcp() {
        let args = DesktopArgs { source_distributors: vec!["sd1:14004".into()], ..DesktopArgs::default() };
        let config = args.configuration().expect("defaults");
        assert_eq!(config.hub.transport, HubTransport::Tcp);
        assert!(!config.hub.paces_providers);
    }

    #[test]
    fn the_file_wins_over_what_suits_a_desktop_and_the_command_line_over_the_file() {
        let file = tempfile::NamedTempFile::with_suffix(".toml").expect("a file");
        let text = "[hub]\nname = \"prod\"\nheartbeat_interval_ms = 700\nlbm_options = [\"receiver transport_lbtrm_nak_backoff_interval 90\"]\n[p2ps]\nmax_mounts = 7\n";
        std::fs::write(file.path(), text).expect("written");
        let file_args = ConfigArgs { config: Some(file.path().into()), ..ConfigArgs::default() };
        let args = DesktopArgs { file: file_args, rssl_port: Some(0), ..DesktopArgs::default() };
        let config = args.configuration().expect("no faults");
        assert_eq!((config.hub.name.as_str(), config.hub.heartbeat_interval_ms), ("prod", 700));
        assert_eq!((config.p2ps.max_mounts, config.p2ps.rssl_port), (7, 0));
        assert!(config.hub.lbm_options.last().expect("some").ends_with("interval 90"));
        assert_eq!(config.hub.transport, HubTransport::LbtRm);
    }
}
