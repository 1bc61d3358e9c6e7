//! Recordings by real processes: what is written is what a consumer sees beside it, over signals and death.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use net::tcp::{ConnId, SocketOptions};
use record::{Folder, GapReason, Item, Kind, Recording};
use rssl::ClientConfig;
use rssl_io::{Ended, Handler, Opened, RsslIo};
use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, Msg, MsgClass, MsgKey, RequestFlags, RequestMsg};
use rwf::wire::Writer;
use tools::consumer::{Consumer, Identity, Received};

use crate::chain::{From, Process, config_file, serve, source, start};
use crate::http;

const SECOND: u64 = 1_000_000_000;
pub(crate) const SERVICE: &str = "DIRECT_FEED";
pub(crate) const ITEMS: [&str; 3] = ["IBM.N", "MSFT.O", "GE.N"];

/// A consumer of some items, and all that came of them: the item's place in the list, and the message.
struct Watch {
    consumer: Consumer,
    items: Vec<String>,
    out: Vec<Vec<u8>>,
    came: Vec<(usize, Vec<u8>)>,
}

impl Handler for Watch {
    fn opened(&mut self, now: u64, _: ConnId, _: &Opened<'_>) {
        let out = &mut self.out;
        self.consumer.begin(now, &mut |msg| out.push(msg.to_vec()));
    }

    fn message(&mut self, now: u64, _: ConnId, msg: &[u8]) {
        let out = &mut self.out;
        match self.consumer.receive(now, msg, &mut |msg| out.push(msg.to_vec())) {
            Received::ServiceUp(id) => {
                for (n, name) in self.items.iter().enumerate() {
                    let key = MsgKey { name_type: Some(1), ..MsgKey::item(id, name.as_bytes()) };
                    let flags = RequestFlags::STREAMING;
                    let request = RequestMsg { flags, key, ..RequestMsg::new(Domain::MARKET_PRICE, n as i32 + 5) };
                    let mut buf = [0; 256];
                    let mut w = Writer::new(&mut buf);
                    request.encode(&mut w).expect("room");
                    self.out.push(w.written().to_vec());
                }
            }
            Received::Item => {
                let stream = rwf::peek::stream_id(msg).expect("a stream");
                self.came.push((stream as usize - 5, msg.to_vec()));
            }
            _ => {}
        }
    }

    fn closed(&mut self, _: u64, _: ConnId, ended: &Ended) {
        panic!("a watcher is cut off: {}", ended.why);
    }
}

/// A watcher and its connection.
pub(crate) struct Watcher {
    io: RsslIo,
    conn: ConnId,
    watch: Watch,
}

impl Watcher {
    pub(crate) fn new(port: u16, service: &str, items: &[&str]) -> Self {
        let mut io = RsslIo::new(net::clock::now()).expect("sockets");
        let to = ([127, 0, 0, 1], port).into();
        let config = Arc::new(ClientConfig::default());
        let conn = io.connect(net::clock::now(), to, &SocketOptions::default(), config, None).expect("a socket");
        let identity =
            Identity { user: "watch".to_owned(), application: "test".to_owned(), service: service.to_owned() };
        let items = items.iter().map(|name| (*name).to_owned()).collect();
        let watch = Watch { consumer: Consumer::new(identity), items, out: Vec::new(), came: Vec::new() };
        Self { io, conn, watch }
    }

    /// Listens until something holds of what came.
    pub(crate) fn until(&mut self, what: &str, holds: impl Fn(&[(usize, Vec<u8>)]) -> bool) {
        let end = net::clock::now() + 60 * SECOND;
        while !holds(&self.watch.came) {
            assert!(net::clock::now() < end, "{what} does not come; {} messages came", self.watch.came.len());
            let now = self.io.turn(Some(net::clock::now() + SECOND / 100), &mut self.watch).expect("sockets");
            let out = std::mem::take(&mut self.watch.out);
            self.io.send(now, self.conn, |packer| out.iter().for_each(|msg| packer.push(msg, None)));
        }
    }

    /// All that came: the item's place in the list, and the message.
    pub(crate) fn came(&self) -> &[(usize, Vec<u8>)] {
        &self.watch.came
    }

