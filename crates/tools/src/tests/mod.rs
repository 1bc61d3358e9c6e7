//! The tools against each other over loopback: simulator, recorded market, test client and view.

use crate::source::serve::{SourceSettings, serve};
use crate::ui::feed::WatchClient;
use crate::{sink_driven_src, test_client};
use clap::Parser as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

mod golden;

/// A publisher in a thread of its own, stopped when it is dropped.
struct Publishing {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Publishing {
    fn start(
        body: impl FnOnce(&Arc<AtomicBool>, &mut dyn FnMut(SocketAddr)) -> anyhow::Result<()> + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = channel();
        let flag = stop.clone();
        let thread = std::thread::spawn(move || {
            body(&flag, &mut |address| {
                // The test that waits for it may have failed already.
                let _ = sender.send(address);
            })
        });
        let address = receiver.recv().expect("the publisher listens");
        Self { address, stop, thread: Some(thread) }
    }

    fn simulator(line: &str) -> Self {
        let line = format!("src --bind 127.0.0.1 -N 0 {line}");
        let words = sink_driven_src::args_from(line.split_whitespace().map(Into::into).collect());
        let args = sink_driven_src::Args::parse_from(words);
        Self::start(move |stop, ready| sink_driven_src::run_until(&args, &|| stop.load(Ordering::Acquire), ready))
    }

    fn market() -> Self {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self::start(move |stop, ready| {
            serve(any, &SourceSettings::default(), stop, ready, &std::sync::mpsc::channel().1)
        })
    }
}

impl Drop for Publishing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let result = self.thread.take().expect("joined once").join().expect("no panic");
        result.expect("it ends in order");
    }
}

fn measure(port: u16, line: &str) -> test_client::Report {
    let line = format!("client -h 127.0.0.1 -p {port} -l 0 --json never {line}");
    let args = test_client::Args::parse_from(test_client::args_from(line.split_whitespace().map(Into::into).collect()));
    let started = std::time::Instant::now();
    test_client::measure(&args, &|| started.elapsed().as_secs() > 20).unwrap()
}

#[test]
fn the_client_gets_every_update_that_the_simulator_sends() {
    let source = Publishing::simulator("-S RDFD -U 20k -tps 500 -ts -UL 100 --size 85");
    let report = measure(source.address.port(), "-S RDFD -il RDT{0..999} -o 100 -tt decodeFormat 3 --seconds 0.5");
    assert!(report.complete && report.counts.images == 1_000 && report.images_s.is_some(), "{report:?}");
    assert!(report.counts.updates > 2_000, "{report:?}");
    let counts = report.counts;
    assert_eq!((counts.lost, counts.reordered, counts.early, counts.strange), (0, 0, 0, 0), "{report:?}");
    assert!(report.latency.samples > 10 && report.latency.p50_us > 0.0, "{report:?}");
    assert!(counts.values > counts.updates * 8, "{report:?}");
}

#[test]
fn common_items_reach_every_mount_and_private_ones_only_theirs() {
    let source = Publishing::simulator("-U 10k --smooth --stamp-all");
    let report = measure(source.address.port(), "-il RDT{0..99} --mounts 10 --common 0.5 --seconds 0.4");
    assert_eq!((report.streams, report.mounts), (550, 10));
    assert!(report.complete && report.counts.lost == 0, "{report:?}");
    assert_eq!(report.counts.images, 550);
    let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
    for field in ["name", "rate_per_s", "received", "p50_us", "p90_us", "p99_us", "max_us", "lost", "images_s"] {
        assert!(!json[field].is_null(), "{field} is missing in {json}");
    }
}

#[test]
fn names_that_a_market_does_not_have_are_refused_and_counted() {
    let market = Publishing::market();
    let report = measure(market.address.port(), "-il IBM.N,!none,TRI.N,.DJI --seconds 0.2");
    assert_eq!((report.counts.images, report.counts.refused), (3, 1));
    let books = measure(market.address.port(), "-il IBM.N,.DJI -md 8 -rf 0 --seconds 0.1");
    assert_eq!((books.counts.images, books.counts.refused, books.counts.updates), (1, 1, 0));
}

#[test]
fn a_wrong_host_or_type_is_told_in_one_line() {
    let fails = |line: &str| {
        let words = test_client::args_from(line.split_whitespace().map(Into::into).collect());
        test_client::measure(&test_client::Args::parse_from(words), &|| true).unwrap_err().to_string()
    };
    assert!(fails("client -il A -ct encrypted --ca-file /no/such/file").contains("/no/such/file"));
    assert!(fails("client -il A{1").contains("A{1"));
    assert!(fails("client -f /no/such/file").contains("/no/such/file"));
}

