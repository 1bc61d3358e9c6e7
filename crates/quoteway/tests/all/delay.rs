//! A delayed service, with real processes: what comes late is what came, in its order, also over the death of the process that keeps it.

use std::sync::Arc;

use net::tcp::{ConnId, SocketOptions};
use rssl::ClientConfig;
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rwf::msg::{Domain, Msg, MsgKey, RequestFlags, RequestMsg};
use rwf::wire::Writer;
use rwf::{DataState, FieldList, Qos, SetScope, StateCode};
use tools::consumer::{Consumer, Identity, Received};

use crate::chain::{From, Process, config_file, port_of, serve, source, start};

const SECOND: u64 = 1_000_000_000;
/// Long enough for a process to be started again meanwhile.
const DELAY: u64 = 6;
const ITEM: &str = "RDT0";

/// The item's messages at one service.
#[derive(Debug, Clone, PartialEq)]
enum Came {
    Image(DataState, Option<Qos>),
    Update(Vec<u8>),
    Suspect,
    /// The answer to a request: there is no such item.
    Refused(StateCode),
}

struct Watch {
    consumer: Consumer,
    out: Vec<Vec<u8>>,
    came: Vec<(u64, Came)>,
    /// The item is to be asked for, of the service with this id.
    ask: Option<u16>,
    item: &'static str,
    /// A refusal is an answer, and not for now alone.
    takes_refusals: bool,
    /// Fields of the last image.
    fields: Vec<i16>,
}

impl Watch {
    fn new(service: &str) -> Self {
        let identity =
            Identity { user: "watch".to_owned(), application: "test".to_owned(), service: service.to_owned() };
        let (out, came, fields) = (Vec::new(), Vec::new(), Vec::new());
        Self { consumer: Consumer::new(identity), out, came, ask: None, item: ITEM, takes_refusals: false, fields }
    }

    fn request(&mut self) {
        let Some(id) = self.ask.take() else { return };
        let key = MsgKey { name_type: Some(1), ..MsgKey::item(id, self.item.as_bytes()) };
        let request = RequestMsg { flags: RequestFlags::STREAMING, key, ..RequestMsg::new(Domain::MARKET_PRICE, 5) };
        let mut buf = [0; 256];
        let mut w = Writer::new(&mut buf);
        request.encode(&mut w).expect("room");
        self.out.push(w.written().to_vec());
    }

    fn updates(&self) -> Vec<(u64, &[u8])> {
        let updates = self.came.iter().filter_map(|(at, came)| match came {
            Came::Update(body) => Some((*at, body.as_slice())),
            Came::Image(..) | Came::Suspect | Came::Refused(_) => None,
        });
        updates.collect()
    }
}

impl Handler for Watch {
    fn opened(&mut self, now: u64, _: ConnId, _: &Opened<'_>) {
        let out = &mut self.out;
        self.consumer.begin(now, &mut |msg| out.push(msg.to_vec()));
    }

