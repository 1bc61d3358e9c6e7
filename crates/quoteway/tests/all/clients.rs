//! Applications on `client-io` at a server of their own process: consumers, interactive and non-interactive providers.

use client::images::{Condition, Images};
use client::members::Kind;
use client::publication::{Event, PublicationConfig, Unpublished};
use client::queue::QueueConfig;
use client::{Fields, Interest, Layout};
use client_io::{Followed, Notice, Publisher, Session, SessionConfig, Step, Subscription, Transport};
use measure::ports::reserve;
use omm::consumer::ItemRequest;
use rwf::dictionary::Dictionary;
use rwf::msg::{Domain, GenericFlags, GenericMsg, Msg, MsgClass, NakCode, PostMsg, RefreshFlags};
use rwf::rdm::login::name_type;
use rwf::rdm::request::View;
use rwf::wire::encode_growing;
use rwf::{DataType, Map, MapAction, MapEncoder, MapHead, Primitive, SetScope, StreamState, peek};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::chain::{From, Process, config_file, port_of, serve, start};
use crate::tokens::{Key, publish};

const PATIENCE: Duration = Duration::from_mins(1);
const FEED: &str = "FEED";
const BID: i16 = 22;

#[derive(Fields, Default, Debug, PartialEq)]
struct Quote {
    bid: Option<f64>,
    ask: Option<f64>,
}

/// An interactive provider of market prices and symbol lists that takes posts, and lets requests for what is to come wait.
fn provider(port: u16) -> Publisher {
    let config = PublicationConfig {
        domains: vec![Domain::MARKET_PRICE, Domain::SYMBOL_LIST],
        unpublished: Unpublished::Wait,
        takes_posts: true,
        ..PublicationConfig::new(FEED)
    };
    Publisher::listen(config, ([127, 0, 0, 1], port).into()).expect("a port")
}

/// A server in front of a provider, and where consumers connect.
fn server_of(provider: &Publisher) -> (Process, u16) {
    let address = provider.address().expect("an address").to_string();
    serve(&["--route", &address])
}

fn session_config(port: u16) -> SessionConfig {
    let mut config = SessionConfig::new(&format!("127.0.0.1:{port}"), "user").expect("a server");
    let consumer = &mut config.client.consumer;
    (consumer.connections.retry_min_ns, consumer.connections.retry_max_ns) = (10_000_000, 50_000_000);
    consumer.retry_ns = 10_000_000;
    config
}

/// A session that knows the service.
fn session(port: u16, service: &str) -> Session {
    let session = Session::connect(session_config(port)).expect("sockets");
    await_service(&session, service);
    session
}

fn await_service(session: &Session, service: &str) {
    let status = session.wait(PATIENCE, |status| status.services.iter().any(|up| up == service));
    assert!(status.is_logged_in && status.services.iter().any(|up| up == service), "{status:?}");
}

fn bid(value: f64) -> [(&'static str, Primitive<'static>); 1] {
    [("BID", Primitive::Double(value))]
}

/// Opens items as a request says, of the feed.
fn open(session: &Session, names: &[&str], change: impl FnOnce(&mut ItemRequest)) -> Subscription {
    let mut request = ItemRequest::new(FEED, "");
    change(&mut request);
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    session.subscribe_to(Interest { request, names }, QueueConfig::default()).expect("room")
}

/// The next message: class, whether it is the last, the message.
fn next(items: &mut Subscription) -> (MsgClass, bool, Vec<u8>) {
    let message = items.next(Some(PATIENCE)).expect("it goes on").expect("a message in time");
    (message.class, message.is_final, message.msg.to_vec())
}

/// Field ids of a message's field list.
fn fids(msg: &[u8]) -> Vec<i16> {
    let body = rwf::peek::body(msg).expect("a body");
    let list = rwf::FieldList::decode(body, &SetScope::NONE).expect("fields");
    list.entries().map(|entry| entry.expect("a field").fid).collect()
}