    /// The messages of an item of a class, without their stream ids.
    pub(crate) fn of(&self, item: usize, class: MsgClass) -> Vec<Vec<u8>> {
        let of = self.watch.came.iter().filter(|(n, msg)| *n == item && rwf::peek::class(msg) == Some(class));
        of.map(|(_, msg)| without_stream(msg)).collect()
    }
}

/// A message on stream 0.
pub(crate) fn without_stream(msg: &[u8]) -> Vec<u8> {
    let mut msg = msg.to_vec();
    rwf::peek::set_stream_id(&mut msg, 0);
    msg
}

pub(crate) fn record(port: u16, folder: &Path, args: &[&str]) -> Process {
    let server = format!("127.0.0.1:{port}");
    let folder = folder.to_str().expect("UTF-8");
    let fixed = ["record", folder, "--server", &server, "--service", SERVICE, "--interval", "0"];
    start(&[&fixed[..], args].concat(), &From::Error, "is recorded into")
}

pub(crate) fn open(folder: &Path) -> Recording<Folder> {
    Recording::open(Folder::to_read(folder)).expect("a recording")
}

/// Waits until a recording has so many records of updates.
pub(crate) fn until_recorded(folder: &Path, updates: u64) {
    let end = net::clock::now() + 60 * SECOND;
    let count = || {
        let recording = Recording::open(Folder::to_read(folder)).ok()?;
        recording.info().counts.iter().find(|(kind, _)| *kind == Kind::Update).map(|(_, count)| count.messages)
    };
    while count().unwrap_or(0) < updates {
        assert!(net::clock::now() < end, "{updates} updates are not recorded: {:?}", count());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Ends a recorder in order.
pub(crate) fn end(recorder: &Process, folder: &Path) {
    assert!(Command::new("kill").args(["-TERM", &recorder.id().to_string()]).status().expect("kill runs").success());
    let deadline = net::clock::now() + 60 * SECOND;
    while Recording::open(Folder::to_read(folder)).map_or(true, |recording| recording.info().is_open) {
        assert!(net::clock::now() < deadline, "SIGTERM does not end the recording");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// The records of a kind of an item, on stream 0.
pub(crate) fn recorded(recording: &Recording<Folder>, domain: u8, name: &str, kind: Kind) -> Vec<Vec<u8>> {
    let item = Item { service: SERVICE.into(), domain, name: name.into() };
    let mut cursor = recording.of_item(&item, 0);
    let mut all = Vec::new();
    while let Some(entry) = cursor.next().expect("it can be read") {
        if entry.record.kind == kind {
            all.push(without_stream(entry.record.body));
        }
    }
    all
}

#[test]
fn what_is_recorded_is_what_a_consumer_saw_beside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_source, at) = source(&["-Q", "market"]);
    let (_server, port) = serve(&["--route", &at]);
    let mut watcher = Watcher::new(port, SERVICE, &ITEMS);
    let has_images = |came: &[(usize, Vec<u8>)]| {
        (0..ITEMS.len())
            .all(|n| came.iter().any(|(item, msg)| *item == n && rwf::peek::class(msg) == Some(MsgClass::REFRESH)))
    };
    watcher.until("the images", has_images);
    let names = ITEMS.join(",");
    let recorder = record(port, folder.path(), &["--item-list", &names, "--symbols", "0#ALL", "--pattern", "GE.*"]);
    until_recorded(folder.path(), 30);
    end(&recorder, folder.path());
    let recording = open(folder.path());
    assert_eq!((recording.damage(), recording.info().gaps), (&[][..], vec![]));
    let of_last = recorded(&recording, 6, ITEMS[0], Kind::Update).last().cloned().expect("an update");
    watcher.until("the last update", |came| came.iter().any(|(n, msg)| *n == 0 && without_stream(msg) == of_last));
    for (n, name) in ITEMS.iter().enumerate() {
        let (seen, written) = (watcher.of(n, MsgClass::UPDATE), recorded(&recording, 6, name, Kind::Update));
        // The watcher saw more: before the first message that is written, and after the last.
        if let Some(first) = written.first() {
            let begin = seen.iter().position(|msg| msg == first).expect("the first one was seen");
            assert!(seen[begin..].starts_with(&written[..written.len().min(seen.len() - begin)]), "{name}");
        }
        assert_eq!(recorded(&recording, 6, name, Kind::Refresh).len(), 1, "{name}");
    }
    assert!(!recorded(&recording, 10, "0#ALL", Kind::Refresh).is_empty());
    // Whoever reads it needs nothing else: the dictionaries are in it, and the service.
    let mut dictionary = Dictionary::new();
    for (name, is_fields) in [("RWFFld", true), ("RWFEnum", false)] {
        for part in recorded(&recording, 5, name, Kind::Dictionary) {
            let Ok(Msg::Refresh(refresh)) = Msg::decode(&part) else { panic!("a dictionary comes in refreshes") };
            let applied = if is_fields {
                dictionary.apply_fields("recording", refresh.body)
            } else {
                dictionary.apply_enums("recording", refresh.body)
            };
            applied.expect("a dictionary");
        }
    }
    assert_eq!(dictionary.field_named("BID").map(rwf::dictionary::FieldDef::fid), Some(22));
    assert!(!recorded(&recording, 4, "", Kind::Directory).is_empty());
    let mut cursor = recording.from_time(0);
    let mut with_source = 0;
    while let Some(entry) = cursor.next().expect("it can be read") {
        assert!(entry.record.clocks.wall > 1_700_000_000 * SECOND);
        with_source += usize::from(entry.record.clocks.source.is_some());
    }
    assert!(with_source > 0, "the market's updates say when they were made");
}

/// Sends a command of `ctl` to a process: whether it has done it.
fn ctl(server: &http::Process, args: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_quoteway")).args(["ctl", "--at", &server.web()]).args(args).output();
    let output = output.expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).expect("text"))
}

