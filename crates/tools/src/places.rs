//! Where a flag says that a server is: `HOST:PORT`, or the name of a service (`srv:_rssl._tcp.example.com`) that the DNS knows.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use net::dns::{self, Place, ServiceName};

/// A service is asked for again no sooner than this, whatever its time to live.
const LIFE_MIN: Duration = Duration::from_secs(1);

/// The places of a server, and the one that is to be tried: whoever fails goes round. Those of a service are looked up again, by a thread of
/// their own, when all have been tried and what the DNS said is too old. Copies share what is found.
#[derive(Clone, Debug)]
pub struct Places {
    /// At least one.
    list: Vec<Place>,
    next: usize,
    /// Which of the answers `list` is.
    answer: u32,
    /// Of a service.
    renewal: Option<Arc<Renewal>>,
}

#[derive(Debug)]
struct Renewal {
    /// `srv:` and its name.
    service: String,
    latest: Mutex<Latest>,
}

#[derive(Debug)]
struct Latest {
    list: Vec<Place>,
    answer: u32,
    /// When it is too old.
    old_at: Instant,
    is_asked: bool,
}

impl Places {
    /// What a flag (`--server`) says.
    ///
    /// # Errors
    /// A text for the user: nothing has this name, or it is none.
    pub fn of(text: &str, flag: &str) -> anyhow::Result<Self> {
        let how = if ServiceName::is_meant_by(text) { "" } else { "; write HOST:PORT, or srv:_SERVICE._tcp.DOMAIN" };
        let dns::Places { list, ttl } = dns::places(text).map_err(|e| anyhow!("{flag} {text:?}: {e}{how}"))?;
        let renewal = ttl.map(|ttl| {
            let latest = Latest { list: list.clone(), answer: 0, old_at: Instant::now() + ttl, is_asked: false };
            Arc::new(Renewal { service: text.to_owned(), latest: Mutex::new(latest) })
        });
        Ok(Self { list, next: 0, answer: 0, renewal })
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
        let Some(renewal) = &self.renewal else { return };
        let mut latest = renewal.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.answer != self.answer {
            (self.list, self.answer, self.next) = (latest.list.clone(), latest.answer, 0);
        } else if self.next == 0 && !latest.is_asked && latest.old_at <= Instant::now() {
            latest.is_asked = true;
            let shared = Arc::clone(renewal);
            // A fault of the library that reads answers must not leave the service without another question.
            let unreadable = || std::io::Error::other("an answer of the DNS cannot be read");
            let ask = move |service: &str| {
                std::panic::catch_unwind(|| dns::places(service)).unwrap_or_else(|_| Err(unreadable()))
            };
            let started = std::thread::Builder::new().name("look-up".into()).spawn(move || shared.renew(&ask));
            latest.is_asked = started.is_ok();
        }
    }
}

impl Renewal {
    /// Asks again; what was known is kept where nobody says anything else.
    fn renew(&self, ask: &dyn Fn(&str) -> std::io::Result<dns::Places>) {
        let found = ask(&self.service);
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.is_asked = false;
        let ttl = found.as_ref().ok().and_then(|found| found.ttl).unwrap_or_default();
        latest.old_at = Instant::now() + ttl.max(LIFE_MIN);
        match found {
            Ok(found) => (latest.list, latest.answer) = (found.list, latest.answer.wrapping_add(1)),
            Err(e) => tracing::warn!("{}: {e}; its servers stay as they were", self.service),
        }
    }
}

impl omm_io::Reach for Places {
    fn address(&self) -> SocketAddr {
        Self::address(self)
    }

    fn go_on(&mut self) {
        Self::go_on(self);
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

    fn place(port: u16) -> Place {
        Place { host: "h".to_owned(), address: ([127, 0, 0, 1], port).into() }
    }

    fn ports(places: &mut Places, count: usize) -> Vec<u16> {
        let mut ports = Vec::new();
        for _ in 0..count {
            ports.push(places.address().port());
            places.go_on();
        }
        ports
    }

    #[test]
    fn the_places_of_a_server_are_tried_in_turn() {
        let mut places = Places { list: vec![place(1), place(2)], next: 0, answer: 0, renewal: None };
        assert_eq!(ports(&mut places, 3), [1, 2, 1]);
    }

    #[test]
    fn what_the_dns_says_later_is_tried_from_its_beginning_and_a_failure_keeps_what_was() {
        let list = vec![place(1), place(2)];
        let old_at = Instant::now() + Duration::from_hours(1);
        let latest = Mutex::new(Latest { list: list.clone(), answer: 0, old_at, is_asked: false });
        let renewal = Arc::new(Renewal { service: "srv:_a._tcp".to_owned(), latest });
        let mut places = Places { list, next: 0, answer: 0, renewal: Some(Arc::clone(&renewal)) };
        let mut copy = places.clone();
        assert_eq!(ports(&mut places, 3), [1, 2, 1], "what is young enough is not asked for");
        assert!(!renewal.latest.lock().unwrap().is_asked);
        renewal.renew(&|_| Err(std::io::Error::other("nobody knows")));
        assert_eq!(ports(&mut places, 2), [2, 1]);
        renewal.renew(&|service| {
            assert_eq!(service, "srv:_a._tcp");
            Ok(dns::Places { list: vec![place(3), place(4)], ttl: Some(Duration::from_hours(1)) })
        });
        assert_eq!(ports(&mut places, 4), [2, 3, 4, 3]);
        assert_eq!(ports(&mut copy, 3), [1, 3, 4], "copies share it");
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
