//! Messages that another source has numbered, as a router sends them on.

use lbm::topic::{DeliveryConfig, RetentionConfig, SendError, Session, Source, SourceConfig};
use lbm::transport::tcp::Batch;
use lbm::transport::{Carrier as _, DatagramSink as _, Order};
use lbm::wire::Writer;
use lbm::wire::header::{Fragment, Header, LateJoinRequest, RetransmitRequest};
use lbm::wire::lbmc::{self, Kind, Message, NEXT_DATA};

use super::{Sink, TopicEvent};

/// A message of topic index 3, with a header that says that it is a part of a longer one.
fn part(sqn: u32, offset: u32, text: &str) -> Vec<u8> {
    let fragment = Fragment { flags: 0, first_sqn: 8, offset, total: 10 };
    let mut bytes = vec![0; 100];
    let mut w = Writer::new(&mut bytes);
    lbmc::encode(&mut w, Kind::Message, 3, sqn, &[Header::Fragment(fragment)], NEXT_DATA, text.as_bytes())
        .expect("room");
    let length = w.position();
    bytes.truncate(length);
    bytes
}

fn plain(sqn: u32, text: &str) -> Vec<u8> {
    let mut bytes = lbmc::data_header((text.len() + lbmc::DATA_HEADER) as u16, 3, sqn).to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

fn forward(source: &mut Source, batch: &mut Batch, bytes: &[u8]) -> Result<u32, SendError> {
    source.forward(1, batch, &Message::decode(bytes).expect("a message").0, true)
}

fn source() -> Source {
    Source::new(42, SourceConfig { late_join: Some(RetentionConfig::default()), ..SourceConfig::default() })
}

#[test]
fn numbers_headers_and_gaps_are_those_of_the_first_source() {
    let (mut source, mut batch) = (source(), Batch::new(100_000, 1, 0));
    for bytes in [plain(7, "seven"), part(8, 0, "01234"), part(9, 5, "56789"), plain(12, "twelve")] {
        forward(&mut source, &mut batch, &bytes).expect("sent");
    }
    source.check_invariants();
    assert_eq!(source.next_sqn(), 13);
    let (mut session, mut sink) = (Session::new(), Sink::default());
    session.add(42, 0, DeliveryConfig::default(), &mut sink);
    let mut dispatch = session.dispatch(0, &mut sink);
    dispatch.begin();
    dispatch.datagram(0, Order::InOrder, batch.output());
    let message = |sqn, text: &str| TopicEvent::Message(sqn, text.to_owned());
    let came: Vec<_> = sink.take().into_iter().filter(|event| *event != TopicEvent::Begin).collect();
    let lost = [TopicEvent::Lost(10), TopicEvent::Lost(11)];
    assert_eq!(came[..2], [message(7, "seven"), message(9, "0123456789")]);
    assert_eq!((&came[2..4], &came[4..]), (&lost[..], &[message(12, "twelve")][..]));
}

#[test]
fn parts_are_delivered_one_by_one_to_who_sends_them_on() {
    let (mut source, mut batch) = (source(), Batch::new(100_000, 1, 0));
    for bytes in [plain(7, "seven"), part(8, 0, "01234"), part(9, 5, "56789")] {
        forward(&mut source, &mut batch, &bytes).expect("sent");
    }
    let (mut session, mut sink) = (Session::new(), Sink::default());
    session.add(42, 0, DeliveryConfig { fragments: true, ..DeliveryConfig::default() }, &mut sink);
    let mut dispatch = session.dispatch(0, &mut sink);
    dispatch.begin();
    dispatch.datagram(0, Order::InOrder, batch.output());
    let came: Vec<_> = sink.take().into_iter().filter(|event| *event != TopicEvent::Begin).collect();
    let message = |sqn, text: &str| TopicEvent::Message(sqn, text.to_owned());
    assert_eq!(came, [message(7, "seven"), message(8, "01234"), message(9, "56789")]);
}

#[test]
fn what_was_left_out_is_not_retained_and_the_rest_is() {
    let (mut source, mut batch) = (source(), Batch::new(100_000, 1, 0));
    for bytes in [plain(7, "seven"), plain(8, "eight"), plain(12, "twelve"), plain(13, "thirteen")] {
        forward(&mut source, &mut batch, &bytes).expect("sent");
    }
    let ask = |sqn| RetransmitRequest {
        flags: 0x8000,
        request: 1,
        transport: 0,
        topic: 42,
        sqn,
        port: 1,
        address: [10, 0, 0, 1].into(),
    };
    let mut answered = Vec::new();
    for sqn in 5..15 {
        let mut out = Vec::new();
        if source.retransmit_request(&ask(sqn), &mut out) {
            let (message, _) = Message::decode(&out).expect("a message");
            assert_eq!((message.kind, message.topic, message.sqn), (Kind::Retransmission, 42, sqn));
            answered.push(sqn);
        }
    }
    assert_eq!(answered, [7, 8, 12, 13]);
    let mut info = Vec::new();
    let request = LateJoinRequest {
        flags: 0x8000,
        request: 2,
        transport: 0,
        topic: 42,
        address: [10, 0, 0, 1].into(),
        port: 1,
        low_sqn: 0,
        requests_max: 0,
        outstanding_max: 0,
    };
    source.late_join_request(1, &request, &mut info);
    let (info, _) = Message::decode(&info).expect("an answer");
    let offered = info.headers().find_map(|header| match header {
        Ok(Header::LateJoinInfo(info)) => Some((info.low_sqn, info.high_sqn)),
        _ => None,
    });
    assert_eq!(offered, Some((7, 13)));
}

#[test]
fn what_does_not_fit_a_datagram_is_refused() {
    let mut source = source();
    let mut batch = Batch::new(100_000, 1, 0);
    let longest = batch.message_max() - lbmc::DATA_HEADER;
    let text = "x".repeat(longest);
    assert_eq!(forward(&mut source, &mut batch, &plain(7, &text)), Ok(7));
    // No message of this transport is longer; of another one it may be, as one by number alone here.
    let tail = vec![0; longest + 1];
    let message = Message { kind: Kind::Message, topic: 3, sqn: 8, next: NEXT_DATA, tail: &tail };
    assert_eq!(source.forward(1, &mut batch, &message, true), Err(SendError::TooLong));
    assert_eq!(source.next_sqn(), 8, "nothing was sent, and the number is not over");
    source.skip_to(9);
    assert_eq!(source.next_sqn(), 9);
}
