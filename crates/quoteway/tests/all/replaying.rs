//! Replays by real processes: clients get what they saw when it was recorded, and from any time on the image of then.

use std::path::Path;
use std::process::Command;

use record::{Item, Kind};
use rwf::DataState;
use rwf::image::{Image, Schema};
use rwf::msg::{Msg, MsgClass, RefreshMsg};
use rwf::wire::Writer;

use crate::chain::{From, Process, port_of, serve, source, start};
use crate::recording::{ITEMS, SERVICE, Watcher, end, open, record, recorded, until_recorded, without_stream};

/// A replay, and its port.
fn replay(folder: &Path, args: &[&str]) -> (Process, u16) {
    replay_of(&[folder], args)
}

/// A replay of several recordings, and its port.
fn replay_of(folders: &[&Path], args: &[&str]) -> (Process, u16) {
    let folders: Vec<&str> = folders.iter().map(|folder| folder.to_str().expect("UTF-8")).collect();
    let fixed = ["--port", "0", "--interval", "0"];
    let process = start(&[&["replay"], &folders[..], &fixed[..], args].concat(), &From::Error, "is replayed on");
    let address = process.line().split(" on ").nth(1).and_then(|rest| rest.split(',').next()).expect("an address");
    let port = address.parse::<std::net::SocketAddr>().expect("an address").port();
    (process, port)
}

/// A recording of a market of which a client saw the same beside it.
pub(crate) fn market() -> (tempfile::TempDir, Watcher) {
    let folder = tempfile::tempdir().expect("a folder");
    let (_source, at) = source(&["-Q", "market"]);
    let (_server, port) = serve(&["--route", &at]);
    let mut watcher = Watcher::new(port, SERVICE, &ITEMS);
    watcher.until("the images", |came| (0..ITEMS.len()).all(|n| came.iter().any(|(item, _)| *item == n)));
    let recorder = record(port, folder.path(), &["--item-list", &ITEMS.join(",")]);
    until_recorded(folder.path(), 100);
    end(&recorder, folder.path());
    let recording = open(folder.path());
    for (n, name) in ITEMS.iter().enumerate() {
        let Some(last) = recorded(&recording, 6, name, Kind::Update).pop() else { continue };
        watcher.until("the last update", |came| came.iter().any(|(at, msg)| *at == n && without_stream(msg) == last));
    }
    (folder, watcher)
}

fn updates_in(folder: &Path) -> usize {
    let recording = open(folder);
    ITEMS.iter().map(|name| recorded(&recording, 6, name, Kind::Update).len()).sum()
}

fn is_update(msg: &[u8]) -> bool {
    rwf::peek::class(msg) == Some(MsgClass::UPDATE)
}

#[test]
fn a_replay_gives_what_was_recorded_and_the_same_each_time() {
    let (folder, _) = market();
    let count = updates_in(folder.path());
    let play = |flags: &[&str]| {
        let (_replay, port) = replay(folder.path(), &[&["--start-on-open", "3"], flags].concat());
        let mut watcher = Watcher::new(port, SERVICE, &ITEMS);
        watcher.until("all updates", |came| came.iter().filter(|(_, msg)| is_update(msg)).count() >= count);
        watcher
    };
    let first = play(&["--speed", "max"]);
    let recording = open(folder.path());
    for (n, name) in ITEMS.iter().enumerate() {
        assert_eq!(first.of(n, MsgClass::UPDATE), recorded(&recording, 6, name, Kind::Update), "{name}");
        let body = |msg: &Vec<u8>| rwf::peek::body(msg).map(<[u8]>::to_vec);
        let images = recorded(&recording, 6, name, Kind::Refresh);
        assert_eq!(
            first.of(n, MsgClass::REFRESH).iter().map(body).collect::<Vec<_>>(),
            images.iter().map(body).collect::<Vec<_>>()
        );
    }
    assert_eq!(play(&["--speed", "max"]).came(), first.came(), "byte for byte");
    let spun = play(&["--speed", "20", "--spin"]);
    for (n, name) in ITEMS.iter().enumerate() {
        assert_eq!(spun.of(n, MsgClass::UPDATE), first.of(n, MsgClass::UPDATE), "{name}, each at its time");
    }
}