/// The value of a counter in `/metrics`.
fn metric(server: &http::Process, name: &str) -> u64 {
    let (_, _, text) = server.get("/metrics");
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// A server records itself from its start on, and is steered.
fn records_itself(server: &http::Process, folder: &Path) {
    let recording = || server.json("/api/v1/recording");
    until_recorded(folder, 20);
    let open = |text: &str| text.contains("\"open\":10");
    server.wait_for("/api/v1/recording", |_, text| open(text) && text.contains("\"state\":\"recording\""));
    let (is_done, said) = ctl(server, &["record", "stop", "--why", "enough"]);
    assert!(is_done && said.contains("the recording is ended"), "{said}");
    let told = recording();
    assert_eq!((told["state"].as_str(), told["lost"].as_u64()), (Some("stopped"), Some(0)), "{told}");
    let info = self::open(folder).info();
    assert!(!info.is_open && info.gaps.is_empty(), "{info:?}");
    // The counters are what stands in the files.
    assert_eq!(told["records"].as_u64(), Some(info.records()), "{told}");
    assert_eq!(metric(server, "quoteway_record_records_total"), info.records());
    assert_eq!(metric(server, "quoteway_record_recording"), 0);
    assert!(!ctl(server, &["record", "stop", "--why", "again"]).0, "it is stopped already");
    let (is_done, said) = ctl(server, &["record", "start", "--why", "more"]);
    assert!(is_done, "{said}");
    assert!(!ctl(server, &["record", "start", "--why", "again"]).0, "it is being recorded already");
    let updates = info.counts.iter().find(|(kind, _)| *kind == Kind::Update).expect("updates").1.messages;
    until_recorded(folder, updates + 20);
    assert_eq!(metric(server, "quoteway_record_recording"), 1);
    let (is_done, said) = ctl(server, &["record"]);
    assert!(is_done && said.contains("state: recording") && said.contains(SERVICE), "{said}");
    assert!(Command::new("kill").args(["-TERM", &server.child.id().to_string()]).status().expect("kill").success());
    let deadline = net::clock::now() + 60 * SECOND;
    while self::open(folder).info().is_open {
        assert!(net::clock::now() < deadline, "the recording has no end");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let recording = self::open(folder);
    assert_eq!(recording.damage(), &[][..]);
    let reasons: Vec<GapReason> = recording.info().gaps.iter().map(|(_, gap)| gap.reason).collect();
    assert_eq!(reasons, [GapReason::Restart], "a recording that was stopped goes on behind a gap");
    assert_eq!(recorded(&recording, 6, "RDT3", Kind::Refresh).len(), 2);
}

fn of_itself(folder: &Path, rest: &str) -> tempfile::NamedTempFile {
    let names = (0..10).map(|n| format!("\"RDT{n}\"")).collect::<Vec<_>>().join(", ");
    config_file(&format!(
        "[record]\nfolder = {:?}\nservices = [\"{SERVICE}\"]\nitems = [{names}]\n{rest}",
        folder.to_str().expect("UTF-8")
    ))
}

#[test]
fn a_server_records_itself_from_its_start_on_and_is_steered() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_source, at) = source(&["-U", "200"]);
    for (shards, place) in [("0", "one"), ("2", "two")] {
        let folder = folder.path().join(place);
        let config = of_itself(&folder, "");
        let config = config.path().to_str().expect("UTF-8");
        let server = http::serve(&["--route", &at, "--config", config, "--shards", shards]);
        records_itself(&server, &folder);
    }
}

