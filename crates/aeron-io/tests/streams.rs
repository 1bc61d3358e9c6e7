//! Publications and subscriptions over every medium, and what becomes of them when the media driver goes.
#![cfg(feature = "aeron")]

use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aeron_io::{DriverOf, Event, FlowControl, Idle, Medium, Offer, Publication, Settings, Subscriptions};

const PATIENCE: Duration = Duration::from_mins(1);

fn settings(dir: &Path, driver: DriverOf, medium: Medium) -> Settings {
    Settings {
        driver,
        dir: Some(dir.to_owned()),
        medium,
        stream: 7,
        term_bytes: 4 << 20,
        mtu: 1408,
        send_buffer: 1 << 20,
        receive_buffer: 1 << 20,
        ring_bytes: 4 << 20,
        idle: Idle::BACKOFF,
        nak_delay: Duration::from_micros(100),
        retransmit_linger: Duration::from_millis(1),
        patience: Duration::from_millis(500),
        silence: Duration::from_secs(2),
    }
}

fn free(ip: &str) -> SocketAddr {
    UdpSocket::bind((ip, 0)).and_then(|socket| socket.local_addr()).expect("a port")
}

/// Both ends, driven by one thread.
struct Pair {
    publication: Publication,
    subscriptions: Subscriptions,
    begun: Instant,
    heard: Vec<Vec<u8>>,
    begins: Vec<(usize, i32)>,
    ends: usize,
}

impl Pair {
    fn new(publication: Settings, subscriptions: &Settings) -> Self {
        Self {
            publication: Publication::new(publication).expect("made"),
            subscriptions: Subscriptions::new(subscriptions).expect("made"),
            begun: Instant::now(),
            heard: Vec::new(),
            begins: Vec::new(),
            ends: 0,
        }
    }

    fn turn(&mut self) {
        let now = self.begun.elapsed().as_nanos() as u64;
        if self.publication.timeout() <= now {
            self.publication.turn(now);
        }
        let (heard, begins, ends) = (&mut self.heard, &mut self.begins, &mut self.ends);
        self.subscriptions.read(1_000, |event| match event {
            Event::Begin { stream, session, .. } => begins.push((stream, session)),
            Event::Message { bytes, .. } => heard.push(bytes.to_vec()),
            Event::End { .. } => *ends += 1,
        });
    }

    fn until(&mut self, what: &str, so: impl Fn(&Self) -> bool) {
        self.within(PATIENCE, what, so);
    }

    fn within(&mut self, patience: Duration, what: &str, so: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !so(self) {
            self.turn();
            let said = (self.publication.warnings(), self.subscriptions.warnings());
            assert!(begun.elapsed() < patience, "waited in vain for {what}: {said:?}");
            std::thread::yield_now();
        }
    }

    /// Offers until a subscriber takes it.
    fn say(&mut self, message: &[u8]) {
        let begun = Instant::now();
        while self.publication.offer(message) != Offer::Taken {
            self.turn();
            assert!(begun.elapsed() < PATIENCE, "not taken: {:?}", self.publication.warnings());
            std::thread::yield_now();
        }
    }

    /// From the first message that is taken on, all come, in order.
    fn talk(&mut self) {
        self.heard.clear();
        self.say(b"first");
        let long: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
        self.say(&long);
        for n in 0..1_000u32 {
            self.say(&n.to_le_bytes());
        }
        self.until("a thousand messages", |p| p.heard.last().is_some_and(|m| m == &999u32.to_le_bytes()));
        let at = self.heard.iter().rposition(|m| m == b"first").expect("the first");
        assert_eq!(self.heard[at + 1], long);
        let numbers: Vec<u32> = self.heard[at + 2..]
            .iter()
            .map(|m| u32::from_le_bytes(m.as_slice().try_into().expect("a number")))
            .collect();
        assert_eq!(numbers, (0..1_000).collect::<Vec<_>>());
        let session = self.publication.session().expect("open");
        assert!(self.begins.iter().any(|(_, s)| *s == session), "the stream is its session's");
    }
}

/// A publication and subscriptions with a driver each, as on two hosts.
fn across(publication: impl FnOnce(&str) -> Medium, subscriptions: impl FnOnce(&str) -> Medium) {
    let (near, far) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let ip = "127.0.0.1";
    let publication = settings(&near.path().join("driver"), DriverOf::ThisProcess, publication(ip));
    let subscriptions = settings(&far.path().join("driver"), DriverOf::ThisProcess, subscriptions(ip));
    Pair::new(publication, &subscriptions).talk();
}

fn unicast(at: SocketAddr, sources: Vec<String>, destinations: Vec<String>) -> Medium {
    Medium::Unicast { at, sources, destinations, flow: FlowControl::Tagged, tag: 3 }
}

