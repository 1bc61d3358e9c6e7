//! Sessions in packet captures as recordings: what a consumer was sent, byte for byte, and what is said of what is not there.

use capture::link;
use capture::write::Pcap;
use record::{Folder, GapReason, Item, Kind, Recording};
use record_files::{Assumed, Imported, InputForm, import};
use rssl::{ClientConfig, Connection, ServerConfig, Sink};
use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, MsgKey, RefreshFlags, RefreshMsg, RequestFlags, RequestMsg, StatusMsg, UpdateMsg};
use rwf::rdm::directory::{Action, Info, Part, Refresh, Service, ServiceState, filter};
use rwf::wire::Writer;
use rwf::{DataType, FieldListEncoder, Primitive, State};
use std::path::Path;

const SYN: u8 = 2;
const FIN: u8 = 1;
const ACK: u8 = 16;
const START: u64 = 1_800_000_000_000_000_000;

fn message(encode: impl FnOnce(&mut Writer<'_>) -> Result<(), rwf::EncodeError>) -> Vec<u8> {
    let mut buffer = vec![0; 4096];
    let mut w = Writer::new(&mut buffer);
    encode(&mut w).expect("room");
    w.written().to_vec()
}

fn directory(id: u16, name: &str) -> Vec<u8> {
    let service = Service {
        info: Some(Part::Set(Info { name: name.to_owned(), ..Info::default() })),
        state: Some(Part::Set(ServiceState::new(true))),
        ..Service::new(id, Action::Add)
    };
    let refresh = Refresh {
        stream_id: 2,
        solicited: true,
        complete: true,
        clear_cache: true,
        sequence: None,
        state: State::OPEN_OK.into(),
        service_id: None,
        filter: Some(filter::INFO | filter::STATE),
        services: vec![service],
    };
    message(|w| refresh.encode(w))
}

fn request(stream: i32, service: u16, name: &str) -> Vec<u8> {
    let key = MsgKey::item(service, name.as_bytes());
    let request = RequestMsg { flags: RequestFlags::STREAMING, key, ..RequestMsg::new(Domain::MARKET_PRICE, stream) };
    message(|w| request.encode(w))
}

fn fields(w: &mut Writer<'_>, bid: u64) -> Result<(), rwf::EncodeError> {
    let mut list = FieldListEncoder::begin(w)?;
    list.field(1, &Primitive::UInt(bid))?;
    list.finish()
}

/// An image without a key: only the request says whose it is.
fn image(stream: i32, value: u64) -> Vec<u8> {
    let flags = RefreshFlags::SOLICITED.with(RefreshFlags::REFRESH_COMPLETE);
    let image = RefreshMsg {
        flags,
        container: DataType::FIELD_LIST,
        state: State::OPEN_OK,
        ..RefreshMsg::new(Domain::MARKET_PRICE, stream)
    };
    message(|w| image.encode_header(w).and_then(|()| fields(w, value)))
}

fn update(stream: i32, value: u64) -> Vec<u8> {
    let update = UpdateMsg { container: DataType::FIELD_LIST, ..UpdateMsg::new(Domain::MARKET_PRICE, stream) };
    message(|w| update.encode_header(w).and_then(|()| fields(w, value)))
}

/// Nothing is kept.
struct Nobody;
impl Sink for Nobody {
    fn message(&mut self, _: &[u8]) {}
}

/// A capture that is being written, of one or more sessions.
struct Tape {
    pcap: Pcap,
    bytes: Vec<u8>,
    now: u64,
}

/// A session between a client's port and port 14002.
struct Wire {
    client: Connection,
    server: Connection,
    port: u16,
    sequence: [u32; 2],
}

impl Tape {
    fn new() -> Self {
        let mut bytes = Vec::new();
        Self { pcap: Pcap::begin(link::RAW, &mut bytes), bytes, now: START }
    }

    fn packet(&mut self, wire: &mut Wire, from_client: bool, flags: u8, content: &[u8]) {
        self.now += 1_000_000;
        let end = usize::from(!from_client);
        let (source, target) = if from_client { (wire.port, 14002) } else { (14002, wire.port) };
        let mut packet = vec![0x45, 0];
        packet.extend((40 + content.len() as u16).to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
        packet.extend(source.to_be_bytes());
        packet.extend(target.to_be_bytes());
        packet.extend(wire.sequence[end].to_be_bytes());
        packet.extend([0, 0, 0, 0, 0x50, flags, 0xFF, 0xFF, 0, 0, 0, 0]);
        packet.extend(content);
        self.pcap.frame(self.now, &packet, packet.len(), &mut self.bytes);
        wire.sequence[end] =
            wire.sequence[end].wrapping_add(content.len() as u32 + u32::from(flags & (SYN | FIN) != 0));
    }

    /// A connection with its handshake and directory.
    fn connect(&mut self, port: u16, service: u16, name: &str) -> Wire {
        let mut wire = Wire {
            client: Connection::client(ClientConfig::default()),
            server: Connection::server(ServerConfig::default()),
            port,
            sequence: [100, 4_294_967_290],
        };
        self.packet(&mut wire, true, SYN, &[]);
        self.packet(&mut wire, false, SYN | ACK, &[]);
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        wire.server.start(0, &mut to_client);
        wire.client.start(0, &mut to_server);
        for _ in 0..3 {
            let sent = std::mem::take(&mut to_server);
            self.packet(&mut wire, true, ACK, &sent);
            wire.server.receive(0, &sent, &mut to_client, &mut Nobody).expect("a session");
            let sent = std::mem::take(&mut to_client);
            self.packet(&mut wire, false, ACK, &sent);
            wire.client.receive(0, &sent, &mut to_server, &mut Nobody).expect("a session");
        }
        assert!(wire.client.is_connected() && wire.server.is_connected());
        self.send(&mut wire, false, &[&directory(service, name)]);
        wire
    }

    fn send(&mut self, wire: &mut Wire, from_client: bool, messages: &[&[u8]]) {
        let bytes = framed(wire, from_client, messages);
        self.packet(wire, from_client, ACK, &bytes);
    }

    fn import(&self, folder: &Path) -> anyhow::Result<Imported> {
        let path = folder.join("made.pcap");
        std::fs::write(&path, &self.bytes)?;
        let form = InputForm::of(&path)?;
        assert_eq!(form, InputForm::Capture);
        let assumed = Assumed { service: "UNUSED".to_owned(), domain: 6 };
        import(&folder.join("made"), &[(&path, form)], &Dictionary::builtin(), &assumed)
    }
}

fn framed(wire: &mut Wire, from_client: bool, messages: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let side = if from_client { &mut wire.client } else { &mut wire.server };
    let mut packer = side.pack(0, &mut bytes);
    for message in messages {
        packer.push(message, None);
    }
    packer.finish().expect("a frame");
    bytes
}

fn item(service: &str, name: &str) -> Item {
    Item { service: service.into(), domain: 6, name: name.into() }
}

/// Kind, item's name, message and wall clock of all records of items and gaps.
fn records(folder: &Path) -> Vec<(Kind, String, Vec<u8>, u64)> {
    let recording = Recording::open(Folder::to_read(&folder.join("made"))).expect("a recording");
    assert!(recording.damage().is_empty());
    let mut cursor = recording.from_time(0);
    let mut found = Vec::new();
    while let Some(entry) = cursor.next().expect("readable") {
        if !matches!(entry.record.kind, Kind::Directory | Kind::Dictionary) {
            let name = entry.item.map(|item| item.name.to_string()).unwrap_or_default();
            found.push((entry.record.kind, name, entry.record.body.to_vec(), entry.record.clocks.wall));
        }
    }
    found
}

#[test]
fn what_a_consumer_was_sent_is_recorded_byte_for_byte_with_the_time_of_its_packets() {
    let folder = tempfile::tempdir().unwrap();
    let mut tape = Tape::new();
    let mut wire = tape.connect(40_001, 7, "FEED");
    tape.send(&mut wire, true, &[&request(5, 7, "IBM.N"), &request(6, 7, "GE.N")]);
    let (first, second) = (image(5, 1), image(6, 2));
    tape.send(&mut wire, false, &[&first, &second]);
    let image_time = tape.now;
    let tick = update(5, 3);
    tape.send(&mut wire, false, &[&tick, &update(99, 4)]);
    let closed = message(|w| {
        let state = State { stream: rwf::StreamState::CLOSED, ..State::OPEN_OK };
        StatusMsg { state: Some(state), ..StatusMsg::new(Domain::MARKET_PRICE, 6) }.encode(w)
    });
    tape.send(&mut wire, false, &[&closed]);
    tape.packet(&mut wire, false, FIN | ACK, &[]);

    let done = tape.import(folder.path()).expect("an import");
    let records = records(folder.path());
    let seen: Vec<(Kind, &str, &[u8])> = records.iter().map(|r| (r.0, r.1.as_str(), r.2.as_slice())).collect();
    assert_eq!(
        seen[..4],
        [
            (Kind::Refresh, "IBM.N", &*first),
            (Kind::Refresh, "GE.N", &*second),
            (Kind::Update, "IBM.N", &*tick),
            (Kind::Status, "GE.N", &*closed),
        ]
    );
    assert_eq!(records[0].3, image_time);
    // The end of the session is told of what was open: one item.
    assert_eq!((seen.len(), seen[4].0, seen[4].1), (5, Kind::Status, "IBM.N"));
    assert_eq!(done.left_out, ["1 messages are of streams that nobody is seen to ask for"]);
    let recording = Recording::open(Folder::to_read(&folder.path().join("made"))).unwrap();
    let at = recording.image_at(&item("FEED", "IBM.N"), image_time + 3_000_000).unwrap().expect("an image");
    assert!(!at.is_in_gap);
    // The session had a directory of its own, and no dictionaries: those are the ones that were given.
    assert!(record_io::dictionary_at(&recording, "FEED", 0).unwrap().is_some());
    assert!(record_io::is_up_at(&recording, "FEED", u64::MAX).unwrap());
}

#[test]
fn what_the_capture_lacks_is_a_gap_and_messages_behind_it_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut tape = Tape::new();
    let mut wire = tape.connect(40_001, 7, "FEED");
    tape.send(&mut wire, true, &[&request(5, 7, "IBM.N")]);
    tape.send(&mut wire, false, &[&image(5, 1)]);
    let lost = framed(&mut wire, false, &[&update(5, 2)]);
    wire.sequence[1] = wire.sequence[1].wrapping_add(lost.len() as u32);
    let late = update(5, 3);
    tape.send(&mut wire, false, &[&late]);
    let done = tape.import(folder.path()).expect("an import");
    let records = records(folder.path());
    let kinds: Vec<Kind> = records.iter().map(|record| record.0).collect();
    assert_eq!(kinds, [Kind::Refresh, Kind::Gap, Kind::Update]);
    assert_eq!(records[2].2, late);
    assert_eq!(
        record::Gap::decode(&records[1].2).map(|gap| (gap.reason, gap.bytes)),
        Some((GapReason::Overflow, lost.len() as u64))
    );
    assert_eq!(
        done.left_out,
        [format!("{} bytes of sessions are not in the capture: the recording has gaps there", lost.len())]
    );
}

#[test]
fn an_item_of_two_sessions_is_in_the_recording_once_and_goes_over_when_the_first_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let mut tape = Tape::new();
    let mut first = tape.connect(40_001, 7, "FEED");
    let mut second = tape.connect(40_002, 9, "FEED");
    for (wire, service) in [(&mut first, 7), (&mut second, 9)] {
        tape.send(wire, true, &[&request(5, service, "IBM.N")]);
        tape.send(wire, false, &[&image(5, u64::from(service))]);
    }
    tape.send(&mut first, false, &[&update(5, 1)]);
    tape.send(&mut second, false, &[&update(5, 1)]);
    tape.packet(&mut first, false, FIN | ACK, &[]);
    let again = image(5, 2);
    tape.send(&mut second, false, &[&again]);
    let done = tape.import(folder.path()).expect("an import");
    let records = records(folder.path());
    let kinds: Vec<Kind> = records.iter().map(|record| record.0).collect();
    assert_eq!(kinds, [Kind::Refresh, Kind::Update, Kind::Status, Kind::Refresh]);
    assert_eq!(records[3].2, again);
    assert_eq!(done.left_out, ["2 messages are of items that another session has in the recording already"]);
}

