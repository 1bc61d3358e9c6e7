//! Ports that a configuration asks for twice, and addresses that nobody can have.

use std::net::IpAddr;

use net::dns::ServiceName;

use super::Config;

/// A port that one process listens on.
struct Port<'a> {
    /// The parameter, with its section.
    key: &'static str,
    number: u16,
    interface: &'a str,
}

impl Port<'_> {
    /// Both cannot be had on one machine.
    fn clashes(&self, other: &Port<'_>) -> bool {
        // An interface named by its network is an address of it, which is not known here.
        let address = |text: &str| text.parse::<IpAddr>().ok().filter(|ip| !ip.is_unspecified());
        let apart = matches!((address(self.interface), address(other.interface)), (Some(a), Some(b)) if a != b);
        self.number != 0 && self.number == other.number && !apart
    }
}

/// Faults of the ports of a configuration, one sentence each: two of the ports that one process opens are the same, or
/// a HOST:PORT has none that can be connected to.
pub(super) fn faults(config: &Config) -> Vec<String> {
    let mut found = Vec::new();
    let open = listened(config);
    for (n, port) in open.iter().enumerate() {
        for other in open[..n].iter().filter(|other| port.clashes(other)) {
            found.push(format!(
                "{} and {} are both {}: give one of them another port",
                other.key, port.key, port.number
            ));
        }
    }
    for route in config.dialled_routes().filter(|route| !route.proxy_host.is_empty() && route.proxy_port == 0) {
        found.push(format!("route.proxy_port: {:?} cannot be connected to at port 0", route.proxy_host));
    }
    let host = &config.p2ps.connection_host;
    if !host.is_empty() && !is_host(host) {
        found.push(format!("p2ps.connection_host: {host:?} is no host: a name or an address without a port"));
    }
    let hosts = config.dialled_routes().flat_map(|r| r.host_list.iter().map(|h| ("route.host_list", h)));
    let hosts = hosts.chain(config.hub.source_distributors.iter().map(|h| ("hub.source_distributors", h)));
    let hosts = hosts.chain(config.aeron.sources.iter().map(|h| ("aeron.sources", h)));
    let hosts = hosts.chain(config.p2ps.connection_list.iter().map(|h| ("p2ps.connection_list", h)));
    let hosts = hosts.chain(config.aeron.destinations.iter().map(|h| ("aeron.destinations", h)));
    for (key, host) in hosts {
        if let Some(service) = ServiceName::of(host).filter(|_| takes_services(key)) {
            found.extend(service.err().map(|e| format!("{key}: {e}")));
            continue;
        }
        // An IPv6 address without a port has colons too.
        let port = host.rsplit_once(':').map(|(_, port)| port).filter(|_| host.parse::<IpAddr>().is_err());
        if port.is_none() && key == "p2ps.connection_list" {
            found.push(format!("{key}: {host:?} has no port: HOST:PORT, or [ADDRESS]:PORT for IPv6"));
        }
        if let Some(port) = port.filter(|port| !matches!(port.parse::<u16>(), Ok(1..))) {
            found.push(format!("{key}: {host:?} has {port:?} for a port, which must be from 1 to 65535"));
        }
    }
    found
}

/// Whether clients can be told to connect to it: letters, digits, dots, dashes, or an address.
fn is_host(text: &str) -> bool {
    let is_name = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
    text.len() <= 255 && (text.parse::<IpAddr>().is_ok() || is_name(text))
}

/// Whether the entries of a list of hosts may be names of services.
fn takes_services(key: &str) -> bool {
    matches!(key, "route.host_list" | "hub.source_distributors")
}

/// The ports of `quoteway serve` and of the processes that it can be divided into.
fn listened(config: &Config) -> Vec<Port<'_>> {
    let (p, s, h) = (&config.p2ps, &config.source_distributor, &config.hub);
    let mut open = vec![Port { key: "p2ps.rssl_port", number: p.rssl_port, interface: &p.interface }];
    let mut add = |wanted: bool, key, number, interface| {
        if wanted {
            open.push(Port { key, number, interface });
        }
    };
    add(!p.server_cert_file.is_empty(), "p2ps.encrypted_port", p.encrypted_port, &p.interface);
    add(p.websocket && p.enable_websocket_port, "p2ps.websocket_port", p.websocket_port, &p.interface);
    add(p.enable_marketfeed_port, "p2ps.marketfeed_port", p.marketfeed_port, &p.interface);
    add(s.enable_nip_server, "source_distributor.nip_port", s.nip_port, &s.interface);
    add(true, "hub.port", h.port, &h.interface);
    add(true, "http.port", config.http.port, &config.http.interface);
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        faults(&Config::parse("q.toml", text).expect("it is read"))
    }

    #[test]
    fn two_ports_of_one_number_are_a_fault() {
        assert_eq!(faults(&Config::default()), [""; 0]);
        assert_eq!(
            of("[p2ps]\nrssl_port = 14003\n"),
            ["p2ps.rssl_port and source_distributor.nip_port are both 14003: give one of them another port"]
        );
        assert_eq!(of("[p2ps]\nrssl_port = 14003\n[source_distributor]\nenable_nip_server = false\n"), [""; 0]);
        let apart =
            "[p2ps]\nrssl_port = 14003\ninterface = \"10.0.0.1\"\n[source_distributor]\ninterface = \"10.0.0.2\"\n";
        assert_eq!(of(apart), [""; 0]);
        assert_eq!(of("[p2ps]\nrssl_port = 0\n[source_distributor]\nnip_port = 0\n"), [""; 0], "free ones");
    }

    #[test]
    fn a_service_has_a_name_and_no_port() {
        let lists = |entry: &str| {
            format!("[hub]\nsource_distributors = [\"{entry}\"]\n[[route]]\nhost_list = [\"{entry}\", \"a:1\"]\n")
        };
        assert_eq!(of(&lists("srv:_quoteway._tcp.example.com")), [""; 0]);
        for bad in ["srv:", "srv:example.com", "srv:_quoteway._tcp.example.com:14004"] {
            let found = of(&lists(bad));
            let told = |key: &str| {
                found.iter().any(|f| f.starts_with(key) && f.contains(bad) && f.contains("names no service"))
            };
            assert!(told("route.host_list") && told("hub.source_distributors") && found.len() == 2, "{found:?}");
        }
        assert_eq!(of("[p2ps]\nconnection_list = [\"srv:_a._tcp.b\"]\n").len(), 1, "clients look up no services");
    }

    #[test]
    fn a_host_needs_a_port_that_can_be_dialled() {
        let found = of("[[route]]\nhost_list = [\"a:0\", \"b:70000\", \"c\", \"d:14002\", \"::1\"]\n");
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(of("[p2ps]\nconnection_host = \"fd00::7\"\n"), Vec::<String>::new());
        for wrong in ["a:14002", "a b", "[::1]"] {
            assert_eq!(of(&format!("[p2ps]\nconnection_host = \"{wrong}\"\n")).len(), 1, "{wrong}");
        }
        let told = of("[p2ps]\nconnection_list = [\"a:14002\", \"[::1]:14002\", \"b\", \"c:0\"]\n");
        assert!(matches!(&told[..], [b, c] if b.contains("\"b\" has no port") && c.contains("\"c:0\"")), "{told:?}");
        assert!(found[0].contains("\"a:0\"") && found[1].contains("from 1 to 65535"), "{found:?}");
    }
}
