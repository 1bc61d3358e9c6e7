//! A publication and consumers that watch its items through views, pause and go on.

use crate::world::{SECOND, SERVICE, payload};
use client::publication::{Event, ItemName, Publication, PublicationConfig};
use omm::consumer::{Consumer, ConsumerConfig, ItemId, ItemRequest};
use omm::{ConnectionList, Server};
use proptest::prelude::*;
use rwf::image::{Image, Plans};
use rwf::msg::{Domain, Msg, MsgClass, NakCode, PostFlags, PostMsg};
use rwf::rdm::login;
use rwf::rdm::request::View;
use rwf::wire::Writer;
use rwf::{DataType, FieldList, SetScope};
use std::collections::{BTreeMap, BTreeSet};

type Fields = BTreeMap<i16, u64>;

fn fields(body: &[u8]) -> Fields {
    let list = FieldList::decode(body, &SetScope::NONE).expect("a field list");
    let entries = list.entries().map(|entry| entry.expect("an entry"));
    entries
        .map(|entry| (entry.fid, entry.value(DataType::UINT).expect("a value").as_u64().expect("a number")))
        .collect()
}

/// A stream as a consumer has it.
#[derive(Default)]
struct Seen {
    image: Image,
    classes: Vec<MsgClass>,
}

/// A publication with one connection, and the consumer on it.
struct Pair {
    publication: Publication,
    consumer: Consumer,
    plans: Plans,
    seen: BTreeMap<ItemId, Seen>,
}

const CONN: u64 = 1;

impl Pair {
    fn new() -> Self {
        let servers = ConnectionList::new(vec![Server::new("a", 14_002)]);
        let config = ConsumerConfig { dictionary: false, ..ConsumerConfig::new(servers, "u") };
        let mut pair = Self {
            publication: Publication::new(PublicationConfig::new(SERVICE), None),
            consumer: Consumer::new(config),
            plans: Plans::new(None),
            seen: BTreeMap::new(),
        };
        assert!(pair.consumer.poll_connect(SECOND).is_some());
        pair.publication.opened(CONN);
        pair.consumer.handle_connected(SECOND);
        pair.talk();
        assert_eq!(pair.consumer.features().view, Some(true));
        pair
    }

    fn talk(&mut self) {
        loop {
            if let Some(msg) = self.consumer.poll_transmit().map(<[u8]>::to_vec) {
                self.publication.message(CONN, &msg);
            } else if let Some(msg) = self.publication.poll_transmit(CONN).map(<[u8]>::to_vec) {
                let Some(given) = self.consumer.handle_message(SECOND, &msg) else { continue };
                let seen = self.seen.entry(given.item).or_default();
                seen.classes.push(rwf::peek::class(given.msg).expect("a class"));
                match Msg::decode(given.msg).expect("a message") {
                    Msg::Refresh(refresh) => seen.image.refresh(&refresh, &self.plans.schema()).expect("an image"),
                    Msg::Update(_) => seen.image.update_planned(given.msg, &mut self.plans).expect("an update"),
                    _ => {}
                }
            } else {
                return;
            }
        }
    }

    fn open(&mut self, name: &str, change: impl FnOnce(&mut ItemRequest)) -> ItemId {
        let mut request = ItemRequest::new(SERVICE, name);
        change(&mut request);
        let item = self.consumer.open(SECOND, request).expect("room");
        self.talk();
        item
    }

    fn publish(&mut self, name: &str, fields: &[(i16, u64)]) {
        let item = ItemName { domain: Domain::MARKET_PRICE, name: name.into() };
        self.publication.publish(&item, DataType::FIELD_LIST, &payload(fields)).expect("fields");
        self.talk();
    }

    fn fields(&self, item: ItemId) -> Option<Fields> {
        let payload = self.seen.get(&item)?.image.payload()?;
        let mut room = vec![0; 4_000];
        let mut w = rwf::wire::Writer::new(&mut room);
        payload.write(&mut w).expect("room");
        Some(fields(w.written()))
    }

    fn classes(&mut self, item: ItemId) -> Vec<MsgClass> {
        std::mem::take(&mut self.seen.entry(item).or_default().classes)
    }
}

fn view(fids: &[i16]) -> View {
    View::Fields(fids.to_vec())
}

