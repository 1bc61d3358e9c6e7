//! The provider as a consumer sees it, message by message.

use super::super::{Posted, ProviderConfig, market::Market};
use super::*;
use crate::generator::{Generator, GeneratorConfig};
use crate::session::{Calendar, SECOND};
use rwf::dictionary::Dictionary;
use rwf::msg::{CloseMsg, GenericFlags, GenericMsg, Msg, MsgKey, PostFlags, RequestFlags, RequestMsg, StatusMsg};
use rwf::rdm::directory::{Part, filter};
use rwf::rdm::request::Payload;
use rwf::rdm::{dictionary, directory, login};
use rwf::wire::Writer;
use rwf::{EncodeError, FieldList, Map, SetScope, StateCode};
use std::sync::Arc;

struct Peer {
    session: Session,
    market: Market<Generator>,
}

impl Peer {
    fn new() -> Self {
        let generator =
            Generator::new(GeneratorConfig { seed: 1, rate: 1.0, calendar: Calendar::new(20_000 * 86_400 * SECOND) });
        let provider = Provider::new(ProviderConfig::default(), Arc::new(Dictionary::builtin()));
        Self { session: Session::new(SessionId(3), &provider), market: Market::new(generator, 1) }
    }

    fn logged_in() -> Self {
        let mut peer = Self::new();
        let replies = peer.ask(|w| login::Request { name: "u".to_owned(), ..login::Request::default() }.encode(w));
        assert_eq!(replies.len(), 1);
        peer
    }

    fn ask(&mut self, encode: impl FnOnce(&mut Writer<'_>) -> Result<(), EncodeError>) -> Vec<Vec<u8>> {
        let mut buffer = vec![0; 64 * 1024];
        let mut w = Writer::new(&mut buffer);
        encode(&mut w).unwrap();
        let mut replies = Vec::new();
        self.session.message(&mut self.market, w.written(), &mut |m| replies.push(m.to_vec()));
        replies
    }

    fn request(&mut self, stream_id: i32, domain: Domain, name: &str, flags: RequestFlags) -> Vec<Vec<u8>> {
        let key = MsgKey { name_type: Some(1), ..MsgKey::item(1, name.as_bytes()) };
        self.ask(|w| RequestMsg { flags, key, ..RequestMsg::new(domain, stream_id) }.encode(w))
    }

    fn updates(&mut self, until: u64) -> Vec<Vec<u8>> {
        let mut updates = Vec::new();
        self.market.advance(until, usize::MAX, None, &mut |session, m| {
            assert_eq!(session, SessionId(3));
            updates.push(m.to_vec());
        });
        updates
    }
}

fn refresh(msg: &[u8]) -> RefreshMsg<'_> {
    match Msg::decode(msg) {
        Ok(Msg::Refresh(refresh)) => refresh,
        other => panic!("{other:?}"),
    }
}

fn refusal(replies: &[Vec<u8>]) -> (StateCode, String) {
    assert_eq!(replies.len(), 1);
    match Msg::decode(&replies[0]) {
        Ok(Msg::Status(status)) => {
            let state = status.state.unwrap();
            assert_eq!((state.stream, state.data), (StreamState::CLOSED, DataState::SUSPECT));
            (state.code, state.text_lossy().into_owned())
        }
        other => panic!("{other:?}"),
    }
}

const STREAMING: RequestFlags = RequestFlags::STREAMING;

