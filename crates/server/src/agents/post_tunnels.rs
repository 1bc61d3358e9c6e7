//! Providers whose posts go in a tunnel stream (`enable_tunnel_stream_aggregation` of a route): what passes between each and the Source Distributor is looked at here.

use std::collections::BTreeMap;
use std::io;

use config::{Config, Route};
use hub::distributor::{ProviderSink, SessionId, SourceDistributor};
use omm::tunnel::{PostCounts, PostTunnel, TunnelConfig};
use rwf::msg::Domain;
use rwf::rdm::login;

/// Stream of the tunnel: the Source Distributor gives out small numbers.
const STREAM: i32 = i32::MAX;
/// Name of the stream at the provider, which may be any.
const NAME: &str = "TUNNEL";
/// Time in which the opening of a tunnel, and the login in it, has to be answered.
const PATIENCE: u64 = 15_000_000_000;

/// The tunnel of a route, as it is for each of its sessions.
#[derive(Debug, Clone)]
struct Settings {
    config: TunnelConfig,
    service: Option<String>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct PostTunnels {
    of_routes: BTreeMap<u16, Settings>,
    /// By the number of the session.
    sessions: BTreeMap<u32, PostTunnel>,
    /// Counts of sessions that are gone.
    past: PostCounts,
}

impl PostTunnels {
    pub(super) fn new(config: &Config) -> io::Result<Self> {
        let mut own = Self::default();
        for (number, route) in (0..).zip(config.dialled_routes()) {
            own.set_route(number, route).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
        }
        Ok(own)
    }

    /// A route has this number from now on. Its sessions, which are not there yet, are as it says.
    ///
    /// # Errors
    /// The file of the password cannot be read.
    pub(super) fn set_route(&mut self, number: u16, route: &Route) -> Result<(), String> {
        self.of_routes.remove(&number);
        if !route.enable_tunnel_stream_aggregation {
            return Ok(());
        }
        let name = &route.tunnel_stream_user_name;
        let password = password(&route.tunnel_stream_password_file)?;
        let login = || login::Request { name: name.clone(), password, ..login::Request::default() };
        let config = TunnelConfig {
            stream_id: STREAM,
            domain: Domain::SYSTEM,
            name: NAME.to_owned(),
            service_id: 0,
            login: (!name.is_empty()).then(login),
            messages_max: route.tunnel_stream_num_ipc_output_buffers as usize,
            patience: PATIENCE,
        };
        self.of_routes.insert(number, Settings { config, service: config::tunnel_service(route) });
        Ok(())
    }

    /// The session of a route is up.
    pub(super) fn opened(&mut self, id: SessionId, route: u16) {
        if let Some(Settings { config, service }) = self.of_routes.get(&route) {
            self.sessions.insert(id.0, PostTunnel::new(config.clone(), service.clone()));
        }
    }

    /// A session is gone. What became of its posts the Source Distributor says.
    pub(super) fn closed(&mut self, id: SessionId) {
        if let Some(tunnel) = self.sessions.remove(&id.0) {
            self.past = added(self.past, tunnel.counts());
        }
    }

    /// There is none, as at most sites.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    pub(super) fn counts(&self) -> PostCounts {
        self.sessions.values().fold(self.past, |sum, tunnel| added(sum, tunnel.counts()))
    }

    /// When [`PostTunnels::on_timer`] is due.
    pub(super) fn timeout(&self) -> Option<u64> {
        self.sessions.values().filter_map(PostTunnel::timeout).min()
    }

    pub(super) fn on_timer(&mut self, now: u64) {
        for tunnel in self.sessions.values_mut().filter(|tunnel| tunnel.timeout().is_some_and(|at| at <= now)) {
            tunnel.handle_timeout(now);
        }
    }

    /// A message of a provider: true if it is not for the Source Distributor.
    pub(super) fn handle_message(&mut self, now: u64, id: SessionId, msg: &[u8]) -> bool {
        self.sessions.get_mut(&id.0).is_some_and(|tunnel| tunnel.from_provider(now, msg))
    }

    /// A message for a provider: true if it goes in its tunnel, or is answered.
    pub(super) fn take_post(&mut self, id: SessionId, msg: &[u8]) -> bool {
        self.sessions.get_mut(&id.0).is_some_and(|tunnel| tunnel.to_provider(msg))
    }

    /// Gives the Source Distributor the answers to posts.
    pub(super) fn answer(&mut self, now: u64, distributor: &mut SourceDistributor, out: &mut impl ProviderSink) {
        for (&id, tunnel) in &mut self.sessions {
            while let Some(ack) = tunnel.poll_answer() {
                distributor.session_message(now, SessionId(id), ack, out);
            }
            if let Some(why) = tunnel.take_news() {
                tracing::warn!("posts to a provider with a tunnel stream are refused: {why}");
            }
        }
    }

    /// The sessions, with what their tunnels have to say.
    pub(super) fn each(&mut self) -> impl Iterator<Item = (SessionId, &mut PostTunnel)> {
        self.sessions.iter_mut().map(|(&id, tunnel)| (SessionId(id), tunnel))
    }
}

fn added(one: PostCounts, other: PostCounts) -> PostCounts {
    PostCounts {
        sent: one.sent + other.sent,
        refused: one.refused + other.refused,
        opened: one.opened + other.opened,
        unexpected: one.unexpected + other.unexpected,
    }
}

/// The password in a file's first line; none without a file.
fn password(file: &str) -> Result<Option<String>, String> {
    if file.is_empty() {
        return Ok(None);
    }
    let text =
        config::read_named_text(file.as_ref()).map_err(|e| format!("tunnel_stream_password_file {file}: {e}"))?;
    Ok(text.lines().next().map(|line| line.trim().to_owned()))
}