fn quote(msg: &[u8], layout: &Layout<Quote>) -> Quote {
    let mut quote = Quote::default();
    layout.apply(&mut quote, rwf::peek::body(msg).expect("a body")).expect("fields");
    quote
}

fn layout() -> Layout<Quote> {
    Layout::of(&Dictionary::builtin()).expect("known fields")
}

/// The next event of a provider that `is_it`.
fn await_event(provider: &Publisher, what: &str, mut is_it: impl FnMut(&Event) -> bool) -> Event {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(event) = provider.next_event(Duration::from_secs(1)).filter(&mut is_it) {
            return event;
        }
    }
    panic!("{what} does not come");
}

/// How a post is answered.
fn await_answer(session: &Session, id: u32) -> Result<(), NakCode> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        match session.next_notice(Duration::from_secs(1)) {
            Some(Notice::Client(client::Event::PostAnswered { id: answered, nak, .. })) if answered == id => {
                return nak.map_or(Ok(()), Err);
            }
            Some(Notice::Client(client::Event::PostUnanswered { id: of, .. })) if of == id => panic!("no answer"),
            _ => {}
        }
    }
    panic!("no answer in time");
}

/// Waits until the server has an item of a non-interactive provider: that it was sent says nothing about that, and who asks before is refused.
fn await_published(session: &Session, service: &str, name: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < end, "{name} is not published");
        let request = ItemRequest { streaming: false, ..ItemRequest::new(service, "") };
        let interest = Interest { request, names: vec![name.to_owned()] };
        let mut items = session.subscribe_to(interest, QueueConfig::default()).expect("room");
        if next(&mut items).0 == MsgClass::REFRESH {
            return;
        }
    }
}

fn fields(values: &[(&str, Primitive<'_>)]) -> Vec<u8> {
    let mut body = Vec::new();
    client::fields::write(&Dictionary::builtin(), values, &mut body).expect("known fields");
    body
}

fn post(body: &[u8]) -> PostMsg<'_> {
    PostMsg { container: DataType::FIELD_LIST, body, ..PostMsg::new(Domain::MARKET_PRICE, 0) }
}

/// Applies what comes until `is_so`.
fn until(items: &mut Subscription, images: &mut Images, what: &str, mut is_so: impl FnMut(&Images) -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so(images) {
        assert!(Instant::now() < end, "{what} does not come; {items:?}");
        for message in items.next_batch(Some(Duration::from_millis(200))).expect("it goes on") {
            images.apply(&message);
        }
    }
}

fn held_bid(images: &Images, item: u32, layout: &Layout<Quote>) -> Option<f64> {
    let mut quote = Quote::default();
    layout.apply(&mut quote, images.payload(item, &mut Vec::new())?).expect("fields");
    quote.bid
}

#[test]
fn a_user_logs_in_with_directory_and_the_providers_dictionary() {
    let provider = provider(0);
    let (_server, port) = server_of(&provider);
    let session = session(port, FEED);
    let known = |status: &client_io::Status| status.dictionary.is_some();
    let status = session.wait(PATIENCE, known);
    let downloaded = status.dictionary.expect("it is downloaded");
    let own = provider.dictionary();
    let same = |fid: i16| {
        let both = [&downloaded, own].map(|d| d.field(fid).map(|f| (f.acronym().to_owned(), f.data_type())));
        both[0] == both[1]
    };
    assert_eq!(downloaded.fields().count(), own.fields().count());
    assert!((i16::MIN..=i16::MAX).all(same), "each field is as the provider has it");
    assert_eq!((status.services, status.refusal), (vec![FEED.to_owned()], None));
}

/// The same client, and nothing but its transport is another: there, a connection takes no messages while it is being made.
#[test]
fn items_come_in_binary_websocket_frames_as_they_do_without() {
    let provider = provider(0);
    let (_server, port) = server_of(&provider);
    provider.publish("A", &bid(1.5)).expect("published");
    let session =
        Session::connect(SessionConfig { transport: Transport::WebSocket, ..session_config(port) }).expect("sockets");
    await_service(&session, FEED);
    let mut items = open(&session, &["A"], |_| {});
    let (class, _, image) = next(&mut items);
    assert_eq!((class, quote(&image, &layout()).bid), (MsgClass::REFRESH, Some(1.5)));
    provider.publish("A", &bid(2.5)).expect("published");
    let (class, _, update) = next(&mut items);
    assert_eq!((class, quote(&update, &layout()).bid), (MsgClass::UPDATE, Some(2.5)));
}

#[test]
fn a_token_logs_in_is_refused_and_another_one_is_tried() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("issuer.jwks.json");
    let [known, unknown] = ["known", "unknown"].map(Key::new);
    publish(&file, &[&known]);
    let config = config_file(&format!("[p2ps]\ntoken_keys_file = {file:?}\n"));
    let provider = provider(0);
    let address = provider.address().expect("an address").to_string();
    let (_server, port) = serve(&["--route", &address, "--config", config.path().to_str().expect("UTF-8")]);
    let mut config = session_config(port);
    let login = &mut config.client.consumer.login;
    (login.name, login.name_type) = ("\0".to_owned(), Some(name_type::AUTHENTICATION_TOKEN));
    login.authentication_token = Some(unknown.token());
    let session = Session::connect(config).expect("sockets");
    let status = session.wait(PATIENCE, |status| status.refusal.is_some());
    let why = status.refusal.expect("it is refused");
    assert!(why.contains("a key that is not known here") && !status.is_logged_in, "{why}");
    let token = known.token();
    session.reissue_login(move |login| login.authentication_token = Some(token.clone()));
    session.restart();
    await_service(&session, FEED);
    // A new token for an open login is confirmed, and nothing else happens.
    let mut items = session.subscribe(FEED, ["A"]).expect("room");
    provider.publish("A", &bid(1.0)).expect("a field");
    assert_eq!(next(&mut items).0, MsgClass::REFRESH);
    let token = known.token();
    session.reissue_login(move |login| login.authentication_token = Some(token.clone()));
    provider.publish("A", &bid(2.0)).expect("a field");
    assert_eq!(next(&mut items).0, MsgClass::UPDATE);
    assert_eq!(session.status().connections_lost, 1, "that of the refusal");
}