#[test]
fn login_directory_and_dictionaries_are_answered() {
    let mut peer = Peer::new();
    let early = peer.request(5, Domain::MARKET_PRICE, "IBM.N", STREAMING);
    assert_eq!(refusal(&early).0, StateCode::USAGE_ERROR);

    let replies = peer.ask(|w| login::Request { name: "me".to_owned(), ..login::Request::default() }.encode(w));
    let login = login::Refresh::decode(&refresh(&replies[0])).unwrap();
    assert!(login.solicited && login.name == "me" && login.features.post == Some(true));

    let asked = directory::Request { stream_id: 2, streaming: true, service_id: None, filter: filter::ALL };
    let replies = peer.ask(|w| asked.encode(w));
    let shown = directory::Refresh::decode(&refresh(&replies[0])).unwrap();
    assert!(shown.solicited && shown.services.len() == 1 && shown.services[0].is_usable());
    let info = shown.services[0].info.as_ref().and_then(Part::value).unwrap();
    assert_eq!((info.name.as_str(), info.qos.len()), ("DIRECT_FEED", 1));
    assert!(info.capabilities.contains(&Domain::DICTIONARY) && info.capabilities.contains(&Domain::MARKET_PRICE));
    assert_eq!(info.dictionaries_provided, ["RWFFld", "RWFEnum"]);
    assert_eq!(info.dictionaries_used, info.dictionaries_provided);

    for name in [dictionary::FIELDS, dictionary::ENUMS] {
        let asked = dictionary::Request {
            stream_id: 3,
            streaming: true,
            service_id: Some(1),
            name: name.to_owned(),
            verbosity: rwf::dictionary::Verbosity(7),
        };
        let parts = peer.ask(|w| asked.encode(w));
        assert!(!parts.is_empty());
        for (n, part) in parts.iter().enumerate() {
            let last = refresh(part).flags.contains(RefreshFlags::REFRESH_COMPLETE);
            assert_eq!(last, n + 1 == parts.len());
        }
    }
    let replies = peer.request(4, Domain::DICTIONARY, "Other", STREAMING);
    assert_eq!(refusal(&replies).0, StateCode::NOT_FOUND);
}

#[test]
fn an_item_has_an_image_and_then_numbered_updates_until_it_is_closed() {
    let mut peer = Peer::logged_in();
    let replies = peer.request(10, Domain::MARKET_PRICE, "IBM.N", STREAMING);
    let image = refresh(&replies[0]);
    assert_eq!((image.stream_id, image.container, image.state), (10, DataType::FIELD_LIST, State::OPEN_OK));
    let flags = RefreshFlags::SOLICITED.with(RefreshFlags::REFRESH_COMPLETE).with(RefreshFlags::CLEAR_CACHE);
    assert!(image.flags.contains(flags) && image.qos == Some(Qos::REALTIME_TICK));
    let key = image.key.unwrap();
    assert_eq!((key.service_id, key.name, key.name_type), (Some(1), Some(&b"IBM.N"[..]), Some(1)));
    let fields = FieldList::decode(image.body, &SetScope::default()).unwrap();
    assert!(fields.entries().all(|e| e.is_ok()) && fields.len() >= 30);

    let mut sequence = image.seq_num.unwrap();
    let updates = peer.updates(20 * SECOND);
    assert!(updates.len() > 20);
    for update in &updates {
        let Ok(Msg::Update(update)) = Msg::decode(update) else { panic!("no update") };
        sequence += 1;
        assert_eq!((update.stream_id, update.seq_num, update.container), (10, Some(sequence), DataType::FIELD_LIST));
        assert!(FieldList::decode(update.body, &SetScope::default()).unwrap().entries().all(|e| e.is_ok()));
    }
    // A reissue brings a new image, or none if none is wanted.
    let again = peer.request(10, Domain::MARKET_PRICE, "IBM.N", STREAMING);
    assert_eq!(refresh(&again[0]).seq_num, Some(sequence));
    assert!(peer.request(10, Domain::MARKET_PRICE, "IBM.N", STREAMING.with(RequestFlags::NO_REFRESH)).is_empty());

    assert_eq!(peer.session.open_items(), 1);
    assert!(peer.ask(|w| CloseMsg::new(Domain::MARKET_PRICE, 10).encode(w)).is_empty());
    assert_eq!((peer.session.open_items(), peer.updates(40 * SECOND).len()), (0, 0));
}

