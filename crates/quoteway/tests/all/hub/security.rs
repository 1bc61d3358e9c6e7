//! Strangers at a hub, and what keeps them out: the key, the list of networks, certificates, and limits where there is none
//! of these.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hub::stream::{BlockWriter, Event};
use hub_io::announcement::Announcement;
use hub_io::auth::Key;
use hub_io::frames::{Hello, Welcome};
use lbm_io::options::Options;
use lbm_io::{Context, Delivery, SendFlags, Sources};
use net::tcp::{ConnId, SocketOptions, Tcp, TcpConfig};
use net::tls::TlsClient;

use crate::hub::names;
use crate::hub::place::Place;
use crate::hub::provider::Counting;
use crate::hub::site::{Join, Site, Tuning, network};
use crate::hub::watcher::Watcher;

/// A provider, a site of one Source Distributor and one P2PS, and a watcher.
struct Scene {
    provider: Counting,
    site: Site,
    watcher: Watcher,
}

impl Scene {
    fn new(join: Join, tuning: &Tuning) -> Self {
        let place = Place::Here;
        let provider = Counting::start(&place);
        let site = Site::tuned(join, tuning, (&place, &place), &[&[provider.addr]], 1);
        let watcher = Watcher::connect(&place, "watcher", site.rssl(0));
        watcher.open(&names(30));
        watcher.wait_all_ok();
        watcher.wait_updates(5);
        Self { provider, site, watcher }
    }

    fn suspects(&self) -> u32 {
        self.watcher.look(|v| v.items.values().map(|i| i.suspects).sum())
    }

    fn p2ps(&self, counter: &str) -> u64 {
        self.site.p2pss[0].counter("p2ps", counter)
    }

    fn distributor(&self, counter: &str) -> u64 {
        self.site.distributors[0].counter("source-distributor", counter)
    }

    fn wait_for(&self, what: &str, so: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !so(self) {
            assert!(begun.elapsed() < crate::hub::PATIENCE, "waited in vain for {what}");
            self.watcher.wait_updates(1);
        }
    }

    fn hub(&self) -> SocketAddr {
        self.site.distributors[0].addr("hub=")
    }
}

/// A key's file that its owner alone can read, as a line of the section `hub`.
pub(crate) fn key_line(folder: &Path, key: &str) -> String {
    let path = folder.join("hub.key");
    std::fs::write(&path, key).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("set");
    format!("key_file = \"{}\"\n", path.display())
}

pub(crate) const KEY: &str = "a key of the tests, which is long enough for one";

/// The one frame that a Source Distributor answers.
fn welcome(stream: &mut TcpStream) -> Option<Welcome> {
    let mut header = [0; 24];
    stream.set_read_timeout(Some(crate::hub::PATIENCE)).expect("set");
    stream.read_exact(&mut header).ok()?;
    let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
    let mut frame = header.to_vec();
    frame.resize(length, 0);
    stream.read_exact(&mut frame[24..]).ok()?;
    Welcome::read(&frame).ok()
}

fn hello(nonce: Option<[u8; 32]>) -> Vec<u8> {
    let mut out = Vec::new();
    Hello {
        incarnation: 1,
        data: true,
        unpaced: false,
        copy: false,
        hub: "quoteway".into(),
        name: "a stranger".into(),
        nonce,
    }
    .write(&mut out);
    out
}

