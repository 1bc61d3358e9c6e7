//! The exposure of a process, and which parameter closes it: one line at the start, so that nobody has to find out from outside.

use std::net::IpAddr;

use config::{Config, P2ps, SourceDistributor};
use net::Network;
use permissions::Mode;

/// The sides that a process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sides {
    /// Consumers connect.
    pub consumers: bool,
    /// Non-interactive providers connect, unless their port is off.
    pub providers: bool,
    /// P2PSs connect.
    pub hub: bool,
}

/// Says in the log what is open to whoever reaches this host; nothing where nothing is.
pub fn tell(config: &Config, sides: Sides) {
    if let Some(text) = text(config, sides) {
        tracing::warn!("{text}");
    }
}

fn text(config: &Config, sides: Sides) -> Option<String> {
    let mut open = Vec::new();
    if sides.consumers && is_reachable(&config.p2ps.interface) {
        open.extend(consumers(&config.p2ps, config.permissions.mode.0));
    }
    if sides.providers && is_reachable(&config.source_distributor.interface) {
        open.extend(providers(&config.source_distributor));
    }
    if sides.hub && is_reachable(&config.hub.interface) {
        open.extend(hub(config));
    }
    // Without users it listens on the loopback alone, by the rules of the configuration.
    if config.http.enabled && !config.http.users.is_empty() && is_reachable(&config.http.interface) {
        let what = "what http.users type as their passwords is not encrypted (http.interface = \"127.0.0.1\" behind a proxy with TLS closes it)";
        open.push(what.to_owned());
    }
    (!open.is_empty()).then(|| format!("open to all who reach this host: {}", open.join("; ")))
}

/// Whether others than this host come by an interface: an address, a network, or all for an empty text.
fn is_reachable(interface: &str) -> bool {
    let is_loopback = |address: IpAddr| address.is_loopback();
    let network = |text: &str| text.parse::<Network>().is_ok() && (text.starts_with("127.") || text == "::1/128");
    !(interface.parse().is_ok_and(is_loopback) || network(interface))
}

fn consumers(c: &P2ps, mode: Mode) -> Option<String> {
    let is_checked =
        mode == Mode::On || !c.token_keys_file.is_empty() && c.token_required || !c.client_ca_file.is_empty();
    let who = "consumers log in under any name and see all (p2ps.interface, permissions.mode, token_keys_file or client_ca_file closes it)";
    (!is_checked).then(|| who.to_owned())
}

fn providers(c: &SourceDistributor) -> Option<String> {
    let who = "providers publish any service (source_distributor.interface, or nip_cert_file with nip_client_ca_file, closes it)";
    c.nip_client_ca_file.is_empty().then(|| who.to_owned())
}

fn hub(config: &Config) -> Option<String> {
    if !config.hub.key_file.is_empty() {
        return None;
    }
    let among = if config.hub.allow.is_empty() { "P2PSs" } else { "P2PSs of the networks of hub.allow" };
    Some(format!("{among} join hub {:?} without a key and get all (hub.key_file closes it)", config.hub.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Sides = Sides { consumers: true, providers: true, hub: true };

    #[test]
    fn a_line_says_what_is_open_and_the_key_to_close_it() {
        let mut config = Config::default();
        let said = text(&config, ALL).expect("everything is open by default");
        for key in ["p2ps.interface", "source_distributor.interface", "hub.key_file"] {
            assert!(said.contains(key), "{said}");
        }
        config.hub.key_file = "hub.key".to_owned();
        config.source_distributor.interface = "127.0.0.1".to_owned();
        let said = text(&config, ALL).expect("consumers");
        assert!(said.contains("consumers") && !said.contains("hub") && !said.contains("providers"), "{said}");
        config.p2ps.interface = "127.0.0.0/8".to_owned();
        assert_eq!(text(&config, ALL), None);
        config.p2ps.interface = "10.1.0.0/16".to_owned();
        assert!(text(&config, ALL).is_some());
        config.permissions.mode.0 = Mode::On;
        assert_eq!(text(&config, ALL), None);
        config.http.users = vec!["ops:operator:hash".to_owned()];
        assert_eq!(text(&config, ALL), None);
        config.http.interface = String::new();
        assert!(text(&config, ALL).is_some_and(|said| said.contains("http.interface")));
    }
}