#[test]
fn a_snapshot_leaves_no_watcher_and_the_end_of_the_session_none_either() {
    let mut peer = Peer::logged_in();
    let replies = peer.request(10, Domain::MARKET_PRICE, "SPY.P", RequestFlags::NONE);
    assert_eq!(refresh(&replies[0]).state.stream, StreamState::NON_STREAMING);
    assert!(peer.updates(10 * SECOND).is_empty());
    peer.request(11, Domain::MARKET_PRICE, "SPY.P", STREAMING);
    assert!(!peer.updates(20 * SECOND).is_empty());
    peer.ask(|w| login::encode_close(1, w));
    assert!(peer.updates(30 * SECOND).is_empty() && peer.session.open_items() == 0);
}

#[test]
fn what_cannot_be_had_is_refused_with_a_reason() {
    let mut peer = Peer::logged_in();
    let refused = |peer: &mut Peer, domain, name| refusal(&peer.request(9, domain, name, STREAMING));
    assert_eq!(refused(&mut peer, Domain::MARKET_PRICE, "!none").0, StateCode::NOT_FOUND);
    assert_eq!(refused(&mut peer, Domain::YIELD_CURVE, "IBM.N").0, StateCode::USAGE_ERROR);
    assert_eq!(refused(&mut peer, Domain::MARKET_BY_PRICE, ".DJI").0, StateCode::NOT_FOUND);
    let key = MsgKey { name_type: Some(1), ..MsgKey::item(77, b"IBM.N") };
    let replies = peer.ask(|w| RequestMsg { key, ..RequestMsg::new(Domain::MARKET_PRICE, 9) }.encode(w));
    let (code, text) = refusal(&replies);
    assert!(code == StateCode::SOURCE_UNKNOWN && text.contains("77") && text.contains("DIRECT_FEED"), "{text}");
}

#[test]
fn books_come_in_parts_that_belong_together() {
    let mut peer = Peer::logged_in();
    for (stream_id, domain) in [(20, Domain::MARKET_BY_PRICE), (21, Domain::MARKET_BY_ORDER)] {
        let parts = peer.request(stream_id, domain, "IBM.N", STREAMING);
        let mut entries = 0;
        for (n, part) in parts.iter().enumerate() {
            let part = refresh(part);
            assert_eq!(part.part_num, Some(n as u16));
            assert_eq!(part.flags.contains(RefreshFlags::REFRESH_COMPLETE), n + 1 == parts.len());
            assert_eq!(part.flags.contains(RefreshFlags::CLEAR_CACHE), n == 0);
            let map = Map::decode(part.body, &SetScope::default()).unwrap();
            assert_eq!(map.summary().is_some(), n == 0);
            entries += map.entries().map(Result::unwrap).count();
        }
        assert!(entries >= 20, "{entries}");
    }
    let updates = peer.updates(10 * SECOND);
    assert!(updates.iter().any(|m| peek_domain(m) == Domain::MARKET_BY_ORDER));
    assert!(updates.iter().any(|m| peek_domain(m) == Domain::MARKET_BY_PRICE));
}

fn peek_domain(msg: &[u8]) -> Domain {
    rwf::peek::domain(msg).unwrap()
}