/// What a client has made of its messages, up to and with one of them, as a refresh's body.
fn image_after(watcher: &Watcher, item: usize, last: &[u8]) -> Vec<u8> {
    let mut image = Image::new();
    for (_, msg) in watcher.came().iter().filter(|(n, _)| *n == item) {
        match Msg::decode(msg).expect("a message") {
            Msg::Refresh(refresh) => image.refresh(&refresh, &Schema::NONE).expect("an image"),
            Msg::Update(update) => image.update(&update, &Schema::NONE).expect("an update"),
            _ => {}
        }
        if without_stream(msg) == last {
            break;
        }
    }
    let mut buf = vec![0; 65_000];
    let mut w = Writer::new(&mut buf);
    image.parts(RefreshMsg::new(rwf::msg::Domain(6), 0), 60_000).write(&mut w).expect("a small image");
    rwf::peek::body(w.written()).expect("a body").to_vec()
}

/// The first image that comes of an item: its body and state.
fn first_image(port: u16, service: &str, name: &str) -> (Vec<u8>, DataState) {
    let mut watcher = Watcher::new(port, service, &[name]);
    watcher.until("the image", |came| !came.is_empty());
    let (_, msg) = &watcher.came()[0];
    let Ok(Msg::Refresh(refresh)) = Msg::decode(msg) else { panic!("no image: {:?}", Msg::decode(msg)) };
    (refresh.body.to_vec(), refresh.state.data)
}

/// A moment in the middle of a recording, as text; the first item's image of then as a client had it, and the updates behind it.
pub(crate) fn middle(folder: &Path, watcher: &Watcher) -> (String, (Vec<u8>, DataState), Vec<Vec<u8>>) {
    let recording = open(folder);
    let item = Item { service: SERVICE.into(), domain: 6, name: ITEMS[0].into() };
    let mut times = Vec::new();
    let mut cursor = recording.of_item(&item, 0);
    while let Some(entry) = cursor.next().expect("it can be read") {
        if entry.record.kind == Kind::Update {
            times.push((entry.record.time, without_stream(entry.record.body)));
        }
    }
    // A time in the middle at which a single message came.
    let at = (times.len() / 2..times.len() - 1).find(|n| times[*n].0 < times[n + 1].0).expect("a moment");
    let (time, last) = &times[at];
    let expected = (image_after(watcher, 0, last), DataState::OK);
    let (seconds, nanos) = (time / 1_000_000_000, time % 1_000_000_000);
    let date =
        std::process::Command::new("date").args(["-u", "-d", &format!("@{seconds}"), "+%Y-%m-%dT%H:%M:%S"]).output();
    let date = String::from_utf8(date.expect("date runs").stdout).expect("text");
    let moment = format!("{}.{nanos:09}Z", date.trim());
    let rest = times[at + 1..].iter().map(|(_, msg)| msg.clone()).collect();
    (moment, expected, rest)
}

#[test]
fn whoever_opens_at_a_time_gets_the_image_that_a_client_had_then() {
    let (folder, watcher) = market();
    let (moment, expected, rest) = middle(folder.path(), &watcher);
    let (_replay, port) = replay(folder.path(), &["--from", &moment, "--speed", "0.000001", "--at", &moment]);
    assert_eq!(first_image(port, SERVICE, ITEMS[0]), expected);
    // The same as another service, and for an item alone.
    let other = format!("{SERVICE}@{moment}");
    let short = other.replace("000Z", "Z").replace("000Z", "Z").replace(".Z", "Z");
    assert_eq!(first_image(port, &short, ITEMS[0]), expected);
    assert_eq!(first_image(port, SERVICE, &format!("{}@{moment}", ITEMS[0])), expected);
    // From there on it goes on.
    let (_replay, port) = replay(folder.path(), &["--from", &moment, "--speed", "max", "--start-on-open"]);
    let mut from_there = Watcher::new(port, SERVICE, &ITEMS[..1]);
    from_there.until("the rest", |came| came.iter().filter(|(_, msg)| is_update(msg)).count() >= rest.len());
    assert_eq!(from_there.of(0, MsgClass::UPDATE), rest);
}