#[test]
fn what_was_recorded_is_played_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session.jsonl");
    let path = file.to_str().unwrap();
    let live = Publishing::simulator("-U 200 --size 74");
    for form in ["", "--record-json"] {
        let line = format!("-il A,B --seconds 0.3 --record {path} {form}");
        let recorded = measure(live.address.port(), &line);
        assert!(recorded.complete && recorded.counts.updates > 20, "{recorded:?}");
        let played = Publishing::simulator(&format!("-Q {path} --speed 0.3"));
        let seen = measure(played.address.port(), "-il A,B,C --seconds 0.2 decodeFormat 3");
        assert_eq!((seen.counts.images, seen.counts.refused), (2, 1), "C was not recorded");
        // Slowed down, since the first updates may be played before a busy machine asks for the images.
        assert!(seen.counts.updates > 0 && seen.counts.lost == 0 && seen.counts.strange == 0, "{seen:?}");
    }
}

const RECORDS: &[u8] = b"\x1c340\x1fXX\x1dGBP=\x1f77\x1f1\x1e22\x1f1.5520\x1e25\x1f1.5530\x1c\n\
    \x1c316\x1fXX\x1dGBP=\x1f2\x1e22\x1f1.5521\x1c\n\x1c316\x1fXX\x1dGBP=\x1f3\x1e22\x1f1.5522\x1c\n";

#[test]
fn a_file_of_raw_marketfeed_is_published_at_a_rate() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("old.mf");
    std::fs::write(&file, RECORDS).unwrap();
    let source = Publishing::simulator(&format!("-Q {} -c -U 200", file.display()));
    let report = measure(source.address.port(), "-il GBP=,EUR= --seconds 0.3 decodeFormat 3");
    assert_eq!((report.counts.images, report.counts.refused, report.counts.strange), (1, 1, 0), "{report:?}");
    assert!(report.counts.updates > 10 && report.counts.values >= report.counts.updates, "{report:?}");
}

#[test]
fn a_stream_of_raw_marketfeed_is_published_as_it_comes() {
    use std::io::Write as _;
    let records = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let source = Publishing::simulator(&format!("-K -Q tcp:{}", records.local_addr().unwrap()));
    let (mut sender, _) = records.accept().unwrap();
    let writing = std::thread::spawn(move || {
        // Until the source hangs up, which is when the test is over.
        while sender.write_all(RECORDS).is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    });
    let report = measure(source.address.port(), "-il GBP=,EUR= --seconds 0.3 decodeFormat 3");
    assert_eq!((report.counts.refused, report.counts.strange), (0, 0), "{report:?}");
    assert!(report.counts.images == 2 && report.counts.updates > 10, "{report:?}");
    drop(source);
    writing.join().unwrap();
}