#[test]
fn a_batch_has_every_image_and_update_and_a_refusal_for_what_is_not_there() {
    const ITEMS: usize = 500;
    let config = PublicationConfig::new(FEED);
    let provider = Publisher::listen(config, ([127, 0, 0, 1], 0).into()).expect("a port");
    let mut names: Vec<String> = (0..ITEMS).map(|n| format!("ITEM{n}")).collect();
    for (n, name) in names.iter().enumerate() {
        provider.publish(name, &bid(n as f64)).expect("a field");
    }
    let (_server, port) = server_of(&provider);
    let session = session(port, FEED);
    names.push("NONE".to_owned());
    let mut items = session.subscribe(FEED, names.clone()).expect("room");
    let layout = layout();
    let mut images = Images::new(ITEMS + 1, None);
    let holds = |images: &Images, round: f64| {
        (0..ITEMS).all(|n| {
            images.condition(n as u32) == Condition::Ok && held_bid(images, n as u32, &layout) == Some(round + n as f64)
        })
    };
    until(&mut items, &mut images, "the images", |images| {
        holds(images, 0.0) && images.condition(ITEMS as u32) == Condition::Closed
    });
    for round in 1..=20 {
        for (n, name) in names[..ITEMS].iter().enumerate() {
            provider.publish(name, &bid(f64::from(round) + n as f64)).expect("a field");
        }
    }
    let mut seen = [0; ITEMS];
    while seen.iter().sum::<usize>() < 20 * ITEMS {
        let message = items.next(Some(PATIENCE)).expect("it goes on").expect("in time");
        assert_eq!(message.class, MsgClass::UPDATE);
        let n = message.item as usize;
        seen[n] += 1;
        assert_eq!(quote(message.msg, &layout).bid, Some((seen[n] + n) as f64), "in order, none lost");
    }
}