#[test]
fn a_consumer_with_a_view_gets_its_fields_and_no_others() {
    let mut pair = Pair::new();
    pair.publish("A", &[(22, 1), (25, 2), (30, 3)]);
    let few = pair.open("A", |request| request.view = Some(view(&[25, 22])));
    let all = pair.open("A", |_| {});
    assert_eq!(pair.fields(few), Some(Fields::from([(22, 1), (25, 2)])));
    assert_eq!(pair.fields(all).expect("an image").len(), 3);
    pair.publish("A", &[(30, 4)]);
    assert_eq!(pair.classes(few), [MsgClass::REFRESH], "an update without its fields is none for it");
    pair.publish("A", &[(22, 5), (30, 6)]);
    assert_eq!((pair.fields(few), pair.classes(few)), (Some(Fields::from([(22, 5), (25, 2)])), vec![MsgClass::UPDATE]));
    pair.consumer.reissue(few, |request| request.view = Some(view(&[30])));
    pair.talk();
    assert_eq!(pair.fields(few), Some(Fields::from([(30, 6)])));
    let snapshot = pair.open("A", |request| (request.view, request.streaming) = (Some(view(&[22])), false));
    assert_eq!(pair.fields(snapshot), Some(Fields::from([(22, 5)])));
    pair.consumer.reissue(few, |request| request.view = None);
    pair.talk();
    assert_eq!(pair.fields(few), pair.fields(all));
}

#[test]
fn a_paused_stream_rests_and_has_its_image_when_it_goes_on() {
    let mut pair = Pair::new();
    pair.publish("A", &[(22, 1)]);
    let item = pair.open("A", |_| {});
    pair.consumer.reissue(item, |request| request.paused = true);
    pair.talk();
    pair.classes(item);
    pair.publish("A", &[(22, 2)]);
    assert_eq!(pair.classes(item), []);
    pair.consumer.reissue(item, |request| request.paused = false);
    pair.talk();
    assert_eq!((pair.classes(item), pair.fields(item)), (vec![MsgClass::REFRESH], Some(Fields::from([(22, 2)]))));
    pair.publish("A", &[(22, 3)]);
    assert_eq!(pair.classes(item), [MsgClass::UPDATE]);
}

#[test]
fn an_update_that_no_message_can_carry_is_refused() {
    let mut pair = Pair::new();
    pair.publish("A", &[(22, 1)]);
    let item = pair.open("A", |_| {});
    pair.classes(item);
    let (name, body) = (ItemName { domain: Domain::MARKET_PRICE, name: "A".into() }, vec![0; 16_773_121]);
    let error = pair.publication.publish(&name, DataType::FIELD_LIST, &body).expect_err("too long");
    assert!(matches!(error, rwf::image::ApplyError::TooLarge(_)), "{error:?}");
    pair.publish("A", &[(22, 2)]);
    assert_eq!(pair.classes(item), [MsgClass::UPDATE], "the item goes on");
}