/// Whoever has the key joins, over every transport and in the next life of the Source Distributor; others are told why not.
fn only_holders_of_the_key_join(join: Join) {
    let folder = tempfile::tempdir().expect("a folder");
    let tuning = Tuning { hub: key_line(folder.path(), KEY), ..Tuning::default() };
    let mut scene = Scene::new(join, &tuning);
    let mut stranger = TcpStream::connect(scene.hub()).expect("the port is open");
    stranger.write_all(&hello(None)).expect("sent");
    match welcome(&mut stranger) {
        Some(Welcome::Refused(why)) => assert!(why.contains("key"), "{why}"),
        other => panic!("a stranger is told {other:?}"),
    }
    // A P2PS that wants to be challenged and cannot answer.
    let mut stranger = TcpStream::connect(scene.hub()).expect("the port is open");
    stranger.write_all(&hello(Some([9; 32]))).expect("sent");
    let mut challenge = [0; 24 + 64];
    stranger.read_exact(&mut challenge).expect("a challenge");
    let mut guess = challenge[..24 + 32].to_vec();
    guess[3] = 8;
    guess[4..8].copy_from_slice(&56u32.to_le_bytes());
    stranger.write_all(&guess).expect("sent");
    match welcome(&mut stranger) {
        Some(Welcome::Refused(why)) => assert!(why.contains("does not have the hub's key"), "{why}"),
        other => panic!("a stranger is told {other:?}"),
    }
    assert!(scene.distributor("p2ps_refused") >= 2 && scene.distributor("p2ps_joined") == 1);
    scene.site.distributors[0].restart();
    scene.watcher.wait_all_ok();
    scene.watcher.wait_updates(5);
    scene.watcher.settle(&scene.provider);
}

#[test]
fn only_holders_of_the_key_join_over_tcp() {
    only_holders_of_the_key_join(Join::Tcp);
}

#[test]
fn only_holders_of_the_key_join_over_multicast() {
    only_holders_of_the_key_join(Join::LbtRm);
}

#[test]
fn only_holders_of_the_key_join_over_shared_memory() {
    only_holders_of_the_key_join(Join::LbtIpc);
}

#[cfg(feature = "aeron")]
#[test]
fn only_holders_of_the_key_join_over_aeron() {
    only_holders_of_the_key_join(Join::AeronUnicast);
}

#[test]
fn only_holders_of_the_key_join_behind_daemons() {
    only_holders_of_the_key_join(Join::Rrcpd);
}

/// A P2PS with a key does not join a Source Distributor that has none, or another one: it would take its data.
#[test]
fn a_source_distributor_has_to_prove_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::Here;
    let provider = Counting::start(&place);
    let plain = Site::start(Join::Tcp, &place, &[&[provider.addr]], 0);
    let hubs = format!("source_distributors = [\"{}\"]\n", plain.distributors[0].addr("hub="));
    let tuning = Tuning { hub: key_line(folder.path(), KEY) + &hubs, ..Tuning::default() };
    let keyed = Site::tuned(Join::Tcp, &tuning, (&place, &place), &[], 1);
    let refused = || plain.distributors[0].counter("source-distributor", "p2ps_refused");
    crate::hub::until("a P2PS that tries", || refused() > 0);
    assert_eq!(keyed.p2pss[0].counter("p2ps", "sources_joined"), 0);
}