    fn message(&mut self, now: u64, _: ConnId, msg: &[u8]) {
        let out = &mut self.out;
        match self.consumer.receive(now, msg, &mut |msg| out.push(msg.to_vec())) {
            Received::ServiceUp(id) => self.ask = Some(id),
            Received::Item => match Msg::decode(msg).expect("a message") {
                Msg::Refresh(m) => {
                    let list = FieldList::decode(m.body, &SetScope::NONE).expect("a field list");
                    self.fields = list.entries().flatten().map(|entry| entry.fid).collect();
                    self.came.push((now, Came::Image(m.state.data, m.qos)));
                }
                Msg::Update(m) => self.came.push((now, Came::Update(m.body.to_vec()))),
                Msg::Status(m) if self.takes_refusals && m.state.is_some_and(|state| state.stream.is_final()) => {
                    self.came.push((now, Came::Refused(m.state.expect("looked at").code)));
                }
                // Not published yet.
                Msg::Status(m) if m.state.is_some_and(|state| state.stream.is_final()) => {
                    self.ask = self.consumer.service_id();
                }
                Msg::Status(m) if m.state.is_some_and(|state| state.data == DataState::SUSPECT) => {
                    self.came.push((now, Came::Suspect));
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn closed(&mut self, _: u64, _: ConnId, ended: &Ended) {
        panic!("a watcher is cut off: {}", ended.why);
    }
}

/// A watcher and its connection.
struct Watcher {
    io: RsslIo,
    conn: ConnId,
    watch: Watch,
}

impl Watcher {
    fn new(port: u16, service: &str) -> Self {
        let mut io = RsslIo::new(net::clock::now()).expect("sockets");
        let to = ([127, 0, 0, 1], port).into();
        let config = Arc::new(ClientConfig::default());
        let conn = io.connect(net::clock::now(), to, &SocketOptions::default(), config, None).expect("a socket");
        Self { io, conn, watch: Watch::new(service) }
    }

    fn turn(&mut self) {
        let now = self.io.turn(Some(net::clock::now() + SECOND / 100), &mut self.watch).expect("sockets");
        self.watch.request();
        let out = std::mem::take(&mut self.watch.out);
        self.io.send(now, self.conn, |packer| out.iter().for_each(|msg| packer.push(msg, None)));
    }
}

/// Turns both until something holds.
fn until(now: &mut Watcher, late: &mut Watcher, what: &str, holds: impl Fn(&[(u64, Came)]) -> bool) {
    let end = net::clock::now() + 120 * SECOND;
    while !holds(&late.watch.came) {
        assert!(net::clock::now() < end, "{what} does not come: {:?}", late.watch.came);
        now.turn();
        late.turn();
    }
}

fn delay(port: u16, nip: u16, folder: &str) -> Process {
    let (server, publish) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{nip}"));
    let delay = DELAY.to_string();
    let args = [
        &["delay", "--server", &server, "--publish", &publish, "--service", "DIRECT_FEED", "--as", "LATE"][..],
        &["--service-id", "77", "--delay", &delay, "--item-list", ITEM, "--journal", folder, "--file-seconds", "2"],
    ];
    start(&args.concat(), &From::Error, "is published")
}

/// Where the updates of each unbroken stretch may lie among those of the real time: without a gap, and so much later. The source says the same again
/// every second or two, so that a stretch has several places at first.
fn assert_the_same_later(now: &Watch, late: &Watch) {
    let real = now.updates();
    let mut places: Option<Vec<usize>> = None;
    for (at, came) in &late.came {
        let Came::Update(body) = came else {
            // An image may stand for any number of updates, and behind a hole nobody knows how many were lost.
            places = None;
            continue;
        };
        let next = places.map_or_else(|| (0..real.len()).collect(), |all| all.iter().map(|place| place + 1).collect());
        let is_it = |place: &usize| {
            real.get(*place).is_some_and(|(seen, real)| real == body && seen + (DELAY - 2) * SECOND <= *at)
        };
        let found: Vec<usize> = Vec::into_iter(next).filter(is_it).collect();
        assert!(!found.is_empty(), "an update that was not the next one or comes too early, {at}: {:?}", late.came);
        places = Some(found);
    }
}

#[test]
fn what_comes_late_is_what_came_and_a_restart_leaves_a_hole_at_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let journal = folder.path().to_str().expect("UTF-8");
    let (_source, at) = source(&["-U", "10"]);
    let (server, port) = serve(&["--route", &at]);
    let nip = port_of(&server, "nip=");
    let mut now = Watcher::new(port, "DIRECT_FEED");
    let mut late = Watcher::new(port, "LATE");
    let journal_writer = delay(port, nip, journal);
    let updates = |came: &[(u64, Came)]| came.iter().rev().take_while(|(_, c)| matches!(c, Came::Update(_))).count();
    until(&mut now, &mut late, "the first update", |came| updates(came) > 10);
    // Late data are published after its time: until then the item is told to be waited for.
    let first = late.watch.came.iter().find(|(_, came)| *came != Came::Suspect).expect("it came");
    let Came::Image(DataState::OK, Some(qos)) = first.1 else { panic!("{first:?}") };
    assert_eq!((qos.timeliness, qos.time_info), (rwf::Timeliness::DELAYED, DELAY as u16));
    // Killed, which the directory tells: what was written is published at its time by the next one, then comes the hole, then what that one has heard.
    drop(journal_writer);
    let died = late.watch.came.len();
    let _journal_writer = delay(port, nip, journal);
    let is_good = |came: &Came| matches!(came, Came::Image(DataState::OK, _));
    until(&mut now, &mut late, "what was written before", |came| came[died..].iter().any(|(_, came)| is_good(came)));
    let place = |came: &[(u64, Came)], from: usize, is_it: &dyn Fn(&Came) -> bool| {
        from + came[from..].iter().position(|(_, came)| is_it(came)).expect("it came")
    };
    let again = place(&late.watch.came, died, &is_good);
    let is_hole = |came: &Came| *came == Came::Suspect;
    until(&mut now, &mut late, "the hole", |came| came[again..].iter().any(|(_, came)| is_hole(came)));
    let hole = place(&late.watch.came, again, &is_hole);
    until(&mut now, &mut late, "what came after", |came| came[hole..].iter().any(|(_, came)| is_good(came)));
    until(&mut now, &mut late, "further updates", |came| updates(came) > 10);
    assert_the_same_later(&now.watch, &late.watch);
    let before = late.watch.came[died..hole].iter().filter(|(_, came)| matches!(came, Came::Update(_))).count();
    assert!(before > 0, "updates of before the death: {:?}", &late.watch.came[died..]);
}

/// Where a process answers HTTP.
fn web_of(process: &Process) -> String {
    let address = process.line().split("http=http://").nth(1).and_then(|rest| rest.split('/').next());
    address.expect("an address in the ready line").to_owned()
}

/// How the first delayed service of a process stands, once that is as wanted.
fn standing(process: &Process, wanted: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let (web, end) = (web_of(process), net::clock::now() + 60 * SECOND);
    loop {
        let (status, _, body) = crate::http::ask(&web, "GET", "/api/v1/delays", "", &[]);
        assert_eq!(status, 200, "{body}");
        let all: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        if wanted(&all[0]) {
            return all[0].clone();
        }
        assert!(net::clock::now() < end, "it never stands as is waited for: {body}");
        std::thread::park_timeout(std::time::Duration::from_millis(100));
    }
}

/// A watcher of an item of LATE, which takes refusals for answers.
fn of_late(port: u16, item: &'static str) -> Watcher {
    let mut watcher = Watcher::new(port, "LATE");
    (watcher.watch.item, watcher.watch.takes_refusals) = (item, true);
    watcher
}

fn delay_file(journal: &tempfile::TempDir, more: &str) -> tempfile::NamedTempFile {
    config_file(&format!(
        "[delay.LATE]\ndelayed_service = \"DIRECT_FEED\"\ndelay_s = {DELAY}\ndelay_segment_s = 2\ndelay_journal = \"{}\"\n{more}",
        journal.path().display()
    ))
}

/// Turns both until the late one has a good image, and further updates behind it.
fn until_late(now: &mut Watcher, late: &mut Watcher) {
    let good = |came: &Came| matches!(came, Came::Image(DataState::OK, _));
    until(now, late, "what is due", |came| {
        let image = came.iter().rposition(|(_, came)| good(came));
        image.is_some_and(|at| came[at..].iter().filter(|(_, came)| matches!(came, Came::Update(_))).count() > 10)
    });
}

#[test]
fn a_server_delays_a_service_itself_and_items_are_asked_for_on_demand() {
    let journal = tempfile::tempdir().expect("a folder");
    let rules = config_file("# free of charge\nname=RDT7:0\n");
    let more = format!("fee_fields = [\"22\", \"25\"]\ndelay_rules_file = \"{}\"\n", rules.path().display());
    let (_source, at) = source(&["-U", "20"]);
    let file = delay_file(&journal, &more);
    let (_server, port) = serve(&["--route", &at, "--config", file.path().to_str().expect("UTF-8")]);
    let mut now = Watcher::new(port, "DIRECT_FEED");
    let mut late = of_late(port, ITEM);
    let is_first = |came: &[(u64, Came)]| !came.is_empty();
    until(&mut now, &mut late, "the first answer", is_first);
    // Nobody has asked for it before: an image of what costs no fee, and the quality that it will have.
    let Came::Image(DataState::SUSPECT, Some(qos)) = late.watch.came[0].1 else { panic!("{:?}", late.watch.came) };
    assert_eq!((qos.timeliness, qos.time_info), (rwf::Timeliness::DELAYED, DELAY as u16));
    let fields = late.watch.fields.clone();
    assert!(!fields.is_empty() && !fields.contains(&22) && !fields.contains(&25), "{fields:?}");
    until_late(&mut now, &mut late);
    assert!(late.watch.fields.contains(&22), "{:?}", late.watch.fields);
    assert_the_same_later(&now.watch, &late.watch);
    // A client that asks later finds what is due.
    let mut second = of_late(port, ITEM);
    until(&mut now, &mut second, "an image", is_first);
    assert!(matches!(second.watch.came[0].1, Came::Image(DataState::OK, _)), "{:?}", second.watch.came);
    // An item that a rule delays by nothing.
    let mut free = of_late(port, "RDT7");
    until(&mut now, &mut free, "an image", |came| came.iter().any(|(_, c)| matches!(c, Came::Image(DataState::OK, _))));
    let quality = |came: &(u64, Came)| if let Came::Image(_, qos) = came.1 { qos } else { None };
    let qos = free.watch.came.iter().find_map(quality).expect("its image has one");
    assert_eq!(qos.timeliness, rwf::Timeliness::REALTIME);
}

#[test]
fn what_the_source_refuses_the_delayed_service_refuses_at_once_in_its_words() {
    let journal = tempfile::tempdir().expect("a folder");
    let (_source, at) = source(&["-U", "20"]);
    let blocked = config_file("BLOCKED\n");
    let file =
        delay_file(&journal, &format!("[p2ps]\nblocked_items_file = [\"DIRECT_FEED:{}\"]\n", blocked.path().display()));
    let (_server, port) = serve(&["--route", &at, "--config", file.path().to_str().expect("UTF-8")]);
    let refused = |watcher: Watcher| match watcher.watch.came[0].1 {
        Came::Refused(code) => code,
        _ => panic!("{:?}", watcher.watch.came),
    };
    let mut real = Watcher::new(port, "DIRECT_FEED");
    (real.watch.item, real.watch.takes_refusals) = ("BLOCKED", true);
    let mut late = of_late(port, "BLOCKED");
    let is_first = |came: &[(u64, Came)]| !came.is_empty();
    until(&mut late, &mut real, "an answer", is_first);
    until(&mut real, &mut late, "an answer", is_first);
    assert_eq!(refused(late), refused(real));
}

#[test]
fn a_source_distributor_delays_a_service_and_goes_on_after_a_restart() {
    let journal = tempfile::tempdir().expect("a folder");
    let (_source, at) = source(&["-U", "20"]);
    let file = delay_file(&journal, "");
    let config = file.path().to_str().expect("UTF-8").to_owned();
    let free = || {
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port().to_string()
    };
    let hub_port = free();
    let distributor = || {
        let args = ["source-distributor", "--interface", "127.0.0.1", "--http-port", "0", "--nip-port", "0"];
        start(
            &[&args[..], &["--hub-port", &hub_port, "--route", &at, "--config", &config]].concat(),
            &From::Output,
            "ready ",
        )
    };
    let first = distributor();
    let hub = format!("127.0.0.1:{hub_port}");
    let args =
        ["p2ps", "--interface", "127.0.0.1", "--http-port", "off", "--rssl-port", "0", "--source-distributor", &hub];
    let p2ps = start(&args, &From::Output, "ready ");
    let port = port_of(&p2ps, "rssl=");
    let mut now = Watcher::new(port, "DIRECT_FEED");
    let mut late = of_late(port, ITEM);
    until_late(&mut now, &mut late);
    assert_the_same_later(&now.watch, &late.watch);
    let told = standing(&first, |delay| delay["published"].as_u64() > Some(10));
    assert_eq!(
        (&told["name"], &told["delayed_service"], &told["up"], &told["items"], &told["watched"], &told["removed"]),
        (&"LATE".into(), &"DIRECT_FEED".into(), &true.into(), &1.into(), &1.into(), &0.into()),
        "{told}"
    );
    let figure = |name: &str| told[name].as_u64().expect("a figure");
    // The message that is to be published next came a delay ago, and no more than what this host may stand still.
    assert!(figure("held_bytes") > 0 && figure("written") > 10, "{told}");
    assert!((DELAY - 2) * SECOND < figure("oldest_ns") && figure("oldest_ns") < 60 * SECOND, "{told}");
    let (status, _, text) = crate::http::ask(&web_of(&first), "GET", "/metrics", "", &[]);
    assert!(status == 200 && text.contains("quoteway_delay_items{delay=\"LATE\"} 1\n"), "{text}");
    // Killed and started again: the journal goes on, with a hole that is told at its place.
    drop(first);
    let _second = distributor();
    let died = late.watch.came.len();
    until(&mut now, &mut late, "what is due after the restart", |came| {
        let rest = &came[died..];
        let hole = rest.iter().position(|(_, came)| *came == Came::Suspect);
        hole.is_some_and(|at| rest[at..].iter().filter(|(_, came)| matches!(came, Came::Update(_))).count() > 10)
    });
    assert_the_same_later(&now.watch, &late.watch);
}
