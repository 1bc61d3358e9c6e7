//! What the messages say and what the tally makes of it; the tools themselves run in `tests/all/lbm_tools.rs`.

use std::net::Ipv4Addr;

use clap::Parser as _;
use lbm_io::options::{ContextOption, SourceOption, TransportName};
use lbm_io::{Context, Delivery, SendFlags, Sources};

use super::payload::{MIN, Payload};
use super::tally::Tally;
use super::{Profile, publish, subscribe};

#[test]
fn payloads_say_what_was_written() {
    for payload in [
        Payload::Message { number: 7, topic: 3, intended: 0x1234_5678_9ABC_DEF0 },
        Payload::End { topic: 9, count: 1 << 40 },
    ] {
        let mut bytes = [0xEE; 40];
        payload.write(bytes.first_chunk_mut().unwrap());
        assert_eq!(Payload::read(&bytes), Some(payload));
        assert_eq!(Payload::read(&bytes[..MIN]), Some(payload));
        assert_eq!(Payload::read(&bytes[..MIN - 1]), None);
    }
}

#[test]
fn options_come_from_the_profile_then_files_then_lines() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lbm.cfg");
    std::fs::write(&file, "source transport_lbtrm_ignore_interval 20\nsource implicit_batching_minimum_length 100\n")
        .unwrap();
    let words = ["lbmpub", "--options", file.to_str().unwrap(), "-o", "source implicit_batching_minimum_length 200"];
    let args = publish::Args::parse_from(words);
    let options = args.common.options("source transport tcp").unwrap();
    assert_eq!(options.get(SourceOption::TRANSPORT_LBTRM_IGNORE_INTERVAL), 20_000_000);
    assert_eq!(options.get(SourceOption::IMPLICIT_BATCHING_MINIMUM_LENGTH), 200);
    assert_eq!(options.get(SourceOption::TRANSPORT), TransportName::Tcp);
    assert_eq!(options.get(ContextOption::TRANSPORT_DATAGRAM_MAX_SIZE), 1472);
    std::fs::write(&file, "\nsource no_such_thing 1\n").unwrap();
    assert!(args.common.options("").is_ok(), "a warning: the file may be the product's");
    let strict = super::TopicArgs { strict_options: true, ..args.common.clone() };
    let told = strict.options("").unwrap_err().to_string();
    assert!(told.contains("lbm.cfg:2: ") && told.contains("no source option \"no_such_thing\""), "{told}");
    std::fs::write(&file, "\nreceiver ordered_delivery 7\n").unwrap();
    assert!(args.common.options("").is_err());
    for profile in [Profile::Throughput, Profile::None] {
        let args = publish::Args {
            common: super::TopicArgs { profile, option_files: Vec::new(), ..args.common.clone() },
            ..args.clone()
        };
        assert!(args.common.options("").is_ok());
    }
}

/// A message of the tools, from one context to another of the same thread.
fn exchange(numbers: &[u32], end: Option<u64>) -> Tally {
    let port = 30_000 + (std::process::id() % 10_000) as u16;
    let n = numbers.len() as u16 + end.unwrap_or(500) as u16;
    let group = Ipv4Addr::new(239, 7, (n >> 8) as u8, n as u8);
    let lines = format!(
        "source transport tcp\ncontext default_interface 127.0.0.1\ncontext resolver_multicast_address {group}\n\
         context resolver_multicast_port {port}\ncontext transport_tcp_port_low 0\ncontext transport_tcp_port_high 0"
    );
    let args = subscribe::Args::parse_from(["lbmsub"]);
    let options = args.common.options(&lines).unwrap();
    let (mut sender, mut receiver) = (Context::new(&options).unwrap(), Context::new(&options).unwrap());
    let source = sender.source("t", &options).unwrap();
    receiver.receiver("t", &options).unwrap();
    let mut tally = Tally::new(100, 1, None);
    let wait = Some(std::time::Duration::from_millis(1));
    while sender.stats().sending.iter().all(|s| s.receivers != Some(1)) {
        sender.poll(wait, &mut |_: &mut Sources, _: &Delivery<'_>| {}).unwrap();
        receiver.poll(wait, &mut tally).unwrap();
    }
    let mut send = |payload: Payload| {
        let mut bytes = [0; MIN];
        payload.write(&mut bytes);
        sender.send(source, &bytes, SendFlags::FLUSH).unwrap();
    };
    for number in numbers {
        send(Payload::Message { number: *number, topic: 0, intended: net::clock::now() });
    }
    if let Some(count) = end {
        send(Payload::End { topic: 0, count });
    }
    while tally.messages < numbers.len() as u64 || tally.ended() < usize::from(end.is_some()) {
        sender.poll(wait, &mut |_: &mut Sources, _: &Delivery<'_>| {}).unwrap();
        receiver.poll(wait, &mut tally).unwrap();
    }
    tally
}

#[test]
fn numbers_tell_what_never_came() {
    let t = exchange(&[0, 1, 2], Some(3));
    assert_eq!((t.lost(true), t.is_settled(), t.ended(), t.from_the_future), (0, true, 1, 0));
    assert_eq!(t.distribution().samples, 3);
    let t = exchange(&[5, 6, 9], Some(12));
    assert_eq!((t.lost(false), t.lost(true), t.is_settled()), (4, 9, false));
    let t = exchange(&[0, 3, 1], None);
    assert_eq!((t.lost(true), t.ended()), (1, 0));
    let out_of_order: u64 = t.all().map(|s| s.out_of_order).sum();
    assert_eq!(out_of_order, 1);
    let t = exchange(&[0, 1], Some(3));
    assert_eq!((t.lost(false), t.is_settled()), (1, false));
}