#[test]
fn a_p2ps_records_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_source, at) = source(&["-U", "200"]);
    let ports = ["--nip-port", "0", "--hub-port", "0", "--http-port", "0"];
    let distributor = http::start(&[&["source-distributor", "--route", &at][..], &ports].concat());
    let config = of_itself(folder.path(), "");
    let hub = format!("127.0.0.1:{}", distributor.at("hub").rsplit_once(':').expect("a port").1);
    let server = http::start(&[
        "p2ps",
        "--source-distributor",
        &hub,
        "--rssl-port",
        "0",
        "--http-port",
        "0",
        "--config",
        config.path().to_str().expect("UTF-8"),
    ]);
    records_itself(&server, folder.path());
}

#[test]
fn a_recording_that_cannot_begin_leaves_the_server_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_source, at) = source(&["-U", "200"]);
    // Somebody else writes it.
    let other = Folder::to_write(folder.path()).expect("a folder");
    let config = of_itself(folder.path(), "");
    let server = http::serve(&["--route", &at, "--config", config.path().to_str().expect("UTF-8")]);
    let told = server.json("/api/v1/recording");
    assert_eq!(told["state"], "failed", "{told}");
    assert!(told["trouble"].as_str().is_some_and(|why| !why.is_empty()), "{told}");
    server.wait_for("/readyz", |status, _| status == 200);
    let (is_done, said) = ctl(&server, &["record", "start", "--why", "try"]);
    assert!(!is_done, "{said}");
    drop(other);
    let (is_done, said) = ctl(&server, &["record", "start", "--why", "try again"]);
    assert!(is_done, "{said}");
    until_recorded(folder.path(), 20);
}

#[test]
fn a_recorder_that_was_killed_goes_on_with_a_gap() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_source, at) = source(&["-U", "200"]);
    let (_server, port) = serve(&["--route", &at]);
    let args = ["--item-list", "RDT{0..9}"];
    let first = record(port, folder.path(), &args);
    until_recorded(folder.path(), 100);
    // SIGKILL.
    drop(first);
    let before = open(folder.path()).info();
    assert!(before.is_open && before.gaps.is_empty(), "{before:?}");
    let second = record(port, folder.path(), &args);
    let updates = before.counts.iter().find(|(kind, _)| *kind == Kind::Update).expect("updates").1.messages;
    until_recorded(folder.path(), updates + 100);
    end(&second, folder.path());
    let recording = open(folder.path());
    let info = recording.info();
    assert_eq!(info.gaps.iter().map(|(_, gap)| gap.reason).collect::<Vec<_>>(), [GapReason::Restart]);
    assert_eq!(recorded(&recording, 6, "RDT3", Kind::Refresh).len(), 2, "each life asks for its images");
    let shown = |args: &[&str]| {
        let path = folder.path().to_str().expect("UTF-8");
        let output = Command::new(env!("CARGO_BIN_EXE_quoteway")).args(["record"]).args(args).arg(path).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(shown(&["info"]).contains("the recorder was not running"), "{}", shown(&["info"]));
    shown(&["compact"]);
    let value: serde_json::Value = serde_json::from_str(&shown(&["info", "--json"])).expect("JSON");
    assert_eq!(value["records"].as_u64(), Some(info.records()), "{value}");
    assert!(value["bytes"].as_u64().is_some_and(|bytes| bytes <= info.bytes), "{value}");
}