#[test]
fn views_have_their_fields_and_snapshots_an_end() {
    let provider = provider(0);
    let both = |value| [("BID", Primitive::Double(value)), ("ASK", Primitive::Double(value + 1.0))];
    provider.publish("A", &both(1.0)).expect("fields");
    let (_server, port) = server_of(&provider);
    let session = session(port, FEED);
    let mut view = open(&session, &["A"], |request| request.view = Some(View::Fields(vec![BID])));
    let (class, _, image) = next(&mut view);
    assert_eq!((class, fids(&image)), (MsgClass::REFRESH, vec![BID]));
    let mut snapshot = open(&session, &["A"], |request| request.streaming = false);
    let (class, is_final, image) = next(&mut snapshot);
    assert_eq!((class, is_final, quote(&image, &layout()).bid), (MsgClass::REFRESH, true, Some(1.0)));
    let Ok(Msg::Refresh(refresh)) = Msg::decode(&image) else { panic!("a refresh") };
    assert_eq!(refresh.state.stream, StreamState::NON_STREAMING);
    let mut whole = session.subscribe(FEED, ["A"]).expect("room");
    assert_eq!(quote(&next(&mut whole).2, &layout()), Quote { bid: Some(1.0), ask: Some(2.0) });
    provider.publish("A", &both(3.0)).expect("fields");
    let (class, _, update) = next(&mut view);
    assert_eq!((class, fids(&update)), (MsgClass::UPDATE, vec![BID]));
    assert_eq!(quote(&next(&mut whole).2, &layout()), Quote { bid: Some(3.0), ask: Some(4.0) });
}

/// Two private streams of the same item, and that both end when `ends` is done to provider and server: nobody recovers them.
fn private_streams_end(ends: impl FnOnce(Publisher, Process)) {
    let provider = provider(0);
    provider.publish("A", &bid(1.0)).expect("a field");
    let (server, port) = server_of(&provider);
    let session = session(port, FEED);
    let mut streams = [0, 1].map(|_| open(&session, &["A"], |request| request.private = true));
    for stream in &mut streams {
        let (class, _, image) = next(stream);
        let Ok(Msg::Refresh(refresh)) = Msg::decode(&image) else { panic!("{class:?}") };
        assert!(refresh.flags.contains(RefreshFlags::PRIVATE_STREAM));
    }
    provider.publish("A", &bid(2.0)).expect("a field");
    for stream in &mut streams {
        let (class, _, update) = next(stream);
        assert_eq!((class, quote(&update, &layout()).bid), (MsgClass::UPDATE, Some(2.0)));
    }
    ends(provider, server);
    for stream in &mut streams {
        let (class, is_final, status) = next(stream);
        let Ok(Msg::Status(status)) = Msg::decode(&status) else { panic!("{class:?}") };
        assert_eq!((status.state.map(|state| state.stream), is_final), (Some(StreamState::CLOSED_RECOVER), true));
    }
}

#[test]
fn a_private_stream_is_its_own_and_ends_with_its_provider() {
    let mut kept = None;
    private_streams_end(|provider, server| {
        drop(provider);
        kept = Some(server);
    });
    assert!(kept.is_some());
}

#[test]
fn a_private_stream_is_its_own_and_ends_with_its_server() {
    let mut kept = None;
    private_streams_end(|provider, server| {
        drop(server);
        kept = Some(provider);
    });
    assert!(kept.is_some());
}

