//! Source Distributors that are found by the name of a service (`srv:` in `hub.source_distributors`): when the name servers are asked,
//! and what they said last.
//!
//! A name is asked for again when its answer has lived as long as it may, and sooner when a Source Distributor that it led to is lost,
//! but never before its time to live is over. Each question has a thread of its own: an answer may take seconds.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use net::Waker;
use net::dns::{self, Fault, Servers, ServiceName};

/// Pause after the first question that brought nothing, nanoseconds; it doubles up to [`PAUSE_MAX_NS`].
const PAUSE_FIRST_NS: u64 = 1_000_000_000;
const PAUSE_MAX_NS: u64 = 30_000_000_000;
/// An answer is asked for anew after its time to live, but not sooner than this while nothing is lost.
const REFRESH_MIN: Duration = Duration::from_secs(10);
/// And not later than this: Source Distributors that are new are to be found.
const REFRESH_MAX: Duration = Duration::from_hours(1);
/// The shortest time between two questions, whatever the time to live.
const LIFE_MIN: Duration = Duration::from_secs(1);

/// The services of a list of hosts.
pub(crate) struct Services {
    list: Vec<Service>,
    answers: Receiver<(usize, Result<Servers, Fault>)>,
    answer: Sender<(usize, Result<Servers, Fault>)>,
    waker: Waker,
}

struct Service {
    name: ServiceName,
    state: State,
    /// The servers that it has, by name, to tell what is new; empty before the first answer.
    known: Vec<String>,
    pause: u64,
    /// The fault told last; it is told once until it changes.
    told: Option<Fault>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The service's servers are asked for at the first time; a loss brings that forward, but not before the second.
    Due { at: u64, earliest: u64 },
    /// A thread asks.
    Asking,
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

impl Services {
    /// The services among the entries of a list; those that are no names are passed over, since the file was checked. All are due at once.
    pub(crate) fn among(entries: &[String], waker: Waker) -> Self {
        let names = entries.iter().filter_map(|entry| ServiceName::of(entry)?.ok());
        let state = State::Due { at: 0, earliest: 0 };
        let list = names.map(|name| Service { name, state, known: Vec::new(), pause: 0, told: None }).collect();
        let (answer, answers) = channel();
        Self { list, answers, answer, waker }
    }

    /// When [`Services::turn`] is due.
    pub(crate) fn timeout(&self) -> Option<u64> {
        let due = |service: &Service| match service.state {
            State::Due { at, .. } => Some(at),
            State::Asking => None,
        };
        self.list.iter().filter_map(due).min()
    }

    /// The names for which nothing has been found yet.
    pub(crate) fn not_found(&self) -> impl Iterator<Item = String> {
        self.list.iter().filter(|service| service.known.is_empty()).map(|service| service.name.to_string())
    }

    /// An entry's name.
    pub(crate) fn name(&self, number: usize) -> &ServiceName {
        &self.list[number].name
    }

    /// A server of a service is lost, or cannot be reached: there may be others by now.
    pub(crate) fn hasten(&mut self, now: u64, number: usize) {
        if let State::Due { at, earliest } = &mut self.list[number].state {
            *at = (*at).min(now.max(*earliest));
        }
    }

    /// Asks for what is due. Gives an answer that has come, if there is one: the number of the service and its servers
    /// (`HOST:PORT`), in the order in which this process is to use them. To be called until there is none.
    pub(crate) fn turn(&mut self, now: u64) -> Option<(usize, Vec<String>)> {
        for number in 0..self.list.len() {
            if matches!(self.list[number].state, State::Due { at, .. } if at <= now) {
                self.ask(now, number);
            }
        }
        while let Ok((number, answer)) = self.answers.try_recv() {
            let service = &mut self.list[number];
            match answer {
                Ok(servers) => return Some((number, service.found(now, &servers))),
                Err(fault) => service.failed(now, fault),
            }
        }
        None
    }