#[test]
fn a_capture_without_the_beginning_of_a_session_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let mut tape = Tape::new();
    let mut wire = tape.connect(40_001, 7, "FEED");
    // What was captured so far is thrown away.
    tape = Tape::new();
    tape.send(&mut wire, false, &[&image(5, 1)]);
    let error = format!("{:#}", tape.import(folder.path()).expect_err("no session"));
    assert!(error.contains("made.pcap") && error.contains("must hold the beginning of the session"), "{error}");
    assert!(error.contains("1 TCP connections begin before the capture"), "{error}");
}

#[test]
fn damaged_and_cut_captures_give_what_is_before_the_damage() {
    let folder = tempfile::tempdir().unwrap();
    let mut tape = Tape::new();
    let mut wire = tape.connect(40_001, 7, "FEED");
    tape.send(&mut wire, true, &[&request(5, 7, "IBM.N")]);
    tape.send(&mut wire, false, &[&image(5, 1)]);
    tape.send(&mut wire, false, &[&update(5, 2)]);
    tape.bytes.truncate(tape.bytes.len() - 3);
    let done = tape.import(folder.path()).expect("an import");
    // The beginning of the last packet is there: what it lacks is a gap.
    let kinds: Vec<Kind> = records(folder.path()).iter().map(|record| record.0).collect();
    assert_eq!(kinds, [Kind::Refresh, Kind::Gap]);
    assert!(done.left_out.iter().any(|line| line.contains("cut off")), "{:?}", done.left_out);
}
