use super::*;
use proptest::prelude::*;
use rwf::{DataState, State, StateCode, StreamState};

fn state() -> State<'static> {
    State::new(StreamState::OPEN, DataState::SUSPECT, StateCode::NO_RESOURCES, "Source is down")
}

fn every_event() -> Vec<Event<'static>> {
    let image = flags::FIRST | flags::COMPLETE | flags::RECOVERY;
    vec![
        Event::Service { target: ALL, service: 1, cached: true, name: "DIRECT_FEED", filters: b"filters" },
        Event::ServiceGone { service: 65535 },
        Event::ServiceStatus { service: 3, state: state() },
        Event::GroupStatus { service: 3, group: 9, state: Some(state()), merged_to: Some(10) },
        Event::GroupStatus { service: 3, group: 9, state: Some(state()), merged_to: None },
        Event::GroupStatus { service: 3, group: 9, state: None, merged_to: Some(11) },
        Event::ItemOpened { target: 2, handle: 0, token: 0xFFFF_FFFF },
        Event::Refused {
            target: 2,
            token: 7,
            state: State::new(StreamState::CLOSED, DataState::SUSPECT, StateCode::USAGE_ERROR, ""),
        },
        Event::Image { target: ALL, handle: 5, group: 9, flags: image, position: u64::MAX, rwf: b"refresh" },
        Event::Update { handle: 5, has_key: false, rwf: b"update" },
        Event::Update { handle: 5, has_key: true, rwf: b"" },
        Event::ItemStatus { target: 1, handle: 5, group: NO_GROUP, flags: flags::CLOSED, rwf: b"status" },
        Event::Ack { target: 1, token: 77, rwf: b"ack" },
        Event::Generic { target: ALL, handle: 5, has_key: true, rwf: b"generic" },
        Event::Dictionary { target: ALL, service: 1, rwf: b"dictionary" },
        Event::Heartbeat { announcement: b"who I am" },
        Event::Missed { target: 3, handle: 9 },
        Event::CaughtUp { target: 3, to: 1 << 40 },
        Event::Resync { target: 3, why: "too late" },
        Event::Record { service: "FEED", key: b"key", age: 1 << 40, parts: b"parts" },
        Event::Servers { target: 3, servers: b"\0\0\0\0\x01\0\0\0\x01a\0\x01\x09\0\x02\0\x03\0\x01b" },
        Event::Leaving { why: "end of day" },
    ]
}

fn every_request() -> Vec<Request<'static>> {
    vec![
        Request::Hello { incarnation: 7, key: 0x0102_0304_0506_0708 },
        Request::Open { service: 1, token: 3, flags: flags::STREAMING | flags::PRIVATE, rwf: b"request" },
        Request::Refresh { handle: 5, in_stream: false },
        Request::Refresh { handle: 5, in_stream: true },
        Request::Reissue { handle: 5, serial: Some(3), in_stream: true, rwf: b"request" },
        Request::Reissue { handle: 5, serial: None, in_stream: false, rwf: b"" },
        Request::Close { handle: 5 },
        Request::Post { service: 1, handle: None, token: 0, rwf: b"post" },
        Request::Post { service: 1, handle: Some(4), token: 9, rwf: b"post" },
        Request::Generic { handle: 5, rwf: b"generic" },
        Request::Heartbeat { position: 1 << 40 },
        Request::Gap { from: 1 << 40, to: 2 << 40 },
        Request::Bye,
        Request::Serve { server: b"\x02\0\0\0\x01\0\0\0\x01a" },
        Request::Serve { server: b"" },
    ]
}

fn write_every_event(writer: &mut BlockWriter) {
    for event in every_event() {
        writer.event(&event);
    }
}

fn write_every_request(writer: &mut BlockWriter) {
    for request in every_request() {
        writer.request(&request);
    }
}

#[test]
fn every_event_comes_back_as_it_was_written() {
    let mut writer = BlockWriter::new(42);
    for event in every_event() {
        match event {
            Event::Update { handle, has_key, rwf } => writer.update(handle, has_key, rwf),
            other => writer.event(&other),
        }
    }
    let block = Block::parse(writer.block().unwrap()).unwrap();
    assert_eq!(block.heading, Heading { incarnation: 42, first_seq: 0, count: every_event().len() as u32 });
    let read: Vec<_> = block.messages().map(|m| Event::decode(&m.unwrap()).unwrap()).collect();
    assert_eq!(read, every_event());
}