/// Publishes on a hub's topic what it likes, until it is dropped.
struct Forger {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Forger {
    /// `forge` makes the announcement number so and so.
    fn start(network: &[String], forge: impl Fn(u64) -> Vec<u8> + Send + 'static) -> Self {
        let mut options = Options::new();
        let lines = network.join("\n") + "\ncontext default_interface 127.0.0.1\nsource transport lbtrm\n";
        options.parse("test", &lines).expect("good options");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (sent, first) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut context = Context::new(&options).expect("a context");
            let source = context.source("quoteway.hub.quoteway", &options).expect("a source");
            let mut writer = BlockWriter::new(0xBAD);
            let mut number = 0;
            while !stopped.load(Ordering::Relaxed) {
                writer.clear();
                writer.event(&Event::Heartbeat { announcement: &forge(number) });
                let block = writer.block().expect("a block").to_vec();
                context.send(source, &block, SendFlags::FLUSH).expect("sent");
                number += 1;
                let mut nothing = |_: &mut Sources, _: &Delivery<'_>| {};
                context.poll(Some(Duration::from_millis(2)), &mut nothing).expect("a turn");
                let _ = sent.send(());
            }
        });
        first.recv().expect("it sends");
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Forger {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn announce(name: &str, address: &str) -> Vec<u8> {
    Announcement { name, address, proof: None }.encode().expect("short")
}

/// Whoever announces the name of a Source Distributor from another address does not take its P2PSs away while it lives, key or not.
#[test]
fn a_forged_announcement_takes_nobody_over() {
    let folder = tempfile::tempdir().expect("a folder");
    for key in [String::new(), key_line(folder.path(), KEY)] {
        let network = network();
        let hub = format!("instance = \"one\"\n{key}");
        let tuning = Tuning { hub, network: Some(network.clone()), ..Tuning::default() };
        let scene = Scene::new(Join::LbtRm, &tuning);
        let before = scene.suspects();
        let forger = Forger::start(&network, |_| announce("one", "127.0.0.1:9"));
        scene.wait_for("forged announcements", |s| s.p2ps("announcements_refused") > 100);
        scene.watcher.wait_updates(50);
        assert_eq!(scene.suspects(), before, "with {key:?}: nobody was led away");
        assert_eq!((scene.p2ps("sources_joined"), scene.p2ps("sources_lost")), (1, 0), "with {key:?}");
        drop(forger);
    }
}

/// An announcement that was taken from the network and is sent again is a copy: of another session, or too old.
#[test]
fn a_repeated_announcement_is_a_copy() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = Key::new(KEY.as_bytes()).expect("a key");
    let network = network();
    let hub = format!("instance = \"one\"\n{}", key_line(folder.path(), KEY));
    let tuning = Tuning { hub, network: Some(network.clone()), ..Tuning::default() };
    let scene = Scene::new(Join::LbtRm, &tuning);
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let time = unix.as_millis() as u64 + 5_000;
    // As the Source Distributor itself would sign it in its next life.
    let copy = Announcement { name: "one", address: "127.0.0.1:9", proof: None }
        .signed(&key, "quoteway", 0xBAD, "LBTRM:127.0.0.1:1:00000001:239.1.1.1:1", time)
        .encode()
        .expect("short");
    let _forger = Forger::start(&network, move |_| copy.clone());
    scene.wait_for("refused copies", |s| s.p2ps("announcements_refused") > 100);
    assert_eq!((scene.p2ps("sources_joined"), scene.p2ps("sources_lost")), (1, 0));
}

/// Names that somebody invents do not lock a new Source Distributor out: who was heard longest ago gives way.
#[test]
fn invented_names_lock_nobody_out() {
    let network = network();
    let tuning = Tuning { network: Some(network.clone()), ..Tuning::default() };
    let place = Place::Here;
    let provider = Counting::start(&place);
    let mut site = Site::tuned(Join::LbtRm, &tuning, (&place, &place), &[&[provider.addr]], 1);
    site.distributors[0].kill();
    let sent = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    let forger = Forger::start(&network, move |number| {
        counted.store(number, Ordering::Relaxed);
        announce(&format!("invented {number}"), "127.0.0.1:9")
    });
    crate::hub::until("1,500 names", || sent.load(Ordering::Relaxed) >= 1_500);
    site.distributors[0].restart();
    let watcher = Watcher::connect(&place, "watcher", site.rssl(0));
    watcher.open(&names(5));
    watcher.wait_all_ok();
    watcher.settle(&provider);
    drop(forger);
}

/// One host cannot take all places of the hub port, nor all connections before the greeting.
#[test]
fn one_host_does_not_fill_the_hub_port() {
    let scene = Scene::new(Join::Tcp, &Tuning::default());
    let mut tcp = Tcp::new(TcpConfig::default()).expect("a set");
    let other =
        SocketOptions { local: Some(SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 0))), ..SocketOptions::default() };
    let mut connect = |greets: bool| -> ConnId {
        let conn = tcp.connect(scene.hub(), &other).expect("a socket");
        if greets {
            tcp.send(conn, &hello(None));
        }
        let mut events = Vec::new();
        tcp.poll(Some(Duration::from_millis(1)), &mut events).expect("a turn");
        conn
    };
    let held: Vec<ConnId> = (0..64).map(|_| connect(true)).collect();
    scene.wait_for("those of one host to be refused", |s| s.distributor("p2ps_refused") >= 32);
    assert_eq!(scene.distributor("p2ps_joined"), 1 + 32);
    let silent: Vec<ConnId> = (0..300).map(|_| connect(false)).collect();
    scene.wait_for("the silent ones to give way", |s| s.distributor("p2ps_refused") >= 32 + 200);
    // A P2PS of another host finds its place.
    let mut guest = TcpStream::connect(scene.hub()).expect("the port is open");
    guest.write_all(&hello(None)).expect("sent");
    assert!(matches!(welcome(&mut guest), Some(Welcome::Joined { .. })));
    scene.watcher.wait_updates(5);
    drop((held, silent));
}