#[test]
fn posts_are_taken_on_and_off_stream_or_refused() {
    let provider = provider(0);
    provider.publish("A", &bid(1.0)).expect("a field");
    let (_server, port) = server_of(&provider);
    let session = session(port, FEED);
    let mut items = session.subscribe(FEED, ["A"]).expect("room");
    assert_eq!(next(&mut items).0, MsgClass::REFRESH);
    let body = fields(&bid(7.5));
    let on_stream = items.post(0, &post(&body), true).expect("it is open");
    let off_stream = session.post_off_stream((FEED, "OTHER"), &post(&body), true).expect("it is logged in");
    let mut posted: Vec<String> = [0, 1]
        .map(|_| match await_event(&provider, "a post", |event| matches!(event, Event::Posted { .. })) {
            Event::Posted { item, container, body: came } => {
                assert_eq!((container, &came), (DataType::FIELD_LIST, &body));
                item.name.into()
            }
            other => panic!("{other:?}"),
        })
        .into();
    posted.sort_unstable();
    assert_eq!(posted, ["A", "OTHER"]);
    assert_eq!((await_answer(&session, on_stream), await_answer(&session, off_stream)), (Ok(()), Ok(())));
    assert_eq!(next(&mut items).0, MsgClass::ACK, "as it came, too");
    // All see what the application publishes of the item.
    provider.publish_body(Domain::MARKET_PRICE, "A", DataType::FIELD_LIST, &body).expect("it goes on");
    assert_eq!(quote(&next(&mut items).2, &layout()).bid, Some(7.5));
    assert!(session.post_off_stream(("NO_SUCH_SERVICE", "A"), &post(&body), true).is_err());
}

#[test]
fn a_provider_that_takes_no_posts_has_them_refused() {
    let config = PublicationConfig::new(FEED);
    let provider = Publisher::listen(config, ([127, 0, 0, 1], 0).into()).expect("a port");
    provider.publish("A", &bid(1.0)).expect("a field");
    let (_server, port) = server_of(&provider);
    let session = session(port, FEED);
    let mut items = session.subscribe(FEED, ["A"]).expect("room");
    assert_eq!(next(&mut items).0, MsgClass::REFRESH);
    let id = items.post(0, &post(&fields(&bid(7.5))), true).expect("it is open");
    assert_eq!(await_answer(&session, id), Err(NakCode::DENIED_BY_SRC));
}

#[test]
fn generic_messages_go_up_and_their_answers_down() {
    let provider = provider(0);
    provider.publish("A", &bid(1.0)).expect("a field");
    let (_server, port) = server_of(&provider);
    let session = session(port, FEED);
    let mut items = open(&session, &["A"], |request| request.private = true);
    assert_eq!(next(&mut items).0, MsgClass::REFRESH);
    let body = fields(&bid(3.5));
    let (flags, container) = (GenericFlags::MESSAGE_COMPLETE, DataType::FIELD_LIST);
    let generic = GenericMsg { flags, container, body: &body, ..GenericMsg::new(Domain::MARKET_PRICE, 0) };
    assert!(items.send_generic(0, &generic).expect("it goes on"));
    let came = await_event(&provider, "the generic message", |event| matches!(event, Event::Generic { .. }));
    let Event::Generic { item, by, container, body: came } = came else { panic!("{came:?}") };
    assert_eq!((&*item.name, container, came), ("A", DataType::FIELD_LIST, body));
    let answer = fields(&bid(4.5));
    provider.send_generic(by, DataType::FIELD_LIST, &answer).expect("it goes on");
    let (class, _, msg) = next(&mut items);
    let Ok(Msg::Generic(generic)) = Msg::decode(&msg) else { panic!("{class:?}") };
    assert_eq!(generic.body, answer);
}

#[test]
fn a_symbol_list_has_its_names_and_each_can_be_opened() {
    let provider = provider(0);
    provider.publish_image(Domain::SYMBOL_LIST, "ALL", DataType::MAP, &list_of(&["A", "B"])).expect("it goes on");
    for name in ["A", "B"] {
        provider.publish(name, &bid(1.0)).expect("a field");
    }
    let (_server, port) = server_of(&provider);
    let session = session(port, FEED);
    let mut lists = open(&session, &["ALL"], |request| request.domain = Domain::SYMBOL_LIST);
    let (class, _, image) = next(&mut lists);
    let Ok(Msg::Refresh(refresh)) = Msg::decode(&image) else { panic!("{class:?}") };
    let map = Map::decode(refresh.body, &SetScope::NONE).expect("a map");
    let names: Vec<String> =
        map.entries().map(|entry| String::from_utf8_lossy(entry.expect("an entry").key).into_owned()).collect();
    assert_eq!(names, ["A", "B"]);
    let mut items = session.subscribe(FEED, names).expect("room");
    assert_eq!([next(&mut items).0, next(&mut items).0], [MsgClass::REFRESH; 2]);
}