#[test]
fn every_request_comes_back_as_it_was_written() {
    let mut writer = BlockWriter::new(1);
    for request in every_request() {
        writer.request(&request);
    }
    let block = Block::parse(writer.block().unwrap()).unwrap();
    let read: Vec<_> = block.messages().map(|m| Request::decode(&m.unwrap()).unwrap()).collect();
    assert_eq!(read, every_request());
}

#[test]
fn the_data_path_and_the_typed_path_write_the_same_bytes() {
    let (mut fast, mut typed) = (BlockWriter::new(1), BlockWriter::new(1));
    fast.update(9, true, b"body");
    typed.event(&Event::Update { handle: 9, has_key: true, rwf: b"body" });
    assert_eq!(fast.block(), typed.block());
    let header: [u8; 24] = [0x51, 0x77, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 20, 0, 0, 0];
    let message: [u8; 20] = *b"\x14\0\0\0\x08\x01\xFF\xFF\x09\0\0\0\0\0\0\0body";
    assert_eq!(fast.block().unwrap(), [&header[..], &message[..]].concat());
}

#[test]
fn positions_run_on_from_block_to_block() {
    let mut writer = BlockWriter::new(7);
    assert!(writer.block().is_none() && writer.is_empty());
    let mut continuity = Continuity::new();
    let mut seen = Vec::new();
    for turn in 0..3u64 {
        for _ in 0..=turn {
            writer.event(&Event::Heartbeat { announcement: b"" });
        }
        let block = Block::parse(writer.block().unwrap()).unwrap();
        seen.push((
            continuity.accept(&block.heading),
            block.messages().map(|m| m.unwrap().position).collect::<Vec<_>>(),
        ));
        writer.clear();
        assert!(writer.block().is_none());
    }
    assert_eq!(seen, [(Seen::NewIncarnation, vec![0]), (Seen::Next, vec![1, 2]), (Seen::Next, vec![3, 4, 5])]);
    assert_eq!(writer.next_position(), 6);
}

#[test]
fn a_reader_tells_gaps_repeats_and_restarts() {
    let heading = |incarnation, first_seq, count| Heading { incarnation, first_seq, count };
    let mut continuity = Continuity::new();
    assert_eq!(continuity.accept(&heading(1, 100, 5)), Seen::NewIncarnation);
    assert_eq!(continuity.accept(&heading(1, 105, 1)), Seen::Next);
    assert_eq!(continuity.accept(&heading(1, 100, 5)), Seen::Old);
    assert_eq!(continuity.accept(&heading(1, 108, 2)), Seen::Gap(2));
    assert_eq!(continuity.accept(&heading(1, 110, 2)), Seen::Next);
    assert_eq!(continuity.accept(&heading(2, 0, 1)), Seen::NewIncarnation);
    assert_eq!(continuity.accept(&heading(2, 1, 1)), Seen::Next);
}

#[test]
fn a_message_in_the_wrong_direction_is_named() {
    let mut writer = BlockWriter::new(1);
    writer.event(&Event::Heartbeat { announcement: b"" });
    writer.request(&Request::Hello { incarnation: 0, key: 0 });
    let block = Block::parse(writer.block().unwrap()).unwrap();
    let messages: Vec<_> = block.messages().map(Result::unwrap).collect();
    assert_eq!(Request::decode(&messages[0]), Err(HubError::WrongDirection(Kind::Heartbeat)));
    assert_eq!(Event::decode(&messages[1]), Err(HubError::WrongDirection(Kind::Hello)));
}

