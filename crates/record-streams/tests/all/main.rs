//! Recordings sent to real brokers: nats-server (a Go module) and Kafka (Maven Central), and to object stores: moto's S3 server (`PyPI`) and folders.
//!
//! A server that cannot be had is said, and its tests do nothing; `QUOTEWAY_BROKERS=required` makes that a failure.

mod brokers;
mod kafka;
mod nats;
mod objects;

use record::{Clocks, Folder, Item, Journal, JournalConfig, Kind};
use record_streams::{Access, Config, Form, Progress, Start, Target};
use rwf::msg::{Domain, UpdateMsg};
use rwf::wire::Writer;
use rwf::{DataType, FieldListEncoder, Primitive};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const START: u64 = 1_800_000_000_000_000_000;
/// Nothing takes longer, on any machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// A recording that is being written.
struct Writing {
    journal: Journal<Folder>,
    items: Vec<u32>,
    written: u64,
}

/// Names of items, of which one has characters that subjects cannot have.
const ITEMS: [&str; 3] = ["IBM.N", "A B.C", ".DJI"];

impl Writing {
    fn begin(folder: &Path) -> Self {
        Self::begin_with(folder, JournalConfig::default())
    }

    fn begin_with(folder: &Path, config: JournalConfig) -> Self {
        let store = Folder::to_write(folder).expect("a folder");
        let mut journal = Journal::open(store, config, &mut Vec::new()).expect("a journal");
        let item = |name: &&str| Item { service: "FEED".into(), domain: 6, name: (*name).into() };
        let items = ITEMS.iter().map(|name| journal.item(item(name))).collect();
        Self { journal, items, written: 0 }
    }

    /// Writes a tick of each item, all with the same sequence number of their own.
    fn ticks(&mut self, count: u32) {
        for sequence in 0..count {
            for item in self.items.clone() {
                let wall = START + self.written * 1_000_000;
                let clocks = Clocks { wall, mono: wall, source: None };
                self.journal.append(Kind::Update, Some(item), clocks, &update(sequence));
                self.written += 1;
            }
        }
        let wall = START + self.written * 1_000_000;
        self.journal.sync(Clocks { wall, mono: wall, source: None });
    }

    fn end(mut self) {
        self.journal.end();
    }
}

fn update(sequence: u32) -> Vec<u8> {
    let mut buffer = [0; 200];
    let mut w = Writer::new(&mut buffer);
    let update = UpdateMsg {
        container: DataType::FIELD_LIST,
        seq_num: Some(sequence),
        ..UpdateMsg::new(Domain::MARKET_PRICE, 5)
    };
    update.encode_header(&mut w).expect("room");
    let mut list = FieldListEncoder::begin(&mut w).expect("room");
    list.field(1, &Primitive::UInt(u64::from(sequence))).expect("room");
    list.finish().expect("room");
    w.written().to_vec()
}

fn config(folder: &Path, target: &str, until_end: bool) -> Config {
    Config {
        folder: folder.to_owned(),
        target: Target::parse(target).expect("a target"),
        access: Access::default(),
        form: Form::Json,
        items: Vec::new(),
        start: Start::Beginning,
        until_end,
    }
}

/// Sends all of a recording that is over.
fn send_all(folder: &Path, target: &str) -> Progress {
    let end = Instant::now() + PATIENCE;
    let mut last = None;
    let stop = || Instant::now() > end;
    let done =
        record_streams::run(&config(folder, target, true), &stop, &mut |progress| last.clone_from(&progress.trouble));
    let done = done.expect("a recording");
    assert_eq!((done.behind, last), (0, None), "not all is sent");
    done
}

/// Runs a sender in a thread beside `work`, and stops it when that is done and it has sent so many messages. Gives what it said of troubles.
fn beside(config: &Config, sent: u64, work: impl FnOnce(&dyn Fn() -> Progress)) -> (Progress, Vec<String>) {
    let (stop, now, troubles) =
        (AtomicBool::new(false), std::sync::Mutex::new(Progress::default()), std::sync::Mutex::new(Vec::new()));
    let done = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut last = None;
            record_streams::run(config, &|| stop.load(Ordering::Relaxed), &mut |progress| {
                now.lock().expect("a lock").clone_from(progress);
                if progress.trouble.is_some() && progress.trouble != last {
                    troubles.lock().expect("a lock").extend(progress.trouble.clone());
                }
                last.clone_from(&progress.trouble);
            })
        });
        let progress = || now.lock().expect("a lock").clone();
        work(&progress);
        let end = Instant::now() + PATIENCE;
        while progress().sent + progress().known < sent && Instant::now() < end && !sender.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        sender.join().expect("a sender").expect("a recording")
    });
    (done, troubles.into_inner().expect("a lock"))
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what} does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Forgets how far the sender of a recording is.
fn forget_the_place(recording: &Path) {
    for entry in recording.read_dir().expect("a folder").flatten() {
        if entry.path().extension().is_some_and(|ending| ending == "sent") {
            std::fs::remove_file(entry.path()).expect("a file");
        }
    }
}