/// A replay that waits for its items to be open says that they have no image yet: whoever has few requests unanswered at once goes on with the next.
#[test]
fn a_client_that_asks_by_and_by_is_enough_for_a_replay_that_waits() {
    let (folder, _) = market();
    let (_replay, port) = replay(folder.path(), &["--start-on-open", "3"]);
    let (port, items) = (port.to_string(), ITEMS.join(","));
    let args = ["test-client", "-h", "127.0.0.1", "-p", &port, "-S", SERVICE, "-il", &items, "--open-window", "1"];
    let run = Command::new(env!("CARGO_BIN_EXE_quoteway")).args(args).args(["--seconds", "1"]).output();
    let run = run.expect("test-client");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(said.contains("\"complete\":true"), "{said}\n{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn a_time_that_nobody_watches_any_more_begins_anew() {
    let (folder, watcher) = market();
    let (moment, expected, rest) = middle(folder.path(), &watcher);
    let (_replay, port) = replay(folder.path(), &["--speed", "max", "--start-on-open", "1000000"]);
    let name = format!("{}@{moment}", ITEMS[0]);
    for _ in 0..2 {
        let mut watcher = Watcher::new(port, SERVICE, &[&name]);
        watcher.until("the rest", |came| came.iter().filter(|(_, msg)| is_update(msg)).count() >= rest.len());
        let (_, first) = &watcher.came()[0];
        assert_eq!((image_of(first).as_ref(), watcher.of(0, MsgClass::UPDATE)), (Some(&expected), rest.clone()));
    }
}

#[test]
fn a_gap_makes_items_suspect_until_their_next_image() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_source, at) = source(&["-U", "100"]);
    let (_server, port) = serve(&["--route", &at]);
    for life in 1..=2 {
        let recorder = record(port, folder.path(), &["--item-list", "RDT{0..4}"]);
        until_recorded(folder.path(), 50 * life);
        // The first one by SIGKILL.
        if life == 2 {
            end(&recorder, folder.path());
        }
    }
    let count = recorded(&open(folder.path()), 6, "RDT0", Kind::Update).len();
    let (_replay, port) = replay(folder.path(), &["--speed", "max", "--start-on-open", "--loop"]);
    let mut watcher = Watcher::new(port, SERVICE, &["RDT0"]);
    watcher.until("two rounds", |came| came.iter().filter(|(_, msg)| is_update(msg)).count() >= 2 * count);
    let states: Vec<(MsgClass, DataState)> = watcher
        .came()
        .iter()
        .filter_map(|(_, msg)| Some((rwf::peek::class(msg)?, Msg::decode(msg).ok()?.state()?.data)))
        .collect();
    let (ok, suspect) = ((MsgClass::REFRESH, DataState::OK), (MsgClass::STATUS, DataState::SUSPECT));
    // No image yet, the image, the gap, the image of the second life; and again.
    assert_eq!(states[..8], [suspect, ok, suspect, ok, suspect, ok, suspect, ok]);
}

#[test]
fn a_replay_is_paused_stepped_and_sought_by_its_input() {
    let (folder, watcher) = market();
    let (moment, expected, rest) = middle(folder.path(), &watcher);
    // The replay waits for items that nobody opens.
    let (mut replay, port) = replay(folder.path(), &["--item", ITEMS[0], "--start-on-open", "1000"]);
    let mut watcher = Watcher::new(port, SERVICE, &ITEMS[..1]);
    watcher.until("the state of an item without an image", |came| !came.is_empty());
    replay.tell(&format!("seek {moment}"));
    watcher.until("the image of then", |came| came.len() == 2);
    let Ok(Msg::Refresh(refresh)) = Msg::decode(&watcher.came()[1].1) else { panic!("no image") };
    assert_eq!((refresh.body.to_vec(), refresh.state.data), expected);
    replay.tell("step");
    replay.tell("what");
    replay.tell("where");
    watcher.until("an update", |came| came.len() == 3);
    replay.tell("speed max");
    replay.tell("go");
    watcher.until("the rest", |came| came.iter().filter(|(_, msg)| is_update(msg)).count() >= rest.len());
    assert_eq!(watcher.of(0, MsgClass::UPDATE), rest);
    // Back again: nothing was lost on the way.
    replay.tell(&format!("seek {moment}"));
    watcher.until("the rest again", |came| came.iter().filter(|(_, msg)| is_update(msg)).count() >= 2 * rest.len());
    assert_eq!(watcher.of(0, MsgClass::UPDATE), [&rest[..], &rest[..]].concat());
}