/// Where the hub has no key anybody joins: what they begin and do not finish is little in all, and the one that has been at it for the longest
/// gives way.
#[test]
fn blocks_that_are_never_finished_take_little() {
    // P2PSs that only hold what they have begun are not to be gone for their silence.
    let tuning = Tuning { peer_timeout_ms: Some(20_000), ..Tuning::default() };
    let scene = Scene::new(Join::Tcp, &tuning);
    let header = |length: u32| {
        let mut bytes = vec![0; hub::stream::BLOCK_HEADER];
        bytes[..2].copy_from_slice(&hub::stream::MAGIC.to_le_bytes());
        bytes[20..24].copy_from_slice(&length.to_le_bytes());
        bytes
    };
    let join = || {
        let mut stream = TcpStream::connect(scene.hub()).expect("the port is open");
        stream.write_all(&hello(None)).expect("sent");
        assert!(matches!(welcome(&mut stream), Some(Welcome::Joined { .. })));
        stream
    };
    // Longer than any message.
    let mut long = join();
    long.write_all(&header(60 << 20)).expect("sent");
    scene.wait_for("the long one to be ended", |s| s.distributor("p2ps_lost") == 1);
    // Nobody who has not joined has any.
    let mut early = TcpStream::connect(scene.hub()).expect("the port is open");
    early.write_all(&[hello(None), header(100)].concat()).expect("sent");
    let mut begun: Vec<TcpStream> = (0..4).map(|_| join()).collect();
    for stream in &mut begun {
        stream.write_all(&header(16 << 20)).expect("sent");
        // The first of them may be gone by then.
        let _ = stream.write_all(&vec![0; 12 << 20]);
    }
    scene.wait_for("the oldest to give way", |s| s.distributor("p2ps_lost") >= 2);
    assert!(scene.distributor("p2ps_lost") < 5, "not all of them");
    scene.watcher.wait_updates(5);
}

/// From a network that is not allowed nobody connects, and no announcement is taken.
#[test]
fn a_list_of_networks_keeps_strangers_out() {
    let network = network();
    let hub = "allow = [\"127.0.0.1\", \"10.0.0.0/8\"]\n".to_owned();
    let tuning = Tuning { hub, network: Some(network.clone()), ..Tuning::default() };
    let scene = Scene::new(Join::LbtRm, &tuning);
    let mut tcp = Tcp::new(TcpConfig::default()).expect("a set");
    let other =
        SocketOptions { local: Some(SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 0))), ..SocketOptions::default() };
    tcp.connect(scene.hub(), &other).expect("a socket");
    scene.wait_for("the stranger to be refused", |s| s.distributor("p2ps_refused") == 1);
    let _forger = Forger::start(&network, |_| announce("two", "127.0.0.2:9"));
    scene.wait_for("its announcement to be refused", |s| s.p2ps("announcements_refused") > 0);
    assert_eq!((scene.p2ps("sources_joined"), scene.p2ps("sources_lost")), (1, 0));
}

/// Unicast connections under TLS: both sides show certificates; who has none does not get as far as a greeting.
#[test]
fn certificates_protect_the_connections() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let hub = format!("tls_ca_file = {cert:?}\ntls_cert_file = {cert:?}\ntls_key_file = {key:?}\n");
    for join in [Join::Tcp, Join::LbtRm] {
        let mut scene = Scene::new(join, &Tuning { hub: hub.clone(), ..Tuning::default() });
        scene.watcher.settle(&scene.provider);
        let mut stranger = TcpStream::connect(scene.hub()).expect("the port is open");
        stranger.write_all(&hello(None)).expect("sent");
        assert_eq!(welcome(&mut stranger), None);
        scene.site.distributors[0].restart();
        scene.watcher.wait_all_ok();
        scene.watcher.settle(&scene.provider);
    }
}