    fn ask(&mut self, now: u64, number: usize) {
        let service = &mut self.list[number];
        service.state = State::Asking;
        let (name, answer, waker) = (service.name.clone(), self.answer.clone(), self.waker.clone());
        let look_up = move || {
            // A fault of the library that reads answers must not leave the service without another question.
            let found = std::panic::catch_unwind(|| dns::look_up(&name));
            let found = found.unwrap_or_else(|_| Err(Fault::NoNameServer("an answer cannot be read".to_owned())));
            let _ = answer.send((number, found));
            waker.wake();
        };
        if let Err(e) = std::thread::Builder::new().name("look-up".into()).spawn(look_up) {
            service.failed(now, Fault::NoNameServer(format!("no thread: {e}")));
        }
    }
}

impl Service {
    fn found(&mut self, now: u64, servers: &Servers) -> Vec<String> {
        let drawn = servers.draw();
        let mut sorted = drawn.clone();
        sorted.sort_unstable();
        if sorted != self.known {
            tracing::info!("{} has Source Distributors {}", self.name, sorted.join(", "));
            self.known = sorted;
        } else if self.told.is_some() {
            tracing::info!("{} is found again", self.name);
        }
        (self.pause, self.told) = (0, None);
        let at = now + nanoseconds(servers.ttl.clamp(REFRESH_MIN, REFRESH_MAX));
        let earliest = now + nanoseconds(servers.ttl.clamp(LIFE_MIN, REFRESH_MAX));
        self.state = State::Due { at, earliest };
        drawn
    }

    fn failed(&mut self, now: u64, fault: Fault) {
        self.pause = (self.pause * 2).clamp(PAUSE_FIRST_NS, PAUSE_MAX_NS);
        let at = now + self.pause;
        self.state = State::Due { at, earliest: at };
        if self.told.as_ref() != Some(&fault) {
            let kept = if self.known.is_empty() { "" } else { "; what it led to before is kept" };
            tracing::warn!("{}: {fault}; asking again{kept}", self.name);
            self.told = Some(fault);
        }
    }
}

#[cfg(test)]
impl Services {
    /// As if the name servers had said this.
    pub(crate) fn answer(&mut self, number: usize, answer: Result<&[(u16, &str, u16)], Fault>, ttl: u64) {
        let server = |&(priority, host, port): &(u16, &str, u16)| dns::Server {
            priority,
            weight: 0,
            host: host.to_owned(),
            port,
        };
        let servers = |list: &[_]| Servers { list: list.iter().map(server).collect(), ttl: Duration::from_secs(ttl) };
        self.list[number].state = State::Asking;
        self.answer.send((number, answer.map(servers))).expect("it is heard");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::tcp::{Tcp, TcpConfig};

    const SECOND: u64 = 1_000_000_000;

    fn one() -> (Tcp, Services) {
        let tcp = Tcp::new(TcpConfig::default()).expect("descriptors");
        let entries = ["sd1:14004".to_owned(), "srv:_quoteway._tcp.example.com".to_owned()];
        let services = Services::among(&entries, tcp.waker());
        (tcp, services)
    }

    #[test]
    fn an_answer_is_used_for_as_long_as_it_lives() {
        let (_tcp, mut services) = one();
        assert_eq!((services.timeout(), services.not_found().count()), (Some(0), 1));
        services.answer(0, Ok(&[(20, "b", 2), (10, "a", 1)]), 60);
        assert_eq!(services.turn(5), Some((0, vec!["a:1".to_owned(), "b:2".to_owned()])));
        assert_eq!((services.timeout(), services.not_found().count()), (Some(5 + 60 * SECOND), 0));
        services.hasten(6, 0);
        assert_eq!(services.timeout(), Some(5 + 60 * SECOND), "a loss does not shorten it");
        // A short-lived answer is asked for again when something is lost, else each ten seconds.
        services.answer(0, Ok(&[(10, "a", 1)]), 0);
        services.turn(5);
        assert_eq!(services.timeout(), Some(5 + 10 * SECOND));
        services.hasten(6, 0);
        assert_eq!(services.timeout(), Some(5 + SECOND));
        services.answer(0, Ok(&[(10, "a", 1)]), 1_000_000);
        services.turn(5);
        assert_eq!(services.timeout(), Some(5 + 3_600 * SECOND));
    }

    #[test]
    fn a_name_that_is_not_found_is_asked_for_with_growing_pauses() {
        let (_tcp, mut services) = one();
        let mut pauses = Vec::new();
        for _ in 0..7 {
            services.answer(0, Err(Fault::NoRecords), 0);
            assert_eq!(services.turn(5), None);
            services.hasten(6, 0);
            pauses.push((services.timeout().expect("it is due") - 5) / SECOND);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        services.answer(0, Ok(&[(10, "a", 1)]), 60);
        assert!(services.turn(5).is_some());
        services.answer(0, Err(Fault::NoRecords), 0);
        services.turn(5);
        assert_eq!((services.timeout(), services.not_found().count()), (Some(5 + SECOND), 0), "what was known is kept");
    }
}