#[test]
fn a_gap_of_one_recording_is_filled_by_another_and_items_have_other_names() {
    let (holed, whole) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (_source, at) = source(&["-U", "100"]);
    let (_server, port) = serve(&["--route", &at]);
    let items = ["--item-list", "RDT{0..4}"];
    let beside = record(port, whole.path(), &items);
    until_recorded(whole.path(), 30);
    for life in 1..=2 {
        let recorder = record(port, holed.path(), &items);
        until_recorded(holed.path(), 50 * life);
        // The first one by SIGKILL.
        if life == 2 {
            end(&recorder, holed.path());
        }
    }
    until_recorded(whole.path(), updates_in_all(whole.path()) + 30);
    end(&beside, whole.path());
    assert_eq!(open(holed.path()).info().gaps.len(), 1);
    let (_replay, port) = replay_of(
        &[holed.path(), whole.path()],
        &["--speed", "max", "--start-on-open", "2", "--rename", "RDT*=TEST.*", "--as", "MERGED"],
    );
    let mut watcher = Watcher::new(port, "MERGED", &["TEST.0", "TEST.1"]);
    let last = ["RDT0", "RDT1"].map(|name| recorded(&open(whole.path()), 6, name, Kind::Update).pop());
    for (n, last) in last.into_iter().enumerate() {
        let last = last.expect("updates");
        watcher.until("the last update", |came| came.iter().any(|(at, msg)| *at == n && without_stream(msg) == last));
    }
    for n in 0..2 {
        let states: Vec<DataState> = watcher
            .came()
            .iter()
            .filter(|(item, _)| *item == n)
            .filter_map(|(_, msg)| Some(Msg::decode(msg).ok()?.state()?.data))
            .collect();
        // No image yet, and from the first one on none is Suspect: of both recordings, of the holed one behind the gap, of the other at the end.
        assert_eq!(states.first(), Some(&DataState::SUSPECT));
        assert!(states.len() >= 4 && states[1..].iter().all(|state| *state == DataState::OK), "{states:?}");
    }
}

fn updates_in_all(folder: &Path) -> u64 {
    let count = |kind: Kind| move |(of, count): &(Kind, record::Count)| (*of == kind).then_some(count.messages);
    open(folder).info().counts.iter().filter_map(count(Kind::Update)).sum()
}

#[test]
fn a_replay_publishes_at_a_server_without_being_asked() {
    let (folder, watcher) = market();
    let (moment, expected, rest) = middle(folder.path(), &watcher);
    let (server, port) = serve(&[]);
    let at = format!("127.0.0.1:{}", port_of(&server, "nip="));
    let path = folder.path().to_str().expect("UTF-8");
    let args = ["replay", path, "--nip", &at, "--interval", "0", "--from", &moment, "--start-on-open", "1000000"];
    let mut replay = start(&args, &From::Error, "is replayed to");
    let mut watcher = Watcher::new(port, SERVICE, &ITEMS[..1]);
    watcher.until("the image of then", |came| came.iter().any(|(_, msg)| image_of(msg).is_some()));
    let images: Vec<_> = watcher.came().iter().filter_map(|(_, msg)| image_of(msg)).collect();
    assert_eq!(images.last(), Some(&expected));
    replay.tell("speed max");
    replay.tell("go");
    watcher.until("the rest", |came| came.iter().filter(|(_, msg)| is_update(msg)).count() >= rest.len());
    let body = |msg: &Vec<u8>| rwf::peek::body(msg).map(<[u8]>::to_vec);
    let came: Vec<_> = watcher.of(0, MsgClass::UPDATE).iter().map(body).collect();
    assert_eq!(came, rest.iter().map(body).collect::<Vec<_>>());
    // Back again: the image of then is published.
    let count = watcher.came().len();
    replay.tell("pause");
    replay.tell(&format!("seek {moment}"));
    watcher.until("the image again", |came| {
        came[count..].iter().any(|(_, msg)| image_of(msg).as_ref() == Some(&expected))
    });
}