/// Whether this client and the port at `addr` shake hands.
fn shakes_hands(addr: SocketAddr, client: &TlsClient) -> bool {
    let mut stream = TcpStream::connect(addr).expect("the port is open");
    stream.set_read_timeout(Some(crate::hub::PATIENCE)).expect("set");
    let mut session = client.connect("127.0.0.1").expect("a name");
    let (mut out, mut input) = (Vec::new(), [0; 4_096]);
    let mut read = 0;
    loop {
        let processed = session.process(&input[..read], &mut out, |_| ());
        let sent = stream.write_all(&out);
        out.clear();
        if processed.is_err() || sent.is_err() || session.is_established() {
            return session.is_established();
        }
        read = stream.read(&mut input).unwrap_or(0);
        if read == 0 {
            return false;
        }
    }
}

/// The files of the accepting side's certificate are replaced: who comes is shown the new one, the log says so, and who has joined notices
/// nothing.
#[test]
fn a_replaced_certificate_is_shown_to_who_joins_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let made = ["before", "after"].map(|name| {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
        let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        std::fs::write(path(name), &cert).expect("written");
        (cert, key)
    });
    let serve = |(cert, key): &(String, String)| {
        for (name, text) in [("cert.pem", cert), ("key.pem", key)] {
            std::fs::write(path("beside"), text).expect("written");
            std::fs::rename(path("beside"), path(name)).expect("renamed");
        }
    };
    let (ca, cert, key) = (path("ca.pem"), path("cert.pem"), path("key.pem"));
    std::fs::write(&ca, format!("{}{}", made[0].0, made[1].0)).expect("written");
    serve(&made[0]);
    let hub = format!("tls_ca_file = {ca:?}\ntls_cert_file = {cert:?}\ntls_key_file = {key:?}\n");
    let mut scene = Scene::new(Join::Tcp, &Tuning { hub, ..Tuning::default() });
    let trusting = |name: &str| TlsClient::with_certificate(&path(name), &cert, &key).expect("usable");
    let [before, after] = ["before", "after"].map(trusting);
    assert!(shakes_hands(scene.hub(), &before) && !shakes_hands(scene.hub(), &after));
    serve(&made[1]);
    crate::hub::until("the new certificate", || shakes_hands(scene.hub(), &after));
    // A client that has no session to resume.
    assert!(!shakes_hands(scene.hub(), &TlsClient::with_roots_from(&path("before")).expect("usable")));
    scene.site.distributors[0].wait_for("was read again");
    scene.watcher.wait_updates(5);
    scene.watcher.settle(&scene.provider);
    assert_eq!((scene.p2ps("sources_joined"), scene.p2ps("sources_lost")), (1, 0));
}

/// The death of the daemon ends what it carried, and consumers know at once, not after the silence that is borne.
#[test]
fn the_death_of_a_daemon_shows_at_once() {
    let tuning = Tuning { peer_timeout_ms: Some(20_000), ..Tuning::default() };
    let mut scene = Scene::new(Join::Rrcpd, &tuning);
    let begun = Instant::now();
    scene.site.relays[1].kill();
    scene.watcher.wait_none_ok();
    assert!(begun.elapsed() < Duration::from_secs(10), "after {:?}", begun.elapsed());
    scene.site.relays[1].restart();
    scene.watcher.wait_all_ok();
    scene.watcher.settle(&scene.provider);
}

/// A Source Distributor that starts again is joined once, not again when its first heartbeat comes.
#[test]
fn a_restarted_distributor_is_joined_once() {
    for join in [Join::LbtRm, Join::LbtIpc] {
        let mut scene = Scene::new(join, &Tuning::default());
        scene.site.distributors[0].restart();
        scene.watcher.wait_all_ok();
        // Many heartbeats: 10 a second, and updates 200.
        scene.watcher.wait_updates(200);
        assert_eq!((scene.p2ps("sources_joined"), scene.p2ps("sources_lost")), (2, 1), "{join:?}");
    }
}