/// Reads records up to one that is wanted; tells how many fields it has.
fn record_that(
    stream: &mut std::net::TcpStream,
    bytes: &mut Vec<u8>,
    is_wanted: impl Fn(&marketfeed::Record<'_>) -> bool,
) -> usize {
    use std::io::Read as _;
    loop {
        if let marketfeed::Scan::Message { start, end } = marketfeed::scan(bytes) {
            let record = marketfeed::Record::parse(&bytes[start..end]).expect("a record");
            let found = is_wanted(&record).then(|| record.fields().count());
            bytes.drain(..end);
            match found {
                Some(fields) => return fields,
                None => continue,
            }
        }
        let mut part = vec![0; 65_536];
        let len = stream.read(&mut part).expect("more comes in time");
        assert!(len > 0, "the listener has closed");
        bytes.extend_from_slice(&part[..len]);
    }
}

#[test]
fn lines_open_items_and_records_come() {
    use crate::marketfeed_lines::{Args, run_until};
    use marketfeed::RecordType;
    use std::io::{Read as _, Write as _};
    let source = Publishing::simulator("-U 500");
    let args = Args {
        server: source.address.to_string(),
        bind: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        user: "rmds".to_owned(),
        clients: 1,
        clients_per_address: 0,
        handshake_timeout: 15,
        idle_timeout: 60,
    };
    let lines = Publishing::start(move |stop, ready| run_until(&args, &|| stop.load(Ordering::Acquire), ready));
    let mut client = std::net::TcpStream::connect(lines.address).unwrap();
    client.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    client.write_all(b"user alice\nopen DIRECT_FEED RDT0\r\nopen NOWHERE X\nsnap DIRECT_FEED RDT1\n").unwrap();
    let mut bytes = Vec::new();
    let mut next = |kind, item: &[u8]| {
        record_that(&mut client, &mut bytes, |record| record.record_type == kind && record.item == item)
    };
    assert!(next(RecordType::IMAGE, b"RDT0") > 20);
    assert!(next(RecordType::SNAPSHOT, b"RDT1") > 20);
    assert!(next(RecordType::UPDATE, b"RDT0") > 2);
    client.write_all(b"close DIRECT_FEED RDT0\nwhat\n").unwrap();
    record_that(&mut client, &mut bytes, |record| record.text.is_some_and(|text| text.starts_with(b"unknown line")));
    // There is one place.
    let mut second = std::net::TcpStream::connect(lines.address).unwrap();
    assert_eq!(second.read(&mut [0; 9]).unwrap(), 0);
    client.write_all(b"quit\n").unwrap();
    client.read_to_end(&mut bytes).unwrap();
}

/// A line, a login, or an item that is not there hold no place; an item that is there does, however quiet its client.
#[test]
fn a_port_of_lines_has_places_for_those_who_watch_something() {
    use crate::marketfeed_lines::{Args, run_until};
    use std::io::{Read as _, Write as _};
    let source = Publishing::simulator("-U 500");
    let args = Args {
        server: source.address.to_string(),
        bind: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        user: "rmds".to_owned(),
        clients: 2,
        clients_per_address: 0,
        handshake_timeout: 15,
        idle_timeout: 1,
    };
    let lines = Publishing::start(move |stop, ready| run_until(&args, &|| stop.load(Ordering::Acquire), ready));
    let connect = |said: &str| {
        let mut client = std::net::TcpStream::connect(lines.address).unwrap();
        client.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        client.write_all(said.as_bytes()).unwrap();
        client
    };
    let mut watching = connect("open DIRECT_FEED RDT0\n");
    for said in ["user alice\n", "open NOWHERE X\n", "what\n", "snap DIRECT_FEED RDT1\n"] {
        let mut idle = connect(said);
        let mut bytes = Vec::new();
        idle.read_to_end(&mut bytes).unwrap();
        let told = String::from_utf8_lossy(&bytes);
        assert!(told.contains("--idle-timeout"), "{said}: {told}");
    }
    // All the while this one has said nothing more.
    let mut bytes = Vec::new();
    for _ in 0..1_500 {
        record_that(&mut watching, &mut bytes, |record| record.record_type == marketfeed::RecordType::UPDATE);
    }
    watching.write_all(b"close DIRECT_FEED RDT0\n").unwrap();
    watching.read_to_end(&mut bytes).unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains("--idle-timeout"));
}

#[test]
fn the_books_are_published_at_a_rate_too() {
    let source = Publishing::simulator("-U 2000 -ts -UL 50");
    for domain in [7, 8] {
        let report = measure(source.address.port(), &format!("-md {domain} -il A,B --seconds 0.3"));
        assert!(report.complete && report.counts.updates > 100 && report.counts.lost == 0, "{report:?}");
        assert!(report.latency.samples > 0, "{report:?}");
    }
}

#[test]
fn recorded_data_is_played_at_a_rate_when_one_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("slow.jsonl");
    let mut text =
        String::from("{\"at\":0,\"item\":\"A\",\"message\":{\"ID\":5,\"Type\":\"Refresh\",\"Fields\":{\"BID\":0}}}\n");
    for n in 1..=50 {
        let update = serde_json::json!({"ID": 5, "Type": "Update", "Fields": {"BID": n}});
        text += &serde_json::json!({"at": n, "item": "A", "message": update}).to_string();
        text.push('\n');
    }
    std::fs::write(&file, text).unwrap();
    let source = Publishing::simulator(&format!("-Q {} -U 1000 -c", file.display()));
    let report = measure(source.address.port(), "-il A --seconds 0.4");
    assert!((200..=600).contains(&report.counts.updates), "fifty seconds' data at a thousand a second: {report:?}");
}

#[test]
fn the_view_follows_the_market() {
    let market = Publishing::market();
    let names = ["IBM.N", "EUR=", "?bad"].map(str::to_owned);
    let mut client = WatchClient::new(market.address, "DIRECT_FEED", &names).unwrap();
    let end = net::clock::now() + 20_000_000_000;
    while net::clock::now() < end && (client.snapshot().updates < 5 || !client.snapshot().is_ready()) {
        client.turn(net::clock::now() + 100_000_000).unwrap();
    }
    let snapshot = client.snapshot();
    assert!(snapshot.link == crate::ui::Link::Up && snapshot.is_ready() && snapshot.updates >= 5);
    let [ibm, euro, bad] = &snapshot.rows[..] else { panic!("three rows") };
    assert!(ibm.imaged && ibm.bid.unwrap().to_f64() < ibm.ask.unwrap().to_f64() && ibm.volume.is_some());
    assert!(euro.imaged && euro.last.is_none());
    assert!(!bad.imaged && bad.state.contains("?bad"), "{}", bad.state);
}