/// Body and data state of an image.
pub(crate) fn image_of(msg: &[u8]) -> Option<(Vec<u8>, DataState)> {
    match Msg::decode(msg) {
        Ok(Msg::Refresh(refresh)) => Some((refresh.body.to_vec(), refresh.state.data)),
        _ => None,
    }
}

#[test]
fn times_of_long_ago_are_moved_to_now() {
    const DAY: u64 = 86_400 * 1_000_000_000;
    let folder = tempfile::tempdir().expect("a folder");
    let dictionary = rwf::dictionary::Dictionary::builtin();
    let fid = |name: &str| dictionary.field_named(name).expect("a field").fid();
    let (time, day) = (fid("TIMACT"), fid("ACTIV_DATE"));
    // 2020-01-02T10:00:00Z.
    let then = 18_263 * DAY + 36_000 * 1_000_000_000;
    let mut buf = [0; 400];
    let mut w = Writer::new(&mut buf);
    let flags = rwf::msg::RefreshFlags::REFRESH_COMPLETE;
    let refresh = RefreshMsg {
        flags,
        container: rwf::DataType::FIELD_LIST,
        state: rwf::State::OPEN_OK,
        ..RefreshMsg::new(rwf::msg::Domain(6), 0)
    };
    refresh.encode_header(&mut w).expect("room");
    let mut list = rwf::FieldListEncoder::begin(&mut w).expect("room");
    list.field(time, &rwf::Primitive::Time(rwf::Time::new(10, 0, 0))).expect("room");
    list.field(day, &rwf::Primitive::Date(rwf::Date::new(2020, 1, 2))).expect("room");
    list.finish().expect("room");
    let store = record::Folder::to_write(folder.path()).expect("a folder");
    let mut journal =
        record::Journal::open(store, record::JournalConfig::default(), &mut Vec::new()).expect("a journal");
    let item = journal.item(Item { service: "OLD".into(), domain: 6, name: "IBM.N".into() });
    let clocks = record::Clocks { wall: then, mono: 1, source: None };
    journal.append(Kind::Refresh, Some(item), clocks, w.written());
    journal.end();
    drop(journal);
    let before = net::clock::wall();
    let (_replay, port) = replay(folder.path(), &["--from", "2020-01-02T10:00:00Z", "--shift-to-now"]);
    let (body, _) = first_image(port, "OLD", "IBM.N");
    let list = rwf::FieldList::decode(&body, &rwf::SetScope::NONE).expect("fields");
    let values: Vec<_> = list.entries().map(|entry| entry.expect("a field")).collect();
    let Ok(rwf::Primitive::Time(time)) = values[0].value(rwf::DataType::TIME) else { panic!("no time") };
    let Ok(rwf::Primitive::Date(date)) = values[1].value(rwf::DataType::DATE) else { panic!("no date") };
    let seconds = u64::from(time.hour) * 3600 + u64::from(time.minute) * 60 + u64::from(time.second);
    let days = (before / DAY..before / DAY + 2)
        .find(|days| rwf::Date::from_days(*days as u32) == date)
        .expect("today or tomorrow");
    let moved = days * DAY + seconds * 1_000_000_000;
    // To the second, and the time that it took to get there.
    assert!(moved + 1_000_000_000 > before && moved <= net::clock::wall(), "{time} {date}");
}
