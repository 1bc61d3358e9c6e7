//! A delayed service, with real processes: what comes late is what came, in its order, also over the death of the process that keeps it.

use std::sync::Arc;

use net::tcp::{ConnId, SocketOptions};
use rssl::ClientConfig;
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rwf::msg::{Domain, Msg, MsgKey, RequestFlags, RequestMsg};
use rwf::wire::Writer;
use rwf::{DataState, Qos};
use tools::consumer::{Consumer, Identity, Received};

use crate::chain::{From, Process, port_of, serve, source, start};

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
}

struct Watch {
    consumer: Consumer,
    out: Vec<Vec<u8>>,
    came: Vec<(u64, Came)>,
    /// The item is to be asked for, of the service with this id.
    ask: Option<u16>,
}

impl Watch {
    fn new(service: &str) -> Self {
        let identity =
            Identity { user: "watch".to_owned(), application: "test".to_owned(), service: service.to_owned() };
        Self { consumer: Consumer::new(identity), out: Vec::new(), came: Vec::new(), ask: None }
    }

    fn request(&mut self) {
        let Some(id) = self.ask.take() else { return };
        let key = MsgKey { name_type: Some(1), ..MsgKey::item(id, ITEM.as_bytes()) };
        let request = RequestMsg { flags: RequestFlags::STREAMING, key, ..RequestMsg::new(Domain::MARKET_PRICE, 5) };
        let mut buf = [0; 256];
        let mut w = Writer::new(&mut buf);
        request.encode(&mut w).expect("room");
        self.out.push(w.written().to_vec());
    }

    fn updates(&self) -> Vec<(u64, &[u8])> {
        let updates = self.came.iter().filter_map(|(at, came)| match came {
            Came::Update(body) => Some((*at, body.as_slice())),
            Came::Image(..) | Came::Suspect => None,
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
                Msg::Refresh(m) => self.came.push((now, Came::Image(m.state.data, m.qos))),
                Msg::Update(m) => self.came.push((now, Came::Update(m.body.to_vec()))),
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