#[test]
fn a_damaged_header_is_refused_with_its_reason() {
    let mut writer = BlockWriter::new(1);
    writer.update(1, false, b"x");
    let good = writer.block().unwrap().to_vec();
    let with = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[at] = byte;
        Block::parse(&bad).map(|block| block.messages().collect::<Result<Vec<_>, _>>().err())
    };
    assert_eq!(with(0, 0).unwrap_err(), HubError::NotAHubStream);
    assert_eq!(with(2, 9).unwrap_err(), HubError::Version(9));
    assert_eq!(with(20, 16).unwrap_err(), HubError::Truncated { expected: 40, found: 41 });
    assert_eq!(with(16, 0).unwrap(), Some(HubError::Count { announced: 0, found: 1 }));
    assert_eq!(with(16, 2).unwrap(), Some(HubError::Count { announced: 2, found: 1 }));
    assert_eq!(with(24, 15).unwrap(), Some(HubError::MessageLength { offset: 24, length: 15 }));
    assert_eq!(with(24, 18).unwrap(), Some(HubError::MessageLength { offset: 24, length: 18 }));
    assert_eq!(with(28, 200).unwrap(), Some(HubError::UnknownType(200)));
}

/// Reads everything that can be read; the point is that it returns.
fn read_all(bytes: &[u8]) -> usize {
    let Ok(block) = Block::parse(bytes) else { return 0 };
    let mut read = 0;
    for message in block.messages() {
        let Ok(message) = message else { break };
        read += usize::from(Event::decode(&message).is_ok() || Request::decode(&message).is_ok());
    }
    read
}

#[test]
fn a_block_cut_off_anywhere_is_refused() {
    let mut writer = BlockWriter::new(1);
    write_every_event(&mut writer);
    let whole = writer.block().unwrap();
    for end in 0..whole.len() {
        assert!(Block::parse(&whole[..end]).is_err(), "cut at {end}");
    }
    assert_eq!(read_all(whole), every_event().len());
}

proptest! {
    #[test]
    fn damaged_bytes_never_panic(at in 0usize..600, byte: u8, second in 0usize..600, other: u8) {
        let mut writer = BlockWriter::new(1);
        write_every_event(&mut writer);
        write_every_request(&mut writer);
        let mut bytes = writer.block().unwrap().to_vec();
        let length = bytes.len();
        bytes[at % length] = byte;
        bytes[second % length] ^= other;
        prop_assert!(read_all(&bytes) <= every_event().len() + every_request().len());
    }

    #[test]
    fn updates_of_any_content_come_back(bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..40)) {
        let mut writer = BlockWriter::new(1);
        for (handle, body) in bodies.iter().enumerate() {
            writer.update(handle as u32, handle % 2 == 0, body);
        }
        let block = Block::parse(writer.block().unwrap()).unwrap();
        for (index, message) in block.messages().enumerate() {
            let message = message.unwrap();
            prop_assert_eq!((message.handle, message.body), (index as u32, &bodies[index][..]));
        }
    }

    #[test]
    fn reading_the_parts_is_reading_the_whole(
        lengths in prop::collection::vec(0usize..60, 1..40),
        longest in 0usize..700,
    ) {
        let mut writer = BlockWriter::new(3);
        writer.event(&Event::Heartbeat { announcement: b"" });
        writer.clear();
        for (handle, length) in lengths.iter().enumerate() {
            writer.update(handle as u32, false, &vec![handle as u8; *length]);
        }
        let whole = writer.block().unwrap();
        let read = |bytes: &[u8]| -> Vec<(u64, u32, Vec<u8>)> {
            let block = Block::parse(bytes).unwrap();
            block.messages().map(|m| m.unwrap()).map(|m| (m.position, m.handle, m.body.to_vec())).collect()
        };
        let mut continuity = Continuity::new();
        let mut parts_read = Vec::new();
        for part in parts(whole, longest) {
            let block = Block::parse(&part).unwrap();
            prop_assert!(matches!(continuity.accept(&block.heading), Seen::Next | Seen::NewIncarnation));
            prop_assert!(part.len() <= longest || block.heading.count == 1);
            parts_read.extend(read(&part));
        }
        prop_assert_eq!(parts_read, read(whole));
        prop_assert!(whole.len() > longest || parts(whole, longest).count() == 1);
    }

    #[test]
    fn parts_of_damaged_bytes_never_panic(at in 0usize..600, byte: u8, longest in 0usize..300) {
        let mut writer = BlockWriter::new(1);
        write_every_event(&mut writer);
        let mut bytes = writer.block().unwrap().to_vec();
        let length = bytes.len();
        bytes[at % length] = byte;
        let total: usize = parts(&bytes, longest).map(|part| part.len()).sum();
        prop_assert!(total >= length);
    }
}