#[test]
fn a_symbol_list_names_items_that_can_be_opened() {
    let mut peer = Peer::logged_in();
    let replies = peer.request(40, Domain::SYMBOL_LIST, "0#ALL", STREAMING);
    let list = refresh(&replies[0]);
    assert_eq!((list.container, list.part_num), (DataType::MAP, Some(0)));
    let map = Map::decode(list.body, &SetScope::default()).unwrap();
    assert_eq!((map.key_type, map.container), (DataType::ASCII_STRING, DataType::NO_DATA));
    let names: Vec<String> = map.entries().map(|e| String::from_utf8(e.unwrap().key.to_vec()).unwrap()).collect();
    assert!(names.contains(&"IBM.N".to_owned()) && names.len() > 10);
    for (name, stream_id) in names.iter().zip(50..) {
        assert_eq!(refresh(&peer.request(stream_id, Domain::MARKET_PRICE, name, STREAMING)[0]).stream_id, stream_id);
    }
    assert_eq!(refusal(&peer.request(41, Domain::SYMBOL_LIST, "IBM.N", STREAMING)).0, StateCode::NOT_FOUND);
    peer.ask(|w| CloseMsg::new(Domain::SYMBOL_LIST, 40).encode(w));
    assert_eq!(peer.session.open_items(), names.len());
}

#[test]
fn a_batch_opens_one_stream_for_each_name() {
    let mut peer = Peer::logged_in();
    let names: Vec<&[u8]> = vec![b"IBM.N", b"!bad", b"TRI.N"];
    let mut body = vec![0; 256];
    let mut w = Writer::new(&mut body);
    Payload { items: Some(names), ..Payload::default() }.encode(&mut w).unwrap();
    let replies = peer.ask(|out| {
        RequestMsg {
            flags: STREAMING.with(RequestFlags::HAS_BATCH),
            container: DataType::ELEMENT_LIST,
            key: MsgKey { service_id: Some(1), ..MsgKey::EMPTY },
            body: w.written(),
            ..RequestMsg::new(Domain::MARKET_PRICE, 30)
        }
        .encode(out)
    });
    let streams: Vec<i32> = replies.iter().map(|m| rwf::peek::stream_id(m).unwrap()).collect();
    assert_eq!(streams, [30, 31, 32, 33]);
    let Ok(Msg::Status(status)) = Msg::decode(&replies[0]) else { panic!("no status") };
    assert_eq!(status.state.unwrap().stream, StreamState::CLOSED);
    assert_eq!(refusal(&replies[2..3]).0, StateCode::NOT_FOUND);
    assert_eq!(peer.session.open_items(), 2);
}

#[test]
fn posts_are_acknowledged_and_generic_messages_come_back() {
    let mut peer = Peer::logged_in();
    peer.request(10, Domain::MARKET_PRICE, "IBM.N", STREAMING);
    let ack = |replies: Vec<Vec<u8>>| match Msg::decode(&replies[0]) {
        Ok(Msg::Ack(ack)) => (ack.ack_id, ack.nak_code, ack.seq_num),
        other => panic!("{other:?}"),
    };
    let post = |stream_id| PostMsg {
        flags: PostFlags::ACK.with(PostFlags::POST_COMPLETE),
        post_id: Some(42),
        seq_num: Some(7),
        ..PostMsg::new(Domain::MARKET_PRICE, stream_id)
    };
    assert_eq!(ack(peer.ask(|w| post(10).encode(w))), (42, None, Some(7)));
    let off_stream = PostMsg { key: Some(MsgKey::item(1, b"TRI.N")), ..post(1) };
    assert_eq!(ack(peer.ask(|w| off_stream.encode(w))).1, None, "off-stream, on the login's stream");
    assert_eq!(ack(peer.ask(|w| post(1).encode(w))).1, Some(NakCode::INVALID_CONTENT), "for no item");
    let names: Vec<String> = peer.session.take_posts().into_iter().map(|post| post.name).collect();
    assert_eq!(names, ["IBM.N", "TRI.N"]);
    assert_eq!(ack(peer.ask(|w| post(99).encode(w))).1, Some(NakCode::NOT_OPEN));
    let silent = PostMsg { flags: PostFlags::POST_COMPLETE, ..post(10) };
    assert!(peer.ask(|w| silent.encode(w)).is_empty());

    let generic = GenericMsg {
        flags: GenericFlags::MESSAGE_COMPLETE,
        seq_num: Some(5),
        ..GenericMsg::new(Domain::MARKET_PRICE, 10)
    };
    let replies = peer.ask(|w| generic.encode(w));
    assert!(matches!(Msg::decode(&replies[0]), Ok(Msg::Generic(g)) if g.seq_num == Some(5)));
}