#[test]
fn to_those_that_ask() {
    let (here, there) = (free("127.0.0.1"), free("127.0.0.1"));
    across(|_| unicast(here, vec![], vec![]), |_| unicast(there, vec![here.to_string()], vec![]));
}

#[test]
fn to_those_that_are_named() {
    let (here, there, nobody) = (free("127.0.0.1"), free("127.0.0.1"), free("127.0.0.1"));
    let destinations = vec![there.to_string(), nobody.to_string()];
    across(|_| unicast(here, vec![], destinations), |_| unicast(there, vec![], vec![]));
    let there = free("127.0.0.1");
    across(|_| unicast(here, vec![], vec![there.to_string()]), |_| unicast(there, vec![], vec![]));
}

/// A way between two ends on which every tenth datagram with data is lost, repairs included.
struct Lossy {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Lossy {
    fn to(there: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.set_read_timeout(Some(Duration::from_millis(10))).expect("a number");
        let at = socket.local_addr().expect("bound");
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let thread = std::thread::spawn(move || {
            let (mut from, mut datagrams, mut buffer) = (None, 0_u32, vec![0; 65_536]);
            while !until.load(Ordering::Acquire) {
                let Ok((length, who)) = socket.recv_from(&mut buffer) else { continue };
                let to = if who == there { from } else { Some(there) };
                if who != there {
                    from = Some(who);
                    // The type of a frame is behind its length, version and flags: 1 for data.
                    let is_data = buffer[6] == 1 && length > 32;
                    datagrams += u32::from(is_data);
                    if is_data && datagrams.is_multiple_of(10) {
                        continue;
                    }
                }
                if let Some(to) = to {
                    // Datagrams that the kernel does not take are lost, too.
                    let _ = socket.send_to(&buffer[..length], to);
                }
            }
        });
        Self { at, stop, thread: Some(thread) }
    }
}

impl Drop for Lossy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.thread.take().map(JoinHandle::join);
    }
}

/// How long two megabytes take over such a way, to the only destination or to one of several.
fn time_with_loss(alone: bool, nak_delay: Duration, retransmit_linger: Duration) -> Duration {
    let (near, far) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (here, there, nobody) = (free("127.0.0.1"), free("127.0.0.1"), free("127.0.0.1"));
    let way = Lossy::to(there);
    let mut destinations = vec![way.at.to_string()];
    destinations.extend((!alone).then(|| nobody.to_string()));
    let of = |dir: &Path, medium| Settings {
        nak_delay,
        retransmit_linger,
        ..settings(&dir.join("driver"), DriverOf::ThisProcess, medium)
    };
    let publication = of(near.path(), unicast(here, vec![], destinations));
    let mut pair = Pair::new(publication, &of(far.path(), unicast(there, vec![], vec![])));
    pair.say(b"first");
    pair.until("the first message", |p| !p.heard.is_empty());
    pair.heard.clear();
    let begun = Instant::now();
    for n in 0..100_u8 {
        pair.say(&vec![n; 20_000]);
    }
    pair.until("all messages", |p| p.heard.len() == 100);
    assert!((0..).zip(&pair.heard).all(|(n, message)| *message == vec![n; 20_000]), "all of them, in order");
    begun.elapsed()
}

/// Aeron closes one gap after the other, so that what it waits at each adds up.
#[test]
fn gaps_are_closed_at_once() {
    let [few, many] = [(100, 1_000), (10_000, 10_000)]
        .map(|(delay, linger)| time_with_loss(false, Duration::from_micros(delay), Duration::from_micros(linger)));
    assert!(few * 2 < many, "{few:?}, and {many:?} with Aeron's own delays");
}