/// The symbol list of these names, or an update that adds them.
fn list_of(names: &[&str]) -> Vec<u8> {
    let mut list = Vec::new();
    let end = encode_growing(&mut list, 0, 256, 1 << 16, |w| {
        let mut map = MapEncoder::begin(w, MapHead::new(DataType::ASCII_STRING, DataType::NO_DATA))?;
        for name in names {
            map.entry(MapAction::ADD, &Primitive::Ascii(name.as_bytes()), |_| Ok(()))?;
        }
        map.finish()
    });
    list.truncate(end.expect("room"));
    list
}

/// Takes what comes of a list until each of these members has an image. The server has opened them: their streams are below zero.
fn await_members(followed: &mut Followed, names: &[&str]) {
    let mut left: BTreeSet<&str> = names.iter().copied().collect();
    while !left.is_empty() {
        let Some(step) = followed.next(Some(PATIENCE)).expect("it goes on") else { panic!("no image of {left:?}") };
        let Step::Message(message) = step else { continue };
        assert!(peek::stream_id(message.msg).is_some_and(|id| id < 0), "asked for by the client");
        let (class, item) = (message.class, message.item);
        if class == MsgClass::REFRESH {
            left.remove(followed.name(item));
        }
    }
}

#[test]
fn a_server_opens_what_a_list_names() {
    let provider = provider(0);
    provider.publish_image(Domain::SYMBOL_LIST, "ALL", DataType::MAP, &list_of(&["A", "B"])).expect("it goes on");
    for name in ["A", "B", "C"] {
        provider.publish(name, &bid(1.0)).expect("a field");
    }
    let (_server, port) = server_of(&provider);
    let session = session(port, FEED);
    let request = ItemRequest::new(FEED, "");
    let mut followed = session.follow(Kind::SymbolList, "ALL", request, QueueConfig::default()).expect("room");
    await_members(&mut followed, &["A", "B"]);
    provider.publish_body(Domain::SYMBOL_LIST, "ALL", DataType::MAP, &list_of(&["C"])).expect("an update");
    await_members(&mut followed, &["C"]);
    assert_eq!(followed.members(), ["A", "B", "C"]);
    // Another one joins the stream that the server has opened.
    let mut items = session.subscribe(FEED, ["A"]).expect("room");
    let (class, _, image) = next(&mut items);
    assert!(class == MsgClass::REFRESH && peek::stream_id(&image).is_some_and(|id| id < 0));
    // The same with fields of its own is asked for.
    let view = ItemRequest { view: Some(View::Fields(vec![BID])), ..ItemRequest::new(FEED, "") };
    let mut some = session.follow(Kind::SymbolList, "ALL", view, QueueConfig::default()).expect("room");
    loop {
        let step = some.next(Some(PATIENCE)).expect("it goes on").expect("a message");
        if let Step::Message(message) = step {
            assert!(peek::stream_id(message.msg).is_some_and(|id| id > 0));
            break;
        }
    }
}