#[test]
fn a_post_of_a_message_says_what_is_to_be_published() {
    let mut peer = Peer::logged_in();
    peer.request(10, Domain::MARKET_PRICE, "IBM.N", STREAMING);
    let mut inner = vec![0; 256];
    let mut w = Writer::new(&mut inner);
    let state = State::new(StreamState::OPEN, rwf::DataState::SUSPECT, StateCode::NONE, "posted");
    StatusMsg { state: Some(state), ..StatusMsg::new(Domain::MARKET_PRICE, 0) }.encode(&mut w).unwrap();
    let inner = w.written().to_vec();
    let post = PostMsg { container: DataType::MSG, body: &inner, ..PostMsg::new(Domain::MARKET_PRICE, 10) };
    assert!(peer.ask(|w| post.encode(w)).is_empty());
    let posts = peer.session.take_posts();
    assert!(matches!(posts[..], [Post { what: Posted::Status(_), .. }]), "{posts:?}");
    let mut got = Vec::new();
    assert!(peer.market.post(&posts[0], &mut |_, m| got.push(m.to_vec())));
    let Ok(Msg::Status(status)) = Msg::decode(&got[0]) else { panic!("no status") };
    assert_eq!((status.stream_id, status.state), (10, Some(state)));
}

#[test]
fn pranks_reach_the_streams_they_are_for() {
    let mut peer = Peer::logged_in();
    peer.request(10, Domain::MARKET_PRICE, "IBM.N", STREAMING);
    peer.request(11, Domain::MARKET_PRICE, "TRI.N", STREAMING);
    let play = |peer: &mut Peer, name: Option<&str>, prank: Prank<'_>| {
        let mut got = Vec::new();
        let count = peer.session.prank(&mut peer.market, name, prank, &mut |m| got.push(m.to_vec()));
        assert_eq!(count, got.len());
        got
    };
    let suspect = State::new(StreamState::OPEN, rwf::DataState::SUSPECT, StateCode::NONE, "x");
    let got = play(&mut peer, None, Prank::State(suspect));
    assert_eq!(got.iter().filter_map(|m| rwf::peek::stream_id(m)).collect::<Vec<_>>(), [10, 11]);
    let got = play(&mut peer, Some("TRI.N"), Prank::Image);
    let Ok(Msg::Refresh(image)) = Msg::decode(&got[0]) else { panic!("no refresh") };
    assert!(!image.flags.contains(RefreshFlags::SOLICITED) && image.stream_id == 11);
    let got = play(&mut peer, Some("IBM.N"), Prank::Malformed);
    let Ok(Msg::Update(update)) = Msg::decode(&got[0]) else { panic!("no update") };
    let list = rwf::FieldList::decode(update.body, &rwf::SetScope::default()).unwrap();
    assert!(list.entries().any(|entry| entry.is_err()));
    let closed = State::new(StreamState::CLOSED_RECOVER, rwf::DataState::SUSPECT, StateCode::NONE, "x");
    assert_eq!(play(&mut peer, Some("IBM.N"), Prank::State(closed)).len(), 1);
    assert_eq!((peer.session.open_items(), play(&mut peer, Some("IBM.N"), Prank::Image).len()), (1, 0));
}

#[test]
fn bytes_that_are_no_message_do_no_harm() {
    let mut peer = Peer::logged_in();
    for bytes in [&[][..], &[0], &[0xFF; 40], &[0, 9, 31, 6, 0, 0, 0, 1, 0, 0, 0]] {
        peer.session.message(&mut peer.market, bytes, &mut |_| panic!("an answer to nonsense"));
    }
    assert_eq!(peer.session.strange(), 4);
}