/// Aeron asks within a microsecond then, whatever receivers of a group wait: with their delay, the 140 gaps would take 14 s at least.
#[test]
fn gaps_of_a_single_destination_are_closed_as_fast_as_aeron_does() {
    let took = time_with_loss(true, Duration::from_millis(100), Duration::from_millis(1));
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// Naps that are longer than all of a test's waiting: who is heard in less has been woken.
const LONG_NAP: Duration = Duration::from_secs(3);
/// After this long without work, threads sleep.
const ASLEEP: Duration = Duration::from_millis(300);
const SOON: Duration = Duration::from_secs(1);

fn drowsy(dir: &Path, medium: Medium) -> Settings {
    Settings {
        idle: Idle::Backoff { first: LONG_NAP, longest: LONG_NAP },
        ring_bytes: 256 << 10,
        patience: PATIENCE,
        silence: PATIENCE,
        ..settings(dir, DriverOf::ThisProcess, medium)
    }
}

/// The publication wakes the driver, and the driver those who poll.
#[test]
fn what_is_said_while_all_sleep_is_heard_at_once() {
    let (_folder, dir) = place();
    let (here, there) = (free("127.0.0.1"), free("127.0.0.1"));
    let near = drowsy(&dir, unicast(here, vec![], vec![there.to_string()]));
    let mut pair = Pair::new(near, &drowsy(&dir, unicast(there, vec![], vec![])));
    pair.say(b"first");
    pair.until("the first message", |p| !p.heard.is_empty());
    for n in 2..4 {
        std::thread::sleep(ASLEEP);
        pair.say(b"next");
        pair.within(SOON, "a message that was said while all slept", |p| p.heard.len() == n);
    }
}

/// A driver that sleeps does not know that its receivers take more again, until somebody who is held back wakes it.
#[test]
fn what_was_held_back_while_the_driver_slept_is_taken_at_once() {
    let ((_near, near), (_far, far)) = (place(), place());
    let (here, there) = (free("127.0.0.1"), free("127.0.0.1"));
    let publication = drowsy(&near, unicast(here, vec![], vec![there.to_string()]));
    let lively = Settings { idle: Idle::BACKOFF, ..drowsy(&far, unicast(there, vec![], vec![])) };
    let mut pair = Pair::new(publication, &lively);
    let message = vec![1; 20_000];
    pair.say(&message);
    // Nobody reads: ring, window and term buffer are full in the end.
    let mut taken_at = Instant::now();
    while taken_at.elapsed() < ASLEEP {
        if pair.publication.offer(&message) == Offer::Taken {
            taken_at = Instant::now();
        } else {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    std::thread::sleep(ASLEEP);
    // All that was sent is read, and the sleeping driver told of it.
    let read_at = Instant::now();
    while read_at.elapsed() < ASLEEP {
        pair.subscriptions.read(1_000, |_| {});
        std::thread::yield_now();
    }
    let begun = Instant::now();
    while pair.publication.offer(&message) != Offer::Taken {
        assert!(begun.elapsed() < SOON, "it sleeps on");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn to_a_group() {
    let group = SocketAddr::new("239.101.3.11".parse().expect("a group"), free("127.0.0.1").port());
    let medium =
        |ip: &str| Medium::Multicast { group, interface: ip.to_owned(), ttl: 0, flow: FlowControl::Min, tag: 0 };
    across(medium, medium);
}

/// The directory of a driver that comes and goes.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("driver");
    (folder, dir)
}

#[test]
fn a_driver_that_goes_ends_the_stream_and_the_next_one_is_taken() {
    let (_folder, dir) = place();
    let start = || Subscriptions::new(&settings(&dir, DriverOf::ThisProcess, Medium::Ipc)).expect("a driver");
    let other = settings(&dir, DriverOf::Another, Medium::Ipc);
    let mut pair = Pair::new(other.clone(), &other);
    assert_eq!(pair.publication.offer(b"nobody"), Offer::Unheard);
    let driver = start();
    pair.talk();
    let session = pair.publication.session();

    drop(driver);
    pair.until("the end of the stream", |p| p.ends == 1 && p.publication.session().is_none());
    assert_eq!(pair.publication.offer(b"nobody"), Offer::Unheard);
    assert_eq!((pair.publication.counters().drivers_lost, pair.subscriptions.counters().drivers_lost), (1, 1));

    let _driver = start();
    pair.talk();
    assert_ne!(pair.publication.session(), session, "another session");
    assert_eq!(pair.begins.len(), 2);
}

#[test]
fn who_does_not_read_holds_the_publication_back_for_its_patience_at_most() {
    let (_folder, dir) = place();
    let own = settings(&dir, DriverOf::ThisProcess, Medium::Ipc);
    let mut pair = Pair::new(own.clone(), &own);
    pair.talk();

    let message = vec![1; 64 << 10];
    let mut held = 0;
    // Nobody reads: ring, then window are full, until patience is over.
    let begun = Instant::now();
    while pair.subscriptions.counters().dropped < 100 {
        held += u32::from(pair.publication.offer(&message) == Offer::Full);
        let now = pair.begun.elapsed().as_nanos() as u64;
        if pair.publication.timeout() <= now {
            pair.publication.turn(now);
        }
        assert!(begun.elapsed() < PATIENCE, "held back for ever");
        std::thread::yield_now();
    }
    assert!(held > 0 && begun.elapsed() >= Duration::from_millis(500), "{held} {:?}", begun.elapsed());
    assert_eq!(pair.subscriptions.counters().held, 1);
    // Messages in the ring come first, then those of now.
    pair.heard.clear();
    pair.until("what the ring holds", |p| p.heard.len() > 30);
    pair.talk();
    assert_eq!((pair.begins.len(), pair.ends), (1, 0), "the stream goes on");
}

#[test]
fn what_is_longer_than_the_terms_allow_is_refused() {
    let (_folder, dir) = place();
    let own = settings(&dir, DriverOf::ThisProcess, Medium::Ipc);
    let mut pair = Pair::new(own.clone(), &own);
    pair.say(b"there");
    assert_eq!(pair.publication.offer(&vec![0; (512 << 10) + 1]), Offer::TooLong);
}
