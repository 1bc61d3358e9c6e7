//! Where a flag says that a server is: `HOST:PORT`, or the name of a service (`srv:_rssl._tcp.example.com`) that the DNS knows.

use std::net::SocketAddr;

use anyhow::anyhow;
use net::dns::{self, Place, ServiceName};

/// The places of a server, and the one that is to be tried. They were looked up when the program started: whoever fails goes round.
#[derive(Clone, Debug)]
pub struct Places {
    /// At least one.
    list: Vec<Place>,
    next: usize,
}

impl Places {
    /// What a flag (`--server`) says.
    ///
    /// # Errors
    /// A text for the user: nothing has this name, or it is none.
    pub fn of(text: &str, flag: &str) -> anyhow::Result<Self> {
        let how = if ServiceName::is_meant_by(text) { "" } else { "; write HOST:PORT, or srv:_SERVICE._tcp.DOMAIN" };
        let list = dns::places(text).map_err(|e| anyhow!("{flag} {text:?}: {e}{how}"))?;
        Ok(Self { list, next: 0 })
    }

    /// What a flag for a host and one for a port say; a service has its ports itself.
    ///
    /// # Errors
    /// As for [`Places::of`].
    pub fn of_host(host: &str, port: u16, flag: &str) -> anyhow::Result<Self> {
        if ServiceName::is_meant_by(host) { Self::of(host, flag) } else { Self::of(&format!("{host}:{port}"), flag) }
    }

    /// The place to try.
    pub fn place(&self) -> &Place {
        &self.list[self.next]
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.place().address
    }

    /// The place could not be used, or not any longer: the one behind it is to be tried, behind the last the first.
    pub fn go_on(&mut self) {
        self.next = (self.next + 1) % self.list.len();
    }
}

impl std::fmt::Display for Places {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.address().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_of_a_server_are_tried_in_turn() {
        let place = |port| Place { host: "h".to_owned(), address: ([127, 0, 0, 1], port).into() };
        let mut places = Places { list: vec![place(1), place(2)], next: 0 };
        let mut ports = Vec::new();
        for _ in 0..3 {
            ports.push(places.address().port());
            places.go_on();
        }
        assert_eq!(ports, [1, 2, 1]);
    }

    #[test]
    fn a_host_has_a_port_and_a_service_has_none() {
        assert_eq!(Places::of_host("127.0.0.1", 14_002, "-h").expect("an address").to_string(), "127.0.0.1:14002");
        let told = Places::of("127.0.0.1", "--server").expect_err("no port").to_string();
        assert!(told.starts_with("--server \"127.0.0.1\": ") && told.contains("HOST:PORT"), "{told}");
        let told = Places::of_host("srv:nonsense", 14_002, "-h").expect_err("no service").to_string();
        assert!(told.contains("srv:_SERVICE._tcp.DOMAIN, without a port"), "{told}");
    }
}