#[test]
fn a_non_interactive_provider_publishes_unasked_and_comes_back_after_its_death() {
    let (server, port) = serve(&[]);
    let nip = format!("127.0.0.1:{}", port_of(&server, "nip="));
    let dial = || Publisher::dial(PublicationConfig::new("OWN"), &nip, "publisher").expect("sockets");
    let published = dial();
    published.publish("A", &bid(0.0)).expect("a field");
    published.publish("B", &bid(1.0)).expect("a field");
    await_event(&published, "its login", |event| *event == Event::Ready);
    let session = session(port, "OWN");
    for name in ["A", "B"] {
        await_published(&session, "OWN", name);
    }
    let mut items = session.subscribe("OWN", ["A", "B"]).expect("room");
    let layout = layout();
    let mut images = Images::new(2, None);
    let is_whole = |images: &Images| (0..2).all(|item| images.condition(item) == Condition::Ok);
    until(&mut items, &mut images, "both images", is_whole);
    for n in 1..=1_000 {
        published.publish("A", &bid(f64::from(n))).expect("a field");
    }
    for n in 1..=1_000 {
        let (class, _, update) = next(&mut items);
        assert_eq!((class, quote(&update, &layout).bid), (MsgClass::UPDATE, Some(f64::from(n))));
    }
    // Its server answers for it: what it holds is changed, and all see that.
    let id = items.post(0, &post(&fields(&bid(-1.0))), true).expect("it is open");
    assert_eq!(await_answer(&session, id), Ok(()));
    until(&mut items, &mut images, "what was posted", |images| held_bid(images, 0, &layout) == Some(-1.0));
    published.end(Domain::MARKET_PRICE, "B", "delisted").expect("it goes on");
    until(&mut items, &mut images, "the end of B", |images| images.condition(1) == Condition::Closed);
    drop(published);
    until(&mut items, &mut images, "its death", |images| images.condition(0) == Condition::Suspect);
    let again = dial();
    again.publish("A", &bid(9.0)).expect("a field");
    until(&mut items, &mut images, "the image of the next one", |images| {
        images.condition(0) == Condition::Ok && held_bid(images, 0, &layout) == Some(9.0)
    });
}

fn publish_all(publisher: &Publisher, names: &[String], value: f64) {
    for name in names {
        publisher.publish(name, &bid(value)).expect("a field");
    }
    publisher.flush();
}

#[test]
fn consumers_and_providers_go_on_behind_the_death_of_their_server() {
    const ITEMS: usize = 200;
    let asked = provider(0);
    let route = asked.address().expect("an address").to_string();
    let (rssl, nip) = (reserve().to_string(), reserve().to_string());
    let run = || {
        let args = ["serve", "--interface", "127.0.0.1", "--rssl-port", &rssl, "--nip-port", &nip, "--route", &route];
        start(&args, &From::Output, "ready ")
    };
    let mut server = Some(run());
    let unasked = Publisher::dial(PublicationConfig::new("OWN"), &format!("127.0.0.1:{nip}"), "publisher");
    let unasked = unasked.expect("sockets");
    let names: Vec<String> = (0..ITEMS).map(|n| format!("ITEM{n}")).collect();
    let session = session(rssl.parse().expect("a number"), FEED);
    await_service(&session, "OWN");
    let dictionary = Arc::new(Dictionary::builtin());
    let layout = layout();
    let mut watched = [FEED, "OWN"].map(|service| {
        let publisher = if service == FEED { &asked } else { &unasked };
        publish_all(publisher, &names, 0.0);
        for name in &names {
            await_published(&session, service, name);
        }
        let request = ItemRequest::new(service, "");
        let interest = Interest { request, names: names.clone() };
        let items = session.subscribe_to(interest, QueueConfig::default()).expect("room");
        (items, Images::new(ITEMS, Some(Arc::clone(&dictionary))), publisher)
    });
    for round in 1..=4 {
        if round % 2 == 0 {
            // What is published meanwhile is in the images that the next server gets.
            server = None;
            let status = session.wait(PATIENCE, |status| !status.is_logged_in);
            assert!(status.lost.is_some(), "{status:?}");
        }
        for (.., publisher) in &watched {
            publish_all(publisher, &names, f64::from(round));
        }
        if server.is_none() {
            for (items, images, _) in &mut watched {
                until(items, images, "that the server is lost", |images| images.condition(0) == Condition::Suspect);
            }
            server = Some(run());
        }
        for (items, images, _) in &mut watched {
            until(items, images, "what is published now", |images| {
                (0..ITEMS as u32).all(|item| {
                    images.condition(item) == Condition::Ok && held_bid(images, item, &layout) == Some(f64::from(round))
                })
            });
        }
    }
    assert!(session.status().connections_lost >= 2);
}