#[derive(Debug, Clone)]
enum Step {
    Open { name: usize, view: Option<BTreeSet<i16>>, paused: bool },
    Reissue { at: usize, view: Option<BTreeSet<i16>>, paused: bool },
    Close { at: usize },
    Publish { name: usize, fields: BTreeMap<i16, u64> },
    End { name: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let views = || prop::option::of(prop::collection::btree_set(1..6i16, 0..4));
    prop_oneof![
        2 => (0..3usize, views(), any::<bool>()).prop_map(|(name, view, paused)| Step::Open { name, view, paused }),
        3 => (any::<usize>(), views(), any::<bool>()).prop_map(|(at, view, paused)| Step::Reissue { at, view, paused }),
        1 => any::<usize>().prop_map(|at| Step::Close { at }),
        6 => (0..3usize, prop::collection::btree_map(1..6i16, 0..100u64, 1..4))
            .prop_map(|(name, fields)| Step::Publish { name, fields }),
        1 => (0..3usize).prop_map(|name| Step::End { name }),
    ]
}

/// A stream of the model: what its consumer must have.
struct Expected {
    name: usize,
    view: Option<BTreeSet<i16>>,
    paused: bool,
    has: Fields,
}

impl Expected {
    fn look(&mut self, whole: &Fields) {
        let shows = |fid: &i16| self.view.as_ref().is_none_or(|view| view.contains(fid));
        self.has = whole.iter().filter(|(fid, _)| shows(fid)).map(|(fid, value)| (*fid, *value)).collect();
    }
}

proptest! {
    /// Whatever consumers ask for and the application publishes: each stream has the fields of its view as they are, or as they were when it was paused.
    #[test]
    fn each_stream_has_what_it_asked_for(steps in prop::collection::vec(step(), 1..60)) {
        const NAMES: [&str; 3] = ["A", "B", "C"];
        let mut pair = Pair::new();
        let mut whole: BTreeMap<usize, Fields> = BTreeMap::new();
        let mut streams: BTreeMap<ItemId, Expected> = BTreeMap::new();
        let wanted = |view: &Option<BTreeSet<i16>>| view.as_ref().map(|view| View::Fields(view.iter().copied().collect()));
        for step in steps {
            let nth = |streams: &BTreeMap<ItemId, Expected>, at: usize| streams.keys().nth(at.checked_rem(streams.len())?).copied();
            match step {
                Step::Open { name, view, paused } => {
                    let item = pair.open(NAMES[name], |request| (request.view, request.paused) = (wanted(&view), paused));
                    if let Some(fields) = whole.get(&name) {
                        let mut expected = Expected { name, view, paused, has: Fields::new() };
                        expected.look(fields);
                        streams.insert(item, expected);
                    }
                }
                Step::Reissue { at, view, paused } => {
                    let Some(item) = nth(&streams, at) else { continue };
                    let expected = streams.get_mut(&item).expect("it is there");
                    let (was_paused, is_other) = (expected.paused, expected.view != view);
                    pair.consumer.reissue(item, |request| (request.view, request.paused) = (wanted(&view), paused));
                    pair.talk();
                    (expected.view, expected.paused) = (view, paused);
                    if is_other || (was_paused && !paused) {
                        expected.look(&whole[&expected.name]);
                    }
                }
                Step::Close { at } => {
                    let Some(item) = nth(&streams, at) else { continue };
                    streams.remove(&item);
                    pair.consumer.close(SECOND, item);
                    pair.talk();
                }
                Step::Publish { name, fields } => {
                    let all: Vec<(i16, u64)> = fields.iter().map(|(fid, value)| (*fid, *value)).collect();
                    pair.publish(NAMES[name], &all);
                    let known = whole.entry(name).or_default();
                    known.extend(fields);
                    for expected in streams.values_mut().filter(|expected| expected.name == name && !expected.paused) {
                        expected.look(known);
                    }
                }
                Step::End { name } => {
                    let item = ItemName { domain: Domain::MARKET_PRICE, name: NAMES[name].into() };
                    pair.publication.end(&item, "over");
                    pair.talk();
                    whole.remove(&name);
                    streams.retain(|_, expected| expected.name != name);
                }
            }
            for (item, expected) in &streams {
                prop_assert_eq!(pair.fields(*item), Some(expected.has.clone()), "{:?}", item);
            }
        }
        pair.publication.closed(CONN);
    }
}

fn written(encode: impl Fn(&mut Writer<'_>) -> Result<(), rwf::EncodeError>) -> Vec<u8> {
    let mut buf = [0; 1_024];
    let mut w = Writer::new(&mut buf);
    encode(&mut w).expect("room");
    w.written().to_vec()
}

/// The answer of a publication that is logged in at a server to a post that comes from there, and whether it tells of the post.
fn answer_at_server(takes_posts: bool) -> (Option<NakCode>, u32, bool) {
    let servers = ConnectionList::new(vec![Server::new("adh", 14_003)]);
    let login = login::Request { name: "nip".to_owned(), ..login::Request::default() };
    let config = PublicationConfig { takes_posts, ..PublicationConfig::new(SERVICE) };
    let mut publication = Publication::new(config, Some((servers, login)));
    let item = ItemName { domain: Domain::MARKET_PRICE, name: "A".into() };
    let body = payload(&[(22, 1)]);
    publication.publish(&item, DataType::FIELD_LIST, &body).expect("an image");
    let sent = |publication: &mut Publication| {
        let publisher = publication.publisher().expect("it dials");
        std::iter::from_fn(|| publisher.poll_transmit().map(<[u8]>::to_vec)).collect::<Vec<_>>()
    };
    let publisher = publication.publisher().expect("it dials");
    assert!(publisher.poll_connect(0).is_some());
    publisher.handle_connected(0);
    let asked = sent(&mut publication).remove(0);
    let Ok(Msg::Request(asked)) = Msg::decode(&asked) else { panic!("no login") };
    let asked = login::Request::decode(&asked).expect("a login");
    let accepted = login::Refresh::accept(&asked, login::Features::default(), "");
    publication.publisher_message(0, &written(|w| accepted.encode(w)));
    let published = sent(&mut publication);
    let stream_id = published.iter().filter_map(|msg| rwf::peek::stream_id(msg)).min().expect("a stream");
    let domain = Domain::MARKET_PRICE;
    let flags = PostFlags::ACK | PostFlags::POST_COMPLETE;
    let container = DataType::FIELD_LIST;
    let post = PostMsg { flags, post_id: Some(7), container, body: &body, ..PostMsg::new(domain, stream_id) };
    publication.publisher_message(1, &written(|w| post.encode(w)));
    let answers = sent(&mut publication);
    let [answer] = &answers[..] else { panic!("{} answers", answers.len()) };
    let Ok(Msg::Ack(ack)) = Msg::decode(answer) else { panic!("no acknowledgement") };
    assert_eq!((ack.stream_id, ack.domain), (stream_id, domain));
    let is_told = std::iter::from_fn(|| publication.poll_event()).any(|event| matches!(event, Event::Posted { .. }));
    (ack.nak_code, ack.ack_id, is_told)
}

#[test]
fn a_post_that_comes_from_a_server_is_acknowledged_and_told_or_refused() {
    assert_eq!(answer_at_server(true), (None, 7, true));
    assert_eq!(answer_at_server(false), (Some(NakCode::DENIED_BY_SRC), 7, false));
}
